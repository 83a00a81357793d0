"""Server processes that are killed and stopped: every acknowledged write exists after a restart.

A server that only prepares or checks data runs in the process of the tests, which is faster.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from perseid.config import Settings
from tests.support.builders import PARTITION_KEY, create_container
from tests.support.processes import ServerProcess, environment, server_process
from tests.support.raw import RawClient, Reply
from tests.support.running import free_port
from tests.support.servers import serving
from tests.support.stores import Place, Stores

CLIENTS = 8
# A server process on PostgreSQL has no data of its own that a kill could damage.
KILLS = {"sqlite": 20, "postgres": 3, "citus": 3}
DOCS = "/dbs/d/colls/c/docs"
ONCE = pytest.mark.only_on("sqlite", reason="which signal it was is not the store's business")


@pytest.fixture
def settings_with_container(place: Place) -> Settings:
    """Says where the database `d` and its container `c` are kept."""
    kept = place.lasting()
    with serving(kept) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        create_container(raw, "/dbs/d")
    return kept


# A stream of creates ----------------------------------------------------------------------------


@dataclass
class Stream:
    """Clients that create items until the server is gone.

    When `target` creates are acknowledged, the one that saw the last of them ends the server, in
    the midst of what the others do.
    """

    random: Random
    sent: dict[str, str] = field(default_factory=dict)  # id -> text
    acknowledged: dict[str, Reply] = field(default_factory=dict)
    surprises: list[Reply] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, server: ServerProcess, target: int, how: signal.Signals) -> None:
        target += len(self.acknowledged)
        clients = [
            threading.Thread(target=self._create, args=(server, target, how))
            for _ in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def _create(self, server: ServerProcess, target: int, how: signal.Signals) -> None:
        client = RawClient(server.endpoint)
        try:
            while True:
                item_id, body = self._item()
                reply = client.post(DOCS, body, pk=json.dumps([body["pk"]]))
                if self._note(item_id, reply) == target:
                    server.child.send_signal(how)
        except (OSError, http.client.HTTPException):
            pass  # the server is gone, or going
        finally:
            client.close()

    def _item(self) -> tuple[str, dict[str, Any]]:
        with self._lock:
            number = len(self.sent)
            item_id = f"i{number}"
            text = "x" * int(self.random.paretovariate(0.7) % 30_000) + f" é {number}"
            self.sent[item_id] = text
        digest = hashlib.sha256(text.encode()).hexdigest()
        return item_id, {"id": item_id, "pk": number % 7, "text": text, "digest": digest}

    def _note(self, item_id: str, reply: Reply) -> int:
        with self._lock:
            if reply.status == 201:
                self.acknowledged[item_id] = reply
            else:
                self.surprises.append(reply)
            return len(self.acknowledged)

    def check(self, client: RawClient) -> None:
        """Every acknowledged item exists, and every item that exists is complete."""
        assert self.surprises == []
        found = {item["id"]: item for item in items_of_feed(client, DOCS)}
        lost = self.acknowledged.keys() - found.keys()
        assert not lost
        for item_id, item in found.items():
            assert item["text"] == self.sent[item_id]
            assert item["digest"] == hashlib.sha256(item["text"].encode()).hexdigest()
            if item_id in self.acknowledged:
                assert item == self.acknowledged[item_id].json
        highest = max(int(reply.headers["lsn"]) for reply in self.acknowledged.values())
        reply = client.get(DOCS, count="1")
        assert int(reply.headers["lsn"]) >= highest


def items_of_feed(client: RawClient, path: str, **headers: str) -> Iterator[Any]:
    """The items of a feed, page by page; no item twice."""
    seen = set()
    headers["count"] = "200"
    while True:
        page = client.get(path, **headers)
        assert page.status == 200
        for item in page.json["Documents"]:
            assert item["_rid"] not in seen
            seen.add(item["_rid"])
            yield item
        if "x-ms-continuation" not in page.headers:
            return
        headers["continuation"] = page.headers["x-ms-continuation"]


@pytest.mark.slow
def test_kill_9(stores: Stores, settings_with_container: Settings) -> None:
    """Twenty times on the same data; each start must find all that was ever acknowledged."""
    random = Random(9)
    stream = Stream(random)
    for _ in range(KILLS[stores.name]):
        with server_process(settings_with_container, "--durability", "full") as server:
            if stream.acknowledged:
                stream.check(server.raw)
            stream.run(server, random.randint(1, 150), signal.SIGKILL)
            assert server.child.wait(timeout=60) == -signal.SIGKILL
    with serving(settings_with_container) as raw:
        stream.check(raw)
    assert len(stream.acknowledged) >= KILLS[stores.name]


def test_a_batch_is_whole_or_absent_after_a_kill(settings_with_container: Settings) -> None:
    """Whatever was acknowledged is there; of the others all items are, or none."""
    members, random = 40, Random(5)
    sent: list[str] = []
    acknowledged: set[str] = set()
    lock = threading.Lock()

    def write(server: ServerProcess, target: int) -> None:
        client = RawClient(server.endpoint)
        try:
            while True:
                with lock:
                    name = f"b{len(sent)}"
                    sent.append(name)
                operations = [
                    {"operationType": "Create", "resourceBody": {"id": f"{name}-{n}", "pk": 1}}
                    for n in range(members)
                ]
                reply = client.batch("/dbs/d/colls/c", operations, pk="[1]")
                assert reply.status == 200
                with lock:
                    acknowledged.add(name)
                    if len(acknowledged) == target:
                        server.child.kill()
        except (OSError, http.client.HTTPException):
            pass  # the server is gone, or going
        finally:
            client.close()

    for _ in range(4):
        with server_process(settings_with_container, "--durability", "full") as server:
            target = len(acknowledged) + random.randint(1, 40)
            writers = [threading.Thread(target=write, args=(server, target)) for _ in range(4)]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
    with serving(settings_with_container) as raw:
        found = Counter(item["id"].partition("-")[0] for item in items_of_feed(raw, DOCS))
    assert acknowledged <= found.keys() <= set(sent)
    assert set(found.values()) == {members}


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=ONCE)])
def test_graceful_stop(settings_with_container: Settings, how: signal.Signals) -> None:
    """It finishes what it took, says so, and leaves one tidy file."""
    stream = Stream(Random(int(how)))
    for target in (1, 40, 120):
        with server_process(settings_with_container) as server:
            stream.run(server, target, how)
            said, _ = server.child.communicate(timeout=60)
            assert server.child.returncode == 0, said
            assert "Stopped" in said
            assert "Traceback" not in said
        assert not list(settings_with_container.data.glob("*-wal"))
        assert not list(settings_with_container.data.glob("*-shm"))
        with serving(settings_with_container) as raw:
            stream.check(raw)


def test_stop_without_clients(settings_with_container: Settings) -> None:
    with server_process(settings_with_container) as server:
        code, said = server.stop(signal.SIGTERM)
    assert (code, "Stopped" in said) == (0, True)


@pytest.mark.skipif(sys.platform != "linux", reason="takes another process the right to write")
@pytest.mark.only_on("sqlite", reason="about the file")
def test_stop_when_nothing_can_be_written(settings_with_container: Settings) -> None:
    """As on a full disk: what is acknowledged is there, the rest can wait for the next start."""
    import resource

    with server_process(settings_with_container) as server:
        for each in ("kept", "gone"):
            body = {"id": each, "pk": 1, "text": "x" * 1_000_000}
            assert server.raw.post(DOCS, body, pk="[1]").status == 201
        assert (
            server.raw.delete(f"{DOCS}/gone", pk="[1]").status == 204
        )  # leaves space to give back
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        assert server.raw.delete(f"{DOCS}/kept", pk="[1]").status == 507
        code, said = server.stop(signal.SIGTERM)
    assert (code, "Stopped" in said, "Traceback" in said) == (0, True, False), said
    with serving(settings_with_container) as raw:
        assert [item["id"] for item in items_of_feed(raw, DOCS)] == ["kept"]


@pytest.mark.only_on("sqlite", reason="about the directory")
def test_one_server_for_a_directory(settings_with_container: Settings) -> None:
    """The second one says who has it; the first one does not notice."""
    with server_process(settings_with_container) as server:
        second = subprocess.run(
            [*server.child.args[:-1], str(free_port())],  # type: ignore[index]
            capture_output=True,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
        assert second.returncode == 1
        assert f"process {server.child.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert server.raw.post(DOCS, {"id": "1", "pk": 1}, pk="[1]").status == 201


# A restart --------------------------------------------------------------------------------------


def create_all_kinds(client: RawClient) -> None:
    """Databases, containers with every kind of property, offers, and items with a past."""
    assert client.post("/dbs", {"id": "shared é"}, throughput="500").status == 201
    assert (
        client.post("/dbs/shared é/colls", {"id": "s", "partitionKey": PARTITION_KEY}).status == 201
    )
    definition = {
        "id": "rich",
        "partitionKey": {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/e"]}]},
        "defaultTtl": -1,
        "indexingPolicy": {
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [{"path": "/text/?"}],
        },
    }
    assert client.post("/dbs/d/colls", definition, throughput="12000").status == 201
    assert client.put("/dbs/d/colls/rich", definition | {"defaultTtl": 100_000}).status == 200
    (offer,) = [
        offer
        for offer in client.get("/offers").json["Offers"]
        if offer["content"]["offerThroughput"] == 500
    ]
    offer["content"]["offerThroughput"] = 700
    assert client.put(f"/offers/{offer['_rid']}", offer).status == 200
    rich = "/dbs/d/colls/rich/docs"
    for number in range(20):
        key = json.dumps(["x", number])
        body = {"id": str(number), "a": "x", "b": number, "e": number, "n": 1.50}
        assert client.post(rich, body, pk=key).status == 201
    assert (
        client.put(f"{rich}/3", {"id": "3", "a": "x", "b": 3, "e": "new"}, pk='["x",3]').status
        == 200
    )
    assert (
        client.put(f"{rich}/4", {"id": "renamed", "a": "x", "b": 4, "e": 4}, pk='["x",4]').status
        == 200
    )
    assert client.delete(f"{rich}/19", pk='["x",19]').status == 204
    raw_text = (
        b'{"id":"text","pk":1,"n":[1.50,1e2,-0.0,18446744073709551615],"s":"\\u00e9\xc3\xa9"}'
    )
    assert client.post(DOCS, raw_text, pk="[1]").status == 201
    assert client.post("/dbs/d/colls", {"id": "gone", "partitionKey": PARTITION_KEY}).status == 201
    assert client.delete("/dbs/d/colls/gone").status == 204


FEEDS = [
    "/dbs",
    "/offers",
    "/dbs/d/colls",
    "/dbs/shared é/colls",
    "/dbs/d/colls/rich/pkranges",
    "/dbs/d/colls/c/pkranges",
    "/dbs/d/colls/rich/docs",
    DOCS,
]
SINGLES = ["/dbs/d", "/dbs/shared é", "/dbs/d/colls/c", "/dbs/d/colls/rich"]


def photograph(client: RawClient) -> dict[str, tuple[bytes, str | None, str | None]]:
    """Every body with its etag and session token."""
    picture = {}
    for path in FEEDS + SINGLES:
        reply = client.get(path)
        assert reply.status == 200, path
        token = reply.headers.get("x-ms-session-token")
        picture[path] = (reply.body, reply.headers.get("etag"), token)
    return picture


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_restart_keeps_everything(settings_with_container: Settings, how: signal.Signals) -> None:
    rich = "/dbs/d/colls/rich/docs"
    with server_process(settings_with_container) as server:
        client = server.raw
        create_all_kinds(client)
        before = photograph(client)
        items = list(items_of_feed(client, rich))
        first = client.get(rich, count="7")
        point = client.get(f"{rich}/3", pk='["x",3]')
        server.stop(how)

    with serving(settings_with_container) as client:
        assert photograph(client) == before
        assert list(items_of_feed(client, rich)) == items

        # a continuation goes on where it was
        token = first.headers["x-ms-continuation"]
        rest = list(items_of_feed(client, rich, continuation=token))
        assert first.json["Documents"] + rest == items

        # etags are still good
        etag = point.headers["etag"]
        assert client.get(f"{rich}/3", pk='["x",3]', if_none_match=etag).status == 304
        stale = client.put(f"{rich}/3", {"id": "3", "a": "x", "b": 3}, pk='["x",3]', if_match="x")
        assert stale.status == 412

        # LSNs and session tokens go on, rids are new
        old = point.headers["x-ms-session-token"]
        assert client.get(f"{rich}/3", pk='["x",3]', session=old).status == 200
        written = client.put(
            f"{rich}/3", {"id": "3", "a": "x", "b": 3, "e": "newer"}, pk='["x",3]', if_match=etag
        )
        assert written.status == 200
        part = written.headers["x-ms-documentdb-partitionkeyrangeid"]
        assert int(written.headers["lsn"]) == lsn_of(before["/dbs/d/colls/rich"][2], part) + 1
        created = client.post(rich, {"id": "19", "a": "x", "b": 19, "e": 19}, pk='["x",19]')
        assert created.status == 201
        assert created.json["_rid"] not in {item["_rid"] for item in items}
        assert created.headers["etag"] not in {item["_etag"] for item in items}

        # unique keys are still kept
        taken = client.post(rich, {"id": "new", "a": "x", "b": 5, "e": 5}, pk='["x",5]')
        assert taken.status == 409
        freed = client.post(rich, {"id": "new", "a": "x", "b": 3, "e": "new"}, pk='["x",3]')
        assert freed.status == 201

        # and so are names
        for path, name in (("/dbs", "d"), ("/dbs/d/colls", "rich")):
            body = {"id": name, "partitionKey": PARTITION_KEY}
            assert client.post(path, body).status == 409
        body = {"id": "gone", "partitionKey": PARTITION_KEY}
        assert client.post("/dbs/d/colls", body).status == 201


def lsn_of(token: str | None, part: str) -> int:
    """The LSN of a range in a container's session token."""
    assert token is not None
    parts = dict(each.split(":-1#") for each in token.split(","))
    return int(parts[part])
