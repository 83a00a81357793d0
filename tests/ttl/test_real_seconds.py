"""The one test that waits: a second or more of real life, on the system's own clock."""

from __future__ import annotations

import pytest

from perseid.clock import MovableClock
from tests.support.raw import RawClient
from tests.support.servers import RunningServer, Servers
from tests.support.ttl_containers import TtlContainers, assert_gone
from tests.support.waiting import until

# One or two seconds are enough unless the machine is so busy that the first read comes too late.
LIFETIMES = (1, 2, 4, 8, 16, 32)


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    """A server as users start it: system clock, sweeper at work."""
    return servers("system")


def test_an_item_is_gone_after_its_lifetime(raw: RawClient, database: str) -> None:
    container = TtlContainers(raw, MovableClock(), database).make(-1)
    assert raw.get("/_perseid/clock").json["movable"] is False
    container.create("b")

    # Written late in a second, an item has little of it left: try until one was seen live.
    for lifetime in LIFETIMES:
        ts = container.post(container.body("a", lifetime), upsert="true").json["_ts"]
        status = container.read("a").status
        if status == 200:
            break
    assert status == 200

    def now() -> float:
        """By the server, which on PostgreSQL follows the clock of the database."""
        shown: float = raw.get("/_perseid/clock").json["now"]
        return shown

    def is_gone() -> bool:
        asked_at = now()
        status = container.read("a").status
        assert status in (200, 404)
        assert status == 404 or asked_at < ts + lifetime
        return status == 404

    until(is_gone)
    assert now() >= ts + lifetime
    assert_gone(container.read("a"))
    assert container.seen("a", "b") == {"b"}
