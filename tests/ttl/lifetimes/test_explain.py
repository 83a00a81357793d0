"""Lifetime headers of an item, and explain for one item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.ttl_containers import ABSENT, Shelves, assert_gone
from tests.ttl.lifetimes.admin import Figures, answer, change, explain, status, undo

# T-310: introspection


def lifetime_headers(reply: Reply) -> dict[str, str]:
    return {name: text for name, text in reply.headers.items() if name.startswith("x-perseid-")}


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl", "origin", "life"),
    [
        (ABSENT, ABSENT, "none", None), (ABSENT, -1, "none", None), (ABSENT, 20, "none", None),
        (-1, ABSENT, "none", None), (-1, -1, "none", None), (-1, 20, "item", 20),
        (10, ABSENT, "container", 10), (10, -1, "none", None), (10, 20, "item", 20),
    ],
)  # fmt: skip
def test_lifetime_headers(
    shelves: Shelves, default_ttl: Any, item_ttl: Any, origin: str, life: int | None
) -> None:
    shelf = shelves.make(default_ttl)
    body = shelf.body("a", item_ttl)
    wish = {"x_perseid_lifetime": "true"}

    def expected(ts: int) -> dict[str, str]:
        if life is None:
            return {"x-perseid-ttl-source": origin}
        return {
            "x-perseid-ttl-source": origin,
            "x-perseid-expires-at": str(ts + life),
            "x-perseid-remaining": str(ts + life - shelves.now),
        }

    start = shelves.now
    assert lifetime_headers(shelf.post(body, **wish)) == expected(start)
    shelf.clock.advance(3)
    assert lifetime_headers(shelf.read("a", **wish)) == expected(start)
    assert lifetime_headers(shelf.read("a")) == {}
    unchanged = shelf.read("a", if_none_match=shelf.read("a").headers["etag"], **wish)
    assert (unchanged.status, lifetime_headers(unchanged)) == (304, expected(start))
    assert shelf.read("a", **wish).body == shelf.read("a").body
    replaced = shelf.replace("a", body, **wish)
    assert lifetime_headers(replaced) == expected(start + 3)
    assert "x-perseid" not in replaced.body.decode()
    shelf.clock.advance(2)
    assert lifetime_headers(shelf.post(body, upsert="true", **wish)) == expected(start + 5)
    assert lifetime_headers(shelf.post(body, upsert="true")) == {}


def test_expired_items_show_no_lifetime(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    shelf.clock.advance(10)
    for id_ in ("a", "never"):
        reply = shelf.read(id_, x_perseid_lifetime="true")
        assert_gone(reply)
        assert lifetime_headers(reply) == {}


# T-311: explain


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl", "rule", "origin", "life"),
    [
        (ABSENT, ABSENT, "T-020", "none", None),
        (-1, ABSENT, "T-021", "none", None),
        (10, ABSENT, "T-022", "container", 10),
        (ABSENT, -1, "T-023", "none", None),
        (-1, -1, "T-024", "none", None),
        (10, -1, "T-025", "none", None),
        (ABSENT, 20, "T-026", "none", None),
        (-1, 20, "T-027", "item", 20),
        (10, 20, "T-028", "item", 20),
    ],
)
def test_explain_live_items(
    shelves: Shelves, default_ttl: Any, item_ttl: Any, rule: str, origin: str, life: int | None
) -> None:
    shelf = shelves.make(default_ttl)
    shelf.create("a", item_ttl, secret="s3cret")
    start = shelves.now
    shelf.clock.advance(4)
    told = explain(shelf, "a")
    ends = None if life is None else start + life
    assert told == {
        "id": "a",
        "partitionKey": ["p"],
        "_ts": start,
        "ttl": None if item_ttl is ABSENT else item_ttl,
        "asOf": start + 4,
        "live": True,
        "rule": rule,
        "reason": "live under the current policy and every earlier one",
        "expiresAt": ends,
        "remainingSeconds": None if ends is None else ends - start - 4,
        "ttlSource": origin,
        "purgePosition": None,
    }


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl", "rule", "because", "life"),
    [
        (10, ABSENT, "T-022", "the container's defaultTtl has passed", 10),
        (10, 5, "T-028", "its own ttl has passed", 5),
        (10, 20, "T-028", "its own ttl has passed", 20),
        (-1, 5, "T-027", "its own ttl has passed", 5),
    ],
)
def test_explain_expired_items(
    shelves: Shelves, default_ttl: int, item_ttl: Any, rule: str, because: str, life: int
) -> None:
    shelf = shelves.make(default_ttl)
    shelf.create("a", item_ttl, secret="s3cret")
    start = shelves.now
    shelf.clock.advance(life)
    told = explain(shelf, "a")
    assert (told["live"], told["rule"], told["reason"]) == (False, rule, because)
    assert told["expiresAt"] == start + life
    assert told["remainingSeconds"] is None
    assert told["purgePosition"] == 0
    assert "s3cret" not in str(told)
    assert "secret" not in told


@pytest.mark.parametrize(
    ("first", "then", "item_ttl", "rule", "because"),
    [
        (10, None, ABSENT, "T-020", "an earlier defaultTtl of the container has passed"),
        (10, -1, ABSENT, "T-021", "an earlier defaultTtl of the container has passed"),
        (10, 1000, ABSENT, "T-022", "an earlier defaultTtl of the container has passed"),
        (-1, None, 10, "T-026", "its own ttl passed before TTL was switched off"),
        (100, None, 10, "T-026", "its own ttl passed before TTL was switched off"),
        (100, -1, 10, "T-027", "its own ttl has passed"),
    ],
)
def test_explain_items_expired_by_an_earlier_policy(
    shelves: Shelves, first: int, then: int | None, item_ttl: Any, rule: str, because: str
) -> None:
    """T-121: death is final, and the explanation says which clause holds."""
    shelf = shelves.make(first)
    shelf.create("a", item_ttl)
    end = shelves.now + 10
    shelf.clock.advance(10)
    change(shelf, then)
    shelf.clock.advance(1)
    told = explain(shelf, "a")
    assert (told["live"], told["rule"], told["reason"]) == (False, rule, because)
    assert told["remainingSeconds"] is None
    assert told["expiresAt"] == end
    assert status(shelf)["purgeLagSeconds"] == 1


def test_an_expiry_is_remembered_through_changes_and_their_undo(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    end = shelves.now + 10
    shelf.clock.advance(20)
    for then in (100, -1, None):
        change(shelf, then)
        shelf.clock.advance(50)
        assert explain(shelf, "a")["expiresAt"] == end
    change(shelf, 50)
    change(shelf, None)  # by now 50 is the latest default that has ended anybody
    undo(shelf)
    assert explain(shelf, "a")["expiresAt"] == end


def test_the_place_in_the_purge_order(shelves: Shelves) -> None:
    """The order is by the second of death, whoever set it."""
    shelf = shelves.make(30)
    start = shelves.now
    ends = {"b": ABSENT, "a": 10, "c": 40, "d": 50}  # 30, 10, 40, 50
    for id_, own in ends.items():
        shelf.create(id_, own)
    shelf.create("e", at=start + 25)  # 55
    shelf.create("alive")
    shelf.clock.set(start + 54)
    assert [explain(shelf, id_)["purgePosition"] for id_ in "abcde"] == [0, 1, 2, 3, None]
    shelf.clock.set(start + 55)
    assert explain(shelf, "e")["purgePosition"] == 4


def test_live_items_have_no_position_in_the_purge_order(shelves: Shelves) -> None:
    """Those that the policy leaves alone are not removed before anybody."""
    shelf = shelves.make(-1)
    for id_, own in {"a": 10, "b": 20, "sleeping": 25, "stays": ABSENT, "marked": -1}.items():
        shelf.create(id_, own)
    shelf.clock.advance(20)
    assert [explain(shelf, id_)["purgePosition"] for id_ in "ab"] == [0, 1]
    shelf.set_default()  # off: the ttl of `sleeping` means nothing from now on
    shelf.clock.advance(20)
    assert [explain(shelf, id_)["purgePosition"] for id_ in "ab"] == [0, 1]
    shelf.set_default(35)  # who inherits is dead since its 35th second, and so is `sleeping`
    assert [explain(shelf, id_)["purgePosition"] for id_ in ("sleeping", "stays")] == [2, 3]
    shelf.set_default()
    assert explain(shelf, "stays")["purgePosition"] == 3


def test_explain_never_existed_and_purged(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    body = {"id": "nobody", "partitionKey": ["p"]}
    assert_gone(shelf.raw.post(f"{shelf.admin}/explain", body))
    other = {"id": "a", "partitionKey": ["q"]}
    assert_gone(shelf.raw.post(f"{shelf.admin}/explain", other))
    shelf.clock.advance(10)
    assert explain(shelf, "a")["live"] is False
    assert shelf.drain() == 1
    assert_gone(shelf.raw.post(f"{shelf.admin}/explain", body | {"id": "a"}))


@pytest.mark.parametrize(
    "body",
    [
        {}, {"id": "a"}, {"partitionKey": ["p"]}, {"id": 5, "partitionKey": ["p"]},
        {"id": "a", "partitionKey": "p"}, {"id": "a", "partitionKey": []},
        {"id": "a", "partitionKey": ["p", "q"]}, {"id": "a", "partitionKey": [{"a": 1}]},
    ],
)  # fmt: skip
def test_explanations_that_are_none(shelves: Shelves, body: Figures) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.post(f"{shelf.admin}/explain", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


def test_explain_keys_of_every_type(shelves: Shelves, raw: RawClient) -> None:
    shelf = shelves.make(10)
    for number, key in enumerate(("p", 5, 1.5, True, None)):
        item = {"id": f"k{number}", "pk": key}
        reply = raw.post(f"{shelf.path}/docs", item, pk=json.dumps([key]))
        assert reply.status == 201
        told = answer(raw.post(f"{shelf.admin}/explain", {"id": item["id"], "partitionKey": [key]}))
        assert told["partitionKey"] == [key]
