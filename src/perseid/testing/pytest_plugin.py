"""Fixtures for tests of programs that use Cosmos DB: a server, clients, a container, the clock.

pytest finds them when Perseid is installed. Nothing is imported or started before a test uses a
fixture.
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
    ("perseid_key", "Master key of that server. Default: the well-known key of the emulators."),
    ("perseid_options", "Options for the server, as for `perseid serve`."),
)
_MARKER = (
    "cosmos(partition_key='/pk', items=(), **properties): defines the cosmos_container of the"
    " test; properties are those of DatabaseProxy.create_container, such as default_ttl."
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
    """A running server: its address, its key, its certificate and its clock."""

    endpoint: str
    key: str = field(repr=False)  # hidden: pytest prints the fixtures of a failing test
    certificate: Path | None = None  # its self-signed certificate, if it uses HTTPS

    @property
    def connection_string(self) -> str:
        return f"AccountEndpoint={self.endpoint};AccountKey={self.key};"

    @property
    def clock(self) -> PerseidClock:
        return PerseidClock(self.endpoint, self.key)


@dataclass(frozen=True, slots=True)
class PerseidClock:
    """The clock for `_ts` and expiry. It moves forward, never back."""

    endpoint: str
    key: str = field(repr=False)

    def now(self) -> float:
        """Seconds since 1970."""
        __tracebackhide__ = True
        return self._call_clock("GET")

    def freeze(self) -> float:
        """Stops the clock."""
        __tracebackhide__ = True
        return self._call_clock("POST", "freeze")

    def resume(self) -> float:
        """Lets the clock run again from its current time."""
        __tracebackhide__ = True
        return self._call_clock("POST", "resume")

    def advance(self, seconds: float | timedelta) -> float:
        """Moves the clock forward; items that expire by then are gone when this returns."""
        __tracebackhide__ = True
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        return self._call_clock(
            "POST", "advance", seconds=_number(seconds, "seconds or a timedelta")
        )

    def set(self, instant: float | datetime) -> float:
        """Moves the clock forward to seconds since 1970 or a date (UTC if it has no zone)."""
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
    """A server in memory on a free port with a test clock; one per test process."""
    from perseid.config import WELL_KNOWN_KEY

    endpoint = _setting(pytestconfig, "perseid_endpoint")
    if endpoint:
        key = _setting(pytestconfig, "perseid_key") or WELL_KNOWN_KEY
        _check_key(key)
        _check_reachable(endpoint)
        yield Perseid(endpoint, key)
        return
    if pytestconfig.getoption("perseid_key"):  # the ini file may have a key without an endpoint
        raise pytest.UsageError(
            "--perseid-key needs --perseid-endpoint: it is a key of that server."
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
    """The server's clock, stopped at a whole second; it runs again after the test."""
    clock = perseid.clock
    frozen = clock.freeze()
    # At a whole second an item with ttl n expires exactly when the clock has moved by n.
    clock.advance(-frozen % 1)
    yield clock
    clock.resume()


@pytest.fixture(scope="session")
def cosmos_client(perseid: Perseid) -> Iterator[CosmosClient]:
    """The official client, connected."""
    trust = _tls_options(perseid)
    if perseid.certificate is not None:  # without verification this client warns on every request
        trust = {"ssl_config": _sdk().documents.SSLConfiguration()}
        trust["ssl_config"].SSLCaCerts = str(perseid.certificate)
    with _sdk().CosmosClient(perseid.endpoint, perseid.key, **trust) as client:
        yield client


@pytest.fixture
def cosmos_database(cosmos_client: CosmosClient) -> Iterator[DatabaseProxy]:
    """An empty database, deleted after the test."""
    # Test sessions in different Docker containers may share a server and have equal process ids.
    name = f"test-{os.getpid()}-{secrets.token_hex(4)}"
    yield cosmos_client.create_database(name)
    with contextlib.suppress(_sdk().exceptions.CosmosResourceNotFoundError):  # the test deleted it
        cosmos_client.delete_database(name)


@pytest.fixture
def cosmos_container(
    cosmos_database: DatabaseProxy, request: pytest.FixtureRequest
) -> ContainerProxy:
    """A new container with partition key /pk, or as @pytest.mark.cosmos(...) defines it."""
    if "perseid_clock" in request.fixturenames:
        # Before the items are stored, in any order of the test's arguments: the clock stops at the
        # next second, and items stored earlier would be a second older.
        request.getfixturevalue("perseid_clock")
    properties: dict[str, Any] = {}
    for marker in reversed([*request.node.iter_markers("cosmos")]):  # the nearest one wins
        if marker.args:
            raise pytest.UsageError("@pytest.mark.cosmos takes keyword arguments only.")
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

    A synchronous fixture, so it works with every plugin for asynchronous tests and without one.
    """
    _async_client(perseid)  # fails here if a package is missing
    return _AsyncContainer(perseid, cosmos_container.container_link)


class _AsyncContainer(contextlib.AbstractAsyncContextManager["AsyncContainerProxy"]):
    """Creates a new client each time it is entered: a closed client cannot be used again."""

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

        # Inside the try: the constructor imports the transport.
        return CosmosClient(perseid.endpoint, perseid.key, **_tls_options(perseid))
    except ImportError as exc:
        raise pytest.UsageError("The asynchronous client needs: pip install aiohttp") from exc


def _setting(config: pytest.Config, name: str) -> str:
    """The value from the command line, otherwise from the ini file."""
    option = config.getoption(name)
    return str(option if option is not None else config.getini(name))


def _check_key(key: str) -> None:
    __tracebackhide__ = True
    from perseid.http.signatures import decode_key

    try:
        decode_key(key)
    except ValueError:
        raise pytest.UsageError("perseid_key must be base64, like all Cosmos DB keys.") from None


def _check_reachable(endpoint: str) -> None:
    """Connects once: otherwise every test would wait until its client times out."""
    __tracebackhide__ = True
    ports = {"http": 80, "https": 443}
    try:
        parts = urlsplit(endpoint)
        if parts.scheme not in ports or not parts.hostname or parts.path not in ("", "/"):
            raise ValueError("it must look like http://127.0.0.1:8081/")
        address = parts.hostname, parts.port or ports[parts.scheme]
        socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise pytest.UsageError(
            f"perseid_endpoint: no server answers at {endpoint}: {reason}."
        ) from None


def _check_names(properties: Mapping[str, Any], create: Callable[..., Any]) -> None:
    """UsageError for a property that `create` does not accept; the SDK's error would be unclear."""
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
            f"@pytest.mark.cosmos does not accept '{unknown[0]}'; it accepts"
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
    except ValueError as exc:  # from shlex
        raise pytest.UsageError(f"perseid_options: {exc} in: {options}") from exc
    except click.exceptions.Exit:  # after it printed its help
        raise pytest.UsageError("perseid_options: --help does not start a server.") from None
    # Environment variables are ignored: they configure other servers and the commands.
    # Paths in an ini file are relative to that file: tests may run from any directory.
    is_ini = config.getoption("perseid_options") is None
    given: dict[str, Any] = {
        name: config.inipath.parent / value
        if config.inipath and is_ini and isinstance(value, Path)
        else value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    for name in {"data", "store", "port", "https_port"} & given.keys():  # these would be ignored
        raise pytest.UsageError(
            f"perseid_options: remove --{name.replace('_', '-')}: this server runs in memory on a"
            " free port, with HTTP, or with HTTPS if --tls is given."
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
    """The certificate to trust, from the server that this process has just started."""
    import http.client
    import ssl

    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    parts = urlsplit(endpoint)
    with contextlib.closing(
        http.client.HTTPSConnection(parts.hostname or "", parts.port, context=unverified)
    ) as connection:
        connection.request("GET", "/_perseid/certificate.pem")
        return connection.getresponse().read().decode()


def _tls_options(perseid: Perseid) -> dict[str, Any]:
    """The embedded server uses a self-signed certificate."""
    return {"connection_verify": False} if perseid.endpoint.startswith("https:") else {}
