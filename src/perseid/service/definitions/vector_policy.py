"""Vector policies and indexes: what the vectors of a container look like and how they are indexed.

Only checks definitions; the query functions compute distances.
"""

from __future__ import annotations

from typing import Any, Final

from perseid.service.definitions.json_types import (
    as_list,
    as_object,
    as_objects,
    as_whole,
    invalid,
    one_of,
)
from perseid.service.definitions.path_grammar import is_property_path

DATA_TYPES: Final = ("float32", "float16", "uint8", "int8")
DISTANCES: Final = ("cosine", "euclidean", "dotproduct")
INDEX_TYPES: Final = ("flat", "quantizedFlat", "diskANN")
QUANTIZERS: Final = ("product", "spherical")
MAX_DIMENSIONS: Final = 4096
MAX_FLAT_DIMENSIONS: Final = 505
MAX_QUANTIZED_BYTES: Final = 512
# The limit in the service's message if the length of the vector is unknown.
USUAL_QUANTIZED_BYTES: Final = 256
SEARCH_LIST_SIZES: Final = range(25, 501)
MAX_SHARD_PATHS: Final = 1

_INDEXES: Final = "indexingPolicy.vectorIndexes"
# Clients disagree about the plural; each gets back what it sent.
_SHARD_KEYS: Final = ("vectorIndexShardKey", "vectorIndexShardKeys")


def normalised_policy(value: Any) -> dict[str, Any] | None:
    """The `vectorEmbeddingPolicy` with known members only."""
    if value is None:
        return None
    given = as_object(value, "vectorEmbeddingPolicy")
    embeddings: dict[str, dict[str, Any]] = {}
    for entry in as_objects(given.get("vectorEmbeddings"), "vectorEmbeddingPolicy"):
        embedding = _embedding(entry)
        if embedding["path"] in embeddings:
            raise invalid(f"Duplicate Path :{embedding['path']} found in Vector Embedding Policy.")
        embeddings[embedding["path"]] = embedding
    return {"vectorEmbeddings": list(embeddings.values())}


def normalised_indexes(value: Any) -> list[dict[str, Any]]:
    """The `vectorIndexes` of an indexing policy; nothing is added."""
    indexes: dict[str, dict[str, Any]] = {}
    for entry in as_objects(value, _INDEXES):
        index = _index(entry)
        if index["path"] in indexes:
            raise invalid(f"Duplicate Path :{index['path']} found in Vector Indexing Policy.")
        indexes[index["path"]] = index
    return list(indexes.values())


def check_combination(policy: dict[str, Any] | None, indexes: list[dict[str, Any]]) -> None:
    """400 for an index without an embedding, or one that does not fit its dimensions."""
    lengths = {entry["path"]: entry["dimensions"] for entry in _embeddings(policy)}
    for index in indexes:
        path, length = index["path"], lengths.get(index["path"])
        most = USUAL_QUANTIZED_BYTES if length is None else min(length, MAX_QUANTIZED_BYTES)
        _check_range("QuantizationByteSize", index.get("quantizationByteSize"), 1, most)
        if length is None:
            raise invalid(
                f"The Vector Indexing Policy's path::{path} not matching in Embedding's path."
            )
        if index["type"] == "flat" and length > MAX_FLAT_DIMENSIONS:
            raise invalid(
                f"The Vector Indexing Policy's path::{path} has Dimensions:{length} which is more"
                f" than the maximum for Index Type::flat: {MAX_FLAT_DIMENSIONS}."
            )


def check_replacement(
    old_policy: dict[str, Any] | None,
    new_policy: dict[str, Any] | None,
    old_indexes: list[dict[str, Any]],
    new_indexes: list[dict[str, Any]],
) -> None:
    """400 if a path changes that exists before and after; paths may be added and removed."""
    for what, old, new in (
        ("vector indexing", old_indexes, new_indexes),
        ("embedding", _embeddings(old_policy), _embeddings(new_policy)),
    ):
        before = {entry["path"]: entry for entry in old}
        if any(entry != before.get(entry["path"], entry) for entry in new):
            raise invalid(
                f"Paths in existing {what} policy cannot be modified in Collection Replace."
                " They can only be added or removed."
            )


def _embeddings(policy: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [] if policy is None else policy["vectorEmbeddings"]


def _embedding(entry: dict[str, Any]) -> dict[str, Any]:
    path = entry.get("path")
    if not is_property_path(path):
        raise invalid(f"The Vector Embedding Policy has an invalid Path:{path}.")
    data_type = one_of(entry.get("dataType"), DATA_TYPES)
    if data_type is None:
        raise invalid(
            f"The Vector Embedding Policy has an invalid DataType:{entry.get('dataType')}."
            f" Supported types are: {', '.join(DATA_TYPES)}."
        )
    distance = one_of(entry.get("distanceFunction"), DISTANCES)
    if distance is None:
        raise invalid(
            "The Vector Embedding Policy has an invalid"
            f" DistanceFunction:{entry.get('distanceFunction')}."
            f" Supported functions are: {', '.join(DISTANCES)}."
        )
    return {
        "path": path,
        "dataType": data_type,
        "distanceFunction": distance,
        "dimensions": _dimensions(entry.get("dimensions")),
    }


def _dimensions(value: Any) -> int:
    length = as_whole(value, "vectorEmbeddingPolicy.vectorEmbeddings.dimensions")
    wrong = "The Vector Embedding Policy has Dimensions:"
    if length > MAX_DIMENSIONS:
        raise invalid(
            f"{wrong}{length} which is more than the maximum supported value: {MAX_DIMENSIONS}."
        )
    if length < 1:
        raise invalid(f"{wrong}{length} which is less than the minimum supported value: 1.")
    return length


def _index(entry: dict[str, Any]) -> dict[str, Any]:
    path = entry.get("path")
    if not is_property_path(path):
        raise invalid(f"The Vector Indexing Policy has an invalid Path: {path}.")
    kind = one_of(entry.get("type"), INDEX_TYPES)
    if kind is None:
        raise invalid(
            f"The Vector Indexing Policy's Index Type::{entry.get('type')} is invalid."
            f" Supported types are: {', '.join(INDEX_TYPES)}."
        )
    index: dict[str, Any] = {"path": path, "type": kind}
    if entry.get("quantizerType") is not None:
        quantizer = one_of(entry["quantizerType"], QUANTIZERS)
        if quantizer is None:
            raise invalid(
                "The Vector Indexing Policy parameter QuantizerType value ::"
                f" {entry['quantizerType']} is invalid."
            )
        index["quantizerType"] = quantizer
    for name in ("quantizationByteSize", "indexingSearchListSize"):
        if entry.get(name) is not None:
            index[name] = as_whole(entry[name], f"{_INDEXES}.{name}")
    sizes = SEARCH_LIST_SIZES
    _check_range("IndexingSearchListSize", index.get("indexingSearchListSize"), sizes[0], sizes[-1])
    for name in _SHARD_KEYS:
        if entry.get(name) is not None:
            index[name] = _shard_paths(entry[name], name)
    return index


def _shard_paths(value: Any, name: str) -> list[str]:
    shard_paths = as_list(value, f"{_INDEXES}.{name}")
    if len(shard_paths) > MAX_SHARD_PATHS:
        raise invalid(
            f"The number of shard paths defined in the Vector Indexing Policy: {len(shard_paths)}"
            f" exceeds the maximum: {MAX_SHARD_PATHS}."
        )
    for path in shard_paths:
        if not is_property_path(path):
            raise invalid(f"The Vector Indexing Policy has an invalid Shard Path: {path}.")
    return list(shard_paths)


def _check_range(name: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise invalid(
            f"The Vector Indexing Policy parameter {name} value :: {value} is out of range."
            f" The allowed range is between {least} and {most}."
        )
