"""Containers: create, read, list, replace, delete."""

from __future__ import annotations

import logging
from typing import Any

from perseid.errors import NOT_WRITTEN_ERRORS, Conflict
from perseid.ids import container_rid
from perseid.model import Container, Database
from perseid.partition import range_count
from perseid.query import validate_computed
from perseid.service import change_feed
from perseid.service.account import Account
from perseid.service.catalog import retention_minutes
from perseid.service.definitions.container import new_container, replaced_container
from perseid.service.lifetimes import policies, reports
from perseid.service.preconditions import check_if_match
from perseid.service.resources import offers
from perseid.service.resources.databases import ALREADY_EXISTS
from perseid.service.throughput.rules import DEFAULT_THROUGHPUT, Throughput, check_provisioned
from perseid.store.types import AuditEntry, PutResource, RemoveResource, Resource
from perseid.ttl import Policy

log = logging.getLogger(__name__)


async def create(
    account: Account,
    database_name: str,
    body: dict[str, Any],
    throughput: Throughput | None,
    now: float,
) -> Container:
    properties = new_container(body, computed_check=validate_computed)
    async with account.metadata_lock:
        catalog = account.catalog
        database = catalog.owner(database_name)
        if any(r.id == properties["id"] for r in catalog.children("container", database.rid)):
            raise Conflict(ALREADY_EXISTS)
        is_serverless = account.settings.serverless
        check_provisioned(throughput, is_serverless=is_serverless)
        is_shared = offers.of_resource(account, database.rid) is not None
        if throughput is None and not is_shared and not is_serverless:
            throughput = DEFAULT_THROUGHPUT
        number = await account.stores.metadata.next_number("resource")
        policy = Policy()
        resource = Resource(
            rid=container_rid(database.rid, number),
            kind="container",
            parent=database.rid,
            id=properties["id"],
            etag=await account.new_etag(now),
            ts=int(now),
            state={
                "number": number,
                "properties": properties,
                # A database's shared throughput gives its containers one range each.
                "ranges": 1 if throughput is None else range_count(throughput.ceiling),
                "deaths": [policy.final_inherited_cutoff, policy.final_own_cutoff],
                "keeps_versions": _retention(account, properties) > 0,
            },
        )
        changes = [PutResource(resource)]
        if throughput is not None:
            link = f"dbs/{database.rid}/colls/{resource.rid}/"
            changes.append(await offers.provision(account, link, resource.rid, throughput, now))
        await account.change(changes)
    return catalog.container_for(resource)


def read_all(account: Account, database: Database) -> list[Container]:
    return [
        account.catalog.container_for(r)
        for r in account.catalog.children("container", database.rid)
    ]


async def replace(
    account: Account,
    database_name: str,
    name: str,
    body: dict[str, Any],
    *,
    if_match: str | None,
    now: float,
    caller: str = "",
    confirmation: str | None = None,
) -> Container:
    """Replaces the definition. A change of `defaultTtl` is in force when this returns, and costs
    the same whatever the container holds."""
    async with account.metadata_lock:
        container = account.catalog.container(database_name, name)
        check_if_match(container.etag, if_match)
        properties = replaced_container(
            container.properties, body, computed_check=validate_computed
        )
        old = account.catalog.resource(container.rid)
        retention = _retention(account, properties)
        state = old.state | {"properties": properties, "keeps_versions": retention > 0}
        default_ttl = properties.get("defaultTtl")
        is_new_policy = default_ttl != container.policy.default_ttl
        if is_new_policy and properties["indexingPolicy"]["indexingMode"] == "lazy":
            log.warning(
                "defaultTtl of %s changes in lazy indexing mode; where exact results matter, use"
                " consistent mode",
                container.path,
            )
        if retention > container.retention:
            # What was out of reach under the old retention stays so.
            while await change_feed.trim_change_log(account, container, now):
                pass
        audit_entries = []
        if is_new_policy:
            await reports.check_guard(account, container, default_ttl, confirmation, now)
        etag = await account.new_etag(now)
        if is_new_policy:
            # The time may have gone on while this waited for its turn and for the guard. Who was
            # seen dead meanwhile must not live again: the change is one of this moment.
            await account.persist_clock(account.clock.now())
            now = account.clock.now()
            state |= await policies.policy_change_state(account, container, default_ttl, now)
            state["policy_changes"] = state.get("policy_changes", 0) + 1
            audit_entries.append(
                AuditEntry(
                    int(now),
                    container.rid,
                    {
                        "event": "policy",
                        "defaultTtl": {"old": container.policy.default_ttl, "new": default_ttl},
                        "caller": caller,
                    },
                )
            )
        resource = old._replace(etag=etag, ts=int(now), state=state)

        def follow_up_change() -> PutResource | None:
            """While the change was written the old policy was in force, perhaps for a second that
            has ended someone."""
            nonlocal resource, now
            if not is_new_policy or int(account.clock.now()) == int(now):
                return None
            now = account.clock.now()
            ended = policies.final_cutoff_state(container, default_ttl, now)
            resource = resource._replace(ts=int(now), state=resource.state | ended)
            return PutResource(resource, replaces=etag)

        await account.change(
            [PutResource(resource, replaces=old.etag), *audit_entries], follow_up_change
        )
        changed = account.catalog.container_for(resource)
        if is_new_policy:
            reports.audit_change_later(account, container, changed, caller, now)
        if properties["indexingPolicy"] != container.properties["indexingPolicy"]:
            await _keep_indexes(account, changed)
        return changed


async def _keep_indexes(account: Account, container: Container) -> None:
    """Drops the indexes that the new policy excludes; one too many does no harm."""
    try:
        await account.stores.queries.drop_disallowed_indexes(container)
    except NOT_WRITTEN_ERRORS as exc:  # the change itself is in force
        log.warning("indexes of %s could not be dropped: %s", container.path, exc.message)


async def delete(
    account: Account, database_name: str, name: str, if_match: str | None
) -> Container:
    """Removes the container with its items and its throughput."""
    async with account.metadata_lock:
        container = account.catalog.container(database_name, name)
        check_if_match(container.etag, if_match)
        await account.change(
            [RemoveResource(r) for r in account.catalog.with_descendants(container.rid)]
        )
        return container


def _retention(account: Account, properties: dict[str, Any]) -> int:
    """Seconds for which a container of this definition keeps all versions."""
    return 60 * retention_minutes(properties, account.settings.change_feed_retention)
