"""400,000 items in one container, half of them expired: what is promised of ten holds here too."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.store.sqlite.files import DATABASE_FILE
from tests.support.figures import container_metrics, resource_usage
from tests.support.purging import DatedItem, container_at, process, store_items
from tests.support.raw import RawClient
from tests.support.servers import frozen_clock, serving
from tests.support.ttl_containers import TtlContainer, TtlContainers, drain
from tests.support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.only_on("sqlite", reason="copies a file that took long to fill, and looks into it"),
    pytest.mark.xdist_group("ttl scale"),  # one process fills the file, once
]

EACH = 200_000  # so many expired, so many live
LIFE = 100_000  # the container's default
LEFT = 50_000  # seconds until the first live item expires
SPREAD = 10  # seconds over which they expire, the same number in each
ROUNDS = 9


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A directory with the container `d/c`, and the second at which it was filled.

    Half of the items expired 100,000 to 100,999 seconds ago, some by the default and some by a ttl
    of their own, in the order of their ids. Live items inherit.
    """
    path = tmp_path_factory.mktemp("loaded")
    clock = frozen_clock()
    now = int(clock.now())

    def expired_item(number: int) -> DatedItem:
        expired_at = now - LIFE - 999 + number * 1000 // EACH
        own = 7 if number % 2 else None
        return DatedItem(f"d{number:06}", expired_at - (own or LIFE), own)

    def live_item(number: int) -> DatedItem:
        return DatedItem(f"l{number:06}", now - LIFE + LEFT + number % SPREAD)

    async def load() -> None:
        settings = Settings(data=path, durability="off", relaxed=True)
        async with container_at(settings, clock, LIFE) as (account, container):
            await store_items(account, container, [expired_item(number) for number in range(EACH)])
            await store_items(account, container, [live_item(number) for number in range(EACH)])

    asyncio.run(load())
    yield path, now
    shutil.rmtree(path)


@pytest.fixture
def data(loaded: tuple[Path, int], tmp_path: Path) -> Iterator[Path]:
    """A copy that the test may change."""
    yield Path(shutil.copytree(loaded[0], tmp_path / "data"))
    shutil.rmtree(tmp_path / "data")


@pytest.fixture
def clock(loaded: tuple[Path, int]) -> MovableClock:
    """Stands at the second at which the directory was filled."""
    clock = MovableClock(lambda: loaded[1])
    clock.freeze()
    return clock


def figures(container: TtlContainer) -> dict[str, Any]:
    reply = container.raw.get(container.admin)
    assert reply.status == 200
    body: dict[str, Any] = reply.json
    return body


def counted(container: TtlContainer) -> None:
    """Waits until the last change is in the audit log with its figures: that comes after it."""
    until(
        lambda: (
            container.raw.get(f"{container.admin}/audit").json["entries"][-1]["event"] == "counts"
        )
    )


def test_a_change_takes_as_long_as_on_ten_items(data: Path, clock: MovableClock) -> None:
    """Each change kills everyone alive, and is undone: the worst there is."""
    with serving(
        Settings(data=data, no_sweeper=True, durability="off", relaxed=True), clock
    ) as raw:
        large = TtlContainer(raw, clock, "/dbs/d/colls/c")
        small = TtlContainers(raw, clock, "/dbs/d").make(LIFE, name="small")
        for number in range(10):
            small.create(f"a{number}")
        clock.advance(LEFT - 1)
        before = large.raw.get(large.path).headers["x-ms-session-token"]
        taken: dict[str, list[float]] = {large.path: [], small.path: []}
        for number in range(ROUNDS):
            for container in (large, small):
                body = container.definition() | {"defaultTtl": 1000 + number}
                started = time.perf_counter()
                reply = raw.put(container.path, body)
                taken[container.path].append(time.perf_counter() - started)
                assert reply.status == 200
                assert figures(container)["live"]["items"] == 0
                counted(container)
                undone = raw.post(f"{container.admin}/undo", {}).json
                assert undone["alreadyPurged"] == 0
                assert undone["restored"]["items"] == (EACH if container is large else 10)
        # No item was written to bring this about.
        assert large.raw.get(large.path).headers["x-ms-session-token"] == before
    # The quickest of each: a busy machine slows down some of the changes, never all of them, and
    # a change that touched 200,000 items would be slow every time.
    quickest = {path: min(times) for path, times in taken.items()}
    assert quickest[large.path] < 3 * quickest[small.path], quickest


def test_counts_are_exact_around_the_boundary(data: Path, clock: MovableClock) -> None:
    with serving(
        Settings(data=data, no_sweeper=True, durability="off", relaxed=True), clock
    ) as raw:
        container = TtlContainer(raw, clock, "/dbs/d/colls/c")
        start = int(clock.now())
        for second in (-1, 0, 1, SPREAD // 2, SPREAD - 2, SPREAD - 1, SPREAD):
            clock.set(start + LEFT + second)
            alive = EACH - EACH // SPREAD * min(max(second + 1, 0), SPREAD)
            found = figures(container)
            assert found["live"]["items"] == alive
            assert found["expiring"]["items"] == alive
            assert found["pendingPurge"]["items"] == 2 * EACH - alive
            following = None if alive == 0 else max(start + LEFT, start + LEFT + second + 1)
            assert found["nextExpiry"] == following
            assert resource_usage(raw, container.path)["documentsCount"] == alive
            if second in (SPREAD - 2, SPREAD - 1):
                assert container.counted() == alive
        assert container.read("l000000").status == 404


def test_the_sweep_removes_exactly_the_expired_items(data: Path) -> None:
    """A real server, killed three times in the middle of it; then the file is smaller."""
    file = data / DATABASE_FILE
    full = file.stat().st_size
    flags = ("--durability", "normal", "--sweep-pace", "1")
    left = EACH
    for _ in range(3):
        with process(Settings(data=data), *flags) as server:
            until(has_removed(server.raw, EACH - left + EACH // 20))
        remaining = expired_left(file)
        assert remaining < left
        left = remaining
    assert left > 0, "the sweep was over before the kill"
    with process(Settings(data=data), *flags) as server:
        drain(server.raw)  # waits without asking all the time; the sweeper works meanwhile
        found = container_metrics(server.raw)
        assert (found["live"]["items"], found["pendingPurge"]["items"]) == (EACH, 0)
        assert found["purgedTotal"] == EACH  # each was removed once, over all runs
        until(lambda: free_pages(file) == 0)  # the sweeper frees disk space in the background
        assert server.stop(signal.SIGTERM)[0] == 0
    assert expired_left(file) == 0
    assert file.stat().st_size < 0.6 * full


def free_pages(file: Path) -> int:
    """Pages of the file that hold nothing, as committed by now."""
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return int(db.execute("PRAGMA freelist_count").get)


def has_removed(raw: RawClient, count: int) -> Callable[[], bool]:
    return lambda: raw.get("/_perseid/sweeper").json["purgedItems"] >= count


def expired_left(file: Path) -> int:
    """How many expired items are on disk: those that expired last, while all live ones are stored.

    Counted in the file itself, while no server runs.
    """
    db = apsw.Connection(str(file))
    try:
        (table,) = [
            name
            for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if name.startswith("items_")
        ]
        container = table.removeprefix("items_")
        living = f"SELECT COUNT(*), MIN(id), MAX(id) FROM {table} WHERE id >= 'l'"
        assert db.execute(living).get == (EACH, "l000000", f"l{EACH - 1:06}")
        expired, first, last, size = db.execute(
            f"SELECT COUNT(*), MIN(id), MAX(id), SUM(size) FROM {table} WHERE id < 'l'"
        ).get
        whole = db.execute(f"SELECT COUNT(*), SUM(size) FROM {table}").get
        position = "SELECT items, bytes FROM positions WHERE container = ?"
        assert db.execute(position, (container,)).get == whole
        assert db.execute("PRAGMA integrity_check").get == "ok"
        if expired:
            assert size > 0
            assert last == f"d{EACH - 1:06}"
            # Two hundred expire in one second, in no order among themselves.
            assert abs(int(first[1:]) - (EACH - expired)) < EACH // 1000
        return int(expired)
    finally:
        db.close()
