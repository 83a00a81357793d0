"""What a query request holds besides its text: scope, parameters, tokens, pages; and metadata."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.query.conftest import Fill, only
from tests.query.engines import INDEXED, PUSHED
from tests.query.filled_containers import FilledContainer, problems
from tests.support.figures import physical_ranges
from tests.support.raw import RawClient, Reply

pytestmark = only(PUSHED, INDEXED)
KEYS: Final = ("A", "B", "C", "é😀", "", 0, 1, -1.5, True, False, None)
DOCUMENTS: Final = [
    {"id": f"{key!r}-{number}", "pk": key, "n": number, "k": place}
    for place, key in enumerate(KEYS)
    for number in range(3)
]
EVERYTHING: Final = sorted(str(document["id"]) for document in DOCUMENTS)
ALL: Final = "SELECT VALUE c.id FROM c"
ALONE: Final = {"x_ms_documentdb_query_enablecrosspartition": "false"}


@pytest.fixture(params=[1, 4], ids=["one range", "four ranges"])
def container(request: pytest.FixtureRequest, filled: Fill) -> FilledContainer:
    return filled("scopes", DOCUMENTS, request.param)


def rows(reply: Reply) -> list[Any]:
    assert reply.status == 200, reply
    found: list[Any] = reply.json["Documents"]
    return found


def refused(reply: Reply, text: str = "") -> None:
    assert (reply.status, reply.json["code"]) == (400, "BadRequest"), reply
    assert text in reply.json["message"]


def pages(container: FilledContainer, text: str, size: int, /, **scope: str) -> Iterator[list[Any]]:
    token = ""
    while True:
        more = {"continuation": token} if token else {}
        reply = container.query(text, count=str(size), **scope, **more)
        yield rows(reply)
        token = reply.headers.get("x-ms-continuation", "")
        if not token:
            return


def drained(container: FilledContainer, text: str, size: int = 2, /, **scope: str) -> list[Any]:
    return [row for page in pages(container, text, size, **scope) for row in page]


def by_key(key: Any) -> dict[str, str]:
    return {"pk": json.dumps([key])}


# Partition keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS, ids=repr)
def test_a_key_confines_the_query(container: FilledContainer, key: Any) -> None:
    own = [f"{key!r}-{number}" for number in range(3)]
    scope = by_key(key) | ALONE
    assert sorted(drained(container, ALL, 1, **scope)) == own
    assert drained(container, f"{ALL} ORDER BY c.n DESC", 2, **scope) == own[::-1]
    assert drained(container, "SELECT VALUE COUNT(1) FROM c", **scope) == [3]
    assert drained(container, "SELECT VALUE SUM(c.n) FROM c GROUP BY c.pk", **scope) == [3]
    assert sorted(drained(container, "SELECT DISTINCT VALUE c.n FROM c", 1, **scope)) == [0, 1, 2]
    assert (
        drained(container, f"{ALL} WHERE c.n > 0 ORDER BY c.n OFFSET 1 LIMIT 5", **scope) == own[2:]
    )
    assert rows(container.query("SELECT VALUE 1", **scope)) == [1]


def test_a_key_without_items(container: FilledContainer) -> None:
    assert drained(container, ALL, **by_key("unknown")) == []
    assert drained(container, "SELECT VALUE COUNT(1) FROM c", **by_key("unknown")) == [0]
    assert drained(container, "SELECT VALUE MAX(c.n) FROM c", **by_key("unknown")) == []


def test_a_filter_on_another_key(container: FilledContainer) -> None:
    text = f"{ALL} WHERE c.pk = 'B'"
    assert drained(container, text, **by_key("A")) == []
    assert sorted(drained(container, text)) == ["'B'-0", "'B'-1", "'B'-2"]
    assert sorted(drained(container, text, **ALONE)) == ["'B'-0", "'B'-1", "'B'-2"]
    assert drained(container, f"{ALL} WHERE c.pk = 'A' AND c.pk = 'B'", **ALONE) == []
    assert len(drained(container, f"{ALL} WHERE c.pk = 'A' OR c.pk = 'B'")) == 6
    assert len(drained(container, f"{ALL} WHERE c.pk IN ('A', 'B', null, true)")) == 12
    assert len(drained(container, f"{ALL} WHERE NOT (c.pk = 'A')")) == len(DOCUMENTS) - 3
    assert drained(container, f"{ALL} WHERE c.pk = 'a'") == []
    assert drained(container, f"{ALL} WHERE c.pk = '0'") == []
    assert len(drained(container, f"{ALL} WHERE c.pk = 0.0")) == 3
    assert len(drained(container, f"{ALL} WHERE c.pk = -0.0")) == 3


@pytest.mark.parametrize("header", ["", "x", "[", '{"a":1}', '["A","B"]', "[[]]", '["A"', "5"])
def test_headers_that_are_no_key(container: FilledContainer, header: str) -> None:
    assert container.query(ALL, pk=header).status in ((200, 400) if not header else (400,))


def test_items_without_a_key(filled: Fill) -> None:
    container = filled("keyless", [{"id": "with", "pk": "x"}])
    reply = container.raw.post(f"{container.path}/docs", {"id": "without"}, pk="[{}]")
    assert reply.status in (201, 409)
    assert drained(container, ALL, pk="[{}]") == ["without"]
    assert sorted(drained(container, ALL)) == ["with", "without"]
    assert drained(container, f"{ALL} WHERE NOT IS_DEFINED(c.pk)") == ["without"]


# Keys of several levels ---------------------------------------------------------------------------

LEVELS: Final = {"partitionKey": {"paths": ["/t", "/u", "/s"], "kind": "MultiHash", "version": 2}}
LEVELED: Final[list[dict[str, Any]]] = [
    {"id": f"{t}{u}{s}", "t": t, "u": u, "s": s} for t in "ab" for u in "xy" for s in (1, 2)
]


@pytest.fixture(params=["400", "40000"], ids=["one range", "four ranges"])
def leveled(
    request: pytest.FixtureRequest, query_client: RawClient, filled: Fill
) -> FilledContainer:
    engine = filled("nothing", []).engine
    path = f"/dbs/q/colls/levels-{request.param}"
    body = {"id": f"levels-{request.param}", **LEVELS}
    if query_client.post("/dbs/q/colls", body, throughput=request.param).status == 201:
        for document in LEVELED:
            key = json.dumps([document["t"], document["u"], document["s"]])
            assert query_client.post(f"{path}/docs", document, pk=key).status == 201
    return FilledContainer(query_client, path, engine)


@pytest.mark.parametrize(
    ("prefix", "start"),
    [(["a"], "a"), (["b"], "b"), (["a", "y"], "ay"), (["b", "x", 2], "bx2"), (["c"], "c")],
    ids=str,
)
def test_prefixes(leveled: FilledContainer, prefix: list[Any], start: str) -> None:
    own = [document["id"] for document in LEVELED if document["id"].startswith(start)]
    scope = {"pk": json.dumps(prefix)} | ALONE
    assert sorted(drained(leveled, ALL, 1, **scope)) == own
    assert drained(leveled, f"{ALL} ORDER BY c.id DESC", **scope) == own[::-1]
    assert drained(leveled, "SELECT VALUE COUNT(1) FROM c", **scope) == [len(own)]


def test_filters_on_a_prefix(leveled: FilledContainer) -> None:
    assert sorted(drained(leveled, f"{ALL} WHERE c.t = 'a'")) == ["ax1", "ax2", "ay1", "ay2"]
    assert sorted(drained(leveled, f"{ALL} WHERE c.t = 'a' AND c.u = 'x'")) == ["ax1", "ax2"]
    text = f"{ALL} WHERE c.t = 'a' AND c.u = 'x' AND c.s = 2"
    assert drained(leveled, text, **ALONE) == ["ax2"]
    assert drained(leveled, f"{ALL} WHERE c.s = 2 AND c.t = 'b'", pk='["a"]') == []


def test_too_many_levels(leveled: FilledContainer) -> None:
    refused(leveled.query(ALL, pk='["a","x",1,2]'))


# Ranges -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 100])
def test_range_ids_divide_the_rows(container: FilledContainer, size: int) -> None:
    for text in (ALL, f"{ALL} ORDER BY c.n DESC", "SELECT DISTINCT VALUE c.id FROM c"):
        parts = [
            drained(container, text, size, range=each["id"])
            for each in physical_ranges(container.raw, container.path)
        ]
        assert sorted(row for part in parts for row in part) == EVERYTHING
    counts = [
        drained(container, "SELECT VALUE COUNT(1) FROM c", range=each["id"])[0]
        for each in physical_ranges(container.raw, container.path)
    ]
    assert sum(counts) == len(DOCUMENTS)


def test_feed_ranges_divide_the_rows(container: FilledContainer) -> None:
    middle = [
        each["minInclusive"] or "00" for each in physical_ranges(container.raw, container.path)
    ] + [
        "1A",
        "33",
        "FF",
    ]
    borders = sorted(set(middle))
    found: list[Any] = []
    for low, high in itertools.pairwise(borders):
        scope = {
            "x_ms_read_key_type": "EffectivePartitionKeyRange",
            "x_ms_start_epk": low,
            "x_ms_end_epk": high,
        }
        found += drained(container, f"{ALL} ORDER BY c.id", 3, **scope)
    assert sorted(found) == EVERYTHING


def test_unknown_range(container: FilledContainer) -> None:
    reply = container.query(ALL, range="77")
    assert (reply.status, reply.sub_status) == (410, 1002)


def test_crossing_partitions_must_be_meant(container: FilledContainer) -> None:
    refused(container.query(ALL, **ALONE), "Cross partition query is required but disabled.")
    for scope in (by_key("A"), {"range": "0"}):
        assert container.query(ALL, **ALONE, **scope).status == 200


# Tokens -------------------------------------------------------------------------------------------

TOKENED: Final = [
    ALL,
    f"{ALL} ORDER BY c.n",
    "SELECT DISTINCT VALUE c.id FROM c",
    "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k",
    "SELECT TOP 9 VALUE c.id FROM c",
    "SELECT VALUE c.id FROM c ORDER BY c.id OFFSET 1 LIMIT 9",
]


def token_of(container: FilledContainer, text: str, /, **scope: str) -> str:
    return container.query(text, count="2", **scope).headers["x-ms-continuation"]


@pytest.mark.parametrize("text", TOKENED)
def test_every_changed_byte_of_a_token(container: FilledContainer, text: str) -> None:
    token = token_of(container, text)
    value = json.loads(token)
    sealed = base64.urlsafe_b64decode(value["token"])
    for at in range(0, len(sealed), 5):
        changed = sealed[:at] + bytes((sealed[at] ^ 1,)) + sealed[at + 1 :]
        bad = json.dumps(value | {"token": base64.urlsafe_b64encode(changed).decode()})
        refused(container.query(text, count="2", continuation=bad), "continuation token")
    for bad in (token.replace('"FF"', '"FE"'), token.replace('""', '"01"')):
        refused(container.query(text, count="2", continuation=bad), "continuation token")
    for bad in (token[:-4], token[4:], token * 2, token[::-1], sealed[9:].hex()):
        refused(container.query(text, count="2", continuation=bad), "continuation token")
    assert container.query(text, count="2", continuation=token).status == 200


@pytest.mark.parametrize(
    "token", ["x", "null", "{}", "0", "-1", "====", '{"token":"x"}', "A" * 4000, "a b", "%00"]
)
def test_tokens_that_the_server_did_not_give(container: FilledContainer, token: str) -> None:
    refused(container.query(ALL, count="2", continuation=token), "continuation token")


def test_tokens_of_other_queries(container: FilledContainer, filled: Fill) -> None:
    given = {text: token_of(container, text) for text in TOKENED}
    for text in TOKENED:
        for other, token in given.items():
            reply = container.query(text, count="2", continuation=token)
            assert reply.status == (200 if text == other else 400), (text, other)
    elsewhere = filled("elsewhere", [])
    refused(elsewhere.query(ALL, count="2", continuation=given[ALL]), "another request")
    reply = container.query(f"{ALL} WHERE c.n >= @n", {"@n": 0}, count="2")
    token = reply.headers["x-ms-continuation"]
    for parameters, status in (({"@n": 0}, 200), ({"@n": 1}, 400), ({}, 400)):
        text = f"{ALL} WHERE c.n >= @n"
        assert container.query(text, parameters, continuation=token).status == status


def test_a_token_goes_with_another_page_size(container: FilledContainer) -> None:
    token = token_of(container, f"{ALL} ORDER BY c.id")
    reply = container.query(f"{ALL} ORDER BY c.id", count="1000", continuation=token)
    assert rows(reply) == EVERYTHING[2:]
    again = container.query(f"{ALL} ORDER BY c.id", count="1", continuation=token)
    assert rows(again) == EVERYTHING[2:3]


def test_an_empty_token_is_none(container: FilledContainer) -> None:
    assert (
        rows(container.query(f"{ALL} ORDER BY c.id", count="1", continuation="")) == EVERYTHING[:1]
    )


@pytest.mark.parametrize("count", ["0", "-2", "x", "1.5", "99999999999999"])
def test_page_sizes_that_are_none(container: FilledContainer, count: str) -> None:
    refused(container.query(ALL, count=count), "x-ms-max-item-count")


# Bodies and parameters ----------------------------------------------------------------------------


def post(container: FilledContainer, body: bytes) -> Reply:
    headers = {
        "content-type": "application/query+json",
        "x-ms-documentdb-isquery": "True",
        "x-ms-documentdb-query-enablecrosspartition": "True",
    }
    return container.raw.request("POST", f"{container.path}/docs", body, headers)


@pytest.mark.parametrize("body", [
    b"", b" ", b"{", b"null", b"[]", b"5", b"{}", b'{"query":null}', b'{"query":5}',
    b'{"query":["SELECT 1"]}',
    b'{"query":"SELECT 1","parameters":{}}', b'{"query":"SELECT 1","parameters":"@p"}',
    b'{"query":"SELECT 1","parameters":[5]}', b'{"query":"SELECT 1","parameters":[{}]}',
    b'{"query":"SELECT 1","parameters":[{"name":5,"value":1}]}',
    b'{"query":"SELECT 1","parameters":[{"name":"p","value":1}]}',
    b'{"query":"SELECT 1","query":"SELECT 2"}', b'{"query":"\xff"}', b'{"query":"SELECT \\ud800"}',
    b'{"query":"SELECT 1","parameters":[{"name":"@p","value":' + b"[" * 200 + b"]" * 200 + b"}]}",
])  # fmt: skip
def test_bodies_that_are_no_query(container: FilledContainer, body: bytes) -> None:
    refused(post(container, body))


@pytest.mark.parametrize("body", [
    b'{"query":"SELECT VALUE 1"}', b'{"query":"SELECT VALUE 1","parameters":[]}',
    b'{"query":"SELECT VALUE 1","parameters":null}', b'"SELECT VALUE 1"',
    b'{"query":"SELECT VALUE @p","parameters":[{"name":"@p","value":1}]}',
    b'{"query":"SELECT VALUE @p","parameters":[{"value":1,"name":"@p","type":"x"}]}',
    b'{"query":"SELECT VALUE 1","options":{},"extra":[1]}',
    b' \n{"parameters" : [ ] ,\t"query":"SELECT VALUE\\n1" } ',
])  # fmt: skip
def test_bodies(container: FilledContainer, body: bytes) -> None:
    assert rows(post(container, body)) == [1]


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -0.0, 1e300, 5e-324, 2**53 + 1, 2**63 - 1, -(2**63), "", "😀", "\x00",
        "x" * 500_000,
        [], {}, [[[[[[]]]]]], {"": {"a": [None]}}, list(range(5000)),
    ],
    ids=lambda value: str(value)[:20].replace("\x00", "NUL"),
)  # fmt: skip
def test_parameters_come_back(container: FilledContainer, value: Any) -> None:
    assert rows(container.query("SELECT VALUE @p", {"@p": value})) == [value]
    assert rows(container.query("SELECT @p AS v, @q AS w", {"@p": value})) == [{"v": value}]


def test_a_parameter_without_a_value_is_undefined(container: FilledContainer) -> None:
    """JavaScript leaves out a value that is undefined."""
    body = {
        "query": "SELECT VALUE [IS_DEFINED(@p), @p ?? 'none', @q, @p = null]",
        "parameters": [{"name": "@p"}, {"name": "@q", "value": None}],
    }
    assert rows(post(container, json.dumps(body).encode())) == [[False, "none", None]]
    body["query"] = "SELECT VALUE c.id FROM c WHERE c.missing = @p OR c.missing != @p"
    assert rows(post(container, json.dumps(body).encode())) == []


def test_many_parameters(container: FilledContainer) -> None:
    given = {f"@p{number}": number for number in range(1000)}
    text = f"SELECT VALUE [{', '.join(given)}]"
    assert rows(container.query(text, given)) == [list(range(1000))]


# Metadata -----------------------------------------------------------------------------------------


def meta(raw: RawClient, path: str, text: str, **parameters: Any) -> Reply:
    listed = [{"name": f"@{name}", "value": value} for name, value in parameters.items()]
    return raw.query(path, text, listed)


def test_databases_and_containers(container: FilledContainer) -> None:
    raw = container.raw
    found = meta(raw, "/dbs", "SELECT * FROM root r WHERE r.id = @id", id="q").json["Databases"]
    assert [each["id"] for each in found] == ["q"]
    assert meta(raw, "/dbs", "SELECT VALUE COUNT(1) FROM c").json["Databases"] == [1]
    name = container.path.rpartition("/")[2]
    text = "SELECT * FROM root r WHERE r.id = @id"
    (one,) = meta(raw, "/dbs/q/colls", text, id=name).json["DocumentCollections"]
    assert one == raw.get(container.path).json
    text = "SELECT VALUE r.partitionKey.paths[0] FROM r WHERE r.id = @id"
    assert meta(raw, "/dbs/q/colls", text, id=name).json["DocumentCollections"] == ["/pk"]
    assert meta(raw, "/dbs/q/colls", text, id="none").json["DocumentCollections"] == []
    text = "SELECT r.id FROM root r ORDER BY r.id DESC"
    names = [row["id"] for row in meta(raw, "/dbs/q/colls", text).json["DocumentCollections"]]
    assert names == sorted(names, reverse=True)


def test_offers(container: FilledContainer) -> None:
    """As the clients look for the throughput of a container."""
    raw = container.raw
    definition = raw.get(container.path).json
    for text, value in (
        ("SELECT * FROM root WHERE root.resource = @v", definition["_self"]),
        ("SELECT * FROM root r WHERE r.offerResourceId = @v", definition["_rid"]),
        ('SELECT * FROM c WHERE c["offerResourceId"] = @v', definition["_rid"]),
    ):
        (offer,) = meta(raw, "/offers", text, v=value).json["Offers"]
        assert offer["offerResourceId"] == definition["_rid"]
    assert meta(raw, "/offers", "SELECT * FROM root WHERE root.resource = 'x'").json["Offers"] == []


@pytest.mark.parametrize("path", ["/dbs", "/dbs/q/colls", "/offers"])
def test_bad_queries_over_metadata(query_client: RawClient, path: str) -> None:
    for text in ("SELECT", "SELECT * FROM", "SELECT NOPE(1)", "SELECT x.id FROM c", "SELECT '"):
        reply = meta(query_client, path, text)
        refused(reply)
        (problem,) = problems(reply)
        assert 0 <= problem.start <= problem.end <= len(text)


# Headers of the answer ----------------------------------------------------------------------------


def figures(reply: Reply) -> dict[str, str]:
    text = reply.headers["x-ms-documentdb-query-metrics"]
    return dict(each.split("=") for each in text.split(";"))


def test_figures_of_a_count(container: FilledContainer) -> None:
    """It loads no items, which clients read as: the index did all the work."""
    reply = container.query(
        "SELECT VALUE COUNT(1) FROM c", x_ms_documentdb_populatequerymetrics="true", **by_key("A")
    )
    assert rows(reply) == [3]
    assert "x-ms-continuation" not in reply.headers
    found = figures(reply)
    assert (found["retrievedDocumentCount"], found["retrievedDocumentSize"]) == ("0", "0")
    assert found["indexUtilizationRatio"] == "1.00"
    assert float(reply.headers["x-ms-request-charge"]) < 20


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        (ALL, "1.00"),
        (f"{ALL} WHERE c.n > 99", "1.00"),
        ("SELECT DISTINCT VALUE IS_OBJECT(c) FROM c", "0.33"),
        ("SELECT VALUE t FROM c JOIN t IN (SELECT VALUE [1, 2])", "1.00"),
    ],
)
def test_ratio_of_rows_and_loaded_items(container: FilledContainer, text: str, ratio: str) -> None:
    reply = container.query(text, x_ms_documentdb_populatequerymetrics="true", **by_key("A"))
    assert figures(reply)["indexUtilizationRatio"] == ratio


def test_figures(container: FilledContainer) -> None:
    reply = container.query(
        f"{ALL} WHERE c.n = 1", count="4", x_ms_documentdb_populatequerymetrics="True"
    )
    assert len(rows(reply)) == 4
    assert reply.headers["x-ms-item-count"] == "4"
    assert float(reply.headers["x-ms-request-charge"]) > 0
    found = figures(reply)
    assert found["outputDocumentCount"] == "4"
    assert int(found["retrievedDocumentCount"]) >= 4
    assert float(found["totalExecutionTimeInMs"]) >= 0
