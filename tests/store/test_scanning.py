"""Scans skip long runs of expired items (T-316), and miss no live item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perseid.model import item_number
from perseid.store.sqlite import scans, schema
from perseid.store.types import Search
from perseid.ttl import BEFORE_ANY_TS, Cutoff, is_live

pytestmark = pytest.mark.only_on("sqlite", reason="leaps in its scans")

TABLE = 7


class DatedItem(NamedTuple):
    part: int
    ts: int
    ttl: int | None


@pytest.fixture
def db(monkeypatch: pytest.MonkeyPatch) -> Iterator[apsw.Connection]:
    """A container's tables, and a scan that reaches its limit after a handful of rows."""
    monkeypatch.setattr(scans, "_STEPS_WITHOUT_ROW", 60)
    connection = apsw.Connection(":memory:")
    schema.migrate(connection)
    schema.create_items(connection, TABLE, range(3))
    yield connection
    connection.close()


def store_items(db: apsw.Connection, items: list[DatedItem]) -> list[tuple[int, DatedItem]]:
    """Stores the items, numbered in the order given within their ranges."""
    db.execute(f"DELETE FROM items_{TABLE}")
    stored = sorted((item_number(each.part, lsn, 0), each) for lsn, each in enumerate(items, 1))
    db.executemany(
        f"INSERT INTO items_{TABLE} VALUES"
        " (?, x'00', ?, x'00', ?, ?, 1, '', 2, 1, jsonb('{}'), NULL)",
        [(number, str(number), each.ts, each.ttl) for number, each in stored],
    )
    return stored


ITEMS = st.builds(
    DatedItem,
    st.integers(0, 2),
    st.integers(0, 40),
    st.one_of(st.none(), st.just(-1), st.integers(1, 20)),
)
RUNS = st.lists(st.tuples(ITEMS, st.sampled_from([1, 1, 3, 80])), max_size=12)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    RUNS, st.integers(-1, 40), st.integers(-1, 60), st.integers(1, 7), st.sampled_from([None, 0, 1])
)
def test_a_scan_finds_live_items_and_no_others(
    db: apsw.Connection,
    runs: list[tuple[DatedItem, int]],
    inherited: int,
    own: int,
    limit: int,
    part: int | None,
) -> None:
    """T-316: page by page, with runs of equal items long enough to make it leap."""
    cutoff = Cutoff(inherited, own)
    stored = store_items(db, [item for item, times in runs for _ in range(times)])
    expected = [
        number
        for number, each in stored
        if is_live(each.ts, each.ttl, cutoff) and part in (None, each.part)
    ]
    found: list[int] = []
    after = -1
    while True:
        search = Search(after=after, range_index=part, cutoff=cutoff, limit=limit)
        rows, has_more, *_ = scans.scan_items(db, TABLE, search)
        found += [row.number for row in rows]
        if not has_more:
            break
        after = rows[-1].number
    assert found == expected


def test_expired_items_before_live_items_are_not_stepped_through(db: apsw.Connection) -> None:
    """T-316: many expired items cost hardly more than few, counted in steps of SQLite's machine."""

    def steps(expired: int) -> int:
        store_items(db, [DatedItem(0, 1, None)] * expired + [DatedItem(0, 100, None)] * 20)
        noted: list[int] = []
        db.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda each: noted.append(each["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        rows, *_ = scans.scan_items(db, TABLE, Search(cutoff=Cutoff(50, BEFORE_ANY_TS)))
        db.trace_v2(0)
        assert len(rows) == 20
        return sum(noted)

    assert steps(20_000) < 2 * steps(200)
