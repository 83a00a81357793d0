"""Which values are lifetimes, and how the others are refused (T-045 … T-062).

Values are JSON text, so that they go over the wire exactly as written here. Patches, batches and
scripts (their part of T-059, T-060) are covered where those are tested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import Reply
from tests.support.servers import RunningServer, Servers
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers

MAX_TTL: Final = 2147483647
INVALID: Final = (
    "The input {} '{}' is invalid. Ensure to provide a nonzero positive integer less than or equal"
    " to '2147483647', or '-1' which means never expire."
)
BAD: Final = [
    "0", "0.0",                                                    # T-050
    "-2", "-10", "-2147483648",                                    # T-051
    "2147483648", "4294967297", "9223372036854775808",             # T-052
    "1.5", "0.5", "-1.5",                                          # T-053
    '"60"', '""', "true", "[]", "{}", "false", '"-1"',             # T-054
]  # fmt: skip
# Numbers that have more than one spelling; the answer quotes any of them.
BAD_SPELLINGS: Final = ["-0", "1e300", "-1e300", "100000000000000000000", "1E10", "1.50"]
# Text -> seconds.
GOOD: Final = {
    "-1": -1,                                                      # T-047
    "1": 1, "2": 2, "86400": 86400, "2147483647": MAX_TTL,         # T-048
    "60.0": 60, "6e1": 60, "-1.0": -1, "2147483647.0": MAX_TTL,    # T-049
}  # fmt: skip


def with_member(body: dict[str, Any], name: str, value: str) -> bytes:
    """The body as JSON with one more member, whose value is JSON already."""
    return f'{json.dumps(body)[:-1]}, "{name}": {value}}}'.encode()


def assert_refused(reply: Reply, text: str) -> None:
    """A 400 in the envelope of the service's validators."""
    assert (reply.status, reply.sub_status) == (400, 0), reply
    assert set(reply.json) == {"code", "message"}
    assert reply.json["code"] == "BadRequest"
    message, _, activity = reply.json["message"].partition("\r\nActivityId: ")
    assert message == "Message: " + json.dumps({"Errors": [text]}, separators=(",", ":"))
    assert UUID(activity.split(",")[0]) == UUID(reply.headers["x-ms-activity-id"])


def quoted(reply: Reply) -> str:
    """The value that a refusal complains about."""
    value = re.search(r" '([^']*)' is invalid", reply.json["message"])
    assert value is not None, reply
    return value[1]


# Containers

DefaultTtl = Callable[[TtlContainers, str], Reply]


def create_container(containers: TtlContainers, value: str) -> Reply:
    body = with_member({"id": "c", "partitionKey": PARTITION_KEY}, "defaultTtl", value)
    return containers.raw.post(f"{containers.database}/colls", body)


def replace_container(containers: TtlContainers, value: str) -> Reply:
    container = containers.make(3600)
    body = {"id": "c", "partitionKey": PARTITION_KEY}
    return container.raw.put(container.path, with_member(body, "defaultTtl", value))


ON_CONTAINERS: Final[dict[str, DefaultTtl]] = {
    "create": create_container,
    "replace": replace_container,
}
on_containers = pytest.mark.parametrize("act", ON_CONTAINERS.values(), ids=list(ON_CONTAINERS))


@on_containers
@pytest.mark.parametrize("value", BAD)
def test_no_default(containers: TtlContainers, act: DefaultTtl, value: str) -> None:
    assert_refused(act(containers, value), INVALID.format("defaultTtl", value))


@on_containers
@pytest.mark.parametrize("value", BAD_SPELLINGS)
def test_no_default_however_spelled(containers: TtlContainers, act: DefaultTtl, value: str) -> None:
    reply = act(containers, value)
    assert float(quoted(reply)) == float(value)
    assert_refused(reply, INVALID.format("defaultTtl", quoted(reply)))


@on_containers
@pytest.mark.parametrize(("value", "seconds"), GOOD.items(), ids=list(GOOD))
def test_a_default(containers: TtlContainers, act: DefaultTtl, value: str, seconds: int) -> None:
    reply = act(containers, value)
    assert reply.status == (201 if act is create_container else 200)
    assert reply.json["defaultTtl"] == seconds
    assert type(reply.json["defaultTtl"]) is int
    container = TtlContainer(containers.raw, containers.clock, f"{containers.database}/colls/c")
    assert container.definition()["defaultTtl"] == seconds
    assert_expires_after(container, ABSENT, seconds)


@on_containers
def test_a_null_default_is_off(containers: TtlContainers, act: DefaultTtl) -> None:
    assert "defaultTtl" not in act(containers, "null").json  # T-046
    container = TtlContainer(containers.raw, containers.clock, f"{containers.database}/colls/c")
    assert "defaultTtl" not in container.definition()
    assert_expires_after(container, 1, -1)


def test_no_default_is_off(containers: TtlContainers) -> None:
    container = containers.make()  # T-045
    assert "defaultTtl" not in container.definition()
    assert_expires_after(container, 1, -1)


def assert_expires_after(container: TtlContainer, ttl: object, seconds: int) -> None:
    ts = container.create("a", ttl)["_ts"]
    if seconds == -1:
        container.clock.set(ts + MAX_TTL + 1)
        assert container.seen("a") == {"a"}
        return
    container.clock.set(ts + seconds - 1)
    assert container.seen("a") == {"a"}
    container.clock.set(ts + seconds)
    assert container.seen("a") == set()


def test_a_refused_create_leaves_no_container(containers: TtlContainers) -> None:
    assert create_container(containers, "0").status == 400  # T-057
    assert containers.raw.get(f"{containers.database}/colls/c").status == 404
    assert containers.raw.get(f"{containers.database}/colls").json["_count"] == 0
    assert create_container(containers, "1").status == 201


@pytest.mark.parametrize("value", ["0", '"x"', "2147483648"])
def test_a_refused_replace_changes_nothing(containers: TtlContainers, value: str) -> None:
    container = containers.make(10, indexingPolicy={"indexingMode": "lazy"})  # T-057
    container.create("a")
    before = container.raw.get(container.path).json
    body = {
        "id": "c",
        "partitionKey": PARTITION_KEY,
        "indexingPolicy": {"indexingMode": "consistent"},
    }
    assert container.raw.put(container.path, with_member(body, "defaultTtl", value)).status == 400
    assert container.raw.get(container.path).json == before
    container.clock.advance(9)
    assert container.seen("a") == {"a"}
    container.clock.advance(1)
    assert container.seen("a") == set()


@pytest.mark.parametrize("value", ['"/t"', '"/_ts"', '""', "5"])
@pytest.mark.parametrize("default_ttl", [ABSENT, -1, 60], ids=["off", "-1", "60"])
def test_another_base_than_ts_is_refused(
    containers: TtlContainers, default_ttl: object, value: str
) -> None:
    body: dict[str, Any] = {"id": "new", "partitionKey": PARTITION_KEY}  # T-062
    if default_ttl is not ABSENT:
        body["defaultTtl"] = default_ttl
    text = with_member(body, "ttlPropertyPath", value)
    assert containers.raw.post(f"{containers.database}/colls", text).status == 400
    assert containers.raw.get(f"{containers.database}/colls/new").status == 404
    container = containers.make(default_ttl)
    before = container.raw.get(container.path).json
    text = with_member(body | {"id": "c"}, "ttlPropertyPath", value)
    reply = container.raw.put(container.path, text)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "ttlPropertyPath" in reply.json["message"]
    assert container.raw.get(container.path).json == before


# Items

ItemTtl = Callable[[TtlContainer, str], Reply]


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    """Relaxed: test_ttl_while_off.py has the strict answers."""
    return servers("frozen", no_sweeper=True, relaxed=True)


def item(value: str, id_: str = "a") -> bytes:
    return with_member({"id": id_, "pk": "p"}, "ttl", value)


def create_item(container: TtlContainer, value: str) -> Reply:
    return container.post(item(value))


def replace_item(container: TtlContainer, value: str) -> Reply:
    container.create("a")
    return container.replace("a", item(value))


def upsert_new_item(container: TtlContainer, value: str) -> Reply:
    return container.post(item(value), upsert="true")


def upsert_old_item(container: TtlContainer, value: str) -> Reply:
    container.create("a")
    return container.post(item(value), upsert="true")


# T-059
ON_ITEMS: Final[dict[str, tuple[int, ItemTtl]]] = {
    "create": (201, create_item),
    "replace": (200, replace_item),
    "upsert new": (201, upsert_new_item),
    "upsert old": (200, upsert_old_item),
}
on_items = pytest.mark.parametrize(("status", "act"), ON_ITEMS.values(), ids=list(ON_ITEMS))


@on_items
@pytest.mark.parametrize("value", ["null", *BAD])
def test_no_ttl(containers: TtlContainers, status: int, act: ItemTtl, value: str) -> None:
    container = containers.make(-1)
    reply = act(container, value)
    assert_refused(reply, INVALID.format("ttl", value))
    assert float(reply.headers["x-ms-request-charge"]) > 0  # T-061
    # Nothing was stored: what is there, if anything, has no ttl.
    assert container.query("SELECT VALUE c.ttl FROM c") == []
    assert container.counted() == (act in (replace_item, upsert_old_item))


@pytest.mark.parametrize("value", BAD_SPELLINGS)
def test_no_ttl_however_spelled(containers: TtlContainers, value: str) -> None:
    container = containers.make(-1)
    reply = create_item(container, value)
    assert float(quoted(reply)) == float(value)
    assert_refused(reply, INVALID.format("ttl", quoted(reply)))
    assert container.seen("a") == set()


@pytest.mark.parametrize("value", ["null", "0", '"60"'])
@pytest.mark.parametrize("default_ttl", [1, 60, MAX_TTL])
def test_no_ttl_whatever_the_default(
    containers: TtlContainers, default_ttl: int, value: str
) -> None:
    container = containers.make(default_ttl)
    assert_refused(create_item(container, value), INVALID.format("ttl", value))
    assert container.seen("a") == set()


@on_items
@pytest.mark.parametrize(("value", "seconds"), GOOD.items(), ids=list(GOOD))
def test_a_ttl(
    containers: TtlContainers, status: int, act: ItemTtl, value: str, seconds: int
) -> None:
    container = containers.make(-1)
    reply = act(container, value)
    assert (reply.status, reply.json["ttl"]) == (status, seconds)
    assert container.query("SELECT VALUE c.ttl FROM c") == [seconds]
    ts = reply.json["_ts"]
    if seconds != -1:
        container.clock.set(ts + seconds - 1)
        assert container.seen("a") == {"a"}
    container.clock.set(ts + (seconds if seconds != -1 else MAX_TTL + 1))
    assert container.seen("a") == (set() if seconds != -1 else {"a"})


@on_items
@pytest.mark.parametrize("value", ["null", '"never"', *BAD, *BAD_SPELLINGS])
def test_while_ttl_is_off_any_value_is_data(
    containers: TtlContainers, status: int, act: ItemTtl, value: str
) -> None:
    container = containers.make()  # T-055
    reply = act(container, value)
    assert (reply.status, reply.json["ttl"]) == (status, json.loads(value))
    container.clock.advance(1000)
    assert container.seen("a") == {"a"}
    assert container.read("a").json == reply.json


@pytest.mark.parametrize("value", ["null", *BAD])
def test_an_invalid_value_from_before_counts_as_absent(
    containers: TtlContainers, value: str
) -> None:
    container = containers.make()  # T-056
    stored = container.post(item(value)).json
    assert container.set_default(5).status == 200
    container.clock.set(stored["_ts"] + 4)
    assert container.seen("a") == {"a"}
    assert_refused(container.replace("a", item(value)), INVALID.format("ttl", value))
    assert container.read("a").json == stored
    container.clock.set(stored["_ts"] + 5)
    assert container.seen("a") == set()


def test_an_invalid_value_from_before_inherits_no_expiry_from_minus_one(
    containers: TtlContainers,
) -> None:
    container = containers.make()  # T-056
    stored = container.post(item('"x"')).json
    assert container.set_default(-1).status == 200
    container.clock.set(stored["_ts"] + MAX_TTL + 1)
    assert container.seen("a") == {"a"}
    assert container.read("a").json == stored


# Name -> the answer to the same request with a valid ttl, and the request with this ttl.
BEFORE_OTHERS: dict[str, tuple[int, ItemTtl]] = {
    "duplicate id": (409, lambda container, value: container.post(item(value, "old"))),
    "duplicate value": (
        409,
        lambda container, value: container.post(
            with_member({"id": "a", "pk": "p", "code": 1}, "ttl", value)
        ),
    ),
    "replace of nothing": (404, lambda container, value: container.replace("a", item(value))),
    "replace, stale etag": (
        412,
        lambda container, value: container.replace("old", item(value, "old"), if_match='"stale"'),
    ),
    "upsert, stale etag": (
        412,
        lambda container, value: container.post(
            item(value, "old"), upsert="true", if_match='"stale"'
        ),
    ),
}


@pytest.mark.parametrize(("status", "act"), BEFORE_OTHERS.values(), ids=list(BEFORE_OTHERS))
def test_ttl_is_checked_before_what_needs_other_items(
    containers: TtlContainers, status: int, act: ItemTtl
) -> None:
    unique = {"uniqueKeys": [{"paths": ["/code"]}]}  # T-058
    container = containers.make(60, uniqueKeyPolicy=unique)
    container.create("old", code=1)
    assert act(container, "60").status == status
    assert_refused(act(container, "0"), INVALID.format("ttl", "0"))
