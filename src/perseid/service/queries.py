"""Runs queries: over the live items of a container page by page, or over a list of resources."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf
from typing import Any, Final, NamedTuple

from perseid.model import body_of, size_of
from perseid.query import compile_query, run
from perseid.service import query_pages, tokens
from perseid.service.operation import Operation
from perseid.service.patience import Patience, call_context
from perseid.service.plans import Plan
from perseid.service.query_pages import QueryWork, Times
from perseid.service.query_requests import QueryRequest
from perseid.store.protocol import Scan

# Everybody waits for a query over metadata.
_METADATA_SECONDS: Final = 1.0


class QueryPage(NamedTuple):
    """Result rows as JSON, the sizes of the items loaded for them, the way on, and the times.

    `counted` are items that were counted without loading them, `looked` those that were met along
    an index in its order; `ranges` are the physical ranges that items were loaded from, where
    there are several.
    """

    rows: list[bytes]
    loaded: list[int]
    counted: int
    looked: int
    continuation: str | None
    times: Times
    ranges: set[int]


def run_over(bodies: Sequence[Any], query: QueryRequest, now: float) -> list[Any]:
    """All rows of a query over a metadata feed."""
    compiled = compile_query(query.text)
    context = call_context(now, Patience(_METADATA_SECONDS).check)
    return list(run(compiled, bodies, query.parameters, context))


async def run_page(
    op: Operation,
    plan: Plan,
    query: QueryRequest,
    scope: Scan,
    token: str | None,
    limit: int,
    *,
    allowance: float = inf,
) -> QueryPage:
    """The next page of at most `limit` rows.

    Rows that need no order end early when the items read for them have cost `allowance`.
    """
    secret = op.account.secret
    position = tokens.unseal(secret, token, **_about(op, query)) if token else None
    filled = QueryWork(op, plan, query, scope, limit, position)
    filled.allowance = allowance
    onward = await filled.fill()
    continuation = None if onward is None else tokens.seal(secret, _about(op, query) | onward)
    return QueryPage(
        filled.rows,
        filled.loaded,
        filled.counted,
        filled.looked,
        continuation,
        filled.times,
        filled.ranges,
    )


def at_once(
    op: Operation, plan: Plan, query: QueryRequest, scope: Scan, limit: int
) -> QueryPage | None:
    """The first page of a result that is items as they are, if one look into the store gives it.

    That is what most queries ask for, so it does without all that makes other pages, and nobody
    waits for it; None says nothing about the page.
    """
    if not plan.is_copied:
        return None
    where, skip, left = query.bound_to(plan, op.now)
    room = limit if left is None or left > limit else left
    if room == 0 or skip + room > query_pages.CHUNK:
        return None
    if plan.order is not None and room != left:
        return None  # where another page follows, this one ends at a place of the order
    scan = scope.meeting(where, plan.indexable, skip + room)
    started = time.perf_counter()
    found = op.account.store.at_once(op.container, scan, plan.order)
    if found is None:
        return None
    rows, has_more = found
    loading = time.perf_counter() - started
    if has_more and len(rows) < scan.limit:
        return None  # the page was full before
    shown = [*map(body_of, rows[skip:])]
    continuation = None
    if has_more and room != left:
        onward: dict[str, Any] = {"item": rows[-1].number + 1, "given": 0}
        if left is not None:
            onward["left"] = left - len(shown)
        continuation = tokens.seal(op.account.secret, _about(op, query) | onward)
    ranges = {row.range_index for row in rows} if len(op.container.ranges) > 1 else set()
    times = Times(loading=loading)
    return QueryPage(shown, [*map(size_of, rows)], 0, len(rows), continuation, times, ranges)


def _about(op: Operation, query: QueryRequest) -> dict[str, Any]:
    """What a token belongs to."""
    return {"f": "query", "c": op.container.rid, "q": query.digest}
