"""The official Python clients: users, permissions, resource tokens, scripts, delete by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pytest
from azure.cosmos import ContainerProxy, CosmosClient, DatabaseProxy, PartitionKey, aio
from azure.cosmos.documents import PermissionMode

from perseid.clock import MovableClock
from tests.sdk.conftest import OpenDatabase, Recorder
from tests.support.sdk import refused

SPROC = {"id": "s", "body": "function () { getContext().getResponse().setBody(1); }"}
TRIGGER = {
    "id": "t",
    "serverScript": "function () {}",
    "triggerType": "Pre",
    "triggerOperation": "All",
}
NOT_YET = "does not support executing"

Enter: TypeAlias = Callable[..., ContainerProxy]


def permission(
    container: ContainerProxy | aio.ContainerProxy,
    mode: str,
    key: list[Any] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    body = {"id": f"p-{mode}-{key}", "permissionMode": mode, "resource": container.container_link}
    return body | ({} if key is None else {"resourcePartitionKey": key}) | rest


@pytest.fixture
def enter(endpoint: str, container: ContainerProxy) -> Iterator[Enter]:
    """Opens the container with a credential that is no key."""
    with ExitStack() as clients:

        def opened(credential: Any, **options: Any) -> ContainerProxy:
            client = clients.enter_context(CosmosClient(endpoint, credential, **options))
            database: DatabaseProxy = client.get_database_client(
                container.container_link.split("/")[1]
            )
            return database.get_container_client(container.id)

        yield opened


def test_users(database: DatabaseProxy) -> None:
    user = database.create_user({"id": "u"})
    assert user.id == "u"
    with refused(409):
        database.create_user({"id": "u"})
    assert database.get_user_client("u").read()["_permissions"] == "permissions/"
    assert [each["id"] for each in database.list_users()] == ["u"]
    found = database.query_users(
        query="SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": "u"}]
    )
    assert [each["id"] for each in found] == ["u"]
    assert database.upsert_user({"id": "u"}).id == "u"
    assert database.upsert_user({"id": "v"}).id == "v"
    renamed = database.replace_user("u", {"id": "w"})
    assert renamed.id == "w"
    with refused(404):
        database.get_user_client("u").read()
    database.delete_user("w")
    database.delete_user(database.get_user_client("v").read())
    assert list(database.list_users()) == []


def test_permissions(database: DatabaseProxy, container: ContainerProxy) -> None:
    user = database.create_user({"id": "u"})
    body = {
        "id": "p",
        "permissionMode": PermissionMode.Read,
        "resource": "dbs/AQAAAA==/colls/AQAAAJ0fgTc=",
    }
    made = user.create_permission(body)
    assert (made.id, made.permission_mode, made.resource_link) == ("p", "read", body["resource"])
    assert made.properties["_token"].startswith("type=resource&ver=1&sig=")
    with refused(409):
        user.create_permission(body)
    assert user.get_permission("p").properties["_rid"] == made.properties["_rid"]
    assert user.get_permission(made.properties).id == "p"
    assert [each["id"] for each in user.list_permissions()] == ["p"]
    found = user.query_permissions(
        query="SELECT * FROM root r WHERE r.id=@id", parameters=[{"name": "@id", "value": "p"}]
    )
    assert [each["id"] for each in found] == ["p"]
    changed = user.replace_permission("p", body | {"permissionMode": "All", "id": "q"})
    assert (changed.id, changed.permission_mode) == ("q", "All")
    upserted = user.upsert_permission(body | {"id": "q"})
    assert upserted.properties["_rid"] == made.properties["_rid"]
    other = user.upsert_permission(body | {"id": "r", "resource": container.container_link})
    assert other.properties["_rid"] != made.properties["_rid"]
    user.delete_permission("q")
    with refused(404):
        user.get_permission("q")


def test_no_credentials_at_all(endpoint: str) -> None:
    with refused(401):
        CosmosClient(endpoint, {})
    with refused(401):
        CosmosClient(endpoint, {"dbs/x/colls/y": "type=resource&ver=1&sig=nothing"})


@pytest.mark.parametrize("form", ["by link", "by rid"])
def test_a_read_token(
    database: DatabaseProxy, container: ContainerProxy, enter: Enter, form: str
) -> None:
    """Also in the session the first answer begins: ranges are read with the token too."""
    container.create_item({"id": "1", "pk": "a", "n": 1})
    user = database.create_user({"id": "u"})
    link = container.container_link if form == "by link" else container.read()["_self"]
    made = user.create_permission(permission(container, "Read", resource=link))
    mine = enter({container.container_link: made.properties["_token"]})
    assert mine.read()["id"] == container.id
    assert mine.read_item("1", "a")["n"] == 1
    assert mine.read_item("1", "a")["n"] == 1
    assert [each["id"] for each in mine.read_all_items()] == ["1"]
    assert [each["n"] for each in mine.query_items("SELECT c.n FROM c", partition_key="a")] == [1]
    crossing = mine.query_items("SELECT c.n FROM c", enable_cross_partition_query=True)
    assert [each["n"] for each in crossing] == [1]
    assert len(list(mine.read_feed_ranges())) == 1
    for write in (
        lambda: mine.create_item({"id": "2", "pk": "a"}),
        lambda: mine.upsert_item({"id": "1", "pk": "a"}),
        lambda: mine.replace_item("1", {"id": "1", "pk": "a"}),
        lambda: mine.delete_item("1", "a"),
        lambda: mine.delete_all_items_by_partition_key("a"),
        lambda: mine.scripts.create_stored_procedure(SPROC),
    ):
        with refused(403, text="Insufficient permissions"):
            write()
    assert container.read_item("1", "a")["n"] == 1


def test_a_feed_of_permissions(database: DatabaseProxy, container: ContainerProxy) -> None:
    """The client keeps the tokens of a feed by the last part of their links, where it does not find
    them again for requests by name; it does send the first one for the account."""
    user = database.create_user({"id": "u"})
    user.create_permission(permission(container, "Read"))
    feed: Any = user.list_permissions()
    client = CosmosClient(database.client_connection.url_connection, feed, retry_total=0)
    assert client.get_database_account().ConsistencyPolicy


def test_an_all_token(database: DatabaseProxy, container: ContainerProxy, enter: Enter) -> None:
    user = database.create_user({"id": "u"})
    token = user.create_permission(permission(container, "All")).properties["_token"]
    mine = enter({container.container_link: token})
    mine.create_item({"id": "1", "pk": "a"})
    mine.upsert_item({"id": "1", "pk": "a", "n": 2})
    mine.replace_item("1", {"id": "1", "pk": "a", "n": 3})
    assert mine.read_item("1", "a")["n"] == 3
    mine.delete_item("1", "a")
    mine.scripts.create_stored_procedure(SPROC)
    assert [each["id"] for each in mine.scripts.list_stored_procedures()] == ["s"]
    other = database.create_container("other", PartitionKey("/pk"))
    stranger = enter({other.container_link: token})
    assert stranger.id == "c"
    with refused(403):
        CosmosClient(
            database.client_connection.url_connection, {other.container_link: token}
        ).get_database_client(database.id).get_container_client("other").read()


def test_an_item_token(database: DatabaseProxy, container: ContainerProxy, enter: Enter) -> None:
    """The client reads the container with it too."""
    item = container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "2", "pk": "a"})
    user = database.create_user({"id": "u"})
    for name, link in (
        ("by-name", f"{container.container_link}/docs/1"),
        ("by-rid", item["_self"]),
    ):
        body = {"id": name, "permissionMode": "All", "resource": link}
        if name == "by-rid":
            user.delete_permission("by-name")
        token = user.create_permission(body).properties["_token"]
        mine = enter({f"{container.container_link}/docs/1": token})
        assert mine.read_item("1", "a")["id"] == "1"
        mine.replace_item("1", {"id": "1", "pk": "a", "by": name})
        with refused(403):
            mine.read_item("2", "a")


def test_a_token_for_one_key(
    database: DatabaseProxy, container: ContainerProxy, enter: Enter
) -> None:
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "2", "pk": "b"})
    user = database.create_user({"id": "u"})
    token = user.create_permission(permission(container, "All", ["a"])).properties["_token"]
    mine = enter({container.container_link: token})
    assert mine.read_item("1", "a")["id"] == "1"
    assert [each["id"] for each in mine.query_items("SELECT * FROM c", partition_key="a")] == ["1"]
    mine.create_item({"id": "3", "pk": "a"})
    mine.delete_all_items_by_partition_key("a")
    for reach in (
        lambda: mine.read_item("2", "b"),
        lambda: mine.create_item({"id": "4", "pk": "b"}),
        lambda: list(mine.query_items("SELECT * FROM c", partition_key="b")),
        lambda: list(mine.query_items("SELECT * FROM c", enable_cross_partition_query=True)),
        lambda: list(mine.read_all_items()),
        lambda: mine.delete_all_items_by_partition_key("b"),
    ):
        with refused(403, text="partition key"):
            reach()
    assert [each["id"] for each in container.read_all_items()] == ["2"]


def test_a_token_for_a_prefix(database: DatabaseProxy, endpoint: str) -> None:
    tree = database.create_container("tree", PartitionKey(["/a", "/b"], kind="MultiHash"))
    for a in ("x", "y"):
        for b in ("1", "2"):
            tree.create_item({"id": f"{a}{b}", "a": a, "b": b})
    user = database.create_user({"id": "u"})
    token = user.create_permission(permission(tree, "All", ["x"])).properties["_token"]
    with CosmosClient(endpoint, {tree.container_link: token}) as client:
        mine = client.get_database_client(database.id).get_container_client("tree")
        assert mine.read_item("x1", ["x", "1"])["id"] == "x1"
        found = mine.query_items("SELECT VALUE c.id FROM c ORDER BY c.id", partition_key=["x"])
        assert list(found) == ["x1", "x2"]
        mine.create_item({"id": "x3", "a": "x", "b": "3"})
        with refused(403):
            mine.read_item("y1", ["y", "1"])
        with refused(403):
            list(mine.query_items("SELECT * FROM c", partition_key=["y"]))


def test_tokens_end(
    database: DatabaseProxy, container: ContainerProxy, enter: Enter, clock: MovableClock
) -> None:
    container.create_item({"id": "1", "pk": "a"})
    user = database.create_user({"id": "u"})
    made = user.create_permission(permission(container, "Read"), resource_token_expiry_seconds=60)
    mine = enter({container.container_link: made.properties["_token"]})
    assert mine.read_item("1", "a")["id"] == "1"
    clock.advance(60)
    with refused(401, text="not valid at the current time"):
        mine.read_item("1", "a")
    again = user.get_permission(made.id).properties["_token"]
    renewed = enter({container.container_link: again})
    assert renewed.read_item("1", "a")["id"] == "1"
    user.delete_permission(made.id)
    with refused(401):
        renewed.read_item("1", "a")


def test_stored_procedures(container: ContainerProxy) -> None:
    scripts = container.scripts
    made = scripts.create_stored_procedure(SPROC)
    with refused(409):
        scripts.create_stored_procedure(SPROC)
    assert scripts.get_stored_procedure("s")["body"] == SPROC["body"]
    assert scripts.get_stored_procedure(made)["id"] == "s"
    query = "SELECT * FROM root r WHERE r.id='s'"
    assert [each["id"] for each in scripts.query_stored_procedures(query)] == ["s"]
    changed = scripts.replace_stored_procedure(made, {"id": "s", "body": "function () {}"})
    assert changed["body"] == "function () {}"
    for sproc in ("s", changed):
        with refused(400, text=NOT_YET):
            scripts.execute_stored_procedure(sproc, partition_key="a", params=[{"a": 1}])
    scripts.delete_stored_procedure(changed)
    with refused(404):
        scripts.execute_stored_procedure("s", partition_key="a")
    assert list(scripts.list_stored_procedures()) == []


def test_triggers(container: ContainerProxy) -> None:
    scripts = container.scripts
    made = scripts.create_trigger(dict(TRIGGER))
    assert (made["body"], made["triggerType"]) == ("function () {}", "Pre")
    assert scripts.get_trigger("t")["triggerOperation"] == "All"
    assert [each["id"] for each in scripts.list_triggers()] == ["t"]
    changed = scripts.replace_trigger("t", {**made, "triggerOperation": "Create"})
    assert changed["triggerOperation"] == "Create"
    options: list[dict[str, Any]] = [{"pre_trigger_include": "t"}, {"post_trigger_include": "t"}]
    for option in options:
        with refused(400, text=NOT_YET):
            container.create_item({"id": "1", "pk": "a"}, **option)
    assert list(container.read_all_items()) == []
    scripts.delete_trigger("t")
    assert list(scripts.query_triggers("SELECT * FROM c")) == []


def test_functions(container: ContainerProxy) -> None:
    scripts = container.scripts
    scripts.create_user_defined_function({"id": "f", "body": "function (x) { return x; }"})
    assert scripts.get_user_defined_function("f")["id"] == "f"
    assert [each["id"] for each in scripts.list_user_defined_functions()] == ["f"]
    with refused(400, text="not supported yet"):
        list(container.query_items("SELECT udf.f(c.n) FROM c", partition_key="a"))
    scripts.replace_user_defined_function("f", {"id": "f", "body": "function (x) {}"})
    scripts.delete_user_defined_function("f")
    assert list(scripts.query_user_defined_functions("SELECT * FROM c")) == []


def test_conflicts(container: ContainerProxy) -> None:
    assert list(container.list_conflicts()) == []
    found = container.query_conflicts("SELECT * FROM c", enable_cross_partition_query=True)
    assert list(found) == []
    with refused(404):
        container.get_conflict("x", "a")
    with refused(404):
        container.delete_conflict("x", "a")


def test_delete_by_partition_key(container: ContainerProxy, exchanges: Recorder) -> None:
    for number in range(3):
        container.create_item({"id": f"{number}", "pk": "a"})
    container.create_item({"id": "kept", "pk": "b"})
    container.delete_all_items_by_partition_key("a")
    assert exchanges[-1].status == 200
    assert [each["id"] for each in container.read_all_items()] == ["kept"]
    with refused(404, 0):
        container.read_item("1", "a")
    container.create_item({"id": "1", "pk": "a"})
    assert container.read_item("1", "a")["id"] == "1"


async def test_access_through_the_asynchronous_client(
    open_database: OpenDatabase, endpoint: str
) -> None:
    async with open_database() as database:
        container = await database.create_container("c", PartitionKey("/pk"))
        await container.create_item({"id": "1", "pk": "a"})
        await container.create_item({"id": "2", "pk": "b"})
        user = await database.create_user({"id": "u"})
        assert [each["id"] async for each in database.list_users()] == ["u"]
        reader = await user.create_permission(permission(container, "Read"))
        keyed = await user.create_permission(permission(container, "All", ["a"]))
        assert len([each async for each in user.list_permissions()]) == 2
        link = container.container_link
        async with aio.CosmosClient(endpoint, {link: reader.properties["_token"]}) as client:
            mine = client.get_database_client(database.id).get_container_client("c")
            assert (await mine.read_item("1", "a"))["id"] == "1"
            assert len([each async for each in mine.query_items("SELECT * FROM c")]) == 2
            with refused(403):
                await mine.delete_item("1", "a")
        async with aio.CosmosClient(endpoint, {link: keyed.properties["_token"]}) as client:
            mine = client.get_database_client(database.id).get_container_client("c")
            await mine.create_item({"id": "3", "pk": "a"})
            with refused(403):
                await mine.read_item("2", "b")
            with refused(403):
                [each async for each in mine.query_items("SELECT * FROM c")]
            await mine.delete_all_items_by_partition_key("a")
        assert [each["id"] async for each in container.read_all_items()] == ["2"]
        async with aio.CosmosClient(endpoint, {link: keyed.properties["_token"]}) as client:
            mine = client.get_database_client(database.id).get_container_client("c")
            await database.delete_user("u")
            with refused(401):
                await mine.read()


async def test_scripts_through_the_asynchronous_client(open_database: OpenDatabase) -> None:
    async with open_database() as database:
        container = await database.create_container("c", PartitionKey("/pk"))
        scripts = container.scripts
        made = await scripts.create_stored_procedure(SPROC)
        await scripts.create_trigger(dict(TRIGGER))
        await scripts.create_user_defined_function({"id": "f", "body": "function (x) {}"})
        assert (await scripts.get_stored_procedure(made))["id"] == "s"
        assert [each["id"] async for each in scripts.list_triggers()] == ["t"]
        assert [each["id"] async for each in scripts.list_user_defined_functions()] == ["f"]
        with refused(400, text=NOT_YET):
            await scripts.execute_stored_procedure("s", partition_key="a")
        with refused(400, text=NOT_YET):
            await container.create_item({"id": "1", "pk": "a"}, pre_trigger_include="t")
        assert [each async for each in container.list_conflicts()] == []
        with refused(404):
            await container.get_conflict("x", "a")
        await scripts.delete_stored_procedure("s")
        await scripts.delete_trigger("t")
        await scripts.delete_user_defined_function("f")
