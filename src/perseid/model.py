"""Immutable values that all layers use: databases, containers, item rows, storage usage."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

from perseid.charges import IndexPaths
from perseid.partition import KeyDefinition, Range
from perseid.ttl import Policy, PurgeHold

# An item's number consists of its physical range, the LSN of the transaction that created it, and
# the position in that transaction. So the order of numbers is the order of creation, and the items
# of a range are one interval. 12 + 40 + 8 bits, as many as a `_rid` has room for.
RANGE_SHIFT: Final = 48
LSN_SHIFT: Final = 8


def item_number(range_index: int, lsn: int, position: int) -> int:
    return range_index << RANGE_SHIFT | lsn << LSN_SHIFT | position


@dataclass(frozen=True, slots=True)
class Database:
    number: int
    id: str
    rid: str
    etag: str
    ts: int


@dataclass(frozen=True, slots=True)
class Container:
    """A container with everything that is derived from its definition."""

    number: int
    id: str
    rid: str
    etag: str
    ts: int
    database: Database
    properties: dict[str, Any]
    key: KeyDefinition
    ranges: tuple[Range, ...]
    policy: Policy
    purge_hold: PurgeHold
    age_at_final_expiry: int  # age of items that expired under an earlier default
    guard: str | None  # the container's own limit for mass expiry: "500" or "10%"
    # each unique key as its paths, each path as its tokens
    unique_keys: tuple[tuple[tuple[str, ...], ...], ...]
    index: IndexPaths
    docs_link: str  # "dbs/{rid}/colls/{rid}/docs/", the start of each item's `_self`
    path: str  # "dbs/{id}/colls/{id}"
    retention: int = 0  # seconds for which all versions are kept; 0: the latest ones only
    catalog_generation: int = 0  # which reading of the metadata it is from: see store.protocol


class ItemKey(NamedTuple):
    """Identifies an item: its logical partition as canonical bytes, and its id there."""

    pk: bytes
    id: str


class Row(NamedTuple):
    """A stored item. `body` is the JSON text; b"" if the caller asked for the other columns."""

    number: int
    pk: bytes
    id: str
    epk: bytes
    ts: int
    ttl: int | None
    lsn: int
    etag: str
    size: int
    terms: int
    body: bytes

    @property
    def range_index(self) -> int:
        return self.number >> RANGE_SHIFT

    @property
    def key(self) -> ItemKey:
        return ItemKey(self.pk, self.id)


# By index, which takes half as long as by name; pages read them for every row.
size_of: Final = itemgetter(Row._fields.index("size"))
body_of: Final = itemgetter(Row._fields.index("body"))


@dataclass(frozen=True, slots=True)
class Offer:
    """Provisioned throughput of a database or container."""

    number: int
    rid: str
    resource: str  # the target's `_self`
    resource_rid: str
    etag: str
    ts: int
    content: dict[str, Any] = field(default_factory=dict)


class StorageUsage(NamedTuple):
    """What a range holds: items and bytes that are live, and that are expired and not purged yet.

    Then everything ever purged, and how many of those items only the latest policy change before
    their purge had expired.
    """

    items: int
    size: int
    expired_items: int
    expired_size: int
    purged_items: int = 0
    purged_size: int = 0
    expired_by_change: int = 0
