"""Items, etags and writes without a response body through the synchronous Python client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy, DatabaseProxy
from azure.cosmos.exceptions import (
    CosmosAccessConditionFailedError,
    CosmosResourceExistsError,
)

from perseid.clock import MovableClock
from tests.sdk.conftest import Recorder, Reopen
from tests.sdk.python_helpers import ETAG, GUID, OTHER_ETAG, SYSTEM, create_container, ids_of
from tests.support.sdk import refused

MEGABYTE = 1024 * 1024

# Items --------------------------------------------------------------------------------------------


def test_item_lifecycle(container: ContainerProxy, exchanges: Recorder) -> None:
    body = {"id": "1", "pk": "a", "nested": {"list": [1, "two", None, True, {"x": 1.5}]}}
    created = container.create_item(body)
    assert {name: created[name] for name in body} == body
    assert set(created) == set(body) | SYSTEM | {"_attachments"}
    assert created["_attachments"] == "attachments/"
    assert created["_self"] == f"{container.read()['_self']}docs/{created['_rid']}/"
    assert ETAG.fullmatch(created["_etag"])
    assert int(created["_etag"].split("-")[-1][:8], 16) == created["_ts"]
    assert created.get_response_headers()["etag"] == created["_etag"]

    assert container.read_item("1", "a") == created
    replaced = container.replace_item("1", {"id": "1", "pk": "a", "v": 2})
    assert replaced["v"] == 2
    assert "nested" not in replaced
    assert (replaced["_rid"], replaced["_self"]) == (created["_rid"], created["_self"])
    assert replaced["_etag"] != created["_etag"]
    upserted = container.upsert_item({"id": "1", "pk": "a", "v": 3})
    assert upserted["_rid"] == created["_rid"]
    assert container.read_item("1", "a") == upserted

    container.delete_item("1", "a")
    statuses = [(each.method, each.status) for each in exchanges if "/docs/" in each.path]
    assert statuses == [
        ("POST", 201), ("GET", 200), ("PUT", 200), ("POST", 200), ("GET", 200), ("DELETE", 204),
    ]  # fmt: skip
    for call in (
        lambda: container.read_item("1", "a"),
        lambda: container.delete_item("1", "a"),
        lambda: container.replace_item("1", {"id": "1", "pk": "a"}),
    ):
        with refused(404, 0, "NotFound"):
            call()
    again = container.upsert_item({"id": "1", "pk": "a"})
    assert exchanges[-1].status == 201
    assert again["_rid"] != created["_rid"]


def test_first_item_call_of_a_stranger(
    container: ContainerProxy, reopen: Reopen, exchanges: Recorder
) -> None:
    seen = Recorder()
    other = reopen(raw_response_hook=seen.note).get_container_client("c")
    other.create_item({"id": "1", "pk": "a"})
    assert seen.outcomes() == [("GET", 200), ("POST", 201)]
    seen.clear()
    other.read_item("1", "a")
    assert [(each.path.split("/")[-2], each.status) for each in seen] == [
        ("pkranges", 200), ("pkranges", 304), ("1", 200),
    ]  # fmt: skip


def test_duplicate_items(container: ContainerProxy) -> None:
    container.create_item({"id": "1", "pk": "a"})
    with pytest.raises(CosmosResourceExistsError) as caught:
        container.create_item({"id": "1", "pk": "a"})
    assert (caught.value.status_code, caught.value.sub_status or 0) == (409, 0)
    assert "Entity with the specified id already exists in the system." in str(caught.value)
    container.create_item({"id": "1", "pk": "b"})
    assert len(list(container.read_all_items())) == 2


def test_dictionaries_address_items_by_rid(container: ContainerProxy, exchanges: Recorder) -> None:
    item = container.create_item({"id": "1", "pk": "a"})
    assert container.read_item(item, "a") == item
    assert exchanges[-1].path == f"/{item['_self']}"
    item = container.replace_item(item, item | {"v": 2})
    assert exchanges[-1].path == f"/{item['_self']}"
    assert container.read_item("1", "a")["v"] == 2
    with refused(404, 0):
        container.read_item(item, "b")
    container.delete_item(item, "a")
    assert exchanges[-1].path == f"/{item['_self']}"
    with refused(404, 0):
        container.read_item(item, "a")


def test_replace_renames(container: ContainerProxy) -> None:
    first = container.create_item({"id": "old", "pk": "a"})
    container.create_item({"id": "taken", "pk": "a"})
    renamed = container.replace_item("old", {"id": "new", "pk": "a"})
    assert renamed["_rid"] == first["_rid"]
    assert container.read_item("new", "a") == renamed
    assert container.read_item(first, "a") == renamed
    with refused(404, 0):
        container.read_item("old", "a")
    with refused(409, 0):
        container.replace_item("new", {"id": "taken", "pk": "a"})
    assert sorted(ids_of(container.read_all_items())) == ["new", "taken"]


def test_replace_keeps_the_partition_key(container: ContainerProxy) -> None:
    item = container.create_item({"id": "1", "pk": "a"})
    # The client takes the key from the new body: in that partition there is no such item.
    with refused(404, 0):
        container.replace_item("1", {"id": "1", "pk": "b"})
    with refused(404, 0):
        container.replace_item(item, {"id": "1", "pk": "b"})
    assert container.read_item("1", "a") == item


def test_bodies_survive(container: ContainerProxy) -> None:
    body = {
        "id": "1",
        "pk": "a",
        "integers": [0, 1, -1, 2**53 - 1, 1 - 2**53],
        "fractions": [0.5, -1.25, 1e-7, 1.7976931348623157e308],
        "text": 'ünï ☃ 😀 "quoted" \\ \u0000 \n',
        "empty": [{}, [], "", None, False],
        "_mine": "kept",
        "deep": {"er": {"est": [[[["x"]]]]}},
    }
    container.create_item(body)
    read = container.read_item("1", "a")
    assert {name: read[name] for name in body} == body
    assert [type(each) for each in read["integers"]] == [int] * 5
    assert list(read)[: len(body)] == list(body)


def test_compact_bodies_are_the_same(container: ContainerProxy, reopen: Reopen) -> None:
    other = reopen(enable_compact_utf8_item_writes=True).get_container_client("c")
    other.create_item({"id": "ü", "pk": "☃", "text": "😀"})
    assert container.read_item("ü", "☃")["text"] == "😀"


def test_system_properties_are_the_servers(container: ContainerProxy) -> None:
    forged = {"_rid": "x", "_self": "y", "_etag": "z", "_ts": 1, "_attachments": "w"}
    made = container.create_item({"id": "1", "pk": "a"} | forged)
    assert all(made[name] != value for name, value in forged.items())
    assert container.read_item("1", "a") == made


@pytest.mark.parametrize(
    "item_id",
    [
        " leading", "in ner", "Ünïcödé ☃ 😀", ",=.:~+-@()^$&;'", "{}[]!_|<>`\"", "%20", "a%2Fb",
        "%", "+", "docs", "A", "x" * 1023, "😀" * 255,
    ],
)  # fmt: skip
def test_ids_that_round_trip(container: ContainerProxy, item_id: str, exchanges: Recorder) -> None:
    container.create_item({"id": item_id, "pk": "a"})
    assert container.read_item(item_id, "a")["id"] == item_id
    assert container.replace_item(item_id, {"id": item_id, "pk": "a", "v": 2})["v"] == 2
    container.delete_item(item_id, "a")
    assert list(container.read_all_items()) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"pk": "a"}, ""),
        ({"id": None, "pk": "a"}, ""),
        ({"id": "", "pk": "a"}, "less than '1024' characters."),
        ({"id": "x" * 1024, "pk": "a"}, "less than '1024' characters."),
        ({"id": "😀" * 256, "pk": "a"}, "less than '1024' characters."),
        ({"id": {}, "pk": "a"}, ""),
    ],
)
def test_bad_item_ids(container: ContainerProxy, body: dict[str, Any], text: str) -> None:
    with refused(400, 0, text):
        container.create_item(body)
    with refused(400, 0, text):
        container.upsert_item(body)


def test_automatic_ids(container: ContainerProxy) -> None:
    made = container.create_item({"pk": "a"}, enable_automatic_id_generation=True)
    assert container.read_item(made["id"], "a") == made


@pytest.mark.parametrize("length", [2 * MEGABYTE, 2 * MEGABYTE + 100_000, 5 * MEGABYTE])
def test_too_large_items(container: ContainerProxy, length: int) -> None:
    with refused(413, 0, "Request size is too large"):
        container.create_item({"id": "1", "pk": "a", "text": "x" * length})
    with refused(413, 0, "Request size is too large"):
        container.upsert_item({"id": "1", "pk": "a", "text": "x" * length})
    container.create_item({"id": "1", "pk": "a"})
    with refused(413, 0, "Request size is too large"):
        container.replace_item("1", {"id": "1", "pk": "a", "text": "x" * length})
    assert "text" not in container.read_item("1", "a")


def test_largest_item(container: ContainerProxy) -> None:
    text = "x" * (2 * MEGABYTE - 1000)
    container.create_item({"id": "1", "pk": "a", "text": text})
    assert container.read_item("1", "a")["text"] == text


def test_unique_keys(database: DatabaseProxy) -> None:
    container = create_container(
        database, unique_key_policy={"uniqueKeys": [{"paths": ["/a", "/b"]}]}
    )
    container.create_item({"id": "1", "pk": "p", "a": 1, "b": 1})
    container.create_item({"id": "2", "pk": "p", "a": 1, "b": 2})
    container.create_item({"id": "3", "pk": "q", "a": 1, "b": 1})
    container.create_item({"id": "4", "pk": "p"})
    text = "Unique index constraint violation."
    with refused(409, 0, text):
        container.create_item({"id": "5", "pk": "p", "a": 1, "b": 1})
    with refused(409, 0, text):
        container.create_item({"id": "5", "pk": "p"})
    with refused(409, 0, text):
        container.create_item({"id": "5", "pk": "p", "a": None, "b": None})
    with refused(409, 0, text):
        container.replace_item("2", {"id": "2", "pk": "p", "a": 1, "b": 1})
    with refused(409, 0, text):
        container.upsert_item({"id": "5", "pk": "p", "a": 1, "b": 2})
    container.replace_item("2", {"id": "2", "pk": "p", "a": 1, "b": 2, "same": True})
    container.delete_item("1", "p")
    container.create_item({"id": "5", "pk": "p", "a": 1, "b": 1})


@pytest.mark.parametrize("bad", [0, -2, 1.5, "10", None, 2147483648])
def test_refused_lifetimes(database: DatabaseProxy, bad: Any) -> None:
    container = create_container(database, default_ttl=-1)
    with refused(400, 0, "The input ttl"):
        container.create_item({"id": "1", "pk": "a", "ttl": bad})


def test_expired_items_are_gone(database: DatabaseProxy, clock: MovableClock) -> None:
    container = create_container(database, default_ttl=10)
    container.create_item({"id": "short", "pk": "a"})
    container.create_item({"id": "long", "pk": "a", "ttl": 1000})
    container.create_item({"id": "for ever", "pk": "a", "ttl": -1})
    clock.advance(11)
    with refused(404, 0):
        container.read_item("short", "a")
    assert ids_of(container.read_all_items()) == ["long", "for ever"]
    container.create_item({"id": "short", "pk": "a"})


# Etags and answers without a body -----------------------------------------------------------------


def test_stale_etags_fail(container: ContainerProxy) -> None:
    old = container.create_item({"id": "1", "pk": "a"})
    new = container.replace_item("1", {"id": "1", "pk": "a", "v": 2})
    stale: dict[str, Any] = {
        "etag": old["_etag"],
        "match_condition": MatchConditions.IfNotModified,
    }
    calls: list[Callable[[], Any]] = [
        lambda: container.replace_item("1", {"id": "1", "pk": "a"}, **stale),
        lambda: container.upsert_item({"id": "1", "pk": "a"}, **stale),
        lambda: container.delete_item("1", "a", **stale),
    ]
    for call in calls:
        with pytest.raises(CosmosAccessConditionFailedError) as caught:
            call()
        assert caught.value.status_code == 412
        assert "PreconditionFailed" in str(caught.value)
    assert container.read_item("1", "a") == new


def test_current_etags_pass(container: ContainerProxy, exchanges: Recorder) -> None:
    def current(etag: str) -> dict[str, Any]:
        return {"etag": etag, "match_condition": MatchConditions.IfNotModified}

    body = {"id": "1", "pk": "a"}
    item = container.create_item(body)
    item = container.replace_item("1", body, **current(item["_etag"]))
    item = container.upsert_item(body, **current(item["_etag"]))
    assert exchanges[-1].status == 200
    container.delete_item("1", "a", **current(item["_etag"]))
    # There is nothing left to be compared with.
    container.upsert_item(body, **current(item["_etag"]))
    assert exchanges[-1].status == 201


def test_other_conditions(container: ContainerProxy) -> None:
    body = {"id": "1", "pk": "a"}
    container.create_item(body)
    present: dict[str, Any] = {"match_condition": MatchConditions.IfPresent}
    container.replace_item("1", body, **present)
    container.upsert_item(body, **present)
    # Writes do not look at If-None-Match.
    other: dict[str, Any] = {"etag": OTHER_ETAG, "match_condition": MatchConditions.IfModified}
    container.replace_item("1", body, **other)
    container.delete_item("1", "a", **other)
    with refused(404, 0):
        container.replace_item("1", body, **present)


def test_unchanged_items_are_not_sent(container: ContainerProxy, exchanges: Recorder) -> None:
    item = container.create_item({"id": "1", "pk": "a"})

    def read(etag: str) -> Any:
        return container.read_item("1", "a", etag=etag, match_condition=MatchConditions.IfModified)

    same = read(item["_etag"])
    assert same == {}
    assert exchanges[-1].status == 304
    assert exchanges[-1].received["etag"] == item["_etag"]
    assert same.get_response_headers()["etag"] == item["_etag"]
    assert read(OTHER_ETAG) == item
    assert exchanges[-1].status == 200


def test_writes_without_a_response_body(container: ContainerProxy, exchanges: Recorder) -> None:
    writes: list[tuple[int, Callable[[], Any]]] = [
        (201, lambda: container.create_item({"id": "1", "pk": "a", "v": 1}, no_response=True)),
        (200, lambda: container.upsert_item({"id": "1", "pk": "a", "v": 2}, no_response=True)),
        (
            200,
            lambda: container.replace_item("1", {"id": "1", "pk": "a", "v": 3}, no_response=True),
        ),
    ]
    for version, (status, write) in enumerate(writes, 1):
        answer = write()
        assert answer == {}
        assert exchanges[-1].status == status
        headers = answer.get_response_headers()
        assert float(headers["x-ms-request-charge"]) > 0
        item = container.read_item("1", "a")
        assert (item["v"], item["_etag"]) == (version, headers["etag"])


def test_client_that_wants_no_response_bodies(container: ContainerProxy, reopen: Reopen) -> None:
    other = reopen(no_response_on_write=True).get_container_client("c")
    assert other.create_item({"id": "1", "pk": "a"}) == {}
    assert other.upsert_item({"id": "1", "pk": "a", "v": 2}, no_response=False)["v"] == 2
    assert other.read_item("1", "a")["v"] == 2


def test_response_hooks(container: ContainerProxy) -> None:
    seen: list[tuple[Any, Any]] = []

    def hook(headers: Any, body: Any) -> None:
        seen.append((headers, body))

    item = container.create_item({"id": "1", "pk": "a"}, response_hook=hook)
    container.read_item("1", "a", response_hook=hook)
    container.delete_item("1", "a", response_hook=hook)
    assert [body for _, body in seen] == [item, item, None]
    assert all(GUID.fullmatch(headers["x-ms-activity-id"]) for headers, _ in seen)
