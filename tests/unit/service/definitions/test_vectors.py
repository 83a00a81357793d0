"""Vector embeddings and vector indexes of a container definition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.service.definitions.bodies import EMBEDDING, INVALID, create, refusal, with_vectors


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
