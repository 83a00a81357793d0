"""A server whose clock stands still until a test moves it, shared by the suite.

The sweeper is paused, so expired items stay on disk: they are hidden by the liveness test alone.
"""

from __future__ import annotations

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient
from tests.support.servers import RunningServer, Servers
from tests.support.ttl_containers import Shelves


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers("frozen", no_sweeper=True)


@pytest.fixture
def shelves(raw: RawClient, clock: MovableClock, database: str) -> Shelves:
    """Makes containers in a database that is gone after the test."""
    return Shelves(raw, clock, database)
