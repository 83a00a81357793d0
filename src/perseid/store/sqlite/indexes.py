"""Indexes over properties of stored items, made when a query first asks for one.

An index over a path holds the rank of the type there, the value, and the item's number: equal
values are in order of creation, and all values in the order of ORDER BY. The two columns about
lifetimes let it tell the living from the dead without a look at the items. Its name is its path, so
the file itself says which ones there are.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import Final

import apsw
import orjson

from perseid.conditions import PropertyPath
from perseid.store.sqlite.conditions_sql import rank_sql, value_sql

# A scan over fewer items is done before an index could help.
LEAST_ITEMS: Final = 500
# Each one costs every write a little, and space.
MOST_INDEXES: Final = 24
# An index that could not be made is not tried again for so many seconds.
RETRY_DELAY: Final = 60.0


class IndexDropped(Exception):
    """The index that a search was about to use had to make room for another meanwhile."""


class PropertyIndexes:
    """The indexes there are, by container and path, and when each was last asked for."""

    def __init__(self, db: apsw.Connection) -> None:
        self._known: dict[int, dict[PropertyPath, str]] = {}
        self._uses: dict[str, int] = {}
        self._turn = itertools.count(1)
        for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'index'"):
            table, mark, path = name.partition("_by_")
            if mark:
                number = int(table.removeprefix("items_"))
                path = path[: path.rindex("]") + 1]
                self._known.setdefault(number, {})[tuple(orjson.loads(path))] = name

    def find(self, number: int, path: PropertyPath) -> str | None:
        """The name of the index over a path, which counts as a use of it."""
        name = self._known.get(number, {}).get(path)
        if name is not None:
            self._uses[name] = next(self._turn)
        return name

    def paths(self, number: int) -> list[PropertyPath]:
        return list(self._known.get(number, {}))

    def create(self, db: apsw.Connection, number: int, path: PropertyPath) -> Callable[[], None]:
        """Makes the index, instead of the one least used if there are many; inside a transaction.

        What is returned makes that known, once it is durable.
        """
        name = _name(number, path)
        known = self._known.get(number, {})
        if len(known) >= MOST_INDEXES:
            self.drop(db, number, min(known, key=lambda each: self._uses.get(known[each], 0)))
        db.execute(
            f"CREATE INDEX IF NOT EXISTS {_quoted(name)} ON items_{number}"
            f" ({rank_sql(path)}, {value_sql(path)}, number, ts, ttl)"
        )

        def publish() -> None:
            self._known.setdefault(number, {})[path] = name

        return publish

    def drop(self, db: apsw.Connection, number: int, path: PropertyPath) -> None:
        """From now on nobody is sent to the index; if this is undone, it is made known again by
        whoever wants to make it."""
        name = self._known.get(number, {}).pop(path, None)
        if name is not None:
            db.execute(f"DROP INDEX IF EXISTS {_quoted(name)}")

    def drop_container(self, number: int) -> None:
        """After the container's table is gone."""
        self._known.pop(number, None)


def _name(number: int, path: PropertyPath) -> str:
    """SQLite takes names for equal that differ in case only, so a path with capitals says more."""
    text = orjson.dumps(path).decode()
    if text != text.lower():
        text += hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    return f"items_{number}_by_{text}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def indexed_by(name: str) -> str:
    return f"INDEXED BY {_quoted(name)}"
