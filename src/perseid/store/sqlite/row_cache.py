"""Recently read rows, so that reading them again does not use the database.

Used on the event loop only. A read adds the row that it fetched, and every commit drops the rows it
changed before it is acknowledged, so a reader never gets a version older than an acknowledged one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from perseid.model import ItemKey, Row

_OVERHEAD: Final = 600  # bytes of a row's objects besides its text


class RowCache:
    """The most recently read rows, up to a number of bytes."""

    def __init__(self, capacity: int) -> None:
        self._rows: OrderedDict[tuple[int, ItemKey], Row] = OrderedDict()
        self._numbered: dict[tuple[int, int], Row] = {}  # the same, by container and item number
        self._room = capacity

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def get(self, container: int, key: ItemKey) -> Row | None:
        cache_key = (container, key)
        row = self._rows.get(cache_key)
        if row is not None:
            self._rows.move_to_end(cache_key)
        return row

    def get_numbered(self, container: int, numbers: Sequence[int]) -> list[Row | None]:
        """The cached rows of these numbers; does not count as a use of them."""
        return [*map(self._numbered.get, zip(repeat(container), numbers))]

    def put(self, container: int, row: Row) -> None:
        """Adds a row whose key is not cached.

        Its item may be, under its former id, until the commit is known here.
        """
        self.drop(container, row.number)
        key = row.key
        self._rows[container, key] = row
        self._numbered[container, row.number] = row
        self._room -= len(row.body) + _OVERHEAD
        while self._room < 0:
            (owner, _), oldest = self._rows.popitem(last=False)
            del self._numbered[owner, oldest.number]
            self._room += len(oldest.body) + _OVERHEAD

    def drop(self, container: int, number: int) -> None:
        """Drops the item of that number, whatever its id was."""
        row = self._numbered.pop((container, number), None)
        if row is not None:
            del self._rows[container, row.key]
            self._room += len(row.body) + _OVERHEAD

    def drop_partition(self, container: int, pk: bytes) -> None:
        """Drops all items of a logical partition."""
        for number in [
            row.number
            for (owner, key), row in self._rows.items()
            if owner == container and key.pk == pk
        ]:
            self.drop(container, number)
