"""The seam between the service and the stores: small protocols by purpose.

A store keeps rows and moves counters; what a row means is up to the service. A write is a pure
decision over the rows it touches: the store reads them under its lock, calls the decision, and
applies what it returns in one transaction. So the rules exist once, whatever the database. Every
method may be called from many tasks at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

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
    LatestPage,
    OnGroups,
    PurgeRequest,
    PurgeResult,
    PutResource,
    RemoveResource,
    Resource,
    Search,
    SearchPage,
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
    def catalog_generation(self) -> int:
        """Which reading of the metadata `resources` has given last; containers carry it."""
        ...

    async def check_catalog_version(self) -> None:
        """StaleCatalog unless the metadata, and the clock, are as `resources` gave them last.

        What looks at items finds out by itself; this is for requests that do not.
        """
        ...

    async def publish_clock(self, setting: ClockSetting) -> None:
        """The clock was moved: other front ends show the same time from now on."""
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


class NamedValues(Protocol):
    """Single values that are kept with the data."""

    async def get_meta(self, name: str) -> str | None: ...

    async def put_meta(self, name: str, value: str) -> None: ...

    async def put_meta_if_absent(self, name: str, value: str) -> str:
        """Puts a value unless there is one; the one that counts."""
        ...


class ItemStore(Protocol):
    """Items by key. Knows rows and transactions, not what a row means."""

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

    async def usage(self, container: Container, range_index: int, cutoff: Cutoff) -> StorageUsage:
        """What the items of a range take up; costs no look at the living."""
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
        """Removes all items of a logical partition at once, the dead too, whatever its size.

        A large one is hidden in one step, durably, and removed by `reap`. `spare` is as in `purge`.
        """
        ...


class QueryStore(Protocol):
    """Items by condition."""

    def try_search(self, container: Container, search: Search) -> SearchPage | None:
        """The first page of `search` if that takes microseconds; None says nothing about the items.

        With an order it has as many items as the search asks for, or all there are.
        """
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

    async def drop_disallowed_indexes(self, container: Container) -> None:
        """Drops the property indexes that the indexing policy no longer allows."""
        ...


class ChangeStore(Protocol):
    """Items and logged changes in the order of their transactions."""

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


class ExpiryStore(Protocol):
    """Expired items: find, count, purge."""

    async def purge(self, request: PurgeRequest) -> PurgeResult:
        """Purges expired items in one transaction.

        PurgeLeaseTaken if another server process purges the range.
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


class Store(MetadataStore, NamedValues, ItemStore, QueryStore, ChangeStore, ExpiryStore, Protocol):
    """A database that implements all of them in one class."""

    async def close(self) -> None: ...


class Stores(NamedTuple):
    """The stores of one account."""

    metadata: MetadataStore
    values: NamedValues
    items: ItemStore
    queries: QueryStore
    changes: ChangeStore
    expiry: ExpiryStore

    @classmethod
    def of(cls, store: Store) -> Stores:
        return cls(store, store, store, store, store, store)
