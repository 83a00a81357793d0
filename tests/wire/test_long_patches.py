"""Patches that take long to evaluate: others are served meanwhile, and the results are exact."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any, Final

import pytest

from perseid.service.items import patch_evaluator, patch_operations
from perseid.service.items.patch_operations import PatchOutcome, PatchTask
from tests.support.builders import create_container
from tests.support.operations import codes, create, item, patch, stored_items
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, Servers
from tests.support.waiting import TIME_LIMIT, TooSlow, repeat_if_slow

PK: Final = '["a"]'
SET: Final = {"op": "set", "path": "/n", "value": 2}
# Three JOINs over 2,000 elements: eight billion rows.
ENDLESS: Final = (
    "from c where (SELECT VALUE COUNT(1) FROM x IN c.a JOIN y IN c.a JOIN z IN c.a"
    " WHERE x=y+z+9999999) > 0"
)
# Not linear, but soon done.
TRUE: Final = "from c where (SELECT VALUE COUNT(1) FROM x IN c.a) >= 3"
FALSE: Final = "from c where (SELECT VALUE COUNT(1) FROM x IN c.a) > 3000"


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(no_sweeper=True)


@pytest.fixture
def shelf(raw: RawClient, database: str) -> str:
    """A container with the item `long`, whose array has 2,000 elements."""
    path = create_container(raw, database)
    long_item = item("long", n=1, a=list(range(2_000)))
    assert raw.post(f"{path}/docs", long_item, pk=PK).status == 201
    return path


MANY: Final = 8


@pytest.fixture
def with_short_limits(
    server: RunningServer, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[RawClient], Reply]], Reply]:
    """Does some work in which conditions have little time; others are served meanwhile."""

    def attempt(work: Callable[[RawClient], Reply], factor: int) -> Reply:
        monkeypatch.setattr(patch_evaluator, "_TOTAL_SECONDS", 1.0 * factor)
        monkeypatch.setattr(patch_evaluator, "CONDITION_SECONDS", 0.4 * factor)
        with server.connect() as other, server.connect() as raw, ThreadPoolExecutor(1) as threads:
            running = threads.submit(work, raw)
            reads = 0
            while not running.done():
                assert other.get(f"{shelf}/docs/long", pk=PK).status == 200
                reads += 1
        if reads <= MANY:
            raise TooSlow(f"{reads} requests of others were answered meanwhile")
        return running.result()

    return lambda work: repeat_if_slow(lambda factor: attempt(work, factor))


def test_others_are_served_while_a_condition_is_evaluated(
    with_short_limits: Callable[[Callable[[RawClient], Reply]], Reply], shelf: str
) -> None:
    body = {"operations": [SET], "condition": ENDLESS}
    reply = with_short_limits(lambda raw: raw.patch(f"{shelf}/docs/long", body, pk=PK))
    assert (reply.status, "take too long" in reply.json["message"]) == (400, True)


@pytest.mark.parametrize("atomic", [True, False])
def test_many_operations_share_the_time_of_a_request(
    with_short_limits: Callable[[Callable[[RawClient], Reply]], Reply], shelf: str, atomic: bool
) -> None:
    operations = [patch("long", SET, condition=ENDLESS)] * 100
    reply = with_short_limits(lambda raw: raw.batch(shelf, operations, atomic=atomic, pk=PK))
    statuses = codes(reply)
    if atomic:
        assert statuses == [400] + [424] * 99
    else:
        late = statuses.count(408)
        assert late >= 90
        assert statuses == [400] * (100 - late) + [408] * late
        assert "together" in json.dumps(reply.json[-1])


@pytest.mark.parametrize("atomic", [True, False])
def test_results_are_those_of_short_patches(raw: RawClient, shelf: str, atomic: bool) -> None:
    operations = [
        patch("long", {"op": "incr", "path": "/n", "value": 1}, condition=TRUE),
        create("other", a=[1, 2, 3]),
        patch("long", {"op": "add", "path": "/a/-", "value": 7}, condition=TRUE),
        patch("other", {"op": "remove", "path": "/a/0"}, condition=TRUE),
        patch("long", {"op": "incr", "path": "/n", "value": 1}, condition=TRUE),
    ]
    reply = raw.batch(shelf, operations, atomic=atomic, pk=PK)
    assert codes(reply) == [200, 201, 200, 200, 200]
    items = stored_items(raw, shelf)
    assert (items["long"]["n"], len(items["long"]["a"]), items["other"]["a"]) == (3, 2_001, [2, 3])
    assert reply.json[-1]["eTag"] == items["long"]["_etag"]
    refused = raw.batch(
        shelf, [create("new"), patch("long", SET, condition=FALSE)], atomic=atomic, pk=PK
    )
    assert codes(refused) == ([424, 412] if atomic else [201, 412])


def test_one_patch_costs_and_returns_the_same_wherever_it_is_evaluated(
    raw: RawClient, shelf: str
) -> None:
    for name in ("x", "y"):
        assert raw.post(f"{shelf}/docs", item(name, n=1, a=[1, 2, 3]), pk=PK).status == 201
    increase = [{"op": "incr", "path": "/n", "value": 1}]
    short = {"operations": increase, "condition": "from c where c.n = 1"}
    long = {"operations": increase, "condition": TRUE}
    here, there = (
        raw.patch(f"{shelf}/docs/{name}", body, pk=PK) for name, body in (("x", short), ("y", long))
    )
    assert here.status == there.status == 200
    assert here.headers["x-ms-request-charge"] == there.headers["x-ms-request-charge"]
    system = ("id", "_rid", "_self", "_etag", "_ts")
    assert [
        {k: v for k, v in reply.json.items() if k not in system} for reply in (here, there)
    ] == [{"pk": "a", "n": 2, "a": [1, 2, 3], "_attachments": "attachments/"}] * 2
    refused = raw.patch(f"{shelf}/docs/y", long | {"condition": FALSE}, pk=PK)
    assert refused.status == 412


@contextmanager
def _between(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[int], None]
) -> Iterator[list[PatchTask]]:
    """Calls `change` after each evaluation, before its outcome is used."""
    tasks: list[PatchTask] = []
    evaluate = patch_evaluator.PatchEvaluator._evaluate

    async def noted(self: Any, pending: Any, task: PatchTask) -> PatchOutcome:
        outcome = await evaluate(self, pending, task)
        tasks.append(task)
        await asyncio.to_thread(change, len(tasks))
        return outcome

    monkeypatch.setattr(patch_evaluator.PatchEvaluator, "_evaluate", noted)
    yield tasks


def test_a_change_in_between_is_seen(
    server: RunningServer, raw: RawClient, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The condition is evaluated again for the version that the patch would replace."""

    def replace_once(attempt: int) -> None:
        with server.connect() as other:
            if attempt == 1:
                body = item("long", n=10, a=[1, 2])
                assert other.put(f"{shelf}/docs/long", body, pk=PK).status == 200

    with _between(monkeypatch, replace_once) as tasks:
        body = {"operations": [SET], "condition": TRUE}
        assert raw.patch(f"{shelf}/docs/long", body, pk=PK).status == 412
    assert len(tasks) == 2
    assert stored_items(raw, shelf)["long"]["n"] == 10


def test_an_item_that_changes_all_the_time_is_a_449(
    server: RunningServer, raw: RawClient, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(attempt: int) -> None:
        with server.connect() as other:
            body = item("long", n=attempt, a=[1, 2, 3])
            assert other.put(f"{shelf}/docs/long", body, pk=PK).status == 200

    with _between(monkeypatch, replace) as tasks:
        body = {"operations": [SET], "condition": TRUE}
        assert raw.patch(f"{shelf}/docs/long", body, pk=PK).status == 449
    assert stored_items(raw, shelf)["long"]["n"] == len(tasks)


def test_the_rest_is_not_evaluated_when_the_client_has_left(
    server: RunningServer, raw: RawClient, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[None] = []
    has_stopped = threading.Event()
    prepare = patch_evaluator.PatchEvaluator._prepare

    async def noted(self: Any, pending: Any) -> None:
        started.append(None)
        try:
            await prepare(self, pending)
        except BaseException:
            if len(started) == 20:
                has_stopped.set()
            raise

    monkeypatch.setattr(patch_evaluator.PatchEvaluator, "_prepare", noted)
    evaluated: list[PatchTask] = []

    async def never(self: Any, pending: Any, task: PatchTask) -> PatchOutcome:
        """The client leaves when the first evaluation has begun."""
        evaluated.append(task)
        connection.shutdown(socket.SHUT_RDWR)
        await asyncio.sleep(TIME_LIMIT)
        raise AssertionError("the evaluation goes on")

    monkeypatch.setattr(patch_evaluator.PatchEvaluator, "_evaluate", never)
    with server.connect() as client:
        assert client.get("/").status == 200
        connection = client._connection.sock
        with pytest.raises((OSError, HTTPException)):
            client.batch(shelf, [patch("long", SET, condition=ENDLESS)] * 20, atomic=False, pk=PK)
    assert has_stopped.wait(TIME_LIMIT)
    assert len(evaluated) == 1
    assert stored_items(raw, shelf)["long"]["n"] == 1


@pytest.mark.parametrize("condition", [None, "from c where c.n = 1"])
def test_a_small_patch_of_a_large_item_is_not_evaluated_on_the_loop(
    raw: RawClient, shelf: str, condition: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    patched = patch_operations._patched

    def noted(*given: Any) -> Any:
        threads.add(threading.current_thread().name)
        return patched(*given)

    monkeypatch.setattr(patch_operations, "_patched", noted)
    large = item("large", n=1, a=["x" * 100] * 1_000)
    assert raw.post(f"{shelf}/docs", large, pk=PK).status == 201
    body = {"operations": [SET], "condition": condition}
    assert raw.patch(f"{shelf}/docs/large", body, pk=PK).status == 200
    assert [name.rpartition("_")[0] for name in threads] == ["perseid-large-items"]
