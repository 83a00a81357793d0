"""Values that cross the seam between the service and a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from perseid.conditions import Filter, Order, OrderPosition, PropertyPath
from perseid.errors import StartError
from perseid.limits import MAX_PAGE_BYTES
from perseid.model import Container, ItemKey, Row
from perseid.ttl import (
    BEFORE_ANY_TS,
    NO_EXPIRY_AGES,
    NOTHING_EXPIRED,
    Cutoff,
    ExpiryAges,
    ExpiryKind,
)

T = TypeVar("T")


class StoreError(StartError):
    """The data cannot be opened; the text is for the person who started the server."""


class PurgeLeaseTaken(Exception):
    """Another server process holds the purge lease of the range."""


class Resource(NamedTuple):
    """A metadata row: a database, container, offer, user, permission or script."""

    rid: str
    kind: str
    parent: str  # rid of the owner, "" at the top
    id: str
    etag: str
    ts: int
    state: dict[str, Any]


class PutResource(NamedTuple):
    """Writes a metadata row; `replaces` is the etag it must have now, None if it must be new."""

    resource: Resource
    replaces: str | None = None


class RemoveResource(NamedTuple):
    resource: Resource


class StaleResource(Exception):
    """A metadata row is not what the caller expected; it reads the row again and retries."""


class Put(NamedTuple):
    """Writes an item; `replaces` is the row that it replaces, if any.

    `unique` are the entries that it reserves in the unique-key index.
    """

    row: Row
    replaces: Row | None = None
    unique: tuple[bytes, ...] = ()


class Remove(NamedTuple):
    """Removes an item. `expired`: it expired, no client deleted it. `expired_by_change`: under the
    policy before the last change it would be live."""

    row: Row
    expired: bool = False
    expired_by_change: bool = False


class PartitionAtCutoff(NamedTuple):
    """The items of a logical partition that are live at a cutoff."""

    pk: bytes
    cutoff: Cutoff


class View(NamedTuple):
    """The input of a write decision: the rows it asked for, and the answers to its questions.

    `unique_key_owners` and `partition_sizes` are empty at first. If a decision depends on some of
    them, the store looks them up and calls it again, so a decision must be repeatable.
    """

    rows: Mapping[ItemKey, Row | None]
    unique_key_owners: Mapping[bytes, Row | None]
    partition_sizes: Mapping[PartitionAtCutoff, int]  # bytes of live items
    lsn: int  # of the transaction, if it writes anything
    size: int  # bytes of the whole range, including expired items


class Decision(NamedTuple, Generic[T]):
    """What to write, and what the caller gets once that is durable.

    `relies_on` are unique-key entries whose owners matter although no change reserves them: an
    error is final only if the owners of all entries reserved before it are known. `needs_sizes`
    are the partitions whose size matters; the decision is final once the view has them all.
    `at` is the second of the transaction if that differs from the `_ts` of what it writes.
    """

    changes: Sequence[Put | Remove]
    result: T
    relies_on: Sequence[bytes] = ()
    needs_sizes: Sequence[PartitionAtCutoff] = ()
    at: int | None = None

    def second(self, now: Callable[[], float]) -> int:
        """The second that all its changes share."""
        if self.at is not None:
            return self.at
        written = [change.row.ts for change in self.changes if isinstance(change, Put)]
        return max(written) if written else int(now())

    def entries(self) -> Iterator[bytes]:
        """The unique-key entries whose owners matter."""
        yield from self.relies_on
        for change in self.changes:
            if isinstance(change, Put):
                yield from change.unique


class ServerLoad:
    """The requests that the server is answering, so that a store can do without precautions for
    others while there is one only."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running: set[Any] = set()

    @property
    def is_single_request(self) -> bool:
        return len(self.running) == 1


class Search(NamedTuple):
    """Which live items to list: by item number, which is creation order within each range, or in
    the order of a property."""

    after: int = -1  # item number to continue after
    range_index: int | None = None
    pk_prefix: bytes | None = None  # one logical partition, or all below a hierarchical prefix
    is_prefix: bool = False
    epk_min: bytes | None = None
    epk_max: bytes | None = None
    cutoff: Cutoff = NOTHING_EXPIRED
    where: Filter | None = None
    # Paths that the indexing policy lets the store index, if it thinks that this pays.
    indexable: frozenset[PropertyPath] = frozenset()
    limit: int = 1000
    max_bytes: int = MAX_PAGE_BYTES  # of their texts; a page holds at least one item
    order: Order | None = None  # None: by item number
    start: OrderPosition | None = None  # in that order, included

    def with_filter(
        self,
        where: Filter | None,
        indexable: frozenset[PropertyPath],
        limit: int,
        order: Order | None = None,
    ) -> Search:
        """The same search for the first items that meet a condition; faster than `_replace`."""
        after, part, pk, is_prefix, epk_min, epk_max, cutoff, _, _, _, max_bytes, _, start = self
        return Search(
            after, part, pk, is_prefix, epk_min, epk_max, cutoff,
            where, indexable, limit, max_bytes, order, start,
        )  # fmt: skip


class SearchPage(NamedTuple):
    """A page of items. With an order in the search, `is_ordered` says whether an index served it;
    if not, there are no rows and the caller sorts."""

    rows: list[Row]
    has_more: bool
    next_position: OrderPosition | None = None
    is_ordered: bool = False
    lsn: int | None = None  # of the only range of the container, if the store read it with the page


NOT_ORDERED: Final = SearchPage([], False)


class GroupCount(NamedTuple):
    """How many items have the values that the document holds at the paths of interest."""

    items: int
    document: dict[str, Any]


OnGroups: TypeAlias = Callable[[Iterable[GroupCount]], None]


class AccessPath(NamedTuple):
    """How a search finds its items, and how many it examines."""

    method: Literal["key", "index", "order", "scan"]
    path: PropertyPath | None
    examined: int
    # Of a scan: the paths on which an index could serve the search, and whether the search covers
    # so few items that none is created.
    candidates: tuple[PropertyPath, ...] = ()
    is_small: bool = False
    # Candidates whose index is being created, and the part of the items that it covers so far.
    building: tuple[tuple[PropertyPath, float], ...] = ()


class IndexBuilds(NamedTuple):
    """The property indexes that this process is creating, or has to."""

    running: int
    progress: float  # the part of the items that the current one covers; 1 if there is none


class ChangeSearch(NamedTuple):
    """Which changes of one range to list, in the order of their transactions.

    `scope` selects the items and limits the page. A page holds whole transactions, at least one, so
    it may exceed the limit a little.
    """

    scope: Search
    range_index: int
    after: int  # LSN to continue after
    since: int = BEFORE_ANY_TS  # changes of earlier seconds are left out


class LatestPage(NamedTuple):
    """Items in the order in which they were last written.

    `lsn` is the position to continue from: that of the last item, or of the range at the end.
    """

    rows: list[Row]
    lsn: int


class LoggedChange(NamedTuple):
    """An entry of the change log of a container.

    `body` is what was written, or for a delete by a client what was removed.
    """

    lsn: int
    ts: int  # of its transaction
    kind: Literal["create", "replace", "delete", "expire"]
    previous_lsn: int | None
    pk: bytes
    id: str
    body: bytes | None


class ChangePage(NamedTuple):
    """Changes in the order in which they were made; `lsn` as in LatestPage.

    Not `is_complete` if changes after the requested position have been trimmed.
    """

    changes: list[LoggedChange]
    lsn: int
    is_complete: bool


class ExpiryCount(NamedTuple):
    """How many items, their bytes, the first and last `_ts` among them, the highest base."""

    items: int
    size: int
    oldest: int | None
    newest: int | None
    last: int | None


class SpanPosition(NamedTuple):
    """The position of an item among the items of a span that have the same base."""

    size: int
    terms: int
    number: int


class PurgeRequest(NamedTuple):
    """One transaction's worth of purging in one range, earliest expiry first."""

    container: Container
    range_index: int
    cutoff: Cutoff
    max_items: int
    expiry_ages: ExpiryAges = NO_EXPIRY_AGES  # orders inheriting items among the others
    previous_cutoff: Cutoff | None = None  # to count what only the last policy change expired
    allowance: int | None = None  # hundredths of a request unit; None: unlimited
    take_over_lease: bool = False  # a drain by an administrator may; the sweeper may not


class PurgedItem(NamedTuple):
    """An expired item that a purge removes. `base` is what the cutoff is compared with."""

    number: int
    kind: ExpiryKind
    base: int
    expired_at: int
    size: int
    terms: int


class PurgeResult(NamedTuple):
    """The purged items, and what is known about those that follow them."""

    items: list[PurgedItem]
    candidates: int  # expired items seen, affordable or not
    next_charge: int | None  # of the first one that the allowance did not cover


NOTHING_PURGED: Final = PurgeResult([], 0, None)


class VerifiedItems(NamedTuple):
    """Items that were compared with their checksums: how many, the ids of damaged ones, and the
    number to continue after; None at the end of the container."""

    checked: int
    damaged: tuple[str, ...]
    next_after: int | None


class Cleared(NamedTuple):
    """A cleared logical partition: the LSN, and its live and expired items.

    Items of one size form a group: the size, how many items, how many index terms.
    """

    lsn: int
    live: list[tuple[int, int, int]]
    expired: list[tuple[int, int, int]]

    @classmethod
    def of(cls, lsn: int, groups: Iterable[tuple[int, int, int, int]]) -> Cleared:
        """From groups that start with a flag, true for live items."""
        live: list[tuple[int, int, int]] = []
        expired: list[tuple[int, int, int]] = []
        for is_live, size, items, terms in groups:
            (live if is_live else expired).append((size, items, terms))
        return cls(lsn, live, expired)


class AuditEntry(NamedTuple):
    """A line of the audit log."""

    ts: int
    container: str  # rid
    entry: dict[str, Any]
