"""A system clock that leaps by a year, while a server runs and between two runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from perseid.http.admin.routes import PREFIX, ROUTES
from tests.faults.load import DOCS
from tests.faults.world import Until, World
from tests.support.raw import RawClient

YEAR: Final = 365 * 86_400.0
TTL: Final = 100_000  # expires within the leap only
ITEMS: Final = 20
NOTICE_SECONDS: Final = 10.0
HOLD_SECONDS: Final = 2.5  # the sweeper runs each second
STATUS: Final = f"{PREFIX}ttl/d/c"


def clock_leaps(world: World, until: Until) -> None:
    while world.rounds == 0 or not until.is_over:
        world.rounds += 1
        for leap in (_leap_while_running, _leap_between_runs):
            world.clock.set(0.0)
            world.renew()
            leap(world)
    world.clock.set(0.0)


def _leap_while_running(world: World) -> None:
    with world.server() as server:
        _stock(world, server.raw)
        time.sleep(HOLD_SECONDS)  # so that the sweeper has seen the right time
        world.clock.set(YEAR)
        if not _soon(lambda: _sweeper(server.raw)["alarm"] is not None):
            world.findings.add("leap not noticed", "while the server runs")
        _expect_held(world, server.raw, "while the server runs")
    world.clock.set(0.0)
    with world.server() as server:
        if _sweeper(server.raw)["alarm"] is None:
            world.findings.add("alarm forgotten", "by a restart")
        _reject(world, server.raw)


def _leap_between_runs(world: World) -> None:
    with world.server() as server:
        _stock(world, server.raw)
        time.sleep(HOLD_SECONDS)
    world.clock.set(YEAR)
    with world.server() as server:
        if not _soon(lambda: _sweeper(server.raw)["alarm"] is not None):
            world.findings.add("leap not noticed", "across a restart")
        _expect_held(world, server.raw, "across a restart")


def _stock(world: World, raw: RawClient) -> None:
    world.furnish(raw)
    for number in range(ITEMS):
        body = {"id": f"kept{number}", "pk": "k", "u": number, "ttl": TTL}
        assert raw.post(DOCS, body, pk='["k"]').status == 201


def _sweeper(raw: RawClient) -> Any:
    return raw.get(f"{PREFIX}sweeper").json


def _pending(raw: RawClient) -> int:
    count: int = raw.get(STATUS).json["pendingPurge"]["items"]
    return count


def _expect_held(world: World, raw: RawClient, when: str) -> None:
    """The items have expired for all to see, and none is purged, not even by a drain."""
    if raw.get(f"{DOCS}/kept0", pk='["k"]').status != 404:
        world.findings.add("expired seen", f"after the leap, {when}")
    time.sleep(HOLD_SECONDS)
    if _pending(raw) != ITEMS:
        world.findings.add("purged after a leap", f"{when}: {_pending(raw)} of {ITEMS} are left")
        return
    reply = raw.post(f"{STATUS}/drain", None)
    if _pending(raw) != ITEMS:
        world.findings.add("drained in spite of the alarm", f"{when}: {reply.status}")


def _reject(world: World, raw: RawClient) -> None:
    """The leap was false: time goes on from the corrected clock, and the items are live."""
    routes = [name for name in ROUTES if "reject" in name]
    if not routes:
        world.findings.add("no way back", "there is no route to reject a leap")
        return
    reply = raw.post(PREFIX + routes[0], None)
    now = raw.get(f"{PREFIX}clock").json["now"]
    if reply.status >= 300 or abs(now - time.time()) > 60:
        world.findings.add("leap not rejected", f"{reply.status} {reply.body[:300]!r}, now {now}")
        return
    live = [raw.get(f"{DOCS}/kept{n}", pk='["k"]').status for n in range(ITEMS)]
    if set(live) != {200}:
        world.findings.add("not live after the rejection", f"{live}")


def _soon(is_done: Callable[[], bool]) -> bool:
    end = time.monotonic() + NOTICE_SECONDS
    while not is_done():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
