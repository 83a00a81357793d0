"""Rows and resources as the service would make them, and short ways to write and list them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from perseid.errors import Conflict
from perseid.model import Container, Database, ItemKey, Row, item_number
from perseid.partition import parse_definition
from perseid.physical_ranges import equal_ranges, stored_form
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
from perseid.store.types import Decision, Put, PutResource, Resource, Search, View
from tests.support.builders import PARTITION_KEY

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

DATABASE = Database(1, "d", "AQAAAA==", '"1"', 0)


async def scanned(store: Stores, container: Container, search: Search) -> list[Row]:
    return (await store.queries.search(container, search)).rows


def stored_ranges(count: int) -> list[dict[str, Any]]:
    """Physical ranges as the metadata of a container with the usual partition key has them."""
    return stored_form(equal_ranges(count, parse_definition(PARTITION_KEY)))


def container_resource(number: int, *, unique: bool = False, ranges: int = 2) -> Resource:
    properties: dict[str, Any] = {
        "id": f"c{number}",
        "partitionKey": PARTITION_KEY,
        "indexingPolicy": {"indexingMode": "none"},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/e"]}] if unique else []},
    }
    state: dict[str, Any] = {"number": number, "properties": properties, "final_cutoffs": [0, 0]}
    state["ranges"] = stored_ranges(ranges)
    return Resource(f"rid{number}", "container", DATABASE.rid, f"c{number}", '"1"', 0, state)


def resource(rid: str, *, kind: str = "database", etag: str = '"1"', name: str = "") -> Resource:
    return Resource(rid, kind, "", name or rid, etag, 5, {"a": [1, {"b": "é"}]})


def row(lsn: int, item_id: str, **changes: Any) -> Row:
    """A row as the service would make it for a new item."""
    part, position = changes.pop("part", 0), changes.pop("position", 0)
    body = changes.pop("body", b'{"id":"%b","n":1.50}' % item_id.encode())
    made = Row(
        number=item_number(part, lsn, position),
        pk=b"\x08a\xff",
        id=item_id,
        epk=b"\x10",
        ts=100,
        ttl=None,
        lsn=lsn,
        etag=f'"{lsn}-{position}"',
        size=len(body),
        terms=3,
        body=body,
    )
    return made._replace(**changes)


def key(item_id: str, pk: bytes = b"\x08a\xff") -> ItemKey:
    return ItemKey(pk, item_id)


def inserting(*ids: str, **changes: Any) -> Callable[[View], Decision[list[Row]]]:
    """A decision that puts new items, whatever is there."""

    def decide(view: View) -> Decision[list[Row]]:
        rows = [row(view.lsn, each, position=at, **changes) for at, each in enumerate(ids)]
        return Decision([Put(each) for each in rows], rows)

    return decide


async def insert(
    store: Stores, container: Container, *ids: str, part: int = 0, **changes: Any
) -> list[Row]:
    decide = inserting(*ids, part=part, **changes)
    return await store.items.write(container, part, [key(each) for each in ids], decide)


async def ids_in(store: Stores, container: Container, **options: Any) -> list[str]:
    return [each.id for each in await scanned(store, container, Search(**options))]


async def purge_cleared_partitions(store: Stores, limit: int = 100) -> int:
    """Purges all cleared partitions, so many items in a step; returns the number of steps."""
    steps = 0
    while await store.expiry.purge_cleared(limit):
        steps += 1
    return steps


def reserving(
    item_id: str, *entries: bytes, seen: list[dict[bytes, Row | None]] | None = None
) -> Callable[[View], Decision[Row]]:
    """Reserves entries for a new item if no item owns them, as the service does."""

    def decide(view: View) -> Decision[Row]:
        if seen is not None:
            seen.append(dict(view.unique_key_owners))
        if any(view.unique_key_owners.get(entry) is not None for entry in entries):
            raise Conflict("taken")
        made = row(view.lsn, item_id)
        return Decision([Put(made, None, entries)], made)

    return decide


def added_container(store: Stores, run: Run[Any], resource: Resource) -> Container:
    """Stores a container; returns it as the service sees it."""
    run(store.metadata.change([PutResource(resource)]))
    return build_container(resource, DATABASE)
