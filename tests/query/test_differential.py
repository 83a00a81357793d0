"""Random queries over random documents: the server, page by page, against the language in memory.

`pytest --hypothesis-profile=soak tests/query/test_differential.py` goes on for long.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any, Final

import orjson
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from perseid.errors import BadRequest
from perseid.query import CallContext, compile_query, run
from tests.query.conftest import Storable
from tests.query.engines import Engine
from tests.query.filled_containers import FilledContainer, fill_container, normalized
from tests.query.strategies import RandomQuery, document_lists, documents, queries
from tests.support.raw import RawClient
from tests.support.servers import serving
from tests.support.stores import Stores

CONTEXT: Final = CallContext(now=1_700_000_000.0, random=lambda: 0.5)
QUERIES: Final = 6
_names = itertools.count()

# The usual number of examples, always the same ones; or as many as the soak profile asks for.
SOAKING: Final = settings().max_examples > 1000


def examples(count: int) -> settings:
    return settings(
        max_examples=settings().max_examples * count // 50 if SOAKING else count,
        derandomize=not SOAKING,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def feed(container: FilledContainer) -> list[Any]:
    """The items as the server has them, in its order."""
    reply = container.raw.get(f"{container.path}/docs", count="-1")
    assert reply.status == 200, reply
    found: list[Any] = orjson.loads(reply.body)["Documents"]
    return found


def in_memory(text: str, items: list[Any], parameters: dict[str, Any]) -> list[str] | None:
    """The rows by the plain evaluator, or None for a query that fails."""
    try:
        rows = list(run(compile_query(text), items, parameters, CONTEXT))
    except BadRequest:
        return None
    return [normalized(orjson.loads(orjson.dumps(row))) for row in rows]


class Reading:
    """A query that is read page by page, and may be interrupted between two."""

    def __init__(self, query: RandomQuery, size: int, items: list[Any]) -> None:
        self.query = query
        self.size = size
        self.items = items
        self.expected = in_memory(query.text, items, query.parameters)
        self.rows: list[str] = []
        self.token: str | None = ""

    @property
    def is_done(self) -> bool:
        return self.token is None

    def step(self, container: FilledContainer) -> None:
        """Reads one page."""
        if self.expected is None:
            reply = container.query(self.query.text, self.query.parameters)
            assert reply.status == 400, (self.query, reply)
            self.token = None
            return
        reply = container.page(self.query.text, self.query.parameters, self.size, self.token or "")
        self.rows += [normalized(row) for row in orjson.loads(reply.body)["Documents"]]
        self.token = reply.headers.get("x-ms-continuation")

    def check(self) -> None:
        if self.expected is None:
            return
        if self.query.unwindowed is not None:
            whole = in_memory(self.query.unwindowed, self.items, self.query.parameters)
            assert whole is not None
            assert len(self.rows) == len(self.expected), self.query
            assert Counter(self.rows) <= Counter(whole), self.query
        elif self.query.is_ordered:
            assert self.rows == self.expected, self.query
        else:
            assert sorted(self.rows) == sorted(self.expected), self.query


def fill_and_list(
    raw: RawClient, engine: Engine, ranges: int, found: list[dict[str, Any]]
) -> tuple[FilledContainer, list[Any]]:
    numbered = [{"id": f"i{number}", **each} for number, each in enumerate(found)]
    container = fill_container(raw, "/dbs/q", f"r{next(_names)}", numbered, engine, ranges)
    return container, feed(container)


@given(
    found=document_lists,
    asked=st.lists(st.tuples(queries(), st.integers(1, 5)), min_size=QUERIES, max_size=QUERIES),
    ranges=st.sampled_from((1, 4)),
)
@examples(50)
def test_server_and_memory_agree(
    query_client: RawClient,
    engine: Engine,
    storable: Storable,
    found: list[dict[str, Any]],
    asked: list[tuple[RandomQuery, int]],
    ranges: int,
) -> None:
    container, items = fill_and_list(query_client, engine, ranges, storable(found))
    note(json.dumps(items))
    try:
        for query, size in asked:
            for pages in (size, 1000):
                reading = Reading(query, pages, items)
                while not reading.is_done:
                    reading.step(container)
                reading.check()
    finally:
        query_client.delete(container.path)


@given(
    found=st.lists(documents, min_size=5, max_size=12),
    asked=st.lists(st.tuples(queries(), st.integers(1, 3)), min_size=12, max_size=12),
    ranges=st.sampled_from((1, 4)),
    restarts=st.lists(st.integers(1, 3), min_size=2, max_size=2),
)
@examples(3)
def test_paging_goes_on_after_a_restart(
    stores: Stores,
    engine: Engine,
    storable: Storable,
    found: list[dict[str, Any]],
    asked: list[tuple[RandomQuery, int]],
    ranges: int,
    restarts: list[int],
) -> None:
    """All queries are read side by side; the server goes down twice in the middle."""
    readings: list[Reading] = []
    path = ""
    with stores.place() as place:
        stored = place.lasting(**engine.settings)
        for steps in (*restarts, None):
            with serving(stored) as raw:
                if not path:
                    assert raw.post("/dbs", {"id": "q"}).status == 201
                    container, items = fill_and_list(raw, engine, ranges, storable(found))
                    path = container.path
                    readings = [Reading(query, size, items) for query, size in asked]
                container = FilledContainer(raw, path, engine)
                for reading in readings:
                    for _ in itertools.count() if steps is None else range(steps):
                        if reading.is_done:
                            break
                        reading.step(container)
    for reading in readings:
        reading.check()
