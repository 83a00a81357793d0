"""The read feed of items: pages, continuation, and what a request can confine it to."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY, create_container, create_items
from tests.support.figures import physical_ranges
from tests.support.raw import RawClient, Reply
from tests.support.replies import assert_bad_request
from tests.support.running import running
from tests.support.stores import Place

KEY_TYPE = {"x_ms_read_key_type": "EffectivePartitionKeyRange"}
LARGEST_PAGE = 4 * 1024 * 1024
# Published hashes (version 2), in their order.
HASHES = {
    '"partitionKey"': "013AEFCF77FA271571CF665A58C933F1",
    '"aa"':           "05033626483AE80D00E44FBD35362B19",
    "true":           "0E711127C5B5A8E4726AC6DD306A3E59",
    "0":              "155B95BEDAC4B1E9EC1CDC9BB0DDDE58",
    "5":              "19C08621B135968252FB34B4CF66F811",
    "123456789":      "1F56D2538088EBA82CCF988F36E16760",
    "1":              "20CD98B339BA78A5D0CF6953B87070B0",
    '"redmond"':      "22E342F38A486A088463DFF7838A5963",
    "false":          "2FE1BE91E90A3439635E0E9E37361EF2",
    '""':             "32E9366E637A71B4E710384B2F4970A0",
    "null":           "378867E4430E67857ACE5C908374FE16",
}  # fmt: skip


def ids_of(page: Reply) -> list[str]:
    return [item["id"] for item in page.json["Documents"]]


def check_page(page: Reply, rid: str) -> None:
    """What every page has, and the etag that none may have."""
    assert page.status == 200, page
    assert list(page.json) == ["_rid", "Documents", "_count"]
    assert page.json["_rid"] == rid
    count = len(page.json["Documents"])
    assert (page.json["_count"], page.headers["x-ms-item-count"]) == (count, str(count))
    assert "etag" not in page.headers
    token = page.headers.get("x-ms-continuation", "x")
    assert token
    assert len(token) <= 1024
    assert token.isascii()
    assert token.isprintable()


def walk(raw: RawClient, container: str, **headers: str) -> Iterator[Reply]:
    """All pages of a feed."""
    rid = raw.get(container).json["_rid"]
    while True:
        page = raw.get(f"{container}/docs", **headers)
        check_page(page, rid)
        yield page
        if "x-ms-continuation" not in page.headers:
            return
        headers["continuation"] = page.headers["x-ms-continuation"]


# Paging -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        ("1", [1] * 7 + [0]),
        ("2", [2, 2, 2, 1]),
        ("3", [3, 3, 1]),
        ("6", [6, 1]),
        ("7", [7, 0]),
        ("8", [7]),
        ("1000", [7]),
        ("2147483647", [7]),
        ("-1", [7]),
    ],
)
def test_pages(raw: RawClient, container: str, count: str, sizes: list[int]) -> None:
    """A full page has a continuation, a page with fewer items is the last one."""
    ids = create_items(raw, container, 7)
    pages = list(walk(raw, container, count=count))
    assert [page.json["_count"] for page in pages] == sizes
    assert [each for page in pages for each in ids_of(page)] == ids


def test_without_a_count(raw: RawClient, container: str) -> None:
    ids = create_items(raw, container, 7)
    assert [ids_of(page) for page in walk(raw, container)] == [ids]


def test_members_are_whole_items(raw: RawClient, container: str) -> None:
    created = [
        raw.post(f"{container}/docs", b'{"id":"%d","pk":"a","n":1.50}' % number, pk='["a"]').body
        for number in range(3)
    ]
    rid = raw.get(container).json["_rid"]
    expected = b'{"_rid":"%b","Documents":[%b],"_count":3}'
    assert raw.get(f"{container}/docs").body == expected % (rid.encode(), b",".join(created))


def test_empty_container(raw: RawClient, container: str) -> None:
    (page,) = walk(raw, container)
    assert page.json["Documents"] == []
    assert float(page.headers["x-ms-request-charge"]) == 1


@pytest.mark.parametrize("end", ["", "/"])
def test_trailing_slash(raw: RawClient, container: str, end: str) -> None:
    ids = create_items(raw, container, 1)
    page = raw.request("GET", f"{container}/docs", raw_path=f"{container}/docs{end}")
    assert ids_of(page) == ids


@pytest.mark.parametrize("count", ["x", "1.5", ""])
def test_count_that_is_no_number(raw: RawClient, container: str, count: str) -> None:
    reply = raw.get(f"{container}/docs", count=count)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


@pytest.mark.parametrize("missing", ["container", "database"])
def test_owner_missing(raw: RawClient, database: str, name: str, missing: str) -> None:
    path = f"{database}/colls/none" if missing == "container" else f"/dbs/{name}-none/colls/c"
    reply = raw.get(f"{path}/docs")
    assert (reply.status, reply.sub_status, reply.json["code"]) == (404, 1003, "NotFound")


def test_feed_needs_no_cross_partition_header(raw: RawClient, container: str) -> None:
    ids = create_items(raw, container, 2, "a") + create_items(raw, container, 2, "b")
    assert sorted(ids_of(raw.get(f"{container}/docs"))) == sorted(ids)


# Changes between pages --------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["last seen", "first seen", "next", "all seen"])
def test_delete_between_pages(raw: RawClient, container: str, victim: str) -> None:
    """Neither skips nor repeats; what was deleted unseen is not shown."""
    ids = create_items(raw, container, 6)
    page = raw.get(f"{container}/docs", count="2")
    gone = {"last seen": ids[1:2], "first seen": ids[:1], "next": ids[2:3], "all seen": ids[:2]}
    for each in gone[victim]:
        assert raw.delete(f"{container}/docs/{each}", pk='["a"]').status == 204
    token = page.headers["x-ms-continuation"]
    rest = [
        each
        for onward in walk(raw, container, count="2", continuation=token)
        for each in ids_of(onward)
    ]
    assert ids_of(page) == ids[:2]
    assert rest == [each for each in ids[2:] if each not in gone[victim]]


@pytest.mark.parametrize("operation", ["replace", "rename", "delete and create"])
def test_write_between_pages(raw: RawClient, container: str, operation: str) -> None:
    """An item that is written again keeps its place; a new one of the same id is a new item."""
    ids = create_items(raw, container, 4)
    page = raw.get(f"{container}/docs", count="2")
    path, body = f"{container}/docs/{ids[1]}", {"id": ids[1], "pk": "a"}
    if operation == "replace":
        assert raw.put(path, body | {"v": 2}, pk='["a"]').status == 200
    elif operation == "rename":
        assert raw.put(path, {"id": "new", "pk": "a"}, pk='["a"]').status == 200
    else:
        assert raw.delete(path, pk='["a"]').status == 204
        assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201
    token = page.headers["x-ms-continuation"]
    rest = [each for onward in walk(raw, container, continuation=token) for each in ids_of(onward)]
    assert rest == ids[2:] + ([ids[1]] if operation == "delete and create" else [])


def test_create_between_pages(raw: RawClient, container: str) -> None:
    ids = create_items(raw, container, 3)
    page = raw.get(f"{container}/docs", count="2")
    ids += create_items(raw, container, 2, start=3)
    token = page.headers["x-ms-continuation"]
    rest = [each for onward in walk(raw, container, continuation=token) for each in ids_of(onward)]
    assert ids_of(page) + rest == ids


# Tokens -----------------------------------------------------------------------------------------


def token_after_first(raw: RawClient, container: str) -> str:
    create_items(raw, container, 3)
    return raw.get(f"{container}/docs", count="1").headers["x-ms-continuation"]


def test_token_goes_with_another_count(raw: RawClient, container: str) -> None:
    token = token_after_first(raw, container)
    assert ids_of(raw.get(f"{container}/docs", continuation=token, count="-1")) == ["a1", "a2"]
    assert ids_of(raw.get(f"{container}/docs", continuation=token)) == ["a1", "a2"]  # not used up


def test_tampered_token(raw: RawClient, container: str) -> None:
    """Every single character counts."""
    token = token_after_first(raw, container)
    for position, character in enumerate(token):
        if character == "=":
            continue
        other = "A" if character != "A" else "B"
        changed = token[:position] + other + token[position + 1 :]
        if base64.urlsafe_b64decode(changed) != base64.urlsafe_b64decode(token):
            assert_bad_request(raw.get(f"{container}/docs", continuation=changed))


@pytest.mark.parametrize(
    "token",
    ["x", "=", "null", "{}", "-1", "100", "+RID:~3FIlAOzjvyg=#RT:1#TRC:20", "A" * 64, "%00", "é"],
)
def test_token_that_the_server_did_not_make(raw: RawClient, container: str, token: str) -> None:
    assert_bad_request(raw.get(f"{container}/docs", continuation=token))


@pytest.mark.parametrize("cut", [1, 4, 12])
def test_truncated_token(raw: RawClient, container: str, cut: int) -> None:
    token = token_after_first(raw, container)
    assert_bad_request(raw.get(f"{container}/docs", continuation=token[:-cut]))
    assert_bad_request(raw.get(f"{container}/docs", continuation=token + "A" * cut))


def test_token_of_another_container(raw: RawClient, database: str, container: str) -> None:
    body = {"id": "d", "partitionKey": PARTITION_KEY}
    assert raw.post(f"{database}/colls", body).status == 201
    assert_bad_request(
        raw.get(f"{database}/colls/d/docs", continuation=token_after_first(raw, container))
    )


def test_token_of_an_earlier_container_of_that_name(
    raw: RawClient, database: str, container: str
) -> None:
    token = token_after_first(raw, container)
    assert raw.delete(container).status == 204
    body = {"id": "c", "partitionKey": PARTITION_KEY}
    assert raw.post(f"{database}/colls", body).status == 201
    assert_bad_request(raw.get(f"{container}/docs", continuation=token))


def test_token_of_another_feed(raw: RawClient, database: str, container: str) -> None:
    body = {"id": "d", "partitionKey": PARTITION_KEY}
    assert raw.post(f"{database}/colls", body).status == 201
    listed = raw.get(f"{database}/colls", count="1")
    assert_bad_request(
        raw.get(f"{container}/docs", continuation=listed.headers["x-ms-continuation"])
    )


def test_token_of_another_server(place: Place, raw: RawClient, container: str) -> None:
    """Its first container has the same rid as ours may have; its secret is another."""
    with running(place.fresh()) as settings:
        other = RawClient(settings.endpoint, settings.key)
        other.post("/dbs", {"id": "d"})
        body = {"id": "c", "partitionKey": PARTITION_KEY}
        assert other.post("/dbs/d/colls", body).status == 201
        token = token_after_first(other, "/dbs/d/colls/c")
        other.close()
    assert_bad_request(raw.get(f"{container}/docs", continuation=token))


# By key -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", ["1", "2", "-1"])
@pytest.mark.parametrize("throughput", ["400", "12000"])
def test_by_key(raw: RawClient, database: str, count: str, throughput: str) -> None:
    """One logical partition, whatever was written in between."""
    container = container_with_ranges(raw, database, throughput)
    ids: dict[str, list[str]] = {"a": [], "b": [], "ab": []}
    for number in range(5):
        for pk in ids:
            ids[pk] += create_items(raw, container, 1, pk, number)
    for pk, expected in ids.items():
        pages = list(walk(raw, container, pk=json.dumps([pk]), count=count))
        assert [each for page in pages for each in ids_of(page)] == expected
    assert [ids_of(page) for page in walk(raw, container, pk='["none"]')] == [[]]


# By range and by hash ---------------------------------------------------------------------------


def container_with_ranges(raw: RawClient, database: str, throughput: str) -> str:
    """A container with ranges: one for each started 10,000 RU/s."""
    return create_container(raw, database, "h", headers={"throughput": throughput})


def spread(raw: RawClient, database: str, throughput: str) -> str:
    """A container with an item under each of the published hashes, which is its id."""
    container = container_with_ranges(raw, database, throughput)
    for value, epk in reversed(HASHES.items()):
        body = f'{{"id":"{epk}","pk":{value}}}'.encode()
        assert raw.post(f"{container}/docs", body, pk=f"[{value}]").status == 201
    return container


def collect(raw: RawClient, container: str, **headers: str) -> list[str]:
    pages = walk(raw, container, **headers)
    return sorted(each for page in pages for each in ids_of(page))


@pytest.mark.parametrize("throughput", ["400", "11000", "18000"])
@pytest.mark.parametrize("count", ["2", "-1"])
def test_by_range_id(raw: RawClient, database: str, throughput: str, count: str) -> None:
    container = spread(raw, database, throughput)
    ranges = physical_ranges(raw, container)
    tokens = raw.get(container).headers["x-ms-session-token"].split(",")
    for part, token in zip(ranges, tokens, strict=True):
        expected = [
            epk for epk in HASHES.values() if part["minInclusive"] <= epk < part["maxExclusive"]
        ]
        assert collect(raw, container, range=part["id"], count=count) == expected
        page = raw.get(f"{container}/docs", range=part["id"])
        assert page.headers["x-ms-documentdb-partitionkeyrangeid"] == part["id"]
        assert page.headers["x-ms-session-token"] == token
        assert token.startswith(f"{part['id']}:-1#")
    assert collect(raw, container, count=count) == sorted(HASHES.values())


def test_range_id_behind_the_containers_rid(raw: RawClient, database: str) -> None:
    container = spread(raw, database, "11000")
    rid = raw.get(container).json["_rid"]
    assert collect(raw, container, range=f"{rid},1") == collect(raw, container, range="1")


@pytest.mark.parametrize("part", ["1", "7", "-1", "00", "x", ""])
def test_range_id_gone(raw: RawClient, container: str, part: str) -> None:
    create_items(raw, container, 1)
    reply = raw.get(f"{container}/docs", range=part)
    assert (reply.status, reply.sub_status, reply.json["code"]) == (410, 1002, "Gone")


@pytest.mark.parametrize("throughput", ["400", "11000"])
@pytest.mark.parametrize("count", ["2", "-1"])
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", "FF"),
        ("", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"),
        ("1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "FF"),
        (HASHES['"aa"'], HASHES["5"]),  # the lower bound is in, the upper one is not
        (HASHES["true"], HASHES["true"]),
        (HASHES["null"], "FF"),
        ("", HASHES['"partitionKey"']),
        ("10", "20"),
        ("38", "3FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"),
        ("", "00"),
    ],
)
def test_by_hashes(
    raw: RawClient, database: str, throughput: str, count: str, start: str, end: str
) -> None:
    container = spread(raw, database, throughput)
    headers = KEY_TYPE | {"x_ms_start_epk": start, "x_ms_end_epk": end}
    expected = [epk for epk in HASHES.values() if start <= epk < end]
    assert collect(raw, container, count=count, **headers) == expected


def test_point_interval(raw: RawClient, database: str) -> None:
    """A key's own interval ends one above its hash."""
    container = spread(raw, database, "400")
    for epk in HASHES.values():
        end = f"{int(epk, 16) + 1:032X}"
        assert collect(raw, container, x_ms_start_epk=epk, x_ms_end_epk=end, **KEY_TYPE) == [epk]


def test_hashes_within_a_range(raw: RawClient, database: str) -> None:
    container = spread(raw, database, "11000")
    headers = KEY_TYPE | {"x_ms_start_epk": "10", "x_ms_end_epk": "30"}
    whole = collect(raw, container, **headers)
    parts = [collect(raw, container, range=part, **headers) for part in "01"]
    assert sorted(parts[0] + parts[1]) == whole
    assert parts[0]
    assert parts[1]
    assert max(parts[0]) < min(parts[1])


def test_key_type_alone_filters_nothing(raw: RawClient, database: str) -> None:
    container = spread(raw, database, "11000")
    assert collect(raw, container, **KEY_TYPE) == list(HASHES.values())
    alone = collect(raw, container, range="1", **KEY_TYPE)
    assert alone == collect(raw, container, range="1")


@pytest.mark.parametrize("name", ["x_ms_start_epk", "x_ms_end_epk"])
@pytest.mark.parametrize("value", ["xyz", "1", "0x10"])
def test_bad_hash(raw: RawClient, container: str, name: str, value: str) -> None:
    reply = raw.get(f"{container}/docs", **{name: value}, **KEY_TYPE)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


# Large pages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "count", "filler"),
    [
        ({}, "-1", "x"),
        ({}, "3", "x"),
        ({"pk": '["a"]'}, "100", "x"),
        ({"range": "0"}, "4", "x"),
        ({}, "-1", "\\u00e9"),
        ({"pk": '["a"]'}, "3", "\\/"),
    ],
)
def test_page_ends_before_4_mb(
    raw: RawClient, container: str, scope: dict[str, str], count: str, filler: str
) -> None:
    """Measured as it is sent: escapes count with all their characters."""
    padding = filler * (1_500_000 // len(filler))
    ids = [str(number) for number in range(4)]
    for item_id in ids:
        body = f'{{"id":"{item_id}","pk":"a","v":"{padding}"}}'.encode()
        assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201
    pages = list(walk(raw, container, count=count, **scope))
    assert [ids_of(page) for page in pages] == [["0", "1"], ["2", "3"]]
    assert all(len(page.body) <= LARGEST_PAGE for page in pages)


def test_two_of_the_largest_items(raw: RawClient, container: str) -> None:
    """With their system properties they are more than a page holds."""
    for item_id in "12":
        frame = f'{{"id":"{item_id}","pk":"a","v":"%s"}}'
        body = (frame % ("x" * (2 * 1024 * 1024 - len(frame % "")))).encode()
        assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201
    assert [ids_of(page) for page in walk(raw, container)] == [["1"], ["2"]]


# Headers ----------------------------------------------------------------------------------------


def test_page_headers(raw: RawClient, container: str) -> None:
    create_items(raw, container, 2)
    last = raw.post(f"{container}/docs", {"id": "last", "pk": "a"}, pk='["a"]')
    owner: dict[str, Any] = raw.get(container).json
    page = raw.get(f"{container}/docs", count="2")
    assert page.headers["content-type"] == "application/json"
    for header in ("x-ms-session-token", "lsn"):
        assert page.headers[header] == last.headers[header]
    assert page.headers["x-ms-alt-content-path"] == container.removeprefix("/")
    assert page.headers["x-ms-content-path"] == owner["_rid"]
    assert page.headers["x-ms-documentdb-partitionkeyrangeid"] == "0"


@pytest.mark.parametrize(("count", "charge"), [("5", 5.0), ("2", 2.0), ("1", 1.0)])
def test_page_charge(raw: RawClient, container: str, count: str, charge: float) -> None:
    create_items(raw, container, 5)
    page = raw.get(f"{container}/docs", count=count)
    assert float(page.headers["x-ms-request-charge"]) == charge
