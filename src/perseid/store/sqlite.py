"""The embedded store: one SQLite file, one writer thread, readers beside it.

Point reads run on the calling thread, where they cost microseconds; scans run on a small pool.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw
import orjson

from perseid.model import RANGE_SHIFT, Container, ItemKey, Row, Usage
from perseid.store import schema
from perseid.store.protocol import (
    Corpse,
    Decision,
    Note,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Resource,
    Scan,
    Span,
    StaleResource,
    StoreError,
    Tally,
    View,
)
from perseid.store.writer import Writer
from perseid.ttl import DAWN, LIVE_SQL, Horizon

T = TypeVar("T")

_SCANNERS: Final = 4
_SYNCHRONOUS: Final = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}
_COLUMNS: Final = "number, pk, id, epk, ts, ttl, lsn, etag, size, terms, CAST(json(body) AS BLOB)"


class _Statements(NamedTuple):
    """The SQL of one container's tables."""

    read: str
    read_number: str
    insert: str
    update: str
    delete: str
    holder: str
    claim: str
    unclaim: str
    scan: str


@lru_cache(maxsize=4096)
def _statements(number: int) -> _Statements:
    items, unique = f"items_{number}", f"unique_{number}"
    return _Statements(
        read=f"SELECT {_COLUMNS} FROM {items} WHERE pk = ? AND id = ?",
        read_number=f"SELECT {_COLUMNS} FROM {items} WHERE number = ?",
        insert=f"INSERT INTO {items} VALUES (?,?,?,?,?,?,?,?,?,?,jsonb(?))",
        update=f"UPDATE {items} SET id = ?, ts = ?, ttl = ?, lsn = ?, etag = ?, size = ?,"
        " terms = ?, body = jsonb(?) WHERE number = ?",
        delete=f"DELETE FROM {items} WHERE number = ?",
        holder=f"SELECT {_COLUMNS} FROM {items}"
        f" WHERE number = (SELECT number FROM {unique} WHERE entry = ?)",
        claim=f"INSERT INTO {unique} VALUES (?, ?)",
        unclaim=f"DELETE FROM {unique} WHERE number = ?",
        scan=f"SELECT {_COLUMNS} FROM {items} WHERE ",
    )


# The two partial indexes: the condition that selects each, and the base it is ordered by. What is
# written here must be what the indexes say, or SQLite will not use them.
_MORTALS: Final = {"inheriting": ("ttl IS NULL", "ts"), "own": ("ttl > 0", "ts + ttl")}


def _span_sql(number: int, span: Span, columns: str, rest: str = "") -> str:
    """SQL over the items of a span, in the order of their bases; binds :range :after :upto."""
    condition, base = _MORTALS[span.kind]
    return (
        f"SELECT {columns.format(base=base)} FROM items_{number}"
        f" WHERE number >> {RANGE_SHIFT} = :range AND {condition}"
        f" AND {base} > :after AND {base} <= :upto {rest.format(base=base)}"
    )


class _Position(NamedTuple):
    """How far a range has come: its last LSN, and the items it holds, dead ones included."""

    lsn: int = 0
    items: int = 0
    size: int = 0


_START: Final = _Position()


class SqliteStore:
    """See `store.protocol.Store`."""

    def __init__(self, path: Path, *, durability: str = "full") -> None:
        self._path = path
        self._synchronous = _SYNCHRONOUS[durability]
        self._local = threading.local()
        self._scan_connections: list[apsw.Connection] = []
        try:
            self._write_db = self._connect()
            schema.migrate(self._write_db)
            self._point_db = self._connect()
        except (apsw.CorruptError, apsw.NotADBError) as exc:
            raise StoreError(f"{path} is not a usable database file: {exc}") from exc
        except apsw.Error as exc:
            raise StoreError(f"cannot open {path}: {exc}") from exc
        self._scanners = ThreadPoolExecutor(_SCANNERS, thread_name_prefix="perseid-scan")
        # By (container, range): what is durable, and what the open transaction makes of it.
        self._positions: dict[tuple[int, int], _Position] = {
            (container, part): _Position(*position)
            for container, part, *position in self._write_db.execute("SELECT * FROM positions")
        }
        self._open_positions: dict[tuple[int, int], _Position] = {}
        self._writer = Writer(self._write_db, self._store_positions, self._settle_positions)

    def _connect(self) -> apsw.Connection:
        db = apsw.Connection(str(self._path), statementcachesize=256)
        db.set_busy_timeout(10_000)
        # auto_vacuum only takes effect before the first table: it lets the file shrink later.
        db.pragma("auto_vacuum", "INCREMENTAL")
        db.pragma("journal_mode", "WAL")
        db.pragma("synchronous", self._synchronous)
        db.pragma("temp_store", "MEMORY")
        db.pragma("cache_size", -16_384)
        return db

    async def close(self) -> None:
        await asyncio.to_thread(self._writer.close)
        self._scanners.shutdown()
        for db in (*self._scan_connections, self._point_db):
            db.close()
        # Last, so that SQLite folds the log into the file and the file alone is the database.
        self._write_db.close()

    # Metadata

    async def get_meta(self, name: str) -> str | None:
        value: str | None = self._point_db.execute(
            "SELECT value FROM meta WHERE name = ?", (name,)
        ).get
        return value

    async def put_meta(self, name: str, value: str) -> None:
        await self._writer.submit(
            lambda: self._write_db.execute(
                "INSERT INTO meta VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )
        )

    async def next_number(self, series: str) -> int:
        def take() -> int:
            value: str = self._write_db.execute(
                "INSERT INTO meta VALUES (?, '1')"
                " ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value",
                (f"last_{series}",),
            ).get
            return int(value)

        return await self._writer.submit(take)

    async def resources(self) -> list[Resource]:
        return [
            Resource._make((*columns, orjson.loads(state)))
            for *columns, state in self._point_db.execute(
                "SELECT rid, kind, parent, id, etag, ts, state FROM resources ORDER BY rowid"
            )
        ]

    async def change(self, changes: Sequence[PutResource | RemoveResource | Note]) -> None:
        def apply() -> None:
            for change in changes:
                if isinstance(change, PutResource):
                    self._put_resource(change)
                elif isinstance(change, RemoveResource):
                    self._remove_resource(change.resource)
                else:
                    self._write_db.execute(
                        "INSERT INTO audit (ts, container, entry) VALUES (?, ?, ?)",
                        (change.ts, change.container, orjson.dumps(change.entry).decode()),
                    )

        await self._writer.submit(apply)

    async def notes(self, container: str | None, after: int, limit: int) -> list[tuple[int, Note]]:
        rows = self._point_db.execute(
            "SELECT line, ts, container, entry FROM audit"
            " WHERE line > ? AND container = COALESCE(?, container) ORDER BY line LIMIT ?",
            (after, container, limit),
        )
        return [(line, Note(ts, rid, orjson.loads(entry))) for line, ts, rid, entry in rows]

    def _put_resource(self, change: PutResource) -> None:
        db, resource = self._write_db, change.resource
        state = orjson.dumps(resource.state).decode()
        if change.replaces is None:
            try:
                db.execute("INSERT INTO resources VALUES (?,?,?,?,?,?,?)", (*resource[:-1], state))
            except apsw.ConstraintError as exc:
                raise StaleResource(resource.id) from exc
            if resource.kind == "container":
                number = resource.state["number"]
                schema.create_items(db, number, resource.state["ranges"])
                for part, *position in db.execute(
                    "SELECT range, lsn, items, bytes FROM positions WHERE container = ?", (number,)
                ):
                    self._open_positions[number, part] = _Position(*position)
        else:
            db.execute(
                "UPDATE resources SET id = ?, etag = ?, ts = ?, state = ?"
                " WHERE rid = ? AND etag = ?",
                (resource.id, resource.etag, resource.ts, state, resource.rid, change.replaces),
            )
            if db.changes() != 1:
                raise StaleResource(resource.id)

    def _remove_resource(self, resource: Resource) -> None:
        db = self._write_db
        db.execute("DELETE FROM resources WHERE rid = ?", (resource.rid,))
        if db.changes() != 1:
            raise StaleResource(resource.id)
        if resource.kind == "container":
            schema.drop_items(db, resource.state["number"])

    # Items

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        # Before the row: a reported LSN may lag behind what was read, never run ahead of it.
        lsn = self._positions.get((container.number, range_index), _START).lsn
        columns = self._point_db.execute(_statements(container.number).read, key).get
        return (None if columns is None else Row._make(columns)), lsn

    async def read_number(self, container: Container, number: int) -> Row | None:
        columns = self._point_db.execute(_statements(container.number).read_number, (number,)).get
        return None if columns is None else Row._make(columns)

    async def lsns(self, container: Container) -> tuple[int, ...]:
        return tuple(
            self._positions.get((container.number, part.index), _START).lsn
            for part in container.ranges
        )

    async def write(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
    ) -> T:
        return await self._writer.submit(lambda: self._decide(container, range_index, keys, decide))

    def _decide(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
    ) -> T:
        place = (container.number, range_index)
        position = self._open_positions.get(place) or self._positions.get(place, _START)
        lsn = position.lsn + 1
        sql = _statements(container.number)
        execute = self._write_db.execute
        rows = {}
        for key in keys:
            columns = execute(sql.read, key).get
            rows[key] = None if columns is None else Row._make(columns)
        holders: dict[bytes, Row | None] = {}
        decision = decide(View(rows, holders, lsn))
        while claimed := [
            entry
            for change in decision.changes
            if isinstance(change, Put)
            for entry in change.unique
            if entry not in holders
        ]:
            for entry in claimed:
                columns = execute(sql.holder, (entry,)).get
                holders[entry] = None if columns is None else Row._make(columns)
            decision = decide(View(rows, holders, lsn))
        if decision.changes:
            _, items, size = position
            for change in decision.changes:
                self._apply(sql, change, has_unique=bool(container.unique_keys))
                if isinstance(change, Remove):
                    items, size = items - 1, size - change.row.size
                else:
                    old = change.replaces
                    items += old is None
                    size += change.row.size - (0 if old is None else old.size)
            # Only now: a change that failed above has left no trace.
            self._open_positions[place] = _Position(lsn, items, size)
        return decision.result

    def _apply(self, sql: _Statements, change: Put | Remove, *, has_unique: bool) -> None:
        execute = self._write_db.execute
        row = change.row
        if isinstance(change, Remove):
            if has_unique:
                execute(sql.unclaim, (row.number,))
            execute(sql.delete, (row.number,))
            return
        if change.replaces is None:
            execute(sql.insert, row)
        else:
            execute(
                sql.update,
                (row.id, *row[4:11], row.number),
            )
            if has_unique:
                execute(sql.unclaim, (row.number,))
        for entry in change.unique:
            execute(sql.claim, (entry, row.number))

    def _store_positions(self) -> None:
        for place, position in self._open_positions.items():
            self._write_db.execute(
                "REPLACE INTO positions VALUES (?, ?, ?, ?, ?)", (*place, *position)
            )

    def _settle_positions(self, is_committed: bool) -> None:
        if is_committed:
            self._positions.update(self._open_positions)
        self._open_positions.clear()

    async def scan(self, container: Container, scan: Scan) -> list[Row]:
        return await self._on_scanner(lambda db: _run_scan(db, container.number, scan))

    async def usage(self, container: Container, range_index: int, horizon: Horizon) -> Usage:
        position = self._positions.get((container.number, range_index), _START)
        if horizon.is_endless:
            return Usage(position.items, position.size, 0, 0)
        spans = Span("inheriting", DAWN, horizon.inherited), Span("own", DAWN, horizon.own)

        def count(db: apsw.Connection) -> Usage:
            counts = [_count(db, container.number, range_index, span) for span in spans]
            dead, dead_size = (sum(column) for column in zip(*counts, strict=True))
            return Usage(position.items - dead, position.size - dead_size, dead, dead_size)

        return await self._on_scanner(count)

    # Lifetimes

    async def purge(
        self,
        container: Container,
        range_index: int,
        horizon: Horizon,
        limit: int,
        afford: Callable[[Sequence[Corpse]], int] | None = None,
    ) -> list[Corpse]:
        return await self._writer.submit(
            lambda: self._purge(container, range_index, horizon, limit, afford)
        )

    def _purge(
        self,
        container: Container,
        range_index: int,
        horizon: Horizon,
        limit: int,
        afford: Callable[[Sequence[Corpse]], int] | None,
    ) -> list[Corpse]:
        db, number = self._write_db, container.number
        corpses: list[Corpse] = []
        for span in (Span("inheriting", DAWN, horizon.inherited), Span("own", DAWN, horizon.own)):
            # An inheriting item died a default lifetime after its base, one with a ttl at its base.
            age = max(container.policy.default_ttl or 0, 0) if span.kind == "inheriting" else 0
            columns = "number, {base} + :age, size, terms"
            sql = _span_sql(number, span, columns, "ORDER BY {base} LIMIT :limit")
            values = _span_values(range_index, span) | {"limit": limit, "age": age}
            corpses += map(Corpse._make, db.execute(sql, values))
        corpses.sort(key=lambda corpse: corpse.base)
        del corpses[limit if afford is None else afford(corpses[:limit]) :]
        if not corpses:
            return corpses
        numbers = orjson.dumps([corpse.number for corpse in corpses]).decode()
        tables = [f"items_{number}"]
        if container.unique_keys:
            tables.append(f"unique_{number}")
        for table in tables:
            db.execute(
                f"DELETE FROM {table} WHERE number IN (SELECT value FROM json_each(?))", (numbers,)
            )
        place = (number, range_index)
        lsn, items, size = self._open_positions.get(place) or self._positions[place]
        self._open_positions[place] = _Position(
            lsn + 1, items - len(corpses), size - sum(corpse.size for corpse in corpses)
        )
        return corpses

    async def reclaim(self, pages: int) -> int:
        def give_back() -> int:
            for _ in self._write_db.execute(f"PRAGMA incremental_vacuum({pages:d})"):
                pass
            left: int = self._write_db.pragma("freelist_count")
            return left

        if self._point_db.pragma("freelist_count") == 0:
            return 0
        return await self._writer.submit(give_back)

    async def tally(self, container: Container, range_index: int, span: Span) -> Tally:
        columns = "COUNT(*), COALESCE(SUM(size), 0), MIN(ts), MAX(ts), MAX({base})"
        sql = _span_sql(container.number, span, columns)
        values = _span_values(range_index, span)
        return await self._on_scanner(lambda db: Tally._make(db.execute(sql, values).get))

    async def histogram(
        self, container: Container, range_index: int, span: Span, width: int
    ) -> dict[int, tuple[int, int]]:
        sql = _span_sql(
            container.number,
            span,
            "({base} - :after - 1) / :width AS bucket, COUNT(*), SUM(size)",
            "GROUP BY bucket",
        )
        values = _span_values(range_index, span) | {"width": width}
        return await self._on_scanner(
            lambda db: {bucket: (items, size) for bucket, items, size in db.execute(sql, values)}
        )

    async def sample(
        self, container: Container, range_index: int, span: Span, limit: int
    ) -> list[Row]:
        columns = "number, pk, id, epk, ts, ttl, lsn, etag, size, terms, x''"
        sql = _span_sql(container.number, span, columns, "ORDER BY {base} LIMIT :limit")
        values = _span_values(range_index, span) | {"limit": limit}
        return await self._on_scanner(lambda db: [*map(Row._make, db.execute(sql, values))])

    async def invalid_ttls(self, container: Container) -> int:
        sql = (
            f"SELECT COUNT(*) FROM items_{container.number}"
            " WHERE ttl IS NULL AND json_type(body, '$.ttl') IS NOT NULL"
        )
        return await self._on_scanner(lambda db: int(db.execute(sql).get))

    async def _on_scanner(self, work: Callable[[apsw.Connection], T]) -> T:
        def run() -> T:
            db: apsw.Connection | None = getattr(self._local, "db", None)
            if db is None:
                db = self._local.db = self._connect()
                self._scan_connections.append(db)
            return work(db)

        return await asyncio.get_running_loop().run_in_executor(self._scanners, run)


def _span_values(range_index: int, span: Span) -> dict[str, int]:
    return {"range": range_index, "after": span.after, "upto": span.upto}


def _count(db: apsw.Connection, number: int, range_index: int, span: Span) -> tuple[int, int]:
    """Items and bytes of a span, from the index alone."""
    sql = _span_sql(number, span, "COUNT(*), COALESCE(SUM(size), 0)")
    items, size = db.execute(sql, _span_values(range_index, span)).get
    return items, size


def _run_scan(db: apsw.Connection, number: int, scan: Scan) -> list[Row]:
    conditions = ["number > :after"]
    values: dict[str, Any] = {"after": scan.after}
    if scan.range_index is not None:
        conditions.append("number >= :first AND number < :last")
        values["first"] = scan.range_index << RANGE_SHIFT
        values["last"] = (scan.range_index + 1) << RANGE_SHIFT
    if scan.pk_prefix is not None:
        if scan.is_prefix:
            conditions.append("pk >= :pk AND substr(pk, 1, :pk_length) = :pk")
            values["pk_length"] = len(scan.pk_prefix)
        else:
            conditions.append("pk = :pk")
        values["pk"] = scan.pk_prefix
    if scan.epk_min is not None:
        conditions.append("epk >= :epk_min")
        values["epk_min"] = scan.epk_min
    if scan.epk_max is not None:
        conditions.append("epk < :epk_max")
        values["epk_max"] = scan.epk_max
    if not scan.horizon.is_endless:
        conditions.append(LIVE_SQL)
        values |= {"inherited": scan.horizon.inherited, "own": scan.horizon.own}
    sql = _statements(number).scan + " AND ".join(conditions) + " ORDER BY number LIMIT :limit"
    values["limit"] = scan.limit
    rows: list[Row] = []
    room = scan.max_bytes
    for columns in db.execute(sql, values):
        row = Row._make(columns)
        room -= row.size
        if room < 0 and rows:
            break
        rows.append(row)
    return rows
