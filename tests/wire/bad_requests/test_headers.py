"""Headers that are too large, too many, or have wrong values."""

from __future__ import annotations

import pytest

from tests.support.raw import RawClient, Reply
from tests.support.sockets import PlainSocket
from tests.wire.bad_requests.refusals import PK, QUERY, answer, assert_refused, bad


@pytest.mark.parametrize("size", [64 * 1024 + 1, 100_000, 120_000])
def test_headers_above_64_kilobytes(raw: RawClient, size: int) -> None:
    reply = raw.request("GET", "/", headers={"x-big": "a" * size})
    assert_refused(reply, 431, "RequestHeaderFieldsTooLarge")
    assert raw.get("/").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {f"x-{n}": "a" * 1000 for n in range(80)},
        {f"x-{n}-{'a' * 1000}": "a" for n in range(80)},
    ],
    ids=["values", "names"],
)
def test_headers_above_64_kilobytes_together(raw: RawClient, headers: dict[str, str]) -> None:
    reply = raw.request("GET", "/", headers=headers)
    assert_refused(reply, 431, "RequestHeaderFieldsTooLarge")


def test_headers_just_below(raw: RawClient) -> None:
    assert raw.request("GET", "/", headers={"x-big": "a" * 60_000}).status == 200


def test_many_headers(raw: RawClient) -> None:
    headers = {f"x-{n}": str(n) for n in range(80)}
    assert raw.request("GET", "/", headers=headers).status == 200


@pytest.mark.parametrize("count", [200, 2000])
def test_too_many_headers(raw: RawClient, count: int) -> None:
    """More than a hundred are refused by the listener itself, which has no words for it."""
    headers = {f"x-{n}": str(n) for n in range(count)}
    assert raw.request("GET", "/", headers=headers).status == 431


ODD = ["\xe9", "\xff\xfe", "é".encode().decode("latin-1"), "漢".encode().decode("latin-1")]


@pytest.mark.parametrize("value", ODD)
def test_unused_headers_may_hold_any_bytes(raw: RawClient, value: str) -> None:
    for name in ("x-unknown", "user-agent", "x-ms-client-id", "x-ms-activity-id"):
        reply = raw.request("GET", "/", headers={name: value})
        assert reply.status == 200
        assert reply.headers["x-ms-activity-id"]


@pytest.mark.parametrize("value", ODD)
def test_bytes_beyond_ascii_are_not_overlooked(raw: RawClient, container: str, value: str) -> None:
    """A condition, position or scope that cannot be read is not the same as none."""
    for method, path, header, status in (
        ("GET", "/dbs", "x-ms-max-item-count", 400),
        ("GET", "/dbs", "x-ms-continuation", 400),
        ("GET", f"{container}/docs", "x-ms-continuation", 400),
        ("GET", f"{container}/docs", "x-ms-session-token", 400),
        ("GET", f"{container}/docs", "x-ms-consistency-level", 400),
        ("GET", f"{container}/docs", "x-ms-documentdb-partitionkey", 400),
        ("GET", f"{container}/docs", "x-ms-documentdb-partitionkeyrangeid", 410),
        ("GET", container, "x-ms-cosmos-priority-level", 400),
        ("GET", container, "x-ms-cosmos-intended-collection-rid", 400),
        ("DELETE", container, "if-match", 412),
    ):
        reply = raw.request(method, path, headers={header: value})
        assert reply.status in (status, 400), header
        assert reply.json["message"]
    assert raw.get(container).status == 200


def test_bytes_beyond_ascii_and_a_header_that_comes_twice(
    raw: RawClient, container: str, wire: PlainSocket
) -> None:
    wire.send(wire.request_head("DELETE", container, b"if-match: \xff", b"x-any: 1", b"x-any: 2"))
    assert "if-match" in assert_refused(answer(wire), 400, "BadRequest")
    assert raw.get(container).status == 200


@pytest.mark.parametrize(
    "count",
    ["x", "0", "-2", "-1.0", "1.5", "1e1", "1_0", "0x1", "", " ", "--1", "null", "9" * 5000],
)
def test_item_counts(raw: RawClient, container: str, count: str) -> None:
    database = container.removesuffix("/colls/c")
    for path in ("/dbs", f"{database}/colls", "/offers", f"{container}/docs"):
        assert "x-ms-max-item-count" in bad(raw.get(path, count=count)), path
        assert "x-ms-max-item-count" in bad(raw.query(path, "SELECT * FROM c", count=count)), path


READS = [
    ("GET", "/dbs"),
    ("GET", "{database}"),
    ("GET", "{database}/colls"),
    ("GET", "{database}/colls/c"),
    ("GET", "{database}/colls/c/pkranges"),
    ("GET", "{database}/colls/c/docs"),
    ("GET", "{database}/colls/c/docs/1"),
    ("QUERY", "{database}/colls/c/docs"),
]


def send_read(
    raw: RawClient, container: str, method: str, path: str, headers: dict[str, str]
) -> Reply:
    path = path.format(database=container.removesuffix("/colls/c"))
    if method == "QUERY":
        return raw.request("POST", path, {"query": "SELECT * FROM c"}, QUERY | headers)
    return raw.request("GET", path, headers=PK | headers)


@pytest.fixture
def container_with_item(raw: RawClient, container: str) -> str:
    """A container with one item."""
    assert raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]').status == 201
    return container


@pytest.fixture
def position(raw: RawClient, container_with_item: str) -> int:
    """How far the container's only range has come."""
    token = raw.get(f"{container_with_item}/docs/1", pk='["a"]').headers["x-ms-session-token"]
    return int(token.partition("#")[2])


@pytest.mark.parametrize(("method", "path"), READS)
def test_consistency_levels(
    raw: RawClient, container_with_item: str, method: str, path: str
) -> None:
    """The account's or a weaker one; a stronger one, or none at all, is refused."""
    name = "x-ms-consistency-level"
    for level in ("Session", "ConsistentPrefix", "Eventual", "session"):
        assert send_read(raw, container_with_item, method, path, {name: level}).status == 200
    for level in ("Strong", "BoundedStaleness", "strong", "Weak", "5", ""):
        bad(send_read(raw, container_with_item, method, path, {name: level}))


@pytest.mark.parametrize(("method", "path"), READS)
def test_priority_levels(raw: RawClient, container_with_item: str, method: str, path: str) -> None:
    name = "x-ms-cosmos-priority-level"
    for level in ("High", "Low"):
        assert send_read(raw, container_with_item, method, path, {name: level}).status == 200
    for level in ("Medium", "", "1", "HighLow"):
        bad(send_read(raw, container_with_item, method, path, {name: level}))


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "0",
        "0:",
        ":1#2",
        "0:-1#",
        "0:#1",
        "0:-1#x",
        "x:-1#1",
        "0:-1#1.5",
        "0:-1#-1",
        "0:-1#0x1",
        "0:-1#1#",
        "0:-1#1#2",
        "0:-1#1#2=x",
        "0:-1#0,",
        "0:-1#0,x",
        "0:-1#0;1:-1#0",
        "{}",
    ],
)
def test_session_tokens_that_are_none(raw: RawClient, container_with_item: str, token: str) -> None:
    for method, path in READS[-3:]:
        bad(send_read(raw, container_with_item, method, path, {"x-ms-session-token": token}))


@pytest.mark.parametrize(
    "token", ["0:-1#{next}", "0:-1#{now},0:-1#{next}", "0:5#{next}#1=9", "0:-1#99999999"]
)
def test_session_tokens_from_the_future(
    raw: RawClient, container_with_item: str, position: int, token: str
) -> None:
    headers = {"x-ms-session-token": token.format(now=position, next=position + 1)}
    for method, path in READS[-3:]:
        reply = send_read(raw, container_with_item, method, path, headers)
        message = assert_refused(reply, 404, "NotFound", 1002)
        text = "The read session is not available for the input session token."
        assert message.startswith(text)


def test_session_tokens_with_absurd_numbers(raw: RawClient, container_with_item: str) -> None:
    for token in (f"0:-1#{'9' * 30}", f"0:-1#{'9' * 5000}", f"{'9' * 5000}:-1#1"):
        for method, path in READS[-3:]:
            reply = send_read(raw, container_with_item, method, path, {"x-ms-session-token": token})
            assert reply.status in (400, 404)


@pytest.mark.parametrize(
    "token", ["", "0:-1#0", "0:-1#{now}", "0:-1#{now},0:-1#0", "0:-1#{now}#3=1"]
)
def test_session_tokens_of_the_past(
    raw: RawClient, container_with_item: str, position: int, token: str
) -> None:
    headers = {"x-ms-session-token": token.format(now=position)}
    for method, path in READS[-3:]:
        assert send_read(raw, container_with_item, method, path, headers).status == 200


def test_sessions_are_no_matter_of_metadata(raw: RawClient, container_with_item: str) -> None:
    for method, path in READS[:-3]:
        for token in ("x", "0:-1#999"):
            headers = {"x-ms-session-token": token}
            assert send_read(raw, container_with_item, method, path, headers).status == 200
