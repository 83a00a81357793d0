"""Lifetime headers of an item, and explain for one item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.ttl_containers import ABSENT, TtlContainers, assert_gone
from tests.ttl.lifetimes.admin import Figures, body_of, change, explain, status, undo

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
    containers: TtlContainers, default_ttl: Any, item_ttl: Any, origin: str, life: int | None
) -> None:
    container = containers.make(default_ttl)
    body = container.body("a", item_ttl)
    wish = {"x_perseid_lifetime": "true"}

    def expected(ts: int) -> dict[str, str]:
        if life is None:
            return {"x-perseid-ttl-source": origin}
        return {
            "x-perseid-ttl-source": origin,
            "x-perseid-expires-at": str(ts + life),
            "x-perseid-remaining": str(ts + life - containers.now),
        }

    start = containers.now
    assert lifetime_headers(container.post(body, **wish)) == expected(start)
    container.clock.advance(3)
    assert lifetime_headers(container.read("a", **wish)) == expected(start)
    assert lifetime_headers(container.read("a")) == {}
    unchanged = container.read("a", if_none_match=container.read("a").headers["etag"], **wish)
    assert (unchanged.status, lifetime_headers(unchanged)) == (304, expected(start))
    assert container.read("a", **wish).body == container.read("a").body
    replaced = container.replace("a", body, **wish)
    assert lifetime_headers(replaced) == expected(start + 3)
    assert "x-perseid" not in replaced.body.decode()
    container.clock.advance(2)
    assert lifetime_headers(container.post(body, upsert="true", **wish)) == expected(start + 5)
    assert lifetime_headers(container.post(body, upsert="true")) == {}


def test_expired_items_show_no_lifetime(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("a")
    container.clock.advance(10)
    for id_ in ("a", "never"):
        reply = container.read(id_, x_perseid_lifetime="true")
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
    containers: TtlContainers,
    default_ttl: Any,
    item_ttl: Any,
    rule: str,
    origin: str,
    life: int | None,
) -> None:
    container = containers.make(default_ttl)
    container.create("a", item_ttl, secret="s3cret")
    start = containers.now
    container.clock.advance(4)
    told = explain(container, "a")
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
    containers: TtlContainers, default_ttl: int, item_ttl: Any, rule: str, because: str, life: int
) -> None:
    container = containers.make(default_ttl)
    container.create("a", item_ttl, secret="s3cret")
    start = containers.now
    container.clock.advance(life)
    told = explain(container, "a")
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
    containers: TtlContainers, first: int, then: int | None, item_ttl: Any, rule: str, because: str
) -> None:
    """T-121: expiry is final, and the explanation says which clause holds."""
    container = containers.make(first)
    container.create("a", item_ttl)
    end = containers.now + 10
    container.clock.advance(10)
    change(container, then)
    container.clock.advance(1)
    told = explain(container, "a")
    assert (told["live"], told["rule"], told["reason"]) == (False, rule, because)
    assert told["remainingSeconds"] is None
    assert told["expiresAt"] == end
    assert status(container)["purgeLagSeconds"] == 1


def test_an_expiry_is_remembered_through_changes_and_their_undo(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("a")
    end = containers.now + 10
    container.clock.advance(20)
    for then in (100, -1, None):
        change(container, then)
        container.clock.advance(50)
        assert explain(container, "a")["expiresAt"] == end
    change(container, 50)
    change(container, None)  # by now 50 is the latest default under which an item expired
    undo(container)
    assert explain(container, "a")["expiresAt"] == end


def test_the_place_in_the_purge_order(containers: TtlContainers) -> None:
    """The order is by the second of expiry, whatever the TTL source."""
    container = containers.make(30)
    start = containers.now
    ends = {"b": ABSENT, "a": 10, "c": 40, "d": 50}  # 30, 10, 40, 50
    for id_, own in ends.items():
        container.create(id_, own)
    container.create("e", at=start + 25)  # 55
    container.create("alive")
    container.clock.set(start + 54)
    assert [explain(container, id_)["purgePosition"] for id_ in "abcde"] == [0, 1, 2, 3, None]
    container.clock.set(start + 55)
    assert explain(container, "e")["purgePosition"] == 4


def test_live_items_have_no_position_in_the_purge_order(containers: TtlContainers) -> None:
    """Items that do not expire are not purged before this one."""
    container = containers.make(-1)
    for id_, own in {"a": 10, "b": 20, "sleeping": 25, "stays": ABSENT, "marked": -1}.items():
        container.create(id_, own)
    container.clock.advance(20)
    assert [explain(container, id_)["purgePosition"] for id_ in "ab"] == [0, 1]
    container.set_default()  # off: the ttl of `sleeping` means nothing from now on
    container.clock.advance(20)
    assert [explain(container, id_)["purgePosition"] for id_ in "ab"] == [0, 1]
    container.set_default(
        35
    )  # what inherits is expired since its 35th second, and so is `sleeping`
    assert [explain(container, id_)["purgePosition"] for id_ in ("sleeping", "stays")] == [2, 3]
    container.set_default()
    assert explain(container, "stays")["purgePosition"] == 3


def test_explain_never_existed_and_purged(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("a")
    body = {"id": "unknown", "partitionKey": ["p"]}
    assert_gone(container.raw.post(f"{container.admin}/explain", body))
    other = {"id": "a", "partitionKey": ["q"]}
    assert_gone(container.raw.post(f"{container.admin}/explain", other))
    container.clock.advance(10)
    assert explain(container, "a")["live"] is False
    assert container.drain() == 1
    assert_gone(container.raw.post(f"{container.admin}/explain", body | {"id": "a"}))


@pytest.mark.parametrize(
    "body",
    [
        {}, {"id": "a"}, {"partitionKey": ["p"]}, {"id": 5, "partitionKey": ["p"]},
        {"id": "a", "partitionKey": "p"}, {"id": "a", "partitionKey": []},
        {"id": "a", "partitionKey": ["p", "q"]}, {"id": "a", "partitionKey": [{"a": 1}]},
    ],
)  # fmt: skip
def test_explanations_that_are_none(containers: TtlContainers, body: Figures) -> None:
    container = containers.make(10)
    reply = container.raw.post(f"{container.admin}/explain", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


def test_explain_keys_of_every_type(containers: TtlContainers, raw: RawClient) -> None:
    container = containers.make(10)
    for number, key in enumerate(("p", 5, 1.5, True, None)):
        item = {"id": f"k{number}", "pk": key}
        reply = raw.post(f"{container.path}/docs", item, pk=json.dumps([key]))
        assert reply.status == 201
        told = body_of(
            raw.post(f"{container.admin}/explain", {"id": item["id"], "partitionKey": [key]})
        )
        assert told["partitionKey"] == [key]
