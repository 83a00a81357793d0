"""Store: the whole seam between the rules and the rows, on one screen.

A store keeps rows and moves counters; what a row means is the service's business. A write is a
pure decision over the rows it touches: the store reads them under its lock, calls the decision,
and applies what it returns in one transaction. So the rules exist once, whatever the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from perseid.clock import ClockSetting
from perseid.conditions import Filter, Order, OrderPosition, PropertyPath
from perseid.model import Container, ItemKey, Row, StorageUsage
from perseid.ttl import BEFORE_ANY_TS, NOTHING_EXPIRED, Cutoff

T = TypeVar("T")


class StoreError(Exception):
    """The data cannot be opened; the text is for the person who started the server."""


class StaleCatalog(Exception):
    """Another front end has changed the metadata or moved the clock: nothing was done.

    Whoever worked from the old state reads it again and starts from the beginning.
    """


class PurgeLeaseTaken(Exception):
    """Another front end removes the dead of the range; it is not for this one to do."""


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
    """A metadata row was not as the caller believed; read again and decide again."""


class Put(NamedTuple):
    """Writes an item; `replaces` is the row it takes the place of, if any.

    `unique` are the entries it claims in the unique-key index.
    """

    row: Row
    replaces: Row | None = None
    unique: tuple[bytes, ...] = ()


class Remove(NamedTuple):
    """Removes an item; `expired` tells the change feed that time, not a client, ended it, and
    `spared` that the policy before the last change would not have."""

    row: Row
    expired: bool = False
    expired_by_change: bool = False


class View(NamedTuple):
    """What a decision sees: the rows it asked for, and the holders of entries it claimed.

    `holders` is empty at first. If a decision puts items with unique entries, or relies on some,
    the store looks up who holds them and asks again with the answer, so a decision must be
    repeatable.
    """

    rows: Mapping[ItemKey, Row | None]
    unique_key_owners: Mapping[bytes, Row | None]
    lsn: int  # of the transaction, if it writes anything
    size: int  # of the whole range, dead items included
    # The bytes of the live items of the logical partition; costs a look at each of them.
    partition_size: Callable[[bytes, Cutoff], int]


class Decision(NamedTuple, Generic[T]):
    """What to write, and what to tell the caller once that is durable.

    `relies_on` are entries of the unique-key index that matter although nothing claims them: a
    refusal stands only if the holders of those that came before it are known. `at` is the second
    in which it happens, which is not always that of what it writes.
    """

    changes: Sequence[Put | Remove]
    result: T
    relies_on: Sequence[bytes] = ()
    at: int | None = None

    def second(self, now: Callable[[], float]) -> int:
        """The one that all its changes share: if nobody says, that of what it writes."""
        if self.at is not None:
            return self.at
        written = [change.row.ts for change in self.changes if isinstance(change, Put)]
        return max(written) if written else int(now())

    def entries(self) -> Iterator[bytes]:
        """The entries of the unique-key index whose holders matter."""
        yield from self.relies_on
        for change in self.changes:
            if isinstance(change, Put):
                yield from change.unique


class Search(NamedTuple):
    """Which live items to list, in creation order within each range."""

    after: int = -1  # item number to continue behind
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
    max_bytes: int = 4 * 1024 * 1024  # of their texts; a page holds at least one item

    def with_filter(
        self, where: Filter | None, indexable: frozenset[PropertyPath], limit: int
    ) -> Search:
        """The same for the first items that meet a condition; `_replace` takes twice as long."""
        after, part, pk, is_prefix, epk_min, epk_max, cutoff, _, _, _, max_bytes = self
        return Search(
            after, part, pk, is_prefix, epk_min, epk_max, cutoff,
            where, indexable, limit, max_bytes,
        )  # fmt: skip


class Page(NamedTuple):
    rows: list[Row]
    has_more: bool


class OrderedPage(NamedTuple):
    """Items in the order of a property, and where to go on if there are more."""

    rows: list[Row]
    next_position: OrderPosition | None


class AccessPath(NamedTuple):
    """How items would be found: through which index or by a scan, and how many it looks at."""

    method: Literal["key", "index", "order", "scan"]
    path: PropertyPath | None
    examined: int


class ChangeSearch(NamedTuple):
    """Which changes of one range to list, in the order of their transactions.

    `scope` says of which items, and how much fits on a page; a page ends between two transactions,
    so it may hold a little more, and at least one of them.
    """

    scope: Search
    range_index: int
    after: int  # LSN to continue behind
    since: int = BEFORE_ANY_TS  # of what was written in an earlier second nothing is listed


class LatestPage(NamedTuple):
    """Items in the order in which they were last written.

    `lsn` is where to go on: that of the last item, or of the range if there is no more.
    """

    rows: list[Row]
    lsn: int


class LoggedChange(NamedTuple):
    """One line of the log that a container keeps of all its changes.

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

    Not `is_complete` when changes behind the position asked for are no longer kept.
    """

    changes: list[LoggedChange]
    lsn: int
    is_complete: bool


class ExpirySpan(NamedTuple):
    """Items whose base lies in (after, upto]: see ttl.Horizon for what the base is."""

    kind: Literal["inheriting", "own"]
    after: int
    upto: int


class ExpiryCount(NamedTuple):
    """How many items, their bytes, the first and last `_ts` among them, the highest base."""

    items: int
    size: int
    oldest: int | None
    newest: int | None
    last: int | None


class ExpiryAges(NamedTuple):
    """How old inheriting items were when they died: those written up to `until`, and later ones."""

    until: int
    before: int
    after: int

    def of(self, ts: int) -> int:
        return self.before if ts <= self.until else self.after


NO_EXPIRY_AGES: Final = ExpiryAges(0, 0, 0)


class PurgedItem(NamedTuple):
    """A dead item about to be removed; `ended` is when it died."""

    number: int
    kind: Literal["inheriting", "own"]
    base: int
    expired_at: int
    size: int
    terms: int


class Cleared(NamedTuple):
    """A logical partition that was emptied: the LSN of that, who lived in it and who was dead.

    Both as groups of one size: the size, how many items, how many index terms.
    """

    lsn: int
    live: list[tuple[int, int, int]]
    expired: list[tuple[int, int, int]]

    @classmethod
    def of(cls, lsn: int, groups: Iterable[tuple[int, int, int, int]]) -> Cleared:
        """From groups of both, each with a mark before it that tells whether they lived."""
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


class Store(Protocol):
    """Rows of one account. Every method may be called from many tasks at once."""

    @property
    def catalog_generation(self) -> int:
        """Which reading of the metadata `resources` has given last; containers carry it."""
        ...

    async def close(self) -> None: ...

    async def check_catalog_version(self) -> None:
        """StaleCatalog unless the metadata, and the clock, are as `resources` gave them last.

        What looks at items finds out by itself; this is for requests that do not.
        """
        ...

    async def publish_clock(self, setting: ClockSetting) -> None:
        """The clock was moved: other front ends show the same time from now on."""
        ...

    async def get_meta(self, name: str) -> str | None: ...
    async def put_meta(self, name: str, value: str) -> None: ...
    async def put_meta_if_absent(self, name: str, value: str) -> str:
        """Puts a value unless there is one; the one that counts."""
        ...

    async def next_number(self, series: str) -> int:
        """A number that the series has not given before; for naming resources."""
        ...

    async def resources(self) -> list[Resource]:
        """All of them, in order of creation."""
        ...

    async def change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        """All or nothing; StaleResource if a row is not what the caller said.

        Putting a new container makes room for its items, removing one drops them. As long as its
        state has a true `keeps_versions`, every change of its items is logged, in the transaction
        that makes it.
        """
        ...

    async def audit_entries(
        self, container: str | None, after: int, limit: int
    ) -> list[tuple[int, AuditEntry]]:
        """The audit log behind line `after`, of one container or of all."""
        ...

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        """The item, dead or alive, and the range's LSN, which is never ahead of what was read."""
        ...

    async def read_number(self, container: Container, number: int) -> Row | None: ...
    async def lsns(self, container: Container) -> tuple[int, ...]:
        """The last LSN of each range."""
        ...

    async def write(
        self,
        container: Container,
        range_index: int,
        keys: Sequence[ItemKey],
        decide: Callable[[View], Decision[T]],
        *,
        is_heavy: bool = False,
    ) -> T:
        """Decides and applies in one transaction of one range; returns when that is durable.

        A heavy decision takes so long that nobody else should wait for it.
        """
        ...

    async def search(self, container: Container, search: Search) -> Page:
        """A page of live items that meet the condition, in the order of their numbers."""
        ...

    async def ordered_search(
        self,
        container: Container,
        search: Search,
        order: Order,
        start: OrderPosition | None,
    ) -> OrderedPage | None:
        """The next of them in the order of a property, from `start` on, which is included.

        None where no index serves that, or where sorting what `scan` gives is the shorter way.
        """
        ...

    def try_search(self, container: Container, search: Search, order: Order | None) -> Page | None:
        """What `scan` would give, or the first items in an order, if that takes microseconds.

        None says nothing about the items. Of an order there are as many as the scan may give or
        all, and `has_more` means nothing.
        """
        ...

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_group: Callable[[int, dict[str, Any]], None],
    ) -> None:
        """Calls `take` for each combination of values that the items have at the paths.

        It gets the number of such items and a document with nothing but these paths, those of the
        oldest items first. It is called on some other thread, one call after the other.
        """
        ...

    async def access_path(
        self,
        container: Container,
        search: Search,
        order: Order | None,
        grouped_paths: Sequence[PropertyPath] | None = None,
    ) -> AccessPath:
        """How `scan` would go about it, or `walk` if there is an order, or `combine` if values are
        combined; makes no index."""
        ...

    async def drop_disallowed_indexes(
        self, container: Container, is_allowed: Callable[[PropertyPath], bool]
    ) -> None:
        """Drops the property indexes that the indexing policy no longer allows."""
        ...

    async def latest(self, container: Container, search: ChangeSearch) -> LatestPage:
        """The live items written behind a position, each once, as they are now."""
        ...

    async def versions(
        self, container: Container, search: ChangeSearch, trimmed_until: int
    ) -> ChangePage:
        """The logged changes behind a position; those of the second `lost` and before count as
        no longer kept."""
        ...

    async def trim_change_log(self, container: Container, trimmed_until: int, limit: int) -> int:
        """Removes up to `limit` logged changes of the second `lost` and before; how many."""
        ...

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        """What the items of a range take up; costs no look at the living."""
        ...

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        """How many logical partitions have live items in a range."""
        ...

    async def purge(
        self,
        container: Container,
        range_index: int,
        cutoff: Cutoff,
        *,
        limit: int,
        expiry_ages: ExpiryAges = NO_EXPIRY_AGES,
        previous_cutoff: Cutoff | None = None,
        afford: Callable[[Sequence[PurgedItem]], int] | None = None,
        takes_lease: bool = False,
    ) -> list[PurgedItem]:
        """Removes up to `limit` dead items of a range, the longest dead first, in one transaction.

        `ages` say how old inheriting items became; that orders the dead of both kinds. `spare` is
        what the policy before would have killed, to count the difference.
        `afford` says how many of the candidates, from the front, there is budget for.
        PurgedElsewhere if another front end is at it, unless this one `takes_over`.
        """
        ...

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff | None = None,
    ) -> Cleared:
        """Removes all items of a logical partition at once, the dead too, whatever its size.

        A large one is hidden in one step, durably, and removed by `reap`. `spare` is as in `purge`.
        """
        ...

    async def purge_cleared(self, limit: int) -> bool:
        """Removes up to `limit` items that were hidden by `clear`; False if there were none."""
        ...

    async def free_disk_space(self, pages: int) -> int:
        """Gives up to that many free pages back to the file system; how many are still free."""
        ...

    async def expiry_count(
        self, container: Container, range_index: int, span: ExpirySpan
    ) -> ExpiryCount: ...
    async def histogram(
        self, container: Container, range_index: int, span: ExpirySpan, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        """Items and bytes by (base - origin - 1) // width, for the buckets that are not empty."""
        ...

    async def sample(
        self, container: Container, range_index: int, span: ExpirySpan, limit: int
    ) -> list[Row]:
        """The first few items of a span, without their bodies."""
        ...

    async def invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
        """Live items that carry a `ttl` which counts as absent."""
        ...
