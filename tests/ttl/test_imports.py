"""POST /_perseid/import: items in numbers, each with the age it should have (T-223, T-225)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from perseid.service.items import imports
from tests.support.raw import RawClient, Reply
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers


def send(container: TtlContainer, documents: Sequence[Any], options: str = "") -> Reply:
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    return send_text(container, b"\n".join(lines), options)


def send_text(container: TtlContainer, text: bytes, options: str = "") -> Reply:
    path = container.admin.replace("/ttl/", "/import/")
    return container.raw.request("POST", path, text, raw_path=f"{path}{options}")


def counts(reply: Reply) -> dict[str, int]:
    """The figures that are not zero, refusals as their number."""
    assert reply.status == 200, reply
    figures = {name: len(v) if isinstance(v, list) else v for name, v in reply.json.items()}
    return {name: figure for name, figure in figures.items() if figure}


def test_items_are_stored_as_sent(containers: TtlContainers) -> None:
    container = containers.make()
    text = b'{"id":"a", "pk":"p", "n":1.0e2, "big":12345678901234567890}'
    assert counts(send_text(container, b"\n" + text + b"\r\n\n  \n")) == {"created": 1}
    # But for the spaces, which not every database keeps.
    stored = container.read("a").body.replace(b" ", b"")
    assert stored.startswith(b'{"id":"a","pk":"p","n":1.0e2,"big":12345678901234567890,')
    assert container.read("a").json["_ts"] == containers.now


@pytest.mark.parametrize(
    ("existing", "expected", "value"),
    [
        ("replace", {"created": 1, "replaced": 1}, 2),
        ("skip", {"created": 1, "skipped": 1}, 1),
        ("fail", {"created": 1, "refused": 1}, 1),
    ],
)
def test_what_is_there_already(
    containers: TtlContainers, existing: str, expected: dict[str, int], value: int
) -> None:
    container = containers.make()
    container.create("a", v=1)
    reply = send(
        container, [{"id": "a", "pk": "p", "v": 2}, {"id": "b", "pk": "p"}], f"?existing={existing}"
    )
    assert counts(reply) == expected
    assert container.read("a").json["v"] == value
    if existing == "fail":
        (refusal,) = reply.json["refused"]
        assert (refusal["line"], refusal["id"], refusal["status"]) == (1, "a", 409)


def test_one_bad_line_spoils_no_other(containers: TtlContainers) -> None:
    """Every refusal names its line, the item and the reason; nothing of it is stored."""
    container = containers.make(default_ttl=60)
    lines: list[Any] = [
        {"id": "a", "pk": "p"},
        b'{"id": "half',
        {"pk": "p"},
        {"id": "t", "pk": "p", "ttl": 0},
        [1],
        {"id": "b", "pk": "p"},
    ]
    reply = send(container, lines)
    assert counts(reply) == {"created": 2, "refused": 4}
    found = [(each["line"], each["id"], each["status"]) for each in reply.json["refused"]]
    assert found == [(2, None, 400), (3, None, 400), (4, "t", 400), (5, None, 400)]
    assert "The input ttl '0' is invalid" in reply.json["refused"][2]["message"]
    assert container.seen("a", "b", "t") == {"a", "b"}


@pytest.mark.parametrize(
    ("ttl", "age", "lives"),
    [
        (ABSENT, 59, True), (ABSENT, 60, False),
        (100, 60, True), (100, 99, True), (100, 100, False),
        (-1, 10_000, True),
    ],
)  # fmt: skip
def test_items_as_if_older(containers: TtlContainers, ttl: object, age: int, lives: bool) -> None:
    """An aged item expires when one written then would; what is expired already is not stored."""
    container = containers.make(default_ttl=60)
    reply = send(container, [container.body("a", ttl)], f"?age={age}")
    assert counts(reply) == ({"created": 1} if lives else {"expired": 1})
    assert container.seen("a") == ({"a"} if lives else set())
    if not lives:
        return
    assert container.read("a").json["_ts"] == containers.now - age
    if ttl != -1:
        left = (60 if ttl is ABSENT else int(str(ttl))) - age
        container.clock.advance(left - 1)
        assert container.seen("a") == {"a"}
        container.clock.advance(1)
        assert container.seen("a") == set()


def test_kept_lifetimes(containers: TtlContainers) -> None:
    """T-223: an item keeps its _ts, so it may be expired already; one from the future is of now."""
    container = containers.make(default_ttl=60)
    now = containers.now
    items = [
        container.body("old", _ts=now - 59),
        container.body("expired", _ts=now - 60),
        container.body("future", _ts=now + 1000),
        container.body("new"),
        container.body("odd", _ts="yesterday"),
    ]
    reply = send(container, items, "?lifetimes=keep")
    assert counts(reply) == {"created": 3, "expired": 1, "refused": 1}
    assert container.seen("old", "expired", "future", "new") == {"old", "future", "new"}
    assert {id_: container.read(id_).json["_ts"] for id_ in ("old", "future", "new")} == {
        "old": now - 59,
        "future": now,
        "new": now,
    }


def test_restarted_lifetimes(containers: TtlContainers) -> None:
    """T-225: a copy counts from now, whatever _ts it brings."""
    container = containers.make(default_ttl=60)
    assert counts(send(container, [container.body("a", _ts=1)])) == {"created": 1}
    assert container.read("a").json["_ts"] == containers.now


def test_ages_with_time_to_live_off(containers: TtlContainers) -> None:
    """Nothing expires, and the age counts when it is switched on."""
    container = containers.make()
    assert counts(send(container, [container.body("a"), container.body("b")], "?age=100")) == {
        "created": 2
    }
    assert container.seen("a", "b") == {"a", "b"}
    assert container.set_default(100).status == 200
    assert container.seen("a", "b") == set()


@pytest.mark.parametrize("present", [ABSENT, -1, 5000])
def test_items_expired_by_earlier_settings_do_not_count(
    containers: TtlContainers, present: object
) -> None:
    """An item that lives under the setting of today is stored, however old it is: expiry was final
    for those that were there."""
    container = containers.make(default_ttl=60)
    container.create("was-there")
    container.clock.advance(100)
    assert container.set_default(present).status == 200
    now = containers.now
    items = [
        container.body("old", _ts=now - 1000),
        container.body("older", _ts=now - 4999),
        container.body("young", _ts=now - 59),
        container.body("own", 30, _ts=now - 1000),
        container.body("never", -1, _ts=now - 1000),
    ]
    is_off = present is ABSENT
    reply = send(container, items, "?lifetimes=keep")
    assert counts(reply) == ({"created": 5} if is_off else {"created": 4, "expired": 1})
    stored = {id_: container.read(id_).json["_ts"] for id_ in ("old", "older", "young", "never")}
    assert stored == {"old": now - 59, "older": now - 59, "young": now - 59, "never": now - 1000}
    assert container.read("was-there").status == 404
    assert container.read("own").status == (200 if is_off else 404)
    if is_off:
        assert container.read("own").json["_ts"] == now - 29


def test_unique_keys_hold(containers: TtlContainers) -> None:
    container = containers.make(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/mail"]}]})
    reply = send(
        container, [container.body("a", mail="x"), container.body("b", mail="x")], "?existing=skip"
    )
    assert counts(reply) == {"created": 1, "refused": 1}
    assert reply.json["refused"][0]["message"] == "Unique index constraint violation."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("?existing=maybe", "existing is one of replace, skip, fail; not 'maybe'."),
        ("?lifetimes=x", "lifetimes is one of restart, keep; not 'x'."),
        ("?age=-1", "age is a whole number from 0"),
        ("?age=99999999999", "reaches back beyond 1970"),
        ("?age=1&lifetimes=keep", "not both"),
        ("?ages=1", "Unknown option 'ages'; known: existing, lifetimes, age."),
    ],
)
def test_bad_options_change_nothing(containers: TtlContainers, options: str, message: str) -> None:
    container = containers.make()
    reply = send(container, [container.body("a")], options)
    assert reply.status == 400
    assert message in reply.json["message"]
    assert container.seen("a") == set()


def test_a_container_that_is_not_there(raw: RawClient, database: str) -> None:
    name = database.removeprefix("/dbs/")
    assert raw.post(f"/_perseid/import/{name}/nothing", {}).status == 404
    assert raw.get(f"/_perseid/import/{name}/nothing").status == 405


def test_a_million_lines_that_are_no_items_stop_the_import(containers: TtlContainers) -> None:
    """They would take a second each hundred thousand, and hundreds of megabytes to list."""
    container = containers.make()
    good = b'{"id":"%d","pk":"p"}\n'
    lines = good % 1 + b"\n \n" + b"{\n" * 900_000 + good % 2
    reply = send_text(container, lines).json
    refused = reply["refused"]
    assert reply["created"] == 1
    assert imports.MOST_REFUSED <= len(refused) < imports.MOST_REFUSED + 100
    assert [refused[0]["line"], refused[-1]["line"]] == [4, 3 + len(refused)]
    assert refused[-1]["line"] + reply["unread"] == lines.count(b"\n")
    assert (container.read("1").status, container.read("2").status) == (200, 404)


def test_lines_are_numbered_with_blank_ones(containers: TtlContainers) -> None:
    container = containers.make()
    reply = send_text(container, b"\n\r\n  \t{\r\n\n" + b" " * 100_000 + b"\n[]")
    assert [entry["line"] for entry in reply.json["refused"]] == [3, 6]
    assert reply.json["unread"] == 0


def test_others_are_served_during_an_import_of_bad_lines(
    containers: TtlContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines are read as they are needed, so nothing is done for all of them at once."""
    seen: list[int] = []
    numbered = imports._numbered_lines

    def noted(body: bytes) -> Iterator[tuple[int, bytes]]:
        for number, line in numbered(body):
            seen.append(number)
            yield number, line

    monkeypatch.setattr(imports, "_numbered_lines", noted)
    send_text(containers.make(), b"1\n" * 500_000)
    assert len(seen) < imports.MOST_REFUSED + 100
