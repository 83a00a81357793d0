"""The change feed: what has changed behind a position, as it is now or change by change.

A position is an LSN for each range that a reader follows. For one range it is given out as the
plain number in quotes that clients expect of an etag; for several as a sealed token. A page ends
between two transactions, so an LSN is all there is to remember.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

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
    "The continuation of the change feed is ahead of everything that this container has seen; it"
    " belongs to another container, or was made up."
)
_START_UNSUPPORTED: Final = (
    "All versions and deletes can be read from now or from a continuation only, not from the"
    " beginning or from a time."
)
_TRIMMED: Final = "Changes behind this continuation are no longer kept."
_RETENTION: Final = "You must read the change feed from within the retention period."


class ChangeFeedStart(NamedTuple):
    """Where a reader wants to begin: behind an etag it was given, now (`*`), or at the beginning.

    `since` leaves out what was written before that second.
    """

    etag: str | None
    since: int | None


class LatestVersions(NamedTuple):
    rows: list[Row]
    etag: str
    range_index: int | None  # of all of them, if there are any


class AllVersions(NamedTuple):
    changes: list[LoggedChange]
    etag: str
    range_index: int | None


async def read_latest(op: Operation, scope: Search, start: ChangeFeedStart) -> LatestVersions:
    """The live items that were written behind the position, each once."""
    scope = _with_key_interval(op.container, scope)
    reader = await _reader(op, scope, start)
    since = BEFORE_ANY_TS if start.since is None else start.since
    rows: list[Row] = []
    page_range = None
    for part, after in reader.ranges_in_turn():
        page = await op.stores.changes.latest(op.container, ChangeSearch(scope, part, after, since))
        rows = page.rows
        reader.advance(part, page.lsn)
        if rows:
            page_range = part
            break
    return LatestVersions(rows, reader.etag(op), page_range)


async def read_versions(op: Operation, scope: Search, start: ChangeFeedStart) -> AllVersions:
    """Every change behind the position, each as it was made."""
    retention = op.container.retention
    if not retention:
        raise BadRequest(_DISABLED)
    if start.etag is None:
        raise BadRequest(f"{_START_UNSUPPORTED} {_RETENTION}")
    scope = _with_key_interval(op.container, scope)
    reader = await _reader(op, scope, start)
    changes: list[LoggedChange] = []
    page_range = None
    for part, after in reader.ranges_in_turn():
        change_scan = ChangeSearch(scope, part, after)
        page = await op.stores.changes.versions(op.container, change_scan, op.ts - retention)
        if not page.is_complete:
            raise BadRequest(f"{_TRIMMED} {_RETENTION}")
        changes = page.changes
        reader.advance(part, page.lsn)
        if changes:
            page_range = part
            break
    return AllVersions(changes, reader.etag(op), page_range)


async def trim_change_log(account: Account, container: Container, now: float) -> int:
    """Removes a few changes that are older than the container's retention; how many."""
    if not container.retention:
        return 0
    return await account.stores.changes.trim(container, int(now) - container.retention, TRIM_STEP)


class _RangeReader:
    """How far someone has come in each range it follows, and whose turn it is.

    A page holds changes of one range; the next one begins with the range behind it, so that a busy
    range does not hide the others.
    """

    def __init__(self, lsns: dict[int, int], turn: int = 0, *, reads_changes: bool = True) -> None:
        self._lsns = lsns
        self._turn = turn
        self._reads_changes = reads_changes
        self._ahead = 0

    def ranges_in_turn(self) -> Iterator[tuple[int, int]]:
        """Each range once, and the position in it; none for a reader who wants to start now."""
        if self._reads_changes:
            range_indexes = sorted(self._lsns, key=lambda part: (part < self._turn, part))
            for part in range_indexes:
                self._turn = part + 1
                yield part, self._lsns[part]

    def advance(self, part: int, lsn: int) -> None:
        # A plain number may come from one range and be used for several: where it is ahead it
        # says nothing, unless it is ahead everywhere.
        self._ahead += lsn < self._lsns[part]
        self._lsns[part] = lsn
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
        return _RangeReader({part: lsns[part] for part in range_indexes}, reads_changes=False)
    plain = _LSN.fullmatch(start.etag)
    if plain is not None:
        return _RangeReader(dict.fromkeys(range_indexes, int(plain[1])))
    token = start.etag.removeprefix('"').removesuffix('"')
    position = tokens.unseal(op.account.secret, token, f="changes", c=container.rid)
    known = {part: lsn for part, lsn in position["p"] if part in range_indexes}
    if len(known) < len(range_indexes):
        raise BadRequest("The continuation of the change feed is for fewer ranges than are read.")
    return _RangeReader(known, position["n"])


def _with_key_interval(container: Container, scope: Search) -> Search:
    """The same scope with the interval of hashes that its key or key prefix lies in.

    The order of changes is kept with hashes, not with keys: this way the others are passed over
    without a look at them.
    """
    if not scope.pk_prefix or scope.epk_min or scope.epk_max:
        return scope
    low = partition.effective_of(scope.pk_prefix, container.key)
    high = low + "FF" if scope.is_prefix else partition.point_interval(low)[1]
    return scope._replace(epk_min=bytes.fromhex(low), epk_max=bytes.fromhex(high))


def _range_indexes(container: Container, scope: Search) -> list[int]:
    """The ranges that a scope touches."""
    if scope.range_index is not None:
        return [scope.range_index]
    low = (scope.epk_min or b"").hex().upper()
    high = partition.WHOLE[1] if scope.epk_max is None else scope.epk_max.hex().upper()
    return [part.index for part in container.ranges if part.min < high and low < part.max]
