"""The 3 x 3 matrix, the boundary second and the clock (T-020 … T-028, T-030 … T-039)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any, Final

import apsw
import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.clock import Clock, SystemClock
from perseid.config import CONSISTENCY_LEVELS, Settings
from perseid.ttl import LIVE_SQL, MAX_TTL, NEVER, Policy, expires_at, is_live
from tests.support.raw import RawClient, Reply, sign
from tests.support.running import running
from tests.support.servers import frozen_clock
from tests.support.stores import Place
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers, assert_gone

TS: Final = 1_000_000

# Rule, container's defaultTtl, item's ttl, seconds until the item's end (None: it has none).
MATRIX: Final = [
    ("T-020", ABSENT, ABSENT, None), ("T-021", -1, ABSENT, None), ("T-022", 1000, ABSENT, 1000),
    ("T-020", None,   ABSENT, None),                              ("T-022", 5,    ABSENT, 5),
    ("T-023", ABSENT, -1,     None), ("T-024", -1, -1,     None), ("T-025", 1000, -1,     None),
    ("T-023", None,   -1,     None),                              ("T-025", 5,    -1,     None),
    ("T-026", ABSENT, 2000,   None), ("T-027", -1, 2000,   2000), ("T-028", 1000, 2000,   2000),
    ("T-026", None,   2000,   None), ("T-027", -1, 5,      5),    ("T-028", 1000, 5,      5),
    ("T-026", ABSENT, 2,      None), ("T-027", -1, 2,      2),    ("T-028", 5,    2,      2),
    ("T-026", None,   8,      None), ("T-027", -1, 8,      8),    ("T-028", 5,    8,      8),
]  # fmt: skip
CELLS: Final = [
    pytest.param(default, ttl, end, id=f"{rule}-{'absent' if default is ABSENT else default}"
                                       f"-{'absent' if ttl is ABSENT else ttl}")
    for rule, default, ttl, end in MATRIX
]  # fmt: skip
cells: Final = pytest.mark.parametrize(("default_ttl", "item_ttl", "end"), CELLS)


def column(value: object) -> int | None:
    """A property as ttl.py takes it: absent and null are None."""
    return value if isinstance(value, int) else None


def probes(end: int | None) -> tuple[int, int, int]:
    """Around the end; for an item without one, around the longest lifetime there is."""
    middle = MAX_TTL if end is None else end
    return middle - 1, middle, middle + 1


# The pure rule


@cells
def test_the_expiry_by_the_rule(default_ttl: object, item_ttl: object, end: int | None) -> None:
    policy = Policy(column(default_ttl))
    assert expires_at(TS, column(item_ttl), policy) == (None if end is None else TS + end)


@cells
def test_liveness_by_the_rule_and_its_sql(
    default_ttl: object, item_ttl: object, end: int | None
) -> None:
    own = column(item_ttl)
    for age in probes(end):
        cutoff = Policy(column(default_ttl)).cutoff(TS + age)
        alive = end is None or age < end
        assert is_live(TS, own, cutoff) is alive
        assert live_in_sql(TS, own, cutoff.inherited, cutoff.own) is alive


def live_in_sql(ts: int, item_ttl: int | None, inherited: int, own: int) -> bool:
    bound = {"ts": ts, "ttl": item_ttl, "inherited": inherited, "own": own}
    rows = apsw.Connection(":memory:").execute(
        f"SELECT {LIVE_SQL} FROM (SELECT :ts AS ts, :ttl AS ttl)", bound
    )
    return bool(rows.get)


# Over the wire


@cells
def test_a_cell_over_the_wire(
    containers: TtlContainers, default_ttl: object, item_ttl: object, end: int | None
) -> None:
    """A neighbour without a `ttl` shows that one item's TTL does not affect others."""
    container = containers.make(default_ttl)
    ts = container.create("item", item_ttl)["_ts"]
    container.create("neighbour")
    ends = {"item": end, "neighbour": column(default_ttl)}
    if ends["neighbour"] == NEVER:
        ends["neighbour"] = None
    for age in sorted({*probes(ends["item"]), *probes(ends["neighbour"])}):
        container.clock.set(ts + age)
        alive = {id_ for id_, each in ends.items() if each is None or age < each}
        assert container.seen("item", "neighbour") == alive, age


# The inequality and the boundary


@pytest.mark.parametrize(("default_ttl", "item_ttl"), [(-1, 30), (30, ABSENT), (5, 30), (60, 30)])
def test_gone_in_the_very_second(
    containers: TtlContainers, default_ttl: int, item_ttl: object
) -> None:
    container = containers.make(default_ttl)  # T-030, T-031
    ts = container.create("a", item_ttl)["_ts"]
    for instant, alive in [(ts + 29.0, {"a"}), (ts + 29.999, {"a"}), (ts + 30.0, set[str]())]:
        container.clock.set(instant)
        assert container.seen("a") == alive


@given(
    ts=st.integers(0, 2**33),
    lifetime=st.integers(1, MAX_TTL),
    is_own=st.booleans(),
    distance=st.floats(-3, 3) | st.floats(-(2**33), 2**33),
)
@hypothesis.settings(max_examples=300, deadline=None, database=None)
def test_fractions_of_the_clock_do_not_matter(
    ts: int, lifetime: int, is_own: bool, distance: float
) -> None:
    now = max(0.0, ts + lifetime + distance)  # T-032
    policy = Policy(NEVER) if is_own else Policy(lifetime)
    own = lifetime if is_own else None
    cutoff = policy.cutoff(int(now))
    assert is_live(ts, own, cutoff) is not (ts + lifetime <= now)
    assert live_in_sql(ts, own, cutoff.inherited, cutoff.own) is is_live(ts, own, cutoff)


def test_fractions_do_not_matter_over_the_wire(containers: TtlContainers) -> None:
    container = containers.make(-1)  # T-032
    clock = containers.clock

    # Sixty-fourths are exact, so that the test and the server see the same instant.
    @given(st.integers(1, 3), st.lists(st.integers(0, 100), min_size=1, max_size=8))
    @hypothesis.settings(max_examples=20, deadline=None, database=None)
    def walk(lifetime: int, steps: list[int]) -> None:
        item = container.post(container.body("a", lifetime), upsert="true").json
        assert item["_ts"] == int(clock.now())
        for step in steps:
            clock.advance(step / 64)
            is_expired = item["_ts"] + lifetime <= clock.now()
            assert container.seen("a") == (set() if is_expired else {"a"})

    walk()
    clock.set(containers.now + 1)


def test_a_late_start_in_a_second_shortens_life(containers: TtlContainers) -> None:
    second = containers.now + 1  # T-033
    container = containers.make(-1)
    assert container.create("a", 1, at=second + 0.9)["_ts"] == second
    container.clock.set(second + 0.99)
    assert container.seen("a") == {"a"}
    container.clock.set(second + 1.0)
    assert container.seen("a") == set()


@pytest.mark.parametrize(("default_ttl", "item_ttl"), [(-1, MAX_TTL), (MAX_TTL, ABSENT)])
def test_the_longest_lifetime_does_not_overflow(
    containers: TtlContainers, default_ttl: int, item_ttl: object
) -> None:
    container = containers.make(default_ttl)  # T-034
    ts = container.create("a", item_ttl)["_ts"]
    assert datetime.fromtimestamp(ts + MAX_TTL, UTC).year > 2090
    assert container.seen("a") == {"a"}
    for age, alive in zip(probes(MAX_TTL), [{"a"}, set[str](), set[str]()], strict=True):
        container.clock.set(ts + age)
        assert container.seen("a") == alive


def test_visibility_does_not_wait_for_removal(containers: TtlContainers) -> None:
    container = containers.make(10)  # T-035
    assert containers.raw.get("/_perseid/sweeper").json["paused"] is True
    item = container.create("a")
    container.clock.advance(10)
    assert container.raw.get(container.admin).json["pendingPurge"]["items"] == 1
    assert container.seen("a") == set()
    assert_gone(container.read("a", if_none_match=item["_etag"]))
    assert_gone(container.replace("a", item))
    assert_gone(container.delete("a"))
    assert container.post(container.body("a")).status == 201


# The clock


@contextmanager
def serving_by(clock: Clock, settings: Settings) -> Iterator[TtlContainers]:
    """A server that goes by this clock, and a database on it unless it has one."""
    shown: Any = clock
    with running(settings, shown) as found, closing(RawClient(found.endpoint, found.key)) as raw:
        assert raw.post("/dbs", {"id": "d"}).status in (201, 409)
        yield TtlContainers(raw, shown, "/dbs/d")


class SteppingClock:
    """Never shows the same second twice, so a request that looked twice would be seen to."""

    def __init__(self) -> None:
        self._second = float(TS)

    def now(self) -> float:
        self._second += 1
        return self._second

    def advance_to_at_least(self, floor: float) -> None:
        self._second = max(self._second, floor)

    def held_until(self) -> None:
        """It runs."""

    def latest_within(self, seconds: float) -> float:
        return self._second + 1000 * seconds

    def reject_jump(self, shown: float, wall: float) -> None:
        """It does not jump."""


def test_a_request_lives_in_one_instant(place: Place) -> None:
    text = "SELECT c._ts AS ts, GetCurrentTimestamp() / 1000 AS now FROM c"  # T-036
    with serving_by(SteppingClock(), place.fresh(no_sweeper=True)) as containers:
        container = containers.make(40)
        born = [container.create(str(number))["_ts"] for number in range(20)]
        assert len(set(born)) == 20
        shown = container.query(text)
        assert shown
        while shown:
            instants = {row["now"] for row in shown}
            assert len(instants) == 1
            now = instants.pop()
            assert {row["ts"] for row in shown} == {ts for ts in born if ts + 40 > now}
            shown = container.query(text)


@pytest.mark.parametrize("level", CONSISTENCY_LEVELS)
def test_gone_at_every_consistency_level(place: Place, level: str) -> None:
    clock = frozen_clock()  # T-037
    with serving_by(clock, place.fresh(no_sweeper=True, consistency=level)) as containers:
        container = containers.make(30)
        container.create("a")
        clock.advance(29)
        assert container.read("a", x_ms_consistency_level=level).status == 200
        clock.advance(1)
        assert_gone(container.read("a", x_ms_consistency_level=level))
        assert container.query("SELECT * FROM c", x_ms_consistency_level=level) == []


def reopened(containers: TtlContainers) -> TtlContainer:
    """The container that an earlier run has left behind."""
    return TtlContainer(containers.raw, containers.clock, f"{containers.database}/colls/c")


def test_a_restart_with_an_earlier_clock_restores_no_item(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)  # T-038
    wall = [TS + 0.0]
    with serving_by(SystemClock(lambda: wall[0]), settings) as containers:
        container = containers.make(30)
        assert container.create("a")["_ts"] == TS
        wall[0] = TS + 30.5
        assert_gone(container.read("a"))
        wall[0] = TS - 100.0  # set back while the server runs
        assert_gone(container.read("a"))
    with serving_by(SystemClock(lambda: TS - 100.0), settings) as containers:
        container = reopened(containers)
        assert container.seen("a") == set()
        # Writes go by the same clock: nothing is created before the last expiry was seen.
        assert container.create("b")["_ts"] >= TS + 30
        assert container.seen("b") == {"b"}


@pytest.mark.only_on("sqlite", reason="copies the data directory while the server runs")
def test_a_crash_and_an_earlier_clock_restore_no_item(place: Place) -> None:
    """What is on disk when a client learns of the expiry is enough for the next run to know."""
    wall = [TS + 0.0]  # T-038
    first, second = (place.lasting(no_sweeper=True) for _ in range(2))
    with serving_by(SystemClock(lambda: wall[0]), first) as containers:
        container = containers.make(30)
        container.create("a")
        wall[0] = TS + 30.5
        assert_gone(container.read("a"))
        shutil.copytree(first.data, second.data)
    with serving_by(SystemClock(lambda: TS - 100.0), second) as containers:
        assert reopened(containers).seen("a") == set()


def read_dated(container: TtlContainer, id_: str, date: float) -> Reply:
    """A point read whose client believes that it is `date`."""
    path, stamp = f"{container.path}/docs/{id_}", formatdate(date, usegmt=True)
    signature = sign(container.raw.key, "GET", "docs", path.strip("/"), stamp)
    headers = {
        "x-ms-documentdb-partitionkey": '["p"]',
        "x-ms-date": stamp,
        "authorization": signature,
    }
    return container.raw.request("GET", path, headers=headers)


@pytest.mark.parametrize("shift", [-600, 0, 600])
def test_the_clients_date_has_no_influence(place: Place, shift: int) -> None:
    clock = frozen_clock()  # T-039
    with serving_by(clock, place.fresh(no_sweeper=True)) as containers:
        container = containers.make(30)
        ts = container.create("a")["_ts"]
        clock.set(ts + 29.999)
        assert read_dated(container, "a", clock.now() + shift).status == 200
        clock.set(ts + 30)
        assert_gone(read_dated(container, "a", clock.now() + shift))
