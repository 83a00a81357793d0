"""Databases: create, read, list, delete. They cannot be replaced."""

from __future__ import annotations

from typing import Any

from perseid.errors import AlreadyExists
from perseid.ids import check_resource_id, database_rid
from perseid.model import Database
from perseid.service.account import Account
from perseid.service.preconditions import check_if_match
from perseid.service.resources import offers
from perseid.service.throughput.rules import Throughput, check_provisioned
from perseid.store.types import PutResource, RemoveResource, Resource


async def create(
    account: Account, body: dict[str, Any], throughput: Throughput | None, now: float
) -> Database:
    name = check_resource_id(body.get("id"), "database")
    check_provisioned(throughput, is_serverless=account.settings.serverless)
    async with account.metadata_lock:
        if name in {database.id for database in read_all(account)}:
            raise AlreadyExists
        number = await account.stores.metadata.next_number("resource")
        resource = Resource(
            rid=database_rid(number),
            kind="database",
            parent="",
            id=name,
            etag=await account.new_etag(now),
            ts=int(now),
            state={"number": number},
        )
        changes = [PutResource(resource)]
        if throughput is not None:
            link = f"dbs/{resource.rid}/"
            changes.append(await offers.provision(account, link, resource.rid, throughput, now))
        await account.change(changes)
    return account.catalog.database(resource.rid)


def read_all(account: Account) -> list[Database]:
    return [account.catalog.database(r.rid) for r in account.catalog.children("database", "")]


async def delete(account: Account, name: str, if_match: str | None) -> None:
    """Removes the database and everything in it."""
    async with account.metadata_lock:
        database = account.catalog.database(name)
        check_if_match(database.etag, if_match)
        await account.change(
            [RemoveResource(r) for r in account.catalog.with_descendants(database.rid)]
        )
