"""Fixtures for every suite: a running server, a movable clock, raw and official clients."""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import os
import random
import signal
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psycopg_pool.base
import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.service.items import patch_evaluator
from perseid.service.queries import budget, metadata
from tests.support.builders import create_container
from tests.support.raw import RawClient
from tests.support.servers import RunningServer, Servers
from tests.support.stores import CITUS, CITUS_DSN, SQLITE, STORES, Place, Stores

# How long an example takes is the machine's business, and machines are shared.
hypothesis.settings.register_profile(
    "default", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("default")

_numbers = itertools.count(1)
HERE = Path(__file__).parent
EXCUSES = HERE / "allowed_skips.txt"
# Suites that hold for every database; what Citus is to show is in the second list.
ON_ALL_STORES = ("store", "ttl", "query", "wire", "model", "postgres")
ON_CITUS = ("store", "wire")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--store",
        choices=STORES,
        help="Run the tests on this database only. Default: each suite on those it is meant for.",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Tests that are collected stay in memory: a garbage collection finds nothing among them, and
    # takes half of the time that collecting the tests takes. See `pytest_collection_finish`.
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in the background so, and the servers of the tests inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line(
        "markers", "only_on(store, reason=...): the test is about something this database has"
    )
    config.addinivalue_line(
        "markers", f"citus: the test runs on the cluster that {CITUS_DSN} names, if it does"
    )


# Connection pools of servers in this process draw random numbers. Hypothesis would take a change of
# the global generator for a strategy that is not reproducible.
setattr(psycopg_pool.base, "random", random.Random().random)  # noqa: B010


# A worker process that is late by this much is ended. It runs with a low priority, so on a busy
# machine it may take longer than usual until it has started.
for module in (budget, metadata, patch_evaluator):
    setattr(module, "_GRACE_SECONDS", 60.0)  # noqa: B010


# Tests start many servers at a time as processes, and the port for HTTPS is always the same.
os.environ.setdefault("PERSEID_HTTPS_PORT", "0")


@pytest.fixture(scope="session", autouse=True)
def _state_of_this_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Servers with `--memory --tls` keep their certificate here, not in the user's home."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test that needs a store runs on every database its suite is meant for."""
    if "stores" not in metafunc.fixturenames:
        return
    suite = metafunc.definition.path.relative_to(HERE).parts[0]
    chosen = metafunc.config.getoption("store")
    found = [*STORES.values()] if suite in ON_ALL_STORES else []
    if chosen is not None:
        found = [STORES[chosen]]
    params = [pytest.param(each, id=each.name) for each in found]
    if suite in ON_CITUS and CITUS_DSN in os.environ:
        params.append(pytest.param(CITUS, id="citus", marks=pytest.mark.citus))
    only = metafunc.definition.get_closest_marker("only_on")
    if only is not None:
        params = [each for each in params if each.id == only.args[0]]
    if params:  # else it runs on SQLite, or not at all: see below
        metafunc.parametrize("stores", params, indirect=True, scope="session")


def pytest_collection_finish() -> None:
    """From here on, garbage collections leave out the objects of the collected tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: tests wait for processes and disks half of the time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is about another database than the one it would run on."""
    chosen = config.getoption("store")
    items[:] = [item for item in items if _is_meant(item, chosen)]


def _is_meant(item: pytest.Item, chosen: str | None) -> bool:
    only = item.get_closest_marker("only_on")
    stores = item.callspec.params.get("stores") if hasattr(item, "callspec") else None
    found = chosen if stores is None else stores.name
    return only is None or found in (None, only.args[0])


@pytest.fixture(scope="session")
def stores(request: pytest.FixtureRequest) -> Stores:
    """The database that the test is run on."""
    chosen: Stores = getattr(request, "param", SQLITE)
    return chosen


@pytest.fixture
def place(stores: Stores) -> Iterator[Place]:
    """Where the test's own servers keep their data."""
    with stores.place() as found:
        yield found


@pytest.fixture(scope="session")
def servers(stores: Stores) -> Iterator[Servers]:
    """Starts servers that the tests of a process share: `servers(no_sweeper=True)`."""
    with Servers(stores) as shared:
        yield shared


# A suite overrides `server` alone. What follows it is made for each test, because pytest keeps a
# wider fixture although the one it was made from is overridden elsewhere.
@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    """The server of the test: relaxed, with the default flags unless its suite chooses others."""
    return servers()


@pytest.fixture(scope="session")
def relaxed_server(servers: Servers) -> RunningServer:
    """Answers queries that the service refuses, whatever the server of the suite does."""
    return servers(relaxed=True)


@pytest.fixture(scope="session")
def strict_server(servers: Servers) -> RunningServer:
    """Refuses queries that the service refuses."""
    return servers(relaxed=False)


@pytest.fixture
def settings(server: RunningServer) -> Settings:
    return server.settings


@pytest.fixture
def clock(server: RunningServer) -> MovableClock:
    """The clock of the test's server; tests move it forward, never back.

    One that stands still does so at the beginning of a second.
    """
    if server.is_frozen:
        server.clock.set(math.ceil(server.clock.now()))
    return server.clock


@pytest.fixture
def frozen(clock: MovableClock) -> Iterator[MovableClock]:
    """The same clock; it stands still during the test except for `advance` and `set`."""
    clock.freeze()
    yield clock
    clock.resume()


@pytest.fixture
def endpoint(server: RunningServer) -> str:
    return server.endpoint


@pytest.fixture
def key(server: RunningServer) -> str:
    return server.key


@pytest.fixture
def raw(endpoint: str, key: str) -> Iterator[RawClient]:
    """A plain signed HTTP connection."""
    client = RawClient(endpoint, key)
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"n{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def database(raw: RawClient, name: str) -> Iterator[str]:
    """The path of a fresh database, `/dbs/…`, gone after the test."""
    assert raw.post("/dbs", {"id": name}).status == 201
    yield f"/dbs/{name}"
    raw.delete(f"/dbs/{name}")


@pytest.fixture
def container(raw: RawClient, database: str) -> str:
    """The path of a fresh container with the key /pk, `/dbs/…/colls/c`."""
    return create_container(raw, database)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test has failed, unless its reason is listed in allowed_skips.txt."""
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        allowed = [
            line for line in EXCUSES.read_text().splitlines() if line and not line.startswith("#")
        ]
        if not any(line in reason for line in allowed):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI: {reason}"
    return report


@pytest.fixture
def run() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs coroutines, all of a test in one event loop."""
    with asyncio.Runner() as runner:
        yield runner.run
