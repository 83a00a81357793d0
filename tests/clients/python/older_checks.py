"""What the Python clients of 2017 to 2019 are checked with.

They have the same methods under two sets of names: ReadDocument of a Collection in pydocumentdb,
ReadItem of a Container in azure-cosmos 3.
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable
from typing import Any

from tests.clients.python.server import advance

Item = dict[str, Any]
ADA = {"partitionKey": "ada"}
EVERYWHERE = {"enableCrossPartitionQuery": True, "maxItemCount": 7}


def order(name: str, ttl: int | None = None) -> Item:
    item: Item = {"id": name, "customer": "ada", "total": 1}
    return item if ttl is None else {**item, "ttl": ttl}


def numbered(number: int) -> Item:
    return {"id": f"o{number}", "customer": f"customer{number % 12}", "total": number}


def refused(status: int, call: Callable[[], Any]) -> None:
    try:
        call()
    except Exception as error:
        found = getattr(error, "status_code", repr(error))
    else:
        found = 200
    assert found == status, f"expected {status}, got {found}"


class OlderChecks:
    """Runs the checks; `document` and `collection` are the client's names for them."""

    def __init__(self, client: Any, *, document: str, collection: str) -> None:
        self.client = client
        self.document = document
        self.collection = collection
        self.passed = 0
        self.failed = 0
        self.database = f"dbs/older-{uuid.uuid4()}"

    def run(self) -> int:
        """The exit code of the program."""
        self.client.CreateDatabase({"id": self.database.partition("/")[2]})
        for check in (
            self.items,
            self.etags,
            self.defaults,
            self.override,
            self.extend_and_remove,
            self.disable,
            self.invalid,
            self.queries,
            self.change_feed,
            self.without_key,
        ):
            self.check(check)
        self.client.DeleteDatabase(self.database)
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0

    def check(self, check: Callable[[], None]) -> None:
        name = (check.__doc__ or "").rstrip(".")
        try:
            check()
        except Exception:
            self.failed += 1
            print(f"FAILED  {name}: {traceback.format_exc()[-1500:]}")
        else:
            self.passed += 1
            print(f"ok      {name}")

    # The client's methods, by the names of azure-cosmos 4

    def create_container(
        self, name: str, ttl: int | None = None, path: str | None = "/customer"
    ) -> str:
        body: Item = {"id": name}
        if path is not None:
            body["partitionKey"] = {"paths": [path], "kind": "Hash"}
        if ttl is not None:
            body["defaultTtl"] = ttl
        created = getattr(self.client, f"Create{self.collection}")(self.database, body)
        assert created.get("defaultTtl") == ttl, created
        return f"{self.database}/colls/{name}"

    def set_default(self, link: str, ttl: int | None) -> None:
        body = getattr(self.client, f"Read{self.collection}")(link)
        body.pop("defaultTtl", None)
        if ttl is not None:
            body["defaultTtl"] = ttl
        replaced = getattr(self.client, f"Replace{self.collection}")(link, body)
        assert replaced.get("defaultTtl") == ttl, replaced

    def create(self, link: str, item: Item) -> Item:
        created: Item = getattr(self.client, f"Create{self.document}")(link, item)
        return created

    def read(self, link: str, name: str, options: Item = ADA) -> Item:
        item: Item = getattr(self.client, f"Read{self.document}")(f"{link}/docs/{name}", options)
        return item

    def replace(self, link: str, item: Item, options: Item | None = None) -> Item:
        replaced: Item = getattr(self.client, f"Replace{self.document}")(
            f"{link}/docs/{item['id']}", item, options or {}
        )
        return replaced

    def query(self, link: str, text: str, options: Item = EVERYWHERE) -> list[Any]:
        return list(getattr(self.client, f"Query{self.document}s")(link, {"query": text}, options))

    def gone(self, link: str, name: str, options: Item = ADA) -> None:
        refused(404, lambda: self.read(link, name, options))

    # The checks

    def items(self) -> None:
        """Items: create, read, replace, upsert, delete."""
        link = self.create_container("items")
        self.create(link, order("a"))
        item = self.read(link, "a")
        self.replace(link, {**item, "total": 2})
        upserted = getattr(self.client, f"Upsert{self.document}")(link, {**item, "total": 3})
        assert upserted["total"] == self.read(link, "a")["total"] == 3
        getattr(self.client, f"Delete{self.document}")(f"{link}/docs/a", ADA)
        self.gone(link, "a")

    def etags(self) -> None:
        """Items: etags and conflicts."""
        link = self.create_container("etags")
        created = self.create(link, order("a"))
        match = {"accessCondition": {"type": "IfMatch", "condition": created["_etag"]}}
        self.replace(link, order("a"), match)
        refused(412, lambda: self.replace(link, order("a"), match))
        refused(409, lambda: self.create(link, order("a")))

    def defaults(self) -> None:
        """TTL: off, -1 and a number on a container."""
        for ttl in (None, -1, 10):
            self.create_container(f"default{ttl}", ttl)

    def override(self) -> None:
        """TTL: an item's own value overrides the default."""
        link = self.create_container("override", 60)
        for item in (order("short", 30), order("never", -1), order("default")):
            self.create(link, item)
        advance(30)
        self.gone(link, "short")
        self.read(link, "default")
        advance(30)
        self.gone(link, "default")
        self.read(link, "never")
        assert self.query(link, "SELECT VALUE c.id FROM c") == ["never"]

    def extend_and_remove(self) -> None:
        """TTL: a write extends the lifetime, without the property it is removed."""
        link = self.create_container("extend", -1)
        self.create(link, order("extended", 60))
        self.create(link, order("removed", 60))
        advance(40)
        self.replace(link, order("extended", 1800))
        item = self.read(link, "removed")
        del item["ttl"]
        self.replace(link, item)
        advance(1780)
        self.read(link, "extended")
        advance(30)
        self.gone(link, "extended")
        self.read(link, "removed")

    def disable(self) -> None:
        """TTL: change and disable it on the container."""
        link = self.create_container("disable")
        self.create(link, order("a"))
        self.create(link, order("b", 30))
        self.set_default(link, 600)
        advance(30)
        self.set_default(link, None)
        advance(3600)
        self.read(link, "a")
        self.gone(link, "b")

    def invalid(self) -> None:
        """TTL: invalid values are refused."""
        link = self.create_container("invalid", -1)
        for ttl in (0, -2):
            refused(400, lambda ttl=ttl: self.create(link, order("a", ttl)))  # type: ignore[misc]

    def queries(self) -> None:
        """Queries: pages, a filter, ORDER BY, TOP, one key."""
        link = self.create_container("queries")
        for number in range(60):
            self.create(link, numbered(number))
        rows = self.query(link, "SELECT VALUE c.total FROM c")
        assert sorted(rows) == list(range(60)), rows
        rows = self.query(link, "SELECT VALUE c.total FROM c WHERE c.total >= 40")
        assert sorted(rows) == list(range(40, 60)), rows
        rows = self.query(link, "SELECT TOP 12 * FROM c ORDER BY c.total DESC")
        assert [row["total"] for row in rows] == list(range(59, 47, -1)), rows
        one = {"partitionKey": "customer3"}
        rows = self.query(link, "SELECT VALUE c.total FROM c ORDER BY c.total", one)
        assert rows == [3, 15, 27, 39, 51], rows

    def change_feed(self) -> None:
        """Change feed: from the beginning, then what follows."""
        link = self.create_container("feed")
        for number in range(24):
            self.create(link, numbered(number))
        read = getattr(self.client, f"Query{self.document}sChangeFeed")
        options = {"partitionKeyRangeId": "0"}
        ids = [item["id"] for item in read(link, {**options, "startFromBeginning": True})]
        assert len(ids) == len(set(ids)) == 24, ids
        token = self.client.last_response_headers["etag"]
        for number in (3, 4):
            self.replace(link, numbered(number))
        changes = read(link, {**options, "continuation": token})
        assert sorted(item["id"] for item in changes) == ["o3", "o4"]

    def without_key(self) -> None:
        """A container without a partition key."""
        link = self.create_container("old", -1, path=None)
        self.create(link, order("a"))
        self.create(link, order("b", 60))
        assert self.query(link, "SELECT VALUE c.id FROM c ORDER BY c.id", {}) == ["a", "b"]
        advance(60)
        self.gone(link, "b", {})
        self.read(link, "a", {})
