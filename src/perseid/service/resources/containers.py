"""Containers: create, read, list, replace, delete."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from perseid.errors import NOT_WRITTEN_ERRORS, AlreadyExists
from perseid.ids import container_rid
from perseid.model import Container, Database
from perseid.partition import SYSTEM_KEY, parse_definition
from perseid.physical_ranges import equal_ranges, stored_form
from perseid.query import validate_computed
from perseid.service import change_feed
from perseid.service.account import Account
from perseid.service.catalog import retention_minutes
from perseid.service.definitions.container import new_container, replaced_container
from perseid.service.lifetimes import policies
from perseid.service.lifetimes.audit import audit_change_later
from perseid.service.lifetimes.preview import check_guard
from perseid.service.preconditions import check_if_match
from perseid.service.resources import offers
from perseid.service.resources.client_encryption_keys import check_keys_exist
from perseid.service.throughput.rules import (
    DEFAULT_THROUGHPUT,
    Throughput,
    check_provisioned,
    check_without_key,
    range_count,
)
from perseid.store.types import AuditEntry, PutResource, RemoveResource, Resource
from perseid.ttl import Policy

log = logging.getLogger(__name__)


async def create(
    account: Account,
    database_name: str,
    body: dict[str, Any],
    throughput: Throughput | None,
    now: float,
    *,
    is_lenient: bool = False,
    needs_key: bool = True,
) -> Container:
    properties = new_container(
        body, computed_check=validate_computed, is_lenient=is_lenient, needs_key=needs_key
    )
    async with account.metadata_lock:
        catalog = account.catalog
        database = catalog.owner(database_name)
        if any(r.id == properties["id"] for r in catalog.children("container", database.rid)):
            raise AlreadyExists
        check_keys_exist(catalog, database.rid, properties.get("clientEncryptionPolicy"))
        is_serverless = account.settings.serverless
        check_provisioned(throughput, is_serverless=is_serverless)
        shared = None if is_serverless else offers.throughput_of(account, database.rid)
        if throughput is None and shared is None and not is_serverless:
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
                "ranges": _new_ranges(properties, throughput, shared),
                "final_cutoffs": [policy.final_inherited_cutoff, policy.final_own_cutoff],
                "keeps_versions": _retention(account, properties) > 0,
            },
        )
        changes = [PutResource(resource)]
        if throughput is not None:
            link = f"dbs/{database.rid}/colls/{resource.rid}/"
            changes.append(await offers.provision(account, link, resource.rid, throughput, now))
        await account.change(changes)
    return catalog.container_for(resource)


def _new_ranges(
    properties: dict[str, Any], own: Throughput | None, shared: Throughput | None
) -> list[dict[str, Any]]:
    """The physical ranges of a new container, which it keeps from then on; 400 if it cannot have
    that throughput."""
    throughput = own or shared
    if properties["partitionKey"] == SYSTEM_KEY:
        if own is not None:
            check_without_key(own)
        count = 1
    else:
        count = 1 if throughput is None else range_count(throughput, is_shared=own is None)
    return stored_form(equal_ranges(count, parse_definition(properties["partitionKey"])))


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
    """Replaces the definition.

    A change of `defaultTtl` is in force when this returns, and takes the same time however many
    items the container holds.
    """
    async with account.metadata_lock:
        container = account.catalog.container(database_name, name)
        check_if_match(container.etag, if_match)
        properties = replaced_container(
            container.properties, body, computed_check=validate_computed
        )
        retention = _retention(account, properties)
        if retention > container.retention:
            # Changes that were older than the previous retention stay unreadable.
            while await change_feed.trim_change_log(account, container, now):
                pass
        old = account.catalog.resource(container.rid)
        state = old.state | {"properties": properties, "keeps_versions": retention > 0}
        replacement = old._replace(ts=int(now), state=state)
        if properties.get("defaultTtl") == container.policy.default_ttl:
            replacement = replacement._replace(etag=await account.new_etag(now))
            await account.change([PutResource(replacement, replaces=old.etag)])
            changed = account.catalog.container_for(replacement)
        else:
            await check_guard(account, container, properties.get("defaultTtl"), confirmation, now)
            replacement = replacement._replace(etag=await account.new_etag(now))
            changed = await _change_policy(account, container, replacement, caller)
        if properties["indexingPolicy"] != container.properties["indexingPolicy"]:
            await _drop_disallowed_indexes(account, changed)
        return changed


async def _change_policy(
    account: Account, container: Container, replacement: Resource, caller: str
) -> Container:
    """Replaces a definition that has another `defaultTtl`, and records it in the audit log."""
    properties = replacement.state["properties"]
    default_ttl = properties.get("defaultTtl")
    if properties["indexingPolicy"]["indexingMode"] == "lazy":
        log.warning(
            "defaultTtl of %s changes in lazy indexing mode; where exact results matter, use"
            " consistent mode",
            container.path,
        )
    # Time has passed while this waited for the lock and for the guard. Items that expired in the
    # meantime must stay expired, so the change takes place now and not when the request arrived.
    await account.persist_clock(account.clock.now())
    now = account.clock.now()
    state = replacement.state | await policies.policy_change_state(
        account, container, default_ttl, now
    )
    state["policy_changes"] = state.get("policy_changes", 0) + 1
    resource = replacement._replace(ts=int(now), state=state)

    def follow_up_change() -> PutResource | None:
        """The old policy was in force while the change was written; items may have expired."""
        nonlocal resource, now
        if int(account.clock.now()) == int(now):
            return None
        now = account.clock.now()
        state = policies.follow_up_state(account, container, default_ttl, resource.state)
        resource = resource._replace(ts=int(now), state=state)
        return PutResource(resource, replaces=resource.etag)

    entry = {
        "event": "policy",
        "defaultTtl": {"old": container.policy.default_ttl, "new": default_ttl},
        "caller": caller,
    }
    await account.change(
        [
            PutResource(resource, replaces=container.etag),
            AuditEntry(int(now), container.rid, entry),
        ],
        follow_up_change,
    )
    changed = account.catalog.container_for(resource)
    audit_change_later(account, container, changed, caller, now)
    return changed


async def _drop_disallowed_indexes(account: Account, container: Container) -> None:
    """Drops the indexes that the new policy excludes. If that fails, they only take space."""
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


class RangeStatistics(NamedTuple):
    """The live items of one physical range."""

    range_id: str
    items: int
    size: int  # in bytes
    partition_keys: int  # distinct ones


async def statistics(account: Account, container: Container, now: float) -> list[RangeStatistics]:
    """What each range of the container holds."""
    cutoff = account.cutoff(container, now)
    ranges = []
    for key_range in container.ranges:
        usage = await account.usage(container, cutoff, key_range.index)
        partition_keys = await account.stores.items.count_partitions(
            container, key_range.index, cutoff
        )
        ranges.append(RangeStatistics(key_range.id, usage.items, usage.size, partition_keys))
    return ranges


def _retention(account: Account, properties: dict[str, Any]) -> int:
    """Seconds for which a container of this definition keeps all versions."""
    return 60 * retention_minutes(properties, account.settings.change_feed_retention)
