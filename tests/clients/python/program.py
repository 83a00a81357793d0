"""Checks a server with the official Python client, sync and async. Needs --test-clock."""

from __future__ import annotations

import asyncio
import inspect
import sys
import traceback
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.aio import CosmosClient as AsyncCosmosClient

from tests.clients.python.server import CERTIFICATE, ENDPOINT, KEY, advance, move_clock

KEY_PATH = PartitionKey("/customer")
SIZES = {"one range": 400, "several ranges": 24000}


def connect(credential: Any = KEY) -> CosmosClient:
    return CosmosClient(ENDPOINT, credential, connection_verify=CERTIFICATE)


def connect_async() -> AsyncCosmosClient:
    return AsyncCosmosClient(ENDPOINT, KEY, connection_verify=CERTIFICATE)


async def done(result: Any) -> Any:
    """What a call of either client returns; all rows if it returns pages."""
    if inspect.isawaitable(result):
        return await result
    if hasattr(result, "__aiter__"):
        return [row async for row in result]
    if hasattr(result, "by_page"):
        return list(result)
    return result


async def refused(status: int, call: Callable[[], Any]) -> None:
    try:
        await done(call())
    except HttpResponseError as error:
        found = error.status_code
    else:
        found = 200
    assert found == status, f"expected {status}, got {found}"


def order(name: str, ttl: int | None = None) -> dict[str, Any]:
    item: dict[str, Any] = {"id": name, "customer": "ada", "total": 1}
    return item if ttl is None else item | {"ttl": ttl}


def numbered(number: int) -> dict[str, Any]:
    return {"id": f"o{number}", "customer": f"customer{number % 12}", "total": number}


class Checks:
    """Runs the checks with one of the two clients; `done` hides which."""

    def __init__(self, kind: str, client: Any) -> None:
        self.kind = kind
        self.client = client
        self.passed = 0
        self.failed = 0
        self.database: Any = None

    async def run(self) -> None:
        name = f"python-{uuid.uuid4()}"
        self.database = await done(self.client.create_database(name))
        try:
            for check in (
                self.items,
                self.etags,
                self.defaults,
                self.combinations,
                self.override,
                self.extend_and_remove,
                self.disable,
                self.invalid,
                self.batch,
                self.failed_batch,
                self.queries,
                self.change_feed,
                self.throughput,
            ):
                await self.check(check)
            if self.kind == "sync":
                await self.check(self.access)
        finally:
            await done(self.client.delete_database(name))

    async def check(self, check: Callable[[], Awaitable[None]]) -> None:
        name = f"{self.kind}: {(check.__doc__ or '').rstrip('.')}"
        try:
            await check()
        except Exception:
            self.failed += 1
            print(f"FAILED  {name}: {traceback.format_exc()[-1500:]}")
        else:
            self.passed += 1
            print(f"ok      {name}")

    async def create(self, name: str, **options: Any) -> Any:
        return await done(self.database.create_container(name, KEY_PATH, **options))

    async def gone(self, container: Any, name: str) -> None:
        await refused(404, lambda: container.read_item(name, "ada"))

    async def query(self, container: Any, text: str, **options: Any) -> list[Any]:
        if self.kind == "sync" and "partition_key" not in options:
            options["enable_cross_partition_query"] = True
        rows: list[Any] = await done(container.query_items(text, max_item_count=7, **options))
        return rows

    async def items(self) -> None:
        """Items: create, read, replace, upsert, patch, delete."""
        orders = await self.create("items")
        await done(orders.create_item(order("é€😀")))
        item = await done(orders.read_item("é€😀", "ada"))
        await done(orders.replace_item(item["id"], item | {"total": 2}))
        await done(orders.upsert_item(item | {"total": 3}))
        patch = [{"op": "incr", "path": "/total", "value": 4}]
        patched = await done(orders.patch_item(item["id"], "ada", patch))
        assert patched["total"] == 7
        await done(orders.delete_item(item["id"], "ada"))
        await self.gone(orders, item["id"])

    async def etags(self) -> None:
        """Items: etags and conflicts."""
        orders = await self.create("etags")
        created = await done(orders.create_item(order("a")))
        match = {"etag": created["_etag"], "match_condition": MatchConditions.IfNotModified}
        await done(orders.replace_item("a", order("a"), **match))
        await refused(412, lambda: orders.replace_item("a", order("a"), **match))
        await refused(409, lambda: orders.create_item(order("a")))

    async def defaults(self) -> None:
        """TTL: off, -1 and a number on a container."""
        for ttl in (None, -1, 10):
            container = await self.create(f"default{ttl}", default_ttl=ttl)
            assert (await done(container.read())).get("defaultTtl") == ttl

    async def combinations(self) -> None:
        """TTL: the nine combinations."""
        # The items that exist after 0, 9, 10, 19 and 20 seconds; a has no ttl, b -1, c 20.
        expected = {
            None: ("abc", "abc", "abc", "abc", "abc"),
            -1: ("abc", "abc", "abc", "abc", "ab"),
            10: ("abc", "abc", "bc", "bc", "b"),
        }
        containers = {ttl: await self.create(f"nine{ttl}", default_ttl=ttl) for ttl in expected}
        move_clock("freeze", {})
        try:
            for container in containers.values():
                for item in (order("a"), order("b", -1), order("c", 20)):
                    await done(container.create_item(item))
            for step, seconds in enumerate((0, 9, 1, 9, 1)):
                if seconds:
                    advance(seconds)
                for ttl, container in containers.items():
                    rows = await self.query(container, "SELECT VALUE c.id FROM c ORDER BY c.id")
                    assert "".join(rows) == expected[ttl][step], (ttl, step, rows)
        finally:
            move_clock("resume", {})

    async def override(self) -> None:
        """TTL: an item's own value overrides the default."""
        container = await self.create("override", default_ttl=60)
        await done(container.create_item(order("short", 30)))
        await done(container.create_item(order("never", -1)))
        await done(container.create_item(order("default")))
        advance(30)
        await self.gone(container, "short")
        await done(container.read_item("default", "ada"))
        advance(30)
        await self.gone(container, "default")
        await done(container.read_item("never", "ada"))

    async def extend_and_remove(self) -> None:
        """TTL: a write extends the lifetime, without the property it is removed."""
        container = await self.create("extend", default_ttl=-1)
        await done(container.create_item(order("extended", 60)))
        await done(container.create_item(order("removed", 60)))
        advance(40)
        await done(container.replace_item("extended", order("extended", 1800)))
        item = await done(container.read_item("removed", "ada"))
        del item["ttl"]  # the container's default applies: no expiry
        await done(container.replace_item("removed", item))
        advance(1780)
        await done(container.read_item("extended", "ada"))
        advance(30)
        await self.gone(container, "extended")
        await done(container.read_item("removed", "ada"))

    async def disable(self) -> None:
        """TTL: change and disable it on the container."""
        container = await self.create("disable")
        await done(container.create_item(order("a")))
        await done(container.create_item(order("b", 30)))
        await done(self.database.replace_container(container, KEY_PATH, default_ttl=600))
        advance(30)
        await done(self.database.replace_container(container, KEY_PATH))
        assert "defaultTtl" not in await done(container.read())
        advance(3600)
        await done(container.read_item("a", "ada"))
        await self.gone(container, "b")

    async def invalid(self) -> None:
        """TTL: invalid values are refused."""
        container = await self.create("invalid", default_ttl=-1)
        await refused(400, lambda: container.create_item(order("a", 0)))
        await refused(400, lambda: container.create_item(order("a", -2)))

    async def batch(self) -> None:
        """Batch: all operations."""
        orders = await self.create("batch")
        await done(orders.create_item(order("old")))
        operations = [
            ("create", (order("new"),)),
            ("upsert", (order("other"),)),
            ("replace", ("old", order("old") | {"total": 2})),
            ("patch", ("old", [{"op": "incr", "path": "/total", "value": 5}])),
            ("read", ("old",)),
            ("delete", ("other",)),
        ]
        results = await done(orders.execute_item_batch(operations, "ada"))
        assert [each["statusCode"] for each in results] == [201, 201, 200, 200, 200, 204]
        assert results[4]["resourceBody"]["total"] == 7

    async def failed_batch(self) -> None:
        """Batch: one fails, none is done."""
        orders = await self.create("none")
        await done(orders.create_item(order("old")))
        operations = [("create", (order("new"),)), ("create", (order("old"),))]
        await refused(409, lambda: orders.execute_item_batch(operations, "ada"))
        await self.gone(orders, "new")

    async def queries(self) -> None:
        """Queries: pages, ORDER BY, aggregates, one key, over one and several ranges."""
        for name, throughput in SIZES.items():
            orders = await self.create(f"queries{throughput}", offer_throughput=throughput)
            for number in range(60):
                await done(orders.create_item(numbered(number)))
            rows = await self.query(orders, "SELECT VALUE c.total FROM c")
            assert sorted(rows) == list(range(60)), name
            rows = await self.query(orders, "SELECT VALUE c.total FROM c ORDER BY c.total")
            assert rows == list(range(60)), name
            for aggregate, value in (
                ("COUNT(1)", 60),
                ("SUM(c.total)", 1770),
                ("MAX(c.total)", 59),
            ):
                assert await self.query(orders, f"SELECT VALUE {aggregate} FROM c") == [value], name
            rows = await self.query(
                orders,
                "SELECT VALUE c.total FROM c WHERE c.total >= @least ORDER BY c.total",
                parameters=[{"name": "@least", "value": 24}],
                partition_key="customer3",
            )
            assert rows == [27, 39, 51], name

    async def change_feed(self) -> None:
        """Change feed: from the beginning, then what follows, over one and several ranges."""
        for throughput in SIZES.values():
            orders = await self.create(f"feed{throughput}", offer_throughput=throughput)
            for number in range(24):
                await done(orders.create_item(numbered(number)))
            feed = orders.query_items_change_feed(start_time="Beginning")
            ids = [item["id"] for item in await done(feed)]
            assert len(ids) == len(set(ids)) == 24, ids
            token = orders.client_connection.last_response_headers["etag"]
            for number in (3, 4):
                await done(orders.upsert_item(numbered(number)))
            feed = orders.query_items_change_feed(continuation=token)
            assert sorted(item["id"] for item in await done(feed)) == ["o3", "o4"]

    async def throughput(self) -> None:
        """Throughput: read and replace."""
        container = await self.create("manual", offer_throughput=400)
        assert (await done(container.get_throughput())).offer_throughput == 400
        await done(container.replace_throughput(800))
        assert (await done(container.get_throughput())).offer_throughput == 800

    async def access(self) -> None:
        """Access: a user's permission and its token."""
        orders = await self.create("access")
        orders.create_item(order("a"))
        user = self.database.create_user({"id": "reader"})
        link = orders.container_link
        body = {"id": "read", "permissionMode": "Read", "resource": link}
        token = user.create_permission(body).properties["_token"]
        guest = connect({link: token})
        seen = guest.get_database_client(self.database.id).get_container_client("access")
        seen.read_item("a", "ada")
        await refused(403, lambda: seen.upsert_item(order("b")))


async def main() -> int:
    sync_checks = Checks("sync", connect())
    await sync_checks.run()
    async with connect_async() as client:
        async_checks = Checks("async", client)
        await async_checks.run()
    failed = sync_checks.failed + async_checks.failed
    print(f"{sync_checks.passed + async_checks.passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
