"""Clearing a logical partition: nothing of it is seen from then on, by any way to look."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.errors import OwnerNotFound
from perseid.model import Container, item_number
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
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
from tests.support.rows import (
    DATABASE,
    Run,
    added_container,
    container_resource,
    ids_in,
    insert,
    key,
    purge_cleared_partitions,
    reserving,
)

A, B = b"\x08a\xff", b"\x08b\xff"
RESOURCE = container_resource(7, unique=True)
KEEPING = RESOURCE._replace(state=RESOURCE.state | {"keeps_versions": True})
EXPIRED = Cutoff(150, 150)  # what was written at 100
COUNTS = pytest.mark.parametrize("count", [1, 1100])  # large ones may be removed later


@pytest.fixture
def container(store: Stores, run: Run[Any]) -> Container:
    return added_container(store, run, RESOURCE)


@pytest.fixture
def all_versions(store: Stores, run: Run[Any]) -> Container:
    """With a log of all versions."""
    return added_container(store, run, KEEPING)


async def insert_numbered(
    store: Stores, container: Container, count: int, name: str = "", **rest: Any
) -> None:
    for first in range(0, count, 200):
        ids = [f"{name}{number:05}" for number in range(first, min(first + 200, count))]
        await insert(store, container, *ids, **rest)


async def log(store: Stores, container: Container, after: int = 0) -> list[LoggedChange]:
    page = await store.changes.versions(container, ChangeSearch(Search(limit=100_000), 0, after), 0)
    assert page.is_complete
    return page.changes


@COUNTS
def test_a_cleared_partition_is_empty(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    run(insert_numbered(store, container, count))
    run(insert(store, container, "k", pk=B))
    before = run(store.items.lsns(container))[0]
    cleared = run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    assert cleared.lsn == before + 1
    assert sum(items for _, items, _ in cleared.live) == count
    for _ in range(2):
        assert run(ids_in(store, container)) == ["k"]
        assert run(ids_in(store, container, pk_prefix=A)) == []
        assert run(store.items.read(container, 0, key("00000", A)))[0] is None
        assert run(store.items.read_number(container, item_number(0, 1, 0))) is None
        assert run(store.items.usage(container, 0, NOTHING_EXPIRED))[:3] == (1, 19, 0)
        assert run(store.items.count_partitions(container, 0, NOTHING_EXPIRED)) == 1
        assert (
            run(
                store.expiry.count(container, 0, ExpirySpan("inheriting", BEFORE_ANY_TS, 1000))
            ).items
            == 1
        )
        assert run(store.expiry.purge(PurgeRequest(container, 0, Cutoff(99, 99), 10))).items == []
        assert run(store.items.lsns(container))[0] == cleared.lsn
        run(purge_cleared_partitions(store))


def test_nothing_to_clear(store: Stores, container: Container, run: Run[Any]) -> None:
    run(insert(store, container, "k", pk=B))
    assert run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED)) == (1, [], [])
    assert run(store.items.lsns(container)) == (1, 0)


@COUNTS
def test_ids_and_entries_are_free_at_once(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    run(store.items.write(container, 0, [], reserving("x", b"held")))
    run(insert_numbered(store, container, count))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(store.items.write(container, 0, [], reserving("x", b"held")))
    run(insert(store, container, "00000"))
    run(purge_cleared_partitions(store))
    assert run(ids_in(store, container)) == ["x", "00000"]
    assert run(store.items.usage(container, 0, NOTHING_EXPIRED)).items == 2


@COUNTS
def test_expired_items_are_purged_together_with_them(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    """T-092, T-184: they cost nothing, and count as purged."""
    run(insert_numbered(store, container, count, ts=100))
    run(insert(store, container, "alive", ts=200))
    cleared = run(store.items.clear_partition(container, 0, A, EXPIRED))
    assert sum(items for _, items, _ in cleared.live) == 1
    # Expired items are never uncounted: at once, and also while they wait for their removal.
    for _ in range(2):
        for cutoff in (NOTHING_EXPIRED, EXPIRED):
            used = run(store.items.usage(container, 0, cutoff))
            assert used == (0, 0, 0, 0, count, count * 23, 0)
        run(purge_cleared_partitions(store))


@COUNTS
def test_what_is_cleared_weighs_nothing(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    run(insert_numbered(store, container, count))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    (new,) = run(insert(store, container, "n"))

    def partition_size(view: View) -> Decision[int]:
        partition = PartitionAtCutoff(A, NOTHING_EXPIRED)
        size = view.partition_sizes.get(partition, -1)
        return Decision([], size, needs_sizes=[partition])

    assert run(store.items.write(container, 0, [], partition_size)) == new.size


def test_a_container_that_is_gone(store: Stores, container: Container, run: Run[Any]) -> None:
    run(insert_numbered(store, container, 20))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(store.metadata.change([RemoveResource(RESOURCE)]))
    run(purge_cleared_partitions(store))
    with pytest.raises(OwnerNotFound):
        run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    with pytest.raises(OwnerNotFound):
        run(ids_in(store, container))
    with pytest.raises(OwnerNotFound):
        run(store.items.read(container, 0, key("00001", A)))


@COUNTS
def test_each_clearing_counts_its_own_expired_items(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    """Who was alive when a client removed it has not expired, whatever is cleared later."""
    run(insert_numbered(store, container, count, ts=100))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(insert_numbered(store, container, count, "x", ts=100))
    run(insert(store, container, "alive", ts=200))
    cleared = run(store.items.clear_partition(container, 0, A, EXPIRED))
    assert sum(items for _, items, _ in cleared.live) == 1
    run(insert_numbered(store, container, count, "y", ts=100))
    assert run(store.items.usage(container, 0, NOTHING_EXPIRED)).items == count
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    run(insert(store, container, "00000", "x00000", "y00000"))
    for _ in range(2):
        used = run(store.items.usage(container, 0, NOTHING_EXPIRED))
        assert (used.items, used.purged_items) == (3, count)
        run(purge_cleared_partitions(store))
    assert run(ids_in(store, container)) == ["00000", "x00000", "y00000"]


@COUNTS
def test_items_that_are_live_under_the_previous_policy(
    store: Stores, container: Container, run: Run[Any], count: int
) -> None:
    """T-305: they are counted, for an undo that comes too late for them."""
    run(insert_numbered(store, container, count, ts=100))
    run(insert(store, container, "older", ts=50))
    run(insert(store, container, "own", ts=100, ttl=20))
    run(insert(store, container, "alive", ts=200))
    run(store.items.clear_partition(container, 0, A, EXPIRED, Cutoff(50, 120)))
    for _ in range(2):
        used = run(store.items.usage(container, 0, NOTHING_EXPIRED))
        assert (used.purged_items, used.expired_by_change) == (count + 2, count)
        run(insert(store, container, "00000"))  # in the place of a hidden one, the first time
        run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED, NOTHING_EXPIRED))
        run(purge_cleared_partitions(store))


# In the log


@COUNTS
def test_a_clearing_is_logged_at_once(
    store: Stores, all_versions: Container, run: Run[Any], count: int
) -> None:
    """T-185: before whatever is written under the same key later."""
    run(insert_numbered(store, all_versions, count, ts=200))
    run(insert(store, all_versions, "expired", ts=100))
    run(insert(store, all_versions, "k", pk=B))
    before = run(store.items.lsns(all_versions))[0]
    cleared = run(store.items.clear_partition(all_versions, 0, A, EXPIRED))
    changes = run(log(store, all_versions, before))
    assert [(change.id, change.kind) for change in changes] == [
        *((f"{number:05}", "delete") for number in range(count)),
        ("expired", "expire"),
    ]
    assert [change.body is None for change in changes] == [False] * count + [True]
    assert len({change.ts for change in changes}) == 1
    # As many transactions as it takes for each to fit on a page.
    steps = [before + 1 + at // MAX_LOGGED_REMOVALS for at in range(count + 1)]
    assert [change.lsn for change in changes] == steps
    assert run(store.items.lsns(all_versions))[0] == cleared.lsn == steps[-1]
    run(insert(store, all_versions, "00000"))
    run(purge_cleared_partitions(store))
    later = run(log(store, all_versions, cleared.lsn))
    assert [(change.lsn, change.id, change.kind) for change in later] == [
        (cleared.lsn + 1, "00000", "create")
    ]
    assert run(store.items.lsns(all_versions))[0] == cleared.lsn + 1


@COUNTS
def test_clearings_are_logged_one_after_the_other(
    store: Stores, all_versions: Container, run: Run[Any], count: int
) -> None:
    run(insert_numbered(store, all_versions, count, ts=100))
    run(store.items.clear_partition(all_versions, 0, A, NOTHING_EXPIRED))
    run(insert_numbered(store, all_versions, count, "x", ts=100))
    run(insert(store, all_versions, "00000", ts=200))
    run(store.items.clear_partition(all_versions, 0, A, EXPIRED))
    run(purge_cleared_partitions(store))
    told: dict[str, list[str]] = {}
    for change in run(log(store, all_versions)):
        told.setdefault(change.id, []).append(change.kind)
    expected = {f"{number:05}": ["create", "delete"] for number in range(count)}
    expected |= {f"x{number:05}": ["create", "expire"] for number in range(count)}
    assert told == expected | {"00000": ["create", "delete"] * 2}
    assert run(store.items.usage(all_versions, 0, NOTHING_EXPIRED)).purged_items == count


@COUNTS
@pytest.mark.parametrize("is_kept", [False, True])
def test_what_was_cleared_before_a_log_began_is_not_in_it(
    store: Stores, run: Run[Any], count: int, is_kept: bool
) -> None:
    """Nor in one that began again."""
    first = KEEPING if is_kept else RESOURCE
    run(store.metadata.change([PutResource(first)]))
    container = build_container(first, DATABASE)
    run(insert_numbered(store, container, count))
    run(store.items.clear_partition(container, 0, A, NOTHING_EXPIRED))
    without_log, with_log = RESOURCE._replace(etag='"2"'), KEEPING._replace(etag='"3"')
    run(store.metadata.change([PutResource(without_log, replaces=first.etag)]))
    run(store.metadata.change([PutResource(with_log, replaces=without_log.etag)]))
    container = build_container(with_log, DATABASE)
    began = run(store.items.lsns(container))[0]
    run(insert(store, container, "00000"))
    run(purge_cleared_partitions(store))
    assert [(change.id, change.kind) for change in run(log(store, container, began))] == [
        ("00000", "create")
    ]
