"""Container definitions and the texts of their refusals."""

from __future__ import annotations

from typing import Any

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.replies import outcome

ROOT = {"path": "/*"}
ETAG_PATH = {"path": '/"_etag"/?'}
POLICY = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [ROOT],
    "excludedPaths": [ETAG_PATH],
}
LAST_WRITER = {
    "mode": "LastWriterWins",
    "conflictResolutionPath": "/_ts",
    "conflictResolutionProcedure": "",
}
MODE_NONE = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"


def definition(**properties: Any) -> dict[str, Any]:
    return {"id": "c", "partitionKey": PARTITION_KEY} | properties


def create(raw: RawClient, database: str, **properties: Any) -> dict[str, Any]:
    reply = raw.post(f"{database}/colls", definition(**properties))
    assert reply.status == 201, reply.body
    body: dict[str, Any] = reply.json
    return body


def refusal(reply: Reply) -> str:
    """The text of a 400 of the listed kind."""
    assert outcome(reply) == (400, 0, "BadRequest")
    message: str = reply.json["message"]
    return message


BOX = {"xmin": 0, "ymin": -10, "xmax": 10, "ymax": 10}
COMPOSITE = [[{"path": "/a", "order": "ascending"}, {"path": "/b", "order": "descending"}]]
EMBEDDING = {
    "path": "/vector1",
    "dataType": "float32",
    "distanceFunction": "cosine",
    "dimensions": 256,
}
EMBEDDINGS = {"vectorEmbeddings": [EMBEDDING]}
FULL_TEXT = {
    "defaultLanguage": "en-US",
    "fullTextPaths": [{"path": "/t", "language": "en-US"}],
}
LOWER = [{"name": "lowerName", "query": "SELECT VALUE LOWER(c.name) FROM c"}]


def paths(*texts: str) -> list[dict[str, str]]:
    return [{"path": text} for text in texts]


# Refusals ----------------------------------------------------------------------------------------


def vector_index(**properties: Any) -> dict[str, Any]:
    index = {"path": "/vector1", "type": "quantizedFlat"} | properties
    return {"vectorEmbeddingPolicy": EMBEDDINGS, "indexingPolicy": {"vectorIndexes": [index]}}


def embedding(**properties: Any) -> dict[str, Any]:
    return {"vectorEmbeddingPolicy": {"vectorEmbeddings": [EMBEDDING | properties]}}


def hashed(*paths: Any, kind: Any = "Hash", version: Any = 2) -> dict[str, Any]:
    return {"partitionKey": {"paths": list(paths), "kind": kind, "version": version}}


def unique(*keys: Any) -> dict[str, Any]:
    return {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": each} for each in keys]}}
