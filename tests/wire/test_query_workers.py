"""Queries that take long run in worker processes: same results, and errors of one query alone."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from perseid.service.queries import budget, evaluation, run
from tests.support.builders import create_container, temporary_database
from tests.support.processes import ServerProcess, server_process
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, serving
from tests.support.sockets import PlainSocket
from tests.support.stores import Place
from tests.support.waiting import until

SIZE: Final = 1500  # to the third power takes hours
TRIPLE: Final = "FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a"
ENDLESS: Final = f"SELECT VALUE COUNT(1) {TRIPLE} WHERE x + y + z < 0"
LONG: Final = (  # enough for a worker process, and no more
    "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN (SELECT VALUE ARRAY_SLICE(c.a, 0, 50))"
)
ONCE = pytest.mark.only_on("sqlite", reason="the store does not matter to processes")

QUERIES: Final = [
    "SELECT * FROM c",
    "SELECT * FROM c WHERE c.n > 3",
    "SELECT c.id, x FROM c JOIN x IN c.a WHERE x > c.n",
    "SELECT VALUE c.id FROM c WHERE LENGTH(c.id) > 1 OFFSET 2 LIMIT 9",
    "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
    "SELECT c.id FROM c ORDER BY c.g, c.n",
    "SELECT DISTINCT VALUE c.g FROM c",
    "SELECT DISTINCT VALUE x FROM c JOIN x IN c.a",
    "SELECT c.g, COUNT(1) AS items, SUM(c.n) AS total FROM c GROUP BY c.g",
    "SELECT c.g, COUNT(1) AS items FROM c GROUP BY c.g",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE COUNT(1) FROM c WHERE c.n > 5",
    "SELECT VALUE AVG(c.n) FROM c WHERE c.g = @g",
    "SELECT VALUE MAKELIST(c.id) FROM c",
    "SELECT VALUE ARRAY(SELECT VALUE x FROM x IN c.a) FROM c",
    "SELECT VALUE 1 + 1",
]


@pytest.fixture(scope="module")
def docs(server: RunningServer) -> Iterator[str]:
    with server.connect() as raw, temporary_database(raw, "workers") as database:
        docs = f"{create_container(raw, database)}/docs"
        for number in range(25):
            item = {"id": f"i{number}", "pk": "p", "n": number * 7 % 25, "g": "abc"[number % 3]}
            assert raw.post(docs, item | {"a": [*range(number % 5)]}, pk='["p"]').status == 201
        yield docs


def pages(raw: RawClient, docs: str, text: str, count: str) -> list[Any]:
    """All pages: their rows, charges, counts, and whether another one follows."""
    found: list[Any] = []
    more: dict[str, str] = {}
    while True:
        parameters = [{"name": "@g", "value": "a"}]
        reply = raw.query(docs, text, parameters, count=count, **more)
        assert reply.status == 200, reply
        token = reply.headers.get("x-ms-continuation")
        charge = reply.headers["x-ms-request-charge"]
        found.append((reply.json["Documents"], charge, token is None))
        if token is None:
            return found
        more = {"continuation": token}


@pytest.mark.parametrize("count", ["4", "1000"])
@pytest.mark.parametrize("text", QUERIES)
def test_pages_are_the_same_in_a_worker(
    raw: RawClient, docs: str, monkeypatch: pytest.MonkeyPatch, text: str, count: str
) -> None:
    expected = pages(raw, docs, text, count)
    with monkeypatch.context() as patched:
        patched.setattr(run, "try_first_page", lambda *_: None)
        patched.setattr(evaluation.Evaluation, "is_long", lambda *_: True)
        assert pages(raw, docs, text, count) == expected


MANY: Final = 3200  # items: several chunks of a worker, and several batches of groups
QUERIES_OVER_MANY: Final = [
    "SELECT * FROM c",
    "SELECT VALUE c.n FROM c WHERE LENGTH(c.id) > 1",
    "SELECT VALUE c.n FROM c WHERE LENGTH(c.id) > 1 OFFSET 2100 LIMIT 90",
    "SELECT VALUE c.n FROM c ORDER BY c.n % 7 DESC, c.id",
    "SELECT c.n, COUNT(1) AS items FROM c GROUP BY c.n",
    "SELECT DISTINCT VALUE c.n + 1 FROM c",
    "SELECT DISTINCT VALUE LENGTH(CONCAT(c.id, c.pk)) FROM c",
    "SELECT SUM(c.n * 2) AS total, MAX(LENGTH(c.id)) AS longest FROM c",
]


@pytest.fixture(scope="module")
def many(server: RunningServer) -> Iterator[str]:
    with server.connect() as raw, temporary_database(raw, "many") as database:
        container = create_container(raw, database)
        lines = [{"id": f"i{number}", "pk": "p", "n": number * 7} for number in range(MANY)]
        path = container.replace("/dbs/", "/_perseid/import/").replace("/colls/", "/")
        reply = raw.post(path, "\n".join(map(json.dumps, lines)).encode())
        assert reply.json["created"] == MANY, reply
        yield f"{container}/docs"


@pytest.mark.parametrize("count", ["700", "5000"])
@pytest.mark.parametrize("text", QUERIES_OVER_MANY)
def test_pages_of_many_items_are_the_same_in_a_worker(
    raw: RawClient, many: str, monkeypatch: pytest.MonkeyPatch, text: str, count: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(budget, "SLICE_SECONDS", 60.0)
        patched.setattr(budget, "SLICE_STEPS", 10**9)
        patched.setattr(budget, "SLICE_GROUPS", 10**9)
        expected = pages(raw, many, text, count)
    with monkeypatch.context() as patched:
        patched.setattr(run, "try_first_page", lambda *_: None)
        patched.setattr(evaluation.Evaluation, "is_long", lambda *_: True)
        assert pages(raw, many, text, count) == expected


def test_a_query_over_many_groups_is_not_tried_again_for_a_while(
    raw: RawClient, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluating groups counts as evaluating, also if the result has a single row."""
    noted: list[bool] = []
    note = evaluation.Evaluation.note

    def noting(self: evaluation.Evaluation, key: int, *, is_long: bool) -> None:
        noted.append(is_long)
        note(self, key, is_long=is_long)

    monkeypatch.setattr(evaluation.Evaluation, "note", noting)
    monkeypatch.setattr(budget, "SLICE_SECONDS", 0.006)
    text = "SELECT SUM(c.n * 3) AS total, MIN(LENGTH(c.id)) AS shortest FROM c"
    for _ in range(3):
        assert raw.query(many, text).status == 200
    assert noted == [True]


def test_a_container_that_was_changed_is_seen_in_a_worker(
    raw: RawClient, docs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers remember plans: one for each definition of the container."""
    monkeypatch.setattr(evaluation.Evaluation, "is_long", lambda *_: True)
    container = docs.removesuffix("/docs")
    text = "SELECT VALUE c.up FROM c WHERE c.id = 'i1' AND IS_DEFINED(c.up)"
    assert raw.query(docs, text).json["Documents"] == []
    definition = raw.get(container).json
    computed = [{"name": "up", "query": "SELECT VALUE UPPER(c.id) FROM c"}]
    assert raw.put(container, definition | {"computedProperties": computed}).status == 200
    assert raw.query(docs, text).json["Documents"] == ["I1"]
    assert raw.put(container, definition).status == 200


@pytest.fixture
def slices(monkeypatch: pytest.MonkeyPatch) -> list[evaluation.SliceEvaluator]:
    """The pages that were tried in the server process."""
    tried: list[evaluation.SliceEvaluator] = []

    class NotedSlice(evaluation.SliceEvaluator):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            tried.append(self)

    monkeypatch.setattr(evaluation, "SliceEvaluator", NotedSlice)
    return tried


def test_a_query_that_took_long_is_not_tried_again_for_a_while(
    raw: RawClient,
    docs: str,
    monkeypatch: pytest.MonkeyPatch,
    slices: list[evaluation.SliceEvaluator],
) -> None:
    monkeypatch.setattr(budget, "SLICE_SECONDS", 1e-9)
    text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a WHERE x != y"
    first = raw.query(docs, text)
    assert (first.status, len(slices)) == (200, 1)
    assert raw.query(docs, text).json == first.json
    assert len(slices) == 1
    # What takes less than a slice in the worker is tried in the server the next time.
    monkeypatch.setattr(budget, "SLICE_SECONDS", 20.0)
    assert raw.query(docs, text).json == first.json
    assert raw.query(docs, text).json == first.json
    assert len(slices) == 2


def test_a_query_that_takes_long_at_its_next_try_is_not_tried_for_a_while_either(
    raw: RawClient,
    docs: str,
    monkeypatch: pytest.MonkeyPatch,
    slices: list[evaluation.SliceEvaluator],
) -> None:
    monkeypatch.setattr(budget, "SLICE_SECONDS", 1e-9)
    monkeypatch.setattr(evaluation, "_SKIPPED_TRIES", 2)
    text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a WHERE x != y + 1"
    tries = []
    for _ in range(7):
        assert raw.query(docs, text).status == 200
        tries.append(len(slices))
    assert tries == [1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT VALUE COUNT(1) {TRIPLE}",
        f"SELECT VALUE x {TRIPLE} ORDER BY x",
        f"SELECT DISTINCT VALUE x + y {TRIPLE}",
        f"SELECT x, COUNT(1) AS n {TRIPLE} GROUP BY x",
    ],
)
def test_sorting_and_grouping_have_a_time_limit(place: Place, text: str) -> None:
    with serving(place.fresh(query_seconds=1)) as raw:
        docs = add_long_item(raw)
        reply = raw.query(docs, text)
        assert reply.status == 408, reply
        assert "stopped after 1 seconds" in reply.json["message"]
        assert raw.query(docs, "SELECT VALUE c.id FROM c").json["Documents"] == ["1"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT a, b, d FROM a IN c.a JOIN b IN c.a JOIN d IN c.a))"
        " FROM c",
        f"SELECT VALUE ARRAY_LENGTH(MAKELIST([x, y])) {TRIPLE}",
        f"SELECT DISTINCT VALUE [x, y, z] {TRIPLE}",
        f"SELECT x, y, z, COUNT(1) AS n {TRIPLE} GROUP BY x, y, z",
    ],
    ids=["array", "makelist", "distinct", "groups"],
)
@ONCE
def test_the_memory_of_a_query_is_limited(
    place: Place, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    # A worker has a low priority: on a busy machine its time would be over before its memory is.
    monkeypatch.setattr(budget, "ITEM_SECONDS", 600.0)
    settings = place.fresh(query_memory=64, query_seconds=600, query_page_seconds=600)
    with serving(settings) as first, closing(RawClient(first.endpoint, timeout=600)) as raw:
        docs = add_long_item(raw)
        reply = raw.query(docs, text)
        assert reply.status == 400, reply
        assert "more than 64 MB of memory" in reply.json["message"]
        assert raw.query(docs, "SELECT VALUE c.id FROM c").json["Documents"] == ["1"]


def add_long_item(raw: RawClient) -> str:
    """The path of the items of a new container with one item, which has a long array."""
    assert raw.post("/dbs", {"id": "q"}).status == 201
    docs = f"{create_container(raw, '/dbs/q')}/docs"
    item = {"id": "1", "pk": "p", "a": [*range(SIZE)]}
    assert raw.post(docs, item, pk='["p"]').status == 201
    return docs


def children(process: int) -> list[int]:
    """The worker processes of a server process, which has no other children."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{task}/children") as file:
            found += map(int, file.read().split())
    return found


def is_running(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Asking:
    """A query that a thread has sent; its worker process, and later its reply."""

    def __init__(self, server: ServerProcess, docs: str) -> None:
        self._endpoint, self._docs = server.endpoint, docs
        self.replies: list[Reply | Exception] = []
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()
        until(lambda: bool(children(server.child.pid)))
        self.worker = children(server.child.pid)[0]

    def _ask(self) -> None:
        with closing(RawClient(self._endpoint)) as raw:
            try:
                self.replies.append(raw.query(self._docs, ENDLESS))
            except OSError as exc:
                self.replies.append(exc)


@ONCE
def test_no_worker_is_started_before_it_is_needed(place: Place) -> None:
    with server_process(place.lasting()) as server:
        docs = add_long_item(server.raw)
        texts = ["SELECT * FROM c", "SELECT VALUE x FROM c JOIN x IN c.a WHERE x < 9"]
        for text in (*texts, "SELECT VALUE MAX(c.id) FROM c", "SELECT VALUE COUNT(1) FROM c"):
            assert server.raw.query(docs, text).status == 200
        assert not children(server.child.pid)


@ONCE
def test_a_killed_worker_is_an_error_of_its_query_alone(place: Place) -> None:
    with server_process(place.lasting()) as server:
        docs = add_long_item(server.raw)
        asking = Asking(server, docs)
        os.kill(asking.worker, signal.SIGSEGV)
        asking.thread.join()
        reply = asking.replies[0]
        assert isinstance(reply, Reply)
        assert reply.status == 503
        assert "worker process" in reply.json["message"]
        assert server.raw.query(docs, LONG).json["Documents"] == [SIZE * 50]


@ONCE
def test_a_worker_ends_when_its_client_disconnects(place: Place) -> None:
    with server_process(place.lasting()) as server:
        docs = add_long_item(server.raw)
        body = json.dumps({"query": ENDLESS}).encode()
        headers = {
            "x-ms-documentdb-isquery": "true",
            "x-ms-documentdb-query-enablecrosspartition": "true",
            "content-type": "application/query+json",
            "content-length": str(len(body)),
        }
        with closing(PlainSocket(server.endpoint)) as client:
            client.send_request("POST", docs, headers, body)
            until(lambda: bool(children(server.child.pid)))
            worker = children(server.child.pid)[0]
        until(lambda: not is_running(worker))


@ONCE
def test_a_worker_that_runs_a_query_ends_when_its_server_is_killed(place: Place) -> None:
    with server_process(place.lasting()) as server:
        asking = Asking(server, add_long_item(server.raw))
        assert is_running(asking.worker)
        server.stop(signal.SIGKILL)
        until(lambda: not is_running(asking.worker))
        asking.thread.join()


@ONCE
def test_workers_end_with_their_server(place: Place) -> None:
    with server_process(place.lasting()) as server:
        assert server.raw.query(add_long_item(server.raw), LONG).status == 200
        workers = children(server.child.pid)
        assert len(workers) == 1
        assert server.stop(signal.SIGTERM)[0] == 0
        assert not is_running(workers[0])
