"""The change feed: the changes after a position, as latest versions or change by change.

A position is an LSN for each range that is read. For one range its etag is the number in quotes,
as clients expect; for several it is a signed token. A page ends between two transactions, so an
LSN is enough to continue.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from perseid import partition
from perseid.errors import BadRequest
from perseid.model import Container, Row
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.operation import Operation, check_catalog_version
from perseid.store.types import ChangeSearch, LoggedChange, Search
from perseid.ttl import BEFORE_ANY_TS

FROM_NOW: Final = "*"
TRIM_STEP: Final = 256  # changes in one transaction
_LSN: Final = re.compile(r'"?([0-9]{1,18})"?')
_DISABLED: Final = (
    "Change feed mode 'All Versions and Deletes' must be enabled for the container: give it a"
    " changeFeedPolicy with a retentionDuration in minutes, or start the server with"
    " --change-feed-retention."
)
_AHEAD: Final = (
    "The continuation of the change feed is ahead of all changes of this container; it belongs to"
    " another container, or was made up."
)
_START_UNSUPPORTED: Final = (
    "All versions and deletes can be read from now or from a continuation only, not from the"
    " beginning or from a time."
)
_TRIMMED: Final = "Changes after this continuation are no longer kept."
_RETENTION: Final = "You must read the change feed from within the retention period."

ItemChange: TypeAlias = LoggedChange  # what handlers of the feed get


class ChangeFeedStart(NamedTuple):
    """Where to start: after an etag, now (`*`), or at the beginning if there is no etag.

    `since` leaves out items that were written before that second.
    """

    etag: str | None
    since: int | None


class LatestVersions(NamedTuple):
    rows: list[Row]
    etag: str
    range_index: int | None  # of the rows; None without rows


class AllVersions(NamedTuple):
    changes: list[LoggedChange]
    etag: str
    range_index: int | None


async def read_latest(op: Operation, scope: Search, start: ChangeFeedStart) -> LatestVersions:
    """The live items that were written after the position, each once."""
    scope = _with_key_interval(op.container, scope)
    reader = await _reader(op, scope, start)
    since = BEFORE_ANY_TS if start.since is None else start.since
    rows: list[Row] = []
    page_range = None
    for range_index, after in reader.ranges_in_turn():
        page = await op.stores.changes.latest(
            op.container, ChangeSearch(scope, range_index, after, since)
        )
        rows = sorted(page.rows, key=_turn)
        reader.advance(range_index, page.lsn)
        if rows:
            page_range = range_index
            break
    return LatestVersions(rows, reader.etag(op), page_range)


async def read_versions(op: Operation, scope: Search, start: ChangeFeedStart) -> AllVersions:
    """Every change after the position, in the order of the changes."""
    retention = op.container.retention
    if not retention:
        raise BadRequest(_DISABLED)
    if start.etag is None:
        raise BadRequest(f"{_START_UNSUPPORTED} {_RETENTION}")
    scope = _with_key_interval(op.container, scope)
    reader = await _reader(op, scope, start)
    changes: list[LoggedChange] = []
    page_range = None
    for range_index, after in reader.ranges_in_turn():
        change_scan = ChangeSearch(scope, range_index, after)
        page = await op.stores.changes.versions(op.container, change_scan, op.ts - retention)
        if not page.is_complete:
            raise BadRequest(f"{_TRIMMED} {_RETENTION}")
        changes = page.changes
        reader.advance(range_index, page.lsn)
        if changes:
            page_range = range_index
            break
    return AllVersions(changes, reader.etag(op), page_range)


async def trim_change_log(account: Account, container: Container, now: float) -> int:
    """Removes up to TRIM_STEP changes older than the retention; returns how many."""
    if not container.retention:
        return 0
    return await account.stores.changes.trim_change_log(
        container, int(now) - container.retention, TRIM_STEP
    )


def _turn(row: Row) -> tuple[int, str]:
    """The order of writes: by LSN, and by etag within a transaction, where etags count up."""
    return row.lsn, row.etag


class _RangeReader:
    """The position in each range, and the range that the next page starts with.

    A page holds changes of one range. The next page starts with the next range, so that a range
    with many changes does not delay the others.
    """

    def __init__(self, lsns: dict[int, int], turn: int = 0, *, reads_changes: bool = True) -> None:
        self._lsns = lsns
        self._turn = turn
        self._reads_changes = reads_changes
        self._ahead = 0

    def ranges_in_turn(self) -> Iterator[tuple[int, int]]:
        """Each range once, with the position in it; no range for a reader that starts now."""
        if self._reads_changes:
            range_indexes = sorted(
                self._lsns, key=lambda range_index: (range_index < self._turn, range_index)
            )
            for range_index in range_indexes:
                self._turn = range_index + 1
                yield range_index, self._lsns[range_index]

    def advance(self, range_index: int, lsn: int) -> None:
        # A number from one range may be sent for several. In a range where it is ahead it is
        # ignored, but if it is ahead in all of them it does not belong to this container.
        self._ahead += lsn < self._lsns[range_index]
        self._lsns[range_index] = lsn
        if self._ahead == len(self._lsns):
            raise BadRequest(_AHEAD)

    def etag(self, op: Operation) -> str:
        if len(self._lsns) == 1:
            (lsn,) = self._lsns.values()
            return f'"{lsn}"'
        position = {
            "f": "changes",
            "c": op.container.rid,
            "p": sorted(self._lsns.items()),
            "n": self._turn,
        }
        return f'"{tokens.seal(op.account.secret, position)}"'


async def _reader(op: Operation, scope: Search, start: ChangeFeedStart) -> _RangeReader:
    container = op.container
    range_indexes = _range_indexes(container, scope)
    if start.etag is None:
        return _RangeReader(dict.fromkeys(range_indexes, 0))
    if start.etag == FROM_NOW:
        lsns = await op.stores.items.lsns(container)
        await check_catalog_version(op)
        return _RangeReader(
            {range_index: lsns[range_index] for range_index in range_indexes}, reads_changes=False
        )
    plain = _LSN.fullmatch(start.etag)
    if plain is not None:
        return _RangeReader(dict.fromkeys(range_indexes, int(plain[1])))
    token = start.etag.removeprefix('"').removesuffix('"')
    position = tokens.unseal(op.account.secret, token, f="changes", c=container.rid)
    known = {range_index: lsn for range_index, lsn in position["p"] if range_index in range_indexes}
    if len(known) < len(range_indexes):
        raise BadRequest(
            "The continuation of the change feed covers fewer ranges than the request."
        )
    return _RangeReader(known, position["n"])


def _with_key_interval(container: Container, scope: Search) -> Search:
    """The same scope with the interval of effective keys of its key or key prefix.

    The index of changes has effective keys, but not keys: with the interval the store skips the
    items of other partitions without reading them.
    """
    if not scope.pk_prefix or scope.epk_min or scope.epk_max:
        return scope
    low = partition.effective_of(scope.pk_prefix, container.key)
    high = low + "FF" if scope.is_prefix else partition.point_interval(low)[1]
    return scope._replace(epk_min=bytes.fromhex(low), epk_max=bytes.fromhex(high))


def _range_indexes(container: Container, scope: Search) -> list[int]:
    """The ranges that a scope includes."""
    if scope.range_index is not None:
        return [scope.range_index]
    low, high = partition.interval_text(scope.epk_min, scope.epk_max)
    return partition.overlapping(container.ranges, low, high)
