"""Runs queries over lists of databases, containers and other resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from perseid.query import compile_query, run
from perseid.query.deadline import Deadline, call_context
from perseid.service.queries.requests import QueryRequest

_METADATA_SECONDS: Final = 1.0  # these queries run on the event loop


def run_over_metadata(bodies: Sequence[Any], query: QueryRequest, now: float) -> list[Any]:
    """All rows of a query over a list of resources."""
    compiled = compile_query(query.text)
    context = call_context(now, Deadline(_METADATA_SECONDS).check)
    return list(run(compiled, bodies, query.parameters, context))
