"""Fixtures for every suite: a running server, a movable clock, raw and official clients."""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import running

# How long an example takes is the machine's business, and machines are shared.
hypothesis.settings.register_profile(
    "default", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("default")

_numbers = itertools.count(1)
EXCUSES = Path(__file__).parent / "allowed_skips.txt"


@pytest.fixture(scope="session")
def clock() -> MovableClock:
    """The clock of the shared server; tests move it forward, never back."""
    return MovableClock()


@pytest.fixture(scope="session")
def settings(clock: MovableClock) -> Iterator[Settings]:
    """A server in memory that all tests of a process share."""
    with running(Settings(memory=True), clock) as found:
        yield found


@pytest.fixture(scope="session")
def endpoint(settings: Settings) -> str:
    return settings.endpoint


@pytest.fixture(scope="session")
def key(settings: Settings) -> str:
    return settings.key


@pytest.fixture
def raw(endpoint: str, key: str) -> Iterator[RawClient]:
    """A plain signed HTTP connection."""
    client = RawClient(endpoint, key)
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """A name nobody else uses."""
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
    body = {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
    assert raw.post(f"{database}/colls", body).status == 201
    return f"{database}/colls/c"


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
