"""Databases, containers and items, made through the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.support.raw import RawClient

PARTITION_KEY: Final = {"paths": ["/pk"], "kind": "Hash", "version": 2}


@contextmanager
def temporary_database(raw: RawClient, name: str) -> Iterator[str]:
    """The path of a database that exists until the block ends, `/dbs/<name>`."""
    assert raw.post("/dbs", {"id": name}).status == 201
    yield f"/dbs/{name}"
    assert raw.delete(f"/dbs/{name}").status == 204


def create_container(
    raw: RawClient,
    database: str,
    name: str = "c",
    *,
    headers: Mapping[str, str] | None = None,
    **properties: Any,
) -> str:
    """The path of a new container; `properties` join its definition, its key is /pk by default.

    `headers` has the short names of RawClient: `{"throughput": "400"}`.
    """
    body = {"id": name, "partitionKey": PARTITION_KEY} | properties
    reply = raw.post(f"{database}/colls", body, **(headers or {}))
    assert reply.status == 201, reply
    return f"{database}/colls/{name}"


def create_items(
    raw: RawClient, container: str, count: int, pk: str = "a", start: int = 0
) -> list[str]:
    """Creates items with this key; returns their ids in order of creation."""
    ids = [f"{pk}{number}" for number in range(start, start + count)]
    for item_id in ids:
        body = {"id": item_id, "pk": pk}
        assert raw.post(f"{container}/docs", body, pk=json.dumps([pk])).status == 201
    return ids
