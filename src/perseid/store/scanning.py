"""Lists live items of one container in the order of their numbers, page by page."""

from __future__ import annotations

from typing import Any, Final

import apsw

from perseid.model import RANGE_SHIFT, Row
from perseid.store import scoping
from perseid.store.leads import wanted_ids
from perseid.store.pages import Filling
from perseid.store.predicates import bindings, condition_sql
from perseid.store.protocol import Page, Scan
from perseid.ttl import LIVE_SQL

# A row of an item as SQL; the order is that of model.Row.
COLUMNS: Final = "number, pk, id, epk, ts, ttl, lsn, etag, size, terms, CAST(json(body) AS BLOB)"
# A scan that executes so many steps of SQLite's machine without a row, some thousand dead items,
# asks the indexes where to go on; a few times, since each such leap looks at all the living.
_PATIENCE: Final = 20_000
_LEAPS: Final = 2


def run_scan(db: apsw.Connection, number: int, scan: Scan) -> Page:
    """A page of live items in the order of their numbers.

    The dead that lie in between are stepped over one by one, unless there are too many in a row:
    then the indexes over lifetimes tell where the next live item is.
    """
    sql, values = _scan_sql(number, scan)
    page = Filling(scan)
    may_leap = not scan.horizon.is_endless and scan.pk_prefix is None
    leaps = _LEAPS if may_leap else 0
    while True:
        if leaps:
            db.set_progress_handler(_Patience(page.rows), _PATIENCE)
        try:
            return page.fill(db.execute(sql, values))
        except apsw.InterruptError:
            if not leaps:
                raise
            leaps -= 1
        finally:
            if may_leap:
                db.set_progress_handler(None)
        after = page.rows[-1].number if page.rows else values["after"]
        following = _next_live(db, number, scan, after)
        if following is None:
            return Page(page.rows, False)
        values["after"] = following - 1


class _Patience:
    """Stops a statement that has stepped over many rows without giving one."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self._seen = len(rows)

    def __call__(self) -> bool:
        is_stuck = len(self._rows) == self._seen
        self._seen = len(self._rows)
        return is_stuck


def _next_live(db: apsw.Connection, number: int, scan: Scan, after: int) -> int | None:
    """The number of the first live item behind `after`, from the indexes over lifetimes."""
    table = f"standing_{number}"
    if scan.range_index is None:
        highest = db.execute(f"SELECT MAX(number) FROM {table}").get
        parts = range(max(after, 0) >> RANGE_SHIFT, ((highest or 0) >> RANGE_SHIFT) + 1)
    else:
        parts = range(scan.range_index, scan.range_index + 1)
    live = (
        "ttl IS NULL AND ts > :inherited",
        "ttl > 0 AND ts + ttl > :own",
        "ttl = -1",
    )
    for part in parts:  # one after the other: their numbers follow each other as well
        values = {
            "after": after,
            "part": part,
            "inherited": scan.horizon.inherited,
            "own": scan.horizon.own,
        }
        found = [
            db.execute(
                f"SELECT MIN(number) FROM {table} WHERE number >> {RANGE_SHIFT} = :part"
                f" AND {condition} AND number > :after",
                values,
            ).get
            for condition in live
        ]
        first = min((each for each in found if each is not None), default=None)
        if first is not None:
            return int(first)
    return None


def scope_sql(scan: Scan) -> tuple[str, dict[str, Any]]:
    """What a scan asks of an item besides its condition on the body, and the values for it."""
    return scoping.scope_sql(scan, ":{}".format, LIVE_SQL)


def key_sql(scan: Scan, values: dict[str, Any]) -> str:
    """The logical partition, key prefix or interval of hashes that a scan is about."""
    return scoping.key_sql(scan, values, ":{}".format)


def _scan_sql(number: int, scan: Scan) -> tuple[str, dict[str, Any]]:
    scope, values = scope_sql(scan)
    order = "number"
    if scan.where is not None:
        scope = f"{scope} AND {condition_sql(scan.where.condition)}"
        values |= bindings(scan.where)
        if ids := wanted_ids(scan):
            # The index over keys finds them; not asked for its order, which is another.
            scope += f" AND id IN ({', '.join(f':v{place}' for place in ids)})"
            order = "+number"
    return (
        f"SELECT {COLUMNS} FROM standing_{number} WHERE {scope} ORDER BY {order} LIMIT :limit",
        values,
    )
