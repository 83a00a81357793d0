"""Connections that break: nothing acknowledged is lost, nothing happens twice, and it recovers."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest

from perseid.config import Settings
from perseid.http.app import App
from perseid.http.bodies import RequestBody
from perseid.http.request import Request, Response
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.store.postgres import pool as postgres_pool
from tests.support import postgres
from tests.support.builders import PARTITION_KEY
from tests.support.figures import container_metrics
from tests.support.postgres import Postgres
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.stores import Place, pool_of
from tests.support.waiting import until

pytestmark = pytest.mark.only_on("postgres", reason="breaks its connections")

DOCS = "/dbs/d/colls/c/docs"
CLIENTS = 6
CUTS = 12
# What a client may be told when a connection breaks under its request.
UNSURE = {449, 503}


def create_counter(raw: RawClient) -> None:
    assert raw.post("/dbs", {"id": "d"}).status == 201
    assert raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    body = {"id": "counter", "pk": "p", "n": 0}
    assert raw.post(DOCS, body, pk='["p"]').status == 201


def test_cut_connections_in_the_middle_of_writes(place: Place) -> None:
    settings = place.lasting()
    assert settings.store is not None
    done = threading.Event()
    begun = threading.Semaphore(0)
    with running(settings) as found, closing(RawClient(found.endpoint)) as raw:
        create_counter(raw)

        def work(worker: int) -> tuple[Counter[int], dict[str, int]]:
            """Creates and increments until told to stop; what was answered."""
            counted: Counter[int] = Counter()
            created: dict[str, int] = {}
            increment = {"operations": [{"op": "incr", "path": "/n", "value": 1}]}
            with closing(RawClient(found.endpoint)) as client:
                while not done.is_set():
                    item_id = f"{worker}-{len(created)}"
                    body = {"id": item_id, "pk": f"k{worker}", "worker": worker}
                    reply = client.post(DOCS, body, pk=json.dumps([body["pk"]]))
                    created[item_id] = reply.status
                    counted[client.patch(f"{DOCS}/counter", increment, pk='["p"]').status] += 1
                    begun.release()
            return counted, created

        with ThreadPoolExecutor(CLIENTS) as pool:
            working = [pool.submit(work, number) for number in range(CLIENTS)]
            cut = 0
            try:
                for _ in range(CUTS):
                    for _ in range(3 * CLIENTS):  # some writes between two cuts
                        assert begun.acquire(timeout=60)
                    cut += postgres.server().cut(settings.store)
            finally:
                done.set()
            results = [each.result() for each in working]
        assert cut > CUTS

        counted: Counter[int] = sum((each for each, _ in results), Counter())
        assert counted.keys() <= {200} | UNSURE
        n = raw.get(f"{DOCS}/counter", pk='["p"]').json["n"]
        assert counted[200] <= n <= counted[200] + counted[503]

        created = {key: status for _, each in results for key, status in each.items()}
        assert set(created.values()) <= {201} | UNSURE
        ids = raw.query(
            DOCS, "SELECT VALUE c.id FROM c WHERE IS_DEFINED(c.worker)", count="-1"
        ).json["Documents"]
        assert len(ids) == len(set(ids))
        stored = set(ids)
        assert {key for key, status in created.items() if status == 201} <= stored
        assert not {key for key, status in created.items() if status == 449} & stored
        # The counters of the range agree with what is there.
        usage = container_metrics(raw)
        assert usage["live"]["items"] == len(ids) + 1


@pytest.fixture
def own() -> Iterator[Postgres]:
    """A server that the test may stop."""
    with Postgres() as found:
        yield found


REQUESTS: dict[str, Callable[[RawClient], Reply]] = {
    "read": lambda raw: raw.get(f"{DOCS}/counter", pk='["p"]'),
    "feed": lambda raw: raw.get(DOCS),
    "query": lambda raw: raw.query(DOCS, "SELECT * FROM c WHERE c.n = 0"),
    "upsert": lambda raw: raw.post(DOCS, {"id": "new", "pk": "p"}, pk='["p"]', upsert="true"),
    "container": lambda raw: raw.get("/dbs/d/colls/c"),
    "database": lambda raw: raw.post("/dbs", {"id": "other"}),
    "changes": lambda raw: raw.request("GET", DOCS, headers={"A-IM": "Incremental Feed"}),
    "ready": lambda raw: raw.get("/_perseid/ready"),
}


def asked(endpoint: str) -> dict[str, Reply]:
    """One request of each kind, all at once: each may wait for a connection for a while."""

    def ask(send: Callable[[RawClient], Reply]) -> Reply:
        with closing(RawClient(endpoint)) as raw:
            return send(raw)

    with ThreadPoolExecutor(len(REQUESTS)) as pool:
        return dict(zip(REQUESTS, pool.map(ask, REQUESTS.values()), strict=True))


def test_a_database_that_goes_away_and_comes_back(own: Postgres) -> None:
    settings = Settings(store=own.fresh_dsn())
    assert settings.store is not None
    with running(settings) as found, closing(RawClient(found.endpoint)) as raw:
        create_counter(raw)
        own.stop()
        replies = asked(found.endpoint)
        told = {name: reply.status for name, reply in replies.items()}
        assert told == dict.fromkeys(REQUESTS, 503)
        for reply in replies.values():
            assert set(reply.json) >= {"code", "message"}
            assert settings.store not in reply.json["message"]
        assert raw.get("/_perseid/health").status == 200
        own.start()
        until(lambda: raw.get("/_perseid/ready").status == 200)
        until(lambda: raw.get(f"{DOCS}/counter", pk='["p"]').status == 200)
        told = {name: reply.status for name, reply in asked(found.endpoint).items()}
        expected = dict.fromkeys(REQUESTS, 200) | {"upsert": 201, "database": 201}
        assert told == expected


REPEATED = {name: REQUESTS[name] for name in ("read", "feed", "query", "upsert", "container")}


@pytest.mark.parametrize("name", REPEATED)
def test_a_database_that_goes_away_before_a_request_is_repeated(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another front end has changed the container, so the metadata must be read once more."""
    settings = place.lasting(no_sweeper=True)
    assert settings.store is not None
    dsn = settings.store
    away = ExitStack()

    async def leave(app: App, request: Request, body: RequestBody | None) -> Response | None:
        postgres.server().cut(dsn, is_final=True)
        away.callback(postgres.server().readmit, dsn)
        monkeypatch.setattr(pool_of(app._account.stores), "timeout", 0.3)
        return await retry(app, request, body)

    async def rest(_: Sweeper) -> None:
        """It would read the metadata before the request does."""

    retry = App._retry
    monkeypatch.setattr(App, "_retry", leave)
    monkeypatch.setattr(Sweeper, "tick", rest)
    with (
        away,
        running(settings) as found,
        running(settings) as other,
        closing(RawClient(found.endpoint)) as raw,
        closing(RawClient(other.endpoint)) as second,
    ):
        create_counter(second)
        reply = REPEATED[name](raw)
        assert reply.status == 503, reply
        assert set(reply.json) >= {"code", "message"}


@pytest.mark.skipif(sys.platform == "win32", reason="freezes processes")
def test_stop_while_the_database_does_not_answer(
    own: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is under way is given up with a 503, and no request waits for ever."""
    monkeypatch.setattr("perseid.server._GRACE_SECONDS", 0.2)
    monkeypatch.setattr("perseid.store.postgres.store._CLOSE_TIMEOUT", 0.2)
    settings = Settings(store=own.fresh_dsn())
    assert settings.store is not None
    frozen: list[int] = []
    is_asked = threading.Event()
    fetch_kept = postgres_pool.fetch_kept

    async def asking(*asked: Any) -> Any:
        is_asked.set()
        return await fetch_kept(*asked)

    monkeypatch.setattr("perseid.store.postgres.shared_reads.fetch_kept", asking)
    try:
        with ThreadPoolExecutor(1) as pool, ExitStack() as clients:
            with running(settings) as found:
                # Closed after the server: the request may still wait for its response by then.
                raw = clients.enter_context(closing(RawClient(found.endpoint)))
                create_counter(raw)
                frozen = own.backends(settings.store)
                for process in frozen:
                    os.kill(process, signal.SIGSTOP)
                asked = pool.submit(REQUESTS["read"], raw)
                assert is_asked.wait(60)
            assert asked.result(timeout=60).status == 503
    finally:
        for process in frozen:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)


def test_a_database_that_is_not_there(own: Postgres) -> None:
    from perseid.store.types import StoreError

    dsn = own.fresh_dsn()
    own.drop(dsn)
    secret = dsn.replace("postgres@", "postgres:hush-hush@")
    with pytest.raises(StoreError) as caught, running(Settings(store=secret)):
        pass
    assert "hush" not in str(caught.value)
    assert "cannot connect" in str(caught.value)
