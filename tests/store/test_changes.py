"""The store's side of the change feed: order, whole transactions, logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perseid.config import Settings
from perseid.errors import ServiceUnavailable
from perseid.model import Container, ItemKey, Row
from perseid.store.protocol import Stores
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.types import LoggedChange, PurgeRequest, Put, PutResource, Remove, StaleResource
from perseid.ttl import Cutoff
from tests.store.change_logs import NOW, add, latest, new, resource, search, versions, write
from tests.support.rows import Run, row
from tests.support.stores import open_store


@pytest.fixture
def store(home: Settings, run: Run[Any]) -> Iterator[Stores]:
    """Whose transactions are all made in the same second."""
    opened: Stores = run(open_store(home, now=lambda: NOW))
    yield opened
    run(opened.close())


def switch(store: Stores, run: Run[Any], number: int, *, keeps: bool) -> None:
    made = resource(number, keeps=keeps)
    run(store.metadata.change([PutResource(made, replaces='"1"')]))


async def read_row(store: Stores, container: Container, item_id: str) -> Row:
    found, _ = await store.items.read(container, 0, ItemKey(b"\x08a\xff", item_id))
    assert found is not None
    return found


def again(old: Row, **changes: Any) -> Callable[[int, int], Put]:
    return lambda lsn, _: Put(old._replace(lsn=lsn, **changes), old)


def gone(old: Row, *, expired: bool = False) -> Callable[[int, int], Remove]:
    return lambda _, __: Remove(old, expired)


# Latest


def test_order_of_last_writes(store: Stores, latest_versions: Container, run: Run[Any]) -> None:
    for id_ in "abc":
        run(write(store, latest_versions, new(id_)))
    run(write(store, latest_versions, again(run(read_row(store, latest_versions, "a")))))
    run(write(store, latest_versions, gone(run(read_row(store, latest_versions, "b")))))
    run(write(store, latest_versions, new("other", part=1), part=1))
    assert latest(store, run, latest_versions) == (["c", "a"], 5)
    assert latest(store, run, latest_versions, after=3) == (["a"], 5)
    assert latest(store, run, latest_versions, limit=1) == (["c"], 3)
    assert latest(store, run, latest_versions, after=5) == ([], 5)
    assert latest(store, run, latest_versions, after=9) == ([], 5)
    assert latest(store, run, latest_versions, part=1) == (["other"], 1)


def test_a_page_never_splits_a_transaction(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    for numbers in ((0,), (1, 2, 3), (4,), (5, 6)):
        run(write(store, all_versions, *[new(f"i{number}") for number in numbers]))
    pages = {1: [1, 3, 1, 2], 2: [4, 3], 3: [4, 3], 5: [5, 2], 6: [7], 100: [7]}
    for limit, expected in pages.items():
        for listed in (store.changes.latest, lambda c, s: store.changes.versions(c, s, 0)):
            sizes, after = [], 0
            while True:
                page: Any = run(listed(all_versions, search(after=after, limit=limit)))
                if not page[0]:
                    break
                sizes.append(len(page[0]))
                after = page.lsn
            assert sizes == expected, limit
            assert after == 4


def test_a_page_has_a_size_in_bytes(
    store: Stores, latest_versions: Container, run: Run[Any]
) -> None:
    for id_ in "abcd":
        run(write(store, latest_versions, new(id_)))
    size = len(run(read_row(store, latest_versions, "a")).body)
    assert latest(store, run, latest_versions, max_bytes=size * 2) == (["a", "b"], 2)
    assert latest(store, run, latest_versions, max_bytes=1) == (["a"], 1)


def test_expired_items_and_old_versions_are_skipped(
    store: Stores, latest_versions: Container, run: Run[Any]
) -> None:
    for id_, ts, ttl in (("a", 100, None), ("b", 101, 5), ("c", 102, -1), ("d", 103, None)):
        run(write(store, latest_versions, new(id_, ts=ts, ttl=ttl)))
    cutoff = Cutoff(100, 106)
    assert latest(store, run, latest_versions, cutoff=cutoff) == (["c", "d"], 4)
    assert latest(store, run, latest_versions, since=102) == (["c", "d"], 4)
    assert latest(store, run, latest_versions, limit=1, cutoff=cutoff) == (["c"], 3)


# The log


def test_what_is_logged(store: Stores, all_versions: Container, run: Run[Any]) -> None:
    run(write(store, all_versions, new("a", ts=100)))
    first = run(read_row(store, all_versions, "a"))
    run(write(store, all_versions, again(first, ts=101, body=b'{"id":"a","n":2}')))
    second = run(read_row(store, all_versions, "a"))
    run(write(store, all_versions, gone(second)))
    run(write(store, all_versions, new("b", ts=102, ttl=1)))
    expired = run(read_row(store, all_versions, "b"))
    run(write(store, all_versions, gone(expired, expired=True), new("b", ts=110)))
    page = run(store.changes.versions(all_versions, search(), 0))
    pk = first.pk
    assert page.changes == [
        LoggedChange(1, 100, "create", None, pk, "a", first.body),
        LoggedChange(2, 101, "replace", 1, pk, "a", second.body),
        LoggedChange(3, NOW, "delete", 2, pk, "a", second.body),
        LoggedChange(4, 102, "create", None, pk, "b", expired.body),
        LoggedChange(5, 110, "expire", 4, pk, "b", None),
        LoggedChange(5, 110, "create", None, pk, "b", run(read_row(store, all_versions, "b")).body),
    ]
    assert page.lsn == 5


def test_one_transaction_may_touch_an_item_twice(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    made: list[Row] = []

    def create(lsn: int, at: int) -> Put:
        made.append(row(lsn, "a", position=at))
        return Put(made[0])

    run(
        write(
            store,
            all_versions,
            create,
            lambda lsn, _: Put(made[0]._replace(etag='"2"'), made[0]),
            lambda _, __: Remove(made[0]),
        )
    )
    assert versions(store, run, all_versions) == [
        (1, "create", "a"),
        (1, "replace", "a"),
        (1, "delete", "a"),
    ]


def test_a_purge_of_a_logged_container_fits_on_a_page(
    store: Stores, all_versions: Container, latest_versions: Container, run: Run[Any]
) -> None:
    for container, expected in ((all_versions, MAX_LOGGED_REMOVALS), (latest_versions, 150)):
        run(write(store, container, *[new(f"i{number}") for number in range(150)]))
        assert (
            len(run(store.expiry.purge(PurgeRequest(container, 0, Cutoff(200, 200), 1000))).items)
            == expected
        )


def test_switching_on_and_off(store: Stores, latest_versions: Container, run: Run[Any]) -> None:
    run(write(store, latest_versions, new("a")))
    assert not run(store.changes.versions(latest_versions, search(after=1), 0)).is_complete
    switch(store, run, latest_versions.number, keeps=True)
    run(write(store, latest_versions, new("b")))
    # The state of the container rules, not the description that a running request holds.
    assert versions(store, run, latest_versions, after=1) == [(2, "create", "b")]
    assert not run(store.changes.versions(latest_versions, search(after=0), 0)).is_complete
    switch(store, run, latest_versions.number, keeps=False)
    run(write(store, latest_versions, new("c")))
    switch(store, run, latest_versions.number, keeps=True)
    assert not run(store.changes.versions(latest_versions, search(after=2), 0)).is_complete
    assert versions(store, run, latest_versions, after=3) == []


def test_forgetting(store: Stores, all_versions: Container, run: Run[Any]) -> None:
    for id_, ts in (("a", 10), ("b", 11), ("c", 12), ("d", 13)):
        run(write(store, all_versions, new(id_, ts=ts)))
    run(write(store, all_versions, new("other", part=1, ts=12), part=1))
    # Too old is out of reach before it is removed.
    assert not run(store.changes.versions(all_versions, search(), 10)).is_complete
    assert versions(store, run, all_versions, trimmed_until=10, after=1) == [
        (2, "create", "b"),
        (3, "create", "c"),
        (4, "create", "d"),
    ]
    assert run(store.changes.trim(all_versions, 11, 1)) == 1
    assert run(store.changes.trim(all_versions, 11, 100)) == 1
    assert run(store.changes.trim(all_versions, 11, 100)) == 0
    assert not run(store.changes.versions(all_versions, search(after=1), 0)).is_complete
    assert versions(store, run, all_versions, after=2) == [(3, "create", "c"), (4, "create", "d")]
    assert run(store.changes.trim(all_versions, 99, 100)) == 3
    assert run(store.changes.trim(all_versions, 99, 100)) == 0
    assert versions(store, run, all_versions, after=4) == []
    assert not run(store.changes.versions(all_versions, search(after=0, part=1), 0)).is_complete
    assert latest(store, run, all_versions) == (["a", "b", "c", "d"], 4)


def test_forgetting_half_a_transaction_hides_all_of_it(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    run(write(store, all_versions, new("a", ts=10), new("b", ts=10)))
    run(write(store, all_versions, new("c", ts=10)))
    assert run(store.changes.trim(all_versions, 10, 1)) == 1
    assert not run(store.changes.versions(all_versions, search(), 0)).is_complete
    assert versions(store, run, all_versions, after=1) == [(2, "create", "c")]


def test_a_purge_logs_in_the_order_of_expiry(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    for id_, ts in (("late", 30), ("early", 10), ("middle", 20), ("alive", 90)):
        run(write(store, all_versions, new(id_, ts=ts)))
    purged_items = run(
        store.expiry.purge(PurgeRequest(all_versions, 0, Cutoff(50, 50), 1000))
    ).items
    assert len(purged_items) == 3
    assert versions(store, run, all_versions, after=4) == [
        (5, "expire", "early"),
        (5, "expire", "middle"),
        (5, "expire", "late"),
    ]
    page = run(store.changes.versions(all_versions, search(after=4), 0))
    assert {change.ts for change in page.changes} == {NOW}
    assert [change.previous_lsn for change in page.changes] == [2, 3, 1]


def test_a_failed_transaction_logs_nothing(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    run(write(store, all_versions, new("a")))
    with pytest.raises(ServiceUnavailable):
        run(write(store, all_versions, new("b"), new("a")))
    with pytest.raises(ServiceUnavailable):
        run(write(store, all_versions, new("a")))
    assert versions(store, run, all_versions) == [(1, "create", "a")]
    run(write(store, all_versions, new("c")))
    assert versions(store, run, all_versions) == [(1, "create", "a"), (2, "create", "c")]


def test_a_stale_change_does_not_end_the_log(
    store: Stores, all_versions: Container, run: Run[Any]
) -> None:
    other = resource(9, keeps=True)
    stale = PutResource(resource(all_versions.number, keeps=False), replaces='"0"')
    with pytest.raises(StaleResource):
        run(store.metadata.change([PutResource(other), stale]))
    run(write(store, all_versions, new("a")))
    assert versions(store, run, all_versions) == [(1, "create", "a")]
    run(store.metadata.change([PutResource(other)]))


def test_logs_survive_reopening(home: Settings, run: Run[Any]) -> None:
    store = run(open_store(home))
    container = add(store, run, keeps=True)
    run(write(store, container, new("a")))
    run(store.close())
    store = run(open_store(home))
    run(write(store, container, new("b")))
    assert versions(store, run, container) == [(1, "create", "a"), (2, "create", "b")]
    run(store.close())
