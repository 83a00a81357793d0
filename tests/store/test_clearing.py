"""Clearing a logical partition: nothing of it is seen from then on, by any way to look."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.errors import OwnerNotFound
from perseid.model import Container, item_number
from perseid.service.catalog import build_container
from perseid.store.protocol import Store
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.types import (
    ChangeSearch,
    Decision,
    LoggedChange,
    PartitionAtCutoff,
    PurgeRequest,
    PutResource,
    RemoveResource,
    Search,
    View,
)
from perseid.ttl import (
    BEFORE_ANY_TS,
    NOTHING_EXPIRED,
    Cutoff,
    ExpirySpan,
)
from tests.store.rows import (
    DATABASE,
    Run,
    added_container,
    claiming,
    container_resource,
    ids_in,
    insert,
    key,
)

A, B = b"\x08a\xff", b"\x08b\xff"
RESOURCE = container_resource(7, unique=True)
KEEPING = RESOURCE._replace(state=RESOURCE.state | {"keeps_versions": True})
DEAD = Cutoff(150, 150)  # what was written at 100
COUNTS = pytest.mark.parametrize("count", [1, 1100])  # large ones may be removed later


@pytest.fixture
def container(store: Store, run: Run[Any]) -> Container:
    return added_container(store, run, RESOURCE)


@pytest.fixture
def kept(store: Store, run: Run[Any]) -> Container:
    """With a log of all versions."""
    run(store.change([PutResource(KEEPING)]))
    return build_container(KEEPING, DATABASE)


async def fill(store: Store, container: Container, count: int, name: str = "", **rest: Any) -> None:
    for first in range(0, count, 200):
        ids = [f"{name}{number:05}" for number in range(first, min(first + 200, count))]
        await insert(store, container, *ids, **rest)


async def reap_all(store: Store) -> None:
    while await store.purge_cleared(100):
        pass


async def log(store: Store, container: Container, after: int = 0) -> list[LoggedChange]:
    page = await store.versions(container, ChangeSearch(Search(limit=100_000), 0, after), 0)
    assert page.is_complete
    return page.changes


@COUNTS
def test_a_cleared_partition_is_empty(
    store: Store, container: Container, run: Run[Any], count: int
) -> None:
    run(fill(store, container, count))
    run(insert(store, container, "k", pk=B))
    before = run(store.lsns(container))[0]
    cleared = run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    assert cleared.lsn == before + 1
    assert sum(items for _, items, _ in cleared.live) == count
    for _ in range(2):
        assert run(ids_in(store, container)) == ["k"]
        assert run(ids_in(store, container, pk_prefix=A)) == []
        assert run(store.read(container, 0, key("00000", A)))[0] is None
        assert run(store.read_number(container, item_number(0, 1, 0))) is None
        assert run(store.usage(container, 0, NOTHING_EXPIRED))[:3] == (1, 19, 0)
        assert run(store.count_partitions(container, 0, NOTHING_EXPIRED)) == 1
        assert (
            run(
                store.expiry_count(container, 0, ExpirySpan("inheriting", BEFORE_ANY_TS, 1000))
            ).items
            == 1
        )
        assert run(store.purge(PurgeRequest(container, 0, Cutoff(99, 99), 10))).items == []
        assert run(store.lsns(container))[0] == cleared.lsn
        run(reap_all(store))


def test_nothing_to_clear(store: Store, container: Container, run: Run[Any]) -> None:
    run(insert(store, container, "k", pk=B))
    assert run(store.clear_partition(container, 0, A, NOTHING_EXPIRED)) == (1, [], [])
    assert run(store.lsns(container)) == (1, 0)


@COUNTS
def test_ids_and_entries_are_free_at_once(
    store: Store, container: Container, run: Run[Any], count: int
) -> None:
    run(store.write(container, 0, [], claiming("x", b"held")))
    run(fill(store, container, count))
    run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(store.write(container, 0, [], claiming("x", b"held")))
    run(insert(store, container, "00000"))
    run(reap_all(store))
    assert run(ids_in(store, container)) == ["x", "00000"]
    assert run(store.usage(container, 0, NOTHING_EXPIRED)).items == 2


@COUNTS
def test_the_dead_are_swept_along(
    store: Store, container: Container, run: Run[Any], count: int
) -> None:
    """T-092, T-184: they cost nothing, and count as removed for being dead."""
    run(fill(store, container, count, ts=100))
    run(insert(store, container, "alive", ts=200))
    cleared = run(store.clear_partition(container, 0, A, DEAD))
    assert sum(items for _, items, _ in cleared.live) == 1
    # Expired items are never uncounted: at once, and also while they wait for their removal.
    for _ in range(2):
        for cutoff in (NOTHING_EXPIRED, DEAD):
            used = run(store.usage(container, 0, cutoff))
            assert used == (0, 0, 0, 0, count, count * 23, 0)
        run(reap_all(store))


@COUNTS
def test_what_is_cleared_weighs_nothing(
    store: Store, container: Container, run: Run[Any], count: int
) -> None:
    run(fill(store, container, count))
    run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    (new,) = run(insert(store, container, "n"))

    def partition_size(view: View) -> Decision[int]:
        partition = PartitionAtCutoff(A, NOTHING_EXPIRED)
        size = view.partition_sizes.get(partition, -1)
        return Decision([], size, needs_sizes=[partition])

    assert run(store.write(container, 0, [], partition_size)) == new.size


def test_a_container_that_is_gone(store: Store, container: Container, run: Run[Any]) -> None:
    run(fill(store, container, 20))
    run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(store.change([RemoveResource(RESOURCE)]))
    run(reap_all(store))
    with pytest.raises(OwnerNotFound):
        run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    with pytest.raises(OwnerNotFound):
        run(ids_in(store, container))
    with pytest.raises(OwnerNotFound):
        run(store.read(container, 0, key("00001", A)))


@COUNTS
def test_each_clearing_tells_its_own_dead(
    store: Store, container: Container, run: Run[Any], count: int
) -> None:
    """Who was alive when a client removed it has not expired, whatever is cleared later."""
    run(fill(store, container, count, ts=100))
    run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(fill(store, container, count, "x", ts=100))
    run(insert(store, container, "alive", ts=200))
    cleared = run(store.clear_partition(container, 0, A, DEAD))
    assert sum(items for _, items, _ in cleared.live) == 1
    run(fill(store, container, count, "y", ts=100))
    assert run(store.usage(container, 0, NOTHING_EXPIRED)).items == count
    run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(insert(store, container, "00000", "x00000", "y00000"))
    for _ in range(2):
        used = run(store.usage(container, 0, NOTHING_EXPIRED))
        assert (used.items, used.purged_items) == (3, count)
        run(reap_all(store))
    assert run(ids_in(store, container)) == ["00000", "x00000", "y00000"]


@COUNTS
def test_those_whom_the_policy_before_would_have_spared(
    store: Store, container: Container, run: Run[Any], count: int
) -> None:
    """T-305: they are counted, for an undo that comes too late for them."""
    run(fill(store, container, count, ts=100))
    run(insert(store, container, "older", ts=50))
    run(insert(store, container, "own", ts=100, ttl=20))
    run(insert(store, container, "alive", ts=200))
    run(store.clear_partition(container, 0, A, DEAD, Cutoff(50, 120)))
    for _ in range(2):
        used = run(store.usage(container, 0, NOTHING_EXPIRED))
        assert (used.purged_items, used.expired_by_change) == (count + 2, count)
        run(insert(store, container, "00000"))  # in the place of a hidden one, the first time
        run(store.clear_partition(container, 0, A, NOTHING_EXPIRED, NOTHING_EXPIRED))
        run(reap_all(store))


# In the log


@COUNTS
def test_a_clearing_is_logged_at_once(
    store: Store, kept: Container, run: Run[Any], count: int
) -> None:
    """T-185: before whatever is written under the same key later."""
    run(fill(store, kept, count, ts=200))
    run(insert(store, kept, "dead", ts=100))
    run(insert(store, kept, "k", pk=B))
    before = run(store.lsns(kept))[0]
    cleared = run(store.clear_partition(kept, 0, A, DEAD))
    changes = run(log(store, kept, before))
    assert [(change.id, change.kind) for change in changes] == [
        *((f"{number:05}", "delete") for number in range(count)),
        ("dead", "expire"),
    ]
    assert [change.body is None for change in changes] == [False] * count + [True]
    assert len({change.ts for change in changes}) == 1
    # As many transactions as it takes for each to fit on a page.
    steps = [before + 1 + at // MAX_LOGGED_REMOVALS for at in range(count + 1)]
    assert [change.lsn for change in changes] == steps
    assert run(store.lsns(kept))[0] == cleared.lsn == steps[-1]
    run(insert(store, kept, "00000"))
    run(reap_all(store))
    later = run(log(store, kept, cleared.lsn))
    assert [(change.lsn, change.id, change.kind) for change in later] == [
        (cleared.lsn + 1, "00000", "create")
    ]
    assert run(store.lsns(kept))[0] == cleared.lsn + 1


@COUNTS
def test_clearings_are_logged_one_after_the_other(
    store: Store, kept: Container, run: Run[Any], count: int
) -> None:
    run(fill(store, kept, count, ts=100))
    run(store.clear_partition(kept, 0, A, NOTHING_EXPIRED))
    run(fill(store, kept, count, "x", ts=100))
    run(insert(store, kept, "00000", ts=200))
    run(store.clear_partition(kept, 0, A, DEAD))
    run(reap_all(store))
    told: dict[str, list[str]] = {}
    for change in run(log(store, kept)):
        told.setdefault(change.id, []).append(change.kind)
    expected = {f"{number:05}": ["create", "delete"] for number in range(count)}
    expected |= {f"x{number:05}": ["create", "expire"] for number in range(count)}
    assert told == expected | {"00000": ["create", "delete"] * 2}
    assert run(store.usage(kept, 0, NOTHING_EXPIRED)).purged_items == count


@COUNTS
@pytest.mark.parametrize("is_kept", [False, True])
def test_what_was_cleared_before_a_log_began_is_not_in_it(
    store: Store, run: Run[Any], count: int, is_kept: bool
) -> None:
    """Nor in one that began anew."""
    first = KEEPING if is_kept else RESOURCE
    run(store.change([PutResource(first)]))
    container = build_container(first, DATABASE)
    run(fill(store, container, count))
    run(store.clear_partition(container, 0, A, NOTHING_EXPIRED))
    plain, kept = RESOURCE._replace(etag='"2"'), KEEPING._replace(etag='"3"')
    run(store.change([PutResource(plain, replaces=first.etag)]))
    run(store.change([PutResource(kept, replaces=plain.etag)]))
    container = build_container(kept, DATABASE)
    began = run(store.lsns(container))[0]
    run(insert(store, container, "00000"))
    run(reap_all(store))
    assert [(change.id, change.kind) for change in run(log(store, container, began))] == [
        ("00000", "create")
    ]
