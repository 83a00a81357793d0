"""If-Match and If-None-Match on items."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply

KEY = '["a"]'
BODY = b'{"id":"1","pk":"a","v":2}'
FAILED = "Operation cannot be performed because one of the specified precondition is not met."


def write_item(raw: RawClient, container: str, operation: str, **headers: str) -> Reply:
    """A write of the item `1`."""
    docs = f"{container}/docs"
    if operation == "replace":
        return raw.put(f"{docs}/1", BODY, pk=KEY, **headers)
    if operation == "delete":
        return raw.delete(f"{docs}/1", pk=KEY, **headers)
    return raw.post(docs, BODY, pk=KEY, upsert=str(operation == "upsert"), **headers)


def read_item(raw: RawClient, container: str, **headers: str) -> Reply:
    return raw.get(f"{container}/docs/1", pk=KEY, **headers)


# The etags a client may send, given the item's first and present one.
ETAGS: dict[str, Callable[[str, str], str]] = {
    "current": lambda old, now: now,
    "unquoted": lambda old, now: now.strip('"'),
    "old": lambda old, now: old,
    "old unquoted": lambda old, now: old.strip('"'),
    "other": lambda old, now: '"00000000-0000-0000-0000-000000000000"',
    "text": lambda old, now: "x",
    "prefix": lambda old, now: now[:-2] + '"',
    "star": lambda old, now: "*",
}


@pytest.fixture
def etags(raw: RawClient, container: str) -> tuple[str, str]:
    """The first and the present etag of the item `1`, which was written twice."""
    first = raw.post(f"{container}/docs", b'{"id":"1","pk":"a","v":0}', pk=KEY)
    second = raw.put(f"{container}/docs/1", b'{"id":"1","pk":"a","v":1}', pk=KEY)
    assert (first.status, second.status) == (201, 200)
    return first.headers["etag"], second.headers["etag"]


# If-Match ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "done"), [("replace", 200), ("upsert", 200), ("delete", 204)]
)
@pytest.mark.parametrize(
    ("etag", "is_met"),
    [
        ("current", True), ("unquoted", True), ("star", True),
        ("old", False), ("old unquoted", False), ("other", False), ("text", False),
        ("prefix", False),
    ],
)  # fmt: skip
def test_if_match(
    raw: RawClient,
    container: str,
    etags: tuple[str, str],
    operation: str,
    done: int,
    etag: str,
    is_met: bool,
) -> None:
    before = read_item(raw, container)
    reply = write_item(raw, container, operation, if_match=ETAGS[etag](*etags))
    after = read_item(raw, container)
    if is_met:
        assert reply.status == done
        assert after.status == 404 if operation == "delete" else after.json["v"] == 2
    else:
        assert (reply.status, reply.sub_status) == (412, 0)
        assert reply.json["code"] == "PreconditionFailed"
        assert reply.json["message"].startswith(FAILED)
        assert float(reply.headers["x-ms-request-charge"]) == 1.24
        assert (after.body, after.headers["lsn"]) == (before.body, before.headers["lsn"])


@pytest.mark.parametrize("operation", ["replace", "upsert", "delete"])
def test_an_unreadable_if_match_is_not_ignored(
    raw: RawClient, container: str, etags: tuple[str, str], operation: str
) -> None:
    """Bytes that are no ASCII cannot be an etag; the write they guard must not happen."""
    before = read_item(raw, container)
    assert write_item(raw, container, operation, if_match='"é"').status in (400, 412)
    assert read_item(raw, container).body == before.body


@pytest.mark.parametrize("value", ["*", '"00000000-0000-0000-0000-000000000000"', "x"])
@pytest.mark.parametrize(
    ("operation", "status"), [("replace", 404), ("delete", 404), ("upsert", 201)]
)
def test_if_match_on_a_missing_item(
    raw: RawClient, container: str, value: str, operation: str, status: int
) -> None:
    """404 comes before 412; an upsert has nothing to compare and inserts."""
    reply = write_item(raw, container, operation, if_match=value)
    assert reply.status == status
    assert read_item(raw, container).status == (200 if status == 201 else 404)


@pytest.mark.parametrize("operation", ["replace", "delete", "upsert"])
def test_if_match_on_an_expired_item(
    raw: RawClient, database: str, clock: MovableClock, operation: str
) -> None:
    """An expired item is a missing item."""
    definition = {
        "id": "t",
        "partitionKey": PARTITION_KEY,
        "defaultTtl": 10,
    }
    assert raw.post(f"{database}/colls", definition).status == 201
    created = write_item(raw, f"{database}/colls/t", "create")
    clock.advance(10)
    reply = write_item(raw, f"{database}/colls/t", operation, if_match=created.headers["etag"])
    assert reply.status == (201 if operation == "upsert" else 404)


def test_if_match_guards_a_rename(raw: RawClient, container: str, etags: tuple[str, str]) -> None:
    old, now = etags
    renamed = b'{"id":"2","pk":"a"}'
    assert raw.put(f"{container}/docs/1", renamed, pk=KEY, if_match=old).status == 412
    assert raw.put(f"{container}/docs/1", renamed, pk=KEY, if_match=now).status == 200


def test_one_of_many_writers_wins(raw: RawClient, container: str, etags: tuple[str, str]) -> None:
    def replace(number: int) -> int:
        with closing(RawClient(raw.endpoint, raw.key)) as client:
            body = {"id": "1", "pk": "a", "v": number}
            return client.put(f"{container}/docs/1", body, pk=KEY, if_match=etags[1]).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(replace, range(8)))
    assert sorted(statuses) == [200] + [412] * 7
    assert read_item(raw, container).json["v"] == statuses.index(200)


# If-None-Match ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("etag", "status"),
    [
        ("current", 304), ("unquoted", 304), ("star", 304),
        ("old", 200), ("other", 200), ("text", 200), ("prefix", 200),
    ],
)  # fmt: skip
def test_if_none_match_on_read(
    raw: RawClient, container: str, etags: tuple[str, str], etag: str, status: int
) -> None:
    whole = read_item(raw, container)
    reply = read_item(raw, container, if_none_match=ETAGS[etag](*etags))
    assert reply.status == status
    assert reply.headers["etag"] == etags[1]
    assert reply.body == (b"" if status == 304 else whole.body)
    assert reply.headers["x-ms-session-token"] == whole.headers["x-ms-session-token"]
    assert float(reply.headers["x-ms-request-charge"]) == 1


@pytest.mark.parametrize("value", ["*", '"x"'])
def test_if_none_match_on_a_missing_item(raw: RawClient, container: str, value: str) -> None:
    reply = read_item(raw, container, if_none_match=value)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")


@pytest.mark.parametrize(("operation", "status"), [("replace", 200), ("delete", 204)])
@pytest.mark.parametrize("etag", ["current", "old", "other", "text"])
def test_if_none_match_does_not_hinder(
    raw: RawClient,
    container: str,
    etags: tuple[str, str],
    operation: str,
    status: int,
    etag: str,
) -> None:
    assert write_item(raw, container, operation, if_none_match=ETAGS[etag](*etags)).status == status


@pytest.mark.parametrize("etag", ["current", "old", "other", "star"])
def test_create_over_an_existing_item_conflicts(
    raw: RawClient, container: str, etags: tuple[str, str], etag: str
) -> None:
    reply = write_item(raw, container, "create", if_none_match=ETAGS[etag](*etags))
    assert (reply.status, reply.json["code"]) == (409, "Conflict")


def test_upsert_only_if_there_is_nothing(
    raw: RawClient, container: str, etags: tuple[str, str]
) -> None:
    before = read_item(raw, container)
    assert write_item(raw, container, "upsert", if_none_match="*").status in (409, 412)
    assert read_item(raw, container).body == before.body


@pytest.mark.parametrize("operation", ["create", "upsert"])
def test_insert_if_there_is_nothing(raw: RawClient, container: str, operation: str) -> None:
    assert write_item(raw, container, operation, if_none_match="*").status == 201
