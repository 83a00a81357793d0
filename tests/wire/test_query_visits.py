"""Queries over all partitions that are served directly: pages, ranges and tokens.

A strict server visits one range in each response; a relaxed one may have rows of all ranges in a
page. Their tokens have the same form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import create_container
from tests.support.figures import physical_ranges
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, Servers

ALL = "SELECT * FROM c"
METRICS = {"x_ms_documentdb_populatequerymetrics": "true"}
SERVICE_TOKEN = "-RID:~3FIlAOzjvyg=#RT:1#TRC:2#ISV:2#IEO:65567#QCF:8"


@pytest.fixture(scope="session")
def server(strict_server: RunningServer) -> RunningServer:
    return strict_server


@pytest.fixture
def wide(raw: RawClient, database: str) -> str:
    """A container with four or more ranges and an item in each of the keys k0 to k19."""
    path = create_container(raw, database, "wide", headers={"throughput": "40000"})
    for n in range(20):
        create_item(raw, path, f"k{n}", n)
    return path


@pytest.fixture(params=["strict", "relaxed"])
def either(request: pytest.FixtureRequest, servers: Servers) -> Iterator[RawClient]:
    """A client of a strict server, and of a relaxed one."""
    with servers(relaxed=request.param == "relaxed").connect() as raw:
        yield raw


def create_item(raw: RawClient, path: str, pk: str, n: int) -> None:
    item = {"id": f"i{n}", "pk": pk, "n": n}
    assert raw.post(f"{path}/docs", item, pk=json.dumps([pk])).status == 201


def token_of(reply: Reply) -> str | None:
    return reply.headers.get("x-ms-continuation")


def pages(
    raw: RawClient, path: str, text: str, parameters: Any = (), **headers: str
) -> list[Reply]:
    replies: list[Reply] = []
    more: dict[str, str] = {}
    while True:
        reply = raw.query(f"{path}/docs", text, parameters, **headers, **more)
        assert reply.status == 200, reply
        assert reply.json["_count"] == len(reply.json["Documents"])
        replies.append(reply)
        token = token_of(reply)
        if token is None:
            return replies
        more = {"continuation": token}


def rows(replies: list[Reply]) -> list[Any]:
    return [row for reply in replies for row in reply.json["Documents"]]


def ids_of_range(raw: RawClient, path: str, index: int) -> list[str]:
    reply = raw.query(f"{path}/docs", "SELECT VALUE c.id FROM c", range=str(index))
    ids: list[str] = reply.json["Documents"]
    return ids


# --- one range in each response


def test_a_response_covers_one_range(raw: RawClient, wide: str) -> None:
    replies = pages(raw, wide, "SELECT VALUE c.id FROM c")
    count = len(physical_ranges(raw, wide))
    assert count >= 4
    assert [reply.json["Documents"] for reply in replies] == [
        ids_of_range(raw, wide, index) for index in range(count)
    ]
    visited = [reply.headers["x-ms-documentdb-partitionkeyrangeid"] for reply in replies]
    assert visited == [str(index) for index in range(count)]
    for index, reply in enumerate(replies):
        assert reply.headers["x-ms-session-token"].startswith(f"{index}:-1#")


def test_a_range_without_matches_is_an_empty_page(raw: RawClient, wide: str) -> None:
    (third, *_) = ids_of_range(raw, wide, 2)
    replies = pages(raw, wide, "SELECT VALUE c.id FROM c WHERE c.id = @id", [
        {"name": "@id", "value": third}
    ])  # fmt: skip
    others: list[list[str]] = [[]] * (len(physical_ranges(raw, wide)) - 3)
    assert [reply.json["Documents"] for reply in replies] == [[], [], [third], *others]
    assert [reply.headers["x-ms-item-count"] for reply in replies][:4] == ["0", "0", "1", "0"]


def test_pages_within_a_range(raw: RawClient, wide: str) -> None:
    replies = pages(raw, wide, "SELECT VALUE c.n FROM c", count="2")
    assert sorted(rows(replies)) == list(range(20))
    assert max(reply.json["_count"] for reply in replies) == 2


def test_tokens_name_the_range(raw: RawClient, wide: str) -> None:
    ranges = [(each["minInclusive"], each["maxExclusive"]) for each in physical_ranges(raw, wide)]
    seen = []
    for reply in pages(raw, wide, ALL, count="2")[:-1]:
        token = token_of(reply) or ""
        assert token.isascii()
        assert len(token) <= 1024
        value = json.loads(token)
        assert value.keys() == {"token", "range"}
        seen.append((value["range"]["min"], value["range"]["max"]))
    assert sorted(set(seen)) == ranges
    assert seen == sorted(seen)


@pytest.mark.parametrize(("where", "most"), [
    ("c.pk = 'k1'", 1),
    ("c.pk = @key", 1),
    ("c.pk IN ('k1', 'k2', 'k3')", 3),
    ("c.pk = 'k1' OR c.pk = 'k2'", 2),
    ("false", 1),
])  # fmt: skip
def test_only_ranges_that_can_match(raw: RawClient, wide: str, where: str, most: int) -> None:
    parameters = [{"name": "@key", "value": "k5"}]
    text = f"SELECT VALUE c.id FROM c WHERE {where}"
    found = pages(raw, wide, text, parameters)
    assert len(found) <= most
    direct = raw.query(f"{wide}/docs", text, parameters, x_perseid_direct="true")
    assert sorted(rows(found)) == sorted(direct.json["Documents"])


def test_a_query_without_from_has_one_row(raw: RawClient, wide: str) -> None:
    assert rows(pages(raw, wide, "SELECT VALUE 1")) == [1]


def test_keys_and_ranges_are_one_page(raw: RawClient, wide: str) -> None:
    for headers in ({"pk": '["k1"]'}, {"range": "2"}):
        assert len(pages(raw, wide, ALL, **headers)) == 1


def test_a_direct_answer_has_rows_of_all_ranges(raw: RawClient, wide: str) -> None:
    (page,) = pages(raw, wide, "SELECT VALUE c.n FROM c", x_perseid_direct="true")
    assert sorted(page.json["Documents"]) == list(range(20))


def test_a_feed_has_items_of_all_ranges(raw: RawClient, wide: str) -> None:
    page = raw.get(f"{wide}/docs")
    assert sorted(item["n"] for item in page.json["Documents"]) == list(range(20))
    assert token_of(page) is None


def test_a_token_decides_how_the_query_continues(raw: RawClient, wide: str) -> None:
    """It may be sent with or without the wish for direct answers."""
    text = "SELECT VALUE c.n FROM c"
    direct = raw.query(f"{wide}/docs", text, count="5", x_perseid_direct="true")
    rest = raw.query(f"{wide}/docs", text, continuation=token_of(direct) or "")
    assert sorted(direct.json["Documents"] + rest.json["Documents"]) == list(range(20))
    first = raw.query(f"{wide}/docs", text, count="2")
    found = first.json["Documents"]
    token = token_of(first)
    while token is not None:
        reply = raw.query(f"{wide}/docs", text, continuation=token, x_perseid_direct="true")
        found += reply.json["Documents"]
        token = token_of(reply)
    assert sorted(found) == list(range(20))


def test_an_interval_that_is_not_a_range(raw: RawClient, wide: str) -> None:
    """A token outlives the range that it was made for."""
    text = "SELECT VALUE c.id FROM c"
    bounds = [each["minInclusive"] for each in physical_ranges(raw, wide)]
    token = json.dumps({"token": None, "range": {"min": bounds[1], "max": bounds[3]}})
    reply = raw.query(f"{wide}/docs", text, continuation=token)
    both = ids_of_range(raw, wide, 1) + ids_of_range(raw, wide, 2)
    assert sorted(reply.json["Documents"]) == sorted(both)
    following = raw.query(f"{wide}/docs", text, continuation=token_of(reply) or "")
    assert following.json["Documents"] == ids_of_range(raw, wide, 3)


# --- full pages


@pytest.fixture
def four(either: RawClient, name: str) -> Iterator[str]:
    """A container with the items 0 to 3 in one partition."""
    assert either.post("/dbs", {"id": name}).status == 201
    path = create_container(either, f"/dbs/{name}")
    for n in range(4):
        create_item(either, path, "a", n)
    yield path
    either.delete(f"/dbs/{name}")


@pytest.mark.parametrize("headers", [{}, {"pk": '["a"]'}])
@pytest.mark.parametrize("text", [ALL, "SELECT VALUE c.n FROM c WHERE c.n + 1 > 0"])
def test_a_full_page_has_a_next_one(
    either: RawClient, four: str, text: str, headers: dict[str, str]
) -> None:
    counts = [[reply.json["_count"] for reply in pages(either, four, text, count=count, **headers)]
              for count in ("2", "3", "4", "5")]  # fmt: skip
    assert counts == [[2, 2, 0], [3, 1], [4, 0], [4]]


@pytest.mark.parametrize("text", [
    "SELECT * FROM c ORDER BY c.n DESC",
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT DISTINCT VALUE c.n FROM c",
])  # fmt: skip
def test_full_pages_of_sorted_and_distinct_rows(either: RawClient, four: str, text: str) -> None:
    for count, expected in (("2", [2, 2, 0]), ("3", [3, 1]), ("4", [4, 0])):
        found = pages(either, four, text, count=count, pk='["a"]')
        assert [reply.json["_count"] for reply in found] == expected


@pytest.mark.parametrize("text", [
    ALL,
    "SELECT VALUE c.n FROM c WHERE c.n + 1 > 0",
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT DISTINCT VALUE c.n FROM c",
])  # fmt: skip
def test_full_pages_of_a_range(either: RawClient, four: str, text: str) -> None:
    """Pages that a client merges: JavaScript never ends if it resumes a range without rows."""
    for count, expected in (("2", [2, 2]), ("4", [4])):
        found = pages(either, four, text, count=count, range="0")
        assert [reply.json["_count"] for reply in found] == expected


def test_full_pages_of_groups(either: RawClient, four: str) -> None:
    text = "SELECT c.n, COUNT(1) AS m FROM c GROUP BY c.n"
    for count, expected in (("2", [2, 2]), ("3", [3, 1]), ("4", [4])):
        found = pages(either, four, text, count=count, pk='["a"]')
        assert [reply.json["_count"] for reply in found] == expected


@pytest.mark.parametrize("text", [
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT MAX(c.n) AS m FROM c",
    "SELECT VALUE 1",
    "SELECT TOP 1 * FROM c",
    "SELECT * FROM c ORDER BY c.n OFFSET 1 LIMIT 1",
    "SELECT DISTINCT TOP 1 VALUE c.n FROM c",
])  # fmt: skip
def test_a_result_that_is_complete_ends(either: RawClient, four: str, text: str) -> None:
    (reply,) = pages(either, four, text, count="1", pk='["a"]')
    assert reply.json["_count"] == 1


def test_full_pages_of_a_feed(either: RawClient, four: str) -> None:
    first = either.get(f"{four}/docs", count="4")
    assert first.json["_count"] == 4
    last = either.get(f"{four}/docs", count="4", continuation=token_of(first) or "")
    assert (last.status, last.json["Documents"], token_of(last)) == (200, [], None)


def test_items_created_after_a_full_page_are_seen(either: RawClient, four: str) -> None:
    first = either.query(f"{four}/docs", "SELECT VALUE c.n FROM c", count="4")
    create_item(either, four, "a", 4)
    more = either.query(
        f"{four}/docs", "SELECT VALUE c.n FROM c", continuation=token_of(first) or ""
    )
    assert more.json["Documents"] == [4]


def test_every_page_has_the_metrics_it_was_asked_for(either: RawClient, four: str) -> None:
    for text in (ALL, "SELECT DISTINCT VALUE c.n FROM c"):
        found = pages(either, four, text, count="4", pk='["a"]', **METRICS)
        assert [reply.json["_count"] for reply in found] == [4, 0]
        for reply in found:
            assert "totalExecutionTimeInMs=" in reply.headers["x-ms-documentdb-query-metrics"]


# --- tokens


def test_a_token_over_all_partitions_is_json(either: RawClient, four: str) -> None:
    first = either.query(f"{four}/docs", ALL, count="1")
    value = json.loads(token_of(first) or "")
    assert value["range"] == {"min": "", "max": "FF"}
    assert isinstance(value["token"], str)


@pytest.mark.parametrize("token", [
    "x", "-1", "{}", "[]", "null", '{"token":null}', '{"token":"x","range":{"min":"","max":"FF"}}',
    '{"token":1,"range":{"min":"","max":"FF"}}', '{"token":null,"range":{"min":"FF","max":""}}',
    '{"token":null,"range":{"min":"zz","max":"FF"}}', '{"token":null,"range":{"min":0,"max":1}}',
    SERVICE_TOKEN, json.dumps({"token": SERVICE_TOKEN, "range": {"min": "", "max": "FF"}}),
])  # fmt: skip
def test_unreadable_tokens(either: RawClient, four: str, token: str) -> None:
    reply = either.query(f"{four}/docs", ALL, continuation=token)
    assert (reply.status, reply.sub_status) == (400, 0)
    assert "Invalid Continuation Token" in reply.json["message"]


@pytest.mark.parametrize("headers", [{"pk": '["a"]'}, {"range": "0"}])
def test_unreadable_tokens_of_one_range(
    either: RawClient, four: str, headers: dict[str, str]
) -> None:
    for token in ("x", '{"token":null,"range":{"min":"","max":"FF"}}'):
        reply = either.query(f"{four}/docs", ALL, **headers, continuation=token)
        assert reply.status == 400
        assert "Invalid Continuation Token" in reply.json["message"]
    reply = either.get(f"{four}/docs", continuation="x")
    assert reply.status == 400
    assert "Invalid Continuation Token" in reply.json["message"]


@pytest.mark.parametrize("sign", "+-")
def test_a_token_of_the_service_starts_a_range_from_its_beginning(
    either: RawClient, four: str, sign: str
) -> None:
    interval = {
        "x_ms_read_key_type": "EffectivePartitionKeyRange",
        "x_ms_start_epk": "",
        "x_ms_end_epk": "FF",
    }
    token = sign + SERVICE_TOKEN[1:]
    for headers in ({"range": "0"}, {"range": "0", **interval}):
        reply = either.query(
            f"{four}/docs", "SELECT VALUE c.n FROM c", continuation=token, **headers
        )
        assert (reply.status, reply.json.get("Documents")) == (200, [0, 1, 2, 3])


def test_a_range_cannot_begin_a_query_that_is_answered_as_a_whole(
    raw: RawClient, wide: str
) -> None:
    bound = physical_ranges(raw, wide)[1]
    interval = {"min": bound["minInclusive"], "max": bound["maxExclusive"]}
    token = json.dumps({"token": None, "range": interval})
    text = "SELECT VALUE COUNT(1) FROM c"
    reply = raw.query(f"{wide}/docs", text, continuation=token, x_perseid_direct="true")
    assert reply.status == 400
    assert "Invalid Continuation Token" in reply.json["message"]
