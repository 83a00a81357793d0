"""A server process that stops in the middle of its work: the others go on, and it does no harm
when it goes on itself."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any

import psycopg
import pytest

from perseid.config import Settings
from perseid.store.postgres import stale_sessions
from tests.support.builders import PARTITION_KEY
from tests.support.processes import ServerProcess, server_process
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.stores import Place
from tests.support.waiting import until

pytestmark = [
    pytest.mark.only_on("postgres", reason="several servers on one database"),
    pytest.mark.skipif(sys.platform == "win32", reason="freezes processes"),
]

DOCS = "/dbs/d/colls/c/docs"
COUNTER = f"{DOCS}/counter"
INCREMENT = {"operations": [{"op": "incr", "path": "/n", "value": 1}]}
STUCK = "perseid 0123456789abcdef"  # the sessions of a process that is not there


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch in this process decides soon, but not so soon that a busy machine looks frozen."""
    monkeypatch.setattr(stale_sessions, "CHECK_INTERVAL", 0.1)
    monkeypatch.setattr(stale_sessions, "STALE_SECONDS", 2.0)


@pytest.fixture
def settings(place: Place) -> Settings:
    return place.lasting(no_sweeper=True, test_clock=True)


@pytest.fixture
def raw(settings: Settings) -> Iterator[RawClient]:
    """A client of a server in this process, which has a container `d/c`."""
    with running(settings) as found, closing(RawClient(found.endpoint)) as client:
        assert client.post("/dbs", {"id": "d"}).status == 201
        body = {"id": "c", "partitionKey": PARTITION_KEY, "defaultTtl": -1}
        assert client.post("/dbs/d/colls", body).status == 201
        assert client.post(DOCS, {"id": "counter", "pk": "p", "n": 0}, pk='["p"]').status == 201
        yield client


def increment(client: RawClient) -> int:
    return client.patch(COUNTER, INCREMENT, pk='["p"]').status


def sessions(db: psycopg.Connection[Any], name: str) -> list[tuple[Any, ...]]:
    return db.execute(
        "SELECT state, wait_event_type, wait_event FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = %s AND xact_start IS NOT NULL",
        (name,),
    ).fetchall()


@contextmanager
def frozen(server: ServerProcess) -> Iterator[None]:
    os.kill(server.child.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.child.pid, signal.SIGCONT)


def test_a_frozen_front_end_stops_no_other(settings: Settings, raw: RawClient) -> None:
    """It has the lock of the physical partition, and more of its requests wait for it."""
    assert settings.store is not None
    with (
        server_process(settings, "--no-sweeper") as other,
        closing(RawClient(other.endpoint)) as second,
        ThreadPoolExecutor(3) as pool,
        psycopg.connect(settings.store, autocommit=True) as watching,
        psycopg.connect(settings.store) as holding,
    ):

        def waiting() -> int:
            return len(
                watching.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                    " AND wait_event_type = 'Lock'"
                ).fetchall()
            )

        def is_idle() -> bool:
            """One of its sessions has the lock, and the database waits for the process."""
            found = watching.execute(
                "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
                " AND state = 'idle in transaction' AND pid <> %s",
                (holding.info.backend_pid,),
            )
            return found.fetchone() is not None

        holding.execute("SELECT 1 FROM perseid.positions FOR UPDATE")
        patched = pool.submit(increment, other.raw)
        until(lambda: waiting() == 1)
        changed = pool.submit(second.delete, "/dbs/d/colls/c")
        until(lambda: waiting() == 2)
        with frozen(other):
            holding.rollback()
            until(is_idle)
            # Both of its transactions would hold up the others, one after the other.
            statuses = [increment(raw) for _ in range(3)]
        assert statuses == [200, 200, 200]
        # It goes on: its transactions have failed, or are made now.
        first, deleted = patched.result(timeout=60), changed.result(timeout=60).status
        assert first in (200, 404, 449, 503)
        assert deleted in (204, 449, 503)
        found = raw.get(COUNTER, pk='["p"]')
        if deleted == 204:
            assert found.status == 404
        else:
            assert found.json["n"] == 3 + (first == 200)


@contextmanager
def stuck_session(dsn: str, *, is_pipeline_complete: bool) -> Iterator[None]:
    """Has the lock of the range, and nothing more comes from its process."""
    with closing(psycopg.connect(dsn, autocommit=True, application_name=STUCK)) as db:
        db.execute("SET search_path TO perseid")
        with (
            suppress(psycopg.OperationalError),  # it may have been ended
            nullcontext() if is_pipeline_complete else db.pipeline(),
        ):
            db.execute("BEGIN")
            db.execute("SELECT 1 FROM positions FOR UPDATE")
            if not is_pipeline_complete:
                db.pgconn.send_flush_request()
                db.pgconn.flush()
            yield


@pytest.mark.parametrize(
    ("is_complete", "state"), [(True, "idle in transaction"), (False, "active")]
)
def test_a_session_that_waits_for_its_process_ends(
    settings: Settings, raw: RawClient, is_complete: bool, state: str
) -> None:
    """Also in the middle of a pipeline, where the timeout of the database does not run."""
    assert settings.store is not None
    with (
        psycopg.connect(settings.store, autocommit=True) as watching,
        stuck_session(settings.store, is_pipeline_complete=is_complete),
    ):
        until(lambda: sessions(watching, STUCK) == [(state, "Client", "ClientRead")])
        assert increment(raw) == 200
        assert sessions(watching, STUCK) == []


def test_a_process_that_stopped_in_a_purge_is_followed(settings: Settings, raw: RawClient) -> None:
    assert settings.store is not None
    assert raw.post(DOCS, {"id": "a", "pk": "p", "ttl": 10}, pk='["p"]').status == 201
    assert raw.post("/_perseid/clock/advance", {"seconds": 10}).status == 200
    with stuck_session(settings.store, is_pipeline_complete=True):
        assert raw.post("/_perseid/ttl/d/c/drain", {}).json["purged"] == 1


def test_sessions_that_hold_up_no_other_stay(settings: Settings, raw: RawClient) -> None:
    """And so do those of other programs, whatever they hold up."""
    assert settings.store is not None
    with (
        psycopg.connect(settings.store, application_name=STUCK) as idle,
        psycopg.connect(settings.store, application_name="report") as report,
        psycopg.connect(settings.store, autocommit=True) as watching,
        ThreadPoolExecutor(1) as pool,
    ):
        idle.execute("SELECT 1")
        report.execute("SELECT 1 FROM perseid.positions FOR UPDATE")
        patched = pool.submit(increment, raw)
        for _ in range(30):  # so often does the watch look
            watching.execute("SELECT pg_sleep(0.1)")
        assert not patched.done()
        report.rollback()
        assert patched.result(timeout=60) == 200
        assert idle.execute("SELECT 2").fetchone() == (2,)
