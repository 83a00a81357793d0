"""Changing lifetimes and policies while items live under them (T-110 to T-123, but for patches)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import orjson
import pytest
from azure.cosmos import CosmosClient, PartitionKey

from perseid import ttl
from perseid.documents import parse
from perseid.errors import NotFound
from perseid.model import ItemKey, Row
from perseid.partition import parse_definition
from perseid.service.items import batches, patches, point_operations, transactions
from perseid.service.items.batch_operations import BatchOptions, parse_batch
from perseid.service.items.patch_evaluator import PatchEvaluator
from perseid.service.items.patch_operations import patch_operation
from perseid.service.items.transactions import CheckedItem
from perseid.service.operation import Operation, begin
from tests.support.builders import PARTITION_KEY, temporary_database
from tests.support.purging import DatedItem, container_at, set_default_ttl, store_items
from tests.support.raw import RawClient
from tests.support.servers import Servers, frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers, assert_gone

FOREVER: Final = 10**8  # seconds; three years are enough to tell
Step = tuple[Any, ...]


def play(container: TtlContainer, steps: tuple[Step, ...], *, is_purged: bool = False) -> None:
    """Takes the item `a` through its life; each step begins with the second it happens at.

    With `is_purged` expired items are purged after each step, which must make no difference.
    """
    start = container.clock.now()
    for second, verb, *values in steps:
        container.clock.set(start + second)
        if verb == "create":
            container.create("a", *values)
        elif verb == "replace":
            assert container.replace("a", container.body("a", *values)).status == 200
        elif verb == "default":
            assert container.set_default(*values).status == 200
        else:
            expected = {"alive": {"a"}, "gone": set()}[verb]
            assert container.seen("a") == expected, (second, verb)
        if is_purged:
            container.drain()


# rule, container's first default, steps
LIVES: Final[list[tuple[str, object, tuple[Step, ...]]]] = [
    # The item's own ttl changes with the item.
    ("T-110 shorter", -1, (
        (0, "create", 2_592_000), (5000, "replace", 54_000),
        (58_999, "alive"), (59_000, "gone"))),
    ("T-110 longer", -1, (
        (0, "create", 5), (4, "replace", 10), (13, "alive"), (14, "gone"))),
    ("T-110 the same again", -1, (
        (0, "create", 5), (4, "replace", 5), (8, "alive"), (9, "gone"))),
    ("T-110 added", 100, (
        (0, "create"), (50, "replace", 5), (54, "alive"), (55, "gone"))),
    ("T-111 removed, a default", 5, (
        (0, "create", 600), (100, "replace"), (104, "alive"), (105, "gone"))),
    ("T-111 removed, no default", -1, (
        (0, "create", 5), (4, "replace"), (FOREVER, "alive"))),
    ("T-112 exempt", 5, (
        (0, "create"), (4, "replace", -1), (FOREVER, "alive"))),
    ("T-112 exempt from birth", 5, (
        (0, "create", -1), (FOREVER, "alive"))),
    ("T-112 exempt no more", 5, (
        (0, "create", -1), (100, "replace"), (104, "alive"), (105, "gone"))),
    # Off, by omission and by null.
    ("T-114 omitted", 5, (
        (0, "create"), (4, "default"), (FOREVER, "alive"))),
    ("T-114 null", 5, (
        (0, "create"), (4, "default", None), (FOREVER, "alive"))),
    ("T-114 omitted, own ttl", -1, (
        (0, "create", 5), (4, "default"), (FOREVER, "alive"))),
    # Off is not -1.
    ("T-115 -1, own ttl", 100, (
        (0, "create", 5), (2, "default", -1), (4, "alive"), (5, "gone"))),
    ("T-115 off, own ttl", 100, (
        (0, "create", 5), (2, "default"), (FOREVER, "alive"))),
    ("T-115 -1, inheriting", 5, (
        (0, "create"), (2, "default", -1), (FOREVER, "alive"))),
    ("T-115 off, inheriting", 5, (
        (0, "create"), (2, "default"), (FOREVER, "alive"))),
    ("T-115 off to -1", ABSENT, (
        (0, "create", 5), (4, "default", -1), (4, "alive"), (5, "gone"))),
    # Shrinking and switching on kill at once.
    ("T-117 on", ABSENT, (
        (0, "create"), (1000, "alive"), (1000, "default", 60), (1000, "gone"))),
    ("T-117 on, young enough", ABSENT, (
        (0, "create"), (59, "default", 60), (59, "alive"), (60, "gone"))),
    ("T-117 on, in the second", ABSENT, (
        (0, "create"), (60, "default", 60), (60, "gone"))),
    ("T-117 shrunk", 100, (
        (0, "create"), (50, "default", 10), (50, "gone"))),
    ("T-117 shrunk, young enough", 100, (
        (0, "create"), (9, "default", 10), (9, "alive"), (10, "gone"))),
    ("T-117 -1 to a default", -1, (
        (0, "create"), (50, "default", 10), (50, "gone"))),
    ("T-117 shrunk, own ttl", 100, (
        (0, "create", 80), (50, "default", 10), (79, "alive"), (80, "gone"))),
    ("T-117 shrunk, exempt", 100, (
        (0, "create", -1), (50, "default", 1), (FOREVER, "alive"))),
    # Sleeping lifetimes wake up.
    ("T-118 too late", -1, (
        (0, "create", 5), (2, "default"), (50, "alive"), (100, "default", -1), (100, "gone"))),
    ("T-118 in time", -1, (
        (0, "create", 5), (2, "default"), (4, "default", -1), (4, "alive"), (5, "gone"))),
    ("T-118 in the second", -1, (
        (0, "create", 5), (2, "default"), (5, "alive"), (5, "default", -1), (5, "gone"))),
    ("T-118 born asleep", ABSENT, (
        (0, "create", 5), (100, "alive"), (100, "default", 1000), (100, "gone"))),
    ("T-118 slept through one switch", -1, (
        (0, "create", 100), (50, "default"), (60, "default", -1), (99, "alive"), (100, "gone"))),
    ("T-118 inheriting again", 10, (
        (0, "create"), (9, "default"), (50, "alive"), (50, "default", 60),
        (59, "alive"), (60, "gone"))),
    # Growing prolongs.
    ("T-119 grown", 10, (
        (0, "create"), (5, "default", 60), (59, "alive"), (60, "gone"))),
    ("T-119 grown at the last moment", 10, (
        (0, "create"), (9.75, "default", 60), (59.75, "alive"), (60, "gone"))),
    ("T-119 -1", 10, (
        (0, "create"), (9, "default", -1), (FOREVER, "alive"))),
    ("T-119 off", 10, (
        (0, "create"), (9, "default"), (FOREVER, "alive"))),
    ("T-119 grown twice", 10, (
        (0, "create"), (9, "default", 20), (19, "default", 30), (29, "alive"), (30, "gone"))),
    ("T-119 grown, own ttl", 10, (
        (0, "create", 5), (4, "default", 60), (4, "alive"), (5, "gone"))),
    # Expiry is final.
    ("T-120 off", 10, (
        (0, "create"), (10, "gone"), (11, "default"), (11, "gone"), (FOREVER, "gone"))),
    ("T-120 off, no request between", 10, (
        (0, "create"), (11, "default"), (11, "gone"))),
    ("T-120 off, in the second", 10, (
        (0, "create"), (10, "default"), (10, "gone"))),
    ("T-120 -1", 10, (
        (0, "create"), (10, "default", -1), (10, "gone"), (FOREVER, "gone"))),
    ("T-120 grown", 10, (
        (0, "create"), (10, "default", 1000), (10, "gone"))),
    ("T-120 off, own ttl", -1, (
        (0, "create", 5), (5, "default"), (5, "gone"), (FOREVER, "gone"))),
    ("T-120 off, own ttl under a default", 100, (
        (0, "create", 5), (6, "default"), (6, "gone"))),
    ("T-120 off and on, own ttl", -1, (
        (0, "create", 5), (5, "default"), (6, "default", -1), (6, "gone"))),
    ("T-120 off, on, off, own ttl", ABSENT, (
        (0, "create", 5), (9, "default", -1), (9, "default"), (9, "gone"))),
    ("T-120 off and on with more", 10, (
        (0, "create"), (10, "default"), (10, "default", 1000), (10, "gone"))),
    ("T-120 on for no time", ABSENT, (
        (0, "create"), (10, "default", 10), (10, "default"), (10, "gone"))),
    ("T-120 on for no time, young enough", ABSENT, (
        (0, "create"), (10, "default", 11), (10, "default"), (10, "alive"), (FOREVER, "alive"))),
    ("T-120 shrunk and grown back", 100, (
        (0, "create"), (50, "default", 10), (50, "default", 100), (50, "gone"))),
    ("T-120 shrunk and grown back, exempt", 100, (
        (0, "create", -1), (50, "default", 10), (50, "default", 100), (FOREVER, "alive"))),
    ("T-120 killed by the longest memory", 5, (
        (0, "create"), (9, "default"), (20, "default", 100), (30, "default", -1), (40, "gone"))),
    ("T-120 renewed in time", 10, (
        (0, "create"), (9, "replace"), (11, "default"), (FOREVER, "alive"))),
    ("T-120 created again", 10, (
        (0, "create"), (11, "default"), (11, "create"), (FOREVER, "alive"))),
    ("T-120 created again, own ttl", -1, (
        (0, "create", 5), (5, "default"), (5, "create", 5), (100, "alive"),
        (100, "default", -1), (100, "gone"))),
    ("T-120 created in the second of the change", 10, (
        (11, "default"), (11, "create"), (11, "alive"), (FOREVER, "alive"))),
]  # fmt: skip


@pytest.mark.parametrize("is_purged", [False, True], ids=["unpurged", "purged"])
@pytest.mark.parametrize(
    ("default_ttl", "steps"), [life[1:] for life in LIVES], ids=[life[0] for life in LIVES]
)
def test_lives(
    containers: TtlContainers, default_ttl: object, steps: tuple[Step, ...], is_purged: bool
) -> None:
    play(containers.make(default_ttl), steps, is_purged=is_purged)


def test_all_ages_at_once(containers: TtlContainers) -> None:
    """T-117, T-119, T-120: one change, an item of each second before it."""
    container = containers.make()
    names = [f"i{age}" for age in range(10, 0, -1)]
    for name in names:
        container.create(name)
        container.clock.advance(1)
    assert container.seen(*names) == set(names)
    container.set_default(4)
    young = {"i1", "i2", "i3"}
    assert container.seen(*names) == young
    for default_ttl in (100, -1, ABSENT):
        container.set_default(default_ttl)
        assert container.seen(*names) == young


# In force with the answer -----------------------------------------------------------------------


@pytest.mark.parametrize("default_ttl", [None, -1, 100])
def test_an_item_that_expires_while_a_change_waits_stays_expired(
    place: Place, default_ttl: int | None
) -> None:
    """T-120: the change is one of the moment in which it is made, not of that in which it came."""

    async def scenario() -> tuple[str, str]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            await store_items(account, container, [DatedItem("a", int(clock.now()) - 9)])

            async def seen() -> str:
                where = point_operations.logical_partition_of(container, '["p"]')
                now = account.catalog.container("d", "c")
                found, _ = await point_operations.read(begin(account, now, clock.now()), where, "a")
                return "gone" if found is None else "alive"

            async with account.metadata_lock:  # as the sweeper has it
                change = asyncio.create_task(set_default_ttl(account, default_ttl))
                await asyncio.sleep(0)
                clock.advance(5)
                before = await seen()
            await change
            await asyncio.gather(*account.background)
            return before, await seen()

    assert asyncio.run(scenario()) == ("gone", "gone")


def test_an_item_that_expires_while_a_change_is_written_stays_expired(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-120: a disk takes its time, in which the old policy is in force."""

    async def scenario() -> tuple[str, str]:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            await store_items(account, container, [DatedItem("a", int(clock.now()) - 9)])
            write = account.stores.metadata.change
            states: list[str] = []

            async def seen() -> str:
                where = point_operations.logical_partition_of(container, '["p"]')
                policy = account.catalog.container("d", "c").policy
                row, _ = await account.stores.items.read(
                    account.catalog.container("d", "c"), where.range_index, ItemKey(where.pk, "a")
                )
                assert row is not None
                is_live = ttl.is_live(row.ts, row.ttl, account.cutoff_under(policy, clock.now()))
                return "alive" if is_live else "gone"

            async def slowly(changes: Sequence[Any]) -> None:
                if not states:
                    clock.advance(1)
                    states.append(await seen())
                await write(changes)

            monkeypatch.setattr(account.stores.metadata, "change", slowly)
            await set_default_ttl(account, None)
            await asyncio.gather(*account.background)
            stored = {each.rid: each for each in await account.stores.metadata.resources()}
            assert stored[container.rid] == account.catalog.resource(container.rid)
            return states[0], await seen()

    assert asyncio.run(scenario()) == ("gone", "gone")


def patched() -> patches.Patch:
    operations = {"operations": [{"op": "set", "path": "/mark", "value": "new"}]}
    return patches.parse(orjson.dumps(operations), parse_definition(PARTITION_KEY))


async def batched(op: Operation, checked_item: CheckedItem) -> Any:
    operation = {"operationType": "Replace", "id": "a", "resourceBody": checked_item.document.value}
    options = BatchOptions(op.container, '["p"]', is_indexed=True, with_bodies=True)
    members = await parse_batch(op.account, orjson.dumps([operation]), options)
    evaluator = PatchEvaluator(op.account, None)
    done = await batches.run_atomic(
        op, checked_item.logical_partition, members, options, 1, evaluator
    )
    if done.results[0].error is not None:
        raise done.results[0].error
    return done.results[0].write_result


WAITING: Final[dict[str, Callable[[Operation, CheckedItem], Awaitable[Any]]]] = {
    "create": point_operations.create,
    "upsert": lambda op, checked_item: point_operations.upsert(op, checked_item, None),
    "replace": lambda op, checked_item: point_operations.replace(op, "a", checked_item, None),
    "patch": lambda op, checked_item: PatchEvaluator(op.account, None).perform(
        op, patch_operation(checked_item.logical_partition, "a", patched(), None)
    ),
    "delete": lambda op, checked_item: point_operations.delete(
        op, checked_item.logical_partition, "a", None
    ),
    "batch": batched,
}


@pytest.mark.parametrize("write", WAITING)
def test_a_write_that_waits_is_one_of_its_turn(
    place: Place, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """T-003, T-120: what was seen expired while a write waited for its turn stays expired."""

    async def scenario() -> None:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, 10) as (account, container):
            await account.persist_clock(clock.now() + 10)
            start = int(clock.now())
            await store_items(account, container, [DatedItem("a", start - 9)])
            store_write = account.stores.items.write
            seen: list[Row | None] = []

            async def slowly(*place: Any, **how: Any) -> Any:
                clock.advance(1.5)
                found, _ = await point_operations.read(
                    begin(account, container, clock.now()), where, "a"
                )
                seen.append(found)
                return await store_write(*place, **how)

            monkeypatch.setattr(account.stores.items, "write", slowly)
            checked_item = point_operations.checked_item(
                container, parse(b'{"id":"a","pk":"p","mark":"new"}'), '["p"]'
            )
            where = checked_item.logical_partition
            op = begin(account, container, clock.now())
            if write in ("create", "upsert"):
                outcome = await WAITING[write](op, checked_item)
                assert (outcome.status, outcome.row.ts) == (201, start + 1)
            else:
                with pytest.raises(NotFound):
                    await WAITING[write](op, checked_item)
            assert seen == [None]
            found, _ = await point_operations.read(
                begin(account, container, clock.now()), where, "a"
            )
            assert (found is not None) == (write in ("create", "upsert"))

    asyncio.run(scenario())


def test_a_write_does_not_outlive_the_policy_it_waited_under(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T-116, T-120: whom a change has ended is not brought back by a write that came before it."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        container = TtlContainers(raw, clock, "/dbs/d").make()
        container.create("a")
        clock.advance(5)
        seen: list[set[str]] = []
        perform = point_operations.perform

        async def late(op: Operation, step: transactions.ItemOperation, size: int) -> Any:
            if not seen:
                seen.append(await asyncio.to_thread(end_all))
            return await perform(op, step, size)

        def end_all() -> set[str]:
            with closing(RawClient(raw.endpoint, raw.key)) as other:
                there = TtlContainer(other, clock, container.path)
                assert there.set_default(5).status == 200
                return there.seen("a")

        monkeypatch.setattr(point_operations, "perform", late)
        assert_gone(container.replace("a", container.body("a")))
        assert seen == [set()]
        assert container.seen("a") == set()


def test_every_connection_sees_it_at_once(
    containers: TtlContainers, endpoint: str, key: str
) -> None:
    """T-116: what was connected before, and what connects after."""
    container = containers.make(100)
    container.create("old")
    container.clock.advance(10)
    container.create("young")
    with closing(RawClient(endpoint, key)) as before:
        there = TtlContainer(before, container.clock, container.path)
        assert there.seen("old", "young") == {"old", "young"}
        for default_ttl, alive in ((10, {"young"}), (ABSENT, {"young"}), (-1, {"young"})):
            reply = container.set_default(default_ttl)
            assert reply.status == 200
            assert there.seen("old", "young") == alive
            assert there.definition() == {
                name: value for name, value in reply.json.items() if not name.startswith("_")
            }
            with closing(RawClient(endpoint, key)) as after:
                assert (
                    TtlContainer(after, container.clock, container.path).seen("old", "young")
                    == alive
                )
        # What a relaxed answer accepts follows the policy in the same way.
        assert there.post(there.body("x", 0), x_perseid_direct="true").status == 400
        container.set_default()
        assert there.post(there.body("x", 0), x_perseid_direct="true").status == 201


def test_a_change_frees_ids_and_unique_values(containers: TtlContainers) -> None:
    """T-116: writes see it like reads."""
    unique = {"uniqueKeys": [{"paths": ["/email"]}]}
    container = containers.make(100, uniqueKeyPolicy=unique)
    container.create("a", email="x")
    container.clock.advance(10)
    assert container.post(container.body("b", email="x")).status == 409
    container.set_default(10)
    assert_gone(container.replace("a", container.body("a")))
    assert_gone(container.delete("a"))
    assert container.post(container.body("b", email="x")).status == 201
    assert container.post(container.body("a", email="y")).status == 201


def test_a_change_rewrites_no_item(containers: TtlContainers) -> None:
    """T-309: whatever becomes of them, items keep their version, and LSNs stand still."""
    container = containers.make(100)
    stored = container.create("a", -1)
    container.create("b")
    token = container.raw.get(f"{container.path}/docs").headers["x-ms-session-token"]
    container.clock.advance(10)
    for default_ttl in (10, -1, ABSENT, 100):
        container.set_default(default_ttl)
        reply = container.read("a")
        assert reply.json == stored
        assert reply.headers["x-ms-session-token"] == token


def test_each_container_has_its_own_policy(containers: TtlContainers) -> None:
    one, other = containers.make(100, "one"), containers.make(100, "other")
    for container in (one, other):
        container.create("a")
    containers.clock.advance(10)
    one.set_default(10)
    assert (one.seen("a"), other.seen("a")) == (set(), {"a"})


@pytest.mark.parametrize("default_ttl", [ABSENT, -1, 1000])
def test_a_refused_change_changes_nothing(containers: TtlContainers, default_ttl: object) -> None:
    """A stale If-Match, a definition that is wrong elsewhere: the old policy stays."""
    container = containers.make(10)
    body = container.definition()
    del body["defaultTtl"]
    if default_ttl is not ABSENT:
        body["defaultTtl"] = default_ttl
    stale = container.raw.put(
        container.path, body, if_match='"00000000-0000-0000-0000-000000000000"'
    )
    assert stale.status == 412
    moved = body | {"partitionKey": {"paths": ["/other"], "kind": "Hash", "version": 2}}
    assert container.raw.put(container.path, moved).status == 400
    assert container.definition()["defaultTtl"] == 10
    play(container, ((0, "create"), (9, "alive"), (10, "gone")))


def test_a_replace_that_keeps_the_default_is_no_change(containers: TtlContainers) -> None:
    container = containers.make(10)
    container.create("a")
    container.clock.advance(5)
    reply = container.raw.put(container.path, container.definition())
    assert (reply.status, reply.json["defaultTtl"]) == (200, 10)
    assert container.raw.get(container.admin).json["policyChanges"] == 0
    container.clock.advance(4)
    assert container.seen("a") == {"a"}
    container.clock.advance(1)
    assert container.seen("a") == set()


def test_the_python_client_switches_off_by_omission(
    containers: TtlContainers, endpoint: str, key: str
) -> None:
    """T-114: a replace without `default_ttl` is a replace without TTL."""
    container = containers.make(5)
    container.create("a")
    with CosmosClient(endpoint, key) as client:
        database = client.get_database_client(container.path.split("/")[2])
        for default_ttl in (60, -1, None):
            options = {} if default_ttl is None else {"default_ttl": default_ttl}
            database.replace_container("c", PartitionKey("/pk"), **options)
            assert container.definition().get("defaultTtl") == default_ttl
    assert "defaultTtl" not in container.definition()
    container.clock.advance(FOREVER)
    assert container.seen("a") == {"a"}


def test_a_purge_right_after_a_change_is_complete(containers: TtlContainers) -> None:
    """T-116, T-314: what expired by the change is removed by the very next request for it."""
    container = containers.make()
    for round_ in range(20):
        for number in range(3):
            container.create(f"{round_}-{number}")
        container.clock.advance(10)
        body = container.definition()
        assert container.raw.put(container.path, body | {"defaultTtl": 10}).status == 200
        assert container.drain() == 3
        assert container.raw.put(container.path, body).status == 200


# revive_unpurged --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lenient(servers: Servers) -> Iterator[TtlContainers]:
    """A server that judges by the current setting alone."""
    server = servers("frozen", no_sweeper=True, revive_unpurged=True)
    with server.connect() as raw, temporary_database(raw, "lenient") as database:
        yield TtlContainers(raw, server.clock, database)


# first default, the item's ttl, a default that lets it live again
RELAXATIONS: Final = [
    (10, ABSENT, ABSENT),
    (10, ABSENT, None),
    (10, ABSENT, -1),
    (10, ABSENT, 1000),
    (-1, 10, ABSENT),
    (1000, 10, ABSENT),
]


@pytest.mark.parametrize(("default_ttl", "ttl", "relaxed"), RELAXATIONS)
def test_revival(
    lenient: TtlContainers, name: str, default_ttl: object, ttl: object, relaxed: object
) -> None:
    """T-122: what is still on disk is restored as it was, what was purged is not."""
    container = lenient.make(default_ttl, name)
    stored = container.create("a", ttl)
    container.clock.advance(10)
    assert container.seen("a") == set()
    container.set_default(relaxed)
    assert container.seen("a") == {"a"}
    assert container.read("a").json == stored
    assert container.post(container.body("a")).status == 409
    container.set_default(default_ttl)
    assert container.seen("a") == set()
    assert container.drain() == 1
    container.set_default(relaxed)
    assert container.seen("a") == set()


@pytest.mark.parametrize(("default_ttl", "ttl", "relaxed"), RELAXATIONS)
def test_no_revival_by_default(
    containers: TtlContainers, default_ttl: object, ttl: object, relaxed: object
) -> None:
    """T-120 for the rows above."""
    container = containers.make(default_ttl)
    container.create("a", ttl)
    container.clock.advance(10)
    for change in (relaxed, default_ttl, relaxed):
        container.set_default(change)
        assert container.seen("a") == set()


def test_revival_does_not_bring_back_what_was_replaced(lenient: TtlContainers, name: str) -> None:
    """T-122 meets T-139: the new item has taken the id of the expired one."""
    container = lenient.make(10, name)
    container.create("a", note="old")
    container.clock.advance(10)
    container.create("a", note="new")
    container.set_default()
    assert container.query("SELECT VALUE c.note FROM c") == ["new"]


def test_revival_keeps_the_other_rules(lenient: TtlContainers, name: str) -> None:
    """T-122: under the setting in force the boundary is the same."""
    play(lenient.make(10, name), ((0, "create"), (9, "alive"), (10, "gone"), (11, "gone")))


# A new container --------------------------------------------------------------------------------


def test_a_new_container_of_the_name_knows_nothing(containers: TtlContainers) -> None:
    """T-123."""
    container = containers.make(10)
    stored = container.create("a")
    container.clock.advance(20)
    assert (
        container.raw.put(container.admin, {"purgeHoldSeconds": 60, "guard": "50%"}).status == 200
    )
    for default_ttl in (ABSENT, 5, -1):
        container.set_default(default_ttl)
    assert container.raw.get(container.admin).json["policyChanges"] == 3
    assert container.raw.delete(container.path).status == 204

    again = containers.make()
    status = again.raw.get(again.admin).json
    assert status["defaultTtl"] is None
    assert status["policyChanges"] == status["purgeHoldSeconds"] == 0
    assert status["guard"] is None
    none = {"items": 0, "bytes": 0}
    assert status["live"] == status["pendingPurge"] == none
    assert again.raw.post(f"{again.admin}/undo", {}).status == 409
    assert again.seen("a") == set()
    assert again.drain() == 0
    assert again.raw.get(f"/{stored['_self']}", pk='["p"]').status == 404
    again.set_default(30)
    play(again, ((0, "create"), (29, "alive"), (30, "gone")))
