"""Queries: a request body to a compiled query, run page by page over live items."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from perseid.documents import parse_json
from perseid.errors import BadRequest
from perseid.model import Container, Row
from perseid.partition import ABSENT, canonical
from perseid.query import CallContext, CompiledQuery, compile_query, prepare, run
from perseid.query.pins import pinned
from perseid.service import tokens
from perseid.service.operation import Operation
from perseid.store.protocol import Scan

T = TypeVar("T")

_CHUNK: Final = 500
_LARGEST_PAGE_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query and its parameters as a client sent them."""

    text: str
    parameters: dict[str, Any]
    digest: str  # a token continues the query it was made for, and no other


class QueryPage(NamedTuple):
    """Result rows as JSON, the sizes of the items loaded for them, the way on, and the times."""

    rows: list[bytes]
    loaded: list[int]
    continuation: str | None
    times: Times


@dataclass(slots=True)
class Times:
    """Where a page's time went, in seconds."""

    compiling: float = 0.0
    loading: float = 0.0
    evaluating: float = 0.0


def parse_request(body: bytes) -> QueryRequest:
    """`{"query": …, "parameters": […]}`, or the bare query text as a JSON string."""
    value = parse_json(body)
    if isinstance(value, str):
        value = {"query": value}
    if not isinstance(value, dict) or not isinstance(value.get("query"), str):
        raise BadRequest('A query request is {"query": "SELECT …", "parameters": […]}.')
    given = value.get("parameters") or []
    if not isinstance(given, list):
        raise BadRequest("The parameters of a query are an array.")
    parameters = {}
    for parameter in given:
        if not isinstance(parameter, dict) or not isinstance(parameter.get("name"), str):
            raise BadRequest('A query parameter is {"name": "@name", "value": …}.')
        name = parameter["name"]
        if not name.startswith("@"):
            raise BadRequest(f"The name of a query parameter starts with '@': '{name}' does not.")
        parameters[name] = parameter.get("value")
    digest = hashlib.blake2b(orjson.dumps([value["query"], given]), digest_size=8).hexdigest()
    return QueryRequest(value["query"], parameters, digest)


def run_over(bodies: Sequence[Any], query: QueryRequest, now: float) -> list[Any]:
    """All rows of a query over a metadata feed."""
    compiled = compile_query(query.text)
    return list(run(compiled, bodies, query.parameters, _context(now)))


def compile_for(container: Container, query: QueryRequest) -> CompiledQuery:
    computed = container.properties.get("computedProperties") or []
    return compile_query(query.text, tuple((each["name"], each["query"]) for each in computed))


async def run_page(
    op: Operation, query: QueryRequest, scope: Scan, token: str | None, limit: int
) -> QueryPage:
    """The next page of at most `limit` rows."""
    secret = op.account.secret
    expected = {"f": "query", "c": op.container.rid, "q": query.digest}
    position = tokens.unseal(secret, token, **expected) if token else {}
    started = time.perf_counter()
    compiled = compile_for(op.container, query)
    compiling = time.perf_counter() - started
    page = _Page(op, compiled, query.parameters, scope, limit)
    onward = await (page.stream if compiled.streaming else page.compute)(position)
    continuation = None if onward is None else tokens.seal(secret, expected | onward)
    page.times.compiling = compiling
    return QueryPage(page.rows, page.loaded, continuation, page.times)


class _Page:
    """A page under construction. Its methods return the position of the next one, if any."""

    def __init__(
        self,
        op: Operation,
        compiled: CompiledQuery,
        parameters: dict[str, Any],
        scope: Scan,
        limit: int,
    ) -> None:
        self._op = op
        self._compiled = compiled
        self._parameters = parameters
        self._scope = scope
        self._limit = limit
        self._room = _LARGEST_PAGE_BYTES
        self._context = _context(op.now)
        self.rows: list[bytes] = []
        self.loaded: list[int] = []
        self.times = Times()

    async def stream(self, position: dict[str, Any]) -> dict[str, Any] | None:
        """Each item stands for itself, so a page ends anywhere and goes on from there.

        The position is the last item that was used up, and how many rows the next one has given.
        """
        after, skip = position.get("n", -1), position.get("k", 0)
        while rows := await self._scan(after):
            onward = await self._evaluated(self._take, rows, after, skip)
            if onward is not None:
                return onward
            after, skip = rows[-1].number, 0
        return None

    def _take(self, rows: list[Row], after: int, skip: int) -> dict[str, Any] | None:
        execution = prepare(self._compiled, self._parameters, self._context)
        for row in rows:
            for used, result in enumerate(execution.rows((orjson.loads(row.body),))):
                if used == 0:
                    self.loaded.append(row.size)
                if used >= skip and not self._add(orjson.dumps(result)):
                    return {"n": after, "k": used}
            after, skip = row.number, 0
        return None

    async def compute(self, position: dict[str, Any]) -> dict[str, Any] | None:
        """Sorted, grouped and counted results exist only as a whole; a page is a part of that."""
        rows: list[Row] = []
        while chunk := await self._scan(rows[-1].number if rows else -1):
            rows += chunk
        self.loaded += [row.size for row in rows]
        return await self._evaluated(self._evaluate, rows, position.get("at", 0))

    def _evaluate(self, rows: list[Row], start: int) -> dict[str, Any] | None:
        documents = (orjson.loads(row.body) for row in rows)
        results = run(self._compiled, documents, self._parameters, self._context)
        for result in islice(results, start, None):
            if not self._add(orjson.dumps(result)):
                return {"at": start + len(self.rows)}
        return None

    async def _evaluated(self, work: Callable[..., T], *arguments: Any) -> T:
        started = time.perf_counter()
        result = await asyncio.to_thread(work, *arguments)
        self.times.evaluating += time.perf_counter() - started
        return result

    async def _scan(self, after: int) -> list[Row]:
        scan = replace(self._scope, after=after, limit=_CHUNK)
        started = time.perf_counter()
        rows = await self._op.store.scan(self._op.container, scan)
        self.times.loading += time.perf_counter() - started
        return rows

    def _add(self, text: bytes) -> bool:
        """Takes the row unless the page is full; a page always takes its first."""
        if self.rows and (len(self.rows) >= self._limit or len(text) > self._room):
            return False
        self._room -= len(text)
        self.rows.append(text)
        return True


def _context(now: float) -> CallContext:
    return CallContext(now=now, random=random.random)


def pinned_key(container: Container, query: QueryRequest) -> bytes | None:
    """The logical partition outside of which the query's filter rejects everything."""
    fixed = pinned(compile_for(container, query).bound, query.parameters)
    values = [fixed.get(path, ABSENT) for path in container.key.tokens]
    if all(value is None or isinstance(value, str | int | float) for value in values):
        return canonical(tuple(values))
    return None
