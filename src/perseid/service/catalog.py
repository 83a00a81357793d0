"""The account's metadata in memory: databases, containers and everything registered in them.

Built from the store's metadata rows. Every request about items looks up its container first, so a
lookup takes two dictionary reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from perseid.charges import compile_paths
from perseid.errors import CosmosError, OwnerNotFound, ResourceNotFound
from perseid.model import Container, Database
from perseid.partition import parse_definition
from perseid.paths import parse_path
from perseid.physical_ranges import from_stored
from perseid.store.types import AuditEntry, PutResource, RemoveResource, Resource, StoreError
from perseid.ttl import BEFORE_ANY_TS, Cutoff, Policy, PurgeHold


class Catalog:
    """Resources by rid and by name. A change is applied after the store has made it durable."""

    def __init__(
        self, resources: Sequence[Resource], retention: int = 0, catalog_generation: int = 0
    ) -> None:
        self._retention = retention
        self._catalog_generation = catalog_generation
        self._by_rid: dict[str, Resource] = {}
        self._by_name: dict[tuple[str, str], dict[str, Resource]] = {}
        self._databases: dict[str, Database] = {}
        self._containers: dict[str, Container] = {}
        # Containers by the names, or by the rids, of database and container. Names are tried first.
        self._by_name_pair: dict[tuple[str, str], Container] = {}
        self._by_rid_pair: dict[tuple[str, str], Container] = {}
        # Owners first: a container needs its database.
        for kind in ("database", "container", ""):
            for resource in resources:
                if resource.kind == kind or (
                    not kind and resource.kind not in ("database", "container")
                ):
                    self._load(resource)

    def _load(self, resource: Resource) -> None:
        try:
            _check_state(resource)
            self._put(resource)
        except (CosmosError, LookupError, TypeError, ValueError, AttributeError) as exc:
            raise StoreError(
                f"the definition of {resource.kind} '{resource.id}' is damaged: {exc!r}"
            ) from exc

    # Lookup

    def database(self, name: str) -> Database:
        """By id, else by rid; 404 if it does not exist."""
        resource = self.find("database", "", name)
        if resource is None:
            raise ResourceNotFound
        return self._databases[resource.rid]

    def owner(self, name: str) -> Database:
        """The database that holds the requested resource; 404/1003 if it does not exist."""
        resource = self.find("database", "", name)
        if resource is None:
            raise OwnerNotFound
        return self._databases[resource.rid]

    def container(self, database: str, name: str) -> Container:
        """The requested container; 404 if it does not exist."""
        names = (database, name)
        return self._by_name_pair.get(names) or self._find_container(names, ResourceNotFound)

    def container_of_items(self, database: str, name: str) -> Container:
        """The container that holds the requested items; 404/1003 if it does not exist."""
        names = (database, name)
        return self._by_name_pair.get(names) or self._find_container(names, OwnerNotFound)

    def _find_container(self, names: tuple[str, str], missing: type[CosmosError]) -> Container:
        """By rid, or by the id of one and the rid of the other."""
        container = self._by_rid_pair.get(names)
        if container is not None:
            return container
        resource = self.find("container", self.owner(names[0]).rid, names[1])
        if resource is None:
            raise missing
        return self._containers[resource.rid]

    def find(self, kind: str, parent: str, name: str) -> Resource | None:
        """A resource by id, else by rid."""
        resource = self._by_name.get((kind, parent), {}).get(name)
        if resource is None:
            resource = self._by_rid.get(name)
            if resource is not None and (resource.kind, resource.parent) != (kind, parent):
                return None
        return resource

    def has_resource(self, rid: str) -> bool:
        return rid in self._by_rid

    def resource(self, rid: str) -> Resource:
        return self._by_rid[rid]

    def children(self, kind: str, parent: str) -> list[Resource]:
        """In order of creation; a renamed resource comes last."""
        return list(self._by_name.get((kind, parent), {}).values())

    def containers(self) -> list[Container]:
        """All containers of the account."""
        return list(self._containers.values())

    def container_by_rid(self, rid: str) -> Container | None:
        return self._containers.get(rid)

    def container_for(self, container: Resource) -> Container:
        return self._containers[container.rid]

    def with_descendants(self, rid: str) -> Iterator[Resource]:
        """Everything that is deleted with this resource, itself last."""
        owned: dict[str, list[Resource]] = {}  # by rid of the owner, offers after the others
        for (kind, parent), siblings in self._by_name.items():
            if kind != "offer":
                owned.setdefault(parent, []).extend(siblings.values())
        for offer in self.children("offer", ""):
            owned.setdefault(offer.state["resource_rid"], []).append(offer)
        yield from self._with_owned(self._by_rid[rid], owned)

    def _with_owned(
        self, resource: Resource, owned: dict[str, list[Resource]]
    ) -> Iterator[Resource]:
        for each in owned.get(resource.rid, ()):
            yield from self._with_owned(each, owned)
        yield resource

    # Change

    def apply(self, changes: Sequence[PutResource | RemoveResource | AuditEntry]) -> None:
        for change in changes:
            if isinstance(change, PutResource):
                self._put(change.resource)
            elif isinstance(change, RemoveResource):
                self._remove(change.resource)

    def _put(self, resource: Resource) -> None:
        old = self._by_rid.get(resource.rid)
        siblings = self._by_name.setdefault((resource.kind, resource.parent), {})
        if old is not None and old.id != resource.id:
            del siblings[old.id]
        siblings[resource.id] = resource
        self._by_rid[resource.rid] = resource
        if resource.kind == "database":
            self._databases[resource.rid] = Database(
                resource.state["number"], resource.id, resource.rid, resource.etag, resource.ts
            )
        elif resource.kind == "container":
            database = self._databases[resource.parent]
            self._route(
                build_container(resource, database, self._retention, self._catalog_generation)
            )

    def _remove(self, resource: Resource) -> None:
        self._by_name[resource.kind, resource.parent].pop(resource.id, None)
        self._by_rid.pop(resource.rid, None)
        self._databases.pop(resource.rid, None)
        container = self._containers.pop(resource.rid, None)
        if container is not None:
            del self._by_name_pair[container.database.id, container.id]
            del self._by_rid_pair[container.database.rid, container.rid]

    def _route(self, container: Container) -> None:
        self._containers[container.rid] = container
        self._by_name_pair[container.database.id, container.id] = container
        self._by_rid_pair[container.database.rid, container.rid] = container


def _check_state(resource: Resource) -> None:
    """ValueError if what all resources have is damaged; `build_container` finds the rest."""
    if type(resource.state["number"]) is not int:
        raise ValueError("its number is not an integer")
    if resource.kind == "offer" and not isinstance(resource.state["resource_rid"], str):
        raise ValueError("it is not for a resource")


def retention_minutes(properties: dict[str, Any], default: int) -> int:
    """For how many minutes a container with this definition keeps all versions of its items."""
    policy = properties.get("changeFeedPolicy")
    minutes: int = default if policy is None else policy["retentionDuration"]
    return minutes


def build_container(
    resource: Resource, database: Database, retention: int = 0, catalog_generation: int = 0
) -> Container:
    """The container that a metadata row defines.

    `retention`, in minutes, is for containers without a change feed policy; `catalog_generation` is
    that of the store when the row was read.
    """
    state = resource.state
    properties = state["properties"]
    key = parse_definition(properties["partitionKey"])
    unique_keys = properties.get("uniqueKeyPolicy", {}).get("uniqueKeys", [])
    return Container(
        number=state["number"],
        id=resource.id,
        rid=resource.rid,
        etag=resource.etag,
        ts=resource.ts,
        database=database,
        properties=properties,
        key=key,
        ranges=from_stored(state["ranges"]),
        policy=Policy(properties.get("defaultTtl"), *state["final_cutoffs"]),
        purge_hold=PurgeHold(
            state.get("hold_seconds", 0),
            state.get("hold_since", 0),
            Cutoff(*state.get("hold_cutoff", (BEFORE_ANY_TS, BEFORE_ANY_TS))),
        ),
        age_at_final_expiry=state.get("expired_age", 0),
        guard=state.get("guard"),
        unique_keys=tuple(
            tuple(parse_path(path) for path in unique["paths"]) for unique in unique_keys
        ),
        index=compile_paths(properties["indexingPolicy"]),
        docs_link=f"dbs/{database.rid}/colls/{resource.rid}/docs/",
        path=f"dbs/{quote(database.id)}/colls/{quote(resource.id)}",
        retention=60 * retention_minutes(properties, retention),
        catalog_generation=catalog_generation,
    )
