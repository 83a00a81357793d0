"""Creates and updates what a start file declares, after checking all of it against the data.

Applying the same file again changes nothing. Definitions in the file replace later changes. An item
is stored once per container, so an item that was deleted or has expired is not stored again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from perseid import ttl
from perseid.errors import CosmosError
from perseid.model import Container, Offer
from perseid.query import validate_computed
from perseid.service.account import Account
from perseid.service.definitions.container import replaced_container
from perseid.service.items import point_operations
from perseid.service.lifetimes.preview import check_guard
from perseid.service.operation import begin
from perseid.service.resources import containers, databases, offers
from perseid.service.throughput.rules import (
    Throughput,
    check_provisioned,
    offer_content,
    replaced_throughput,
)
from perseid.start_file.declarations import (
    ContainerDeclaration,
    DatabaseDeclaration,
    Declaration,
    Seed,
)
from perseid.start_file.parser import LocatedValue, StartFileError

_CALLER = "start file"
PendingChange = Callable[[], Awaitable[object]]


async def apply(account: Account, declaration: Declaration) -> None:
    """Applies the declaration; StartFileError, with nothing changed, if a part is impossible."""
    now = account.clock.now()
    await account.persist_clock(now)
    plan = _Plan(account, now)
    for database in declaration.databases:
        await plan.database(database)
    if plan.problems:
        raise StartFileError(declaration.file, plan.problems)
    for change in plan.changes:
        await change()


class _Plan:
    """The changes to make, and the problems that prevent them."""

    def __init__(self, account: Account, now: float) -> None:
        self._account = account
        self._now = now
        self.changes: list[PendingChange] = []
        self.problems: list[str] = []

    async def database(self, declared: DatabaseDeclaration) -> None:
        account, now = self._account, self._now
        self._check_provisioned(declared.throughput, declared.node)
        for container in declared.containers:
            self._check_provisioned(container.throughput, container.node)
        resource = account.catalog.find("database", "", declared.id)
        if resource is None or resource.id != declared.id:
            self.changes.append(
                lambda: databases.create(account, {"id": declared.id}, declared.throughput, now)
            )
            for container in declared.containers:
                self._new_container(declared.id, container)
            return
        if declared.throughput is not None:
            self._throughput(resource.rid, declared.throughput, declared.node)
        for container in declared.containers:
            existing = account.catalog.find("container", resource.rid, container.id)
            if existing is None or existing.id != container.id:
                self._new_container(declared.id, container)
            else:
                await self._existing_container(account.catalog.container_for(existing), container)

    def _new_container(self, database: str, declared: ContainerDeclaration) -> None:
        account, now = self._account, self._now

        async def make() -> None:
            created = await containers.create(
                account,
                database,
                declared.body,
                declared.throughput,
                now,
                is_lenient=account.settings.relaxed,
            )
            await _store_seeds(account, created, declared.seeds, now)

        self.changes.append(make)

    async def _existing_container(
        self, existing: Container, declared: ContainerDeclaration
    ) -> None:
        account, now = self._account, self._now
        # Clients set it, and the file cannot declare it; a replace must repeat it.
        name = "clientEncryptionPolicy"
        body = declared.body | {name: existing.properties.get(name)}
        try:
            definition = replaced_container(
                existing.properties, body, computed_check=validate_computed
            )
            default_ttl = definition.get("defaultTtl")
            if default_ttl != existing.policy.default_ttl:
                await check_guard(account, existing, default_ttl, None, now)
        except CosmosError as exc:
            text = f"the container '{existing.id}' exists and cannot be changed: {exc.message}"
            self.problems.append(declared.node.at(text))
            return
        if definition != existing.properties:
            self.changes.append(
                lambda: containers.replace(
                    account, existing.database.id, existing.id, body,
                    if_match=None, now=now, caller=_CALLER,
                )
            )  # fmt: skip
        if declared.throughput is not None:
            self._throughput(existing.rid, declared.throughput, declared.node)

        async def store_seeds() -> None:
            current = account.catalog.container(existing.database.id, existing.id)
            await _store_seeds(account, current, declared.seeds, now)

        self.changes.append(store_seeds)

    def _check_provisioned(self, declared: Throughput | None, node: LocatedValue) -> None:
        try:
            check_provisioned(declared, is_serverless=self._account.settings.serverless)
        except CosmosError as exc:
            self.problems.append(node.at(exc.message))

    def _throughput(self, rid: str, declared: Throughput, node: LocatedValue) -> None:
        """Plans a change of the RU/s, if necessary after a change between manual and autoscale."""
        account, now = self._account, self._now
        if account.settings.serverless:
            return  # `_check_provisioned` has reported it
        offer = offers.of_resource(account, rid)
        if offer is None:
            self.problems.append(
                node.at("throughput can only be set at creation; this one was created without")
            )
            return
        old = Throughput(**account.catalog.resource(offer.rid).state["throughput"])
        if (old.throughput, old.autoscale_max) == (declared.throughput, declared.autoscale_max):
            return
        body = {"content": offer_content(declared)}
        to_autoscale = declared.autoscale_max is not None and old.autoscale_max is None
        to_manual = declared.autoscale_max is None and old.autoscale_max is not None
        sharing = offers.sharing(account, rid)
        try:
            if to_autoscale or to_manual:
                old = replaced_throughput(old, body, to_autoscale, to_manual, containers=sharing)
            replaced_throughput(old, body, containers=sharing)
        except CosmosError as exc:
            self.problems.append(node.at(exc.message))
            return

        async def change() -> None:
            if to_autoscale or to_manual:
                await _replace(
                    account, offer, body, now, to_autoscale=to_autoscale, to_manual=to_manual
                )
            await _replace(account, offer, body, now)

        self.changes.append(change)


async def _replace(
    account: Account,
    offer: Offer,
    body: dict[str, Any],
    now: float,
    *,
    to_autoscale: bool = False,
    to_manual: bool = False,
) -> None:
    await offers.replace(
        account, offer.rid, body, None, now, to_autoscale=to_autoscale, to_manual=to_manual
    )


async def _store_seeds(
    account: Account, container: Container, seeds: tuple[Seed, ...], now: float
) -> None:
    """Stores the seeds that were never stored in this container."""
    if not seeds:
        return
    name = f"seeded_{container.rid}"
    already_stored = set(json.loads(await account.stores.values.get(name) or "[]"))
    op = begin(account, container, now)
    for seed in seeds:
        key = f"{seed.checked_item.logical_partition.pk.hex()} {seed.checked_item.id}"
        if key in already_stored:
            continue
        already_stored.add(key)
        # The file was checked against an example container with one range; this finds the real one.
        checked_item = point_operations.checked_item(
            container, seed.checked_item.document, None, is_lenient=account.settings.relaxed
        )
        written = op._replace(written=op.ts - seed.age)
        if ttl.is_live(written.ts, checked_item.ttl, op.cutoff):
            try:
                await point_operations.create(written, checked_item)
            except CosmosError as exc:
                if exc.status != 409:  # another client has created the item
                    raise
    await account.stores.values.put(name, json.dumps(sorted(already_stored)))
