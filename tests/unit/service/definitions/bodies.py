"""Container bodies, and how the service checks them."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.errors import BadRequest
from perseid.service.definitions.container import new_container, replaced_container
from tests.support.builders import PARTITION_KEY

ETAG = {"path": '/"_etag"/?'}
ROOT = {"path": "/*"}
DEFAULT_POLICY = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [ROOT],
    "excludedPaths": [ETAG],
}
EMBEDDING = {
    "path": "/v",
    "dataType": "float32",
    "distanceFunction": "cosine",
    "dimensions": 256,
}
INVALID = "One of the specified inputs is invalid"


def accept_all(name: str, query: str) -> None:
    """A computed-property check without objections."""


def body(**properties: Any) -> dict[str, Any]:
    return {"id": "c", "partitionKey": PARTITION_KEY} | properties


def create(**properties: Any) -> dict[str, Any]:
    return new_container(body(**properties), computed_check=accept_all)


def replace(old: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return replaced_container(old, body(**properties), computed_check=accept_all)


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


# Vectors -----------------------------------------------------------------------------------------


def with_vectors(*indexes: dict[str, Any], **embedding: Any) -> dict[str, Any]:
    return {
        "indexingPolicy": {"vectorIndexes": list(indexes)},
        "vectorEmbeddingPolicy": {"vectorEmbeddings": [EMBEDDING | embedding]},
    }


TEXT_POLICY = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/abstract"}]}

# Other properties --------------------------------------------------------------------------------


def keys(*paths: list[str]) -> dict[str, Any]:
    return {"uniqueKeys": [{"paths": each} for each in paths]}


def computed(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "query": f"SELECT VALUE c.{name} FROM c"} for name in names]


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
