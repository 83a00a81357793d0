"""Runs queries over lists of databases, containers and other resources."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from perseid.query import CallContext, compile_query, run
from perseid.query.deadline import Deadline, call_context
from perseid.query.planner.grouping import is_linear
from perseid.service.account import Account
from perseid.service.queries.evaluation import LongEvaluation, SliceEvaluator
from perseid.service.queries.requests import LONG_TEXT, QueryRequest

_METADATA_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 5.0
_FEW_BODIES: Final = 100


async def run_over_metadata(
    account: Account, bodies: Sequence[Any], query: QueryRequest, now: float
) -> list[Any]:
    """All rows of a query over a list of resources.

    As with pages over items, a little runs on the event loop, more in a thread for a slice of time,
    and what takes longer in a worker process.
    """
    text, parameters = query.text, dict(query.parameters)
    evaluation = account.evaluation
    if account.settings.query_workers == 0:
        return await evaluation.plan(rows_of, bodies, text, parameters, now, _METADATA_SECONDS)
    if len(text) <= LONG_TEXT and not evaluation.is_planning:
        if len(bodies) <= _FEW_BODIES and is_linear(compile_query(text).bound):
            return rows_of(bodies, text, parameters, now, _METADATA_SECONDS)
        try:
            evaluator = evaluation.slice()
            return await evaluator.run(_rows_in_slice, evaluator, bodies, text, parameters, now)
        except LongEvaluation:
            pass
    return await account.workers.call(
        rows_of,
        bodies,
        text,
        parameters,
        now,
        _METADATA_SECONDS,
        seconds=_METADATA_SECONDS + _GRACE_SECONDS,
    )


def rows_of(
    bodies: Sequence[Any], text: str, parameters: Mapping[str, Any], now: float, seconds: float
) -> list[Any]:
    """All rows of a query; DeadlineExceeded if they take longer than that."""
    return _rows(bodies, text, parameters, call_context(now, Deadline(seconds).check))


def _rows_in_slice(
    evaluator: SliceEvaluator,
    bodies: Sequence[Any],
    text: str,
    parameters: Mapping[str, Any],
    now: float,
) -> list[Any]:
    """All rows of a query; LongEvaluation if they take too long in this process."""

    def check() -> None:
        is_large = context.work_limit.spent > evaluator.most_steps
        if is_large or time.perf_counter() > evaluator.end:
            raise LongEvaluation

    context = call_context(now, check)
    return _rows(bodies, text, parameters, context)


def _rows(
    bodies: Sequence[Any], text: str, parameters: Mapping[str, Any], context: CallContext
) -> list[Any]:
    return list(run(compile_query(text), bodies, parameters, context))
