"""A checksum for each stored item, so that bits that flipped on the disk are noticed.

SQLite checks the structure of its pages, not their content: a flipped bit in the text of an item
would be served like any other text. The checksum covers the text and the columns that decide how
long the item lives and what it is called. It is NULL in items of earlier layouts until the sweeper
has come by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import mmh3

from perseid.errors import DamagedItem
from perseid.model import ItemKey, Row
from perseid.store.sqlite.scans import COLUMNS

# The columns of a row, and its checksum.
CHECKED_COLUMNS: Final = f"{COLUMNS}, checksum"
# The same of items that may be damaged: texts as they are on the disk, and a body that SQLite
# cannot read as NULL.
_TOLERANT: Final = (
    "number, pk, CAST(id AS BLOB), epk, ts, ttl, lsn, CAST(etag AS BLOB), size, terms,"
    " CASE WHEN json_valid(body, 8) THEN CAST(json(body) AS BLOB) END"
)
TOLERANT_COLUMNS: Final = f"{_TOLERANT}, checksum"
_MOST_DAMAGED: Final = 10_000
_PRIME: Final = 4_294_967_291  # the largest below 2**32: no single bit of a number is lost
_DAMAGED_TYPES: Final = (TypeError, AttributeError, ValueError)  # a column has another type


def checksum(
    number: int,
    pk: bytes,
    item_id: str,
    _epk: bytes,
    ts: int,
    ttl: int | None,
    lsn: int,
    etag: str,
    size: int,
    terms: int,
    body: bytes,
    _stored: int | None = None,
) -> int:
    """The checksum of a row: 64 bits, which SQLite stores as an integer with a sign.

    SQLite returns the text as it was written, because that has no whitespace between its tokens.
    """
    numbers = number + ts * 3 + lsn * 5 + size * 7 + terms * 11 + (13 if ttl is None else ttl * 17)
    text = body + pk + (item_id + etag).encode()
    first_half: int = mmh3.hash64(text, numbers % _PRIME)[0]
    return first_half


def computed_checksum(columns: Sequence[Any]) -> int | None:
    """The checksum of these columns; None if one of them cannot be what was written."""
    try:
        return checksum(*columns)
    except _DAMAGED_TYPES:
        return None


def is_damaged(columns: Sequence[Any]) -> bool:
    """True if the checksum, the last of the columns, does not match the others."""
    computed, stored = computed_checksum(columns), columns[11]
    return computed is None or (stored is not None and computed != stored)


def tolerant_columns(checksum_sql: str) -> str:
    """TOLERANT_COLUMNS in a layout that may have no checksums."""
    return f"{_TOLERANT}, {checksum_sql}"


def decoded(columns: Sequence[Any]) -> list[Any]:
    """The columns with texts; damaged ones keep their bytes, and so have another checksum."""
    found = list(columns)
    for index in (2, 7):
        if isinstance(found[index], bytes):
            found[index] = found[index].decode(errors="surrogateescape")
    return found


def checked_row(columns: Sequence[Any]) -> Row:
    """The row of these columns and their checksum; DamagedItem if they do not match."""
    if is_damaged(columns):
        raise DamagedItem(str(columns[2]))
    return Row._make(columns[:11])


def damaged_row(columns: Sequence[Any], key: ItemKey) -> Row:
    """A damaged item for a decision, which may replace or delete it: without a body, and with
    values of the right types."""
    number, _, _, epk, ts, ttl, lsn, etag, size, terms, *_ = columns
    return Row(
        number,
        key.pk,
        key.id,
        epk if isinstance(epk, bytes) else b"",
        ts if isinstance(ts, int) else 0,
        ttl if isinstance(ttl, int) else None,
        lsn if isinstance(lsn, int) else 0,
        etag.decode(errors="replace") if isinstance(etag, bytes) else str(etag),
        size if isinstance(size, int) else 0,
        terms if isinstance(terms, int) else 0,
        b"",
    )


class DamagedItems:
    """The items that are known to be damaged, until they are written or removed.

    Searches do not compute checksums, because that would make them slower; they leave out nothing
    that is known to be damaged, but fail. Filled by point reads and by the sweeper.
    """

    def __init__(self) -> None:
        self.ids: dict[tuple[int, int], str] = {}  # by container and item number

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, container: int, number: int, item_id: str) -> None:
        if len(self.ids) < _MOST_DAMAGED:
            self.ids[container, number] = item_id

    def drop(self, container: int, number: int) -> None:
        self.ids.pop((container, number), None)

    def drop_container(self, container: int) -> None:
        self.ids = {key: item_id for key, item_id in self.ids.items() if key[0] != container}

    def replace(self, container: int, after: int, last: int, ids: Mapping[int, str]) -> None:
        """All items of a container after one number up to another were compared."""
        if self.ids:
            for key in [key for key in self.ids if key[0] == container and after < key[1] <= last]:
                del self.ids[key]
        for number, item_id in ids.items():
            self.add(container, number, item_id)

    def check(self, container: int, rows: Iterable[Row]) -> None:
        """DamagedItem if one of the rows is known to be damaged."""
        if self.ids:
            for row in rows:
                if (container, row.number) in self.ids:
                    raise DamagedItem(row.id)
