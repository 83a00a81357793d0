"""Containers under a TTL test, made and used through the wire; clocks that stand still."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply

ABSENT: Final = object()  # the property is left out, which is not the same as null
NOT_FOUND: Final = (
    "Entity with the specified id does not exist in the system. "
    "More info: https://aka.ms/cosmosdb-tsg-not-found"
)
MaybePurge = Callable[["TtlContainer"], None]  # of the fixture `maybe_purge` of tests/ttl


def drain(raw: RawClient, admin: str = "/_perseid/ttl/d/c") -> int:
    """Purges all expired items of a container; returns how many."""
    reply = raw.post(f"{admin}/drain", {})
    assert reply.status == 200, reply
    purged: int = reply.json["purged"]
    return purged


@dataclass(frozen=True)
class TtlContainer:
    """A container under test; items have the key `p` by default."""

    raw: RawClient
    clock: MovableClock
    path: str

    @property
    def admin(self) -> str:
        """The path of the container's lifetimes, `/_perseid/ttl/<database>/<container>`."""
        _, _, database, _, name = self.path.split("/")
        return f"/_perseid/ttl/{database}/{name}"

    def definition(self) -> dict[str, Any]:
        """The container's body, as a replace would send it back."""
        reply = self.raw.get(self.path)
        assert reply.status == 200, reply
        return {name: value for name, value in reply.json.items() if not name.startswith("_")}

    def set_default(self, default_ttl: object = ABSENT) -> Reply:
        """Replaces the container with another `defaultTtl`, all else kept."""
        body = self.definition()
        body.pop("defaultTtl", None)
        if default_ttl is not ABSENT:
            body["defaultTtl"] = default_ttl
        return self.raw.put(self.path, body)

    def drain(self) -> int:
        """Purges all expired items; returns how many."""
        return drain(self.raw, self.admin)

    def body(self, id_: str, ttl: object = ABSENT, pk: str = "p", **rest: Any) -> dict[str, Any]:
        document = {"id": id_, "pk": pk, **rest}
        return document if ttl is ABSENT else document | {"ttl": ttl}

    def create(
        self, id_: str, ttl: object = ABSENT, *, at: float | None = None, pk: str = "p", **rest: Any
    ) -> dict[str, Any]:
        """Stores an item, at clock `at` if given, and returns it."""
        if at is not None:
            self.clock.set(at)
        reply = self.post(self.body(id_, ttl, pk, **rest), pk=pk)
        assert reply.status == 201, reply
        stored: dict[str, Any] = reply.json
        return stored

    def post(self, body: Any, pk: str = "p", **headers: str) -> Reply:
        """A create, or an upsert with `upsert="true"`."""
        return self.raw.post(f"{self.path}/docs", body, pk=json.dumps([pk]), **headers)

    def read(self, id_: str, pk: str = "p", **headers: str) -> Reply:
        return self.raw.get(f"{self.path}/docs/{id_}", pk=json.dumps([pk]), **headers)

    def replace(self, id_: str, body: Any, pk: str = "p", **headers: str) -> Reply:
        return self.raw.put(f"{self.path}/docs/{id_}", body, pk=json.dumps([pk]), **headers)

    def delete(self, id_: str, pk: str = "p", **headers: str) -> Reply:
        return self.raw.delete(f"{self.path}/docs/{id_}", pk=json.dumps([pk]), **headers)

    def clear_partition(self, pk: str = "p") -> Reply:
        return self.raw.clear_partition(self.path, json.dumps([pk]))

    def query(self, text: str, parameters: Any = (), **headers: str) -> list[Any]:
        """The first page of a query, which must succeed, also if the service would refuse it."""
        headers = {"x_perseid_direct": "true"} | headers
        reply = self.raw.query(f"{self.path}/docs", text, parameters, **headers)
        assert reply.status == 200, reply
        found: list[Any] = reply.json["Documents"]
        assert reply.json["_count"] == len(found)
        return found

    def queried(self) -> set[str]:
        """The ids that a query shows."""
        return set(self.query("SELECT VALUE c.id FROM c"))

    def counted(self) -> int:
        (count,) = self.query("SELECT VALUE COUNT(1) FROM c")
        assert isinstance(count, int)
        return count

    def listed(self) -> set[str]:
        """The ids that the read feed shows."""
        reply = self.raw.get(f"{self.path}/docs")
        assert reply.status == 200, reply
        assert reply.json["_count"] == len(reply.json["Documents"])
        return {document["id"] for document in reply.json["Documents"]}

    def seen(self, *ids: str) -> set[str]:
        """Which of these exist, the container holding no others; every way to look must agree."""
        alive = {id_ for id_ in ids if self.read(id_).status == 200}
        for id_ in set(ids) - alive:
            assert_gone(self.read(id_))
        assert self.queried() == alive
        assert self.counted() == len(alive)
        assert self.listed() == alive
        return alive


@dataclass(frozen=True)
class TtlContainers:
    """Makes containers in one database."""

    raw: RawClient
    clock: MovableClock
    database: str

    @property
    def now(self) -> int:
        """The whole second the clock shows."""
        return int(self.clock.now())

    def make(self, default_ttl: object = ABSENT, name: str = "c", **rest: Any) -> TtlContainer:
        """A container with this `defaultTtl`; `rest` joins its definition."""
        reply = self.post(default_ttl, name, **rest)
        assert reply.status == 201, reply
        return TtlContainer(self.raw, self.clock, f"{self.database}/colls/{name}")

    def post(self, default_ttl: object = ABSENT, name: str = "c", **rest: Any) -> Reply:
        """The answer to creating it, whatever it is."""
        body = {"id": name, "partitionKey": PARTITION_KEY, **rest}
        if default_ttl is not ABSENT:
            body["defaultTtl"] = default_ttl
        return self.raw.post(f"{self.database}/colls", body)


def assert_gone(reply: Reply) -> None:
    """The answer for an id that never existed."""
    assert (reply.status, reply.sub_status) == (404, 0), reply
    assert reply.json["code"] == "NotFound"
    assert NOT_FOUND in reply.json["message"]
