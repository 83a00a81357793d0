"""The scope of a request: which items its headers name.

A feed or query may be confined to a partition key, a prefix of a hierarchical key, a physical range
or an interval of effective partition keys. Admission asks for the ranges of the same scope.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from perseid import partition
from perseid.limits import MAX_PAGE_BYTES
from perseid.model import Container
from perseid.service.items.point_operations import logical_partition_of
from perseid.service.operation import Operation
from perseid.store.types import Search

# The envelope around the items of a page takes a little of the response.
_ENVELOPE_BYTES: Final = 128


class Scope(NamedTuple):
    """What the headers of a request say; None where a header is missing."""

    partition_key: str | None  # the header, as it was sent
    range_index: int | None
    epk_min: bytes | None
    epk_max: bytes | None

    @property
    def is_confined(self) -> bool:
        """True if the headers name a partition key or its first levels, a range or an interval."""
        if self.range_index is not None or self.epk_min is not None or self.epk_max is not None:
            return True
        return self.partition_key is not None and bool(self.partition_key.strip("[] "))


def search_of(op: Operation, scope: Scope, *, after: int, limit: int) -> Search:
    """The search for the items of a scope, from the item number `after` on."""
    max_bytes = MAX_PAGE_BYTES - _ENVELOPE_BYTES - limit  # one comma for each item
    search = Search(
        after, scope.range_index, None, False, scope.epk_min, scope.epk_max, op.cutoff,
        None, frozenset(), limit, max_bytes,
    )  # fmt: skip
    header = scope.partition_key
    if header is None:
        return search
    components = partition.parse_header(header, op.container.key.levels)
    if len(components) < op.container.key.levels:
        return search._replace(pk_prefix=partition.canonical(components), is_prefix=True)
    logical_partition = logical_partition_of(op.container, header)
    if not op.container.key.tokens:
        return search  # all items have the empty key
    if scope.range_index is not None:  # what is in both: nothing if the key is in another range
        return search._replace(pk_prefix=logical_partition.pk)
    return search._replace(
        pk_prefix=logical_partition.pk, range_index=logical_partition.range_index
    )


def search_container(op: Operation, partition_key: str | None) -> Search:
    """The search for all items of a container, or for those of one logical partition."""
    search = Search(cutoff=op.cutoff)
    if partition_key is None:
        return search
    logical_partition = logical_partition_of(op.container, partition_key)
    if not op.container.key.tokens:
        return search
    return search._replace(
        pk_prefix=logical_partition.pk, range_index=logical_partition.range_index
    )


def interval_of(container: Container, scope: Scope) -> tuple[str, str] | None:
    """From and up to, not including: the effective partition keys of a scope.

    None if the headers say nothing, so that the body may tell more.
    """
    interval = key_interval(container, scope.partition_key)
    if interval is not None:
        return interval
    if scope.range_index is not None:
        key_range = container.ranges[scope.range_index]
        return key_range.min, key_range.max
    if scope.epk_min is not None or scope.epk_max is not None:
        return partition.interval_text(scope.epk_min, scope.epk_max)
    return None


def key_interval(container: Container, header: str | None) -> tuple[str, str] | None:
    """The effective partition keys of a key or key prefix; None if the header names none."""
    if header is None or not header.strip("[] "):
        return None
    components = partition.parse_header(header, container.key.levels)
    if len(components) < container.key.levels:
        return partition.prefix_interval(components, container.key)
    return point_of(container, partition.canonical(components))


def point_of(container: Container, pk: bytes) -> tuple[str, str]:
    """From and up to, not including: the effective partition key of one logical partition."""
    return partition.point_interval(partition.effective_of(pk, container.key))
