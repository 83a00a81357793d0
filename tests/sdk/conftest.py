"""Fixtures for the official Python clients: synchronous ones shared, asynchronous ones per test."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
)
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey, aio

from perseid.config import Settings
from tests.support.servers import RunningServer, Servers


class Exchange(NamedTuple):
    """One request of a client and the answer it got."""

    method: str
    path: str
    status: int
    sent: Mapping[str, str]
    received: Mapping[str, str]

    @property
    def sub_status(self) -> int:
        return int(self.received.get("x-ms-substatus", 0))

    @property
    def lsn(self) -> int:
        return int(self.received["lsn"])


class Recorder(list[Exchange]):
    """What went over the wire, oldest first; without the account, which clients read at will."""

    def note(self, response: Any) -> None:
        """The hook that clients call with every answer."""
        request, answer = response.http_request, response.http_response
        path = unquote(urlsplit(request.url).path)
        if path != "/":
            self.append(
                Exchange(request.method, path, answer.status_code, request.headers, answer.headers)
            )

    def outcomes(self) -> list[tuple[str, int]]:
        return [(exchange.method, exchange.status) for exchange in self]


Reopen: TypeAlias = Callable[..., DatabaseProxy]
OpenDatabase: TypeAlias = Callable[..., AbstractAsyncContextManager[aio.DatabaseProxy]]


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    """As users start it: the clients merge what a strict server leaves to them."""
    return servers(relaxed=Settings().relaxed)


@pytest.fixture(scope="session")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def exchanges(recorder: Recorder) -> Recorder:
    """What the shared client has sent since the test began."""
    recorder.clear()
    return recorder


@pytest.fixture(scope="module")  # a module may choose another server
def cosmos(server: RunningServer, recorder: Recorder) -> Iterator[CosmosClient]:
    """The synchronous client that tests share; no two tests use a name in its caches."""
    with CosmosClient(server.endpoint, server.key, raw_response_hook=recorder.note) as client:
        yield client


@pytest.fixture
def database(cosmos: CosmosClient, name: str) -> Iterator[DatabaseProxy]:
    """A fresh database, gone after the test."""
    made: DatabaseProxy = cosmos.create_database(name)
    yield made
    cosmos.delete_database(name)


@pytest.fixture
def container(database: DatabaseProxy) -> ContainerProxy:
    """A fresh container with the key /pk."""
    made: ContainerProxy = database.create_container("c", PartitionKey("/pk"))
    return made


@pytest.fixture
def reopen(endpoint: str, key: str, database: DatabaseProxy) -> Iterator[Reopen]:
    """Opens the database through further clients, with caches and sessions of their own."""
    with ExitStack() as clients:

        def opened(**options: Any) -> DatabaseProxy:
            client: CosmosClient = clients.enter_context(CosmosClient(endpoint, key, **options))
            return client.get_database_client(database.id)

        yield opened


@pytest.fixture
def open_database(endpoint: str, key: str, name: str) -> OpenDatabase:
    """Opens a fresh database through an asynchronous client; both are gone after the block."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[aio.DatabaseProxy]:
        async with aio.CosmosClient(endpoint, key, **options) as client:
            made: aio.DatabaseProxy = await client.create_database(name)
            try:
                yield made
            finally:
                await client.delete_database(name)

    return opened


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
