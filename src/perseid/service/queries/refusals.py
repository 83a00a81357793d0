"""Queries that the service refuses, and that this server answers if it is relaxed.

Which they are is known from the plan, so a query that is allowed costs no check. The order is that
of the service: a composite index that is missing, then rows of several ranges to be merged.
"""

from __future__ import annotations

from typing import Final

from perseid.errors import BadRequest, UnmergedQuery
from perseid.query.planner.plan import Plan

# Texts of the service. Clients compare the beginnings.
_NO_COMPOSITE_INDEX: Final = (
    "The order by query does not have a corresponding composite index that it can be served from."
)
_NOT_DIRECTLY: Final = (
    "The provided cross partition query can not be directly served by the gateway. This is a first"
    " chance (internal) exception: clients that can merge the rows of several ranges ask for the"
    " query plan next. For other clients, specify x-ms-documentdb-partitionkey, or start the server"
    " with --relaxed."
)


def refusal_of(plan: Plan, *, is_confined: bool) -> BadRequest | None:
    """The error that the service returns for a query; None if it answers the query.

    `is_confined`: the request names a partition key, a range or an interval of keys. A filter that
    allows a single partition key does not count.
    """
    if plan.lacks_composite_index:
        return BadRequest(_NO_COMPOSITE_INDEX)
    if plan.needs_client_plan and not is_confined:
        return UnmergedQuery(_NOT_DIRECTLY)
    return None
