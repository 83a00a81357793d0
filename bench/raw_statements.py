"""Sends the statements of a point read and a create without Perseid, as a baseline.

They use the tables that a server has just used, with as many connections as its clients had. A
create is one transaction that increments the counter of the range and inserts a row; connections
share nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import psycopg

from bench.load import Sample, on_fast_loop
from bench.report import Comparison, Measurement, MeasurementTable
from bench.storage import ServerData, dsn_of
from bench.workload import document, id_of

_SELECT: Final = (
    "SELECT number, pk, id, epk, ts, ttl, lsn, etag, size, terms, body"
    " FROM perseid.items WHERE part = %s AND pk = %s AND id = %s"
)
_COUNT: Final = "UPDATE perseid.positions SET lsn = lsn + 1 WHERE part = %s RETURNING lsn"
_INSERT: Final = (
    "INSERT INTO perseid.items (part, container, number, pk, id, epk, ts, lsn, etag, size, terms,"
    " body, doc) SELECT %s, container, %s, pk, %s, epk, ts, %s, etag, size, terms, %s, %s"
    " FROM perseid.items WHERE part = %s AND pk = %s AND id = %s"
)
# For the creates of this module; no range has this name, so no server sees them.
_PART: Final = "0:0"
_INSERT_POSITION: Final = (
    "INSERT INTO perseid.positions SELECT (jsonb_populate_record(p, jsonb_build_object("
    "'part', %s::text))).* FROM perseid.positions p LIMIT 1 ON CONFLICT DO NOTHING"
)

Connection = psycopg.AsyncConnection[Any]
Key = tuple[str, bytes, str]
_numbers = itertools.count(1)


async def _select(db: Connection, key: Key) -> None:
    selected = await (await db.execute(_SELECT, key, binary=True)).fetchone()
    assert selected is not None


async def _create(db: Connection, key: Key) -> None:
    number = next(_numbers)
    text = document(number % 1000, id_of(number % 1000))
    async with db.transaction():
        row = await (await db.execute(_COUNT, (_PART,))).fetchone()
        assert row is not None
        lsn = row[0]
        values = (_PART, lsn << 8, f"raw-{time.time_ns()}-{number}", lsn, text, text.decode(), *key)
        await db.execute(_INSERT, values)


# By the name of the row that is compared: the name of the baseline, and its statements.
_OPERATIONS: Final[Mapping[str, tuple[str, Callable[[Connection, Key], Awaitable[None]]]]] = {
    "point read": ("requests/s: SELECT by key", _select),
    "create": ("requests/s: UPDATE and INSERT", _create),
}


def measure(
    server_data: ServerData,
    samples: Mapping[str, Sequence[Sample]],
    connections: int,
    seconds: float,
    log: Callable[[str], None],
) -> MeasurementTable:
    """Compares the runs of the server (`samples`, by row) with plain statements."""
    measurements = []
    for name, (label, _) in _OPERATIONS.items():
        if name not in samples:
            continue
        runs = [sample.rate for sample in samples[name]]
        rates = [rate(server_data, name, connections, seconds) for _ in runs]
        measurements.append(Measurement(name, None, [Comparison(label, runs, rates)]))
        log(f"{name}: {measurements[-1].verdict}, baseline: plain statements")
    conditions = {"connections": connections, "seconds": seconds, "client": "psycopg"}
    return MeasurementTable("Compared with plain statements", conditions, measurements)


def is_known(name: str) -> bool:
    """True if the statements of this row can be sent without Perseid."""
    return name in _OPERATIONS


def rate(server_data: ServerData, name: str, connections: int, seconds: float) -> float:
    """How often the statements of a row can be executed in a second."""
    _, operation = _OPERATIONS[name]
    return on_fast_loop(_rate(dsn_of(server_data), operation, connections, seconds))


async def _rate(
    dsn: str,
    operation: Callable[[Connection, Key], Awaitable[None]],
    connections: int,
    seconds: float,
) -> float:
    opened = [
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(connections)
    ]
    try:
        await opened[0].execute(_INSERT_POSITION, (_PART,))
        selected = await opened[0].execute(
            "SELECT part, pk, id FROM perseid.items WHERE part <> %s ORDER BY md5(id) LIMIT 20000",
            (_PART,),
        )
        keys = itertools.cycle(await selected.fetchall())
        started = time.perf_counter()

        async def work(db: Connection) -> int:
            done = 0
            while time.perf_counter() - started < seconds:
                await operation(db, next(keys))
                done += 1
            return done

        counts = await asyncio.gather(*map(work, opened))
        return sum(counts) / (time.perf_counter() - started)
    finally:
        for each in opened:
            await each.close()
