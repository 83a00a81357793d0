"""Several front ends on one database behave as one, whichever is asked and whichever stops."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as rules

from perseid.config import Settings
from perseid.server import opened
from perseid.service.lifetimes import policies, undo
from perseid.service.resources import databases
from perseid.store.types import PurgeRequest
from tests.model.machine import play
from tests.model.pair import Pair
from tests.support import postgres
from tests.support.builders import PARTITION_KEY
from tests.support.figures import container_metrics, partition_statistics, resource_usage
from tests.support.operations import codes, create
from tests.support.purging import (
    DatedItem,
    backlog,
    container_at,
    process,
    set_default_ttl,
    store_items,
)
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import frozen_clock
from tests.support.stores import Place
from tests.support.waiting import until

pytestmark = pytest.mark.only_on("postgres", reason="several servers on one database")

STEPS = 1000
DOCS = "/dbs/d/colls/c/docs"
RULES = rules(
    max_examples=10,
    stateful_step_count=60,
    deadline=None,
    report_multiple_bugs=False,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


# Together


def test_two_front_ends_do_what_the_model_does(place: Place) -> None:
    """Each request, change of policy and move of the clock goes through either of them."""
    with Pair(place.lasting()) as pair:
        number = 0
        while pair.steps < STEPS:
            play(pair, RULES, number or None)
            number += 1
        assert pair.met["patch 200"] > 0


@pytest.fixture
def shared_settings(place: Place) -> Settings:
    return place.lasting(no_sweeper=True, test_clock=True)


@pytest.fixture
def two_clients(shared_settings: Settings) -> Iterator[tuple[RawClient, RawClient]]:
    """Clients of two front ends, and a container `d/c` that both know."""
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(closing(RawClient(found.endpoint)))
            for found in [stack.enter_context(running(shared_settings)) for _ in range(2)]
        )
        assert first.post("/dbs", {"id": "d"}).status == 201
        assert second.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
        yield first, second


def test_a_policy_is_in_force_everywhere_with_its_200(
    two_clients: tuple[RawClient, RawClient],
) -> None:
    """T-037, T-116: in both directions, many times, for reads, queries and writes."""
    first, second = two_clients
    first.post("/_perseid/clock/freeze", {})
    assert first.post(DOCS, {"id": "a", "pk": "p"}, pk='["p"]').status == 201
    second.post("/_perseid/clock/advance", {"seconds": 100})
    definition: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY}
    for turn in range(10):
        changing, asked = (first, second) if turn % 2 else (second, first)
        changed = changing.put("/dbs/d/colls/c", definition | {"defaultTtl": 1000 + turn})
        assert changed.status == 200
        assert asked.get("/dbs/d/colls/c").json["defaultTtl"] == 1000 + turn
        assert asked.get(f"{DOCS}/a", pk='["p"]').status == 200
    assert first.put("/dbs/d/colls/c", definition | {"defaultTtl": 100}).status == 200
    assert second.get(f"{DOCS}/a", pk='["p"]').status == 404
    assert second.query(DOCS, "SELECT VALUE COUNT(1) FROM c").json["Documents"] == [0]
    assert second.get(DOCS).json["_count"] == 0
    # Expiry is final, and its id is free, whichever front end is asked.
    assert second.put("/dbs/d/colls/c", definition).status == 200
    assert first.get(f"{DOCS}/a", pk='["p"]').status == 404
    assert first.post(DOCS, {"id": "a", "pk": "p"}, pk='["p"]').status == 201
    assert second.get(f"{DOCS}/a", pk='["p"]').status == 200


def test_another_throughput_counts_everywhere(place: Place) -> None:
    """Of a budget that has been used by then, and of a container that took the place of one."""
    settings = place.lasting(no_sweeper=True, test_clock=True, enforce_throughput=True)
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(closing(RawClient(found.endpoint)))
            for found in [stack.enter_context(running(settings)) for _ in range(2)]
        )
        assert first.post("/dbs", {"id": "d"}).status == 201
        made = {"id": "c", "partitionKey": PARTITION_KEY}
        assert first.post("/dbs/d/colls", made, throughput="400").status == 201
        assert second.get(f"{DOCS}/a", pk='["p"]').status == 404
        (offer,) = first.get("/offers").json["Offers"]
        offer["content"]["offerThroughput"] = 9000
        assert first.put(f"/offers/{offer['id']}", offer).status == 200
        assert provisioned(second) == 9000
        assert first.delete("/dbs/d/colls/c").status == 204
        assert first.post("/dbs/d/colls", made, throughput="500").status == 201
        assert provisioned(second) == 500


def provisioned(raw: RawClient) -> int:
    return int(container_metrics(raw)["provisionedThroughput"])


def count_by_query(raw: RawClient) -> int:
    (count,) = raw.query(DOCS, "SELECT VALUE COUNT(1) FROM c").json["Documents"]
    return int(count)


def count_in_statistics(raw: RawClient) -> int:
    items, _, keys = partition_statistics(raw, "/dbs/d/colls/c")
    assert keys == items
    return items


# Each a way to count the items of the container, which all have keys of their own.
LOOKS: dict[str, Callable[[RawClient], int]] = {
    "count": count_by_query,
    "count of one range": lambda raw: raw.query(
        DOCS, "SELECT VALUE COUNT(1) FROM c", range="0"
    ).json["Documents"][0],
    "query": lambda raw: len(raw.query(DOCS, "SELECT * FROM c").json["Documents"]),
    "order": lambda raw: len(raw.query(DOCS, "SELECT * FROM c ORDER BY c.id").json["Documents"]),
    "groups": lambda raw: len(
        raw.query(DOCS, "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk").json["Documents"]
    ),
    "feed": lambda raw: raw.get(DOCS).json["_count"],
    "changes": lambda raw: len(
        json.loads(raw.get(DOCS, A_IM="Incremental Feed").body or b'{"Documents":[]}')["Documents"]
    ),
    "usage": lambda raw: resource_usage(raw, "/dbs/d/colls/c")["documentsCount"],
    "statistics": count_in_statistics,
    "lifetimes": lambda raw: raw.get("/_perseid/ttl/d/c").json["live"]["items"],
    "metrics": lambda raw: container_metrics(raw)["live"]["items"],
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_the_first_look_after_a_change_is_right(
    two_clients: tuple[RawClient, RawClient], look: str
) -> None:
    """T-037, T-116: whatever a front end is asked first, of a policy or of the time."""
    first, second = two_clients
    first.post("/_perseid/clock/freeze", {})
    for key in "pq":
        body = {"id": key, "pk": key}
        assert first.post(DOCS, body, pk=json.dumps([key])).status == 201
    assert LOOKS[look](second) == 2
    first.post("/_perseid/clock/advance", {"seconds": 100})
    definition: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY}
    assert LOOKS[look](second) == 2
    assert first.put("/dbs/d/colls/c", definition | {"defaultTtl": 200}).status == 200
    assert LOOKS[look](second) == 2
    assert first.put("/dbs/d/colls/c", definition | {"defaultTtl": 100}).status == 200
    assert LOOKS[look](second) == 0
    assert first.post("/_perseid/ttl/d/c/undo", {}).status == 200
    assert LOOKS[look](second) == 2
    first.post("/_perseid/clock/advance", {"seconds": 100})
    assert LOOKS[look](second) == 0


def test_the_clock_is_one(two_clients: tuple[RawClient, RawClient]) -> None:
    first, second = two_clients
    frozen = first.post("/_perseid/clock/freeze", {}).json["now"]
    assert second.get("/_perseid/clock").json["now"] == frozen
    moved = second.post("/_perseid/clock/advance", {"seconds": 3600}).json["now"]
    assert moved == frozen + 3600
    assert first.get("/_perseid/clock").json["now"] == moved
    assert first.post(DOCS, {"id": "a", "pk": "p"}, pk='["p"]').json["_ts"] == int(moved)
    resumed = first.post("/_perseid/clock/resume", {}).json["now"]
    assert resumed >= moved
    assert second.get("/_perseid/clock").json["now"] >= moved


def test_tokens_of_one_are_good_for_the_other(two_clients: tuple[RawClient, RawClient]) -> None:
    first, second = two_clients
    for number in range(10):
        body = {"id": f"{number}", "pk": "p", "n": number}
        written = first.post(DOCS, body, pk='["p"]')
        assert written.status == 201
        session = written.headers["x-ms-session-token"]
        assert second.get(f"{DOCS}/{number}", pk='["p"]', session=session).status == 200
    for text in ("SELECT * FROM c", "SELECT * FROM c ORDER BY c.n DESC"):
        page = first.query(DOCS, text, count="4")
        token = page.headers["x-ms-continuation"]
        rest = second.query(DOCS, text, count="100", continuation=token)
        assert len(rest.json["Documents"]) == 6
    assert first.post("/dbs/d/users", {"id": "u"}).status == 201
    granted = {"id": "p", "permissionMode": "Read", "resource": "dbs/d/colls/c"}
    token = first.post("/dbs/d/users/u/permissions", granted).json["_token"]
    headers = {"x-ms-documentdb-partitionkey": '["p"]'}
    assert second.request("GET", f"{DOCS}/1", headers=headers, token=token).status == 200
    assert second.delete("/dbs/d/users/u").status == 204
    assert first.request("GET", f"{DOCS}/1", headers=headers, token=token).status == 401


def test_a_container_made_again_is_another_for_both(
    two_clients: tuple[RawClient, RawClient],
) -> None:
    first, second = two_clients
    assert second.post(DOCS, {"id": "a", "pk": "p"}, pk='["p"]').status == 201
    assert first.delete("/dbs/d/colls/c").status == 204
    for client in two_clients:
        assert client.get(f"{DOCS}/a", pk='["p"]').status == 404
        assert client.post(DOCS, {"id": "b", "pk": "p"}, pk='["p"]').status == 404
    assert first.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    assert second.get(f"{DOCS}/a", pk='["p"]').status == 404
    assert second.post(DOCS, {"id": "a", "pk": "p"}, pk='["p"]').status == 201
    assert first.get(f"{DOCS}/a", pk='["p"]').status == 200


def from_now(raw: RawClient, **headers: str) -> Reply:
    return raw.get(DOCS, A_IM="Incremental Feed", **{"if_none_match": "*"} | headers)


# Each a request that is answered without a look at any item.
GLANCES: dict[str, Callable[[RawClient], Reply]] = {
    "changes from now": from_now,
    "top": lambda raw: raw.query(DOCS, "SELECT TOP 0 * FROM c"),
    "limit": lambda raw: raw.query(DOCS, "SELECT c.id FROM c OFFSET 0 LIMIT 0"),
    "order": lambda raw: raw.query(DOCS, "SELECT TOP 0 * FROM c ORDER BY c.id"),
    "no items": lambda raw: raw.query(DOCS, "SELECT VALUE 1"),
}  # fmt: skip


@pytest.mark.parametrize("glance", GLANCES)
def test_a_container_dropped_elsewhere_is_gone_for_those_who_look_at_no_item(
    two_clients: tuple[RawClient, RawClient], glance: str
) -> None:
    first, second = two_clients
    known = GLANCES[glance](first)
    assert known.status in (200, 304)
    assert second.delete("/dbs/d/colls/c").status == 204
    assert GLANCES[glance](first).status == 404
    assert second.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    assert GLANCES[glance](first).status == known.status


def test_now_is_a_position_of_the_container_there_is(
    two_clients: tuple[RawClient, RawClient],
) -> None:
    first, second = two_clients
    assert from_now(first).status == 304
    assert second.delete("/dbs/d/colls/c").status == 204
    assert second.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    assert second.post(DOCS, {"id": "before", "pk": "p"}, pk='["p"]').status == 201
    now = from_now(first).headers["etag"]
    assert from_now(first, if_none_match=now).status == 304
    assert second.post(DOCS, {"id": "after", "pk": "p"}, pk='["p"]').status == 201
    (change,) = from_now(first, if_none_match=now).json["Documents"]
    assert change["id"] == "after"


def bulk(raw: RawClient, *items: dict[str, Any]) -> list[int]:
    """Creates items in a request that is no transaction, each under its id; their statuses."""
    keyed = [create(**item) | {"partitionKey": json.dumps([item["id_"]])} for item in items]
    return codes(raw.batch("/dbs/d/colls/c", keyed, atomic=False))


def test_a_bulk_request_is_refused_by_the_definition_in_force_only(
    two_clients: tuple[RawClient, RawClient],
) -> None:
    """Its operations are read before any of them comes to the store."""
    first, second = two_clients
    items = [{"id_": key, "pk": key, "ttl": 0} for key in "pq"]
    definition: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY}
    assert first.put("/dbs/d/colls/c", definition | {"defaultTtl": 100}).status == 200
    assert bulk(first, *items) == [400, 400]
    assert second.put("/dbs/d/colls/c", definition).status == 200
    assert bulk(first, *items) == [201, 201]


def test_a_bulk_request_is_read_with_the_key_in_force(
    two_clients: tuple[RawClient, RawClient],
) -> None:
    """One of the items fits the key of the container before as well, the other does not."""
    first, second = two_clients
    assert first.get(DOCS).status == 200
    assert second.delete("/dbs/d/colls/c").status == 204
    moved = {"id": "c", "partitionKey": PARTITION_KEY | {"paths": ["/id"]}}
    assert second.post("/dbs/d/colls", moved).status == 201
    assert bulk(first, {"id_": "p", "pk": "p"}, {"id_": "q", "pk": "p"}) == [201, 201]


def test_a_bulk_request_that_waits_for_a_change_is_read_again(
    shared_settings: Settings, two_clients: tuple[RawClient, RawClient]
) -> None:
    """Of the same front end: its reading of the metadata is the same before and after."""
    assert shared_settings.store is not None
    first, _ = two_clients
    definition = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": 100}
    with (
        ThreadPoolExecutor(2) as pool,
        closing(RawClient(first.endpoint)) as other,
        psycopg.connect(shared_settings.store, autocommit=True) as watching,
        psycopg.connect(shared_settings.store) as holding,
    ):

        def are_waiting(count: int) -> bool:
            found = watching.execute(
                "SELECT 1 FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return len(found.fetchall()) == count

        holding.execute("SELECT 1 FROM perseid.positions FOR UPDATE")
        changed = pool.submit(first.put, "/dbs/d/colls/c", definition)
        until(lambda: are_waiting(1))
        created = pool.submit(bulk, other, {"id_": "p", "pk": "p", "ttl": 0})
        until(lambda: are_waiting(2))
        holding.rollback()
        assert changed.result().status == 200
        assert created.result() == [400]


def at_once(
    two_clients: tuple[RawClient, RawClient], each: int, work: Callable[..., Any]
) -> list[Any]:
    """`work(client, number)` in many threads that start together, half of them on each server."""
    barrier = threading.Barrier(2 * each)

    def run(number: int) -> Any:
        with closing(RawClient(two_clients[number % 2].endpoint)) as client:
            barrier.wait()
            return work(client, number)

    with ThreadPoolExecutor(2 * each) as pool:
        return list(pool.map(run, range(2 * each)))


def test_one_of_many_creators_wins(two_clients: tuple[RawClient, RawClient]) -> None:
    for turn in range(10):
        body = {"id": f"{turn}", "pk": "p"}

        def create(client: RawClient, _: int, body: dict[str, str] = body) -> int:
            while True:
                status = client.post(DOCS, body, pk='["p"]').status
                if status != 449:  # which clients answer with another try
                    return status

        assert Counter(at_once(two_clients, 4, create)) == {201: 1, 409: 7}


def test_no_increment_is_lost(two_clients: tuple[RawClient, RawClient]) -> None:
    """By patches, and by replaces that say which version they are based on."""
    assert (
        two_clients[0].post(DOCS, {"id": "a", "pk": "p", "n": 0, "m": 0}, pk='["p"]').status == 201
    )

    def patch(client: RawClient) -> None:
        body = {"operations": [{"op": "incr", "path": "/n", "value": 1}]}
        assert client.patch(f"{DOCS}/a", body, pk='["p"]').status == 200

    def replace(client: RawClient) -> int:
        found = client.get(f"{DOCS}/a", pk='["p"]').json
        body = found | {"m": found["m"] + 1}
        reply = client.put(f"{DOCS}/a", body, pk='["p"]', if_match=found["_etag"])
        assert reply.status in (200, 412), reply
        return int(reply.status == 200)

    def work(client: RawClient, _: int) -> int:
        done = 0
        for _ in range(10):
            patch(client)
            done += replace(client)
        return done

    replaced = sum(at_once(two_clients, 4, work))
    found = two_clients[1].get(f"{DOCS}/a", pk='["p"]').json
    assert (found["n"], found["m"]) == (80, replaced)


def test_everything_written_at_once_is_in_the_change_feed(
    two_clients: tuple[RawClient, RawClient],
) -> None:
    """In one order, which is that of the LSNs, and nothing comes in behind a position."""
    done = threading.Event()
    positions: list[Reply] = []

    def read_on() -> list[str]:
        """Follows the feed while others write."""
        seen: list[str] = []
        headers = {"A-IM": "Incremental Feed", "x-ms-max-item-count": "7"}
        etag = None
        with closing(RawClient(two_clients[0].endpoint)) as client:
            while True:
                was_done = done.is_set()
                sent = headers | ({} if etag is None else {"If-None-Match": etag})
                reply = client.request("GET", DOCS, headers=sent)
                assert reply.status in (200, 304), reply
                etag = reply.headers["etag"]
                if reply.status == 200:
                    seen += [each["id"] for each in reply.json["Documents"]]
                elif was_done:
                    return seen
                positions.append(reply)

    def write(client: RawClient, number: int) -> None:
        for turn in range(25):
            body = {"id": f"{number}-{turn}", "pk": f"p{turn % 3}"}
            assert client.post(DOCS, body, pk=json.dumps([body["pk"]])).status == 201

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_on)
        at_once(two_clients, 3, write)
        done.set()
        seen = reading.result()
    assert len(seen) == len(set(seen)) == 150


# Beginning


def test_front_ends_that_start_at_once_on_an_empty_database() -> None:
    for _ in range(5):
        shared = Settings(store=postgres.fresh_dsn(), relaxed=True)
        with ExitStack() as stack:
            # In threads, so that they begin within a millisecond.
            barrier = threading.Barrier(4)

            def start(
                shared: Settings, stack: ExitStack = stack, barrier: Any = barrier
            ) -> RawClient:
                barrier.wait()
                found = stack.enter_context(running(shared))
                return stack.enter_context(closing(RawClient(found.endpoint)))

            with ThreadPoolExecutor(4) as pool:
                first, second, *others = pool.map(start, [shared] * 4)
            assert first.post("/dbs", {"id": "d"}).status == 201
            assert (
                second.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status
                == 201
            )
            assert others[0].post(DOCS, {"id": "a", "pk": "p"}, pk='["p"]').status == 201
            for each in (first, second, *others):
                assert each.get(f"{DOCS}/a", pk='["p"]').status == 200
                assert len(each.get("/dbs").json["Databases"]) == 1
        postgres.server().drop(shared.store or "")


# The one that purges


@pytest.mark.slow
def test_a_killed_purger_is_followed_within_its_lease(place: Place) -> None:
    """kill -9 in the middle of a purge; no expiry is logged twice, and none is missed."""
    expired = 6000
    shared = place.lasting()
    clock = frozen_clock()
    start = int(clock.now())
    kept = [
        DatedItem(f"d{number:06}", start - 900_000 + number, None if number % 2 else 100)
        for number in range(expired)
    ]

    async def load() -> None:
        policy = {"changeFeedPolicy": {"retentionDuration": 60}}
        async with container_at(shared, clock, 100, **policy) as (account, container):
            await store_items(account, container, kept)
            await store_items(account, container, [DatedItem("alive", start, 1_000_000)])

    asyncio.run(load())
    # A tenth of the time is for the purge, so it takes a while.
    with process(shared, "--no-sweeper") as other:
        reply = other.raw.request("GET", DOCS, headers={"A-IM": "Incremental Feed"})
        position = reply.headers["etag"]
        with process(shared, "--sweep-pace", "0.1") as purger:
            until(lambda: 0 < backlog(other.raw) < expired)
            # Now that the lease is taken, the other one wants it too.
            assert other.raw.post("/_perseid/sweeper/resume", {}).status == 200
            assert purger.stop(signal.SIGKILL)[0] == -signal.SIGKILL
        left = backlog(other.raw)
        assert left > 0, "the purge was over before the kill; give it more to do"
        until(lambda: backlog(other.raw) < left)
        until(lambda: backlog(other.raw) == 0)
        told = expiries(other.raw, position)
        assert Counter(told) == Counter(each.id for each in kept)
        assert other.raw.get(f"{DOCS}/alive", pk='["p"]').status == 200
        figures = container_metrics(other.raw)
        assert figures["purgedTotal"] == expired
        assert other.stop(signal.SIGTERM)[0] == 0


def expiries(raw: RawClient, position: str) -> list[str]:
    """The ids of all that ended behind a position, in the order in which that was told."""
    found: list[str] = []
    while True:
        headers = {
            "A-IM": "Full-Fidelity Feed",
            "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15",
            "If-None-Match": position,
            "x-ms-max-item-count": "1000",
        }
        reply = raw.request("GET", DOCS, headers=headers)
        if reply.status == 304:
            return found
        assert reply.status == 200, reply
        position = reply.headers["etag"]
        for change in reply.json["Documents"]:
            assert change["metadata"]["timeToLiveExpired"], change
            found.append(change["metadata"]["id"])


def test_an_undo_tells_what_another_front_end_removes_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the count and the undo, which is in force everywhere with its commit; and that the
    metadata moves on is no reason to undo once more."""
    settings = place.lasting()

    async def scenario() -> dict[str, Any]:
        clock = frozen_clock()
        async with (
            container_at(settings, clock, None) as (account, container),
            opened(settings, clock) as other,
        ):
            long_ago = int(clock.now()) - 100
            await store_items(account, container, [DatedItem(f"a{n}", long_ago) for n in range(5)])
            await set_default_ttl(account, 50)
            await asyncio.gather(*account.background)
            await other.reload()
            change = other.stores.metadata.change

            async def overtaken(changes: Sequence[Any]) -> None:
                seen, now = account.catalog.container("d", "c"), clock.now()
                previous = policies.previous_cutoff(account, seen, now)
                removed = await account.stores.expiry.purge(
                    PurgeRequest(seen, 0, account.cutoff(seen, now), 2, previous_cutoff=previous)
                )
                assert len(removed.items) == 2
                await change(changes)
                await account.reload()
                await databases.create(account, {"id": "e"}, None, now)

            monkeypatch.setattr(other.stores.metadata, "change", overtaken)
            return await undo.undo(other, container.rid, "primary", None, clock.now())

    told = asyncio.run(scenario())
    assert (told["restored"]["items"], told["alreadyPurged"]) == (3, 2)


def test_two_sweepers_at_work_log_each_expiry_once(place: Place) -> None:
    """Both purge, drains are asked of both, and clients create items under expired ids."""
    size = 300
    shared = place.lasting(test_clock=True, sweep_pace=1.0)
    with (
        running(shared) as one,
        running(shared) as other,
        closing(RawClient(one.endpoint)) as first,
        closing(RawClient(other.endpoint)) as second,
    ):
        first.post("/_perseid/clock/freeze", {})
        assert first.post("/dbs", {"id": "d"}).status == 201
        body = {
            "id": "c",
            "partitionKey": PARTITION_KEY,
            "defaultTtl": 10,
            "changeFeedPolicy": {"retentionDuration": 60},
        }
        assert second.post("/dbs/d/colls", body).status == 201
        for number in range(size):
            item = {"id": f"{number}", "pk": "p"}
            assert first.post(DOCS, item, pk='["p"]').status == 201
        position = first.request("GET", DOCS, headers={"A-IM": "Incremental Feed"})
        assert second.post("/_perseid/clock/advance", {"seconds": 10}).status == 200

        def work(client: RawClient, number: int) -> None:
            if number < 2:
                assert client.post("/_perseid/ttl/d/c/drain", {}).status == 200
                return
            for each in range(number, size, 10):
                item = {"id": f"{each}", "pk": "p", "ttl": -1}
                assert client.post(DOCS, item, pk='["p"]').status == 201

        at_once((first, second), 4, work)
        until(lambda: backlog(second) == 0)
        told = ends(second, position.headers["etag"])
        assert Counter(told) == Counter(f"{number}" for number in range(size))
        alive = {f"{each}" for number in range(2, 8) for each in range(number, size, 10)}
        ids = first.query(DOCS, "SELECT VALUE c.id FROM c", count="-1").json["Documents"]
        assert set(ids) == alive
        assert len(ids) == len(alive)


def ends(raw: RawClient, position: str) -> list[str]:
    """The ids of those that time has ended, told as deletes among other changes."""
    found: list[str] = []
    while True:
        headers = {
            "A-IM": "Full-Fidelity Feed",
            "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15",
            "If-None-Match": position,
        }
        reply = raw.request("GET", DOCS, headers=headers)
        if reply.status == 304:
            return found
        assert reply.status == 200, reply
        position = reply.headers["etag"]
        found += [
            change["metadata"]["id"]
            for change in reply.json["Documents"]
            if change["metadata"].get("timeToLiveExpired")
        ]
