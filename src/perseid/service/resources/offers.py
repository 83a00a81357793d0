"""Offers: the provisioned throughput of databases and containers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perseid.errors import BadRequest, ResourceNotFound
from perseid.ids import offer_rid
from perseid.model import Offer
from perseid.service.account import Account
from perseid.service.preconditions import check_if_match
from perseid.service.throughput.rules import (
    Throughput,
    check_without_key,
    minimum,
    offer_content,
    replaced_throughput,
)
from perseid.store.types import PutResource, Resource


async def provision(
    account: Account, link: str, resource_rid: str, throughput: Throughput, now: float
) -> PutResource:
    """The change that adds the offer of a new resource; the caller makes it durable."""
    number = await account.stores.metadata.next_number("offer")
    rid = offer_rid(number)
    return PutResource(
        Resource(
            rid=rid,
            kind="offer",
            parent="",
            id=rid,
            etag=await account.new_etag(now),
            ts=int(now),
            state={
                "number": number,
                "link": link,
                "resource_rid": resource_rid,
                "throughput": asdict(throughput),
            },
        )
    )


def read_all(account: Account) -> list[Offer]:
    """All offers of the account; a serverless account has none."""
    if account.settings.serverless:
        return []
    return [_offer(r) for r in account.catalog.children("offer", "")]


def read(account: Account, rid: str) -> Offer:
    return _offer(_find(account, rid))


def of_resource(account: Account, resource_rid: str) -> Offer | None:
    return next((o for o in read_all(account) if o.resource_rid == resource_rid), None)


def throughput_of(account: Account, resource_rid: str) -> Throughput | None:
    """The throughput of a database or container itself, or None."""
    for resource in account.catalog.children("offer", ""):
        if resource.state["resource_rid"] == resource_rid:
            return Throughput(**resource.state["throughput"])
    return None


async def replace(
    account: Account,
    rid: str,
    body: dict[str, Any],
    if_match: str | None,
    now: float,
    *,
    to_autoscale: bool = False,
    to_manual: bool = False,
) -> Offer:
    stored_gb = await _stored_gb(account, _find(account, rid).state["resource_rid"], now)
    async with account.metadata_lock:
        old = _find(account, rid)
        check_if_match(old.etag, if_match)
        throughput = replaced_throughput(
            Throughput(**old.state["throughput"]),
            body,
            to_autoscale,
            to_manual,
            stored_gb=stored_gb,
            containers=sharing(account, old.state["resource_rid"]),
        )
        container = account.catalog.container_by_rid(old.state["resource_rid"])
        if container is not None and not container.key.tokens:
            check_without_key(throughput)
        resource = old._replace(
            etag=await account.new_etag(now),
            ts=int(now),
            state=old.state | {"throughput": asdict(throughput)},
        )
        await account.change([PutResource(resource, replaces=old.etag)])
        return _offer(resource)


async def least_throughput(account: Account, rid: str, now: float) -> int:
    """The lowest throughput, or autoscale maximum, that a replace of the offer may set."""
    state = _find(account, rid).state
    throughput, resource_rid = Throughput(**state["throughput"]), state["resource_rid"]
    return minimum(
        throughput.highest_ever,
        is_autoscale=throughput.autoscale_max is not None,
        stored_gb=await _stored_gb(account, resource_rid, now),
        containers=sharing(account, resource_rid),
    )


def sharing(account: Account, resource_rid: str) -> int:
    """How many containers share the throughput of a database; 0 if the rid is a container's."""
    return len(_sharing_containers(account, resource_rid))


def _sharing_containers(account: Account, resource_rid: str) -> list[Resource]:
    with_offer = {offer.state["resource_rid"] for offer in account.catalog.children("offer", "")}
    containers = account.catalog.children("container", resource_rid)
    return [container for container in containers if container.rid not in with_offer]


async def _stored_gb(account: Account, resource_rid: str, now: float) -> float:
    """The live items of a container, or of the containers that share a database's throughput."""
    resource = account.catalog.resource(resource_rid)
    is_container = resource.kind == "container"
    owners = [resource] if is_container else _sharing_containers(account, resource_rid)
    size = 0
    for owner in owners:
        container = account.catalog.container_for(owner)
        size += (await account.usage(container, account.cutoff(container, now))).size
    return size / 1024**3


def _find(account: Account, rid: str) -> Resource:
    if account.settings.serverless:
        raise BadRequest("Reading or replacing offers is not supported for serverless accounts.")
    resource = account.catalog.find("offer", "", rid)
    if resource is None:
        raise ResourceNotFound
    return resource


def _offer(resource: Resource) -> Offer:
    state = resource.state
    return Offer(
        number=state["number"],
        rid=resource.rid,
        resource=state["link"],
        resource_rid=state["resource_rid"],
        etag=resource.etag,
        ts=resource.ts,
        content=offer_content(Throughput(**state["throughput"])),
    )
