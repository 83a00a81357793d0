"""A server of its own for each file, on a clock that stands still until a test moves it.

The sweeper is paused, so dead items stay on disk: whatever hides them is the liveness test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.stores import Stores
from tests.support.ttl_containers import Shelves, frozen_clock


@pytest.fixture(scope="module")
def clock() -> MovableClock:
    """Stands still at a whole second; tests move it forward."""
    return frozen_clock()


@pytest.fixture(scope="module")
def settings(stores: Stores, clock: MovableClock) -> Iterator[Settings]:
    with stores.place() as place, running(place.fresh(no_sweeper=True), clock) as found:
        yield found


@pytest.fixture(scope="module")
def endpoint(settings: Settings) -> str:
    return settings.endpoint


@pytest.fixture(scope="module")
def key(settings: Settings) -> str:
    return settings.key


@pytest.fixture
def shelves(raw: RawClient, clock: MovableClock, database: str) -> Shelves:
    """Makes containers in a database that is gone after the test."""
    return Shelves(raw, clock, database)
