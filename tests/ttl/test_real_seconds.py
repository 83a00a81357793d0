"""The one test that waits: a second of real life, on the system's own clock."""

from __future__ import annotations

import time

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient
from tests.support.servers import RunningServer, Servers
from tests.support.ttl_containers import TtlContainers, assert_gone

LIFETIME = 1
TIME_LIMIT = 10.0  # seconds of wall time until the test gives up


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    """A server as users start it: system clock, sweeper at work."""
    return servers("system")


def test_an_item_is_gone_after_its_second(raw: RawClient, database: str) -> None:
    container = TtlContainers(raw, MovableClock(), database).make(-1)
    assert raw.get("/_perseid/clock").json["movable"] is False
    container.create("b")
    deadline = time.monotonic() + TIME_LIMIT

    # Written late in a second, an item has little of it left: try until one was seen alive.
    status = 404
    while status == 404 and time.monotonic() < deadline:
        ts = container.post(container.body("a", LIFETIME), upsert="true").json["_ts"]
        status = container.read("a").status
    assert status == 200

    while status == 200 and time.monotonic() < deadline:
        asked_at = time.time()
        status = container.read("a").status
        answered_at = time.time()
        if status == 200:
            assert asked_at < ts + LIFETIME
    assert status == 404
    assert answered_at >= ts + LIFETIME
    assert_gone(container.read("a"))
    assert container.seen("a", "b") == {"b"}
