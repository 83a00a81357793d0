"""Frozen values that cross layers: databases, containers, item rows, pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

from perseid.charges import IndexPaths
from perseid.partition import KeyDefinition, Range
from perseid.ttl import Policy, PurgeHold

# An item's number is its address and its age: physical range, LSN of the creating transaction,
# position within that transaction. So number order is creation order, and a range's items are one
# interval. 12 + 40 + 8 bits: what a `_rid` has room for.
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
    """A container with everything derived from its definition, worked out once."""

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
    age_at_final_expiry: int  # how old inheriting items became that an earlier policy has killed
    guard: str | None  # the container's own limit for mass expiry: "500" or "10%"
    # each unique key as its paths, each path as its tokens
    unique_keys: tuple[tuple[tuple[str, ...], ...], ...]
    index: IndexPaths
    docs_link: str  # "dbs/{rid}/colls/{rid}/docs/", the start of each item's `_self`
    path: str  # "dbs/{id}/colls/{id}"
    retention: int = 0  # seconds for which all versions are kept; 0: the latest ones only
    catalog_generation: int = (
        0  # of the reading of the metadata that it is from: see store.protocol
    )


class ItemKey(NamedTuple):
    """Where an item lives: its logical partition as canonical bytes, and its id in there."""

    pk: bytes
    id: str


class Row(NamedTuple):
    """An item at rest. `body` is the text a client gets, or b"" where only the rest was asked."""

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


# By place, which takes half as long as by name: a page asks for them row by row.
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
    """What a range holds: items and bytes of the living, and of the dead not yet removed.

    Then what was ever removed for being dead, and how many of those only the latest change of
    policy at that time had killed.
    """

    items: int
    size: int
    expired_items: int
    expired_size: int
    purged_items: int = 0
    purged_size: int = 0
    expired_by_change: int = 0
