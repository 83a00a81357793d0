"""Session tokens, etags and charges do not depend on expired items."""

from __future__ import annotations

import pytest

from tests.support.replies import charge
from tests.support.ttl_containers import Shelf, Shelves, assert_gone
from tests.ttl.effects.stock import lsn


def test_expiry_moves_no_lsn_and_a_purge_moves_one(shelf: Shelf) -> None:
    """T-095."""
    written = [shelf.post(shelf.body(f"i{number}", 5)) for number in range(4)]
    shelf.create("alive")
    before = lsn(shelf)
    token = written[-1].headers["x-ms-session-token"]
    shelf.clock.advance(5)
    assert lsn(shelf) == before
    assert_gone(shelf.read("i3", session=token))
    assert lsn(shelf) == before
    assert shelf.drain() == 4  # in one transaction
    assert lsn(shelf) == before + 1
    assert shelf.drain() == 0
    assert lsn(shelf) == before + 1
    # What a client holds stays good; what it may get next is ahead of it.
    assert_gone(shelf.read("i3", session=token))
    assert shelf.read("alive", session=f"0:-1#{before + 1}").status == 200
    late = shelf.read("alive", session=f"0:-1#{before + 2}")
    assert (late.status, late.sub_status) == (404, 1002)
    assert shelf.post(shelf.body("next")).headers["x-ms-session-token"] == f"0:-1#{before + 2}"


def test_only_ranges_with_expired_items_move(wide: Shelf) -> None:
    """T-095: each physical partition has LSNs of its own."""

    def lsns() -> dict[str, int]:
        token = wide.raw.get(wide.path).headers["x-ms-session-token"]
        return {part.partition(":")[0]: int(part.rpartition("#")[2]) for part in token.split(",")}

    homes = {}
    for number in range(12):
        reply = wide.post(wide.body(f"i{number}", -1, f"k{number}"), pk=f"k{number}")
        homes[number] = reply.headers["x-ms-documentdb-partitionkeyrangeid"]
    target = homes[0]
    for number, home in homes.items():
        if home == target:
            body = wide.body(f"i{number}", 5, f"k{number}")
            assert wide.replace(f"i{number}", body, pk=f"k{number}").status == 200
    before = lsns()
    assert len(before) > 1
    wide.clock.advance(5)
    assert lsns() == before
    assert wide.drain() == list(homes.values()).count(target)
    assert lsns() == before | {target: before[target] + 1}


def test_expiry_leaves_all_else_untouched(shelf: Shelf) -> None:
    """T-096: the container, and the items that live on."""
    container = shelf.raw.get(shelf.path)
    neighbour = shelf.create("alive", 100)
    shelf.create("dead", 5)
    shelf.clock.advance(5)
    for _ in range(2):
        assert shelf.raw.get(shelf.path).json == container.json
        read = shelf.read("alive")
        assert read.json == neighbour
        assert read.headers["etag"] == neighbour["_etag"]
        assert shelf.read("alive", if_none_match=neighbour["_etag"]).status == 304
        assert shelf.query("SELECT * FROM c") == [neighbour]
        shelf.drain()
    assert shelf.replace("alive", neighbour, if_match=neighbour["_etag"]).status == 200


# Charges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("default_ttl", [-1, 3600])
@pytest.mark.parametrize("lifetime", [-1, 60, 2_147_483_647])
def test_lifetimes_cost_nothing(shelves: Shelves, default_ttl: int, lifetime: int) -> None:
    """T-155: the same body costs the same, whether its `ttl` means anything or not."""
    on, off = shelves.make(default_ttl, "on"), shelves.make(name="off")
    costs = []
    for shelf in (on, off):
        body = shelf.body("a", lifetime, text="x" * 3000, list=[1, 2, 3])
        changed = body | {"text": "y"}
        replies = [
            shelf.post(body),
            shelf.read("a"),
            shelf.replace("a", changed),
            shelf.post(body, upsert="true"),
            shelf.post(body),
            shelf.raw.query(f"{shelf.path}/docs", "SELECT * FROM c"),
            shelf.raw.get(f"{shelf.path}/docs"),
            shelf.delete("a"),
        ]
        assert [reply.status for reply in replies] == [201, 200, 200, 200, 409, 200, 200, 204]
        costs.append([charge(reply) for reply in replies])
    assert costs[0] == costs[1]


def test_charges_ignore_expired_items(shelves: Shelves) -> None:
    """T-156, T-157: ten living among hundreds of dead, before, during and after the purge."""
    crowd, alone = shelves.make(-1, "crowd"), shelves.make(-1, "alone")
    for number in range(10):
        for shelf in (crowd, alone):
            shelf.create(f"i{number}", n=number)
        for other in range(60):
            crowd.create(f"d{number}-{other}", 5, n=number)
    crowd.clock.advance(5)

    def costs(shelf: Shelf) -> list[float]:
        docs = f"{shelf.path}/docs"
        replies = [
            shelf.raw.get(docs),
            shelf.raw.get(docs, count="3"),
            shelf.raw.query(docs, "SELECT * FROM c"),
            shelf.raw.query(docs, "SELECT * FROM c WHERE c.n < 5"),
            shelf.raw.query(docs, "SELECT VALUE COUNT(1) FROM c"),
            shelf.raw.query(docs, "SELECT TOP 3 * FROM c ORDER BY c.n DESC"),
            shelf.raw.query(docs, "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n"),
            shelf.raw.query(docs, "SELECT * FROM c", pk='["p"]'),
            shelf.read("i3"),
            shelf.read("d3-3"),
            shelf.replace("i3", shelf.body("i3", n=3)),
            shelf.post(shelf.body("d1-1")),
            shelf.delete("d1-1"),
            shelf.delete("d1-1"),
        ]
        assert [reply.status for reply in replies] == [200] * 9 + [404, 200, 201, 204, 404]
        return [charge(reply) for reply in replies]

    expected = costs(alone)
    assert costs(crowd) == expected
    purged = crowd.raw.post(f"{crowd.admin}/drain", {})
    assert purged.json["purged"] == 599  # one was removed by the create that took its id
    assert "x-ms-request-charge" not in purged.headers
    assert costs(crowd) == expected
