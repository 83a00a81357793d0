"""Requests that are refused leave nothing behind that only a garbage collection would free.

An error keeps the frames it passed through, and they keep the request. If one of them also keeps
the error, body and item stay in memory until a full garbage collection, which is rare.
"""

from __future__ import annotations

import gc
import json
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from tests.support.builders import create_container
from tests.support.operations import BROKEN, create, increase, item, patch, replace
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, Servers

PK: Final = '["a"]'
WRONG: Final = '"no such version"'
SET: Final = [{"op": "set", "path": "/n", "value": 2}]


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(no_sweeper=True)


@pytest.fixture
def shelf(raw: RawClient, database: str) -> str:
    """A container with the items `there` and `other`, which have a unique key."""
    path = create_container(raw, database, uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/email"]}]})
    for name in ("there", "other"):
        assert raw.post(f"{path}/docs", item(name, n=1, email=name), pk=PK).status == 201
    return path


@contextmanager
def without_garbage() -> Iterator[None]:
    """Fails if the block leaves objects of Perseid behind that refer to each other."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = sorted({text for found in gc.garbage if (text := _described(found))})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []


def _described(found: Any) -> str:
    if isinstance(found, types.FrameType):
        code = found.f_code
        return f"frame of {code.co_qualname}" if "perseid" in code.co_filename else ""
    kind = type(found)
    return kind.__qualname__ if kind.__module__.startswith("perseid.") else ""


def _import(raw: RawClient, path: str) -> Reply:
    """An import of an item that exists, and of lines that are no items."""
    admin = path.replace("/dbs/", "/_perseid/import/").replace("/colls/", "/")
    lines = json.dumps(item("there")).encode() + b"\n{}\n[]\n"
    return raw.request("POST", admin, lines, raw_path=f"{admin}?existing=fail")


REFUSED: Final[dict[str, tuple[int, Callable[[RawClient, str], Reply]]]] = {
    "create 409": (409, lambda raw, path: raw.post(f"{path}/docs", item("there"), pk=PK)),
    "create 400": (400, lambda raw, path: raw.post(f"{path}/docs", {"pk": "a"}, pk=PK)),
    "unique 409": (
        409,
        lambda raw, path: raw.post(f"{path}/docs", item("new", email="there"), pk=PK),
    ),
    "upsert 412": (
        412,
        lambda raw, path: raw.post(
            f"{path}/docs", item("there"), pk=PK, upsert="true", if_match=WRONG
        ),
    ),
    "replace 404": (404, lambda raw, path: raw.put(f"{path}/docs/none", item("none"), pk=PK)),
    "replace 412": (
        412,
        lambda raw, path: raw.put(f"{path}/docs/there", item("there"), pk=PK, if_match=WRONG),
    ),
    "patch 404": (404, lambda raw, path: raw.patch(f"{path}/docs/none", SET, pk=PK)),
    "patch 412": (
        412,
        lambda raw, path: raw.patch(f"{path}/docs/there", SET, pk=PK, if_match=WRONG),
    ),
    "condition 412": (
        412,
        lambda raw, path: raw.patch(
            f"{path}/docs/there", {"operations": SET, "condition": "from c where c.n > 7"}, pk=PK
        ),
    ),
    "patch 400": (
        400,
        lambda raw, path: raw.patch(f"{path}/docs/there", [{"op": "remove", "path": "/no"}], pk=PK),
    ),
    "delete 404": (404, lambda raw, path: raw.delete(f"{path}/docs/none", pk=PK)),
    "delete 412": (412, lambda raw, path: raw.delete(f"{path}/docs/there", pk=PK, if_match=WRONG)),
    "read 404": (404, lambda raw, path: raw.get(f"{path}/docs/none", pk=PK)),
    "not JSON": (400, lambda raw, path: raw.post(f"{path}/docs", b'{"id": ', pk=PK)),
    "no container": (404, lambda raw, path: raw.post(f"{path}x/docs", item("new"), pk=PK)),
    "import": (200, _import),
    "query 400": (400, lambda raw, path: raw.query(f"{path}/docs", "SELECT * FROM c WHERE", pk=PK)),
    "metadata": (409, lambda raw, path: raw.post("/dbs", {"id": path.split("/")[2]})),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_request_leaves_no_garbage(raw: RawClient, shelf: str, name: str) -> None:
    status, send = REFUSED[name]
    assert send(raw, shelf).status == status  # fills caches
    with without_garbage():
        for _ in range(3):
            send(raw, shelf)


@pytest.mark.parametrize("kind", ["atomic", "bulk", "stopping"])
def test_refused_operations_of_batches_leave_no_garbage(
    raw: RawClient, shelf: str, kind: str
) -> None:
    operations = [operation for operation, _, _ in BROKEN]
    operations += [replace("there") | {"ifMatch": WRONG}, create("x", email="other")]
    operations.append(patch("there", *SET, condition="from c where c.n > 7"))
    requests = [[operation] for operation in operations]
    requests += [[create("y"), operation] for operation in operations]
    requests.append([increase("there")] * 8 + [increase("missing")])  # decided in a thread
    headers = {"pk": PK, "x_ms_cosmos_batch_continue_on_error": str(kind == "bulk")}
    is_atomic = kind == "atomic"
    assert raw.batch(shelf, operations, atomic=is_atomic, **headers).status == 207
    with without_garbage():
        for request in requests:
            raw.batch(shelf, request, atomic=is_atomic, **headers)
