"""Large bodies of many small values: a worker process decodes them, with the same results.

Decoding holds the interpreter for tenths of a second, and no other request is served meanwhile.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any, Final

import pytest

from perseid import documents
from perseid.errors import TooManyRequests
from perseid.service.items import point_operations
from perseid.workers.pool import WorkerPool
from tests.support.builders import create_container
from tests.support.operations import item
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, Servers

PK: Final = '["a"]'
WRONG: Final = '"no such version"'
MANY: Final = [{"a": [1.5]}] * 8_000
OTHERS: Final = [{"a": [2.5]}] * 7_000
LONG: Final = "x" * 300_000
# Not compact, with a name that needs an escape, and a number that must keep its text.
TEXT: Final = (
    b' {"id": "large", "pk" : "a", "n": 1.0, "\\u0078": ' + json.dumps(MANY).encode() + b"}"
)
COMPACT: Final = TEXT.replace(b" ", b"")  # as every database keeps it
PATCH: Final = [
    {"op": "set", "path": "/x", "value": OTHERS},
    {"op": "add", "path": "/n", "value": 2},
]


def _operations(*, second: str = "other") -> list[dict[str, Any]]:
    return [
        {"operationType": "Upsert", "resourceBody": item("large", x=OTHERS)},
        {"operationType": "Create", "resourceBody": item(second, mail=second, x=MANY)},
        {"operationType": "Patch", "id": "large", "resourceBody": {"operations": PATCH}},
        {"operationType": "Patch", "id": "small", "resourceBody": {"operations": PATCH[1:]}},
        {"operationType": "Read", "id": "small"},
        {
            "operationType": "Replace",
            "id": second,
            "resourceBody": item(second, mail=second, x=OTHERS),
        },
        {"operationType": "Delete", "id": second},
    ]


def _import(raw: RawClient, path: str, options: str, *lines: bytes) -> Reply:
    admin = path.replace("/dbs/", "/_perseid/import/").replace("/colls/", "/")
    return raw.request("POST", admin, b"\n".join(lines), raw_path=f"{admin}?{options}")


LINES: Final = (
    TEXT,
    b'{"pk":"a","x":' + json.dumps(OTHERS).encode() + b"}",
    b'{"id":"new","pk":"a","_ts":7,"x":' + json.dumps(OTHERS).encode() + b"}",
    b'{"id":"odd","pk":"a","_ts":[7],"x":' + json.dumps(OTHERS).encode() + b"}",
)
Request = Callable[[RawClient, str], Reply]
REQUESTS: Final[dict[str, tuple[int, Request]]] = {
    "create": (201, lambda raw, path: raw.post(f"{path}/docs", item("new", x=MANY), pk=PK)),
    "create 400": (400, lambda raw, path: raw.post(f"{path}/docs", {"pk": "a", "x": MANY}, pk=PK)),
    "wrong key": (400, lambda raw, path: raw.post(f"{path}/docs", TEXT, pk='["b"]')),
    "not JSON": (400, lambda raw, path: raw.post(f"{path}/docs", TEXT[:-9], pk=PK)),
    "name twice": (400, lambda raw, path: raw.post(f"{path}/docs", TEXT[:-1] + b',"n":1}', pk=PK)),
    "too deep": (
        400,
        lambda raw, path: raw.post(
            f"{path}/docs", TEXT[:-1] + b',"y":' + b"[" * 200 + b"]" * 200 + b"}", pk=PK
        ),
    ),
    "create 409": (409, lambda raw, path: raw.post(f"{path}/docs", TEXT, pk=PK)),
    "upsert": (200, lambda raw, path: raw.post(f"{path}/docs", TEXT, pk=PK, upsert="true")),
    "upsert smaller": (
        200,
        lambda raw, path: raw.post(f"{path}/docs", item("large", x=1), pk=PK, upsert="true"),
    ),
    "unique 409": (
        409,
        lambda raw, path: raw.post(f"{path}/docs", item("new", x=MANY, mail="small"), pk=PK),
    ),
    "replace": (
        200,
        lambda raw, path: raw.put(f"{path}/docs/large", item("large", x=OTHERS, ttl=9), pk=PK),
    ),
    "replace 412": (
        412,
        lambda raw, path: raw.put(f"{path}/docs/large", TEXT, pk=PK, if_match=WRONG),
    ),
    "not indexed": (
        200,
        lambda raw, path: raw.put(
            f"{path}/docs/large", TEXT, pk=PK, x_ms_indexing_directive="Exclude"
        ),
    ),
    "patch": (200, lambda raw, path: raw.patch(f"{path}/docs/large", PATCH, pk=PK)),
    "patch 400": (400, lambda raw, path: raw.patch(f"{path}/docs/large", PATCH * 9, pk=PK)),
    "small patch": (200, lambda raw, path: raw.patch(f"{path}/docs/large", PATCH[1:], pk=PK)),
    "batch": (200, lambda raw, path: raw.batch(path, _operations(), atomic=True, pk=PK)),
    "batch 409": (
        207,
        lambda raw, path: raw.batch(path, _operations(second="small"), atomic=True, pk=PK),
    ),
    "bulk": (
        207,
        lambda raw, path: raw.batch(path, [*_operations(), {}], atomic=False, pk=PK),
    ),
    "import": (200, lambda raw, path: _import(raw, path, "existing=fail", *LINES)),
    "keeping": (200, lambda raw, path: _import(raw, path, "lifetimes=keep", *LINES)),
}  # fmt: skip


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(no_sweeper=True)


def _shelf(raw: RawClient, database: str) -> str:
    """A container with the items `large` and `small`."""
    path = create_container(raw, database, uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/mail"]}]})
    for body in (item("large", n=1, x=OTHERS + MANY, mail=1), item("small", n=1, mail="small")):
        assert raw.post(f"{path}/docs", body, pk=PK).status == 201
    return path


@pytest.fixture
def shelf(raw: RawClient, database: str) -> str:
    return _shelf(raw, database)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what this process decodes while it checks or compares items."""
    sizes: list[int] = []
    parse_json, exact, old = documents.parse_json, documents.exact, point_operations._old_document

    def noted(raw: bytes, **options: Any) -> Any:
        sizes.append(len(raw))
        return parse_json(raw, **options)

    def noted_exact(text: bytes) -> Any:
        sizes.append(len(text))
        return exact(text)

    def noted_old(row: Any) -> Any:
        sizes.append(len(row.body))
        return old(row)

    monkeypatch.setattr(documents, "parse_json", noted)
    monkeypatch.setattr(documents, "exact", noted_exact)
    monkeypatch.setattr(point_operations, "_old_document", noted_old)
    return sizes


def _comparable(reply: Reply) -> Any:
    """Status, charge, and the body without what differs between two databases."""
    body = reply.json
    for entry in body if isinstance(body, list) else [body]:
        entry.pop("eTag", None)
        for value in (entry, entry.get("resourceBody") or {}):
            for name in ("_rid", "_self", "_etag", "_ts"):
                value.pop(name, None)
        if "message" in entry:
            entry["message"] = entry["message"].partition("ActivityId")[0]
    return reply.status, reply.headers.get("x-ms-request-charge"), body


@pytest.mark.parametrize("name", REQUESTS)
def test_it_is_decoded_elsewhere_with_the_same_result(
    servers: Servers, raw: RawClient, shelf: str, name: str, decoded: list[int]
) -> None:
    status, send = REQUESTS[name]
    decoded.clear()
    there = send(raw, shelf)
    assert there.status == status, there.body[:500]
    assert max(decoded, default=0) < 32 * 1024
    with servers(no_sweeper=True, query_workers=0).connect() as other:
        assert other.post("/dbs", {"id": f"many-{name}"}).status == 201
        here = send(other, _shelf(other, f"/dbs/many-{name}"))
        other.delete(f"/dbs/many-{name}")
    assert max(decoded) > 32 * 1024
    assert _comparable(there) == _comparable(here)


def test_the_text_of_the_item_is_kept(raw: RawClient, shelf: str) -> None:
    assert raw.post(f"{shelf}/docs", COMPACT, pk=PK, upsert="true").status == 200
    stored = raw.get(f"{shelf}/docs/large", pk=PK).body
    assert stored.startswith(COMPACT[:-1] + b',"_rid"')


def test_a_long_string_stays_in_the_process(
    raw: RawClient, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is decoded in about a millisecond, and a worker would have to start."""

    async def call(*_: Any, **__: Any) -> Any:
        pytest.fail("a worker was called")

    monkeypatch.setattr(WorkerPool, "call", call)
    for status in (201, 200):
        reply = raw.post(f"{shelf}/docs", item("new", x=LONG), pk=PK, upsert="true")
        assert reply.status == status


def test_an_item_that_cannot_be_compared_is_charged_in_full(
    raw: RawClient, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written already, so an error would be wrong."""
    call = WorkerPool.call

    async def refuse(self: WorkerPool, work: Any, *arguments: Any, **options: Any) -> Any:
        if work is point_operations._count_changes:
            raise TooManyRequests("Too many requests are waiting.")
        return await call(self, work, *arguments, **options)

    def send() -> Reply:
        return raw.put(f"{shelf}/docs/large", item("large", x=OTHERS), pk=PK)

    assert send().status == 200
    exact = send()
    raw.put(f"{shelf}/docs/large", item("large", x=MANY), pk=PK)
    monkeypatch.setattr(WorkerPool, "call", refuse)
    reply = send()
    assert reply.status == 200
    charge = "x-ms-request-charge"
    assert float(reply.headers[charge]) > float(exact.headers[charge])


def test_a_renewed_item_is_not_compared(
    raw: RawClient, shelf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert raw.put(f"{shelf}/docs/large", COMPACT, pk=PK).status == 200
    calls: list[Any] = []
    call = WorkerPool.call

    async def noted(self: WorkerPool, work: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(work)
        return await call(self, work, *arguments, **options)

    monkeypatch.setattr(WorkerPool, "call", noted)
    assert raw.put(f"{shelf}/docs/large", COMPACT, pk=PK).status == 200
    assert calls == [point_operations.check_body]


@pytest.mark.parametrize(
    ("text", "is_many"),
    [
        (b'"' + b"x" * 2_000_000 + b'"', False),
        (b"[" + b"1," * 15_000 + b"1]", False),
        (b"[" + b"1," * 25_000 + b"1]", True),
        (b'["' + b"\\u003a" * 25_000 + b'"]', True),
        (b"[" * 25_000, True),
    ],
    ids=["string", "some", "many", "escapes", "brackets"],
)
def test_what_counts_as_many_values(text: bytes, is_many: bool) -> None:
    assert documents.has_many_values(text) is is_many
    assert documents.has_many_values(text[:5000], text[5000:]) is is_many


def test_a_document_is_sent_without_its_value() -> None:
    document = documents.parse(TEXT)
    sent = pickle.dumps(document)
    assert len(sent) < len(document.text) + 200
    assert pickle.loads(sent).value == document.value
