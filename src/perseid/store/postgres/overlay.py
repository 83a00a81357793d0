"""The state that the writes of a shared transaction see before any of it is sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from perseid.errors import ServiceUnavailable
from perseid.model import ItemKey, Row
from perseid.store.postgres.failures import unstorable_item
from perseid.store.sql.range_state import RangeState
from perseid.store.types import Put, Remove

_ESCAPE: Final = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


class LogRow(NamedTuple):
    """A row of the change log, in the order of the columns after `part`."""

    lsn: int
    entry: int
    ts: int
    kind: str
    previous_lsn: int | None
    pk: bytes
    id: str
    epk: bytes
    body: bytes | None


class Overlay:
    """The rows of a range with the changes of the writes so far."""

    def __init__(self, range_state: RangeState, stored_rows: Iterable[Row]) -> None:
        self.range_state = range_state
        self.log: list[LogRow] = []
        self.is_sent = False  # some changes are in the database already
        self._stored: dict[ItemKey, Row] = {row.key: row for row in stored_rows}
        self._rows: dict[ItemKey, Row | None] = {}  # rows that differ from the stored ones
        self._reserved: dict[bytes, int] = {}  # unique-key entries and the items that reserve them
        self._touched: set[int] = set()  # items whose stored entries are released
        self._unique: dict[int, tuple[bytes, ...]] = {}  # entries by new item

    @property
    def is_changed(self) -> bool:
        return bool(self._rows)

    def row(self, key: ItemKey) -> Row | None:
        return self._rows[key] if key in self._rows else self._stored.get(key)

    def unique_key_owner(self, entry: bytes, stored: Row | None) -> Row | None:
        """The owner of the entry, given its owner in the database."""
        number = self._reserved.get(entry)
        if number is not None:
            return next(
                row for row in self._rows.values() if row is not None and row.number == number
            )
        return None if stored is None or stored.number in self._touched else stored

    def add_changes(self, changes: Sequence[Put | Remove], ts: int | None) -> None:
        """Adds a decision's changes; with `ts` they are logged. Nothing is added if one of them
        cannot be stored."""
        left = [change.row if isinstance(change, Remove) else change.replaces for change in changes]
        keys = {row.key for row in left if row is not None}
        for change in changes:
            if isinstance(change, Put):
                check_storable(change.row)
                key = change.row.key
                if change.replaces is None and key not in keys and self.row(key) is not None:
                    raise ServiceUnavailable("A write to an item that was not asked for.")
        lsn = self.range_state.lsn + 1
        for entry, change in enumerate(changes):
            if ts is not None:
                self.log.append(_logged(lsn, entry, ts, change))
            self._apply(change)
        if changes:
            self.range_state = self.range_state.after_write(changes)

    def _apply(self, change: Put | Remove) -> None:
        row = change.row
        replaced = row if isinstance(change, Remove) else change.replaces
        if replaced is not None:
            if replaced.key not in self._rows:
                self._stored.setdefault(replaced.key, replaced)
            self._rows[replaced.key] = None
            self._touched.add(replaced.number)
            for entry in self._unique.pop(replaced.number, ()):
                if self._reserved.get(entry) == replaced.number:
                    del self._reserved[entry]
        if isinstance(change, Put):
            self._rows[row.key] = row
            if change.unique:
                self._unique[row.number] = change.unique
                self._reserved.update(dict.fromkeys(change.unique, row.number))

    # What to send

    def gone(self) -> list[Row]:
        """Stored rows to remove, including those that another item replaces."""
        return [
            stored
            for key, row in self._rows.items()
            if (stored := self._stored.get(key)) is not None
            and (row is None or row.number != stored.number)
        ]

    def written(self) -> tuple[list[Row], list[Row]]:
        """New rows, and rows that replace an earlier version."""
        new: list[Row] = []
        changed: list[Row] = []
        for key, row in self._rows.items():
            if row is not None:
                stored = self._stored.get(key)
                is_new = stored is None or stored.number != row.number
                (new if is_new else changed).append(row)
        return new, changed

    def released(self) -> list[int]:
        """Items whose entries are removed from the unique-key index."""
        return [*self._touched]

    def reserved(self) -> list[tuple[bytes, int]]:
        return [*self._reserved.items()]

    def sent(self) -> None:
        """All changes were sent to the database, but are not durable yet."""
        self.is_sent = True
        for key, row in self._rows.items():
            if row is None:
                self._stored.pop(key, None)
            else:
                self._stored[key] = row
        self._rows.clear()
        self._reserved.clear()
        self._touched.clear()
        self._unique.clear()
        self.log.clear()


def _logged(lsn: int, entry: int, ts: int, change: Put | Remove) -> LogRow:
    row = change.row
    old = row if isinstance(change, Remove) else change.replaces
    if isinstance(change, Remove):
        kind = "expire" if change.expired else "delete"
    else:
        kind = "create" if old is None else "replace"
    return LogRow(
        lsn,
        entry,
        ts,
        kind,
        None if old is None else old.lsn,
        row.pk,
        row.id,
        row.epk,
        None if kind == "expire" else row.body,
    )


def check_storable(row: Row) -> None:
    """400 for a body that PostgreSQL's JSON cannot hold.

    Checked here, because an error of the database would roll back the other writes of the group.
    """
    if b"\\u" not in row.body:
        return
    high = False  # the previous escape was the first half of a surrogate pair
    end = 0
    for escape in _ESCAPE.finditer(row.body):
        code = -1 if escape[1] is None else int(escape[1], 16)
        if high and (escape.start() != end or not 0xDC00 <= code <= 0xDFFF):
            raise unstorable_item()
        if code == 0 or (0xDC00 <= code <= 0xDFFF and not high):
            raise unstorable_item()
        high = 0xD800 <= code <= 0xDBFF
        end = escape.end()
    if high:
        raise unstorable_item()
