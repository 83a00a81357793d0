"""Every way to look at items against an oracle that lives through each second (T-121, T-317).

The oracle knows no watermarks: it walks through time, tries each item under each setting that is
in force at some instant of each second, and never forgets an expiry. The pure rule, its SQL twin
and a whole server are held against it over random histories.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product
from random import Random
from typing import Any, Final, NamedTuple, TypeVar, assert_never

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from perseid import ttl
from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.model import Container, Database, Row, StorageUsage, item_number
from perseid.service.catalog import build_container
from perseid.store.types import Decision, PurgeRequest, Put, PutResource, Resource, Search
from perseid.ttl import BEFORE_ANY_TS, Cutoff, Policy
from tests.support.builders import PARTITION_KEY, temporary_database
from tests.support.figures import resource_usage
from tests.support.raw import RawClient, Reply
from tests.support.rows import stored_ranges
from tests.support.servers import RunningServer
from tests.support.stores import SQLITE, Stores, open_store
from tests.support.ttl_containers import assert_gone

T = TypeVar("T")


# The oracle -------------------------------------------------------------------------------------

OFF: Final = None


@dataclass
class Fate:
    """An item as the oracle sees it: its last version, and whether it has expired."""

    ts: int
    ttl: int | None  # None: absent
    is_expired: bool = False


def expires(fate: Fate, default_ttl: int | None, now: int) -> bool:
    """The matrix and the inequality of the reference, for one setting at one instant."""
    if default_ttl is OFF:
        return False
    lifetime = default_ttl if fate.ttl is None else fate.ttl
    return lifetime != -1 and fate.ts + lifetime <= now


class Oracle:
    """Time, one setting, and items that stay expired from the moment they are found expired."""

    def __init__(self, now: int, default_ttl: int | None = OFF) -> None:
        self.now = now
        self.default_ttl = default_ttl
        self.fates: list[Fate] = []

    def add(self, ttl_: int | None) -> Fate:
        fate = Fate(self.now, ttl_)
        self.fates.append(fate)
        return fate

    def change(self, default_ttl: int | None) -> None:
        """Both settings are in force in this second, one after the other."""
        self._mark_expired()
        self.default_ttl = default_ttl
        self._mark_expired()

    def live_until(self, instant: int) -> None:
        while self.now < instant:
            self.now += 1
            self._mark_expired()

    def _mark_expired(self) -> None:
        for fate in self.fates:
            fate.is_expired = fate.is_expired or expires(fate, self.default_ttl, self.now)


# Histories --------------------------------------------------------------------------------------

START: Final = 1000
SPAN: Final = 40
LIFETIMES: Final = (None, -1, 1, 2, 3, 5, 8, 13, 21, 100, ttl.MAX_TTL)

lifetimes = st.one_of(st.none(), st.just(-1), st.integers(1, SPAN), st.just(ttl.MAX_TTL))
defaults = st.one_of(st.just(OFF), st.just(-1), st.integers(1, SPAN), st.just(ttl.MAX_TTL))


class Change(NamedTuple):
    at: int
    default_ttl: int | None


histories = st.lists(st.builds(Change, st.integers(START, START + SPAN), defaults), max_size=8).map(
    lambda changes: sorted(changes, key=lambda change: change.at)
)
# Changes that pile up within one second, where "before" and "after" are easily confused.
crowded = st.lists(
    st.builds(Change, st.integers(START + 10, START + 12), defaults), min_size=2, max_size=6
).map(lambda changes: sorted(changes, key=lambda change: change.at))
ends = st.integers(START, START + SPAN + 5)


def policy_after(first: int | None, history: Sequence[Change], now: int) -> Policy:
    """What the server keeps after these changes."""
    policy = Policy(first)
    for at, default_ttl in history:
        if at <= now:
            policy = policy.changed(default_ttl, at)
    return policy


def survivors(
    first: int | None, history: Sequence[Change], now: int
) -> set[tuple[int, int | None]]:
    """Which items of the grid the oracle lets live: one of each lifetime for each second so far."""
    oracle = Oracle(START, first)
    pending = list(history)
    while True:
        for lifetime in LIFETIMES:
            oracle.add(lifetime)
        while pending and pending[0].at == oracle.now:
            oracle.change(pending.pop(0).default_ttl)
        if oracle.now == now:
            return {(fate.ts, fate.ttl) for fate in oracle.fates if not fate.is_expired}
        oracle.live_until(oracle.now + 1)


def grid(now: int) -> Iterator[tuple[int, int | None]]:
    return product(range(START, now + 1), LIFETIMES)


# (a) The pure rule ------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(defaults, histories | crowded, ends)
@example(10, [Change(START + 11, OFF)], START + 11)  # T-120
@example(OFF, [Change(START + 9, 1), Change(START + 9, OFF)], START + 9)  # for no time at all
@example(-1, [Change(START + 2, OFF), Change(START + 30, -1)], START + 30)  # T-118
@example(10, [Change(START + 5, 60)], START + 39)  # T-119
@example(5, [Change(START + 3, OFF), Change(START + 4, 5)], START + 5)  # off for one second
def test_two_integers_remember_every_expiry(
    first: int | None, history: list[Change], now: int
) -> None:
    cutoff = policy_after(first, history, now).cutoff(now)
    alive = {item for item in grid(now) if ttl.is_live(*item, cutoff)}
    assert alive == survivors(first, history, now)


@settings(max_examples=100, deadline=None)
@given(
    defaults,
    histories,
    st.lists(st.tuples(st.integers(START, START + SPAN), lifetimes), min_size=1, max_size=6),
    ends,
)
def test_a_rewrite_starts_over(
    first: int | None, history: list[Change], writes: list[tuple[int, int | None]], now: int
) -> None:
    """One id through all its versions: a write revives a living item, or begins a new one."""
    oracle, fate = Oracle(START, first), None
    events: list[tuple[int, bool, int | None]] = sorted(
        [(change.at, True, change.default_ttl) for change in history]
        + [(at, False, lifetime) for at, lifetime in writes],
        key=lambda event: event[0],
    )
    for at, is_change, value in events:
        if at <= now:
            oracle.live_until(at)
            if is_change:
                oracle.change(value)
            else:
                oracle.fates.clear()
                fate = oracle.add(value)
    oracle.live_until(max(now, oracle.now))
    if fate is not None:
        cutoff = policy_after(first, history, now).cutoff(now)
        assert ttl.is_live(fate.ts, fate.ttl, cutoff) is not fate.is_expired


@settings(max_examples=50, deadline=None)
@given(defaults, histories, ends, ends)
def test_expired_items_stay_expired(
    first: int | None, history: list[Change], one: int, other: int
) -> None:
    """Neither time nor any setting brings anyone back."""
    sooner, later = sorted((one, other))
    before = policy_after(first, history, sooner).cutoff(sooner)
    after = policy_after(first, history, later).cutoff(later)
    for item in grid(sooner):
        assert ttl.is_live(*item, before) or not ttl.is_live(*item, after)


@settings(max_examples=100, deadline=None)
@given(defaults, histories, ends)
def test_revival_looks_at_the_current_setting_only(
    first: int | None, history: list[Change], now: int
) -> None:
    policy = policy_after(first, history, now)
    cutoff = policy.cutoff(now, revive_unpurged=True)
    for ts, lifetime in grid(now):
        expected = not expires(Fate(ts, lifetime), policy.default_ttl, now)
        assert ttl.is_live(ts, lifetime, cutoff) is expected


@settings(max_examples=100, deadline=None)
@given(defaults, histories, ends)
def test_an_endless_cutoff_hides_no_item(
    first: int | None, history: list[Change], now: int
) -> None:
    """The short cut that skips the liveness test is taken only where it changes nothing."""
    if policy_after(first, history, now).cutoff(now).expires_nothing:
        assert survivors(first, history, now) == set(grid(now))


@pytest.mark.parametrize(
    ("policy", "default_ttl", "remembered"),
    [
        (Policy(10), None, (990, 1000)),
        (Policy(10), -1, (990, BEFORE_ANY_TS)),
        (Policy(10), 60, (990, BEFORE_ANY_TS)),
        (Policy(-1), None, (BEFORE_ANY_TS, 1000)),
        (Policy(-1), 5, (BEFORE_ANY_TS, BEFORE_ANY_TS)),
        (Policy(None), 5, (BEFORE_ANY_TS, BEFORE_ANY_TS)),
        (Policy(None), -1, (BEFORE_ANY_TS, BEFORE_ANY_TS)),
        (Policy(10, 995, 998), None, (995, 1000)),  # what is remembered never moves back
        (Policy(10, 980, 2000), None, (990, 2000)),
        (Policy(ttl.MAX_TTL), None, (1000 - ttl.MAX_TTL, 1000)),
    ],
)
def test_what_a_change_remembers(
    policy: Policy, default_ttl: int | None, remembered: tuple[int, int]
) -> None:
    assert policy.changed(default_ttl, 1000) == Policy(default_ttl, *remembered)


# (b) The SQL twin, through the store ------------------------------------------------------------

DATABASE: Final = Database(1, "d", "AQAAAA==", '"1"', 0)
PK: Final = b"\x08a\xff"
RANGES: Final = 2


def oracle_container_resource(number: int) -> Resource:
    properties = {"id": f"c{number}", "partitionKey": PARTITION_KEY, "indexingPolicy": {}}
    state = {
        "number": number,
        "properties": properties,
        "ranges": stored_ranges(RANGES),
        "final_cutoffs": [BEFORE_ANY_TS, BEFORE_ANY_TS],
    }
    return Resource(f"rid{number}", "container", DATABASE.rid, f"c{number}", '"1"', 0, state)


class Library:
    """A store; each container in it holds the grid, spread over two ranges."""

    def __init__(self, settings: Settings) -> None:
        self._runner = asyncio.Runner()
        self.run: Callable[[Coroutine[Any, Any, T]], T] = self._runner.run
        self.store = self.run(open_store(settings))
        self._made = 0

    def close(self) -> None:
        self.run(self.store.close())
        self._runner.close()

    def stock(self, now: int) -> Container:
        """A new container with every item of the grid up to `now`."""
        self._made += 1
        resource = oracle_container_resource(self._made)
        self.run(self.store.metadata.change([PutResource(resource)]))
        container = build_container(resource, DATABASE)
        items = list(grid(now))
        for part in range(RANGES):
            self.run(self._fill(container, part, items[part::RANGES]))
        return container

    async def _fill(
        self, container: Container, part: int, items: Sequence[tuple[int, int | None]]
    ) -> None:
        rows = [_row(part, place, *item) for place, item in enumerate(items)]
        decision = Decision([Put(row) for row in rows], None)
        await self.store.items.write(container, part, [], lambda _view: decision)

    def scanned(self, container: Container, cutoff: Cutoff) -> set[tuple[int, int | None]]:
        page = self.run(
            self.store.queries.search(container, Search(cutoff=cutoff, limit=1_000_000))
        )
        assert not page.has_more
        return {(row.ts, row.ttl) for row in page.rows}

    def usage(self, container: Container, cutoff: Cutoff) -> StorageUsage:
        """What all ranges hold together."""
        usages = [
            self.run(self.store.items.usage(container, part, cutoff)) for part in range(RANGES)
        ]
        return StorageUsage(*(sum(column) for column in zip(*usages, strict=True)))

    def purge(self, container: Container, cutoff: Cutoff) -> int:
        """Purges all expired items in small steps; returns how many."""
        count = 0
        for part in range(RANGES):
            while purged_items := self.run(
                self.store.expiry.purge(PurgeRequest(container, part, cutoff, 7))
            ).items:
                count += len(purged_items)
        return count


def _row(part: int, place: int, ts: int, lifetime: int | None) -> Row:
    item_id = f"{ts}:{lifetime}"
    return Row(
        number=item_number(part, 1 + (place >> 8), place & 0xFF),
        pk=PK,
        id=item_id,
        epk=b"\x10",
        ts=ts,
        ttl=lifetime,
        lsn=1,
        etag=f'"{part}-{place}"',
        size=100 + place,
        terms=1,
        body=b"{}",
    )


@pytest.fixture(scope="module")
def oracle_server(stores: Stores) -> Iterator[Library]:
    with stores.place() as place:
        opened = Library(place.lasting())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def full(oracle_server: Library) -> Container:
    """Items of every second that a history may last."""
    return oracle_server.stock(START + SPAN + 5)


@settings(max_examples=100, deadline=None)
@given(defaults, histories | crowded, ends)
def test_the_store_hides_the_same_items(
    oracle_server: Library, full: Container, first: int | None, history: list[Change], now: int
) -> None:
    cutoff = policy_after(first, history, now).cutoff(now)
    # Those written later are not expired either; the oracle does not know them.
    to_come = set(grid(START + SPAN + 5)) - set(grid(now))
    alive = survivors(first, history, now) | to_come
    assert oracle_server.scanned(full, cutoff) == alive
    usage = oracle_server.usage(full, cutoff)
    everyone = oracle_server.usage(full, ttl.NOTHING_EXPIRED)
    assert usage.items == len(alive)
    assert usage.expired_items == everyone.items - len(alive)
    assert usage.size + usage.expired_size == everyone.size


@settings(max_examples=10, deadline=None)
@given(defaults, histories, st.integers(START, START + SPAN // 2))
def test_a_purge_removes_expired_items_and_no_others(
    oracle_server: Library, first: int | None, history: list[Change], now: int
) -> None:
    container = oracle_server.stock(now)
    cutoff = policy_after(first, history, now).cutoff(now)
    alive = survivors(first, history, now)
    before = oracle_server.usage(container, cutoff)
    assert oracle_server.purge(container, cutoff) == before.expired_items
    assert oracle_server.scanned(container, ttl.NOTHING_EXPIRED) == alive
    after = oracle_server.usage(container, cutoff)
    assert (after.items, after.size) == (len(alive), before.size)
    assert (after.expired_items, after.expired_size) == (0, 0)
    assert oracle_server.purge(container, cutoff) == 0


def test_the_figures_hold_while_a_purge_runs(oracle_server: Library) -> None:
    """Live items are as many before, during and after the purge (T-093)."""
    store, cutoff = oracle_server.store, Cutoff(START, START + 10)

    async def look(container: Container) -> list[StorageUsage]:
        before = await store.items.usage(container, 0, cutoff)
        during, result = await asyncio.gather(
            store.items.usage(container, 0, cutoff),
            store.expiry.purge(PurgeRequest(container, 0, cutoff, 1000)),
        )
        assert len(result.items) == before.expired_items > 0
        return [before, during, await store.items.usage(container, 0, cutoff)]

    for _ in range(30):
        seen = oracle_server.run(look(oracle_server.stock(START)))
        assert len({(usage.items, usage.size) for usage in seen}) == 1, seen


# (c) The whole server ---------------------------------------------------------------------------

Place = tuple[str, str]  # partition key and id
PLACES: Final = tuple(product(("p", "q"), ("a", "b", "c")))
SHORT_DEFAULTS: Final = (OFF, OFF, -1, -1, 1, 2, 3, 4, 5)
SHORT_LIFETIMES: Final = (None, None, None, -1, 1, 2, 3, 4, 5)


class Write(NamedTuple):
    verb: str
    place: Place
    lifetime: int | None
    value: int  # of the unique key; few enough that items get in each other's way


class Wait(NamedTuple):
    """For so many seconds; or, None, until just before the next expiry, and then until it."""

    seconds: float | None


class Policies(NamedTuple):
    """Settings that follow each other within one instant."""

    defaults: list[int | None]


class Purge(NamedTuple):
    pass


Event = Write | Wait | Policies | Purge


def tell(random: Random) -> list[Event]:
    """What happens next; Hypothesis itself would repeat a few events for most of a story."""
    (kind,) = random.choices((Write, Wait, Policies, Purge), (50, 32, 13, 5))
    if kind is Wait:
        return [Wait(random.choice((None, None, 0.25, 0.5, 1, 2)))]
    if kind is Policies:
        return [Policies(random.choices(SHORT_DEFAULTS, k=random.choice((1, 1, 2))))]
    if kind is Purge:
        return [Purge()]
    return [
        Write(
            random.choice(("create", "create", "upsert", "upsert", "replace", "delete")),
            random.choice(PLACES),
            random.choice(SHORT_LIFETIMES),
            random.randint(1, 9),
        )
        for _ in range(random.randint(1, 4))
    ]


@dataclass
class Stored:
    """An item on disk, expired or not."""

    fate: Fate
    rid: str
    etag: str
    value: int


class Shop:
    """A container on a server, next to the oracle's idea of it."""

    def __init__(self, raw: RawClient, clock: MovableClock, database: str, name: str) -> None:
        self.raw, self.clock = raw, clock
        self.path = f"{database}/colls/{name}"
        self.admin = f"/_perseid/ttl/{database.rpartition('/')[2]}/{name}"
        unique = {"uniqueKeys": [{"paths": ["/value"]}]}
        self.definition = {"id": name, "partitionKey": PARTITION_KEY, "uniqueKeyPolicy": unique}
        made = raw.post(f"{database}/colls", self.definition)
        assert made.status == 201
        self.lsn = int(made.headers["x-ms-session-token"].rpartition("#")[2])
        self.oracle = Oracle(int(clock.now()))
        self.stored: dict[Place, Stored] = {}
        self.rids: set[str] = set()

    def happen(self, event: Event) -> None:
        """Does it, and compares the answer."""
        match event:
            case Write():
                self.write(event)
            case Wait(seconds):
                self.wait(seconds)
            case Policies(defaults):
                for default_ttl in defaults:
                    self.change(default_ttl)
            case Purge():
                self.purge()
            case _:
                assert_never(event)

    def write(self, event: Write) -> None:
        place = event.place
        is_there = place in self.living()
        reply = self.send(event)
        if not is_there and event.verb in ("replace", "delete"):
            assert_gone(reply)
        elif event.verb == "delete":
            assert reply.status == 204
            self.remove(place)
            self.lsn += 1
        elif (is_there and event.verb == "create") or self.is_taken(event):
            assert (reply.status, reply.sub_status) == (409, 0)
        else:
            assert reply.status == (200 if is_there else 201)
            self.put(event, reply.json, is_there=is_there)

    def put(self, event: Write, body: dict[str, Any], *, is_there: bool) -> None:
        """Notes an accepted write; expired items in its way were purged with it."""
        if is_there:
            assert body["_rid"] == self.stored[event.place].rid
        else:
            assert body["_rid"] not in self.rids
        assert body["_ts"] == self.oracle.now
        for place, item in list(self.stored.items()):
            if place == event.place or (place[0] == event.place[0] and item.value == event.value):
                self.remove(place)
        fate = self.oracle.add(event.lifetime)
        self.stored[event.place] = Stored(fate, body["_rid"], body["_etag"], event.value)
        self.rids.add(body["_rid"])
        self.lsn += 1

    def wait(self, seconds: float | None) -> None:
        if seconds is not None:
            self.pass_time(seconds)
            return
        default_ttl = self.oracle.default_ttl
        ends = [
            end
            for item in self.living().values()
            for end in range(self.oracle.now, self.oracle.now + 6)
            if expires(item.fate, default_ttl, end)
        ]
        if ends:
            self.pass_time(min(ends) - 0.25 - self.clock.now())
            self.check()
            self.pass_time(0.25)

    def pass_time(self, seconds: float) -> None:
        self.oracle.live_until(int(self.clock.advance(max(seconds, 0))))

    def change(self, default_ttl: int | None) -> None:
        setting = {} if default_ttl is OFF else {"defaultTtl": default_ttl}
        assert self.raw.put(self.path, self.definition | setting).status == 200
        self.oracle.change(default_ttl)

    def purge(self) -> None:
        expired = set(self.stored) - set(self.living())
        reply = self.raw.post(f"{self.admin}/drain", {})
        assert (reply.status, reply.json["purged"]) == (200, len(expired))
        for place in expired:
            self.remove(place)
        self.lsn += bool(expired)

    def check(self) -> None:
        """Looks at the container in every way there is."""
        living = self.living()
        for pk, id_ in PLACES:
            reply = self.raw.get(f"{self.path}/docs/{id_}", pk=json.dumps([pk]))
            if (pk, id_) in living:
                assert (reply.status, reply.headers["etag"]) == (200, living[pk, id_].etag)
            else:
                assert_gone(reply)
        feed = self.raw.get(f"{self.path}/docs")
        assert sorted((item["pk"], item["id"]) for item in feed.json["Documents"]) == sorted(living)
        assert feed.headers["x-ms-session-token"] == f"0:-1#{self.lsn}"
        count_ = self.raw.query(f"{self.path}/docs", "SELECT VALUE COUNT(1) FROM c")
        assert count_.json["Documents"] == [len(living)]
        assert resource_usage(self.raw, self.path)["documentsCount"] == len(living)

    def living(self) -> dict[Place, Stored]:
        return {place: item for place, item in self.stored.items() if not item.fate.is_expired}

    def is_taken(self, event: Write) -> bool:
        """Whether another living item of the partition holds the unique value."""
        return any(
            place != event.place and place[0] == event.place[0] and item.value == event.value
            for place, item in self.living().items()
        )

    def remove(self, place: Place) -> None:
        fate = self.stored.pop(place).fate
        self.oracle.fates = [each for each in self.oracle.fates if each is not fate]

    def send(self, event: Write) -> Reply:
        pk, id_ = event.place
        body = {"id": id_, "pk": pk, "value": event.value}
        if event.lifetime is not None:
            body["ttl"] = event.lifetime
        docs, key = f"{self.path}/docs", json.dumps([pk])
        match event.verb:
            case "create":
                return self.raw.post(docs, body, pk=key)
            case "upsert":
                return self.raw.post(docs, body, pk=key, upsert="true")
            case "replace":
                return self.raw.put(f"{docs}/{id_}", body, pk=key)
            case _:
                return self.raw.delete(f"{docs}/{id_}", pk=key)


@pytest.fixture(scope="module")
def street(server: RunningServer) -> Iterator[Callable[[], Shop]]:
    """Opens one shop after the other."""
    numbers = count()
    with server.connect() as raw, temporary_database(raw, "street") as database:
        yield lambda: Shop(raw, server.clock, database, f"c{next(numbers)}")


def test_a_server_agrees_with_the_oracle(stores: Stores, street: Callable[[], Shop]) -> None:
    @settings(max_examples=25 if stores is SQLITE else 10, deadline=None)
    @given(st.integers(0, 2**32))
    def agrees(seed: int) -> None:
        shop, random = street(), Random(seed)
        shop.change(random.choice(SHORT_DEFAULTS))
        for number in range(25):
            for event in tell(random):
                note(f"{number}: {event}")
                shop.happen(event)
            shop.check()

    agrees()
