"""POST /_perseid/import: items in numbers, each with the age it should have (T-223, T-225)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.ttl_containers import ABSENT, Shelf, Shelves


def send(shelf: Shelf, documents: Sequence[Any], options: str = "") -> Reply:
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    return send_text(shelf, b"\n".join(lines), options)


def send_text(shelf: Shelf, text: bytes, options: str = "") -> Reply:
    path = shelf.admin.replace("/ttl/", "/import/")
    return shelf.raw.request("POST", path, text, raw_path=f"{path}{options}")


def counts(reply: Reply) -> dict[str, int]:
    """The figures that are not zero, refusals as their number."""
    assert reply.status == 200, reply
    figures = {name: len(v) if isinstance(v, list) else v for name, v in reply.json.items()}
    return {name: figure for name, figure in figures.items() if figure}


def test_items_are_stored_as_sent(shelves: Shelves) -> None:
    shelf = shelves.make()
    text = b'{"id":"a", "pk":"p", "n":1.0e2, "big":12345678901234567890}'
    assert counts(send_text(shelf, b"\n" + text + b"\r\n\n  \n")) == {"created": 1}
    # But for the spaces, which not every database keeps.
    stored = shelf.read("a").body.replace(b" ", b"")
    assert stored.startswith(b'{"id":"a","pk":"p","n":1.0e2,"big":12345678901234567890,')
    assert shelf.read("a").json["_ts"] == shelves.now


@pytest.mark.parametrize(
    ("existing", "expected", "value"),
    [
        ("replace", {"created": 1, "replaced": 1}, 2),
        ("skip", {"created": 1, "skipped": 1}, 1),
        ("fail", {"created": 1, "refused": 1}, 1),
    ],
)
def test_what_is_there_already(
    shelves: Shelves, existing: str, expected: dict[str, int], value: int
) -> None:
    shelf = shelves.make()
    shelf.create("a", v=1)
    reply = send(
        shelf, [{"id": "a", "pk": "p", "v": 2}, {"id": "b", "pk": "p"}], f"?existing={existing}"
    )
    assert counts(reply) == expected
    assert shelf.read("a").json["v"] == value
    if existing == "fail":
        (refusal,) = reply.json["refused"]
        assert (refusal["line"], refusal["id"], refusal["status"]) == (1, "a", 409)


def test_one_bad_line_spoils_no_other(shelves: Shelves) -> None:
    """Every refusal names its line, the item and the reason; nothing of it is stored."""
    shelf = shelves.make(default_ttl=60)
    lines: list[Any] = [
        {"id": "a", "pk": "p"},
        b'{"id": "half',
        {"pk": "p"},
        {"id": "t", "pk": "p", "ttl": 0},
        [1],
        {"id": "b", "pk": "p"},
    ]
    reply = send(shelf, lines)
    assert counts(reply) == {"created": 2, "refused": 4}
    found = [(each["line"], each["id"], each["status"]) for each in reply.json["refused"]]
    assert found == [(2, None, 400), (3, None, 400), (4, "t", 400), (5, None, 400)]
    assert "The input ttl '0' is invalid" in reply.json["refused"][2]["message"]
    assert shelf.seen("a", "b", "t") == {"a", "b"}


@pytest.mark.parametrize(
    ("ttl", "age", "lives"),
    [
        (ABSENT, 59, True), (ABSENT, 60, False),
        (100, 60, True), (100, 99, True), (100, 100, False),
        (-1, 10_000, True),
    ],
)  # fmt: skip
def test_items_as_if_older(shelves: Shelves, ttl: object, age: int, lives: bool) -> None:
    """An aged item dies when one written then would; what is dead already is not stored."""
    shelf = shelves.make(default_ttl=60)
    reply = send(shelf, [shelf.body("a", ttl)], f"?age={age}")
    assert counts(reply) == ({"created": 1} if lives else {"expired": 1})
    assert shelf.seen("a") == ({"a"} if lives else set())
    if not lives:
        return
    assert shelf.read("a").json["_ts"] == shelves.now - age
    if ttl != -1:
        left = (60 if ttl is ABSENT else int(str(ttl))) - age
        shelf.clock.advance(left - 1)
        assert shelf.seen("a") == {"a"}
        shelf.clock.advance(1)
        assert shelf.seen("a") == set()


def test_kept_lifetimes(shelves: Shelves) -> None:
    """T-223: an item keeps its _ts, so it may be dead on arrival; one from the future is of now."""
    shelf = shelves.make(default_ttl=60)
    now = shelves.now
    items = [
        shelf.body("old", _ts=now - 59),
        shelf.body("dead", _ts=now - 60),
        shelf.body("future", _ts=now + 1000),
        shelf.body("new"),
        shelf.body("odd", _ts="yesterday"),
    ]
    reply = send(shelf, items, "?lifetimes=keep")
    assert counts(reply) == {"created": 3, "expired": 1, "refused": 1}
    assert shelf.seen("old", "dead", "future", "new") == {"old", "future", "new"}
    assert {id_: shelf.read(id_).json["_ts"] for id_ in ("old", "future", "new")} == {
        "old": now - 59,
        "future": now,
        "new": now,
    }


def test_restarted_lifetimes(shelves: Shelves) -> None:
    """T-225: a copy counts from now, whatever _ts it brings."""
    shelf = shelves.make(default_ttl=60)
    assert counts(send(shelf, [shelf.body("a", _ts=1)])) == {"created": 1}
    assert shelf.read("a").json["_ts"] == shelves.now


def test_ages_with_time_to_live_off(shelves: Shelves) -> None:
    """Nothing dies, and the age is there when it is switched on."""
    shelf = shelves.make()
    assert counts(send(shelf, [shelf.body("a"), shelf.body("b")], "?age=100")) == {"created": 2}
    assert shelf.seen("a", "b") == {"a", "b"}
    assert shelf.set_default(100).status == 200
    assert shelf.seen("a", "b") == set()


@pytest.mark.parametrize("present", [ABSENT, -1, 5000])
def test_items_expired_by_earlier_settings_do_not_count(shelves: Shelves, present: object) -> None:
    """An item that lives under the setting of today is stored, as old as it may be: death was final
    for those that were there."""
    shelf = shelves.make(default_ttl=60)
    shelf.create("was-there")
    shelf.clock.advance(100)
    assert shelf.set_default(present).status == 200
    now = shelves.now
    items = [
        shelf.body("old", _ts=now - 1000),
        shelf.body("older", _ts=now - 4999),
        shelf.body("young", _ts=now - 59),
        shelf.body("own", 30, _ts=now - 1000),
        shelf.body("never", -1, _ts=now - 1000),
    ]
    is_off = present is ABSENT
    reply = send(shelf, items, "?lifetimes=keep")
    assert counts(reply) == ({"created": 5} if is_off else {"created": 4, "expired": 1})
    stored = {id_: shelf.read(id_).json["_ts"] for id_ in ("old", "older", "young", "never")}
    assert stored == {"old": now - 59, "older": now - 59, "young": now - 59, "never": now - 1000}
    assert shelf.read("was-there").status == 404
    assert shelf.read("own").status == (200 if is_off else 404)
    if is_off:
        assert shelf.read("own").json["_ts"] == now - 29


def test_unique_keys_hold(shelves: Shelves) -> None:
    shelf = shelves.make(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/mail"]}]})
    reply = send(shelf, [shelf.body("a", mail="x"), shelf.body("b", mail="x")], "?existing=skip")
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
def test_bad_options_change_nothing(shelves: Shelves, options: str, message: str) -> None:
    shelf = shelves.make()
    reply = send(shelf, [shelf.body("a")], options)
    assert reply.status == 400
    assert message in reply.json["message"]
    assert shelf.seen("a") == set()


def test_a_container_that_is_not_there(raw: RawClient, database: str) -> None:
    name = database.removeprefix("/dbs/")
    assert raw.post(f"/_perseid/import/{name}/nothing", {}).status == 404
    assert raw.get(f"/_perseid/import/{name}/nothing").status == 405
