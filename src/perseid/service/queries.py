"""Queries: a request body to a compiled query, run page by page over live items."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from perseid.documents import parse_named
from perseid.errors import BadRequest
from perseid.model import Container, Row
from perseid.partition import ABSENT, canonical
from perseid.query import (
    CallContext,
    Collector,
    CompiledQuery,
    Execution,
    Paging,
    compile_query,
    prepare,
    run,
)
from perseid.query.pins import pinned
from perseid.query.positions import Found, Position, Selection, last_cut, position_at
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
    value = parse_named(body)
    if isinstance(value, str):
        value = {"query": value}
    if not isinstance(value, dict) or not isinstance(value.get("query"), str):
        raise BadRequest('A query request is {"query": "SELECT …", "parameters": […]}.')
    given = value.get("parameters")
    if given is None:
        given = []
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
    position = tokens.unseal(secret, token, **expected) if token else None
    started = time.perf_counter()
    compiled = compile_for(op.container, query)
    execution = prepare(compiled, query.parameters, _context(op.now))
    page = _Page(op, execution, scope, limit, position)
    page.times.compiling = time.perf_counter() - started
    onward = await page.fill[compiled.paging]()
    continuation = None if onward is None else tokens.seal(secret, expected | onward)
    return QueryPage(page.rows, page.loaded, continuation, page.times)


class _Page:
    """A page under construction.

    `fill` has a method for each way of paging, which returns the position of the next page, if
    there is one. A position names the last row by what it is and not by how many came before,
    because each page sees the items of its own moment.
    """

    def __init__(
        self,
        op: Operation,
        execution: Execution,
        scope: Scan,
        limit: int,
        position: dict[str, Any] | None,
    ) -> None:
        self._op = op
        self._execution = execution
        self._gives_items = execution.compiled.gives_items
        self._scope = scope
        self._limit = limit
        self._position = position or {}
        place = self._position.get("after")
        self._after = None if place is None else Position.from_json(place)
        # The first page leaves out what OFFSET says; `left` counts down from TOP or LIMIT.
        self._skip, self._left = execution.window()
        if position is not None:
            self._skip, self._left = 0, position.get("left")
        self._room = _LARGEST_PAGE_BYTES
        self.fill: dict[Paging, Callable[[], Awaitable[dict[str, Any] | None]]] = {
            "STREAM": self._stream,
            "SORT": self._sort,
            "WHOLE": self._collect,
        }
        self.rows: list[bytes] = []
        self.loaded: list[int] = []
        self.times = Times()

    async def _stream(self) -> dict[str, Any] | None:
        """Each item stands for itself, so a page ends anywhere and goes on from there.

        The position is the item of the next row, and how many rows it has given before.
        """
        if self._left == 0:
            return None
        after = self._position.get("item", 0) - 1
        while rows := await self._scan(after):
            is_done, onward = await self._evaluated(self._take, rows)
            if is_done:
                return onward
            after = rows[-1].number
        return None

    def _take(self, rows: list[Row]) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is done, and where the next one begins."""
        begun = self._position.get("item")
        for row in rows:
            given = self._position["given"] if row.number == begun else 0
            for used, result in enumerate(self._execution.rows_of(orjson.loads(row.body))):
                if used == 0:
                    self.loaded.append(row.size)
                if used < given:
                    continue
                if self._skip > 0:
                    self._skip -= 1
                elif not self._add(row.body if self._gives_items else orjson.dumps(result)):
                    return True, self._onward({"item": row.number, "given": used})
                elif len(self.rows) == self._left:
                    return True, None
        return False, None

    async def _sort(self) -> dict[str, Any] | None:
        """A row has its place by its sort keys and its item; only those of the page are kept."""
        for by_tie in self._rounds():
            selection = Selection(self._after, self._most, by_tie=by_tie)
            last = -1
            while self._most > 0 and (rows := await self._scan(last)):
                await self._evaluated(self._sort_into, selection, rows)
                last = rows[-1].number
            is_done, onward = await self._evaluated(self._cut, selection, by_tie)
            if is_done:
                break
        return onward

    def _sort_into(self, selection: Selection, rows: list[Row]) -> None:
        for row in rows:
            source = row if self._gives_items else row._replace(body=b"")
            self._execution.sort_into(selection, row.number, orjson.loads(row.body), source)

    async def _collect(self) -> dict[str, Any] | None:
        """Groups and different values are known when all items are; a page is a part of them."""
        collector = self._execution.collector()
        last = -1
        while self._execution.compiled.bound.sources and (rows := await self._scan(last)):
            await self._evaluated(self._feed, collector, rows)
            last = rows[-1].number
        return await self._evaluated(self._divide, collector)

    def _feed(self, collector: Collector, rows: list[Row]) -> None:
        for row in rows:
            if collector.feed(orjson.loads(row.body), row if self._gives_items else None):
                self.loaded.append(row.size)

    def _divide(self, collector: Collector) -> dict[str, Any] | None:
        """The whole result as it is if that fits into a page, else a page of it in key order."""
        found = collector.finish()
        if self._after is None:
            end = None if self._left is None else self._skip + self._left
            shown = found[self._skip : end]
            if len(shown) <= self._limit and all(self._add(self._text(each)) for each in shown):
                return None
            self._clear()
        for by_tie in self._rounds():
            selection = Selection(self._after, self._most, by_tie=by_tie)
            for each in found:
                if selection.wants(each.key, each.tie):
                    selection.add(each)
            is_done, onward = self._cut(selection, by_tie)
            if is_done:
                break
        return onward

    def _rounds(self) -> tuple[bool, ...]:
        """Whether to go by tie among long keys: only if the page cannot be told without."""
        return (True,) if self._after is not None and self._after.is_within else (False, True)

    @property
    def _most(self) -> int:
        """How many rows the page may need; one more than it gives tells that there are others."""
        if self._left is not None and self._left <= self._limit:
            return self._skip + self._left
        return self._skip + self._limit + 1

    def _cut(self, selection: Selection, by_tie: bool) -> tuple[bool, dict[str, Any] | None]:
        """Whether the page is done, and where the next one begins."""
        rows, first, onward = selection.rows(), self._skip, None
        for found in rows[first:]:
            if not self._add(self._text(found)):
                break
        end = first + len(self.rows)
        if end < len(rows):
            cut = last_cut(rows, first, end)
            if cut is None and not by_tie:
                self._clear()
                return False, None
            end = end if cut is None else cut
            del self.rows[end - first :]
            onward = self._onward({"after": position_at(rows, end).to_json()})
        if by_tie:
            places = sorted(range(len(self.rows)), key=lambda at: rows[first + at].key)
            self.rows = [self.rows[at] for at in places]
        if self._execution.compiled.paging == "SORT":
            self.loaded += {row.number: row.size for _, _, _, row in rows[:end]}.values()
        return True, onward

    def _onward(self, position: dict[str, Any]) -> dict[str, Any]:
        return position if self._left is None else position | {"left": self._left - len(self.rows)}

    def _text(self, found: Found) -> bytes:
        body: bytes = found.source.body if self._gives_items else orjson.dumps(found.value)
        return body

    async def _evaluated(self, work: Callable[..., T], *arguments: Any) -> T:
        started = time.perf_counter()
        result = await asyncio.to_thread(work, *arguments)
        self.times.evaluating += time.perf_counter() - started
        return result

    async def _scan(self, after: int) -> list[Row]:
        scan = replace(self._scope, after=after, limit=_CHUNK)
        started = time.perf_counter()
        page = await self._op.store.scan(self._op.container, scan)
        self.times.loading += time.perf_counter() - started
        return page.rows

    def _add(self, text: bytes) -> bool:
        """Takes the row unless the page is full; a page always takes its first."""
        if self.rows and (len(self.rows) >= self._limit or len(text) > self._room):
            return False
        self._room -= len(text)
        self.rows.append(text)
        return True

    def _clear(self) -> None:
        self.rows.clear()
        self._room = _LARGEST_PAGE_BYTES


def _context(now: float) -> CallContext:
    return CallContext(now=now, random=random.random)


def pinned_key(container: Container, query: QueryRequest) -> bytes | None:
    """The logical partition outside of which the query's filter rejects everything."""
    fixed = pinned(compile_for(container, query).bound, query.parameters)
    values = [fixed.get(path, ABSENT) for path in container.key.tokens]
    if all(value is None or isinstance(value, str | int | float) for value in values):
        return canonical(tuple(values))
    return None
