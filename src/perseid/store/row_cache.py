"""Rows that were read lately, so that reading them again need not ask the database.

Lives on one thread: the event loop's. A row is put in by the read that fetched it, and every
commit drops what it changed before anyone is told of it, so a reader never gets a version older
than one that was acknowledged.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from perseid.model import ItemKey, Row

_OVERHEAD: Final = 600  # bytes of a row's objects beside its text


class RowCache:
    """The most recently read rows, up to a number of bytes."""

    def __init__(self, capacity: int) -> None:
        self._rows: OrderedDict[tuple[int, ItemKey], Row] = OrderedDict()
        self._keys: dict[tuple[int, int], ItemKey] = {}  # by container and item number
        self._room = capacity

    @property
    def is_empty(self) -> bool:
        return not self._keys

    def get(self, container: int, key: ItemKey) -> Row | None:
        place = (container, key)
        row = self._rows.get(place)
        if row is not None:
            self._rows.move_to_end(place)
        return row

    def get_number(self, container: int, number: int) -> Row | None:
        key = self._keys.get((container, number))
        return None if key is None else self.get(container, key)

    def put(self, container: int, row: Row) -> None:
        """Takes in a row that is not there yet."""
        key = row.key
        self._rows[container, key] = row
        self._keys[container, row.number] = key
        self._room -= len(row.body) + _OVERHEAD
        while self._room < 0:
            (owner, _), oldest = self._rows.popitem(last=False)
            del self._keys[owner, oldest.number]
            self._room += len(oldest.body) + _OVERHEAD

    def drop(self, container: int, number: int) -> None:
        """Forgets the item of that number, whatever its id was."""
        key = self._keys.pop((container, number), None)
        if key is not None:
            row = self._rows.pop((container, key))
            self._room += len(row.body) + _OVERHEAD

    def drop_partition(self, container: int, pk: bytes) -> None:
        """Forgets all items of a logical partition."""
        for number in [
            row.number
            for (owner, key), row in self._rows.items()
            if owner == container and key.pk == pk
        ]:
            self.drop(container, number)
