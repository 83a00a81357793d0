"""What the service refuses of a query: merging ranges for the client, sorting without an index."""

from __future__ import annotations

from collections.abc import Callable

from perseid.query.executor import reads_documents
from perseid.query.index_usage import CompositeIndex, sorting_index_of
from perseid.query.nodes import BoundQuery


def needs_client_plan(query: BoundQuery) -> bool:
    """True unless the rows of all ranges, one range after another, are the result of the query."""
    return (
        bool(query.order_by)
        or query.distinct
        or query.is_grouped
        or query.has_offset_or_limit
        or (bool(query.sources) and not reads_documents(query))
    )


def lacks_composite_index(query: BoundQuery, can_sort: Callable[[CompositeIndex], bool]) -> bool:
    """True if ORDER BY has several keys and the container has no composite index for them.

    The rows of groups, and the single row of an aggregate, are not sorted by an index.
    """
    if len(query.order_by) < 2 or query.is_grouped:
        return False
    return not can_sort(sorting_index_of(query))
