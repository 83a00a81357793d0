"""The published request-unit figures, the model around them, and index terms."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid import charges
from perseid.charges import EVERYTHING, NOTHING, IndexPaths
from perseid.errors import BadRequest
from tests.support.effort import ratio

KB: Final = 1024
quick: Final = settings(max_examples=60, deadline=None, database=None, derandomize=True)

SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
READS: Final = (1.00, 1.04, 1.14, 1.33, 1.67, 2.19, 4.76, 9.95, 20.28, 40.95, 145.90, 291.80)
WRITES: Final = (
    4.95, 6.29, 6.67, 7.04, 9.52, 11.23, 22.67, 48.19, 98.29, 184.57, 625.00, 1250.00,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kilobytes", "published_read", "published_write"), list(zip(SIZES, READS, WRITES, strict=True))
)
def test_published_sizes(kilobytes: int, published_read: float, published_write: float) -> None:
    assert charges.point_read(kilobytes * KB) == published_read
    written = charges.create(kilobytes * KB, terms=0)
    assert written == (5.00 if kilobytes == 1 else published_write)
    assert written == pytest.approx(published_write, rel=0.05)


def test_deleting_many_costs_what_deleting_each_does() -> None:
    sizes = (100, 100, 5 * KB, 100 * KB)
    alone = sum(charges.delete(size, 4) for size in sizes)
    assert charges.delete_all([(100, 2, 8), (5 * KB, 1, 4), (100 * KB, 1, 4)]) == pytest.approx(
        alone, abs=0.02
    )
    assert charges.delete_all([]) == 0


@pytest.mark.parametrize(
    ("charge", "published", "within"),
    [
        (charges.point_read(100 * KB), 10, 0.05),
        (charges.create(100 * KB, 0), 50, 0.05),
        (charges.create(1 * KB, 0), 5, 0.05),
        (charges.create(1 * KB, 0), 5.5, 0.10),
        (charges.query_page([KB] * 1000), 1000, 0.05),
        (charges.replace(KB, KB, 0), 2 * charges.create(KB, 0), 0),
    ],
)
def test_loosely_published_figures(charge: float, published: float, within: float) -> None:
    assert charge == pytest.approx(published, rel=within)


@pytest.mark.parametrize(
    ("charge", "expected"),
    [
        (charges.point_read(0), 1.00),
        (charges.point_read(300), 1.00),
        (charges.point_read(100 * KB), 9.90),
        (charges.point_read(3 * KB), 1.09),
        (charges.point_read(3072 * KB), 437.70),
        (charges.create(KB, terms=10), 7.00),
        (charges.create(KB, terms=10, unique_keys=2), 7.40),
        (charges.create(300, terms=0), 5.00),
        (charges.create(100 * KB, terms=0), 48.00),
        (charges.replace(KB, KB, changed_terms=4), 10.80),  # two removed, two added
        (charges.replace(KB, 2 * KB, changed_terms=0), 11.29),
        (charges.patch(KB, KB, changed_terms=4, operations=2), 11.60),
        (charges.delete(KB, terms=10), 7.00),
        (charges.batch([7.0, 10.8, 1.0]), 18.80),
        (charges.query_page([9963]), 3.19),
        (charges.query_page([KB] * 1000), 1001.79),
        (charges.query_page([]), 2.00),
        (charges.query_page([], index_entries=84), 2.00),
        (charges.query_page([], index_entries=1000), 4.29),
        (charges.query_page([KB], udf_calls=3), 2.94),
        (charges.feed_page([KB] * 5), 5.00),
        (charges.feed_page([]), 1.00),
        (charges.feed_page([2 * KB, 4 * KB]), 2.18),
        (charges.script(0), 1.00),
        (charges.script(20), 20.00),
        (charges.MISS, 1.00),
        (charges.METADATA_READ, 1.00),
        (charges.METADATA_WRITE, 5.00),
        (charges.REJECTED, 1.24),
        (charges.THROTTLED, 0.38),
    ],
)
def test_the_model(charge: float, expected: float) -> None:
    assert charge == expected


def test_costs_grow_with_size() -> None:
    sizes = [*range(KB, 3000 * KB, 7777), *(anchor.kilobytes * KB for anchor in charges.ANCHORS)]
    for one, other in pairwise(sorted(set(sizes))):
        assert charges.read(one) < charges.read(other)
        assert charges.write(one) < charges.write(other)


@pytest.mark.parametrize(
    ("level", "factor"),
    [("Strong", 2), ("BoundedStaleness", 2), ("Session", 1), ("ConsistentPrefix", 1),
     ("Eventual", 1), (None, 1)],
)  # fmt: skip
def test_consistency_factor(level: str | None, factor: int) -> None:
    assert charges.consistency_factor(level) == factor


@pytest.mark.parametrize(
    ("charge", "text"),
    [
        (1, "1"), (1.0, "1"), (10.8, "10.8"), (5 + 5 + 0.4 + 0.4, "10.8"), (10.799999999, "10.8"),
        (0.1 + 0.2, "0.3"), (1.24, "1.24"), (0.38, "0.38"), (100.0, "100"), (1001.79, "1001.79"),
        (0, "0"), (2 * 3.19, "6.38"), (1250000.0, "1250000"), (0.004, "0"),
    ],
)  # fmt: skip
def test_header_text(charge: float, text: str) -> None:
    assert charges.text(charge) == text


# Index terms ------------------------------------------------------------------------------------

DEFAULT_POLICY: Final[dict[str, Any]] = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": '/"_etag"/?'}],
}
DEFAULT: Final = charges.compile_paths(DEFAULT_POLICY)


def policy(included: list[str], excluded: list[str]) -> IndexPaths:
    return charges.compile_paths(
        {
            "includedPaths": [{"path": path} for path in included],
            "excludedPaths": [{"path": path} for path in excluded],
        }
    )


DOCUMENT: Final[dict[str, Any]] = {
    "id": "1", "_rid": "r", "_self": "s", "_etag": '"e"', "_attachments": "attachments/", "_ts": 9,
    "a": "text", "n": None, "flag": False, "ttl": 10,
    "tags": ["x", "y", "y"],
    "deep": {"one": 1, "two": {"three": 3, "id": 4}, "list": [{"c": 1, "d": 2}, {"c": 3}, 5]},
    "empty": {}, "none": [],
    "le/vel": {"*": 1},
}  # fmt: skip
ALL: Final = 4 + 3 + 1 + 2 + 4 + 1


@pytest.mark.parametrize(
    ("paths", "terms"),
    [
        (DEFAULT, ALL),
        (EVERYTHING, ALL),
        (NOTHING, 0),
        (charges.compile_paths({}), ALL),
        (charges.compile_paths({"indexingMode": "Consistent", "includedPaths": []}), ALL),
        (charges.compile_paths({"indexingMode": "lazy"}), ALL),
        (charges.compile_paths({"indexingMode": "none", "automatic": False}), 0),
        (charges.compile_paths({**DEFAULT_POLICY, "indexingMode": "None"}), 0),
        (charges.compile_paths({"excludedPaths": [{"path": "/*"}]}), 0),
        (policy(["/"], []), ALL),
        (policy(["/*"], ["/*"]), 0),
        (policy(["/*"], ["/a/?"]), ALL - 1),
        (policy(["/*"], ["/a/*"]), ALL - 1),
        (policy(["/*"], ["/deep/?"]), ALL),  # an object is no scalar
        (policy(["/*"], ["/deep/*"]), ALL - 7),
        (policy(["/*"], ["/deep/two/*"]), ALL - 2),
        (policy(["/*"], ["/deep/two/three/?"]), ALL - 1),
        (policy(["/*", "/deep/two/three/?"], ["/deep/*"]), ALL - 6),
        (policy(["/*", "/deep/two/*"], ["/deep/*"]), ALL - 5),
        (policy(["/*", "/deep/two/*"], ["/deep/*", "/deep/two/three/?"]), ALL - 6),
        (policy(["/*", "/a/?"], ["/a/*"]), ALL),  # /? wins over /*
        (policy(["/*", "/a/*"], ["/a/?"]), ALL - 1),
        (policy(["/*"], ["/tags/?"]), ALL),  # elements lie one step deeper
        (policy(["/*"], ["/tags/[]/?"]), ALL - 3),
        (policy(["/tags/[]/?"], ["/*"]), 3),
        (policy(["/tags/*"], ["/*"]), 3),
        (policy(["/deep/list/[]/c/?"], ["/*"]), 2),
        (policy(["/deep/list/[]/?"], ["/*"]), 1),
        (policy(["/deep/list/[]/*"], ["/*"]), 4),
        (policy(["/deep/list/[]/{c, d}/?"], ["/*"]), 3),
        (policy(['/"le/vel"/"*"/?'], ["/*"]), 1),
        (policy(['/"tags"/"[]"/?'], ["/*"]), 0),  # a property of that name, not the elements
        (policy(["/a"], ["/*"]), 1),
        (policy(["/id/?", "/_ts/?", "/_etag/?"], ["/*"]), 0),
        (policy(["/ttl/?", "/flag/?", "/n/?", "/absent/?"], ["/*"]), 3),
    ],
)
def test_count_terms(paths: IndexPaths, terms: int) -> None:
    assert charges.count_terms(DOCUMENT, paths) == terms


def test_the_default_policy_needs_no_walk_by_path() -> None:
    assert DEFAULT == EVERYTHING


def test_a_system_name_below_the_top_is_an_ordinary_name() -> None:
    assert charges.count_terms({"id": "1", "x": {"id": 2, "_ts": 3, "_etag": 4}}, DEFAULT) == 3


@pytest.mark.parametrize(
    "broken",
    [{"includedPaths": ["/*"]}, {"includedPaths": [{}]}, {"excludedPaths": [{"path": 1}]},
     {"includedPaths": [{"path": "a"}]}, {"includedPaths": 1},
     {"excludedPaths": [{"path": "/a//b/?"}]}],
)  # fmt: skip
def test_broken_policies(broken: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        charges.compile_paths(broken)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ({}, {}, 0),
        ({"a": 1}, {"a": 1}, 0),
        ({"a": 1}, {"a": 1.0}, 0),
        ({"a": 1}, {"a": 2}, 2),
        ({"a": 1}, {"a": True}, 2),
        ({"a": [1]}, {"a": [True]}, 2),
        ({"a": 0}, {"a": False}, 2),
        ({"a": 1}, {"a": "1"}, 2),
        ({"a": None}, {}, 1),
        ({}, {"a": None}, 1),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, 4),
        ({"a": 1}, {"b": 1}, 2),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, 0),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 3}}, 2),
        ({"a": {"x": 1}}, {"a": 1}, 2),
        ({"a": [1, 2, 3]}, {"a": [3, 2, 1]}, 0),  # elements have no place in their path
        ({"a": [1, 2]}, {"a": [1, 2, 2]}, 1),
        ({"a": [1, 2]}, {"a": [4]}, 3),
        ({"a": {}}, {"a": []}, 0),
        ({"a": [{"x": 1, "y": 2}, 3]}, {"a": [{"x": 1, "y": 4}, 3]}, 2),
        ({"a": [{"x": 1}, {"x": 2}]}, {"a": [{"x": 2}, {"x": 1}, {"x": 1}]}, 1),
        ({"a": [[1], [2]]}, {"a": [[2], 1]}, 2),
        ({"a": {"x": [1, {"y": 2}]}}, {"a": {"x": [1, {"y": 2}, {"y": 2}]}}, 1),
        ({"id": "1", "_ts": 1, "_etag": "a"}, {"id": "2", "_ts": 2, "_etag": "b"}, 0),
    ],
)
def test_changed_terms(old: dict[str, Any], new: dict[str, Any], changed: int) -> None:
    assert charges.changed_terms(old, new, DEFAULT) == changed
    assert charges.changed_terms(new, old, DEFAULT) == changed
    assert charges.changed_terms(old, new, NOTHING) == 0


def test_changed_terms_follow_the_policy() -> None:
    paths = policy(["/*"], ["/a/*"])
    assert charges.changed_terms({"a": 1, "b": 1}, {"a": 2, "b": 2}, paths) == 2


json_values: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
documents: Final = st.dictionaries(st.sampled_from(["a", "b", "c", "id"]), json_values)


@quick
@given(documents)
def test_both_walks_count_the_same(document: dict[str, Any]) -> None:
    # a path that no document has, so that the policy has something to follow
    paths = policy(["/*"], ["/unused/deeper/?"])
    assert charges.count_terms(document, paths) == charges.count_terms(document, DEFAULT)


@quick
@given(documents, documents)
def test_what_stays_in_its_place_does_not_matter(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """The same number as by counting all terms of each; a leaf is its path and its value."""
    counts = Counter(leaves(one)), Counter(leaves(other))
    changed = (counts[0] - counts[1]).total() + (counts[1] - counts[0]).total()
    assert charges.changed_terms(one, other, DEFAULT) == changed


def leaves(value: Any, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        inner = [
            (f"{path}/{name}", each) for name, each in value.items() if (path, name) != ("", "id")
        ]
    elif isinstance(value, list):
        inner = [(f"{path}/[]", each) for each in value]
    else:
        return [(path, repr(value))]
    return [leaf for below, each in inner for leaf in leaves(each, below)]


def test_one_change_among_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what differs is counted: counting all takes far longer."""
    counted = []
    count = charges._count_differing_terms

    def noted(old: Any, new: Any, paths: IndexPaths) -> int:
        counted.append((old, new))
        return count(old, new, paths)

    monkeypatch.setattr(charges, "_count_differing_terms", noted)
    old = {"many": {f"p{n}": [n, {"x": n}] for n in range(1000)}}
    new = {"many": old["many"] | {"p7": [7, {"x": 8}]}}
    assert charges.changed_terms(old, new, DEFAULT) == 2
    assert counted == [({"many": {"p7": [7, {"x": 7}]}}, {"many": {"p7": [7, {"x": 8}]}})]


@quick
@given(documents, documents)
def test_from_and_to_nothing_changes_every_term(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert charges.changed_terms({}, one, DEFAULT) == charges.count_terms(one, DEFAULT)
    assert charges.changed_terms(one, one, DEFAULT) == 0
    both = charges.count_terms(one, DEFAULT) + charges.count_terms(other, DEFAULT)
    assert charges.changed_terms(one, other, DEFAULT) <= both


@pytest.mark.parametrize(
    ("element", "other"),
    [pytest.param(1, 2, id="numbers"), pytest.param({"a": 1}, {"a": 2}, id="objects")],
)
def test_counting_the_terms_of_large_items_is_about_as_fast_as_decoding_them(
    element: Any, other: Any
) -> None:
    length = 50_000
    old, new = (json.dumps({"v": [each] * length}) for each in (element, other))
    before, after = json.loads(old), json.loads(new)

    def count() -> int:
        return charges.changed_terms(before, after, EVERYTHING)

    assert count() == 2 * length
    assert ratio(count, lambda: (json.loads(old), json.loads(new))) < 10
