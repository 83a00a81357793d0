"""Builders and constants that the suites of the synchronous Python client share."""

from __future__ import annotations

import re
from typing import Any

from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey

GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ETAG = re.compile(rf'"{GUID.pattern}"')
OTHER_ETAG = '"00000000-0000-0000-0000-000000000000"'
SYSTEM = {"_rid", "_self", "_etag", "_ts"}


def create_container(
    database: DatabaseProxy, key: str | list[str] = "/pk", **more: Any
) -> ContainerProxy:
    """A container with a name of its own in the database."""
    name = f"c{len(list(database.list_containers()))}"
    made: ContainerProxy = database.create_container(
        id=name, partition_key=PartitionKey(path=key), **more
    )
    return made


def create_items(container: ContainerProxy, count: int, keys: int = 1) -> list[str]:
    """Creates items 000, 001, … with the keys k0, k1, … in turn; returns the ids."""
    ids = [f"{number:03}" for number in range(count)]
    for number, item_id in enumerate(ids):
        container.create_item({"id": item_id, "pk": f"k{number % keys}", "n": number})
    return ids


def ids_of(items: Any) -> list[str]:
    return [item["id"] for item in items]


def query(container: ContainerProxy, text: str, **options: Any) -> list[Any]:
    """All rows; the client's own type says they are objects, whatever was selected."""
    return list(container.query_items(text, **options))


COMPUTED = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
QUOTED = '/"level\' 1*()"/"le/vel2"'


def paths(*given: str) -> list[dict[str, str]]:
    return [{"path": path} for path in given]


BAD_NAME = "Ensure to provide a unique non-empty string less than '255' characters."
