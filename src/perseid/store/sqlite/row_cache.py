"""Rows that were read lately, so that reading them again need not ask the database.

Lives on one thread: the event loop's. A row is put in by the read that fetched it, and every
commit drops what it changed before anyone is told of it, so a reader never gets a version older
than one that was acknowledged.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import repeat
from typing import Final

from perseid.model import ItemKey, Row

_OVERHEAD: Final = 600  # bytes of a row's objects beside its text


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
        """The rows of these numbers, as far as they are here; does not keep them from ageing."""
        return [*map(self._numbered.get, zip(repeat(container), numbers))]

    def put(self, container: int, row: Row) -> None:
        """Takes in a row whose key is not there yet.

        Its item may be, under the id that it had before: the cache has yet to hear of the commit.
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
        """Forgets the item of that number, whatever its id was."""
        row = self._numbered.pop((container, number), None)
        if row is not None:
            del self._rows[container, row.key]
            self._room += len(row.body) + _OVERHEAD

    def drop_partition(self, container: int, pk: bytes) -> None:
        """Forgets all items of a logical partition."""
        for number in [
            row.number
            for (owner, key), row in self._rows.items()
            if owner == container and key.pk == pk
        ]:
            self.drop(container, number)
