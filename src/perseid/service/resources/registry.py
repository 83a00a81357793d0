"""Resources that are stored and returned unchanged: users, permissions, scripts, encryption keys.

Every kind has the same operations. The module of each kind decides which bodies are valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from perseid.errors import (
    AlreadyExists,
    BadRequest,
    IdChangeForbidden,
    OwnerNotFound,
    ResourceNotFound,
)
from perseid.ids import ResourceKind as KindName
from perseid.ids import self_link
from perseid.service.account import Account
from perseid.service.preconditions import check_if_match
from perseid.store.types import PutResource, RemoveResource, Resource

Properties: TypeAlias = dict[str, Any]
RegisteredResource: TypeAlias = Resource  # what handlers of these kinds get


def _no_duplicates(account: Account, parent: str, properties: Properties, own: str | None) -> None:
    """Accepts everything: only the id must be unique."""


class RegistryKind(NamedTuple):
    """What differs between kinds: how rids are made, and which bodies are valid."""

    name: KindName
    make_rid: Callable[[str, int], str]
    properties: Callable[[Properties], Properties]  # of a body; 400 if it is not valid
    # 409 if a sibling other than `own` conflicts for another reason than its id.
    check_duplicates: Callable[[Account, str, Properties, str | None], None] = _no_duplicates
    fixed_id_of: str | None = None  # what a resource is called in errors if its id cannot change


def read(account: Account, kind: RegistryKind, parent: str, name: str) -> Resource:
    """By id, else by rid."""
    resource = account.catalog.find(kind.name, parent, name)
    if resource is None:
        raise ResourceNotFound
    return resource


def owner(account: Account, kind: RegistryKind, parent: str, name: str) -> Resource:
    """The resource that holds the requested one."""
    resource = account.catalog.find(kind.name, parent, name)
    if resource is None:
        raise OwnerNotFound
    return resource


def read_all(account: Account, kind: RegistryKind, parent: str) -> list[Resource]:
    """In order of creation; the catalog moves a renamed resource to the end."""
    resources = account.catalog.children(kind.name, parent)
    return sorted(resources, key=lambda resource: int(resource.state["number"]))


async def create(
    account: Account, kind: RegistryKind, parent: str, body: Properties, now: float
) -> Resource:
    properties = kind.properties(body)
    async with account.metadata_lock:
        if _named(account, kind, parent, properties["id"]) is not None:
            raise AlreadyExists
        return await _create(account, kind, parent, properties, now)


async def upsert(
    account: Account,
    kind: RegistryKind,
    parent: str,
    body: Properties,
    *,
    if_match: str | None,
    now: float,
) -> tuple[Resource, bool]:
    """Creates or replaces; the second value is True if it was created."""
    properties = kind.properties(body)
    async with account.metadata_lock:
        old = _named(account, kind, parent, properties["id"])
        if old is None:
            return await _create(account, kind, parent, properties, now), True
        check_if_match(old.etag, if_match)
        return await _replace(account, kind, old, properties, now), False


async def replace(
    account: Account,
    kind: RegistryKind,
    parent: str,
    name: str,
    body: Properties,
    *,
    if_match: str | None,
    may_rename: bool = True,
    now: float,
) -> Resource:
    """Replaces the properties; the new id must not be that of a sibling."""
    async with account.metadata_lock:
        old = read(account, kind, parent, name)
        check_if_match(old.etag, if_match)
        properties = kind.properties(body)
        if properties["id"] != old.id and not may_rename:
            raise IdChangeForbidden
        if properties["id"] != old.id and kind.fixed_id_of is not None:
            raise BadRequest(
                f"The id of the {kind.fixed_id_of} is '{old.id}' and cannot be changed.",
                listed=True,
            )
        duplicate = _named(account, kind, parent, properties["id"])
        if duplicate is not None and duplicate.rid != old.rid:
            raise AlreadyExists
        return await _replace(account, kind, old, properties, now)


async def delete(
    account: Account, kind: RegistryKind, parent: str, name: str, if_match: str | None
) -> None:
    """Removes the resource and everything below it."""
    async with account.metadata_lock:
        old = read(account, kind, parent, name)
        check_if_match(old.etag, if_match)
        await account.change([RemoveResource(r) for r in account.catalog.with_descendants(old.rid)])


def link_of(account: Account, resource: Resource) -> str:
    """The `_self` of any resource: the rids of its owners and its own."""
    catalog = account.catalog
    above = link_of(account, catalog.resource(resource.parent)) if resource.parent else ""
    kind: Any = resource.kind
    return self_link(above, kind, resource.rid)


async def _create(
    account: Account, kind: RegistryKind, parent: str, properties: Properties, now: float
) -> Resource:
    if not account.catalog.has_resource(parent):  # deleted while this request waited for the lock
        raise OwnerNotFound
    kind.check_duplicates(account, parent, properties, None)
    number = await account.stores.metadata.next_number("resource")
    resource = Resource(
        rid=kind.make_rid(parent, number),
        kind=kind.name,
        parent=parent,
        id=properties["id"],
        etag=await account.new_etag(now),
        ts=int(now),
        state={"number": number, "properties": properties, "created": int(now)},
    )
    await account.change([PutResource(resource)])
    return resource


async def _replace(
    account: Account, kind: RegistryKind, old: Resource, properties: Properties, now: float
) -> Resource:
    kind.check_duplicates(account, old.parent, properties, old.rid)
    resource = old._replace(
        id=properties["id"],
        etag=await account.new_etag(now),
        ts=int(now),
        state=old.state | {"properties": properties},
    )
    await account.change([PutResource(resource, replaces=old.etag)])
    return resource


def _named(account: Account, kind: RegistryKind, parent: str, name: str) -> Resource | None:
    """By id only: the rid of a sibling is a valid id."""
    resource = account.catalog.find(kind.name, parent, name)
    return resource if resource is not None and resource.id == name else None
