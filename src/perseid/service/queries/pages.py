"""Runs queries: over the live items of a container page by page, or over a list of resources."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple

from perseid.model import body_of, size_of
from perseid.query import compile_query, run
from perseid.query.deadline import Deadline, call_context
from perseid.service import tokens
from perseid.service.operation import Operation
from perseid.service.queries import page_builders
from perseid.service.queries.page_builders import PageTimings, QueryPageBuilder
from perseid.service.queries.plans import Plan
from perseid.service.queries.query_requests import QueryRequest
from perseid.store.types import Search

# Everybody waits for a query over metadata.
_METADATA_SECONDS: Final = 1.0


class QueryResultPage(NamedTuple):
    """Result rows as JSON, the sizes of the items loaded for them, the way on, and the times.

    `counted` are items that were counted without loading them, `looked` those that were met along
    an index in its order; `ranges` are the physical ranges that items were loaded from, where
    there are several.
    """

    rows: list[bytes]
    loaded: list[int]
    counted: int
    examined: int
    continuation: str | None
    times: PageTimings
    ranges: set[int]


def run_over_metadata(bodies: Sequence[Any], query: QueryRequest, now: float) -> list[Any]:
    """All rows of a query over a metadata feed."""
    compiled = compile_query(query.text)
    context = call_context(now, Deadline(_METADATA_SECONDS).check)
    return list(run(compiled, bodies, query.parameters, context))


async def run_page(
    op: Operation,
    plan: Plan,
    query: QueryRequest,
    scope: Search,
    token: str | None,
    limit: int,
    *,
    allowance: float = inf,
) -> QueryResultPage:
    """The next page of at most `limit` rows.

    Rows that need no order end early when the items read for them have cost `allowance`.
    """
    secret = op.account.secret
    position = tokens.unseal(secret, token, **_token_scope(op, query)) if token else None
    builder = QueryPageBuilder(op, plan, query, scope, limit, position)
    builder.allowance = allowance
    next_position = await builder.build()
    continuation = (
        None
        if next_position is None
        else tokens.seal(secret, _token_scope(op, query) | next_position)
    )
    return QueryResultPage(
        builder.rows,
        builder.loaded,
        builder.counted,
        builder.examined,
        continuation,
        builder.times,
        builder.ranges,
    )


def try_first_page(
    op: Operation, plan: Plan, query: QueryRequest, scope: Search, limit: int
) -> QueryResultPage | None:
    """The first page of a result that is items as they are, if one look into the store gives it.

    That is what most queries ask for, so it does without all that makes other pages, and nobody
    waits for it; None says nothing about the page.
    """
    if not plan.is_copied:
        return None
    where, skip, left = query.bind(plan, op.now)
    room = limit if left is None or left > limit else left
    if room == 0 or skip + room > page_builders.CHUNK:
        return None
    if plan.order is not None and room != left:
        return None  # where another page follows, this one ends at a place of the order
    search = scope.with_filter(where, plan.indexable, skip + room, plan.order)
    started = time.perf_counter()
    found = op.account.stores.queries.try_search(op.container, search)
    if found is None:
        return None
    rows, has_more = found.rows, found.has_more and not found.is_ordered
    loading = time.perf_counter() - started
    if has_more and len(rows) < search.limit:
        return None  # the page was full before
    bodies = [*map(body_of, rows[skip:])]
    continuation = None
    if has_more and room != left:
        next_position: dict[str, Any] = {"item": rows[-1].number + 1, "given": 0}
        if left is not None:
            next_position["left"] = left - len(bodies)
        continuation = tokens.seal(op.account.secret, _token_scope(op, query) | next_position)
    ranges = {row.range_index for row in rows} if len(op.container.ranges) > 1 else set()
    times = PageTimings(loading=loading)
    return QueryResultPage(bodies, [*map(size_of, rows)], 0, len(rows), continuation, times, ranges)


def _token_scope(op: Operation, query: QueryRequest) -> dict[str, Any]:
    """What a token belongs to."""
    return {"f": "query", "c": op.container.rid, "q": query.digest}
