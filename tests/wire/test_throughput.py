"""Throughput enforcement: who is refused with 429, for how long, and what that leaves untouched."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY, create_container
from tests.support.figures import container_metrics, physical_ranges
from tests.support.raw import RawClient, Reply
from tests.support.replies import charge
from tests.support.servers import RunningServer, Servers, serving
from tests.support.stores import Place

AUTOPILOT = "x-ms-cosmos-offer-autopilot-settings"
LOW = {"x_ms_cosmos_priority_level": "Low"}
MEGABYTE = 1024 * 1024
P = '["p"]'
SINGLE_READS = 5


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers("frozen", enforce_throughput=True)


def read_item(raw: RawClient, container: str, id_: str = "none", **headers: str) -> Reply:
    """A point read; of something absent it costs exactly 1 RU."""
    return raw.get(f"{container}/docs/{id_}", **({"pk": P} | headers))


def create_item(raw: RawClient, container: str, id_: str, size: int = 0, pk: str = "p") -> Reply:
    body = {"id": id_, "pk": pk, "text": "x" * size}
    return raw.post(f"{container}/docs", body, pk=json.dumps([pk]))


def spend(raw: RawClient, container: str, units: int, **headers: str) -> None:
    """Point reads of 1 RU each. A few single reads come last: one too many would be refused."""
    single = min(units, SINGLE_READS)
    for start in range(0, units - single, 100):
        count = min(100, units - single - start)
        operations = [{"operationType": "Read", "id": "none", "partitionKey": P}] * count
        reply = raw.batch(container, operations, atomic=False, **headers)
        assert [each["statusCode"] for each in reply.json] == [404] * count, reply
        assert charge(reply) == count
    for _ in range(single):
        assert read_item(raw, container, **headers).status == 404


def retry_after(reply: Reply) -> int:
    assert reply.status == 429, reply
    return int(reply.headers["x-ms-retry-after-ms"])


# The refusal


def test_a_second_grants_what_was_provisioned(
    raw: RawClient, container: str, clock: MovableClock
) -> None:
    spend(raw, container, 400)
    refused = read_item(raw, container)
    assert (refused.status, refused.sub_status) == (429, 3200)
    assert refused.headers["x-ms-retry-after-ms"] == "1000"
    assert refused.headers["x-ms-request-charge"] == "0.38"
    assert refused.headers["x-ms-session-token"].startswith("0:-1#")
    assert refused.json["code"] == "TooManyRequests"
    assert 'Message: {"Errors":["Request rate is large. More Request' in refused.json["message"]
    clock.advance(1)
    for _ in range(400):
        assert read_item(raw, container).status == 404
    assert read_item(raw, container).status == 429


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.333, 0.9, 0.9994])
def test_the_time_to_wait_is_true(
    raw: RawClient, container: str, clock: MovableClock, fraction: float
) -> None:
    second = int(clock.now()) + 1
    clock.set(second)
    spend(raw, container, 400)
    clock.set(second + fraction)
    wait = retry_after(read_item(raw, container))
    assert wait == pytest.approx((1 - fraction) * 1000, abs=1)
    clock.set(max(clock.now(), second + fraction + (wait - 1) / 1000 - 0.001))
    assert read_item(raw, container).status == 429
    clock.set(second + fraction + wait / 1000)
    assert read_item(raw, container).status == 404


def test_an_overdraft_is_paid_by_the_next_seconds(
    raw: RawClient, container: str, clock: MovableClock
) -> None:
    made = create_item(raw, container, "large", 2 * MEGABYTE - 8192)
    assert made.status == 201
    assert 1200 < charge(made) < 1251  # 400 of it in this second, the rest in the next three
    assert retry_after(read_item(raw, container)) == 3000
    clock.advance(1)
    assert retry_after(read_item(raw, container)) == 2000
    clock.advance(1)
    assert retry_after(read_item(raw, container)) == 1000
    clock.advance(1)
    left = 4 * 400 - charge(made)
    spend(raw, container, math.ceil(left))
    assert read_item(raw, container).status == 429
    clock.advance(1)
    spend(raw, container, 400 - (math.ceil(left) > left))
    clock.advance(1)


def test_what_is_not_used_is_not_saved(raw: RawClient, container: str, clock: MovableClock) -> None:
    spend(raw, container, 1)
    clock.advance(100)
    spend(raw, container, 400)
    assert read_item(raw, container).status == 429


Act = Callable[[RawClient, str], Reply]
PAYING: dict[str, Act] = {
    "read": lambda raw, path: read_item(raw, path, "kept"),
    "create": lambda raw, path: create_item(raw, path, "new"),
    "upsert": lambda raw, path: raw.post(
        f"{path}/docs", {"id": "kept", "pk": "p", "changed": True}, pk=P, upsert="true"
    ),
    "replace": lambda raw, path: raw.put(f"{path}/docs/kept", {"id": "kept", "pk": "p"}, pk=P),
    "delete": lambda raw, path: raw.delete(f"{path}/docs/kept", pk=P),
    "feed": lambda raw, path: raw.get(f"{path}/docs"),
    "query": lambda raw, path: raw.query(f"{path}/docs", "SELECT * FROM c"),
    "changes": lambda raw, path: raw.get(f"{path}/docs", A_IM="Incremental Feed"),
    "key in the body": lambda raw, path: raw.post(f"{path}/docs", {"id": "new", "pk": "p"}),
    "wrong body": lambda raw, path: raw.post(f"{path}/docs", b"{", pk=P),
    "wrong key": lambda raw, path: raw.get(f"{path}/docs/kept", pk="p"),
}


def test_requests_about_items_are_refused_and_change_nothing(
    raw: RawClient, container: str, clock: MovableClock
) -> None:
    kept = create_item(raw, container, "kept").json
    clock.advance(1)
    spend(raw, container, 400)
    token = raw.get(container).headers["x-ms-session-token"]
    statuses = {name: act(raw, container).status for name, act in PAYING.items()}
    assert statuses == dict.fromkeys(PAYING, 429)
    clock.advance(1)
    assert raw.get(container).headers["x-ms-session-token"] == token
    assert raw.get(f"{container}/docs").json["Documents"] == [kept]


FREE: dict[str, Act] = {
    "account": lambda raw, path: raw.get("/"),
    "databases": lambda raw, path: raw.get("/dbs"),
    "database": lambda raw, path: raw.get(path.rsplit("/", 2)[0]),
    "containers": lambda raw, path: raw.get(path.rsplit("/", 1)[0]),
    "container": lambda raw, path: raw.get(path),
    "replace": lambda raw, path: raw.put(path, {"id": "c", "partitionKey": PARTITION_KEY}),
    "plan": lambda raw, path: raw.query(
        f"{path}/docs", "SELECT * FROM c", x_ms_cosmos_is_query_plan_request="True"
    ),
    "ranges": lambda raw, path: raw.get(f"{path}/pkranges"),
    "offers": lambda raw, path: raw.get("/offers"),
    "query of offers": lambda raw, path: raw.query("/offers", "SELECT * FROM root"),
    "figures": lambda raw, path: raw.get("/_perseid/metrics"),
    "lifetimes": lambda raw, path: raw.get(
        "/_perseid/ttl" + path.replace("/dbs", "").replace("/colls", "")
    ),
}


def test_requests_about_the_rest_are_free(raw: RawClient, container: str) -> None:
    spend(raw, container, 400)
    statuses = {name: act(raw, container).status for name, act in FREE.items()}
    assert statuses == dict.fromkeys(FREE, 200)
    assert container_metrics(raw, container)["consumedTotal"] == 400


def test_what_requests_cost_is_booked(raw: RawClient, container: str) -> None:
    """T-157: the sum of the charges that clients see is what was consumed; a 429 costs nothing."""
    replies = [
        create_item(raw, container, "a", 5000),
        create_item(raw, container, "a"),  # 409
        read_item(raw, container, "a"),
        read_item(raw, container),  # 404
        raw.post(f"{container}/docs", {"id": "b", "pk": "p", "ttl": 0}, pk=P),
        raw.put(f"{container}/docs/a", {"id": "a", "pk": "p"}, pk=P, if_match='"stale"'),  # 412
        read_item(
            raw, container, "a", if_none_match=read_item(raw, container, "a").headers["etag"]
        ),
        raw.query(f"{container}/docs", "SELECT * FROM c"),
        raw.query(f"{container}/docs", "SELECT nonsense"),  # 400
        raw.get(f"{container}/docs"),
        raw.delete(f"{container}/docs/a", pk=P),
    ]
    paid = sum(map(charge, replies)) + 1.19  # the read whose etag was used
    consumed = container_metrics(raw, container)["consumedTotal"]
    assert consumed == pytest.approx(paid, abs=0.001)
    spend(raw, container, math.ceil(400 - paid))
    before = container_metrics(raw, container)
    for number in range(1, 4):
        assert read_item(raw, container).status == 429
        after = container_metrics(raw, container)
        assert after["consumedTotal"] == before["consumedTotal"]
        assert after["throttledTotal"] == number


# Whose budget


def test_containers_do_not_share_unless_their_database_does(raw: RawClient, database: str) -> None:
    one, other = (create_container(raw, database, name) for name in ("one", "other"))
    spend(raw, one, 400)
    assert read_item(raw, one).status == 429
    spend(raw, other, 400)


def test_a_database_shares_its_throughput(raw: RawClient, name: str, clock: MovableClock) -> None:
    assert raw.post("/dbs", {"id": name}, throughput="500").status == 201
    database = f"/dbs/{name}"
    one, other = (create_container(raw, database, each) for each in ("one", "other"))
    own = create_container(raw, database, "own", headers={"throughput": "400"})
    spend(raw, one, 300)
    spend(raw, other, 200)
    assert retry_after(read_item(raw, one)) == retry_after(read_item(raw, other)) == 1000
    spend(raw, own, 400)
    assert read_item(raw, own).status == 429
    clock.advance(1)
    spend(raw, other, 500)
    assert [container_metrics(raw, each)["consumedTotal"] for each in (one, other, own)] == [
        300,
        700,
        400,
    ]
    raw.delete(database)


def test_all_ranges_share_the_throughput_of_a_database(
    raw: RawClient, name: str, clock: MovableClock
) -> None:
    assert raw.post("/dbs", {"id": name}, throughput="11000").status == 201
    path = create_container(raw, f"/dbs/{name}")
    assert len(physical_ranges(raw, path)) == 2
    keys: dict[str, str] = {}
    for number in range(20):
        reply = read_item(raw, path, pk=f'["{number}"]')
        keys[reply.headers["x-ms-documentdb-partitionkeyrangeid"]] = str(number)
    number = 0
    while create_item(raw, path, str(number), 2 * MEGABYTE - 8192, keys["0"]).status == 201:
        number += 1
    assert number == 9  # one of two shares would be used up after half of them
    assert read_item(raw, path, pk=f'["{keys["1"]}"]').status == 429
    clock.advance(1)
    metrics = container_metrics(raw, path)
    assert (metrics["provisionedThroughput"], metrics["exhaustedSeconds"]) == (11000, 1)
    raw.delete(f"/dbs/{name}")


def test_a_new_container_of_the_same_name_has_a_new_budget(raw: RawClient, database: str) -> None:
    path = create_container(raw, database)
    spend(raw, path, 400)
    assert read_item(raw, path).status == 429
    assert raw.delete(path).status == 204
    create_container(raw, database)
    assert read_item(raw, path).status == 404
    assert container_metrics(raw, path)["consumedTotal"] == 1


@pytest.fixture
def exhausted_range(raw: RawClient, database: str) -> tuple[str, str, str]:
    """A container with two ranges of 10,000 RU/s, and a key of each: the first is used up."""
    path = create_container(
        raw,
        database,
        "wide",
        headers={AUTOPILOT: '{"maxThroughput":20000}'},
    )
    keys: dict[str, str] = {}
    for number in range(100):
        reply = raw.get(f"{path}/docs/none", pk=json.dumps([f"k{number}"]))
        keys.setdefault(reply.headers["x-ms-documentdb-partitionkeyrangeid"], f"k{number}")
        if len(keys) == 2:
            break
    number = 0
    while create_item(raw, path, str(number), 2 * MEGABYTE - 8192, keys["0"]).status == 201:
        number += 1
    assert number == 9
    return path, keys["0"], keys["1"]


def test_ranges_have_budgets_of_their_own(
    raw: RawClient, exhausted_range: tuple[str, str, str]
) -> None:
    path, hot, cold = exhausted_range
    docs = f"{path}/docs"
    text = "SELECT * FROM c"
    busy = {
        "read": raw.get(f"{docs}/none", pk=json.dumps([hot])),
        "range": raw.get(docs, range="0"),
        "everything": raw.get(docs),
        "query": raw.query(docs, text),
        "key": raw.query(docs, text, pk=json.dumps([hot])),
        "pinned": raw.query(docs, f"SELECT * FROM c WHERE c.pk = '{hot}'"),
        "body": raw.post(docs, {"id": "b", "pk": hot}),
        "interval": raw.get(docs, x_ms_read_key_type="EffectivePartitionKeyRange"),
    }
    assert {name: reply.status for name, reply in busy.items()} == dict.fromkeys(busy, 429)
    assert busy["read"].headers["x-ms-documentdb-partitionkeyrangeid"] == "0"
    _, second = physical_ranges(raw, path)
    calm = {
        "read": raw.get(f"{docs}/none", pk=json.dumps([cold])),
        "range": raw.get(docs, range="1"),
        "key": raw.query(docs, text, pk=json.dumps([cold])),
        "range query": raw.query(docs, text, range="1"),
        "pinned": raw.query(docs, f"SELECT * FROM c WHERE c.pk = '{cold}'"),
        "body": raw.post(docs, {"id": "b", "pk": cold}),
        "interval": raw.get(
            docs,
            x_ms_read_key_type="EffectivePartitionKeyRange",
            x_ms_start_epk=second["minInclusive"],
            x_ms_end_epk=second["maxExclusive"],
        ),
    }
    statuses = {name: reply.status for name, reply in calm.items()}
    assert statuses == dict.fromkeys(calm, 200) | {"read": 404, "body": 201}


def test_a_page_is_booked_where_it_found_its_items(
    raw: RawClient, exhausted_range: tuple[str, str, str], clock: MovableClock
) -> None:
    path, hot, _ = exhausted_range
    clock.advance(5)
    reply = raw.query(f"{path}/docs", "SELECT * FROM c")  # all of it lies in the first range
    assert charge(reply) > 500
    busiest = container_metrics(raw, path)["exhaustedSeconds"]
    number = 100
    while create_item(raw, path, str(number), 2 * MEGABYTE - 8192, hot).status == 201:
        number += 1
    assert number == 108  # one less than fits into a second without the query
    clock.advance(1)
    assert container_metrics(raw, path)["exhaustedSeconds"] == busiest + 1


def used_up(raw: RawClient, path: str, pk: str) -> int:
    """How many items of nearly 1250 RU a range takes until it has nothing left."""
    for number in range(20):
        if create_item(raw, path, f"{time.time_ns()}", 2 * MEGABYTE - 8192, pk).status == 429:
            return number
    raise AssertionError("never refused")


@pytest.fixture
def two_ranges(raw: RawClient, database: str) -> tuple[str, str, str]:
    """A container with two ranges of 5500 RU/s, and a key of each."""
    path = create_container(raw, database, headers={"throughput": "11000"})
    keys: dict[str, str] = {}
    for number in range(20):
        reply = read_item(raw, path, pk=f'["{number}"]')
        keys[reply.headers["x-ms-documentdb-partitionkeyrangeid"]] = str(number)
    return path, keys["0"], keys["1"]


@pytest.mark.parametrize("mode", ["Incremental feed", "Full-Fidelity Feed"])
def test_changes_are_booked_where_they_were_made(
    raw: RawClient, two_ranges: tuple[str, str, str], clock: MovableClock, mode: str
) -> None:
    path, one, two = two_ranges
    policy = {
        "id": "c",
        "partitionKey": PARTITION_KEY,
        "changeFeedPolicy": {"retentionDuration": 10},
    }
    assert raw.put(path, policy).status == 200
    start = raw.get(f"{path}/docs", a_im=mode, if_none_match="*").headers["etag"]
    for number in range(8):
        assert create_item(raw, path, str(number), MEGABYTE // 2, two).status == 201
    clock.advance(100)
    pages = [raw.get(f"{path}/docs", a_im=mode, if_none_match=start) for _ in range(10)]
    assert sum(charge(page) for page in pages if page.status == 200) > 2500
    assert used_up(raw, path, one) == 5
    assert used_up(raw, path, two) < 5


def test_a_bulk_request_is_booked_where_it_wrote(
    raw: RawClient, two_ranges: tuple[str, str, str], clock: MovableClock
) -> None:
    path, one, two = two_ranges
    clock.advance(100)

    def bulk(number: int) -> Reply:
        text = "x" * 1024 * 1024
        item = {"id": str(number), "pk": two, "text": text}
        operation = {"operationType": "Create", "partitionKey": f'["{two}"]', "resourceBody": item}
        return raw.batch(path, [operation], atomic=False)

    replies = [bulk(number).status for number in range(20)]
    assert replies[:8] == [200] * 8
    assert replies[-1] == 429  # for want of budget in the range that it is for
    assert used_up(raw, path, two) == 0
    assert used_up(raw, path, one) == 5


# Pages under pressure


@pytest.mark.parametrize("kind", ["feed", "query"])
def test_pages_are_shorter_when_little_is_left(
    raw: RawClient, container: str, clock: MovableClock, kind: str
) -> None:
    for number in range(60):
        clock.advance(1)
        assert create_item(raw, container, f"a{number}").status == 201
    clock.advance(1)

    def page(**headers: str) -> Reply:
        if kind == "feed":
            return raw.get(f"{container}/docs", **headers)
        return raw.query(f"{container}/docs", "SELECT * FROM c", **headers)

    spend(raw, container, 390)
    first = page()
    assert first.status == 200
    assert first.json["_count"] == 10  # what is left pays for ten items
    assert page().status == 429
    clock.advance(1)
    second = page(continuation=first.headers["x-ms-continuation"])
    assert "x-ms-continuation" not in second.headers
    found = [document["id"] for reply in (first, second) for document in reply.json["Documents"]]
    assert found == [f"a{number}" for number in range(60)]


# Changes of the offer


def offer_of(raw: RawClient, path: str) -> dict[str, Any]:
    link = raw.get(path).json["_self"]
    offers = raw.query("/offers", f"SELECT * FROM root WHERE root.resource = '{link}'").json
    (offer,) = offers["Offers"]
    assert isinstance(offer, dict)
    return offer


def test_another_throughput_counts_at_once(
    raw: RawClient, container: str, clock: MovableClock
) -> None:
    spend(raw, container, 400)
    assert read_item(raw, container).status == 429
    offer = offer_of(raw, container)
    offer["content"]["offerThroughput"] = 500
    assert raw.put(f"/offers/{offer['_rid']}", offer).status == 200
    spend(raw, container, 100)
    assert read_item(raw, container).status == 429
    assert container_metrics(raw, container)["provisionedThroughput"] == 500
    clock.advance(1)
    spend(raw, container, 450)
    offer["content"]["offerThroughput"] = 400
    assert raw.put(f"/offers/{offer['_rid']}", offer).status == 200
    assert retry_after(read_item(raw, container)) == 1000
    clock.advance(1)
    spend(raw, container, 400)
    assert read_item(raw, container).status == 429


def test_autoscale_goes_up_to_its_maximum(
    raw: RawClient, database: str, clock: MovableClock
) -> None:
    path = create_container(raw, database, headers={AUTOPILOT: '{"maxThroughput":1000}'})
    assert container_metrics(raw, path)["scaledThroughput"] == 100
    spend(raw, path, 700)
    found = container_metrics(raw, path)
    assert (found["scaledThroughput"], found["billedThroughput"]) == (700, 700)
    spend(raw, path, 300)
    assert read_item(raw, path).status == 429
    clock.advance(1)
    found = container_metrics(raw, path)
    assert (found["scaledThroughput"], found["billedThroughput"]) == (100, 1000)
    assert found["provisionedThroughput"] == 1000
    clock.advance(3600)
    assert container_metrics(raw, path)["billedThroughput"] == 100


# Priorities


def test_low_priority_is_refused_first(raw: RawClient, container: str, clock: MovableClock) -> None:
    spend(raw, container, 180)
    spend(raw, container, 180, **LOW)
    refused = read_item(raw, container, **LOW)
    assert retry_after(refused) == 1000
    spend(raw, container, 40)
    assert read_item(raw, container).status == 429
    clock.advance(1)
    spend(raw, container, 180, **LOW)  # the others took 220 in the second before
    assert read_item(raw, container, **LOW).status == 429
    spend(raw, container, 220)


def test_low_priority_alone_has_everything(raw: RawClient, container: str) -> None:
    spend(raw, container, 400, **LOW)
    assert read_item(raw, container, **LOW).status == 429
    assert read_item(raw, container).status == 429


def test_a_saturated_container_makes_low_priority_wait(
    raw: RawClient, container: str, clock: MovableClock
) -> None:
    spend(raw, container, 400)
    assert retry_after(read_item(raw, container)) == 1000
    assert retry_after(read_item(raw, container, **LOW)) == 2000
    clock.advance(1)
    assert retry_after(read_item(raw, container, **LOW)) == 1000
    clock.advance(1)
    assert read_item(raw, container, **LOW).status == 404


# Serverless, and not at all


def test_a_serverless_account_has_no_offers(place: Place, clock: MovableClock) -> None:
    settings = place.fresh(serverless=True, enforce_throughput=True)
    with serving(settings, clock) as raw:
        for headers in ({"throughput": "400"}, {AUTOPILOT: '{"maxThroughput":1000}'}):
            reply = raw.post("/dbs", {"id": "d"}, **headers)
            assert reply.status == 400
            assert "not supported for serverless accounts" in reply.json["message"]
        assert raw.post("/dbs", {"id": "d"}).status == 201
        body = {"id": "c", "partitionKey": PARTITION_KEY}
        assert raw.post("/dbs/d/colls", body, throughput="400").status == 400
        path = create_container(raw, "/dbs/d")
        assert raw.get("/offers").json["Offers"] == []
        assert raw.query("/offers", "SELECT * FROM root").json["Offers"] == []
        assert raw.get("/offers/abcd").status == 400
        number = 0
        while create_item(raw, path, str(number), 2 * MEGABYTE - 8192).status == 201:
            number += 1
        assert number == 5  # of nearly 1250, out of 5000
        assert container_metrics(raw, path)["billedThroughput"] is None


def test_nothing_is_refused_by_default(place: Place, clock: MovableClock) -> None:
    with serving(place.fresh(), clock) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        path = create_container(raw, "/dbs/d")
        assert create_item(raw, path, "large", 2 * MEGABYTE - 8192).status == 201
        spend(raw, path, 500)
        found_figures = container_metrics(raw, path)
        assert found_figures["consumedTotal"] is None
        assert found_figures["exhaustedSeconds"] == 0
