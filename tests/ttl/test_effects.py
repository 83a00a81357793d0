"""What each operation makes of a dead item: nothing at all (T-070 to T-100, T-155 to T-157).

Nearly everything here runs twice: while the dead item still lies on disk, and after it was purged.
No client may be able to tell the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pytest
from azure.cosmos import CosmosClient

from perseid.clock import MovableClock
from tests.support.raw import RawClient, Reply
from tests.ttl.conftest import Shelf, Shelves, assert_gone

NEVER_WAS: Final = '"00000000-0000-0000-0000-000000000000"'
# Differ from one request to the next, whatever they are about.
_VOLATILE: Final = {"x-ms-activity-id", "date"}

Bury = Callable[[Shelf], None]


@pytest.fixture(params=["unpurged", "purged"])
def bury(request: pytest.FixtureRequest) -> Bury:
    """Called when items have died: leaves them where they are, or removes them."""

    def leave(_shelf: Shelf) -> None:
        return

    def remove(shelf: Shelf) -> None:
        drain(shelf)

    return remove if request.param == "purged" else leave


def drain(shelf: Shelf) -> int:
    """Removes all the dead; how many they were."""
    reply = shelf.raw.post(f"{shelf.admin}/drain", {})
    assert reply.status == 200, reply
    purged: int = reply.json["purged"]
    return purged


def same(reply: Reply) -> tuple[int, dict[str, str], str]:
    """An answer without what makes every answer unique."""
    headers = {name: value for name, value in reply.headers.items() if name not in _VOLATILE}
    return reply.status, headers, re.sub(r"ActivityId: [\w-]+", "", reply.body.decode())


def charge(reply: Reply) -> float:
    return float(reply.headers["x-ms-request-charge"])


def lsn(shelf: Shelf) -> int:
    """The last LSN of a container with one range."""
    token = shelf.raw.get(f"{shelf.path}/docs").headers["x-ms-session-token"]
    match = re.fullmatch(r"0:-1#(\d+)", token)
    assert match, token
    return int(match[1])


@pytest.fixture
def shelf(shelves: Shelves) -> Shelf:
    """Lifetimes are the items' own."""
    return shelves.make(-1)


@pytest.fixture
def dead(shelf: Shelf, bury: Bury) -> dict[str, Any]:
    """The item `dead` as it was while it lived; `alive` lies beside it."""
    stored = shelf.create("dead", 5)
    shelf.create("alive")
    shelf.clock.advance(5)
    bury(shelf)
    return stored


# Point operations -------------------------------------------------------------------------------

# Conditions that would decide something if the item existed; {etag} is the last one it had.
CONDITIONS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"if_match": "{etag}"},
    {"if_match": NEVER_WAS},
    {"if_match": "*"},
    {"if_none_match": "{etag}"},
    {"if_none_match": "*"},
    {"if_none_match": NEVER_WAS},
)
LOST: Final = ("read", "replace", "delete")


def perform(shelf: Shelf, verb: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
    """One of LOST on the item at `path`, whatever it is named by."""
    with_key = {"pk": '["p"]', **headers}
    if verb == "replace":
        return shelf.raw.put(path, body, **with_key)
    return (shelf.raw.get if verb == "read" else shelf.raw.delete)(path, **with_key)


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
@pytest.mark.parametrize("verb", LOST)
def test_nothing_finds_a_dead_item(
    shelf: Shelf, dead: dict[str, Any], verb: str, condition: dict[str, str]
) -> None:
    """T-070, T-071, T-072, T-074: the very answer for an id that never existed."""
    before = lsn(shelf)
    headers = {name: value.format(etag=dead["_etag"]) for name, value in condition.items()}
    replies = [
        perform(shelf, verb, f"{shelf.path}/docs/{id_}", shelf.body(id_), headers)
        for id_ in ("dead", "fresh")
    ]
    assert_gone(replies[0])
    assert same(replies[0]) == same(replies[1])
    assert shelf.seen("dead", "fresh", "alive") == {"alive"}
    assert lsn(shelf) == before


@pytest.mark.parametrize("verb", LOST)
@pytest.mark.parametrize("link", ["self", "rid"])
def test_nothing_finds_a_dead_item_by_rid(
    shelf: Shelf, dead: dict[str, Any], verb: str, link: str
) -> None:
    """T-070: `_self` names what `id` names."""
    path = f"/{dead['_self']}" if link == "self" else f"{shelf.path}/docs/{dead['_rid']}"
    assert_gone(perform(shelf, verb, path, shelf.body("dead"), {}))
    assert shelf.seen("dead", "alive") == {"alive"}


def test_a_living_item_is_found_by_rid(shelf: Shelf) -> None:
    """Without which the test above would prove nothing."""
    stored = shelf.create("a", 5)
    for path in (f"/{stored['_self']}", f"{shelf.path}/docs/{stored['_rid']}"):
        for verb, status in (("read", 200), ("replace", 200)):
            assert perform(shelf, verb, path, shelf.body("a", 5), {}).status == status
    assert perform(shelf, "delete", f"/{stored['_self']}", None, {}).status == 204


@pytest.mark.parametrize(("verb", "status"), [("read", 200), ("replace", 200), ("delete", 204)])
def test_a_dead_id_hides_nobody(shelf: Shelf, bury: Bury, verb: str, status: int) -> None:
    """An id may look like the rid of another item; once it is dead, the rid names that item."""
    other = shelf.create("other")
    shelf.create(other["_rid"], 5)
    shelf.clock.advance(5)
    bury(shelf)
    path = f"{shelf.path}/docs/{other['_rid']}"
    reply = perform(shelf, verb, path, shelf.body("other"), {})
    assert reply.status == status, reply
    assert verb != "read" or reply.json["id"] == "other"


@pytest.mark.parametrize("consistency", ["Session", "ConsistentPrefix", "Eventual"])
def test_no_consistency_level_brings_it_back(
    shelf: Shelf, dead: dict[str, Any], consistency: str
) -> None:
    assert_gone(shelf.read("dead", x_ms_consistency_level=consistency))


# The id is free again ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"upsert": "true"},
        {"upsert": "true", "if_match": "{etag}"},
        {"upsert": "true", "if_match": NEVER_WAS},
        {"upsert": "true", "if_match": "*"},
    ],
    ids=str,
)
def test_the_id_is_free(shelf: Shelf, dead: dict[str, Any], headers: dict[str, str]) -> None:
    """T-075, T-076, T-077: an insert of a new item that only shares the name."""
    headers = {name: value.format(etag=dead["_etag"]) for name, value in headers.items()}
    before = lsn(shelf)
    reply = shelf.post(shelf.body("dead", 7, note="new"), **headers)
    assert reply.status == 201, reply
    new = reply.json
    assert new["_rid"] != dead["_rid"]
    assert new["_self"] != dead["_self"]
    assert new["_etag"] != dead["_etag"]
    assert (new["_ts"], new["note"], new["ttl"]) == (int(shelf.clock.now()), "new", 7)
    assert lsn(shelf) == before + 1
    assert shelf.read("dead").json == new
    # The old version is gone for good, by whatever name.
    assert_gone(shelf.read(dead["_rid"]))
    assert shelf.replace("dead", shelf.body("dead"), if_match=dead["_etag"]).status == 412
    assert drain(shelf) == 0
    shelf.clock.advance(6)
    assert shelf.seen("dead", "alive") == {"dead", "alive"}
    shelf.clock.advance(1)
    assert shelf.seen("dead", "alive") == {"alive"}


def test_an_insert_over_the_dead_answers_like_any_other(shelf: Shelf, dead: dict[str, Any]) -> None:
    """T-156: neither its cost nor its headers tell that somebody died here."""
    taken, fresh = (shelf.post(shelf.body(id_)) for id_ in ("dead", "next"))
    assert (taken.status, fresh.status) == (201, 201)
    assert charge(taken) == charge(fresh)
    assert set(taken.headers) == set(fresh.headers)


def test_an_upsert_of_the_living_is_a_replace(shelf: Shelf) -> None:
    """T-076: until the boundary second, `200` and the same `_rid`; in it, `201`."""
    first = shelf.create("a", 5)
    shelf.clock.advance(4)
    second = shelf.post(shelf.body("a", 5), upsert="true")
    assert (second.status, second.json["_rid"]) == (200, first["_rid"])
    assert shelf.post(shelf.body("a", 5), upsert="true", if_match=first["_etag"]).status == 412
    shelf.clock.advance(5)
    third = shelf.post(shelf.body("a", 5), upsert="true", if_match=first["_etag"])
    assert third.status == 201
    assert third.json["_rid"] != first["_rid"]


def test_a_create_of_the_living_conflicts(shelf: Shelf) -> None:
    shelf.create("a", 5)
    shelf.clock.advance(4)
    assert shelf.post(shelf.body("a", 5)).status == 409
    shelf.clock.advance(1)
    assert shelf.post(shelf.body("a", 5)).status == 201


def test_one_of_many_creates_gets_a_dead_id(
    shelf: Shelf, dead: dict[str, Any], endpoint: str, key: str
) -> None:
    """T-075: to the others it is an id in use."""

    def create(number: int) -> Reply:
        with closing(RawClient(endpoint, key)) as raw:
            return Shelf(raw, shelf.clock, shelf.path).post(shelf.body("dead", n=number))

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(create, range(6)))
    assert sorted(reply.status for reply in replies) == [201, *[409] * 5]
    (winner,) = (reply for reply in replies if reply.status == 201)
    assert shelf.read("dead").json == winner.json
    assert drain(shelf) == 0


def test_an_item_may_take_the_id_of_a_dead_one(shelf: Shelf, dead: dict[str, Any]) -> None:
    """A replace that carries another id needs that id to be free."""
    reply = shelf.replace("alive", shelf.body("dead"))
    assert reply.status == 200, reply
    assert reply.json["_rid"] != dead["_rid"]
    assert shelf.seen("dead", "alive") == {"dead"}
    assert drain(shelf) == 0


def test_partitions_do_not_share_deaths(shelf: Shelf, bury: Bury) -> None:
    shelf.create("a", 5, pk="p")
    shelf.create("a", pk="q")
    shelf.clock.advance(5)
    bury(shelf)
    assert_gone(shelf.read("a", pk="p"))
    assert shelf.read("a", pk="q").status == 200


# Queries ----------------------------------------------------------------------------------------

# Alive: n = 1, 3, 5, 7; dead: n = 0, 2, 4, 6, 8, in between and at both ends.
LIVING: Final = [1, 3, 5, 7]
EVERYONE: Final = range(9)


def stock_item(number: int) -> dict[str, Any]:
    is_dead = number % 2 == 0
    item = {
        "id": f"i{number}",
        "pk": "p" if number < 5 else "q",
        "n": number,
        "kind": "dead" if is_dead else ("low" if number < 4 else "high"),
        "same": True,
        "tags": [{"t": number * 10}, {"t": number * 10 + 1}],
    }
    return item | {"ttl": 5} if is_dead else item


@dataclass(frozen=True)
class Stock:
    """The same living items twice: with the dead among them, and without."""

    mixed: Shelf
    clean: Shelf


@pytest.fixture(scope="module", params=["unpurged", "purged"])
def stock(
    request: pytest.FixtureRequest, endpoint: str, key: str, clock: MovableClock
) -> Iterator[Stock]:
    with closing(RawClient(endpoint, key)) as raw:
        name = f"stock-{request.param}"
        assert raw.post("/dbs", {"id": name}).status == 201
        shelves = Shelves(raw, clock, f"/dbs/{name}")
        found = Stock(shelves.make(-1, "mixed"), shelves.make(-1, "clean"))
        for number in EVERYONE:
            item = stock_item(number)
            targets = [found.mixed, found.clean] if number in LIVING else [found.mixed]
            for shelf in targets:
                assert shelf.post(item, pk=item["pk"]).status == 201
        clock.advance(5)
        if request.param == "purged":
            assert drain(found.mixed) == len(EVERYONE) - len(LIVING)
        yield found
        assert raw.delete(f"/dbs/{name}").status == 204


QUERIES: Final[list[tuple[str, Any]]] = [
    ("SELECT VALUE c.n FROM c", LIVING),
    ("SELECT c.id, c.n FROM c WHERE c.n <= 3", [{"id": "i1", "n": 1}, {"id": "i3", "n": 3}]),
    ("SELECT VALUE c.n FROM c WHERE c.id = 'i2'", []),
    ("SELECT VALUE c.n FROM c WHERE c.id IN ('i1', 'i2')", [1]),
    ("SELECT VALUE c.n FROM c WHERE c.kind = 'dead'", []),
    ("SELECT VALUE c.n FROM c WHERE c.kind != 'dead'", LIVING),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p'", [1, 3]),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p' AND c.id = 'i2'", []),
    ("SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.ttl)", []),
    ("SELECT VALUE c.n FROM c WHERE c._ts > 0", LIVING),
    ("SELECT VALUE {'m': c.n} FROM c WHERE c.n > 5", [{"m": 7}]),
    # Order and windows count the living only.
    ("SELECT VALUE c.n FROM c ORDER BY c.n", LIVING),
    ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", LIVING[::-1]),
    ("SELECT TOP 1 VALUE c.n FROM c", [1]),
    ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", [1, 3, 5]),
    ("SELECT TOP 100 VALUE c.n FROM c ORDER BY c.n", LIVING),
    ("SELECT VALUE c.n FROM c OFFSET 0 LIMIT 1", [1]),
    ("SELECT VALUE c.n FROM c OFFSET 1 LIMIT 2", [3, 5]),
    ("SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 1 LIMIT 2", [5, 3]),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 4 LIMIT 9", []),
    # Distinct and groups.
    ("SELECT DISTINCT VALUE c.kind FROM c", ["low", "high"]),
    ("SELECT DISTINCT VALUE c.same FROM c", [True]),
    ("SELECT DISTINCT VALUE c.kind FROM c ORDER BY c.kind", ["high", "low"]),
    (
        "SELECT c.kind, COUNT(1) AS n, SUM(c.n) AS s FROM c GROUP BY c.kind",
        [{"kind": "low", "n": 2, "s": 4}, {"kind": "high", "n": 2, "s": 12}],
    ),
    ("SELECT c.same, MAX(c.n) AS m FROM c GROUP BY c.same", [{"same": True, "m": 7}]),
    ("SELECT VALUE COUNT(1) FROM c GROUP BY c.pk", [2, 2]),
    # Joins, subqueries.
    ("SELECT VALUE t.t FROM c JOIN t IN c.tags", [10, 11, 30, 31, 50, 51, 70, 71]),
    ("SELECT VALUE t.t FROM t IN c.tags", [10, 11, 30, 31, 50, 51, 70, 71]),
    ("SELECT VALUE t.t FROM c JOIN t IN c.tags WHERE t.t < 21", [10, 11]),
    ("SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags", [8]),
    ("SELECT VALUE s FROM c JOIN (SELECT VALUE t.t FROM t IN c.tags WHERE t.t % 10 = 1) s",
     [11, 31, 51, 71]),
    ("SELECT VALUE s.n FROM (SELECT c.n FROM c) s", LIVING),
    ("SELECT VALUE COUNT(1) FROM (SELECT c.n FROM c) s", [4]),
    ("SELECT VALUE c.n FROM c WHERE EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t.t < 32)",
     [1, 3]),
    ("SELECT VALUE c.n FROM c WHERE NOT EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t.t < 60)",
     [7]),
    ("SELECT VALUE ARRAY(SELECT VALUE t.t FROM t IN c.tags) FROM c WHERE c.n < 3", [[10, 11]]),
    ("SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags) FROM c", [2, 2, 2, 2]),
    # Aggregates.
    ("SELECT VALUE COUNT(1) FROM c", [4]),
    ("SELECT VALUE COUNT(c) FROM c", [4]),
    ("SELECT VALUE COUNT(c.ttl) FROM c", [0]),
    ("SELECT COUNT(1) AS n FROM c", [{"n": 4}]),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 3", [2]),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.kind = 'dead'", [0]),
    ("SELECT VALUE SUM(c.n) FROM c", [16]),
    ("SELECT VALUE AVG(c.n) FROM c", [4]),
    ("SELECT VALUE MIN(c.n) FROM c", [1]),
    ("SELECT VALUE MAX(c.n) FROM c", [7]),
    ("SELECT MIN(c.n) AS a, MAX(c.n) AS b, COUNT(1) AS n FROM c", [{"a": 1, "b": 7, "n": 4}]),
    ("SELECT VALUE MAX(c.n) FROM c WHERE c.kind = 'dead'", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), QUERIES, ids=[text for text, _ in QUERIES])
def test_queries_see_the_living(stock: Stock, text: str, expected: Any) -> None:
    """T-080, T-081, T-156: the result and the cost are those of the living alone."""
    mixed, clean = (
        shelf.raw.query(f"{shelf.path}/docs", text) for shelf in (stock.mixed, stock.clean)
    )
    assert mixed.status == 200, mixed
    assert mixed.json["Documents"] == expected
    assert mixed.json["_count"] == len(expected)
    assert mixed.headers["x-ms-item-count"] == str(len(expected))
    assert clean.json["Documents"] == expected
    assert charge(mixed) == charge(clean)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"pk": '["p"]'}, [1, 3]),
        ({"pk": '["q"]'}, [5, 7]),
        ({"pk": '["r"]'}, []),
        ({"range": "0"}, LIVING),
        ({"count": "-1"}, LIVING),
    ],
    ids=str,
)
def test_every_scope_sees_the_living(
    stock: Stock, headers: dict[str, str], expected: list[int]
) -> None:
    """T-080, T-083: queries and feeds, of one partition, of one range, of all."""
    shelf = stock.mixed
    assert shelf.query("SELECT VALUE c.n FROM c", **headers) == expected
    assert shelf.query("SELECT VALUE COUNT(1) FROM c", **headers) == [len(expected)]
    feed = shelf.raw.get(f"{shelf.path}/docs", **headers)
    assert feed.status == 200
    assert [item["n"] for item in feed.json["Documents"]] == expected
    assert feed.json["_count"] == len(expected)
    assert feed.headers["x-ms-item-count"] == str(len(expected))
    clean = stock.clean.raw.get(f"{stock.clean.path}/docs", **headers)
    assert charge(feed) == charge(clean)


def test_parameters_do_not_reach_the_dead(stock: Stock) -> None:
    parameters = [{"name": "@ids", "value": ["i1", "i2", "i3"]}]
    text = "SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(@ids, c.id)"
    assert stock.mixed.query(text, parameters) == [1, 3]


def test_metrics_count_the_living(stock: Stock) -> None:
    """T-100."""
    found = []
    for shelf in (stock.mixed, stock.clean):
        reply = shelf.raw.query(
            f"{shelf.path}/docs", "SELECT * FROM c", x_ms_documentdb_populatequerymetrics="true"
        )
        text = reply.headers["x-ms-documentdb-query-metrics"]
        found.append(dict(pair.split("=") for pair in text.split(";")))
    mixed, clean = found
    assert mixed["retrievedDocumentCount"] == mixed["outputDocumentCount"] == "4"
    for name in ("retrievedDocumentCount", "retrievedDocumentSize", "outputDocumentSize"):
        assert mixed[name] == clean[name]


def test_computed_properties_are_those_of_the_living(shelves: Shelves, bury: Bury) -> None:
    """T-099."""
    computed = [{"name": "cp", "query": "SELECT VALUE UPPER(c.kind) FROM c"}]
    shelf = shelves.make(-1, computedProperties=computed)
    for number in EVERYONE:
        item = stock_item(number)
        assert shelf.post(item, pk=item["pk"]).status == 201
    shelf.clock.advance(5)
    bury(shelf)
    for text, expected in (
        ("SELECT VALUE c.cp FROM c", ["LOW", "LOW", "HIGH", "HIGH"]),
        ("SELECT DISTINCT VALUE c.cp FROM c", ["LOW", "HIGH"]),
        ("SELECT VALUE c.n FROM c WHERE c.cp = 'DEAD'", []),
        ("SELECT VALUE c.n FROM c ORDER BY c.cp, c.n", [5, 7, 1, 3]),
        ("SELECT VALUE COUNT(1) FROM c GROUP BY c.cp", [2, 2]),
    ):
        assert shelf.query(text) == expected, text


# Several ranges, hierarchical keys --------------------------------------------------------------


@pytest.fixture
def wide(shelves: Shelves) -> Shelf:
    """A container of several ranges."""
    body = {"id": "wide", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
    reply = shelves.raw.post(
        f"{shelves.database}/colls", body | {"defaultTtl": -1}, throughput="30000"
    )
    assert reply.status == 201, reply
    return Shelf(shelves.raw, shelves.clock, f"{shelves.database}/colls/wide")


def test_every_range_hides_its_dead(wide: Shelf, bury: Bury) -> None:
    ranges = wide.raw.get(f"{wide.path}/pkranges").json["PartitionKeyRanges"]
    assert len(ranges) > 1
    for number in range(20):
        wide.create(f"i{number}", 5 if number % 2 else -1, pk=f"k{number}")
    wide.clock.advance(5)
    bury(wide)
    alive = {f"i{number}" for number in range(0, 20, 2)}
    assert wide.listed() == wide.queried() == alive
    assert wide.counted() == len(alive)
    by_range = [wide.query("SELECT VALUE c.id FROM c", range=each["id"]) for each in ranges]
    assert sorted(chain.from_iterable(by_range)) == sorted(alive)
    statistics = wide.raw.get(wide.path, x_ms_documentdb_populatepartitionstatistics="true")
    assert [each["documentCount"] for each in statistics.json["statistics"]] == [
        len(found) for found in by_range
    ]
    assert usage(wide)["documentsCount"] == len(alive)


def test_a_prefix_of_a_hierarchical_key_hides_its_dead(shelves: Shelves, bury: Bury) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    shelf = shelves.make(-1, "deep", partitionKey=key)
    for number in range(6):
        body = {"id": f"i{number}", "a": "x", "b": f"b{number % 3}", "ttl": 5 if number % 2 else -1}
        reply = shelf.raw.post(f"{shelf.path}/docs", body, pk=f'["x","{body["b"]}"]')
        assert reply.status == 201, reply
    shelf.clock.advance(5)
    bury(shelf)
    assert shelf.query("SELECT VALUE c.id FROM c", pk='["x"]') == ["i0", "i2", "i4"]
    assert shelf.query("SELECT VALUE c.id FROM c", pk='["x","b2"]') == ["i2"]


# Pages ------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """Turns the pages of a feed or query."""

    shelf: Shelf
    text: str | None  # None: the read feed
    size: int = 2
    token: str | None = None
    is_done: bool = False

    def page(self) -> list[Any]:
        headers = {"count": str(self.size)}
        if self.token is not None:
            headers["continuation"] = self.token
        path = f"{self.shelf.path}/docs"
        if self.text is None:
            reply = self.shelf.raw.get(path, **headers)
        else:
            reply = self.shelf.raw.query(path, self.text, **headers)
        assert reply.status == 200, reply
        assert len(reply.json["Documents"]) <= self.size
        self.token = reply.headers.get("x-ms-continuation")
        self.is_done = self.token is None
        rows = reply.json["Documents"]
        return [row["n"] for row in rows] if self.text is None else rows

    def rest(self) -> list[Any]:
        """All rows of the pages to come."""
        rows: list[Any] = []
        while not self.is_done:
            rows += self.page()
        return rows


LISTS: Final = (
    None,
    "SELECT VALUE c.n FROM c",
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT VALUE c.n FROM c ORDER BY c._ts, c.n",
    "SELECT DISTINCT VALUE c.n FROM c",
    "SELECT VALUE c.n FROM c GROUP BY c.n",
    "SELECT VALUE s.n FROM (SELECT c.n FROM c) s",
)
lists = pytest.mark.parametrize("text", LISTS, ids=lambda text: text or "feed")


@lists
@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_pages_hold_the_living(stock: Stock, text: str | None, size: int) -> None:
    """T-080: a full page is full of living items, and no page is wasted on the dead."""
    pages = []
    for shelf in (stock.mixed, stock.clean):
        reader = Reader(shelf, text, size)
        found = [reader.page()]
        while not reader.is_done:
            found.append(reader.page())
        pages.append(found)
    mixed, clean = pages
    assert mixed == clean
    assert list(chain.from_iterable(mixed)) == LIVING


# Who dies while page 1 (items 0 and 1) is being looked at, and what is left for later pages.
DEATHS: Final = [
    ("the last one shown", {1}, [2, 3, 4, 5]),
    ("the first one shown", {0}, [2, 3, 4, 5]),
    ("all that were shown", {0, 1}, [2, 3, 4, 5]),
    ("the next one", {2}, [3, 4, 5]),
    ("shown and next", {1, 2}, [3, 4, 5]),
    ("a page to come", {2, 3}, [4, 5]),
    ("the last", {5}, [2, 3, 4]),
    ("all to come", {2, 3, 4, 5}, []),
    ("everyone", {0, 1, 2, 3, 4, 5}, []),
]


@lists
@pytest.mark.parametrize(("dying", "left"), [d[1:] for d in DEATHS], ids=[d[0] for d in DEATHS])
def test_pages_go_on_past_the_dead(
    shelf: Shelf, bury: Bury, text: str | None, dying: set[int], left: list[int]
) -> None:
    """T-085: a token stays valid, and nobody is shown twice, left out, or shown after death."""
    for number in range(6):
        shelf.create(f"i{number}", 5 if number in dying else -1, n=number)
    reader = Reader(shelf, text)
    assert reader.page() == [0, 1]
    shelf.clock.advance(5)
    bury(shelf)
    assert reader.rest() == left


def test_each_page_has_its_own_now(shelf: Shelf, bury: Bury) -> None:
    """T-085: one death a second, one page a second."""
    for number in range(8):
        shelf.create(f"i{number}", 1 + number // 2 * 2, n=number)  # 1, 1, 3, 3, 5, 5, 7, 7
    reader = Reader(shelf, None)
    pages = []
    while not reader.is_done:
        pages.append(reader.page())
        shelf.clock.advance(2)
        bury(shelf)
    # When the second page is asked for, items 0 and 1 are gone, at the third 2 and 3 as well.
    assert pages == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert_gone(shelf.read("i7"))


JOINED: Final = "SELECT VALUE t FROM c JOIN t IN c.tags"


@pytest.mark.parametrize(
    ("size", "shown", "left"),
    [
        (1, [1], [21, 22, 23]),
        (2, [1, 2], [21, 22, 23]),
        (3, [1, 2, 3], [21, 22, 23]),
        (4, [1, 2, 3, 11], [21, 22, 23]),
        (5, [1, 2, 3, 11, 12], [21, 22, 23]),
        (7, [1, 2, 3, 11, 12, 13, 21], [22, 23]),
    ],
)
def test_a_page_may_end_within_an_item_that_dies(
    shelf: Shelf, bury: Bury, size: int, shown: list[int], left: list[int]
) -> None:
    """T-085: what a token says about a dead item is not said about the next one."""
    for number, lifetime in enumerate((5, 5, -1)):
        shelf.create(f"i{number}", lifetime, tags=[number * 10 + each for each in (1, 2, 3)])
    reader = Reader(shelf, JOINED, size)
    assert reader.page() == shown
    shelf.clock.advance(5)
    bury(shelf)
    assert reader.rest() == left


def test_a_page_may_end_at_an_item_that_is_created_again(shelf: Shelf, bury: Bury) -> None:
    """T-085: the new item is a new row; the token does not take it for the old one."""
    for number in range(4):
        shelf.create(f"i{number}", 5 if number == 1 else -1, n=number)
    reader = Reader(shelf, None)
    assert reader.page() == [0, 1]
    shelf.clock.advance(5)
    bury(shelf)
    shelf.create("i1", n=9)
    assert sorted(reader.rest()) == [2, 3, 9]


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n", [0, 1], [2, 3]),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 4", [1, 2], [3, 4]),
    ],
)
def test_windows_go_on_past_the_dead(
    shelf: Shelf, bury: Bury, text: str, first: list[int], rest: list[int]
) -> None:
    """T-085: a window that was half shown goes on where it stood."""
    for number in range(6):
        shelf.create(f"i{number}", 5 if number in first else -1, n=number)
    reader = Reader(shelf, text)
    assert reader.page() == first
    shelf.clock.advance(5)
    bury(shelf)
    assert reader.rest() == rest


# Read many --------------------------------------------------------------------------------------


def test_read_many_leaves_the_dead_out(shelf: Shelf, bury: Bury, endpoint: str, key: str) -> None:
    """T-084."""
    for number in range(6):
        shelf.create(f"i{number}", 5 if number % 2 else -1, pk=f"k{number % 3}")
    shelf.clock.advance(5)
    bury(shelf)
    _, _, database, _, container = shelf.path.split("/")
    with CosmosClient(endpoint, key) as client:
        proxy = client.get_database_client(database).get_container_client(container)
        wanted = [(f"i{number}", f"k{number % 3}") for number in range(6)]
        found = proxy.read_items([*wanted, ("never", "k1")])
        assert sorted(item["id"] for item in found) == ["i0", "i2", "i4"]
        assert proxy.read_items([("i1", "k1")]) == []
        assert proxy.read_items([("i1", "k1"), ("i3", "k0"), ("i5", "k2")]) == []


# Unique keys ------------------------------------------------------------------------------------

UNIQUE: Final = {"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/first", "/last"]}]}


@pytest.fixture
def directory(shelves: Shelves) -> Shelf:
    """People with unique addresses and unique names."""
    return shelves.make(-1, uniqueKeyPolicy=UNIQUE)


def person(id_: str, email: str, last: str, ttl: int = -1) -> dict[str, Any]:
    return {"id": id_, "pk": "p", "email": email, "first": "Ada", "last": last, "ttl": ttl}


def taken(reply: Reply) -> bool:
    return (
        reply.status == 409
        and 'Message: {"Errors":["Unique index constraint violation."]}' in reply.json["message"]
    )


@pytest.mark.parametrize(
    "new",
    [
        person("new", "a@x", "other"),
        person("new", "b@x", "L"),
        person("new", "a@x", "L"),
        person("old", "a@x", "L"),
        person("old", "b@x", "other"),
    ],
    ids=["one value", "the other", "both", "all and the id", "only the id"],
)
@pytest.mark.parametrize("verb", ["create", "upsert", "replace"])
def test_death_frees_unique_values(
    directory: Shelf, bury: Bury, verb: str, new: dict[str, Any]
) -> None:
    """T-087: a value held only by a dead item is free, and a later purge does not free it again."""
    directory.post(person("old", "a@x", "L", 5))
    if verb == "replace":
        assert directory.post(person("bystander", "z@x", "Z")).status == 201
    directory.clock.advance(5)
    bury(directory)
    if verb == "replace":
        reply = directory.replace("bystander", new)
    else:
        reply = directory.post(new, **({"upsert": "true"} if verb == "upsert" else {}))
    assert reply.status == (200 if verb == "replace" else 201), reply
    for _ in range(2):
        again = person("again", new["email"], "unheard of")
        assert taken(directory.post(again))
        assert taken(directory.post(person("again", "unheard@of", new["last"])))
        assert directory.queried() == {new["id"]}
        drain(directory)


def test_until_death_unique_values_are_taken(directory: Shelf) -> None:
    assert directory.post(person("old", "a@x", "L", 5)).status == 201
    directory.clock.advance(4)
    assert taken(directory.post(person("new", "a@x", "M")))
    assert directory.read("old").status == 200
    directory.clock.advance(1)
    assert directory.post(person("new", "a@x", "M")).status == 201


def test_two_dead_holders_make_way_for_one(directory: Shelf, bury: Bury) -> None:
    """T-087: each of the new item's values was held by another dead one."""
    directory.post(person("one", "a@x", "K", 5))
    directory.post(person("two", "b@x", "L", 5))
    directory.clock.advance(5)
    bury(directory)
    assert directory.post(person("new", "a@x", "L")).status == 201
    assert drain(directory) == 0
    assert taken(directory.post(person("x", "a@x", "X")))
    assert directory.post(person("y", "b@x", "K")).status == 201


def test_a_refused_write_leaves_the_dead_alone(directory: Shelf) -> None:
    """T-087: one value is free, the other is not; nothing happens, not even a purge."""
    directory.post(person("dead", "a@x", "K", 5))
    directory.post(person("alive", "b@x", "L"))
    directory.clock.advance(5)
    before = lsn(directory)
    assert taken(directory.post(person("new", "a@x", "L")))
    assert directory.seen("dead", "alive", "new") == {"alive"}
    assert lsn(directory) == before
    assert drain(directory) == 1


def test_other_partitions_keep_their_values(directory: Shelf, bury: Bury) -> None:
    for pk, ttl in (("p", 5), ("q", -1)):
        body = person("a", "a@x", "L", ttl) | {"pk": pk}
        assert directory.post(body, pk=pk).status == 201
    directory.clock.advance(5)
    bury(directory)
    assert directory.post(person("b", "a@x", "L")).status == 201
    assert taken(directory.post(person("b", "a@x", "M") | {"pk": "q"}, pk="q"))


# Quota ------------------------------------------------------------------------------------------


def usage(shelf: Shelf) -> dict[str, int]:
    """The figures of x-ms-resource-usage."""
    reply = shelf.raw.get(shelf.path, x_ms_documentdb_populatequotainfo="true")
    assert reply.status == 200
    pairs = [pair.split("=") for pair in reply.headers["x-ms-resource-usage"].split(";") if pair]
    return {name: int(value) for name, value in pairs}


def statistics(shelf: Shelf) -> tuple[int, int, int]:
    """Items, kilobytes and partition keys of a container with one range."""
    reply = shelf.raw.get(shelf.path, x_ms_documentdb_populatepartitionstatistics="true")
    (only,) = reply.json["statistics"]
    keys: int = only["sampledDistinctPartitionKeyCount"]
    return only["documentCount"], only["sizeInKB"], keys


def kilobytes(*replies: Reply) -> int:
    return -(-sum(len(reply.body) for reply in replies) // 1024)


def test_the_dead_take_no_room(shelf: Shelf) -> None:
    """T-093: from the instant of death, before any purge, and no less after it."""
    small = shelf.post(shelf.body("small", n="x" * 4000))
    alone = usage(shelf)
    assert alone["documentsCount"] == 1
    assert alone["documentsSize"] == alone["collectionSize"] == kilobytes(small)
    large = shelf.post(shelf.body("large", 5, "q", n="x" * 100_000), pk="q")
    shelf.clock.advance(4)
    both = usage(shelf)
    assert both["documentsCount"] == 2
    assert both["documentsSize"] == both["collectionSize"] == kilobytes(small, large)
    assert statistics(shelf) == (2, kilobytes(small, large), 2)
    shelf.clock.advance(1)
    for _ in range(2):
        assert usage(shelf) == alone
        assert statistics(shelf) == (1, kilobytes(small), 1)
        drain(shelf)


def test_room_is_taken_once_after_a_new_start(shelf: Shelf, dead: dict[str, Any]) -> None:
    """T-093: a re-created item counts once; inheriting and own lifetimes alike."""
    assert usage(shelf)["documentsCount"] == 1
    shelf.create("dead")
    assert usage(shelf)["documentsCount"] == statistics(shelf)[0] == 2
    assert shelf.delete("dead").status == 204
    assert usage(shelf)["documentsCount"] == 1
    assert drain(shelf) == 0
    assert usage(shelf)["documentsCount"] == 1


def test_inherited_deaths_take_no_room(shelves: Shelves, bury: Bury) -> None:
    shelf = shelves.make(5)
    shelf.create("a")
    shelf.create("b", -1)
    shelf.create("c", 9)
    shelf.clock.advance(5)
    bury(shelf)
    assert usage(shelf)["documentsCount"] == 2
    shelf.clock.advance(4)
    assert usage(shelf)["documentsCount"] == 1


# Session tokens, etags --------------------------------------------------------------------------


def test_death_moves_no_lsn_and_a_purge_moves_one(shelf: Shelf) -> None:
    """T-095."""
    written = [shelf.post(shelf.body(f"i{number}", 5)) for number in range(4)]
    shelf.create("alive")
    before = lsn(shelf)
    token = written[-1].headers["x-ms-session-token"]
    shelf.clock.advance(5)
    assert lsn(shelf) == before
    assert_gone(shelf.read("i3", session=token))
    assert lsn(shelf) == before
    assert drain(shelf) == 4  # in one transaction
    assert lsn(shelf) == before + 1
    assert drain(shelf) == 0
    assert lsn(shelf) == before + 1
    # What a client holds stays good; what it may get next is ahead of it.
    assert_gone(shelf.read("i3", session=token))
    assert shelf.read("alive", session=f"0:-1#{before + 1}").status == 200
    late = shelf.read("alive", session=f"0:-1#{before + 2}")
    assert (late.status, late.sub_status) == (404, 1002)
    assert shelf.post(shelf.body("next")).headers["x-ms-session-token"] == f"0:-1#{before + 2}"


def test_only_ranges_with_dead_items_move(wide: Shelf) -> None:
    """T-095: each physical partition has LSNs of its own."""

    def lsns() -> dict[str, int]:
        token = wide.raw.get(wide.path).headers["x-ms-session-token"]
        return {part.partition(":")[0]: int(part.rpartition("#")[2]) for part in token.split(",")}

    homes = {}
    for number in range(12):
        reply = wide.post(wide.body(f"i{number}", -1, f"k{number}"), pk=f"k{number}")
        homes[number] = reply.headers["x-ms-documentdb-partitionkeyrangeid"]
    target = homes[0]
    for number, home in homes.items():
        if home == target:
            body = wide.body(f"i{number}", 5, f"k{number}")
            assert wide.replace(f"i{number}", body, pk=f"k{number}").status == 200
    before = lsns()
    assert len(before) > 1
    wide.clock.advance(5)
    assert lsns() == before
    assert drain(wide) == list(homes.values()).count(target)
    assert lsns() == before | {target: before[target] + 1}


def test_deaths_leave_all_else_untouched(shelf: Shelf) -> None:
    """T-096: the container, and the items that live on."""
    container = shelf.raw.get(shelf.path)
    neighbour = shelf.create("alive", 100)
    shelf.create("dead", 5)
    shelf.clock.advance(5)
    for _ in range(2):
        assert shelf.raw.get(shelf.path).json == container.json
        read = shelf.read("alive")
        assert read.json == neighbour
        assert read.headers["etag"] == neighbour["_etag"]
        assert shelf.read("alive", if_none_match=neighbour["_etag"]).status == 304
        assert shelf.query("SELECT * FROM c") == [neighbour]
        drain(shelf)
    assert shelf.replace("alive", neighbour, if_match=neighbour["_etag"]).status == 200


# Charges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("default_ttl", [-1, 3600])
@pytest.mark.parametrize("lifetime", [-1, 60, 2_147_483_647])
def test_lifetimes_cost_nothing(shelves: Shelves, default_ttl: int, lifetime: int) -> None:
    """T-155: the same body costs the same, whether its `ttl` means anything or not."""
    on, off = shelves.make(default_ttl, "on"), shelves.make(name="off")
    costs = []
    for shelf in (on, off):
        body = shelf.body("a", lifetime, text="x" * 3000, list=[1, 2, 3])
        changed = body | {"text": "y"}
        replies = [
            shelf.post(body),
            shelf.read("a"),
            shelf.replace("a", changed),
            shelf.post(body, upsert="true"),
            shelf.post(body),
            shelf.raw.query(f"{shelf.path}/docs", "SELECT * FROM c"),
            shelf.raw.get(f"{shelf.path}/docs"),
            shelf.delete("a"),
        ]
        assert [reply.status for reply in replies] == [201, 200, 200, 200, 409, 200, 200, 204]
        costs.append([charge(reply) for reply in replies])
    assert costs[0] == costs[1]


def test_charges_do_not_know_the_dead(shelves: Shelves) -> None:
    """T-156, T-157: ten living among hundreds of dead, before, during and after the purge."""
    crowd, alone = shelves.make(-1, "crowd"), shelves.make(-1, "alone")
    for number in range(10):
        for shelf in (crowd, alone):
            shelf.create(f"i{number}", n=number)
        for other in range(60):
            crowd.create(f"d{number}-{other}", 5, n=number)
    crowd.clock.advance(5)

    def costs(shelf: Shelf) -> list[float]:
        docs = f"{shelf.path}/docs"
        replies = [
            shelf.raw.get(docs),
            shelf.raw.get(docs, count="3"),
            shelf.raw.query(docs, "SELECT * FROM c"),
            shelf.raw.query(docs, "SELECT * FROM c WHERE c.n < 5"),
            shelf.raw.query(docs, "SELECT VALUE COUNT(1) FROM c"),
            shelf.raw.query(docs, "SELECT TOP 3 * FROM c ORDER BY c.n DESC"),
            shelf.raw.query(docs, "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n"),
            shelf.raw.query(docs, "SELECT * FROM c", pk='["p"]'),
            shelf.read("i3"),
            shelf.read("d3-3"),
            shelf.replace("i3", shelf.body("i3", n=3)),
            shelf.post(shelf.body("d1-1")),
            shelf.delete("d1-1"),
            shelf.delete("d1-1"),
        ]
        assert [reply.status for reply in replies] == [200] * 9 + [404, 200, 201, 204, 404]
        return [charge(reply) for reply in replies]

    expected = costs(alone)
    assert costs(crowd) == expected
    purged = crowd.raw.post(f"{crowd.admin}/drain", {})
    assert purged.json["purged"] == 599  # one was removed by the create that took its id
    assert "x-ms-request-charge" not in purged.headers
    assert costs(crowd) == expected
