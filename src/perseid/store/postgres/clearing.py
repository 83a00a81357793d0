"""Clears a logical partition on PostgreSQL, in one transaction whatever its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from perseid import ttl
from perseid.model import Container, Row
from perseid.store.postgres import statements
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.overlay import LogRow
from perseid.store.postgres.placeholders import positional
from perseid.store.postgres.pool import DatabaseConnection, Pool
from perseid.store.postgres.range_lock import lock_range
from perseid.store.postgres.schema import range_key
from perseid.store.postgres.transactions import Statement, commit, pipelined, transact_for_client
from perseid.store.sql.change_pages import MAX_LOGGED_REMOVALS
from perseid.store.sql.range_state import RangeState
from perseid.store.types import Cleared
from perseid.ttl import EXPIRED_BY_CHANGE_SQL, LIVE_SQL, Cutoff

# Counted by size in the database: a partition may hold more items than fit in memory.
_DELETE_PARTITION: Final = (
    "WITH gone AS (DELETE FROM items WHERE part = :part AND pk = :pk"
    f" RETURNING size, terms, {LIVE_SQL} AS is_live, {EXPIRED_BY_CHANGE_SQL} AS is_by_change)"
    " SELECT is_live, is_by_change, size, COUNT(*), SUM(terms)::bigint FROM gone"
    " GROUP BY is_live, is_by_change, size"
)
# With the items themselves, for the change log.
_DELETE_PARTITION_ROWS: Final = (
    f"DELETE FROM items WHERE part = $1 AND pk = $2 RETURNING {statements.COLUMNS}"
)
_RELEASE_PARTITION_ENTRIES: Final = (
    "DELETE FROM entries WHERE part = $1"
    " AND number IN (SELECT number FROM items WHERE part = $1 AND pk = $2)"
)
_DELETE_PARTITION_VALUES: Final = (
    "DELETE FROM property_values WHERE part = $1"
    " AND number IN (SELECT number FROM items WHERE part = $1 AND pk = $2)"
)
_NO_STATEMENT_TIMEOUT: Final = "SET LOCAL statement_timeout TO 0"


class PartitionClearing:
    def __init__(
        self, pool: Pool, catalog_version: CatalogVersion, now: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._catalog_version = catalog_version
        self._now = now

    async def clear(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff,
    ) -> Cleared:
        part = range_key(container.number, range_index)

        return await transact_for_client(
            self._pool,
            lambda db: self._clear(db, container, part, pk, cutoff, previous_cutoff),
        )

    async def _clear(
        self,
        db: DatabaseConnection,
        container: Container,
        part: str,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff,
    ) -> Cleared:
        ((*counters, floor, _holder, _until, index_version),) = await lock_range(
            db, self._catalog_version, container, part
        )
        range_state = RangeState._make(counters)
        first: list[Statement] = [(_NO_STATEMENT_TIMEOUT, ())]
        if container.unique_keys:
            first.append((_RELEASE_PARTITION_ENTRIES, (part, pk)))
        if index_version:
            first.append((_DELETE_PARTITION_VALUES, (part, pk)))
        logged: list[LogRow] = []
        if floor is None:
            values = {"part": part, "pk": pk, **cutoff._asdict()}
            values |= {
                "previous_inherited": previous_cutoff.inherited,
                "previous_own": previous_cutoff.own,
            }
            (sizes,) = await pipelined(db, *first, positional(_DELETE_PARTITION, values))
            groups = [*map(_SizeGroup._make, sizes)]
        else:
            (deleted,) = await pipelined(db, *first, (_DELETE_PARTITION_ROWS, (part, pk)))
            rows = sorted(map(Row._make, deleted))
            groups = _size_groups(rows, cutoff, previous_cutoff)
            logged = self._clearing_log_rows(rows, range_state.lsn, cutoff)
        if not groups:
            return Cleared.of(range_state.lsn, ())
        steps = logged[-1].lsn - range_state.lsn if logged else 1
        range_state = _after_clear(range_state, groups, steps)
        await commit(
            db,
            *statements.log_inserts(part, logged),
            statements.update_range_state(part, range_state),
        )
        size_groups = [(each.is_live, each.size, each.items, each.terms) for each in groups]
        return Cleared.of(range_state.lsn, size_groups)

    def _clearing_log_rows(self, rows: Sequence[Row], lsn: int, cutoff: Cutoff) -> list[LogRow]:
        """Log rows in as many transactions as it takes for each to fit on a page."""
        ts = int(self._now())
        lines = []
        for at, row in enumerate(rows):
            is_live = ttl.is_live(row.ts, row.ttl, cutoff)
            step, entry = divmod(at, MAX_LOGGED_REMOVALS)
            kind, body = ("delete", row.body) if is_live else ("expire", None)
            lines.append(
                LogRow(lsn + 1 + step, entry, ts, kind, row.lsn, row.pk, row.id, row.epk, body)
            )
        return lines


class _SizeGroup(NamedTuple):
    """Items of one size, all live or all expired: how many, and how many index terms."""

    is_live: bool
    is_expired_by_change: bool
    size: int
    items: int
    terms: int


def _size_groups(rows: Sequence[Row], cutoff: Cutoff, previous_cutoff: Cutoff) -> list[_SizeGroup]:
    counts: Counter[tuple[bool, bool, int]] = Counter()
    terms: Counter[tuple[bool, bool, int]] = Counter()
    for row in rows:
        is_live = ttl.is_live(row.ts, row.ttl, cutoff)
        is_expired_by_change = not is_live and ttl.is_live(row.ts, row.ttl, previous_cutoff)
        counts[is_live, is_expired_by_change, row.size] += 1
        terms[is_live, is_expired_by_change, row.size] += row.terms
    return [_SizeGroup(*group, items, terms[group]) for group, items in counts.items()]


def _after_clear(range_state: RangeState, groups: Sequence[_SizeGroup], steps: int) -> RangeState:
    expired = [group for group in groups if not group.is_live]
    return range_state.after_clear(
        items=sum(group.items for group in groups),
        size=sum(group.size * group.items for group in groups),
        expired=sum(group.items for group in expired),
        expired_size=sum(group.size * group.items for group in expired),
        expired_by_change=sum(group.items for group in expired if group.is_expired_by_change),
        steps=steps,
    )
