"""Queries in every scope return live items only."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import pytest

from tests.support.replies import charge
from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.effects.stock import EVERYONE, LIVING, Bury, Stock, stock_item, usage

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
def test_queries_see_live_items(stock: Stock, text: str, expected: Any) -> None:
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
def test_every_scope_sees_live_items(
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


def test_parameters_do_not_reach_expired_items(stock: Stock) -> None:
    parameters = [{"name": "@ids", "value": ["i1", "i2", "i3"]}]
    text = "SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(@ids, c.id)"
    assert stock.mixed.query(text, parameters) == [1, 3]


def test_metrics_count_live_items(stock: Stock) -> None:
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


def test_computed_properties_are_those_of_live_items(shelves: Shelves, bury: Bury) -> None:
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


def test_every_range_hides_its_expired_items(wide: Shelf, bury: Bury) -> None:
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


def test_a_prefix_of_a_hierarchical_key_hides_its_expired_items(
    shelves: Shelves, bury: Bury
) -> None:
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
