"""Lists live items of one container in the order of their numbers, page by page."""

from __future__ import annotations

from typing import Any, Final

import apsw

from perseid.model import RANGE_SHIFT, Row
from perseid.store.sql import scope
from perseid.store.sql.candidates import required_ids
from perseid.store.sql.pages import RowPageBuilder
from perseid.store.sqlite.conditions_sql import bindings, condition_sql
from perseid.store.types import Search, SearchPage
from perseid.ttl import LIVE_ALTERNATIVES_SQL, LIVE_SQL

# A row of an item as SQL; the order is that of model.Row.
COLUMNS: Final = "number, pk, id, epk, ts, ttl, lsn, etag, size, terms, CAST(json(body) AS BLOB)"
# After so many steps of SQLite's virtual machine without a row, which is some thousand expired
# items, a scan asks the indexes over expiry for the next live item; a few times only, since each
# such query reads all live items.
_STEPS_WITHOUT_ROW: Final = 20_000
_MAX_SKIPS: Final = 2


def scan_items(db: apsw.Connection, number: int, search: Search) -> SearchPage:
    """A page of live items in the order of their numbers.

    Expired items are skipped one by one, unless there are too many in a row: then the indexes over
    expiry find the next live item.
    """
    sql, values = _search_sql(number, search)
    page = RowPageBuilder(search)
    may_skip = not search.cutoff.expires_nothing and search.pk_prefix is None
    skips = _MAX_SKIPS if may_skip else 0
    while True:
        if skips:
            db.set_progress_handler(_StuckDetector(page.rows), _STEPS_WITHOUT_ROW)
        try:
            return page.fill(db.execute(sql, values))
        except apsw.InterruptError:
            if not skips:
                raise
            skips -= 1
        finally:
            if may_skip:
                db.set_progress_handler(None)
        after = page.rows[-1].number if page.rows else values["after"]
        following = _next_live(db, number, search, after)
        if following is None:
            return SearchPage(page.rows, False)
        values["after"] = following - 1


class _StuckDetector:
    """Interrupts a statement that has skipped many rows without returning one."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self._seen = len(rows)

    def __call__(self) -> bool:
        is_stuck = len(self._rows) == self._seen
        self._seen = len(self._rows)
        return is_stuck


def _next_live(db: apsw.Connection, number: int, search: Search, after: int) -> int | None:
    """The number of the first live item after `after`, from the indexes over expiry."""
    table = f"visible_{number}"
    if search.range_index is None:
        highest = db.execute(f"SELECT MAX(number) FROM {table}").get
        range_indexes = range(max(after, 0) >> RANGE_SHIFT, ((highest or 0) >> RANGE_SHIFT) + 1)
    else:
        range_indexes = range(search.range_index, search.range_index + 1)
    for index in range_indexes:  # one after the other: their numbers follow each other as well
        values = {
            "after": after,
            "part": index,
            "inherited": search.cutoff.inherited,
            "own": search.cutoff.own,
        }
        numbers = [
            db.execute(
                f"SELECT MIN(number) FROM {table} WHERE number >> {RANGE_SHIFT} = :part"
                f" AND {condition} AND number > :after",
                values,
            ).get
            for condition in LIVE_ALTERNATIVES_SQL
        ]
        first = min((each for each in numbers if each is not None), default=None)
        if first is not None:
            return int(first)
    return None


def scope_sql(search: Search) -> tuple[str, dict[str, Any]]:
    """The scope of a search as SQL, and its values."""
    return scope.scope_sql(search, ":{}".format, LIVE_SQL)


def key_sql(search: Search, values: dict[str, Any]) -> str:
    """The logical partition, key prefix or interval of hashes of a search."""
    return scope.key_sql(search, values, ":{}".format)


def _search_sql(number: int, search: Search) -> tuple[str, dict[str, Any]]:
    scope, values = scope_sql(search)
    order = "number"
    if search.where is not None:
        scope = f"{scope} AND {condition_sql(search.where.condition)}"
        values |= bindings(search.where)
        if ids := required_ids(search):
            # The index over keys finds them; `+` keeps SQLite from scanning in number order.
            scope += f" AND id IN ({', '.join(f':v{value_index}' for value_index in ids)})"
            order = "+number"
    return (
        f"SELECT {COLUMNS} FROM visible_{number} WHERE {scope} ORDER BY {order} LIMIT :limit",
        values,
    )
