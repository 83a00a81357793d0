"""One server for each engine, and containers that all tests of a process share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeAlias

import pytest
from hypothesis import settings

from tests.query.engines import ENGINES, PLAIN, PUSHED, Engine
from tests.query.filled_containers import FilledContainer, fill_container
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.stores import SQLITE, Stores

settings.register_profile("soak", max_examples=20_000, print_blob=True)

Fill: TypeAlias = Callable[..., FilledContainer]
Storable: TypeAlias = Callable[[Any], Any]


def only(*engines: Engine) -> pytest.MarkDecorator:
    """Fewer engines, for a test that has little to do with how items are found."""
    return pytest.mark.parametrize(
        "engine", engines, indirect=True, scope="session", ids=lambda engine: engine.name
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves out what would tell nothing new about the second database."""
    items[:] = [item for item in items if not _is_left_out(item)]


def _is_left_out(item: pytest.Item) -> bool:
    """How queries are evaluated is the same on all; how items are found is not."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    if "engine" not in params or params.get("stores") in (None, SQLITE):
        return False
    if item.path.name == "test_golden.py":
        # Indexes take a while to build there; the random queries and the scopes use them. What is
        # found in four ranges is found in one.
        return params["engine"] is not PUSHED or params.get("ranges") == 1
    return params["engine"] is PLAIN


@pytest.fixture(scope="session", params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param
    return chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """The engine's constants hold while one of its tests runs, and for no other test."""
    chosen = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
    with pytest.MonkeyPatch.context() as patch:
        for name, value in chosen.constants.items() if chosen is not None else ():
            patch.setattr(name, value)
        yield


@pytest.fixture(scope="session")
def storable(stores: Stores) -> Storable:
    """Makes a value one that the database can hold: PostgreSQL has no room for \\u0000."""
    return _same if stores is SQLITE else _without_nul


def _same(value: Any) -> Any:
    return value


def _without_nul(value: Any) -> Any:
    """The next character in its place, also where a query text has its escape."""
    if isinstance(value, str):
        return value.replace("\0", "\1").replace("\\u0000", "\\u0001")
    if isinstance(value, list):
        return [_without_nul(each) for each in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(each) for name, each in value.items()}
    return value


@pytest.fixture(scope="session")
def query_client(stores: Stores, engine: Engine) -> Iterator[RawClient]:
    """A server of the engine with one empty database, /dbs/q."""
    with (
        stores.place() as place,
        running(place.fresh(**engine.settings)) as found,
        closing(RawClient(found.endpoint, found.key)) as raw,
    ):
        assert raw.post("/dbs", {"id": "q"}).status == 201
        yield raw


@pytest.fixture(scope="session")
def filled(query_client: RawClient, engine: Engine) -> Fill:
    """Fills a container, or finds the one that was filled under that name before."""
    known: dict[tuple[str, int], FilledContainer] = {}
    numbers = itertools.count()

    def fill(
        name: str,
        documents: Sequence[Mapping[str, Any]],
        ranges: int = 1,
        properties: Mapping[str, Any] | None = None,
    ) -> FilledContainer:
        if (name, ranges) not in known:
            known[name, ranges] = fill_container(
                query_client, "/dbs/q", f"s{next(numbers)}", documents, engine, ranges, properties
            )
        return known[name, ranges]

    return fill
