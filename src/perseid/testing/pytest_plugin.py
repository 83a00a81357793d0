"""Fixtures for tests of programs that use Cosmos DB: a server, clients, a container, the clock.

Installing Perseid makes them known to pytest. Nothing is imported or started before a test asks
for it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_overloads
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy
    from azure.cosmos.aio import ContainerProxy as AsyncContainerProxy
    from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

_SETTINGS = (
    ("perseid_endpoint", "Use the server at this address instead of starting one."),
    ("perseid_key", "A master key of that server. Default: the key every emulator uses."),
    ("perseid_options", "Options for the server, as after `perseid serve`."),
)
_MARKER = (
    "cosmos(partition_key='/pk', items=(), **properties): what the test's cosmos_container is"
    " like; properties are those of DatabaseProxy.create_container, as default_ttl."
)
_CONNECT_SECONDS = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("perseid", "Cosmos DB tests with Perseid")
    for name, text in _SETTINGS:
        group.addoption(f"--{name.replace('_', '-')}", dest=name, default=None, help=text)
        parser.addini(name, text, default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@dataclass(frozen=True, slots=True)
class Perseid:
    """A running server: where it is, how to get in, and its clock."""

    endpoint: str
    key: str = field(repr=False)  # pytest shows the fixtures of a test that fails
    certificate: Path | None = None  # that it has made for itself, if it speaks HTTPS

    @property
    def connection_string(self) -> str:
        return f"AccountEndpoint={self.endpoint};AccountKey={self.key};"

    @property
    def clock(self) -> PerseidClock:
        return PerseidClock(self.endpoint, self.key)


@dataclass(frozen=True, slots=True)
class PerseidClock:
    """The time that decides `_ts` and expiry. It moves forward, never back."""

    endpoint: str
    key: str = field(repr=False)

    def now(self) -> float:
        """Seconds since 1970."""
        __tracebackhide__ = True
        return self._call_clock("GET")

    def freeze(self) -> float:
        """Time stands still."""
        __tracebackhide__ = True
        return self._call_clock("POST", "freeze")

    def resume(self) -> float:
        """Time runs on from where it stands."""
        __tracebackhide__ = True
        return self._call_clock("POST", "resume")

    def advance(self, seconds: float | timedelta) -> float:
        """Moves forward; what ends in between is gone when this returns."""
        __tracebackhide__ = True
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        return self._call_clock(
            "POST", "advance", seconds=_number(seconds, "seconds or a timedelta")
        )

    def set(self, instant: float | datetime) -> float:
        """Moves forward to that second since 1970, or date (UTC unless it says otherwise)."""
        __tracebackhide__ = True
        if isinstance(instant, datetime):
            date = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
            instant = date.timestamp()
        return self._call_clock(
            "POST", "set", to=_number(instant, "seconds since 1970 or a datetime")
        )

    def _call_clock(self, method: str, *move: str, **body: float) -> float:
        __tracebackhide__ = True
        import click

        from perseid.commands.admin_client import AdminClient

        client = AdminClient(self.endpoint, self.key)
        try:
            answer = (
                client.get("clock")
                if method == "GET"
                else client.post("clock", *move, body=dict(body))
            )
        except click.ClickException as exc:
            raise ValueError(exc.format_message()) from None
        now: float = answer.value["now"]
        return now


def _number(value: Any, expected: str) -> float:
    __tracebackhide__ = True
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"the clock takes {expected}, not {value!r}")
    return value


@pytest.fixture(scope="session")
def perseid(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Perseid]:
    """A server in memory on a free port, with a test clock; one for each process of a session."""
    from perseid.config import WELL_KNOWN_KEY

    endpoint = _setting(pytestconfig, "perseid_endpoint")
    if endpoint:
        key = _setting(pytestconfig, "perseid_key") or WELL_KNOWN_KEY
        _check_key(key)
        _check_reachable(endpoint)
        yield Perseid(endpoint, key)
        return
    if pytestconfig.getoption("perseid_key"):  # in an ini file it may wait for an address
        raise pytest.UsageError(
            "--perseid-key is a key of the server at --perseid-endpoint, which is missing."
        )
    from perseid.errors import StartError
    from perseid.testing.embedded_server import running

    try:
        with running(_server_settings(pytestconfig)) as settings:
            certificate = None
            if settings.tls and settings.cert is None:
                certificate = tmp_path_factory.mktemp("perseid") / "certificate.pem"
                certificate.write_text(_certificate(settings.endpoint))
            yield Perseid(settings.endpoint, settings.key, certificate)
    except StartError as exc:
        raise pytest.UsageError(f"perseid_options: {exc}") from exc


@pytest.fixture
def perseid_clock(perseid: Perseid) -> Iterator[PerseidClock]:
    """The server's clock, standing still at a whole second; after the test it runs again."""
    clock = perseid.clock
    frozen = clock.freeze()
    # A whole second: an item with a ttl of n then lives until the clock has moved by n.
    clock.advance(-frozen % 1)
    yield clock
    clock.resume()


@pytest.fixture(scope="session")
def cosmos_client(perseid: Perseid) -> Iterator[CosmosClient]:
    """The official client, connected."""
    trust = _tls_options(perseid)
    if perseid.certificate is not None:  # this client warns with each request that checks nothing
        trust = {"ssl_config": _sdk().documents.SSLConfiguration()}
        trust["ssl_config"].SSLCaCerts = str(perseid.certificate)
    with _sdk().CosmosClient(perseid.endpoint, perseid.key, **trust) as client:
        yield client


@pytest.fixture
def cosmos_database(cosmos_client: CosmosClient) -> Iterator[DatabaseProxy]:
    """An empty database, gone after the test."""
    # Sessions that share a server may have the same process id, each in a container of its own.
    name = f"test-{os.getpid()}-{secrets.token_hex(4)}"
    yield cosmos_client.create_database(name)
    with contextlib.suppress(_sdk().exceptions.CosmosResourceNotFoundError):  # by the test itself
        cosmos_client.delete_database(name)


@pytest.fixture
def cosmos_container(
    cosmos_database: DatabaseProxy, request: pytest.FixtureRequest
) -> ContainerProxy:
    """A fresh container with the key /pk, or as @pytest.mark.cosmos(...) says."""
    if "perseid_clock" in request.fixturenames:
        # First, wherever the test names it: the clock stops at the next second, and items that
        # were put in before would be a second older than that.
        request.getfixturevalue("perseid_clock")
    properties: dict[str, Any] = {}
    for marker in reversed([*request.node.iter_markers("cosmos")]):  # the nearest one wins
        if marker.args:
            raise pytest.UsageError("@pytest.mark.cosmos takes named arguments only.")
        properties |= marker.kwargs
    items = properties.pop("items", ())
    _check_names(properties, cosmos_database.create_container)
    key = properties.pop("partition_key", "/pk")
    name = properties.pop("id", "items")
    container: ContainerProxy = cosmos_database.create_container(
        name, partition_key=_partition_key(key), **properties
    )
    for item in items:
        container.upsert_item(item)
    return container


@pytest.fixture
def async_cosmos_client(perseid: Perseid) -> AsyncCosmosClient:
    """The official asynchronous client, not connected yet: `async with async_cosmos_client:`."""
    return _async_client(perseid)


@pytest.fixture
def async_cosmos_container(
    perseid: Perseid, cosmos_container: ContainerProxy
) -> AbstractAsyncContextManager[AsyncContainerProxy]:
    """The test's container for asynchronous code: `async with async_cosmos_container as c:`.

    A plain fixture, so it works with every plugin that runs asynchronous tests, and with none.
    """
    _async_client(perseid)  # says now what is missing
    return _AsyncContainer(perseid, cosmos_container.container_link)


class _AsyncContainer(contextlib.AbstractAsyncContextManager["AsyncContainerProxy"]):
    """Has a client of its own each time it is entered: one that was closed is of no more use."""

    def __init__(self, perseid: Perseid, link: str) -> None:
        self._perseid = perseid
        _, self._database, _, self._container = link.split("/")
        self._open: list[AsyncCosmosClient] = []

    async def __aenter__(self) -> AsyncContainerProxy:
        client = _async_client(self._perseid)
        await client.__aenter__()
        self._open.append(client)
        return client.get_database_client(self._database).get_container_client(self._container)

    async def __aexit__(self, *_: object) -> None:
        await self._open.pop().close()


def _async_client(perseid: Perseid) -> AsyncCosmosClient:
    _sdk()
    try:
        from azure.cosmos.aio import CosmosClient

        # Made in here: the client looks for its transport only now.
        return CosmosClient(perseid.endpoint, perseid.key, **_tls_options(perseid))
    except ImportError as exc:
        raise pytest.UsageError("The asynchronous client needs: pip install aiohttp") from exc


def _setting(config: pytest.Config, name: str) -> str:
    """From the command line, else from the ini file."""
    given = config.getoption(name)
    return str(given if given is not None else config.getini(name))


def _check_key(key: str) -> None:
    __tracebackhide__ = True
    from perseid.http.signatures import decode_key

    try:
        decode_key(key)
    except ValueError:
        raise pytest.UsageError("perseid_key must be base64, as Cosmos DB keys are.") from None


def _check_reachable(endpoint: str) -> None:
    """Connects once, or every test would wait for its client to give up."""
    __tracebackhide__ = True
    ports = {"http": 80, "https": 443}
    try:
        parts = urlsplit(endpoint)
        if parts.scheme not in ports or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError("it must look like http://127.0.0.1:8081/")
        where = parts.hostname, parts.port or ports[parts.scheme]
        socket.create_connection(where, timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise pytest.UsageError(
            f"perseid_endpoint: no server answers at {endpoint}: {reason}."
        ) from None


def _check_names(properties: Mapping[str, Any], create: Callable[..., Any]) -> None:
    """UsageError for a name that `create` does not list; it would fail far from here."""
    __tracebackhide__ = True
    parameter_kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    known = dict.fromkeys(
        name
        for each in get_overloads(create) or [create]
        for name, parameter in signature(each).parameters.items()
        if parameter.kind in parameter_kinds and name not in ("self", "return_properties")
    )
    unknown = [name for name in properties if name not in known]
    if known and unknown:
        raise pytest.UsageError(
            f"@pytest.mark.cosmos does not know '{unknown[0]}'; it takes"
            f" {', '.join(['items', *known])}."
        )


def _server_settings(config: pytest.Config) -> Any:
    from perseid.config import Settings

    options = _setting(config, "perseid_options")
    if not options:
        return Settings(memory=True, test_clock=True)
    import click
    from click.core import ParameterSource

    from perseid.commands.serve import serve

    try:
        context = serve.make_context("serve", shlex.split(options))
    except click.ClickException as exc:
        raise pytest.UsageError(f"perseid_options: {exc.format_message()}") from exc
    except ValueError as exc:  # of shlex
        raise pytest.UsageError(f"perseid_options: {exc} in: {options}") from exc
    except click.exceptions.Exit:  # it has printed its help
        raise pytest.UsageError("perseid_options: --help starts no server.") from None
    # What is in the environment is for other servers and for commands, with options or without.
    # Paths of an ini file are seen from where it is: tests run from any folder.
    is_ini = config.getoption("perseid_options") is None
    given: dict[str, Any] = {
        name: config.inipath.parent / value
        if config.inipath and is_ini and isinstance(value, Path)
        else value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    for name in {"data", "store", "port"} & given.keys():  # they would be ignored
        raise pytest.UsageError(
            f"perseid_options: this server is in memory and on a free port: leave out --{name}."
        )
    return Settings(**given | {"memory": True, "test_clock": True})


def _partition_key(key: Any) -> Any:
    if not isinstance(key, str | list | tuple):
        return key
    if isinstance(key, str):
        return _sdk().PartitionKey(path=key)
    return _sdk().PartitionKey(path=list(key), kind="MultiHash")


def _sdk() -> Any:
    try:
        import azure.cosmos
    except ImportError as exc:
        raise pytest.UsageError("These fixtures need: pip install azure-cosmos") from exc
    return azure.cosmos


def _certificate(endpoint: str) -> str:
    import ssl

    parts = urlsplit(endpoint)
    return ssl.get_server_certificate((parts.hostname or "", parts.port or 443))


def _tls_options(perseid: Perseid) -> dict[str, Any]:
    """A server of our own signs its own certificate."""
    return {"connection_verify": False} if perseid.endpoint.startswith("https:") else {}
