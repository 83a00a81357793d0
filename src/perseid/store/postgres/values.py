"""Single named values on PostgreSQL, and the highest time that the database's clock has shown."""

from __future__ import annotations

from typing import Final

from perseid.store.postgres.pool import Pool, fetch_all, fetch_one

_HIGHEST_CLOCK: Final = "highest_clock"


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
    found = await fetch_one(pool, "SELECT value FROM meta WHERE name = $1", (name,))
    return None if found is None else str(found[0])


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


async def raise_clock(pool: Pool, shown: float) -> None:
    """Remembers what the database's clock has shown."""
    await fetch_all(
        pool,
        "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE"
        " SET value = GREATEST(meta.value::float8, excluded.value::float8)::text",
        (_HIGHEST_CLOCK, repr(shown)),
    )


async def highest_clock(pool: Pool) -> float:
    return float(await _get(pool, _HIGHEST_CLOCK) or 0)
