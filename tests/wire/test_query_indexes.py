"""Which queries the store answers through an index, and when there is one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from perseid.clock import MovableClock
from perseid.errors import InsufficientStorage
from perseid.query import CallContext, compile_query, run
from perseid.service.queries.pages import builder
from perseid.store.sql import candidates, index_limits
from perseid.store.sqlite.queries import SqliteQueries
from tests.support.builders import create_container
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.servers import serving
from tests.support.stores import Place

COUNT = 60
CONTAINER = "/dbs/shop/colls/things"


@pytest.fixture(autouse=True)
def _index_small_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 20)


@pytest.fixture
def shop(place: Place) -> Iterator[RawClient]:
    with running(place.lasting()) as settings:
        client = RawClient(settings.endpoint)
        create_things(client)
        yield client
        client.close()


def create_things(client: RawClient, **definition: Any) -> None:
    client.post("/dbs", {"id": "shop"})
    create_container(client, "/dbs/shop", "things", **definition)
    for number in range(COUNT):
        thing = {
            "id": f"t{number:02d}",
            "pk": f"p{number % 3}",
            "n": number,
            "even": number % 2 == 0,
            "kind": ("cup", "pan", None, 7)[number % 4],
            "maker": {"city": ("Oslo", "Bern")[number % 2]},
            "tags": ["a", "b"][: number % 3],
        }
        if number % 5 == 0:
            del thing["kind"]
        reply = client.post(f"{CONTAINER}/docs", thing, pk=f'["{thing["pk"]}"]')
        assert reply.status == 201


def analyze(client: RawClient, query: str, **more: Any) -> dict[str, Any]:
    """The explanation of a query after its first page has run, so that its indexes exist."""
    return explain(client, query, analyze=True, **more)


def explain(client: RawClient, query: str, **more: Any) -> dict[str, Any]:
    asked = {"database": "shop", "container": "things", "query": query, **more}
    reply = client.post("/_perseid/explain", asked)
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = reply.json
    return answer


@pytest.mark.parametrize(
    ("query", "access", "index", "examined", "returned"),
    [
        ("SELECT * FROM c WHERE c.n = 7", "index", "/n/?", 1, 1),
        ("SELECT * FROM c WHERE 7 = c.n AND c.even = false", "index", "/n/?", 1, 1),
        ("SELECT * FROM c WHERE c.n > 7 AND c.n <= 11", "index", "/n/?", 4, 4),
        ("SELECT * FROM c WHERE c.n BETWEEN 3 AND 5", "index", "/n/?", 3, 3),
        ("SELECT * FROM c WHERE c.n IN (1, 2, 'x', null)", "index", "/n/?", 2, 2),
        ("SELECT * FROM c WHERE STARTSWITH(c.id, 't1')", "index", "/id/?", 10, 10),
        ("SELECT * FROM c WHERE c.maker.city = 'Oslo'", "index", "/maker/city/?", 30, 30),
        ("SELECT * FROM c WHERE c.even", "index", "/even/?", 30, 30),
        ("SELECT * FROM c WHERE NOT IS_DEFINED(c.kind)", "index", "/kind/?", 12, 12),
        ("SELECT * FROM c WHERE IS_DEFINED(c.kind) = false", "index", "/kind/?", 12, 12),
        ("SELECT * FROM c WHERE true != IS_DEFINED(c.kind)", "index", "/kind/?", 12, 12),
        ("SELECT * FROM c WHERE (c.n = 7) = true", "index", "/n/?", 1, 1),
        ("SELECT * FROM c WHERE STRINGEQUALS(c.id, 't07')", "index", "/id/?", 1, 1),
        ("SELECT * FROM c WHERE c.kind = null", "index", "/kind/?", 12, 12),
        ("SELECT * FROM c WHERE c.n = 3 + 4", "index", "/n/?", 1, 1),
        ("SELECT * FROM c WHERE c.id IN (LOWER('T07'), 't0' || '8')", "index", "/id/?", 2, 2),
        ("SELECT * FROM c WHERE c.n = 7 AND 1 = 2 - 1", "index", "/n/?", 1, 1),
        ("SELECT * FROM c WHERE c.n = (1 > 2 ? 5 : 6)", "index", "/n/?", 1, 1),
        (
            "SELECT * FROM c WHERE ARRAY_CONTAINS(ARRAY_SLICE([0, 1, 2], 1), c.n)",
            "index",
            "/n/?",
            2,
            2,
        ),
        ("SELECT * FROM c WHERE STARTSWITH(c.id, CONCAT('t', '1'))", "index", "/id/?", 10, 10),
        ("SELECT * FROM c WHERE c.n > GetCurrentTimestamp() / 1e6", "index", "/n/?", 0, 0),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n < LENGTH(NOW())", "index", "/n/?", 28, 1),
        ("SELECT * FROM c WHERE c.n = 7 AND LOWER(c.id) = 't07'", "index", "/n/?", 1, 1),
        (
            "SELECT * FROM c WHERE (c.id = 't01' AND c.pk = 'p1') OR (c.id = 't05' AND c.n = 9)",
            "index",
            "/id/?",
            2,
            1,
        ),
        ("SELECT TOP 3 * FROM c ORDER BY c.n DESC", "order", "/n/?", 3, 3),
        ("SELECT c.id FROM c ORDER BY c.kind OFFSET 2 LIMIT 4", "order", "/kind/?", 6, 4),
        ("SELECT TOP 3 * FROM c ORDER BY c.n DESC, c.kind", "order", "/n/?", 5, 3),
        ("SELECT * FROM c ORDER BY c.n, LOWER(c.id) OFFSET 2 LIMIT 4", "order", "/n/?", 7, 4),
        ("SELECT * FROM c WHERE c.pk = 'p1' ORDER BY c.n", "key", None, 20, 20),
        ("SELECT * FROM c WHERE c.pk = 'p1' AND c.id = 't01'", "key", None, 1, 1),
        ("SELECT c.n FROM c WHERE c.pk = 'p1' AND c.id IN ('t1', 't01', 't04')", "key", None, 2, 2),
        ("SELECT * FROM c WHERE c.pk = 'p1' AND c.id != 't01'", "key", None, 20, 19),
        ("SELECT * FROM c WHERE LOWER(c.id) = 't07'", "scan", None, 60, 1),
        ("SELECT * FROM c WHERE c.n = 1 OR c.even", "scan", None, 60, 31),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n < 10", "index", "/n/?", 10, 1),
        ("SELECT TOP 2 * FROM c ORDER BY c.tags", "order", "/tags/?", 60, 2),
        # If no examined item is rejected, the page examines only the items it loads.
        ("SELECT TOP 2 * FROM c", "scan", None, 2, 2),
        ("SELECT c.id FROM c OFFSET 3 LIMIT 2", "scan", None, 5, 2),
        ("SELECT TOP 2 * FROM c WHERE c.n > 7", "index", "/n/?", 2, 2),
        ("SELECT TOP 2 c.id FROM c WHERE c.pk = 'p1'", "key", None, 2, 2),
        ("SELECT TOP 2 * FROM c WHERE c.n > 7 AND c.even", "index", "/even/?", 30, 2),
        ("SELECT TOP 2 VALUE c.kind FROM c", "scan", None, 60, 2),
        ("SELECT TOP 2 c.id FROM c JOIN t IN c.tags", "scan", None, 60, 2),
        ("SELECT TOP 2 * FROM c WHERE LOWER(c.id) != 't07'", "scan", None, 60, 2),
    ],
)
def test_access(
    shop: RawClient, query: str, access: str, index: str | None, examined: int, returned: int
) -> None:
    found = analyze(shop, query)
    assert (found["access"], found["index"]) == (access, index)
    if index != "/tags/?":  # arrays have an order of their own, so all were sorted
        assert (found["examined"], found["returned"]) == (examined, returned)
    assert len(found["tree"].splitlines()) >= 2


def test_what_no_item_has_a_say_in_is_not_evaluated(shop: RawClient) -> None:
    given = [{"name": "@who", "value": "me"}]
    for condition in ("1 = 1 AND @who = 'me'", "@who = 'me' OR 1 > 2"):
        found = analyze(shop, f"SELECT * FROM c WHERE {condition}", parameters=given)
        assert (found["pushed"], found["evaluated"]) == ([condition], [])
        assert found["returned"] == COUNT


@pytest.mark.parametrize(
    ("condition", "now"),
    [
        ("c.at > GetCurrentTimestamp() - 1000 * @seconds", lambda at: at * 1000),
        (
            "c.at >= DateTimeAdd('ss', 1 - @seconds, GetCurrentDateTime())",
            lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.0000000Z"),
        ),
    ],
)
def test_a_filter_by_the_time_is_new_with_each_request(
    place: Place, condition: str, now: Callable[[int], Any]
) -> None:
    clock = MovableClock()
    start = math.ceil(clock.freeze())
    clock.set(start)
    query = f"SELECT VALUE c.n FROM c WHERE {condition}"
    parameters = [{"name": "@seconds", "value": 3}]
    with serving(place.lasting(), clock) as raw:
        create_things(raw)
        for number in range(COUNT):
            body = {"id": f"e{number}", "pk": "e", "n": number, "at": now(start + number)}
            assert raw.post(f"{CONTAINER}/docs", body, pk='["e"]').status == 201
        for passed in range(0, COUNT, 20):
            clock.set(start + passed)
            reply = raw.query(f"{CONTAINER}/docs", query, parameters)
            assert reply.json["Documents"] == list(range(max(0, passed - 2), COUNT))
            found = analyze(raw, query, parameters=parameters)
            assert (found["access"], found["index"]) == ("index", "/at/?")
            assert found["evaluated"] == []


@pytest.mark.parametrize(
    "condition",
    [
        "c.id IN ({ids})",
        "({rows})",
    ],
)
def test_a_thousand_items_are_looked_up(shop: RawClient, condition: str) -> None:
    """What clients send to read many items by their keys."""
    wanted = [f"t{number:02d}" for number in range(1000)]
    rows = [
        f"( c.id = '{name}' AND c.pk = 'p{int(name[1:]) % 3}' AND c.n = {int(name[1:])} )"
        for name in wanted
    ]
    where = condition.format(ids=", ".join(f"'{name}'" for name in wanted), rows=" OR ".join(rows))
    found = analyze(shop, f"SELECT * FROM c WHERE {where}")
    assert (found["access"], found["index"]) == ("index", "/id/?")
    assert (found["examined"], found["returned"]) == (COUNT, COUNT)
    assert "evaluated" not in found["tree"]


@pytest.mark.parametrize(
    "query",
    [
        "c.kind, COUNT(1) AS n FROM c GROUP BY c.kind",
        "DISTINCT c.kind FROM c",
        "VALUE COUNT(1) FROM (SELECT DISTINCT c.kind FROM c)",
    ],
)
def test_combined_values_come_from_their_index(shop: RawClient, query: str) -> None:
    found = analyze(shop, f"SELECT {query}")
    assert (found["access"], found["index"], found["examined"]) == ("index", "/kind/?", COUNT)


def test_the_tree_is_readable(shop: RawClient) -> None:
    found = analyze(
        shop,
        "SELECT TOP 5 c.id FROM c JOIN t IN c.tags"
        " WHERE c.maker.city = @city AND t = 'a' AND LOWER(c.id) != 't07' ORDER BY c.n DESC",
        parameters=[{"name": "@city", "value": "Oslo"}],
    )
    assert found["tree"].splitlines() == [
        "Result  5 rows",
        "└─ Limit 5",
        "   └─ Sort  c.n DESC",
        "      └─ Filter (evaluated)  t = 'a' AND LOWER(c.id) != 't07'",
        "         └─ Join",
        "            └─ Index scan  index on /maker/city, 30 items examined",
        "               └─ Filter (store)  c.maker.city = @city",
    ]
    assert found["pushed"] == ["c.maker.city = @city"]
    assert found["evaluated"] == ["t = 'a'", "LOWER(c.id) != 't07'"]
    assert found["hasMore"] is False


def test_the_tree_tells_what_the_index_leaves_to_sort(shop: RawClient) -> None:
    found = analyze(shop, "SELECT TOP 2 c.id FROM c ORDER BY c.n DESC, c.id")
    assert found["tree"].splitlines() == [
        "Result  2 rows",
        "└─ Limit 2",
        "   └─ Sort ties  c.n DESC, c.id",
        "      └─ Ordered scan  /n descending, index on /n, 5 items examined",
    ]


def test_explain_does_not_run_the_query(shop: RawClient) -> None:
    """No index is created, nothing is counted; after a run, the plan has the index."""
    query = "SELECT TOP 2 * FROM c WHERE c.n >= 7 AND LOWER(c.id) != 't07' ORDER BY c.maker.city"
    before = explain(shop, query)
    fields: dict[str, Any] = {"pushed": ["c.n >= 7"], "evaluated": ["LOWER(c.id) != 't07'"]}
    fields["refusal"] = before["refusal"]
    scan = {"access": "scan", "index": None, "tree": before["tree"], "obstacle": "missing"}
    fields["building"] = {}
    assert before == scan | fields | {"candidates": ["/n/?", "/maker/city/?"]}
    assert before["tree"].splitlines() == [
        "Limit 2",
        "└─ Sort  c.maker.city",
        "   └─ Filter (evaluated)  LOWER(c.id) != 't07'",
        "      └─ Scan  all items",
        "         └─ Filter (store)  c.n >= 7",
    ]
    assert analyze(shop, query)["returned"] == 2
    after = explain(shop, query, analyze=False)
    found = {"access": "index", "index": "/n/?", "tree": after["tree"], "obstacle": None}
    assert after == found | fields | {"candidates": []}
    assert "      └─ Index scan  index on /n" in after["tree"].splitlines()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"database": "shop", "container": "things"},
        {"database": "shop", "container": "things", "query": 7},
        {"database": 1, "container": "things", "query": "SELECT 1"},
        {"database": "shop", "container": "things", "query": "SELECT"},
        {"database": "shop", "container": "things", "query": "SELECT 1", "parameters": 1},
        {"database": "shop", "container": "things", "query": "SELECT 1", "partitionKey": [1, 2]},
        {"database": "shop", "container": "things", "query": "SELECT 1", "analyze": "yes"},
    ],
)
def test_bad_explanations(shop: RawClient, body: dict[str, Any]) -> None:
    assert shop.post("/_perseid/explain", body).status == 400


def test_explain_in_an_unknown_container(shop: RawClient) -> None:
    asked = {"database": "shop", "container": "no", "query": "SELECT 1"}
    assert shop.post("/_perseid/explain", asked).status == 404


def test_small_containers_are_scanned(shop: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", COUNT + 1)
    answer = analyze(shop, "SELECT * FROM c WHERE c.n = 7")
    assert (answer["access"], answer["obstacle"]) == ("scan", "small")


@pytest.mark.parametrize(
    ("query", "obstacle", "candidates"),
    [
        ("SELECT * FROM c", "filter", []),
        ("SELECT VALUE COUNT(1) FROM c", "filter", []),
        ("SELECT * FROM c WHERE CONTAINS(c.id, '1')", "terms", []),
        ("SELECT * FROM c WHERE LOWER(c.id) = 't07'", "terms", []),
        ("SELECT * FROM c WHERE c._etag = 'x'", "policy", ["/_etag/?"]),
        ("SELECT * FROM c ORDER BY c._etag", "policy", ["/_etag/?"]),
        ("SELECT * FROM c WHERE c.n = 7", None, []),
        ("SELECT * FROM c WHERE c.pk = 'p1'", None, []),
    ],
)
def test_the_obstacle_of_a_scan(
    shop: RawClient, query: str, obstacle: str | None, candidates: list[str]
) -> None:
    answer = analyze(shop, query)
    assert (answer["obstacle"], answer["candidates"]) == (obstacle, candidates)


@pytest.mark.parametrize(
    ("policy", "access"),
    [
        ({"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/n/?"}]}, "scan"),
        ({"includedPaths": [{"path": "/n/?"}], "excludedPaths": [{"path": "/*"}]}, "index"),
        ({"indexingMode": "none", "automatic": False}, "scan"),
    ],
)
def test_the_policy_says_what_may_be_indexed(
    place: Place, policy: dict[str, Any], access: str
) -> None:
    with running(place.lasting()) as settings:
        client = RawClient(settings.endpoint)
        create_things(client, indexingPolicy=policy)
        found = analyze(client, "SELECT * FROM c WHERE c.n = 7")
        assert (found["access"], found["returned"]) == (access, 1)
        client.close()


def test_excluding_a_path_drops_its_index(shop: RawClient) -> None:
    query = "SELECT * FROM c WHERE c.n = 7"
    assert analyze(shop, query)["access"] == "index"
    body = shop.get(CONTAINER).json
    body["indexingPolicy"]["excludedPaths"] = [{"path": "/n/?"}]
    assert shop.put(CONTAINER, body).status == 200
    assert analyze(shop, query)["access"] == "scan"
    body["indexingPolicy"]["excludedPaths"] = []
    assert shop.put(CONTAINER, body).status == 200
    assert analyze(shop, query)["access"] == "index"


def test_indexes_survive_a_restart(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = place.lasting()
    with running(settings) as started:
        client = RawClient(started.endpoint)
        create_things(client)
        analyze(client, "SELECT * FROM c WHERE c.n = 7")
        client.close()
    # No new ones from here on.
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 10**9)
    with running(settings) as started:
        client = RawClient(started.endpoint)
        assert analyze(client, "SELECT * FROM c WHERE c.n = 8")["index"] == "/n/?"
        assert analyze(client, "SELECT * FROM c WHERE c.id = 't01'")["index"] is None
        client.close()


def test_indexes_in_use_are_not_dropped_for_others(
    shop: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise queries over many paths have indexes created and dropped before each write."""
    monkeypatch.setattr(index_limits, "MOST_INDEXES", 2)
    queries = {path: f"SELECT * FROM c WHERE c.{path} = true" for path in ("n", "id", "even")}
    for path in [*queries] * 3:
        analyze(shop, queries[path])
    methods = [analyze(shop, queries[path])["access"] for path in [*queries] * 2]
    assert methods == ["index", "index", "scan"] * 2
    # Unused for a while, the first one is dropped.
    monkeypatch.setattr(index_limits, "KEPT_SECONDS", 0.0)
    assert analyze(shop, queries["even"])["access"] == "index"
    assert analyze(shop, queries["id"])["access"] == "index"


def test_the_least_used_index_makes_way(shop: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_limits, "MOST_INDEXES", 2)
    monkeypatch.setattr(index_limits, "KEPT_SECONDS", 0.0)
    for path in ("n", "id", "n", "even"):
        analyze(shop, f"SELECT * FROM c WHERE c.{path} = true")
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 10**9)
    assert analyze(shop, "SELECT * FROM c WHERE c.n = 1")["access"] == "index"
    assert analyze(shop, "SELECT * FROM c WHERE c.even = true")["access"] == "index"
    assert analyze(shop, "SELECT * FROM c WHERE c.id = 't01'")["access"] == "scan"


def test_many_candidates_are_found_by_a_scan(
    shop: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "MAX_INDEXED_ITEMS", 5)
    reply = shop.query(f"{CONTAINER}/docs", "SELECT VALUE c.n FROM c WHERE c.n >= 10")
    assert reply.json["Documents"] == [*range(10, COUNT)]


def test_a_page_that_takes_too_long_ends_with_a_token(place: Place) -> None:
    with running(place.lasting(query_page_seconds=0)) as settings:
        client = RawClient(settings.endpoint)
        create_things(client)
        found, pages, token = [], 0, ""
        while token or not pages:
            more = {"continuation": token} if token else {}
            reply = client.query(
                f"{CONTAINER}/docs",
                "SELECT VALUE c.n FROM c WHERE LOWER(c.id) > 't3'",
                count="4",
                **more,
            )
            found += reply.json["Documents"]
            token = reply.headers.get("x-ms-continuation", "")
            pages += 1
        assert found == [*range(30, COUNT)]
        assert pages > 10
        client.close()


@pytest.mark.parametrize("shown", ["c", "c.n"])
def test_an_offset_is_not_forgotten_when_a_page_takes_too_long(
    place: Place, monkeypatch: pytest.MonkeyPatch, shown: str
) -> None:
    monkeypatch.setattr(builder, "CHUNK", 5)
    with running(place.lasting(query_page_seconds=0)) as settings:
        client = RawClient(settings.endpoint)
        create_things(client)
        found, pages, token = [], 0, ""
        while token or not pages:
            more = {"continuation": token} if token else {}
            reply = client.query(
                f"{CONTAINER}/docs",
                f"SELECT VALUE {shown} FROM c WHERE c.id >= 't10' OFFSET 12 LIMIT 7",
                count="4",
                **more,
            )
            found += reply.json["Documents"]
            token = reply.headers.get("x-ms-continuation", "")
            pages += 1
        assert [each["n"] if shown == "c" else each for each in found] == [*range(22, 29)]
        assert pages > 3
        client.close()


@pytest.mark.only_on("sqlite", reason="PostgreSQL drops indexes later")
def test_a_change_is_in_force_although_an_index_stays(
    shop: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that gets the answer that nothing was written can rely on it."""

    async def full(*_: Any) -> None:
        raise InsufficientStorage("full")

    monkeypatch.setattr(SqliteQueries, "drop_disallowed_indexes", full)
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/n/?"}]}
    body = shop.get(CONTAINER).json | {"indexingPolicy": policy, "defaultTtl": 500}
    assert shop.put(CONTAINER, body).status == 200
    assert shop.get(CONTAINER).json["defaultTtl"] == 500


SHORT = (None, True, 1, 2**53 + 1, -0.5, "", "a", "a\u0001", "é", "x" * 380)
LONG = ("x" * 395, "x" * 399, "x" * 500)  # positions hold the first 400 bytes of keys


@pytest.mark.parametrize(
    ("size", "keys"), [(1, SHORT), (7, SHORT), (7, LONG), (1000, SHORT + LONG)]
)
@pytest.mark.parametrize(
    "order", ["c.a, c.b", "c.a DESC, c.b", "c.a, c.b DESC", "c.a DESC, c.b DESC"]
)
def test_an_order_of_several_keys_follows_the_index_of_the_first(
    place: Place, order: str, size: int, keys: tuple[Any, ...]
) -> None:
    """Page by page, it is the order of the evaluator; long keys need not be, and are all there."""
    with serving(place.lasting()) as raw:
        raw.post("/dbs", {"id": "shop"})
        body = {"id": "things", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
        assert raw.post("/dbs/shop/colls", body).status == 201
        items = []
        for number in range(70):
            item: dict[str, Any] = {"id": f"t{number}", "pk": "p", "b": number * 37 % 10}
            if kind := number % (len(keys) + 1):
                item["a"] = keys[kind - 1]
            items.append(raw.post(f"{CONTAINER}/docs", item, pk='["p"]').json)
        for where, way in (("", "order"), ("c.b > 3 AND ", "index"), ("c.b + 0 > 3 AND ", "order")):
            text = f"SELECT VALUE c.id FROM c WHERE {where}true ORDER BY {order}"
            expected = list(run(compile_query(text), items, {}, CallContext(0.0, lambda: 0.0)))
            found = [row for page in query_pages(raw, text, size) for row in page]
            if keys is LONG:
                found.sort()
                expected.sort()
            assert found == expected
            assert analyze(raw, text)["access"] == way


def query_pages(raw: RawClient, text: str, size: int) -> Iterator[list[Any]]:
    token: str | None = ""
    while token is not None:
        more = {"continuation": token} if token else {}
        reply = raw.query(f"{CONTAINER}/docs", text, count=str(size), **more)
        assert reply.status == 200, reply
        yield reply.json["Documents"]
        token = reply.headers.get("x-ms-continuation")
