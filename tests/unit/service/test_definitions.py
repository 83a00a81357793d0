"""Container definitions: every rule of create and replace, good and bad."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.errors import BadRequest
from perseid.service import definitions
from perseid.service.definitions import new_container, replaced_container

KEY = {"paths": ["/pk"], "kind": "Hash", "version": 2}
ETAG = {"path": '/"_etag"/?'}
ROOT = {"path": "/*"}
DEFAULT_POLICY = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [ROOT],
    "excludedPaths": [ETAG],
}
ALL_TYPES = ["Point", "LineString", "Polygon", "MultiPolygon"]
EMBEDDING = {
    "path": "/v",
    "dataType": "float32",
    "distanceFunction": "cosine",
    "dimensions": 256,
}
INVALID = "One of the specified inputs is invalid"
NOT_A_PATH = "Please ensure that the path is a valid path"
MODE_NONE = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"
FIXED_INDEX = (
    "Paths in existing vector indexing policy cannot be modified in Collection Replace."
    " They can only be added or removed."
)
FIXED_EMBEDDING = (
    "Paths in existing embedding policy cannot be modified in Collection Replace."
    " They can only be added or removed."
)


def accept_all(name: str, query: str) -> None:
    """A computed-property check without objections."""


def body(**properties: Any) -> dict[str, Any]:
    return {"id": "c", "partitionKey": KEY} | properties


def create(**properties: Any) -> dict[str, Any]:
    return new_container(body(**properties), computed_check=accept_all)


def replace(old: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return replaced_container(old, body(**properties), computed_check=accept_all)


def policy(**members: Any) -> dict[str, Any]:
    """The stored policy for a sent one."""
    stored = create(indexingPolicy=members)["indexingPolicy"]
    assert isinstance(stored, dict)
    return stored


def refusal(**properties: Any) -> str:
    """The text of the 400, which is always of the listed kind."""
    with pytest.raises(BadRequest) as caught:
        create(**properties)
    assert caught.value.listed
    return caught.value.message


def refusal_of_replace(old: dict[str, Any], **properties: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        replace(old, **properties)
    assert caught.value.listed
    return caught.value.message


# The whole ---------------------------------------------------------------------------------------


def test_smallest_body_is_completed_in_order() -> None:
    definition = create()
    assert definition == {
        "id": "c",
        "indexingPolicy": DEFAULT_POLICY,
        "partitionKey": KEY,
        "uniqueKeyPolicy": {"uniqueKeys": []},
        "conflictResolutionPolicy": {
            "mode": "LastWriterWins",
            "conflictResolutionPath": "/_ts",
            "conflictResolutionProcedure": "",
        },
        "geospatialConfig": {"type": "Geography"},
    }
    assert list(create(defaultTtl=10, computedProperties=[{"name": "n", "query": "q"}])) == [
        "id",
        "indexingPolicy",
        "partitionKey",
        "defaultTtl",
        "uniqueKeyPolicy",
        "conflictResolutionPolicy",
        "geospatialConfig",
        "computedProperties",
    ]


def test_system_and_unknown_properties_are_dropped() -> None:
    names = ["_rid", "_self", "_etag", "_ts", "_docs", "_sprocs", "_triggers", "_udfs"]
    system = dict.fromkeys([*names, "_conflicts", "statistics", "colour"], "x")
    assert create(**system) == create()


@pytest.mark.parametrize("value", [None, [], "c", 1, True])
def test_body_must_be_an_object(value: Any) -> None:
    with pytest.raises(BadRequest):
        new_container(value, computed_check=accept_all)
    with pytest.raises(BadRequest):
        replaced_container(create(), value, computed_check=accept_all)


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        (None, "'id; ' - are missing"),
        ("", "Ensure to provide a unique non-empty string less than '255' characters."),
        ("x" * 256, "Ensure to provide a unique non-empty string less than '255' characters."),
        (7, "Ensure to provide a unique non-empty string less than '255' characters."),
        ("a/b", "a/b"),
    ],
)
def test_bad_ids(value: Any, fragment: str) -> None:
    assert fragment in refusal(id=value)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (None, {"paths": ["/_partitionKey"], "kind": "Hash", "version": 1}),
        ({"paths": ["/a/b"]}, {"paths": ["/a/b"], "kind": "Hash", "version": 1}),
        (KEY, KEY),
        (
            {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
            {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
        ),
    ],
)
def test_partition_keys(sent: Any, stored: dict[str, Any]) -> None:
    assert create(partitionKey=sent)["partitionKey"] == stored


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        ({"paths": ["/a", "/b"], "kind": "Hash"}, "Too many partition key paths"),
        ({"paths": ["/a/"]}, "not contain a trailing slash or wildcard character"),
        ({"paths": []}, "path"),
        ("/pk", "object"),
        ({"paths": ["/_ts"]}, "'_ts' is set by the server"),
        ({"paths": ["/a", '/"_etag"/b'], "kind": "MultiHash"}, "'_etag' is set by the server"),
    ],
)
def test_bad_partition_keys(sent: Any, fragment: str) -> None:
    assert fragment in refusal(partitionKey=sent)


# Lifetimes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "stored"), [(-1, -1), (1, 1), (2147483647, 2147483647), (60.0, 60)]
)
def test_default_ttl_is_echoed(sent: Any, stored: int) -> None:
    assert create(defaultTtl=sent)["defaultTtl"] == stored


def test_default_ttl_is_absent_when_off() -> None:
    assert "defaultTtl" not in create(defaultTtl=None)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [(0, "0"), (-10, "-10"), (2147483648, "2147483648"), (1.5, "1.5"), ("60", '"60"'), ([], "[]")],
)
def test_bad_default_ttls(sent: Any, shown: str) -> None:
    assert f"The input defaultTtl '{shown}' is invalid." in refusal(defaultTtl=sent)


def test_ttl_property_path_is_not_ignored() -> None:
    assert "ttlPropertyPath" in refusal(ttlPropertyPath="/t")
    assert create(ttlPropertyPath=None) == create()


@pytest.mark.parametrize("value", [-1, 0, 1, 2147483647])
def test_analytical_ttls(value: int) -> None:
    assert create(analyticalStorageTtl=value)["analyticalStorageTtl"] == value


@pytest.mark.parametrize("value", [-10, -2, 2147483648, 1.5, "10", True, [], {}])
def test_bad_analytical_ttls(value: Any) -> None:
    assert "analyticalStorageTtl" in refusal(analyticalStorageTtl=value)


@pytest.mark.parametrize("ttl", [-1, 1, 60])
@pytest.mark.parametrize("mode", ["consistent", "lazy", "Lazy"])
def test_ttl_goes_with_an_index(ttl: int, mode: str) -> None:
    sent = {"defaultTtl": ttl, "indexingPolicy": {"indexingMode": mode}}
    assert create(**sent)["defaultTtl"] == ttl
    assert replace(create(), **sent)["defaultTtl"] == ttl


@pytest.mark.parametrize("ttl", [-1, 1, 60])
@pytest.mark.parametrize("mode", ["none", "None"])
def test_ttl_does_not_go_without_an_index(ttl: int, mode: str) -> None:
    unindexed = {"indexingPolicy": {"indexingMode": mode}}
    sent = {"defaultTtl": ttl} | unindexed
    assert refusal(**sent) == MODE_NONE
    assert refusal_of_replace(create(**unindexed), **sent) == MODE_NONE
    assert refusal_of_replace(create(defaultTtl=ttl), **sent) == MODE_NONE


def test_only_the_resulting_definition_counts() -> None:
    no_index = {"indexingMode": "none", "automatic": False}
    expiring, unindexed = create(defaultTtl=60), create(indexingPolicy=no_index)
    assert "defaultTtl" not in replace(expiring, indexingPolicy=no_index)
    assert replace(unindexed, defaultTtl=60)["indexingPolicy"] == DEFAULT_POLICY


def test_ttl_without_property_indexes_is_supported() -> None:
    sent = {"indexingMode": "consistent", "includedPaths": [], "excludedPaths": [ROOT]}
    stored = create(defaultTtl=10, indexingPolicy=sent)["indexingPolicy"]
    assert (stored["includedPaths"], stored["excludedPaths"]) == ([], [ROOT, ETAG])


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
        ({"automatic": False}, "consistent", False),
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


# Vectors -----------------------------------------------------------------------------------------


def with_vectors(*indexes: dict[str, Any], **embedding: Any) -> dict[str, Any]:
    return {
        "indexingPolicy": {"vectorIndexes": list(indexes)},
        "vectorEmbeddingPolicy": {"vectorEmbeddings": [EMBEDDING | embedding]},
    }


@pytest.mark.parametrize(
    "index",
    [
        {"path": "/v", "type": "flat"},
        {"path": "/v", "type": "quantizedFlat", "quantizationByteSize": 256},
        {
            "path": "/v",
            "type": "diskANN",
            "quantizerType": "product",
            "quantizationByteSize": 8,
            "indexingSearchListSize": 50,
            "vectorIndexShardKey": ["/country/city"],
        },
        {"path": "/v", "type": "diskANN", "quantizerType": "spherical"},
        {"path": "/v", "type": "diskANN", "vectorIndexShardKeys": ["/zip"]},
    ],
)
@pytest.mark.parametrize("data_type", ["float32", "float16", "uint8", "int8"])
def test_vector_policies_are_echoed(index: dict[str, Any], data_type: str) -> None:
    sent = with_vectors(index, dataType=data_type)
    stored = create(**sent)
    assert stored["vectorEmbeddingPolicy"] == sent["vectorEmbeddingPolicy"]
    assert stored["indexingPolicy"]["vectorIndexes"] == [index]


@pytest.mark.parametrize(
    ("index", "fragment"),
    [
        (
            {"path": "/vector1", "type": "flat"},
            "The Vector Indexing Policy's path::/vector1 not matching in Embedding's path.",
        ),
        ({"path": "/v", "type": "notFlat"}, "Index Type::notFlat is invalid"),
        ({"path": "/v"}, "Index Type::None is invalid"),
        ({"path": "v", "type": "flat"}, "invalid Path: v"),
        (
            {"path": "/v", "type": "quantizedFlat", "quantizationByteSize": 0},
            "The Vector Indexing Policy parameter QuantizationByteSize value :: 0 is out of range."
            " The allowed range is between 1 and 256.",
        ),
        (
            {"path": "/other", "type": "quantizedFlat", "quantizationByteSize": 0},
            "QuantizationByteSize value :: 0 is out of range."
            " The allowed range is between 1 and 256.",
        ),
        (
            {"path": "/v", "type": "diskANN", "indexingSearchListSize": 5},
            "IndexingSearchListSize value :: 5 is out of range."
            " The allowed range is between 25 and 500.",
        ),
        (
            {"path": "/v", "type": "diskANN", "vectorIndexShardKey": ["country"]},
            "The Vector Indexing Policy has an invalid Shard Path: country.",
        ),
        (
            {"path": "/v", "type": "diskANN", "vectorIndexShardKey": ["/a", "/b", "/c"]},
            "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the"
            " maximum: 1.",
        ),
        ({"path": "/v", "type": "diskANN", "vectorIndexShardKey": "/country"}, INVALID),
        ({"path": "/v", "type": "diskANN", "quantizerType": "exact"}, "QuantizerType"),
        ({"path": "/v", "type": "diskANN", "quantizationByteSize": "8"}, INVALID),
    ],
)
def test_bad_vector_indexes(index: dict[str, Any], fragment: str) -> None:
    assert fragment in refusal(**with_vectors(index))


@pytest.mark.parametrize(
    ("embedding", "fragment"),
    [
        ({"dataType": "float33"}, "Vector Embedding Policy has an invalid DataType"),
        (
            {"dimensions": 8000},
            "Vector Embedding Policy has Dimensions:8000 which is more than the maximum supported"
            " value",
        ),
        ({"dimensions": -1}, "The Vector Embedding Policy has Dimensions:-1"),
        ({"dimensions": 0}, "The Vector Embedding Policy has Dimensions:0"),
        ({"dimensions": "3"}, INVALID),
        (
            {"distanceFunction": "handMeasured"},
            "The Vector Embedding Policy has an invalid DistanceFunction:handMeasured",
        ),
        ({"path": "v"}, "invalid Path:v"),
    ],
)
def test_bad_embeddings(embedding: dict[str, Any], fragment: str) -> None:
    assert fragment in refusal(**with_vectors(**embedding))


@pytest.mark.parametrize(
    ("dimensions", "index", "allowed"),
    [
        (505, {"type": "flat"}, True),
        (506, {"type": "flat"}, False),
        (4096, {"type": "diskANN"}, True),
        (550, {"type": "quantizedFlat", "quantizationByteSize": 512}, True),
        (550, {"type": "quantizedFlat", "quantizationByteSize": 513}, False),
        (300, {"type": "quantizedFlat", "quantizationByteSize": 300}, True),
        (300, {"type": "quantizedFlat", "quantizationByteSize": 301}, False),
    ],
)
def test_indexes_suit_the_length(dimensions: int, index: dict[str, Any], allowed: bool) -> None:
    sent = with_vectors({"path": "/v"} | index, dimensions=dimensions)
    if allowed:
        create(**sent)
    else:
        refusal(**sent)


def test_vector_paths_are_unique() -> None:
    twice = {"vectorEmbeddings": [EMBEDDING, EMBEDDING]}
    assert "Duplicate Path :/v found in Vector Embedding Policy." in refusal(
        vectorEmbeddingPolicy=twice
    )
    index = {"path": "/v", "type": "flat"}
    assert "Duplicate Path :/v found in Vector Indexing Policy." in refusal(
        **with_vectors(index, index)
    )


def test_vector_index_needs_an_embedding_policy() -> None:
    sent = {"vectorIndexes": [{"path": "/vector1", "type": "flat"}]}
    assert "vector1 not matching in Embedding's path" in refusal(indexingPolicy=sent)


# Full text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t", "language": "de-DE"}]},
        {"defaultLanguage": "pt-BR", "fullTextPaths": [{"path": "/t"}]},
        {"defaultLanguage": "en-US"},
    ],
)
def test_full_text_policies_are_echoed(sent: dict[str, Any]) -> None:
    assert create(fullTextPolicy=sent)["fullTextPolicy"] == sent


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (
            {"fullTextPaths": [{"path": "abstract"}]},
            "The Full Text Policy contains an invalid Path: abstract",
        ),
        ({"fullTextPaths": [{"path": "/a/*"}]}, "The Full Text Policy contains an invalid Path"),
        ({"fullTextPaths": [{"path": "/a"}, {"path": "/a"}]}, "Duplicate Path :/a"),
        (
            {"defaultLanguage": "spa-SPA"},
            "The Full Text Policy contains an unsupported language spa-SPA."
            " Supported languages are:",
        ),
        (
            {"fullTextPaths": [{"path": "/a", "language": "spa-SPA"}]},
            "The Full Text Policy contains an unsupported language spa-SPA."
            " Supported languages are:",
        ),
        ({"defaultLanguage": 1}, INVALID),
        ([], INVALID),
    ],
)
def test_bad_full_text_policies(sent: Any, fragment: str) -> None:
    assert fragment in refusal(fullTextPolicy=sent)


TEXT_POLICY = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/abstract"}]}


def test_full_text_indexes_are_echoed() -> None:
    indexes = [{"path": "/abstract"}]
    stored = create(fullTextPolicy=TEXT_POLICY, indexingPolicy={"fullTextIndexes": indexes})
    assert stored["indexingPolicy"]["fullTextIndexes"] == indexes


@pytest.mark.parametrize(
    ("indexes", "fragment"),
    [
        (
            [{"path": "/path"}],
            "The path of the Full Text Index /path does not match the path specified in the"
            " Full Text Policy",
        ),
        (
            [{"path": "abstract"}],
            "Full-text index specification at index (0) contains invalid path",
        ),
        (
            [{"path": "/abstract"}, {"not_path": "abstract"}],
            "Missing path in full-text index specification at index (1)",
        ),
        ([{"path": "/abstract"}] * 2, "repeats path"),
        ("/abstract", INVALID),
    ],
)
def test_bad_full_text_indexes(indexes: Any, fragment: str) -> None:
    text = refusal(fullTextPolicy=TEXT_POLICY, indexingPolicy={"fullTextIndexes": indexes})
    assert fragment in text


# Other properties --------------------------------------------------------------------------------


def keys(*paths: list[str]) -> dict[str, Any]:
    return {"uniqueKeys": [{"paths": each} for each in paths]}


@pytest.mark.parametrize(
    "sent",
    [
        keys(["/email"], ["/first", "/last"]),
        keys(*([f"/{i}"] for i in range(10))),
        keys([f"/{i}" for i in range(16)]),
        keys(["/a/b", '/"x y"']),
    ],
)
def test_unique_keys_are_echoed(sent: dict[str, Any]) -> None:
    assert create(uniqueKeyPolicy=sent)["uniqueKeyPolicy"] == sent


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (keys(*([f"/{i}"] for i in range(11))), "11 unique keys; the maximum is 10"),
        (keys([f"/{i}" for i in range(17)]), "17 unique key paths; the maximum is 16"),
        (keys(["/a/*"]), "'/a/*' could not be accepted"),
        (keys(["/a/[]/b"]), "could not be accepted"),
        (keys(["a"]), "could not be accepted"),
        (keys(["/a/"]), "could not be accepted"),
        (keys([]), "at least one path"),
        (keys(["/a", "/_rid"]), "'_rid' is set by the server"),
        ({"uniqueKeys": [{}]}, INVALID),
        ({"uniqueKeys": {}}, INVALID),
        ([], INVALID),
    ],
)
def test_bad_unique_keys(sent: Any, fragment: str) -> None:
    assert fragment in refusal(uniqueKeyPolicy=sent)


@pytest.mark.parametrize(
    ("sent", "mode", "path", "procedure"),
    [
        ({}, "LastWriterWins", "/_ts", ""),
        ({"mode": "lastWriterWins", "conflictResolutionPath": ""}, "LastWriterWins", "/_ts", ""),
        ({"conflictResolutionPath": "/rank"}, "LastWriterWins", "/rank", ""),
        ({"mode": "Custom"}, "Custom", "", ""),
        (
            {"mode": "custom", "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/s"},
            "Custom",
            "",
            "dbs/d/colls/c/sprocs/s",
        ),
    ],
)
def test_conflict_policies(sent: dict[str, Any], mode: str, path: str, procedure: str) -> None:
    assert create(conflictResolutionPolicy=sent)["conflictResolutionPolicy"] == {
        "mode": mode,
        "conflictResolutionPath": path,
        "conflictResolutionProcedure": procedure,
    }


@pytest.mark.parametrize(
    "sent",
    [
        {"mode": "FirstWriterWins"},
        {"mode": 1},
        {"conflictResolutionPath": "rank"},
        {"conflictResolutionPath": 1},
        {"mode": "LastWriterWins", "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/s"},
        {"mode": "Custom", "conflictResolutionPath": "/rank"},
        [],
    ],
)
def test_bad_conflict_policies(sent: Any) -> None:
    assert INVALID in refusal(conflictResolutionPolicy=sent)


@pytest.mark.parametrize("sent", [{"type": "Flat"}, {"type": 1}, [], "Geometry"])
def test_bad_geospatial_configs(sent: Any) -> None:
    assert INVALID in refusal(geospatialConfig=sent)


def computed(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "query": f"SELECT VALUE c.{name} FROM c"} for name in names]


def test_computed_properties_are_checked_and_echoed() -> None:
    seen: list[tuple[str, str]] = []
    sent = computed(*(f"cp{i}" for i in range(20)))
    stored = new_container(
        body(computedProperties=[entry | {"more": 1} for entry in sent]),
        computed_check=lambda name, query: seen.append((name, query)),
    )
    assert stored["computedProperties"] == sent
    assert seen == [(entry["name"], entry["query"]) for entry in sent]


def test_a_computed_property_the_query_engine_refuses() -> None:
    def refuse_all(name: str, query: str) -> None:
        raise BadRequest(f"{name}: {query}")

    with pytest.raises(BadRequest, match=r"cp: SELECT VALUE c\.cp FROM c"):
        new_container(body(computedProperties=computed("cp")), computed_check=refuse_all)


@pytest.mark.parametrize("sent", [None, []])
def test_no_computed_properties(sent: Any) -> None:
    assert "computedProperties" not in create(computedProperties=sent)


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (computed("a")[0], INVALID),
        (["a"], INVALID),
        ([{"name": "a"}], INVALID),
        ([{"query": "q"}], INVALID),
        ([{"name": "a", "query": 1}], INVALID),
        (computed(""), INVALID),
        (computed("a", "a"), INVALID),
        *((computed(name), INVALID) for name in ("id", "_rid", "_self", "_etag", "_ts")),
        (computed(*(f"cp{i}" for i in range(21))), "the maximum is 20"),
    ],
)
def test_bad_computed_properties(sent: Any, fragment: str) -> None:
    assert fragment in refusal(computedProperties=sent)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [({"retentionDuration": 5}, {"retentionDuration": 5}), ({}, {"retentionDuration": 0})],
)
def test_change_feed_policies(sent: Any, stored: Any) -> None:
    assert create(changeFeedPolicy=sent)["changeFeedPolicy"] == stored


@pytest.mark.parametrize(
    "sent", [[], {"retentionDuration": -1}, {"retentionDuration": "5"}, {"retentionDuration": 1.5}]
)
def test_bad_change_feed_policies(sent: Any) -> None:
    assert INVALID in refusal(changeFeedPolicy=sent)


@pytest.mark.parametrize(
    "name",
    ["clientEncryptionPolicy", "materializedViewDefinition", "globalSecondaryIndexDefinition"],
)
def test_properties_for_clients_are_echoed_and_kept(name: str) -> None:
    container = create(**{name: {"any": ["thing"]}})
    assert container[name] == {"any": ["thing"]}
    assert replace(container)[name] == {"any": ["thing"]}
    assert name not in create(**{name: None})
    assert INVALID in refusal(**{name: "text"})


# Replace -----------------------------------------------------------------------------------------

FULL = {
    "defaultTtl": 60,
    "analyticalStorageTtl": -1,
    "uniqueKeyPolicy": keys(["/email"]),
    "conflictResolutionPolicy": {"mode": "Custom"},
    "computedProperties": computed("cp"),
    "fullTextPolicy": TEXT_POLICY,
    "changeFeedPolicy": {"retentionDuration": 5},
    "geospatialConfig": {"type": "Geometry"},
    **with_vectors({"path": "/v", "type": "flat"}),
}


def test_replace_with_what_was_read_changes_nothing() -> None:
    container = create(**FULL)
    read = container | {"_rid": "x", "_self": "y", "_ts": 1}
    assert replaced_container(container, read, computed_check=accept_all) == container


def test_replace_resets_what_it_omits() -> None:
    container = create(**FULL)
    fixed = ("uniqueKeyPolicy", "conflictResolutionPolicy", "analyticalStorageTtl")
    assert replace(container) == create() | {name: container[name] for name in fixed}


@pytest.mark.parametrize(
    ("sent", "stored"), [({}, -1), ({"analyticalStorageTtl": None}, -1), (1000, 1000), (0, 0)]
)
def test_analytical_ttl_outlives_omission(sent: Any, stored: int) -> None:
    container = create(analyticalStorageTtl=-1)
    change = sent if isinstance(sent, dict) else {"analyticalStorageTtl": sent}
    assert replace(container, **change)["analyticalStorageTtl"] == stored


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"id": "other"}, "cannot be changed"),
        ({"id": None}, "cannot be changed"),
        (
            {"partitionKey": {"paths": ["/other"], "kind": "Hash", "version": 2}},
            "Document collection partition key cannot be changed",
        ),
        (
            {"partitionKey": {"paths": ["/pk"]}},
            "Document collection partition key cannot be changed",
        ),
        ({"partitionKey": None}, "Document collection partition key cannot be changed"),
        ({"uniqueKeyPolicy": keys(["/b"])}, "The unique index cannot be modified."),
        ({"uniqueKeyPolicy": keys()}, "The unique index cannot be modified."),
        ({"conflictResolutionPolicy": {"mode": "Custom"}}, "conflict resolution policy cannot"),
        ({"defaultTtl": 0}, "The input defaultTtl '0' is invalid."),
        ({"ttlPropertyPath": "/t"}, "ttlPropertyPath"),
    ],
)
def test_refused_changes(change: dict[str, Any], fragment: str) -> None:
    assert fragment in refusal_of_replace(create(uniqueKeyPolicy=keys(["/a"])), **change)


@pytest.mark.parametrize("sent", [{"paths": ["/pk"]}, {"paths": ["/pk"], "kind": "Hash"}])
def test_keys_are_compared_in_full_form(sent: dict[str, Any]) -> None:
    container = create(partitionKey={"paths": ["/pk"], "kind": "Hash", "version": 1})
    assert replace(container, partitionKey=sent) == container


def test_a_container_without_a_key_is_replaced_without_one() -> None:
    container = new_container({"id": "c"}, computed_check=accept_all)
    assert replaced_container(container, {"id": "c"}, computed_check=accept_all) == container


FLAT = {"path": "/v", "type": "flat"}
OTHER = EMBEDDING | {"path": "/w"}


@pytest.mark.parametrize(
    ("indexes", "embeddings", "fragment"),
    [
        ([FLAT], [], "The Vector Indexing Policy's path::/v not matching in Embedding's path."),
        ([FLAT | {"type": "quantizedFlat"}], [EMBEDDING], FIXED_INDEX),
        ([FLAT | {"type": "quantizedFlat"}], [], FIXED_INDEX),
        ([FLAT], [EMBEDDING | {"dimensions": 384}], FIXED_EMBEDDING),
        ([], [EMBEDDING | {"dimensions": 384}], FIXED_EMBEDDING),
        ([FLAT], [EMBEDDING], None),
        ([FLAT, FLAT | {"path": "/w"}], [EMBEDDING, OTHER], None),
        ([], [EMBEDDING], None),
        ([], [], None),
    ],
)
def test_vector_paths_come_and_go_but_do_not_change(
    indexes: list[Any], embeddings: list[Any], fragment: str | None
) -> None:
    container = create(**with_vectors(FLAT))
    change = {
        "indexingPolicy": {"vectorIndexes": indexes},
        "vectorEmbeddingPolicy": {"vectorEmbeddings": embeddings} if embeddings else None,
    }
    if fragment is None:
        replace(container, **change)
    else:
        assert fragment in refusal_of_replace(container, **change)


# Whatever is sent --------------------------------------------------------------------------------

_TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["/", "/*", "/a", "/a/?", '/"_etag"/?', "/a/[]/{x,y}/?", "none", "flat", "Custom", "en-US"]
    ),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            _TEXTS | st.sampled_from(["path", "paths", "type", "types", "kind", "mode", "order"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_PATHS = st.lists(st.fixed_dictionaries({"path": _TEXTS}, optional={"type": JSON}) | JSON) | JSON
_POLICIES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "indexingMode": st.sampled_from(["consistent", "None", "lazy"]) | JSON,
        "automatic": st.booleans() | JSON,
        "includedPaths": _PATHS,
        "excludedPaths": _PATHS,
        "compositeIndexes": st.lists(_PATHS, max_size=3) | JSON,
        "spatialIndexes": _PATHS,
        "vectorIndexes": _PATHS,
        "fullTextIndexes": _PATHS,
    },
)
_PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "id": JSON,
    "partitionKey": JSON,
    "indexingPolicy": _POLICIES,
    "defaultTtl": st.integers(-2, 5) | JSON,
    "uniqueKeyPolicy": st.fixed_dictionaries({"uniqueKeys": st.lists(JSON, max_size=3)}) | JSON,
    "conflictResolutionPolicy": st.fixed_dictionaries({"mode": _TEXTS}) | JSON,
    "geospatialConfig": JSON,
    "analyticalStorageTtl": JSON,
    "computedProperties": st.lists(
        st.fixed_dictionaries({"name": _TEXTS, "query": _TEXTS}) | JSON, max_size=3
    ),
    "vectorEmbeddingPolicy": st.fixed_dictionaries({"vectorEmbeddings": _PATHS}) | JSON,
    "fullTextPolicy": st.fixed_dictionaries({"fullTextPaths": _PATHS}) | JSON,
    "changeFeedPolicy": JSON,
    "clientEncryptionPolicy": JSON,
    "ttlPropertyPath": JSON,
}


def one_property(name: str) -> st.SearchStrategy[Any]:
    """Bodies that are fine but for one property, so that its own checks are reached."""
    return _PROPERTIES[name].map(lambda value: body(**{name: value}))


BODIES = (
    JSON
    | st.fixed_dictionaries({}, optional=_PROPERTIES)
    | st.sampled_from(list(_PROPERTIES)).flatmap(one_property)
    | _POLICIES.map(lambda sent: body(indexingPolicy=sent))
)


@settings(deadline=None)
@given(BODIES)
def test_any_body_gives_a_definition_or_a_400(sent: Any) -> None:
    try:
        definition = new_container(sent, computed_check=accept_all)
    except BadRequest:
        return
    assert new_container(definition, computed_check=accept_all) == definition
    assert replaced_container(definition, definition, computed_check=accept_all) == definition


@settings(deadline=None)
@given(BODIES)
def test_any_body_replaces_or_is_refused(sent: Any) -> None:
    old = create(**FULL)
    try:
        definition = replaced_container(old, sent, computed_check=accept_all)
    except BadRequest:
        return
    assert [definition[name] for name in definitions._IMMUTABLE] == [
        old[name] for name in definitions._IMMUTABLE
    ]
