"""A server whose clock stands still until a test moves it, shared by the suite.

The sweeper is paused, so expired items stay on disk: they are hidden by the liveness test alone.
"""

from __future__ import annotations

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient
from tests.support.servers import RunningServer, Servers
from tests.support.ttl_containers import MaybePurge, TtlContainer, TtlContainers


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers("frozen", no_sweeper=True)


@pytest.fixture
def containers(raw: RawClient, clock: MovableClock, database: str) -> TtlContainers:
    """Makes containers in a database that is gone after the test."""
    return TtlContainers(raw, clock, database)


@pytest.fixture
def container(containers: TtlContainers) -> TtlContainer:
    """A container whose items expire by their own `ttl` only."""
    return containers.make(-1)


@pytest.fixture(params=["unpurged", "purged"])
def maybe_purge(request: pytest.FixtureRequest) -> MaybePurge:
    """Called when items have expired: leaves them where they are, or purges them."""

    def purge(container: TtlContainer) -> None:
        container.drain()

    return purge if request.param == "purged" else lambda _: None
