"""Session tokens, etags and charges do not depend on expired items."""

from __future__ import annotations

import pytest

from tests.support.replies import charge
from tests.support.ttl_containers import TtlContainer, TtlContainers, assert_gone
from tests.ttl.effects.mixed_containers import session_lsn


def test_expiry_moves_no_lsn_and_a_purge_moves_one(container: TtlContainer) -> None:
    """T-095."""
    written = [container.post(container.body(f"i{number}", 5)) for number in range(4)]
    container.create("alive")
    before = session_lsn(container)
    token = written[-1].headers["x-ms-session-token"]
    container.clock.advance(5)
    assert session_lsn(container) == before
    assert_gone(container.read("i3", session=token))
    assert session_lsn(container) == before
    assert container.drain() == 4  # in one transaction
    assert session_lsn(container) == before + 1
    assert container.drain() == 0
    assert session_lsn(container) == before + 1
    # What a client holds stays good; what it may get next is ahead of it.
    assert_gone(container.read("i3", session=token))
    assert container.read("alive", session=f"0:-1#{before + 1}").status == 200
    late = container.read("alive", session=f"0:-1#{before + 2}")
    assert (late.status, late.sub_status) == (404, 1002)
    assert (
        container.post(container.body("next")).headers["x-ms-session-token"] == f"0:-1#{before + 2}"
    )


def test_only_ranges_with_expired_items_move(wide: TtlContainer) -> None:
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


def test_expiry_leaves_all_else_untouched(container: TtlContainer) -> None:
    """T-096: the container, and the items that live on."""
    definition = container.raw.get(container.path)
    neighbour = container.create("alive", 100)
    container.create("expired", 5)
    container.clock.advance(5)
    for _ in range(2):
        assert container.raw.get(container.path).json == definition.json
        read = container.read("alive")
        assert read.json == neighbour
        assert read.headers["etag"] == neighbour["_etag"]
        assert container.read("alive", if_none_match=neighbour["_etag"]).status == 304
        assert container.query("SELECT * FROM c") == [neighbour]
        container.drain()
    assert container.replace("alive", neighbour, if_match=neighbour["_etag"]).status == 200


# Charges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("default_ttl", [-1, 3600])
@pytest.mark.parametrize("lifetime", [-1, 60, 2_147_483_647])
def test_lifetimes_cost_nothing(containers: TtlContainers, default_ttl: int, lifetime: int) -> None:
    """T-155: the same body costs the same, whether its `ttl` means anything or not."""
    on, off = containers.make(default_ttl, "on"), containers.make(name="off")
    costs = []
    for container in (on, off):
        body = container.body("a", lifetime, text="x" * 3000, list=[1, 2, 3])
        changed = body | {"text": "y"}
        replies = [
            container.post(body),
            container.read("a"),
            container.replace("a", changed),
            container.post(body, upsert="true"),
            container.post(body),
            container.raw.query(f"{container.path}/docs", "SELECT * FROM c"),
            container.raw.get(f"{container.path}/docs"),
            container.delete("a"),
        ]
        assert [reply.status for reply in replies] == [201, 200, 200, 200, 409, 200, 200, 204]
        costs.append([charge(reply) for reply in replies])
    assert costs[0] == costs[1]


def test_charges_ignore_expired_items(containers: TtlContainers) -> None:
    """T-156, T-157: ten live among hundreds of expired items, before, during, after the purge."""
    crowd, alone = containers.make(-1, "crowd"), containers.make(-1, "alone")
    for number in range(10):
        for container in (crowd, alone):
            container.create(f"i{number}", n=number)
        for other in range(60):
            crowd.create(f"d{number}-{other}", 5, n=number)
    crowd.clock.advance(5)

    def costs(container: TtlContainer) -> list[float]:
        docs = f"{container.path}/docs"
        replies = [
            container.raw.get(docs),
            container.raw.get(docs, count="3"),
            container.raw.query(docs, "SELECT * FROM c"),
            container.raw.query(docs, "SELECT * FROM c WHERE c.n < 5"),
            container.raw.query(docs, "SELECT VALUE COUNT(1) FROM c"),
            container.raw.query(docs, "SELECT TOP 3 * FROM c ORDER BY c.n DESC"),
            container.raw.query(docs, "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n"),
            container.raw.query(docs, "SELECT * FROM c", pk='["p"]'),
            container.read("i3"),
            container.read("d3-3"),
            container.replace("i3", container.body("i3", n=3)),
            container.post(container.body("d1-1")),
            container.delete("d1-1"),
            container.delete("d1-1"),
        ]
        assert [reply.status for reply in replies] == [200] * 9 + [404, 200, 201, 204, 404]
        return [charge(reply) for reply in replies]

    expected = costs(alone)
    assert costs(crowd) == expected
    purged = crowd.raw.post(f"{crowd.admin}/drain", {})
    assert purged.json["purged"] == 599  # one was removed by the create that took its id
    assert "x-ms-request-charge" not in purged.headers
    assert costs(crowd) == expected
