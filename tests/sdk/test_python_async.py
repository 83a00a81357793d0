"""The asynchronous Python client against a running server: the main paths, more briefly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from itertools import chain
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import PartitionKey
from azure.cosmos import ThroughputProperties as Throughput
from azure.cosmos.aio import ContainerProxy, CosmosClient, DatabaseProxy
from azure.cosmos.exceptions import CosmosAccessConditionFailedError
from azure.cosmos.partition_key import NonePartitionKeyValue, NullPartitionKeyValue

from tests.sdk.conftest import OpenDatabase, Recorder
from tests.support.sdk import refused

WRONG_KEY = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXkgd3Jvbmcga2V5IHdyb25nIGtleQ=="
MEGABYTE = 1024 * 1024
OTHER_ETAG = '"00000000-0000-0000-0000-000000000000"'


async def listed(rows: AsyncIterable[Any]) -> list[Any]:
    return [row async for row in rows]


async def ids_of(rows: AsyncIterable[Any]) -> list[str]:
    return [row["id"] async for row in rows]


async def pages_of(pages: AsyncIterator[AsyncIterator[Any]]) -> list[list[str]]:
    return [await ids_of(page) async for page in pages]


async def create_container(database: DatabaseProxy, name: str = "c", **more: Any) -> ContainerProxy:
    made: ContainerProxy = await database.create_container(
        id=name, **{"partition_key": PartitionKey("/pk")} | more
    )
    return made


async def create_items(container: ContainerProxy, count: int, keys: int = 1) -> list[str]:
    """Creates items 000, 001, … with the keys k0, k1, … at once; returns the ids."""
    ids = [f"{number:03}" for number in range(count)]
    await asyncio.gather(
        *(
            container.create_item({"id": item_id, "pk": f"k{number % keys}", "n": number})
            for number, item_id in enumerate(ids)
        )
    )
    return ids


# Account, databases, containers -------------------------------------------------------------------


async def test_wrong_key_is_unauthorized(endpoint: str) -> None:
    client = CosmosClient(endpoint, WRONG_KEY)
    with refused(401, 0, "Unauthorized"):
        await client.create_database("never")
    await client.close()


async def test_databases(endpoint: str, key: str, name: str) -> None:
    seen = Recorder()
    async with CosmosClient(endpoint, key, raw_response_hook=seen.note) as client:
        _, made = await client.create_database_if_not_exists(name, return_properties=True)
        database, again = await client.create_database_if_not_exists(name, return_properties=True)
        assert made == again == await database.read()
        assert seen.outcomes() == [("GET", 404), ("POST", 201), ("GET", 200), ("GET", 200)]
        assert made.get_response_headers()["etag"] == made["_etag"]
        with refused(409, 0):
            await client.create_database(name)
        assert name in await ids_of(client.list_databases())
        found = client.query_databases(
            query="SELECT * FROM root r WHERE r.id = @id",
            parameters=[{"name": "@id", "value": name}],
        )
        assert await ids_of(found) == [name]
        await client.delete_database(name)
        with refused(404, 0):
            await database.read()
        with refused(400, 0, "less than '255' characters."):
            await client.create_database("x" * 256)


async def test_containers(open_database: OpenDatabase) -> None:
    seen = Recorder()
    async with open_database(raw_response_hook=seen.note) as database:
        names = ["c0", "c1", "c2"]
        for name in names:
            await database.create_container_if_not_exists(name, PartitionKey("/pk"))
        await database.create_container_if_not_exists("c0", PartitionKey("/pk"))
        assert seen[-1].status == 200
        assert await ids_of(database.list_containers()) == names
        pages = database.list_containers(max_item_count=2).by_page()
        assert await pages_of(pages) == [names[:2], names[2:]]
        found = database.query_containers(
            query="SELECT * FROM root r WHERE r.id = @id",
            parameters=[{"name": "@id", "value": "c1"}],
        )
        assert await ids_of(found) == ["c1"]
        with refused(409, 0):
            await create_container(database, "c0")
        await database.delete_container("c0")
        with refused(404, 0):
            await database.get_container_client("c0").read()


async def test_container_properties(open_database: OpenDatabase) -> None:
    policy = {
        "includedPaths": [{"path": "/*"}],
        "excludedPaths": [{"path": "/big/*"}],
        "fullTextIndexes": [{"path": "/t"}],
        "vectorIndexes": [{"path": "/v", "type": "quantizedFlat"}],
    }
    vectors = [
        {"path": "/v", "dataType": "float32", "distanceFunction": "cosine", "dimensions": 16}
    ]
    texts = {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t", "language": "en-US"}]}
    computed = [{"name": "lower", "query": "SELECT VALUE LOWER(c.name) FROM c"}]
    unique = {"uniqueKeys": [{"paths": ["/a", "/b"]}]}
    async with open_database() as database:
        container = await create_container(
            database,
            partition_key=PartitionKey(["/a", "/b"]),
            indexing_policy=policy,
            vector_embedding_policy={"vectorEmbeddings": vectors},
            full_text_policy=texts,
            computed_properties=computed,
            unique_key_policy=unique,
            default_ttl=60,
            analytical_storage_ttl=-1,
            change_feed_policy={"retentionDuration": 5},
            conflict_resolution_policy={"mode": "LastWriterWins", "conflictResolutionPath": "/x"},
        )
        shown = await container.read(populate_quota_info=True)
    assert shown["partitionKey"] == {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    assert shown["indexingPolicy"] == policy | {
        "indexingMode": "consistent",
        "automatic": True,
        "excludedPaths": [{"path": "/big/*"}, {"path": '/"_etag"/?'}],
    }
    assert shown["vectorEmbeddingPolicy"] == {"vectorEmbeddings": vectors}
    assert shown["fullTextPolicy"] == texts
    assert shown["computedProperties"] == computed
    assert shown["uniqueKeyPolicy"] == unique
    assert (shown["defaultTtl"], shown["analyticalStorageTtl"]) == (60, -1)
    assert shown["changeFeedPolicy"] == {"retentionDuration": 5}
    assert shown["conflictResolutionPolicy"]["conflictResolutionPath"] == "/x"
    assert "collectionSize=10485760" in shown.get_response_headers()["x-ms-resource-quota"]


async def test_replace_container(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database, default_ttl=60)
        old = await container.read()
        await database.replace_container(container, PartitionKey("/pk"), default_ttl=-1)
        new = await container.read()
        assert (new["defaultTtl"], new["_rid"]) == (-1, old["_rid"])
        await database.replace_container(container, PartitionKey("/pk"))
        assert "defaultTtl" not in await container.read()
        for bad in ({"partition_key": PartitionKey("/other")}, {"default_ttl": 0}):
            with refused(400, 0):
                await database.replace_container(
                    container, **{"partition_key": PartitionKey("/pk")} | bad
                )


async def test_throughput(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database, offer_throughput=700)
        assert (await container.get_throughput()).offer_throughput == 700
        assert (await container.replace_throughput(900)).offer_throughput == 900
        assert (await container.get_throughput()).offer_throughput == 900
        with refused(400, 0, "Requested throughput 100 is less than required minimum"):
            await container.replace_throughput(100)
        scaled = await create_container(
            database,
            "scaled",
            offer_throughput=Throughput(
                auto_scale_max_throughput=4000, auto_scale_increment_percent=5
            ),
        )
        await scaled.replace_throughput(
            Throughput(auto_scale_max_throughput=6000, auto_scale_increment_percent=9)
        )
        found = await scaled.get_throughput()
        assert (found.auto_scale_max_throughput, found.auto_scale_increment_percent) == (6000, 9)


# Items --------------------------------------------------------------------------------------------


async def test_item_lifecycle(open_database: OpenDatabase) -> None:
    seen = Recorder()
    async with open_database(raw_response_hook=seen.note) as database:
        container = await create_container(database)
        made = await container.create_item({"id": "1", "pk": "a", "text": "ünï ☃ 😀"})
        assert seen[-1].status == 201
        assert made.get_response_headers()["etag"] == made["_etag"]
        assert await container.read_item("1", "a") == made
        assert await container.read_item(made, "a") == made
        assert seen[-1].path == f"/{made['_self']}"
        with refused(409, 0):
            await container.create_item({"id": "1", "pk": "a"})
        changed = await container.upsert_item({"id": "1", "pk": "a", "v": 2})
        assert seen[-1].status == 200
        assert changed["_rid"] == made["_rid"]
        renamed = await container.replace_item(changed, {"id": "2", "pk": "a"})
        assert await container.read_item("2", "a") == renamed
        with refused(404, 0):
            await container.read_item("1", "a")
        await container.delete_item(renamed, "a")
        assert seen[-1].status == 204
        with refused(404, 0):
            await container.delete_item("2", "a")
        for exchange in seen:
            assert exchange.received["x-ms-activity-id"] == exchange.sent["x-ms-activity-id"]
            assert float(exchange.received["x-ms-request-charge"]) > 0


async def test_conditions(open_database: OpenDatabase) -> None:
    seen = Recorder()
    async with open_database(raw_response_hook=seen.note) as database:
        container = await create_container(database)
        body = {"id": "1", "pk": "a"}
        item = await container.create_item(body)
        stale: dict[str, Any] = {
            "etag": OTHER_ETAG,
            "match_condition": MatchConditions.IfNotModified,
        }
        for call in (
            container.replace_item("1", body, **stale),
            container.upsert_item(body, **stale),
            container.delete_item("1", "a", **stale),
        ):
            with pytest.raises(CosmosAccessConditionFailedError):
                await call
        same = await container.read_item(
            "1", "a", etag=item["_etag"], match_condition=MatchConditions.IfModified
        )
        assert (same, seen[-1].status) == ({}, 304)
        current = stale | {"etag": item["_etag"]}
        silent = await container.replace_item("1", body, no_response=True, **current)
        assert silent == {}
        item = await container.read_item("1", "a")
        assert silent.get_response_headers()["etag"] == item["_etag"]
        await container.delete_item("1", "a", **current | {"etag": item["_etag"]})


# What the client's HTTP library thinks of bodies over a megabyte is no concern of the server's.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"pk": "a"}, 400),
        ({"id": "", "pk": "a"}, 400),
        ({"id": "x" * 1024, "pk": "a"}, 400),
        ({"id": "1", "pk": "a", "text": "x" * 2 * MEGABYTE}, 413),
        ({"id": "1", "pk": "a", "text": "x" * 5 * MEGABYTE}, 413),
    ],
    ids=["no-id", "empty", "long", "large", "huge"],
)
async def test_refused_items(
    open_database: OpenDatabase, body: dict[str, Any], status: int
) -> None:
    async with open_database() as database:
        container = await create_container(database)
        with refused(status, 0):
            await container.create_item(body)
        assert await listed(container.read_all_items()) == []


async def test_partition_keys(open_database: OpenDatabase) -> None:
    values: list[tuple[dict[str, Any], Any]] = [
        ({"pk": "text"}, "text"),
        ({"pk": "ü ☃"}, "ü ☃"),
        ({"pk": 5}, 5),
        ({"pk": 1.5}, 1.5),
        ({"pk": True}, True),
        ({"pk": None}, NullPartitionKeyValue),
        ({}, NonePartitionKeyValue),
    ]
    async with open_database() as database:
        container = await create_container(database)
        for fields, value in values:
            await container.create_item({"id": "same"} | fields)
            read = await container.read_item("same", value)
            assert read.get("pk", ...) == fields.get("pk", ...)
            found = container.query_items("SELECT * FROM c", partition_key=value)
            assert await listed(found) == [read]
        assert len(await listed(container.read_all_items())) == len(values)
        for _, value in values:
            await container.delete_item("same", value)
        assert await listed(container.read_all_items()) == []


async def test_hierarchical_keys(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database, partition_key=PartitionKey(["/a", "/b/c"]))
        for number in range(6):
            await container.create_item({"id": str(number), "a": number % 2, "b": {"c": number}})
        assert (await container.read_item("3", [1, 3]))["id"] == "3"
        with refused(400):
            await container.read_item("3", [1])
        found = container.query_items("SELECT * FROM c", partition_key=[1])
        assert sorted(await ids_of(found)) == ["1", "3", "5"]
        await container.delete_item("3", [1, 3])
        assert len(await listed(container.read_all_items())) == 5


async def test_read_feed_pages_and_resumes(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database)
        ids = await create_items(container, 11, keys=3)
        pages = await pages_of(container.read_all_items(max_item_count=4).by_page())
        assert [len(page) for page in pages] == [4, 4, 3]
        assert sorted(chain(*pages)) == ids
        pager: Any = container.read_all_items(max_item_count=4).by_page()
        first = await ids_of(await anext(pager))
        resumed = container.read_all_items(max_item_count=5).by_page(pager.continuation_token)
        assert sorted(chain(first, *await pages_of(resumed))) == ids
        with refused(400):
            await anext(container.read_all_items().by_page("not a token"))


async def test_read_items(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database, offer_throughput=18_000)
        await create_items(container, 30, keys=10)
        wanted: list[Any] = [(f"{number:03}", f"k{number % 10}") for number in range(0, 30, 4)]
        found = await container.read_items([*wanted, ("absent", "k1")])
        assert [item["id"] for item in found] == [item_id for item_id, _ in wanted]


async def test_queries(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database, offer_throughput=18_000)
        await create_items(container, 20, keys=5)
        least = [{"name": "@least", "value": 15}]
        one = container.query_items(
            "SELECT * FROM c WHERE c.n >= @least", parameters=least, partition_key="k2"
        )
        assert await ids_of(one) == ["017"]
        # This client asks for all partitions by itself when it is given none.
        every = container.query_items(
            "SELECT VALUE c.n FROM c WHERE c.n >= @least ORDER BY c.n DESC", parameters=least
        )
        assert await listed(every) == [19, 18, 17, 16, 15]
        count = container.query_items("SELECT VALUE COUNT(1) FROM c")
        assert await listed(count) == [20]
        pages = container.query_items("SELECT * FROM c", partition_key="k0", max_item_count=3)
        assert [len(page) for page in await pages_of(pages.by_page())] == [3, 1]
        with refused(400, 0, "SC1001"):
            await listed(container.query_items("SELECT FROM"))


# Sessions and ranges ------------------------------------------------------------------------------


async def test_sessions(open_database: OpenDatabase) -> None:
    seen = Recorder()
    async with open_database(raw_response_hook=seen.note) as database:
        container = await create_container(database)
        writes: list[Callable[[], Awaitable[Any]]] = [
            lambda: container.create_item({"id": "1", "pk": "a"}),
            lambda: container.upsert_item({"id": "1", "pk": "a"}),
            lambda: container.replace_item("1", {"id": "1", "pk": "a"}),
            lambda: container.delete_item("1", "a"),
            lambda: container.create_item({"id": "1", "pk": "a"}),
        ]
        lsns = []
        for write in writes:
            await write()
            lsns.append(seen[-1].lsn)
        assert lsns == list(range(lsns[0], lsns[0] + len(writes)))
        token = seen[-1].received["x-ms-session-token"]
        assert token == f"0:-1#{lsns[-1]}"
        await container.read_item("1", "a")
        assert seen[-1].sent["x-ms-session-token"] == token
        assert seen[-1].received["x-ms-session-token"] == token
        with refused(404, 1002, "The read session is not available for the input session token."):
            await container.read_item("1", "a", session_token=f"0:-1#{lsns[-1] + 1}")
        assert await container.read_item("1", "a", session_token=f"0:-1#{lsns[0]}")


async def test_recreated_container(
    open_database: OpenDatabase, endpoint: str, key: str, name: str
) -> None:
    seen = Recorder()
    async with (
        open_database() as database,
        CosmosClient(endpoint, key, raw_response_hook=seen.note) as client,
    ):
        await create_container(database)
        stale = client.get_database_client(name).get_container_client("c")
        await stale.create_item({"id": "1", "pk": "a"})
        await stale.read_item("1", "a")
        await database.delete_container("c")
        with refused(404, 1003):
            await stale.read_item("1", "a")
        made = await create_container(database)
        await made.create_item({"id": "1", "pk": "a", "new": True})
        seen.clear()
        assert (await stale.read_item("1", "a"))["new"]
        assert (seen[0].status, seen[0].sub_status) == (400, 1024)
        seen.clear()
        await stale.upsert_item({"id": "2", "pk": "a"})
        assert [item["id"] for item in await listed(stale.read_all_items())] == ["1", "2"]
        assert {each.status for each in seen} <= {200, 201, 304}


async def test_ranges(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database, offer_throughput=18_000)
        ids = await create_items(container, 40, keys=40)
        ranges = [each async for each in container.read_feed_ranges()]
        assert len(ranges) == 3
        shares = []
        for each in ranges:
            rows = container.query_items("SELECT * FROM c", feed_range=each, max_item_count=5)
            shares.append(await ids_of(rows))
        assert all(shares)
        assert sorted(chain(*shares)) == ids
        own = await container.feed_range_from_partition_key("k7")
        inside = [await container.is_feed_range_subset(each, own) for each in ranges]
        assert inside == ["007" in share for share in shares]


async def test_many_requests_at_once(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await create_container(database)
        ids = await create_items(container, 200, keys=20)
        read = await asyncio.gather(
            *(container.read_item(item_id, f"k{int(item_id) % 20}") for item_id in ids)
        )
        assert [item["n"] for item in read] == list(range(200))
        assert len({item["_etag"] for item in read}) == len({item["_rid"] for item in read}) == 200
