"""Headers of item answers: charges, session tokens and LSNs, paths, ids of activities."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.builders import PARTITION_KEY, create_container, temporary_database
from tests.support.raw import RawClient, Reply
from tests.support.replies import charge
from tests.support.servers import Servers

KEY = '["a"]'
PK = "x-ms-documentdb-partitionkey"
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# The cost model, written down once more: KB, read, write.
ANCHORS = [
    (1, 1.00, 5.00), (2, 1.04, 6.29), (4, 1.14, 6.67), (8, 1.33, 7.04), (16, 1.67, 9.52),
    (32, 2.19, 11.23), (64, 4.76, 22.67), (100, 9.90, 48.00), (128, 9.95, 48.19),
    (256, 20.28, 98.29), (512, 40.95, 184.57), (1024, 145.90, 625.00), (2048, 291.80, 1250.00),
]  # fmt: skip


def cost(size: int, column: int) -> float:
    """R(s) or W(s): straight lines between the anchors."""
    kilobytes = max(1.0, size / 1024)
    for low, high in pairwise(ANCHORS):
        if kilobytes <= high[0]:
            share = (kilobytes - low[0]) / (high[0] - low[0])
            return low[column] + share * (high[column] - low[column])
    raise AssertionError("larger than any item")


def read_cost(size: int) -> float:
    return round(cost(size, 1), 2)


def write_cost(*sizes: int, terms: int = 0, unique_keys: int = 0) -> float:
    return round(sum(cost(size, 2) for size in sizes) + 0.2 * terms + 0.2 * unique_keys, 2)


def create_item_of_size(raw: RawClient, docs: str, size: int, item_id: str = "1") -> Reply:
    """Creates an item that is stored in exactly `size` bytes; it has two index terms."""
    empty = raw.post(docs, compact(item_id, ""), pk=KEY)
    assert raw.delete(f"{docs}/{item_id}", pk=KEY).status == 204
    reply = raw.post(docs, compact(item_id, "x" * (size - len(empty.body))), pk=KEY)
    assert (reply.status, len(reply.body)) == (201, size)
    return reply


def compact(item_id: str, text: str) -> bytes:
    return f'{{"id":"{item_id}","pk":"a","text":"{text}"}}'.encode()


def make_container(raw: RawClient, database: str, **properties: Any) -> str:
    headers = {"throughput": properties.pop("throughput", "400")}
    return create_container(raw, database, "h", headers=headers, **properties)


# Charges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "read", "write"),
    [(kilobytes * 1024, read, write) for kilobytes, read, write in ANCHORS[:-1]]
    + [(300, 1.0, 5.0), (1023, 1.0, 5.0)],
)
def test_charges_at_the_anchors(
    raw: RawClient, container: str, size: int, read: float, write: float
) -> None:
    docs = f"{container}/docs"
    assert charge(create_item_of_size(raw, docs, size)) == round(write + 0.4, 2)
    assert charge(raw.get(f"{docs}/1", pk=KEY)) == read
    assert charge(raw.get(docs)) == read
    assert charge(raw.delete(f"{docs}/1", pk=KEY)) == round(write + 0.4, 2)


@pytest.mark.parametrize(
    "size",
    [1025, 1100, 1536, 3000, 5000, 9963, 20_000, 50_000, 81_234, 102_401, 200_000, 1_234_567],
)
def test_charges_between_the_anchors(raw: RawClient, container: str, size: int) -> None:
    docs = f"{container}/docs"
    assert charge(create_item_of_size(raw, docs, size)) == write_cost(size, terms=2)
    assert charge(raw.get(f"{docs}/1", pk=KEY)) == read_cost(size)
    assert charge(raw.get(docs)) == read_cost(size)
    again = raw.put(f"{docs}/1", raw.get(f"{docs}/1", pk=KEY).body, pk=KEY)
    assert charge(again) == write_cost(size, size)
    assert charge(raw.delete(f"{docs}/1", pk=KEY)) == write_cost(size, terms=2)


@pytest.mark.parametrize(
    ("members", "terms"),
    [
        ("", 1),  # the partition key
        ('"a":1', 2),
        ('"a":null,"b":true', 3),
        ('"a":[1,2,3]', 4),
        ('"a":{"b":{"c":1,"d":2}}', 3),
        ('"a":[],"b":{}', 1),
        ('"a":[{"b":1},{"b":2,"c":[3]}]', 4),
        ('"t1":1,"t2":1,"t3":1,"t4":1,"t5":1,"t6":1,"t7":1,"t8":1,"t9":1', 10),
        ('"_rid":"x","_etag":"y","_ts":1', 1),  # replaced by the server's, which cost nothing
    ],
)
def test_charge_counts_index_terms(
    raw: RawClient, container: str, members: str, terms: int
) -> None:
    docs = f"{container}/docs"
    body = f'{{"id":"1","pk":"a"{"," if members else ""}{members}}}'.encode()
    assert charge(raw.post(docs, body, pk=KEY)) == write_cost(1024, terms=terms)
    assert charge(raw.delete(f"{docs}/1", pk=KEY)) == write_cost(1024, terms=terms)


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ('"v":1', '"v":1', 0),
        ('"v":1', '"v":1.0', 0),
        ('"v":1', '"v":2', 2),
        ('"v":1', '"v":"1"', 2),
        ('"v":1', '"v":true', 2),
        ('"v":1', '"w":1', 2),
        ('"v":1', "", 1),
        ("", '"v":1', 1),
        ('"v":1,"w":2', '"w":2,"v":1', 0),
        ('"v":{"a":1,"b":2}', '"v":{"a":1,"b":3}', 2),
        ('"v":[1,2]', '"v":[2,1]', 0),
        ('"v":[1,2]', '"v":[1,2,3]', 1),
    ],
)
@pytest.mark.parametrize("operation", ["replace", "upsert"])
def test_charge_of_an_update(
    raw: RawClient, container: str, old: str, new: str, changed: int, operation: str
) -> None:
    """Old and new size, and each index term that leaves or comes."""
    docs = f"{container}/docs"
    first, second = (
        f'{{"id":"1","pk":"a"{"," if members else ""}{members}}}'.encode() for members in (old, new)
    )
    raw.post(docs, first, pk=KEY)
    if operation == "replace":
        reply = raw.put(f"{docs}/1", second, pk=KEY)
    else:
        reply = raw.post(docs, second, pk=KEY, upsert="true")
    assert reply.status == 200
    assert charge(reply) == write_cost(1024, 1024, terms=changed)


def test_charge_of_an_update_has_both_sizes(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    create_item_of_size(raw, docs, 40_000)
    small = compact("1", "x")
    assert charge(raw.put(f"{docs}/1", small, pk=KEY)) == write_cost(40_000, 1024, terms=2)
    large = raw.put(f"{docs}/1", compact("1", "y" * 5000), pk=KEY)
    assert charge(large) == write_cost(1024, len(large.body), terms=2)


def test_charge_of_an_upsert_that_inserts(raw: RawClient, container: str) -> None:
    reply = raw.post(f"{container}/docs", compact("1", ""), pk=KEY, upsert="true")
    assert (reply.status, charge(reply)) == (201, 5.4)


@pytest.mark.parametrize(
    ("policy", "terms"),
    [
        ({"indexingMode": "none", "automatic": False}, 0),
        ({"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/text/?"}]}, 1),
        ({"includedPaths": [{"path": "/text/?"}], "excludedPaths": [{"path": "/*"}]}, 1),
        ({"includedPaths": [], "excludedPaths": [{"path": "/*"}]}, 0),
    ],
)
def test_charge_follows_the_indexing_policy(
    raw: RawClient, database: str, policy: dict[str, Any], terms: int
) -> None:
    docs = f"{make_container(raw, database, indexingPolicy=policy)}/docs"
    assert charge(raw.post(docs, compact("1", ""), pk=KEY)) == write_cost(1024, terms=terms)
    assert charge(raw.delete(f"{docs}/1", pk=KEY)) == write_cost(1024, terms=terms)


def test_charge_of_unique_keys(raw: RawClient, database: str) -> None:
    policy = {"uniqueKeys": [{"paths": ["/e"]}, {"paths": ["/f", "/g"]}]}
    docs = f"{make_container(raw, database, uniqueKeyPolicy=policy)}/docs"
    made = raw.post(docs, compact("1", ""), pk=KEY)
    assert charge(made) == write_cost(1024, terms=2, unique_keys=2)
    assert charge(raw.put(f"{docs}/1", compact("1", ""), pk=KEY)) == write_cost(1024, 1024)
    assert charge(raw.delete(f"{docs}/1", pk=KEY)) == write_cost(1024, terms=2)


def test_escapes_and_spaces_cost_nothing(raw: RawClient, container: str) -> None:
    """ASCII-escaped and compact UTF-8 bodies are treated equally."""
    docs = f"{container}/docs"
    for item_id, body in (
        ("1", compact("1", "é" * 2000)),
        ("2", compact("2", "\\u00e9" * 2000)),
        ("3", compact("3", "é" * 2000).replace(b",", b" ,\n" + b" " * 3000)),
    ):
        reply = raw.post(docs, body, pk=KEY)
        size = len(raw.get(f"{docs}/1", pk=KEY).body)
        assert charge(reply) == write_cost(size, terms=2)
        assert charge(raw.get(f"{docs}/{item_id}", pk=KEY)) == read_cost(size)


def test_charge_of_failures(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    made = raw.post(docs, compact("1", ""), pk=KEY)
    for status, expected, reply in (
        (404, 1.0, raw.get(f"{docs}/none", pk=KEY)),
        (404, 1.0, raw.put(f"{docs}/none", compact("none", ""), pk=KEY)),
        (404, 1.0, raw.delete(f"{docs}/none", pk=KEY)),
        (304, 1.0, raw.get(f"{docs}/1", pk=KEY, if_none_match=made.headers["etag"])),
        (409, 1.24, raw.post(docs, compact("1", ""), pk=KEY)),
        (412, 1.24, raw.put(f"{docs}/1", compact("1", ""), pk=KEY, if_match="x")),
        (412, 1.24, raw.delete(f"{docs}/1", pk=KEY, if_match="x")),
        (400, 1.24, raw.post(docs, b"{", pk=KEY)),
        (400, 1.24, raw.post(docs, b'{"pk":"a"}', pk=KEY)),
        (400, 1.24, raw.post(docs, compact("2", ""), pk='["b"]')),
        (400, 1.24, raw.get(f"{docs}/1")),
    ):
        assert (reply.status, charge(reply)) == (status, expected)


def test_charge_of_pages(raw: RawClient, container: str) -> None:
    """What reading each returned item would cost, and never less than one."""
    docs = f"{container}/docs"
    assert charge(raw.get(docs)) == 1.0
    sizes = [1024, 5000, 20_000, 1024, 300]
    for number, size in enumerate(sizes):
        create_item_of_size(raw, docs, size, str(number))
    assert charge(raw.get(docs)) == round(sum(cost(size, 1) for size in sizes), 2)
    assert charge(raw.get(docs, count="2")) == round(cost(1024, 1) + cost(5000, 1), 2)
    assert charge(raw.get(docs, pk='["none"]')) == 1.0


@pytest.fixture(scope="module", params=["Strong", "BoundedStaleness", "Eventual"])
def level(servers: Servers, request: pytest.FixtureRequest) -> Iterator[tuple[str, RawClient]]:
    """An account whose default is another consistency level, with the item `1`."""
    consistency: str = request.param
    with servers(consistency=consistency).connect() as client, temporary_database(client, "d"):
        client.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
        assert client.post("/dbs/d/colls/c/docs", compact("1", ""), pk=KEY).status == 201
        yield consistency, client


LEVELS = ["Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"]


@pytest.mark.parametrize("asked", [None, *LEVELS])
def test_consistency_doubles_reads(level: tuple[str, RawClient], asked: str | None) -> None:
    """A request may weaken the account's level; the two strongest cost twice."""
    default, client = level
    headers = {} if asked is None else {"x_ms_consistency_level": asked}
    docs = "/dbs/d/colls/c/docs"
    point, feed = client.get(f"{docs}/1", pk=KEY, **headers), client.get(docs, **headers)
    if asked is not None and LEVELS.index(asked) < LEVELS.index(default):
        for reply in (point, feed):
            assert (reply.status, reply.json["code"]) == (400, "BadRequest")
        return
    factor = 2 if (asked or default) in ("Strong", "BoundedStaleness") else 1
    assert (point.status, charge(point)) == (200, factor)
    assert (feed.status, charge(feed)) == (200, factor)


def test_consistency_leaves_writes_alone(level: tuple[str, RawClient]) -> None:
    _, client = level
    docs = "/dbs/d/colls/c/docs"
    assert charge(client.post(docs, compact("2", ""), pk=KEY)) == 5.4
    assert charge(client.put(f"{docs}/2", compact("2", ""), pk=KEY)) == 10
    assert charge(client.delete(f"{docs}/2", pk=KEY)) == 5.4


@pytest.mark.parametrize("value", ["Stronger", "1", ""])
def test_unknown_consistency_level(raw: RawClient, container: str, value: str) -> None:
    reply = raw.get(f"{container}/docs/1", pk=KEY, x_ms_consistency_level=value)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


# Session tokens and LSNs ------------------------------------------------------------------------


def positions(raw: RawClient, container: str) -> list[int]:
    """The LSN of each range; a new container need not begin at zero."""
    token = raw.get(container).headers["x-ms-session-token"]
    return [int(part.partition("#")[2]) for part in token.split(",")]


def check_lsn(reply: Reply, lsn: int) -> None:
    assert reply.headers["x-ms-session-token"] == f"0:-1#{lsn}"
    assert reply.headers["lsn"] == str(lsn)


def test_lsn_rises_by_one_with_each_write(raw: RawClient, container: str) -> None:
    """And stays where it is while there are only reads."""
    docs = f"{container}/docs"
    (start,) = positions(raw, container)
    writes: list[Callable[[], Reply]] = [
        lambda: raw.post(docs, compact("1", ""), pk=KEY),
        lambda: raw.post(docs, compact("2", ""), pk=KEY),
        lambda: raw.put(f"{docs}/1", compact("1", ""), pk=KEY),
        lambda: raw.post(docs, compact("1", ""), pk=KEY, upsert="true"),
        lambda: raw.post(docs, compact("3", ""), pk=KEY, upsert="true"),
        lambda: raw.put(f"{docs}/3", compact("4", ""), pk=KEY),
        lambda: raw.delete(f"{docs}/4", pk=KEY),
        lambda: raw.post(docs, b'{"id":"1","pk":"b"}', pk='["b"]'),
    ]
    for lsn, write in enumerate(writes, start + 1):
        reply = write()
        assert reply.status < 300
        check_lsn(reply, lsn)
        for read in (
            raw.get(f"{docs}/1", pk=KEY),
            raw.get(docs),
            raw.get(docs, pk=KEY),
            raw.get(f"{docs}/1", pk=KEY, if_none_match="*"),
        ):
            check_lsn(read, lsn)


def test_failed_writes_move_no_lsn(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    raw.post(docs, compact("1", ""), pk=KEY)
    (start,) = positions(raw, container)
    for reply in (
        raw.post(docs, compact("1", ""), pk=KEY),
        raw.put(f"{docs}/none", compact("none", ""), pk=KEY),
        raw.put(f"{docs}/1", compact("1", ""), pk=KEY, if_match="x"),
        raw.delete(f"{docs}/none", pk=KEY),
        raw.post(docs, b"{", pk=KEY),
    ):
        assert reply.status >= 400
    check_lsn(raw.get(f"{docs}/1", pk=KEY), start)


def test_item_lsn_is_of_its_last_write(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    first = raw.post(docs, compact("1", ""), pk=KEY)
    second = raw.post(docs, compact("2", ""), pk=KEY)
    third = raw.put(f"{docs}/1", compact("1", ""), pk=KEY)
    replies = [first, second, third, raw.get(f"{docs}/1", pk=KEY), raw.get(f"{docs}/2", pk=KEY)]
    found = [reply.headers["x-ms-item-lsn"] for reply in replies]
    assert found == [reply.headers["lsn"] for reply in (first, second, third, third, second)]


def test_each_range_counts_alone(raw: RawClient, database: str) -> None:
    container = make_container(raw, database, throughput="11000")
    docs = f"{container}/docs"
    zero, one = positions(raw, container)
    # "redmond" hashes into range 1, "partitionKey" into range 0
    tokens = [
        raw.post(docs, {"id": str(number), "pk": pk}, pk=json.dumps([pk])).headers[
            "x-ms-session-token"
        ]
        for number, pk in enumerate(["redmond", "partitionKey", "redmond", "redmond"])
    ]
    assert tokens == [f"1:-1#{one + 1}", f"0:-1#{zero + 1}", f"1:-1#{one + 2}", f"1:-1#{one + 3}"]
    read = raw.get(f"{docs}/1", pk='["partitionKey"]')
    assert read.headers["x-ms-session-token"] == f"0:-1#{zero + 1}"


@pytest.mark.parametrize(
    "token",
    ["0:-1#0", "0:-1#{before}", "0:-1#{now}", "0:1#{now}", "0:-1#{now}#1={now}",
     "0:-1#{now}#1=-1#2=5", "-1#{now}", "0:-1#{now},0:-1#{before}"],
)  # fmt: skip
def test_token_of_the_past_or_present(raw: RawClient, container: str, token: str) -> None:
    docs = f"{container}/docs"
    for number in "12":
        raw.post(docs, compact(number, ""), pk=KEY)
    (now,) = positions(raw, container)
    token = token.format(now=now, before=now - 1)
    assert raw.get(f"{docs}/1", pk=KEY, session=token).status == 200
    assert raw.get(docs, session=token).status == 200
    assert raw.get(f"{docs}/1", pk=KEY, session=token, if_none_match="*").status == 304


@pytest.mark.parametrize(
    "token", ["0:-1#{next}", "0:-1#{far}", "0:-1#{next}#1={next}", "0:-1#{now},0:-1#{next}"]
)
def test_token_of_the_future(raw: RawClient, container: str, token: str) -> None:
    docs = f"{container}/docs"
    for number in "12":
        raw.post(docs, compact(number, ""), pk=KEY)
    (now,) = positions(raw, container)
    token = token.format(now=now, next=now + 1, far=now + 1_000_000)
    for reply in (
        raw.get(f"{docs}/1", pk=KEY, session=token),
        raw.get(f"{docs}/none", pk=KEY, session=token),
        raw.get(docs, session=token),
        raw.get(docs, pk=KEY, session=token),
    ):
        assert (reply.status, reply.sub_status, reply.json["code"]) == (404, 1002, "NotFound")
        text = "The read session is not available for the input session token."
        assert reply.json["message"].startswith(text)


@pytest.mark.parametrize(
    "token",
    ["x", "0", "0:", "0:-12", "0:-1#", "0:-1#x", "0:-1#1#", "0:-1#1#1", "a:-1#1", "0:-1#1;0:-1#1",
     ",", "0:-1#1,"],
)  # fmt: skip
def test_malformed_token(raw: RawClient, container: str, token: str) -> None:
    docs = f"{container}/docs"
    raw.post(docs, compact("1", ""), pk=KEY)
    for reply in (raw.get(f"{docs}/1", pk=KEY, session=token), raw.get(docs, session=token)):
        assert (reply.status, reply.sub_status) == (400, 0)
        assert reply.json["code"] == "BadRequest"


def test_tokens_of_all_ranges_together(raw: RawClient, database: str) -> None:
    """Each range is held against its own part of the list, a point read against one."""
    container = make_container(raw, database, throughput="11000")
    docs = f"{container}/docs"
    for number, pk in enumerate(["redmond", "partitionKey", "redmond"]):
        raw.post(docs, {"id": str(number), "pk": pk}, pk=json.dumps([pk]))
    zero, one = positions(raw, container)
    both, ahead = f"0:-1#{zero},1:-1#{one}", f"0:-1#{zero},1:-1#{one + 1}"
    assert raw.get(docs, session=both).status == 200
    assert raw.get(f"{docs}/1", pk='["partitionKey"]', session=both).status == 200
    assert raw.get(f"{docs}/0", pk='["redmond"]', session=both).status == 200
    assert raw.get(docs, session=ahead).sub_status == 1002
    assert raw.get(f"{docs}/0", pk='["redmond"]', session=ahead).sub_status == 1002
    assert raw.get(docs, range="1", session=f"1:-1#{one}").status == 200


def test_tokens_of_an_earlier_container_do_not_block(
    raw: RawClient, database: str, container: str
) -> None:
    """A client that does not know of the new container reads on."""
    for number in range(5):
        last = raw.post(f"{container}/docs", compact(str(number), ""), pk=KEY)
    token = last.headers["x-ms-session-token"]
    assert raw.delete(container).status == 204
    assert raw.post(f"{database}/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    missing = raw.get(f"{container}/docs/1", pk=KEY, session=token)
    assert (missing.status, missing.sub_status) == (404, 0)
    assert raw.post(f"{container}/docs", compact("1", ""), pk=KEY).status == 201
    assert raw.get(f"{container}/docs/1", pk=KEY, session=token).status == 200
    assert raw.get(f"{container}/docs", session=token).status == 200


def test_a_stale_container_is_reported_before_a_token_of_the_future(
    raw: RawClient, database: str, container: str
) -> None:
    """A re-created container counts from zero; the client must learn that, not retry."""
    rid = raw.get(container).json["_rid"]
    token = raw.post(f"{container}/docs", compact("1", ""), pk=KEY).headers["x-ms-session-token"]
    assert raw.delete(container).status == 204
    assert raw.post(f"{database}/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    headers = {"x_ms_cosmos_intended_collection_rid": rid, "session": token}
    for reply in (
        raw.get(f"{container}/docs/1", pk=KEY, **headers),
        raw.get(f"{container}/docs", **headers),
        raw.post(f"{container}/docs", compact("1", ""), pk=KEY, **headers),
        raw.put(f"{container}/docs/1", compact("1", ""), pk=KEY, **headers),
        raw.delete(f"{container}/docs/1", pk=KEY, **headers),
    ):
        assert (reply.status, reply.sub_status, reply.json["code"]) == (400, 1024, "BadRequest")
    assert raw.get(f"{container}/docs").json["_count"] == 0


# Paths and other constants ----------------------------------------------------------------------


def one_answer_of_each_kind(raw: RawClient, container: str) -> list[Reply]:
    """One answer of each kind that is no error."""
    docs = f"{container}/docs"
    return [
        raw.post(docs, compact("1", ""), pk=KEY),
        raw.post(docs, compact("1", ""), pk=KEY, upsert="true"),
        raw.put(f"{docs}/1", compact("1", ""), pk=KEY),
        raw.put(f"{docs}/1", compact("1", ""), pk=KEY, prefer="return=minimal"),
        raw.get(f"{docs}/1", pk=KEY),
        raw.get(f"{docs}/1", pk=KEY, if_none_match="*"),
        raw.get(docs),
        raw.get(docs, pk=KEY),
        raw.delete(f"{docs}/1", pk=KEY),
    ]


def test_every_answer_says_where_it_is_from(raw: RawClient, container: str) -> None:
    rid = raw.get(container).json["_rid"]
    for reply in one_answer_of_each_kind(raw, container):
        assert reply.status < 400
        assert reply.headers["x-ms-alt-content-path"] == container.removeprefix("/")
        assert reply.headers["x-ms-content-path"] == rid
        assert reply.headers["x-ms-documentdb-partitionkeyrangeid"] == "0"
        assert reply.headers["content-type"] == "application/json"
        assert GUID.fullmatch(reply.headers["x-ms-activity-id"])
        assert charge(reply) >= 1
        assert "x-ms-substatus" not in reply.headers


def test_names_that_are_not_safe_in_a_header(raw: RawClient, name: str) -> None:
    database, container = f"{name} é", "日本 x%"
    assert raw.post("/dbs", {"id": database}).status == 201
    body = {"id": container, "partitionKey": PARTITION_KEY}
    assert raw.post(f"/dbs/{database}/colls", body).status == 201
    reply = raw.post(f"/dbs/{database}/colls/{container}/docs", compact("1", ""), pk=KEY)
    path = f"dbs/{name}%20%C3%A9/colls/%E6%97%A5%E6%9C%AC%20x%25"
    assert (reply.status, reply.headers["x-ms-alt-content-path"]) == (201, path)
    raw.delete(f"/dbs/{database}")


def test_errors_carry_the_session_token(raw: RawClient, container: str) -> None:
    """Clients learn how far the range is from a miss or a conflict, too."""
    docs = f"{container}/docs"
    token = raw.post(docs, compact("1", ""), pk=KEY).headers["x-ms-session-token"]
    for status, reply in (
        (404, raw.get(f"{docs}/none", pk=KEY)),
        (409, raw.post(docs, compact("1", ""), pk=KEY)),
        (412, raw.put(f"{docs}/1", compact("1", ""), pk=KEY, if_match="x")),
    ):
        assert reply.status == status
        assert reply.headers["x-ms-session-token"] == token
        # The JavaScript client would record the token of a missing item's range otherwise.
        assert ("x-ms-content-path" in reply.headers) == (status != 404)
        assert reply.headers["x-ms-alt-content-path"] == container.removeprefix("/")
        assert reply.headers["x-ms-documentdb-partitionkeyrangeid"] == "0"


def test_a_missing_item_names_no_container(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    session = "0:-1#999999"
    for reply in (
        raw.get(f"{docs}/none", pk=KEY),
        raw.get(f"{docs}/none", pk=KEY, session=session),
    ):
        assert reply.status == 404
        assert "x-ms-content-path" not in reply.headers
    for reply in (raw.delete(f"{docs}/none", pk=KEY), raw.get(docs, session=session)):
        assert reply.status == 404
        assert reply.headers["x-ms-content-path"] == raw.get(container).json["_rid"]


# Where the item was read, and for how long ------------------------------------------------------


@pytest.mark.parametrize(
    ("item_id", "escaped"),
    [("1", "1"), ("a-b_c.d~e", "a-b_c.d~e"), ("a b", "a%20b"), ("50%", "50%25"),
     ("naïve", "na%C3%AFve"), ("a\r\nb: c", "a%0D%0Ab%3A%20c"), ("a?b#c", "a%3Fb%23c")],
)  # fmt: skip
def test_location_of_an_item_that_was_read(
    raw: RawClient, container: str, endpoint: str, item_id: str, escaped: str
) -> None:
    body = json.dumps({"id": item_id, "pk": "a"}).encode()
    created = raw.post(f"{container}/docs", body, pk=KEY)
    path = f"{container}/docs/{quote(item_id, safe='')}"
    read = raw.request("GET", f"{container}/docs/{item_id}", raw_path=path, headers={PK: KEY})
    assert (created.status, read.status) == (201, 200)
    assert read.headers["content-location"] == f"{endpoint.rstrip('/')}{container}/docs/{escaped}"
    assert "content-location" not in created.headers


def test_location_is_by_names(raw: RawClient, container: str, endpoint: str) -> None:
    created = raw.post(f"{container}/docs", compact("1", ""), pk=KEY).json
    link = created["_self"].rstrip("/")
    read = raw.request("GET", link, raw_path=f"/{link}", headers={PK: KEY})
    assert read.headers["content-location"] == f"{endpoint.rstrip('/')}{container}/docs/1"


@pytest.mark.parametrize(
    ("host", "scheme", "start"),
    [
        ("localhost:8081", "", "http://localhost:8081/dbs/"),
        ("Other.localhost", "https", "https://Other.localhost/dbs/"),
        ("h" * 300 + ".localhost", "", None),
    ],
)
def test_location_repeats_the_host_of_the_request(
    raw: RawClient, container: str, endpoint: str, host: str, scheme: str, start: str | None
) -> None:
    """A name longer than names can be is not repeated."""
    raw.post(f"{container}/docs", compact("1", ""), pk=KEY)
    headers = {PK: KEY, "host": host, "x-forwarded-proto": scheme}
    read = raw.request("GET", f"{container}/docs/1", headers=headers)
    assert read.headers["content-location"].startswith(start or f"{endpoint}dbs/")


def test_location_only_with_an_item(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    etag = raw.post(docs, compact("1", ""), pk=KEY).headers["etag"]
    for reply in (
        raw.get(f"{docs}/1", pk=KEY, if_none_match=etag),
        raw.get(f"{docs}/none", pk=KEY),
        raw.get(docs),
        raw.delete(f"{docs}/1", pk=KEY),
    ):
        assert "content-location" not in reply.headers


def test_every_answer_has_its_duration(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    for reply in (
        raw.get("/"),
        raw.post(docs, compact("1", ""), pk=KEY),
        raw.get(f"{docs}/1", pk=KEY),
        raw.get(f"{docs}/none", pk=KEY),
        raw.get(docs),
        raw.query(docs, "SELECT * FROM c"),
        raw.query(docs, "SELECT nonsense"),
        raw.get("/nowhere"),
        raw.request("GET", container, sign_with=None),
        raw.request("GET", "/_perseid/health"),
        raw.delete(f"{docs}/1", pk=KEY),
    ):
        text = reply.headers["x-ms-request-duration-ms"]
        assert re.fullmatch(r"[0-9]+\.[0-9]{3}", text)
        assert 0 < float(text) < 60_000


# Activity ids -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", ["11111111-2222-3333-4444-555555555555", "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee"]
)
def test_activity_id_is_echoed(raw: RawClient, container: str, sent: str) -> None:
    docs = f"{container}/docs"
    for reply in (
        raw.post(docs, compact("1", ""), pk=KEY, x_ms_activity_id=sent),
        raw.get(f"{docs}/1", pk=KEY, x_ms_activity_id=sent),
        raw.get(f"{docs}/none", pk=KEY, x_ms_activity_id=sent),
        raw.get(docs, x_ms_activity_id=sent),
        raw.delete(f"{docs}/1", pk=KEY, x_ms_activity_id=sent),
    ):
        assert reply.headers["x-ms-activity-id"] == sent
        if reply.status >= 400:
            assert f"\r\nActivityId: {sent}" in reply.json["message"]


def test_activity_ids_are_made_up(raw: RawClient, container: str) -> None:
    docs = f"{container}/docs"
    replies = [raw.get(docs) for _ in range(5)] + [raw.get(f"{docs}/none", pk=KEY)]
    found = [reply.headers["x-ms-activity-id"] for reply in replies]
    assert all(GUID.fullmatch(each) for each in found)
    assert len(set(found)) == 6


# Other request headers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("x_ms_cosmos_priority_level", "High", 201),
        ("x_ms_cosmos_priority_level", "low", 201),
        ("x_ms_cosmos_priority_level", "Medium", 400),
        ("x_ms_version", "2018-12-31", 201),
        ("x_ms_version", "9999-01-01", 201),
        ("x_ms_documentdb_query_enablecrosspartition", "true", 201),
        ("x_ms_documentdb_responsecontinuationtokenlimitinkb", "1", 201),
        ("x_ms_cosmos_sdk_supportedcapabilities", "1", 201),
        ("x_ms_dedicatedgateway_max_age", "1000", 201),
        ("x_ms_cosmos_allow_tentative_writes", "true", 201),
        ("x_ms_no_such_header", "x", 201),
        ("cache_control", "no-cache", 201),
        ("accept", "application/json", 201),
    ],
)
def test_other_request_headers(
    raw: RawClient, container: str, header: str, value: str, status: int
) -> None:
    reply = raw.post(f"{container}/docs", compact("1", ""), pk=KEY, **{header: value})
    assert reply.status == status


def test_intended_container(raw: RawClient, container: str) -> None:
    rid = raw.get(container).json["_rid"]
    headers = {"x_ms_cosmos_intended_collection_rid": rid}
    assert raw.post(f"{container}/docs", compact("1", ""), pk=KEY, **headers).status == 201
    assert raw.get(f"{container}/docs/1", pk=KEY, **headers).status == 200
