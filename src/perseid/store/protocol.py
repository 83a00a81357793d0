"""The seam between the service and the stores: small protocols by purpose.

A store keeps rows and counters; the service knows what a row means. A write is a pure decision over
rows: the store reads them under its lock, calls the decision, and applies the result in one
transaction. So the rules exist once, for every database. Two callbacks cross this seam: `decide` of
a write and `on_groups` of a group count. All methods may be called concurrently.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from perseid.clock import ClockSetting
from perseid.conditions import PropertyPath
from perseid.model import Container, ItemKey, Row, StorageUsage
from perseid.store.types import (
    AccessPath,
    AuditEntry,
    ChangePage,
    ChangeSearch,
    Cleared,
    Decision,
    ExpiryCount,
    IndexBuilds,
    LatestPage,
    OnGroups,
    PurgeRequest,
    PurgeResult,
    PutResource,
    RemoveResource,
    Resource,
    Search,
    SearchPage,
    ServerLoad,
    SpanPosition,
    VerifiedItems,
    View,
)
from perseid.ttl import (
    Cutoff,
    ExpirySpan,
)

T = TypeVar("T")


class MetadataStore(Protocol):
    """Databases, containers, offers and the other resources; the audit log; the shared clock."""

    @property
    def generation(self) -> int:
        """The number of the reading that `resources` returned last; containers carry it."""
        ...

    async def check_catalog_version(self) -> None:
        """StaleCatalog unless the metadata and the clock are as `resources` returned them last.

        Methods that read or write items check this themselves; this is for other requests.
        """
        ...

    async def publish_clock(self, setting: ClockSetting) -> None:
        """Stores a new setting of the clock, which other server processes adopt."""
        ...

    async def system_time(self) -> float:
        """The clock of the machine that has the data, also if it has been set back."""
        ...

    async def restart_clock(self, floor: float) -> None:
        """Lets the clock of all server processes go back to the database's, but not behind `floor`.

        Does nothing if the store has no clock.
        """
        ...

    async def next_number(self, series: str) -> int:
        """A number that the series has not returned before; for naming resources."""
        ...

    async def resources(self) -> list[Resource]:
        """All resources in order of creation."""
        ...

    async def change(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        """Applies all changes or none; StaleResource if a row is not what the caller expects.

        Putting a new container creates the tables for its items, removing it drops them. While its
        state has a true `keeps_versions`, each transaction logs its changes of the items.
        """
        ...

    async def audit_entries(
        self, container: str | None, after: int, limit: int
    ) -> list[tuple[int, AuditEntry]]:
        """The audit log after line `after`, of one container or of all."""
        ...


class NamedValues(Protocol):
    """Single values, stored with the data."""

    async def get(self, name: str) -> str | None: ...

    async def put(self, name: str, value: str) -> None: ...

    async def put_if_absent(self, name: str, value: str) -> str:
        """Stores the value unless there is one; returns the stored one."""
        ...


class ItemStore(Protocol):
    """Items by key. Knows rows and transactions, not what a row means."""

    async def read(
        self, container: Container, range_index: int, key: ItemKey
    ) -> tuple[Row | None, int]:
        """The item, expired or not, and the LSN of its range, which is never ahead of the item."""
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

        A heavy decision takes so long that it must not run on the event loop.
        """
        ...

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        """The items and bytes of a range; does not read live items."""
        ...

    async def count_partitions(self, container: Container, range_index: int, cutoff: Cutoff) -> int:
        """How many logical partitions have live items in a range."""
        ...

    async def clear_partition(
        self,
        container: Container,
        range_index: int,
        pk: bytes,
        cutoff: Cutoff,
        previous_cutoff: Cutoff | None = None,
    ) -> Cleared:
        """Removes all items of a logical partition in one transaction, including expired ones.

        A large partition may be hidden first; `ExpiryStore.purge_cleared` then removes its items.
        `previous_cutoff` is as in PurgeRequest.
        """
        ...


class QueryStore(Protocol):
    """Items by condition."""

    @property
    def is_remote(self) -> bool:
        """True if every answer takes a round trip: `try_search` and `try_count` have none."""
        ...

    def try_search(self, container: Container, search: Search) -> SearchPage | None:
        """The first page of `search` if that takes microseconds; None says nothing about the items.

        With an order it has as many items as the search asks for, or all there are.
        """
        ...

    def try_count(self, container: Container, search: Search) -> int | None:
        """How many live items meet the condition, if counting takes microseconds; else None."""
        ...

    async def search(self, container: Container, search: Search) -> SearchPage:
        """A page of the live items that meet the condition.

        An order is served if an index does so faster than sorting: see `SearchPage`.
        """
        ...

    async def count_groups(
        self,
        container: Container,
        search: Search,
        paths: Sequence[PropertyPath],
        on_groups: OnGroups,
    ) -> None:
        """Calls `on_groups` with the combinations of values that the items have at the paths.

        Groups come in the order of their oldest items, in one call or several, one after the other
        and on another thread.
        """
        ...

    async def access_path(
        self,
        container: Container,
        search: Search,
        group_paths: Sequence[PropertyPath] | None = None,
    ) -> AccessPath:
        """How `search`, or `count_groups` with these paths, finds items with existing indexes."""
        ...

    @property
    def index_builds(self) -> IndexBuilds: ...

    async def drop_disallowed_indexes(self, container: Container) -> None:
        """Drops the property indexes that the indexing policy no longer allows."""
        ...


class ChangeStore(Protocol):
    """Items and logged changes in the order of their transactions."""

    async def latest(self, container: Container, search: ChangeSearch) -> LatestPage:
        """The live items written after a position, each once, in its latest version."""
        ...

    async def versions(
        self, container: Container, search: ChangeSearch, trimmed_until: int
    ) -> ChangePage:
        """The logged changes after a position. Changes up to the second `trimmed_until` count as
        trimmed already."""
        ...

    async def trim(self, container: Container, trimmed_until: int, limit: int) -> int:
        """Removes up to `limit` logged changes up to the second `trimmed_until`; how many."""
        ...


class ExpiryStore(Protocol):
    """Expired items: find, count, purge."""

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        """Purges expired items in one transaction.

        PurgeLeaseTaken if another server process purges the range.
        """
        ...

    async def purge_cleared(self, limit: int) -> bool:
        """Removes up to `limit` hidden items of cleared partitions; False if there were none."""
        ...

    async def free_disk_space(self, pages: int) -> int:
        """Returns up to that many free pages to the file system; how many remain free."""
        ...

    async def count(
        self, container: Container, range_index: int, span: ExpirySpan
    ) -> ExpiryCount: ...

    async def histogram(
        self, container: Container, range_index: int, span: ExpirySpan, origin: int, width: int
    ) -> dict[int, tuple[int, int]]:
        """Items and bytes by (base - origin - 1) // width; empty buckets are left out."""
        ...

    async def sample(
        self,
        container: Container,
        range_index: int,
        span: ExpirySpan,
        limit: int,
        after: SpanPosition | None = None,
    ) -> list[Row]:
        """The first items of a span by base, size, terms and number, without their bodies.

        With `after`, those of the last base of the span that come after that position.
        """
        ...

    async def count_invalid_ttls(self, container: Container, cutoff: Cutoff) -> int:
        """How many live items have an invalid `ttl`, which counts as absent."""
        ...


class IntegrityStore(Protocol):
    """The state of the stored data: damaged items, and room on the disk."""

    @property
    def damaged_items(self) -> int:
        """How many items are known to be damaged."""
        ...

    @property
    def is_disk_full(self) -> bool:
        """True while writes that grow the data are refused."""
        ...

    async def verify(self, container: Container, after: int, limit: int, /) -> VerifiedItems:
        """Compares up to `limit` items after an item number with their checksums."""
        ...


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores of one account."""

    metadata: MetadataStore
    values: NamedValues
    items: ItemStore
    queries: QueryStore
    changes: ChangeStore
    expiry: ExpiryStore
    integrity: IntegrityStore
    closing: Callable[[], Awaitable[None]]
    load: ServerLoad = field(default_factory=ServerLoad)  # what the server notes, for the stores

    async def close(self) -> None:
        """Finishes what was submitted and closes the database."""
        await self.closing()
