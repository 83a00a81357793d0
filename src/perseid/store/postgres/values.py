"""Single named values on PostgreSQL, and the highest time that the database's clock has shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from perseid.store.postgres.pool import (
    PROCESS_NAME,
    DatabaseConnection,
    Pool,
    fetch_all,
    fetch_one,
    pooled_connection,
)
from perseid.store.postgres.transactions import execute

_HIGHEST_CLOCK: Final = "highest_clock"
_CLOCK_RESTARTS: Final = "clock_restarts"
_CLOCK_LIMIT: Final = "clock_limit"
_OTHERS_RUN: Final = f"""EXISTS (SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND application_name ~ '{PROCESS_NAME}'
    AND application_name <> current_setting('application_name'))"""


class PostgresValues:
    """See `store.protocol.NamedValues`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, name: str) -> str | None:
        return await _get(self._pool, name)

    async def put(self, name: str, value: str) -> None:
        await _put(self._pool, name, value)

    async def put_if_absent(self, name: str, value: str) -> str:
        return await _put_if_absent(self._pool, name, value)


async def _get(pool: Pool, name: str) -> str | None:
    row = await fetch_one(pool, "SELECT value FROM meta WHERE name = $1", (name,))
    return None if row is None else str(row[0])


async def _put(pool: Pool, name: str, value: str) -> None:
    await fetch_all(
        pool,
        "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


async def _put_if_absent(pool: Pool, name: str, value: str) -> str:
    await fetch_all(
        pool, "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", (name, value)
    )
    kept = await _get(pool, name)
    return value if kept is None else kept


async def clock_floor(pool: Pool) -> float:
    """The latest time that a server process may have shown before this one starts.

    Those that run have stored it. If none runs, the last may have been killed, and the limit
    counts.
    """
    rows = await fetch_all(
        pool,
        f"SELECT max(value::float8) FROM meta WHERE name = $1 OR (name = $2 AND NOT {_OTHERS_RUN})",
        (_HIGHEST_CLOCK, _CLOCK_LIMIT),
    )
    return float(rows[0][0] or 0)


async def raise_clock(pool: Pool, shown: float, limit: float, restarts: int) -> None:
    """Remembers what the database's clock has shown, and what it may show until the next call.

    Does nothing if the clock was restarted since it was read.
    """
    await fetch_all(
        pool,
        "INSERT INTO meta VALUES ($1, $2), ($3, $4) ON CONFLICT (name) DO UPDATE"
        " SET value = GREATEST(meta.value::float8, excluded.value::float8)::text"
        " WHERE COALESCE((SELECT value FROM meta WHERE name = $5)::bigint, 0) = $6",
        (_HIGHEST_CLOCK, repr(shown), _CLOCK_LIMIT, repr(limit), _CLOCK_RESTARTS, restarts),
    )


async def lower_clock_limit(pool: Pool, shown: float) -> None:
    """At the end of the last server process: it has shown no later time."""
    await fetch_all(
        pool,
        f"UPDATE meta SET value = $2 WHERE name = $1 AND NOT {_OTHERS_RUN}",
        (_CLOCK_LIMIT, repr(shown)),
    )


async def restart_clock(db: DatabaseConnection, floor: float, ahead: float) -> None:
    """Forgets what the database's clock has shown after `floor`; part of a transaction."""
    await execute(
        db,
        "WITH now AS (SELECT GREATEST($2, extract(epoch FROM clock_timestamp())::float8) AS now)"
        " INSERT INTO meta SELECT $1, now::text FROM now"
        " UNION ALL SELECT $3, (now + $4)::text FROM now"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (_HIGHEST_CLOCK, floor, _CLOCK_LIMIT, ahead),
    )
    await execute(
        db,
        "INSERT INTO meta VALUES ($1, '1') ON CONFLICT (name)"
        " DO UPDATE SET value = (meta.value::bigint + 1)::text",
        (_CLOCK_RESTARTS,),
    )


async def clock_restarts(pool: Pool) -> int:
    """How often a jump of the database's clock was rejected."""
    return int(await _get(pool, _CLOCK_RESTARTS) or 0)


async def highest_clock(pool: Pool) -> float:
    """The latest time that the database's clock has shown, if it was set back since."""
    return float(await _get(pool, _HIGHEST_CLOCK) or 0)


async def database_clock(pool: Pool, steady: Callable[[], float]) -> tuple[float, float, float]:
    """The database's clock, and the monotonic clock before and after it was read."""
    async with pooled_connection(pool) as db:
        sent = steady()
        # Without a table: on Citus that might be read on another node, which has another clock.
        asked = await db.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        ((now,),) = await asked.fetchall()
        received = steady()
    return now, sent, received
