"""The indexing policy of a container definition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.service.definitions.bodies import (
    DEFAULT_POLICY,
    ETAG,
    INVALID,
    ROOT,
    create,
    refusal,
)

ALL_TYPES = ["Point", "LineString", "Polygon", "MultiPolygon"]
NOT_A_PATH = "Please ensure that the path is a valid path"


def policy(**members: Any) -> dict[str, Any]:
    """The stored policy for a sent one."""
    stored = create(indexingPolicy=members)["indexingPolicy"]
    assert isinstance(stored, dict)
    return stored


# Indexing policy ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        None,
        {},
        {"indexingMode": "consistent"},
        {"indexingMode": "Consistent", "automatic": True},
        {"includedPaths": [], "excludedPaths": []},
        {"includedPaths": [ROOT]},
        {"includedPaths": [{"path": "/"}]},
        {"includedPaths": [{"path": "/*", "indexes": [{"kind": "Hash", "dataType": "String"}]}]},
        {"includedPaths": [ROOT], "excludedPaths": [ETAG]},
        {"includedPaths": [ROOT, {"path": "/"}]},
        {"compositeIndexes": [], "spatialIndexes": [], "vectorIndexes": [], "fullTextIndexes": []},
    ],
)
def test_default_policy(sent: Any) -> None:
    assert create(indexingPolicy=sent)["indexingPolicy"] == DEFAULT_POLICY


@pytest.mark.parametrize(
    ("sent", "mode", "automatic"),
    [
        ({"indexingMode": "Lazy"}, "lazy", True),
        ({"indexingMode": "NONE"}, "none", False),
        ({"indexingMode": "none", "automatic": False}, "none", False),
        ({"automatic": False}, "consistent", True),
        ({"indexingMode": "lazy", "automatic": False}, "lazy", False),
    ],
)
def test_modes(sent: dict[str, Any], mode: str, automatic: bool) -> None:
    stored = policy(**sent)
    assert (stored["indexingMode"], stored["automatic"]) == (mode, automatic)


def test_mode_none_has_no_paths_and_gets_the_default_back() -> None:
    stored = policy(indexingMode="none")
    assert (stored["includedPaths"], stored["excludedPaths"]) == ([], [])
    assert policy(**(stored | {"indexingMode": "consistent", "automatic": True})) == DEFAULT_POLICY


@pytest.mark.parametrize(
    ("included", "excluded", "stored_included", "stored_excluded"),
    [
        (["/"], ['/"systemMetadata"/*'], ["/*"], ['/"systemMetadata"/*', '/"_etag"/?']),
        (["/a/?", "/b/[]/c/?"], ["/*"], ["/a/?", "/b/[]/c/?"], ["/*", '/"_etag"/?']),
        (["/*"], ["/_etag/?"], ["/*"], ["/_etag/?"]),
        (["/*", "/_etag/?"], ["/a/*"], ["/*", "/_etag/?"], ["/a/*"]),
        (["/*"], ["/a/?", '/"a"/?'], ["/*"], ["/a/?", '/"_etag"/?']),
        (["/*", "/tags/[]/{a, b}/?"], [], ["/*", "/tags/[]/{a, b}/?"], ['/"_etag"/?']),
        (["/*", "/größe/?", "/'x y'/?"], [], ["/*", "/größe/?", "/'x y'/?"], ['/"_etag"/?']),
    ],
)
def test_path_lists(
    included: list[str],
    excluded: list[str],
    stored_included: list[str],
    stored_excluded: list[str],
) -> None:
    stored = policy(
        includedPaths=[{"path": path} for path in included],
        excludedPaths=[{"path": path} for path in excluded],
    )
    assert [entry["path"] for entry in stored["includedPaths"]] == stored_included
    assert [entry["path"] for entry in stored["excludedPaths"]] == stored_excluded


@pytest.mark.parametrize(
    "path",
    [
        "", "a", "a/?", "/a/", "//", "/a//b", "/*/a", "/?/a", "/a/*/b/?", "/first-name/?", "/a b/?",
        '/"a', '/"a"b/?', "/[0]/?", "/{a, b}/?", "/a/[]/{a, b}", "/a/[]/{a, }/?", "/a/[]/{a}/b/?",
        '/""/?', "/$type/?",
    ],
)  # fmt: skip
def test_bad_index_paths(path: str) -> None:
    for name in ("includedPaths", "excludedPaths"):
        sent = {"includedPaths": [ROOT], "excludedPaths": []}
        sent[name] = [*sent[name], {"path": path}]
        assert NOT_A_PATH in refusal(indexingPolicy=sent)


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        ([], INVALID),
        ({"indexingMode": "eager"}, INVALID),
        ({"indexingMode": 1}, INVALID),
        ({"automatic": "yes"}, INVALID),
        ({"includedPaths": "/*"}, INVALID),
        ({"includedPaths": ["/*"]}, INVALID),
        ({"includedPaths": [{}]}, INVALID),
        ({"includedPaths": [{"path": 1}]}, INVALID),
        ({"includedPaths": [{"path": "/a/?"}]}, "The special mandatory indexing path '/'"),
        ({"excludedPaths": [{"path": "/a/?"}]}, "The special mandatory indexing path '/'"),
        ({"includedPaths": [ROOT], "excludedPaths": [{"path": "/"}]}, "is in both"),
        ({"compositeIndexes": {}}, INVALID),
        ({"compositeIndexes": [{}]}, INVALID),
        ({"compositeIndexes": [["/a", "/b"]]}, INVALID),
        ({"compositeIndexes": [[{"path": "/a"}]]}, "must have at least 2 paths"),
        ({"spatialIndexes": [{}]}, INVALID),
        ({"spatialIndexes": [{"path": "/l/*", "types": ["Circle"]}]}, INVALID),
        ({"spatialIndexes": [{"path": "/l/*", "types": "Point"}]}, INVALID),
        ({"spatialIndexes": [{"path": "l"}]}, NOT_A_PATH),
        ({"spatialIndexes": [{"path": "/l/*"}, {"path": '/"l"/*'}]}, "more than once"),
        ({"spatialIndexes": [{"path": "/l/*", "boundingBox": {}}]}, "must not have a boundingBox"),
    ],
)
def test_bad_policies(sent: Any, fragment: str) -> None:
    assert fragment in refusal(indexingPolicy=sent)


@pytest.mark.parametrize("name", ["includedPaths", "excludedPaths"])
def test_at_most_1500_paths(name: str) -> None:
    entries = [ROOT, *({"path": f"/p{i}/?"} for i in range(1499))]
    assert policy(**{name: entries})[name][:1500] == entries
    assert "1500" in refusal(indexingPolicy={name: [*entries, {"path": "/more/?"}]})


def composite(*names: str, **members: Any) -> list[dict[str, Any]]:
    return [{"path": f"/{name}"} | members for name in names]


def test_composite_indexes() -> None:
    sent = [
        [{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "Descending"}],
        [{"path": "/c/[]/d"}, {"path": '/"e f"'}],
    ]
    assert policy(compositeIndexes=sent)["compositeIndexes"] == [
        [{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}],
        [{"path": "/c/[]/d", "order": "ascending"}, {"path": '/"e f"', "order": "ascending"}],
    ]
    assert len(policy(compositeIndexes=[composite(*"abcdefgh")])["compositeIndexes"][0]) == 8
    assert len(policy(compositeIndexes=[composite("a", "b")] * 100)["compositeIndexes"]) == 100


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        ([composite("a")], "must have at least 2 paths"),
        ([composite(*"abcdefghi")], "at most 8"),
        ([composite("a", "b")] * 101, "the maximum is 100"),
        ([composite("a", "b", order="up")], "The composite order 'up' is invalid."),
        ([composite("a", '"a"')], "more than once"),
        ([composite("a", "b/?")], NOT_A_PATH),
        ([composite("a", "*")], NOT_A_PATH),
        ([composite("a", "b/[]")], NOT_A_PATH),
        ([[{"path": "a"}, {"path": "/b"}]], NOT_A_PATH),
    ],
)
def test_bad_composite_indexes(sent: Any, fragment: str) -> None:
    assert fragment in refusal(indexingPolicy={"compositeIndexes": sent})


@pytest.mark.parametrize("types", [None, [], ["Point"], ["polygon", "Point"], ALL_TYPES])
def test_spatial_indexes_cover_all_types(types: Any) -> None:
    stored = policy(spatialIndexes=[{"path": "/l/*", "types": types}])
    assert stored["spatialIndexes"] == [{"path": "/l/*", "types": ALL_TYPES}]


BOX = {"xmin": -10, "ymin": -20.5, "xmax": 10, "ymax": 20}


def test_planar_spatial_index() -> None:
    index = {"path": "/l/*", "types": ALL_TYPES, "boundingBox": BOX}
    definition = create(
        geospatialConfig={"type": "geometry"}, indexingPolicy={"spatialIndexes": [index]}
    )
    assert definition["geospatialConfig"] == {"type": "Geometry"}
    assert definition["indexingPolicy"]["spatialIndexes"] == [index]


@pytest.mark.parametrize(
    "box", [None, {}, [], BOX | {"xmax": -10}, BOX | {"ymin": 21}, BOX | {"xmin": "0"}]
)
def test_bad_bounding_boxes(box: Any) -> None:
    sent = {"spatialIndexes": [{"path": "/l/*", "boundingBox": box}]}
    assert "boundingBox" in refusal(geospatialConfig={"type": "Geometry"}, indexingPolicy=sent)
