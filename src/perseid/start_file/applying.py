"""Makes what a start file declares so: checks all of it against what is there, then changes it.

Doing it again changes nothing. A definition in the file wins over what has been changed since; a
seed is stored once in the life of its container, so what was deleted or has died stays away.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from perseid import ttl
from perseid.errors import CosmosError
from perseid.model import Container, Offer
from perseid.query import validate_computed
from perseid.service import containers, databases, items, lifetimes, offers
from perseid.service.account import Account
from perseid.service.definitions import replaced_container
from perseid.service.operation import begin
from perseid.service.throughput_rules import (
    Throughput,
    check_provisioned,
    offer_content,
    replaced,
)
from perseid.start_file.declaring import (
    ContainerDeclaration,
    DatabaseDeclaration,
    Declaration,
    Seed,
)
from perseid.start_file.reading import Node, StartFileError

_CALLER = "start file"
Change = Callable[[], Awaitable[object]]


async def apply(account: Account, declaration: Declaration) -> None:
    """StartFileError, and nothing changed, if any part of it cannot be done."""
    now = account.clock.now()
    await account.reach(now)
    plan = _Plan(account, now)
    for database in declaration.databases:
        await plan.database(database)
    if plan.problems:
        raise StartFileError(declaration.file, plan.problems)
    for change in plan.changes:
        await change()


class _Plan:
    """The changes that are still to be made, and why some cannot be."""

    def __init__(self, account: Account, now: float) -> None:
        self._account = account
        self._now = now
        self.changes: list[Change] = []
        self.problems: list[str] = []

    async def database(self, wanted: DatabaseDeclaration) -> None:
        account, now = self._account, self._now
        self._check_provisioned(wanted.throughput, wanted.node)
        for container in wanted.containers:
            self._check_provisioned(container.throughput, container.node)
        resource = account.catalog.find("database", "", wanted.id)
        if resource is None or resource.id != wanted.id:
            self.changes.append(
                lambda: databases.create(account, {"id": wanted.id}, wanted.throughput, now)
            )
            for container in wanted.containers:
                self._new_container(wanted.id, container)
            return
        if wanted.throughput is not None:
            self._throughput(resource.rid, wanted.throughput, wanted.node)
        for container in wanted.containers:
            found = account.catalog.find("container", resource.rid, container.id)
            if found is None or found.id != container.id:
                self._new_container(wanted.id, container)
            else:
                await self._known_container(account.catalog.built(found), container)

    def _new_container(self, database: str, wanted: ContainerDeclaration) -> None:
        account, now = self._account, self._now

        async def make() -> None:
            made = await containers.create(account, database, wanted.body, wanted.throughput, now)
            await _sow(account, made, wanted.seeds, now)

        self.changes.append(make)

    async def _known_container(self, found: Container, wanted: ContainerDeclaration) -> None:
        account, now = self._account, self._now
        try:
            definition = replaced_container(
                found.properties, wanted.body, computed_check=validate_computed
            )
            default_ttl = definition.get("defaultTtl")
            if default_ttl != found.policy.default_ttl:
                await lifetimes.check_guard(account, found, default_ttl, None, now)
        except CosmosError as exc:
            text = f"the container '{found.id}' exists: {exc.message}"
            self.problems.append(wanted.node.at(text))
            return
        if definition != found.properties:
            self.changes.append(
                lambda: containers.replace(
                    account, found.database.id, found.id, wanted.body,
                    if_match=None, now=now, caller=_CALLER,
                )
            )  # fmt: skip
        if wanted.throughput is not None:
            self._throughput(found.rid, wanted.throughput, wanted.node)

        async def sow() -> None:
            current = account.catalog.container(found.database.id, found.id)
            await _sow(account, current, wanted.seeds, now)

        self.changes.append(sow)

    def _check_provisioned(self, wanted: Throughput | None, node: Node) -> None:
        try:
            check_provisioned(wanted, is_serverless=self._account.settings.serverless)
        except CosmosError as exc:
            self.problems.append(node.at(exc.message))

    def _throughput(self, rid: str, wanted: Throughput, node: Node) -> None:
        """A change of the figure, or of the mode and then the figure."""
        account, now = self._account, self._now
        if account.settings.serverless:
            return  # that this cannot be is said already
        offer = offers.of_resource(account, rid)
        if offer is None:
            self.problems.append(
                node.at("throughput can only be given when it is made; this one has none")
            )
            return
        old = Throughput(**account.catalog.resource(offer.rid).state["throughput"])
        if (old.throughput, old.autoscale_max) == (wanted.throughput, wanted.autoscale_max):
            return
        body = {"content": offer_content(wanted)}
        to_autoscale = wanted.autoscale_max is not None and old.autoscale_max is None
        to_manual = wanted.autoscale_max is None and old.autoscale_max is not None
        sharing = offers.sharing(account, rid)
        try:
            if to_autoscale or to_manual:
                old = replaced(old, body, to_autoscale, to_manual, containers=sharing)
            replaced(old, body, containers=sharing)
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


async def _sow(account: Account, container: Container, seeds: tuple[Seed, ...], now: float) -> None:
    """Stores the seeds that this container has never had."""
    if not seeds:
        return
    name = f"seeded_{container.rid}"
    had = set(json.loads(await account.store.get_meta(name) or "[]"))
    op = begin(account, container, now)
    for seed in seeds:
        key = f"{seed.draft.place.pk.hex()} {seed.draft.id}"
        if key in had:
            continue
        had.add(key)
        # Checked against an imagined container of one range; here it gets its real place.
        draft = items.draft(container, seed.draft.document, None)
        written = op._replace(written=op.ts - seed.age)
        if ttl.is_live(written.ts, draft.ttl, op.horizon):
            try:
                await items.create(written, draft)
            except CosmosError as exc:
                if exc.status != 409:  # somebody has put it there already
                    raise
    await account.store.put_meta(name, json.dumps(sorted(had)))
