"""Queries in every scope return live items only."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

import pytest

from tests.support.figures import physical_ranges, resource_usage
from tests.support.replies import charge
from tests.support.ttl_containers import MaybePurge, TtlContainer, TtlContainers
from tests.ttl.effects.mixed_containers import ALL, LIVE, MixedContainers, mixed_item

QUERIES: Final[list[tuple[str, Any]]] = [
    ("SELECT VALUE c.n FROM c", LIVE),
    ("SELECT c.id, c.n FROM c WHERE c.n <= 3", [{"id": "i1", "n": 1}, {"id": "i3", "n": 3}]),
    ("SELECT VALUE c.n FROM c WHERE c.id = 'i2'", []),
    ("SELECT VALUE c.n FROM c WHERE c.id IN ('i1', 'i2')", [1]),
    ("SELECT VALUE c.n FROM c WHERE c.kind = 'expired'", []),
    ("SELECT VALUE c.n FROM c WHERE c.kind != 'expired'", LIVE),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p'", [1, 3]),
    ("SELECT VALUE c.n FROM c WHERE c.pk = 'p' AND c.id = 'i2'", []),
    ("SELECT VALUE c.n FROM c WHERE IS_DEFINED(c.ttl)", []),
    ("SELECT VALUE c.n FROM c WHERE c._ts > 0", LIVE),
    ("SELECT VALUE {'m': c.n} FROM c WHERE c.n > 5", [{"m": 7}]),
    # Order and windows count live items only.
    ("SELECT VALUE c.n FROM c ORDER BY c.n", LIVE),
    ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", LIVE[::-1]),
    ("SELECT TOP 1 VALUE c.n FROM c", [1]),
    ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", [1, 3, 5]),
    ("SELECT TOP 100 VALUE c.n FROM c ORDER BY c.n", LIVE),
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
    ("SELECT VALUE s.n FROM (SELECT c.n FROM c) s", LIVE),
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
    ("SELECT VALUE COUNT(1) FROM c WHERE c.kind = 'expired'", [0]),
    ("SELECT VALUE SUM(c.n) FROM c", [16]),
    ("SELECT VALUE AVG(c.n) FROM c", [4]),
    ("SELECT VALUE MIN(c.n) FROM c", [1]),
    ("SELECT VALUE MAX(c.n) FROM c", [7]),
    ("SELECT MIN(c.n) AS a, MAX(c.n) AS b, COUNT(1) AS n FROM c", [{"a": 1, "b": 7, "n": 4}]),
    ("SELECT VALUE MAX(c.n) FROM c WHERE c.kind = 'expired'", []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), QUERIES, ids=[text for text, _ in QUERIES])
def test_queries_see_live_items(
    mixed_containers: MixedContainers, text: str, expected: Any
) -> None:
    """T-080, T-081, T-156: the result and the charge are those of live items alone."""
    mixed, clean = (
        container.raw.query(f"{container.path}/docs", text)
        for container in (mixed_containers.mixed, mixed_containers.clean)
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
        ({"range": "0"}, LIVE),
        ({"count": "-1"}, LIVE),
    ],
    ids=str,
)
def test_every_scope_sees_live_items(
    mixed_containers: MixedContainers, headers: dict[str, str], expected: list[int]
) -> None:
    """T-080, T-083: queries and feeds, of one partition, of one range, of all."""
    container = mixed_containers.mixed
    assert container.query("SELECT VALUE c.n FROM c", **headers) == expected
    assert container.query("SELECT VALUE COUNT(1) FROM c", **headers) == [len(expected)]
    feed = container.raw.get(f"{container.path}/docs", **headers)
    assert feed.status == 200
    assert [item["n"] for item in feed.json["Documents"]] == expected
    assert feed.json["_count"] == len(expected)
    assert feed.headers["x-ms-item-count"] == str(len(expected))
    clean = mixed_containers.clean.raw.get(f"{mixed_containers.clean.path}/docs", **headers)
    assert charge(feed) == charge(clean)


def test_parameters_do_not_reach_expired_items(mixed_containers: MixedContainers) -> None:
    parameters = [{"name": "@ids", "value": ["i1", "i2", "i3"]}]
    text = "SELECT VALUE c.n FROM c WHERE ARRAY_CONTAINS(@ids, c.id)"
    assert mixed_containers.mixed.query(text, parameters) == [1, 3]


def test_metrics_count_live_items(mixed_containers: MixedContainers) -> None:
    """T-100."""
    found = []
    for container in (mixed_containers.mixed, mixed_containers.clean):
        reply = container.raw.query(
            f"{container.path}/docs", "SELECT * FROM c", x_ms_documentdb_populatequerymetrics="true"
        )
        text = reply.headers["x-ms-documentdb-query-metrics"]
        found.append(dict(pair.split("=") for pair in text.split(";")))
    mixed, clean = found
    assert mixed["retrievedDocumentCount"] == mixed["outputDocumentCount"] == "4"
    for name in ("retrievedDocumentCount", "retrievedDocumentSize", "outputDocumentSize"):
        assert mixed[name] == clean[name]


def test_computed_properties_are_those_of_live_items(
    containers: TtlContainers, maybe_purge: MaybePurge
) -> None:
    """T-099."""
    computed = [{"name": "cp", "query": "SELECT VALUE UPPER(c.kind) FROM c"}]
    container = containers.make(-1, computedProperties=computed)
    for number in ALL:
        item = mixed_item(number)
        assert container.post(item, pk=item["pk"]).status == 201
    container.clock.advance(5)
    maybe_purge(container)
    for text, expected in (
        ("SELECT VALUE c.cp FROM c", ["LOW", "LOW", "HIGH", "HIGH"]),
        ("SELECT DISTINCT VALUE c.cp FROM c", ["LOW", "HIGH"]),
        ("SELECT VALUE c.n FROM c WHERE c.cp = 'EXPIRED'", []),
        ("SELECT VALUE c.n FROM c ORDER BY c.cp, c.n", [5, 7, 1, 3]),
        ("SELECT VALUE COUNT(1) FROM c GROUP BY c.cp", [2, 2]),
    ):
        assert container.query(text) == expected, text


def test_every_range_hides_its_expired_items(wide: TtlContainer, maybe_purge: MaybePurge) -> None:
    ranges = physical_ranges(wide.raw, wide.path)
    assert len(ranges) > 1
    for number in range(20):
        wide.create(f"i{number}", 5 if number % 2 else -1, pk=f"k{number}")
    wide.clock.advance(5)
    maybe_purge(wide)
    alive = {f"i{number}" for number in range(0, 20, 2)}
    assert wide.listed() == wide.queried() == alive
    assert wide.counted() == len(alive)
    by_range = [wide.query("SELECT VALUE c.id FROM c", range=each["id"]) for each in ranges]
    assert sorted(chain.from_iterable(by_range)) == sorted(alive)
    statistics = wide.raw.get(wide.path, x_ms_documentdb_populatepartitionstatistics="true")
    assert [each["documentCount"] for each in statistics.json["statistics"]] == [
        len(found) for found in by_range
    ]
    assert resource_usage(wide.raw, wide.path)["documentsCount"] == len(alive)


def test_a_prefix_of_a_hierarchical_key_hides_its_expired_items(
    containers: TtlContainers, maybe_purge: MaybePurge
) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    container = containers.make(-1, "deep", partitionKey=key)
    for number in range(6):
        body = {"id": f"i{number}", "a": "x", "b": f"b{number % 3}", "ttl": 5 if number % 2 else -1}
        reply = container.raw.post(f"{container.path}/docs", body, pk=f'["x","{body["b"]}"]')
        assert reply.status == 201, reply
    container.clock.advance(5)
    maybe_purge(container)
    assert container.query("SELECT VALUE c.id FROM c", pk='["x"]') == ["i0", "i2", "i4"]
    assert container.query("SELECT VALUE c.id FROM c", pk='["x","b2"]') == ["i2"]
