"""The query language: turns query text into a compiled query and runs it over documents.

Pure: it reads no store, no clock and no settings. Callers compile with `compile_query` and run the
result with `run` or `prepare`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from perseid.documents import SYSTEM_PROPERTIES
from perseid.errors import BadRequest, QueryError
from perseid.query.binder import Definition, bind
from perseid.query.executor import (
    Collector,
    CompiledPaging,
    CompiledQuery,
    Execution,
    compile_program,
    evaluate_row_independent,
    offset_limit,
    prepare,
    rows_of,
    run,
)
from perseid.query.functions import CallContext, lookup
from perseid.query.nodes import Call, Identifier, Query, walk
from perseid.query.parser import parse, parse_condition

__all__ = [
    "CallContext",
    "Collector",
    "CompiledPaging",
    "CompiledQuery",
    "Execution",
    "compile_condition",
    "compile_query",
    "evaluate_row_independent",
    "offset_limit",
    "prepare",
    "rows_of",
    "run",
    "validate_computed",
]

# The computed properties of a container: the name and the query text of each.
Computed = tuple[tuple[str, str], ...]

# Long texts are generated and rarely repeat, and a few of them take as much memory as all short
# ones, so they have a small cache of their own.
_SHORT_TEXT: Final = 8 * 1024
# A definition is bound inside the expressions of a query, so it may use a part of their depth only.
_DEFINITION_DEPTH: Final = 50
_SYSTEM_NAMES: Final = SYSTEM_PROPERTIES | {"id"}


def compile_query(text: str, computed: Computed = ()) -> CompiledQuery:
    """The compiled query of `text`; raises QueryError if `text` is not a valid query.

    `computed` are the container's computed properties; the query reads them like stored ones.
    """
    compile_cached = _compile_short if len(text) <= _SHORT_TEXT else _compile_long
    return compile_cached(text, computed)


@lru_cache(maxsize=256)
def compile_condition(text: str) -> CompiledQuery:
    """A query that returns a document if it meets the condition `FROM c WHERE …`."""
    return compile_program(bind(parse_condition(text), text, {}), text)


def validate_computed(name: str, text: str) -> None:
    """Raises BadRequest unless `text` can define the computed property `name`."""
    if not name or name in _SYSTEM_NAMES:
        raise _bad_definition(f"'{name}' cannot name a computed property")
    try:
        query = parse(text, max_depth=_DEFINITION_DEPTH)
        program = bind(query, text, {})
    except QueryError as problem:
        raise _bad_definition(problem.message) from problem
    bound = program.query
    if not _is_definition(query) or program.parameters or bound.is_grouped or bound.has_subqueries:
        raise _bad_definition("the query must be SELECT VALUE of an expression over the item")
    for node in walk(bound):
        if isinstance(node, Call) and not _may_define(node.name):
            raise _bad_definition(f"'{node.name}' cannot be used in a computed property")


def _compile(text: str, computed: Computed) -> CompiledQuery:
    definitions = {name: _definition(query) for name, query in computed}
    return compile_program(bind(parse(text), text, definitions), text)


_compile_short: Final = lru_cache(maxsize=1024)(_compile)
_compile_long: Final = lru_cache(maxsize=16)(_compile)


def _definition(text: str) -> Definition:
    query = parse(text, max_depth=_DEFINITION_DEPTH)
    source = query.sources[0]
    assert isinstance(source.collection, Identifier)  # noqa: S101  # validated before it was stored
    return Definition(source.alias or source.collection.name, query.select.items[0].expr)


def _is_definition(query: Query) -> bool:
    """True for a plain SELECT VALUE over whole items.

    Aggregates without GROUP BY are not visible in the syntax; the caller checks the bound query.
    """
    select, sources = query.select, query.sources
    return (
        select.shape == "VALUE"
        and not select.distinct
        and select.top is None
        and len(sources) == 1
        and isinstance(sources[0].collection, Identifier)
        and not sources[0].iterate
        and query.where is None
        and not query.group_by
        and not query.order_by
        and query.offset is None
    )


def _may_define(function: str) -> bool:
    builtin = lookup(function)
    spatial = function.upper().startswith("ST_")
    return builtin is not None and builtin.deterministic and not spatial


def _bad_definition(reason: str) -> BadRequest:
    return BadRequest(f"One of the specified inputs is invalid: {reason}.")
