"""Random requests: each gets a well-formed answer, and the server keeps working."""

from __future__ import annotations

import json
import re

import hypothesis
from hypothesis import strategies as st

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer

# Anything at all ---------------------------------------------------------------------------------


NAMES = st.sampled_from(
    ["d", "c", "1", "x", "", "..", "%", "%zz", "%ff", "a%2Fb", "é", " ", "AQ=="]
)
STEPS = st.sampled_from(["dbs", "colls", "docs", "pkranges", "offers", "_perseid", "nowhere"])
SAFE = "/%?=&+;,:@!$*'()~._-"
PATHS = st.one_of(
    st.tuples(STEPS, NAMES, STEPS, NAMES, STEPS, NAMES).flatmap(
        lambda parts: st.integers(0, 6).map(lambda count: "/" + "/".join(parts[:count]))
    ),
    st.sampled_from(["/dbs", "/dbs/d", "/dbs/d/colls", "/dbs/d/colls/c", "/dbs/d/colls/c/docs"]),
    st.text(st.sampled_from([*SAFE, *"dbscolldocs019zZ"]), max_size=30).map(
        lambda text: f"/{text}"
    ),
)
METHODS = st.sampled_from(["GET", "POST", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
HEADERS = st.sampled_from([
    "a-im", "authorization", "content-type", "if-match", "if-modified-since", "if-none-match",
    "prefer", "x-ms-activity-id", "x-ms-consistency-level", "x-ms-continuation",
    "x-ms-cosmos-allow-tentative-writes", "x-ms-cosmos-batch-atomic",
    "x-ms-cosmos-batch-continue-on-error", "x-ms-cosmos-intended-collection-rid",
    "x-ms-cosmos-is-batch-request", "x-ms-cosmos-is-query-plan-request",
    "x-ms-cosmos-migrate-offer-to-autopilot", "x-ms-cosmos-offer-autopilot-settings",
    "x-ms-cosmos-priority-level", "x-ms-cosmos-supported-query-features",
    "x-ms-cosmos-throughput-bucket", "x-ms-date", "x-ms-documentdb-expiry-seconds",
    "x-ms-documentdb-is-upsert", "x-ms-documentdb-isquery", "x-ms-documentdb-partitionkey",
    "x-ms-documentdb-partitionkeyrangeid", "x-ms-documentdb-populatequotainfo",
    "x-ms-documentdb-query-enablecrosspartition", "x-ms-documentdb-populatequerymetrics",
    "x-ms-documentdb-responsecontinuationtokenlimitinkb", "x-ms-end-epk",
    "x-ms-indexing-directive", "x-ms-max-item-count", "x-ms-offer-throughput",
    "x-ms-read-key-type", "x-ms-session-token", "x-ms-start-epk", "x-ms-version",
])  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(["true", "True", "false", "*", '"x"', '["a"]', "[{}]", "[]", "[null]",
                     "[1e999]", "0", "1", "-1", "400", "0:-1#0", "0:-1#9", "FF", "ff0",
                     "Incremental Feed", "Full-Fidelity Feed", "EffectivePartitionKeyRange",
                     "application/query+json",
                     '{"maxThroughput":4000}', "Sun, 06 Nov 1994 08:49:37 GMT", "return=minimal"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"),
            max_size=40),
)  # fmt: skip
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["/pk", "/*", "d", "c", "Hash", "none", "SELECT * FROM c", "@p"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from([
                "id", "pk", "paths", "kind", "version", "partitionKey", "indexingPolicy", "ttl",
                "indexingMode", "includedPaths", "excludedPaths", "path", "defaultTtl", "query",
                "uniqueKeyPolicy", "uniqueKeys", "parameters", "name", "value", "content",
                "offerThroughput", "operations", "op", "condition", "operationType",
                "resourceBody", "computedProperties", "vectorEmbeddingPolicy", "_rid", "_ts",
                "compositeIndexes", "spatialIndexes", "vectorIndexes", "fullTextPolicy",
            ]),
            inner,
            max_size=6,
        ),
    ),
    max_leaves=20,
)  # fmt: skip
CONTENTS = st.one_of(
    st.none(),
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    JSON.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")),
)


# The id that a client sends is returned as it is; a header value may contain single spaces.
ACTIVITY_ID = re.compile(r"[!-~\x80-\xff]+( [!-~\x80-\xff]+)*")


def assert_answered(reply: Reply) -> None:
    assert 200 <= reply.status < 500
    assert ACTIVITY_ID.fullmatch(reply.headers["x-ms-activity-id"])
    if reply.status in (204, 304):
        assert reply.body == b""
    if reply.status >= 400:
        assert reply.headers["content-type"] == "application/json"
        assert isinstance(reply.json["code"], str)
        assert reply.json["code"]
        assert reply.json["message"]


def ask_once(
    server: RawClient, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> Reply:
    """On a connection of its own, so that no request suffers for another."""
    client = RawClient(server.endpoint)
    try:
        return client.request(method, "/", body, headers, raw_path=path)
    finally:
        client.close()


@hypothesis.settings(max_examples=200, deadline=None, database=None, derandomize=True)
@hypothesis.given(
    method=METHODS,
    path=PATHS,
    headers=st.dictionaries(HEADERS, VALUES, max_size=5),
    body=CONTENTS,
)
def test_random_requests(
    open_server: RawClient, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> None:
    wire = path.encode("utf-8").decode("latin-1")
    wire = "".join(c if "!" <= c <= "~" else f"%{ord(c):02X}" for c in wire)
    assert_answered(ask_once(open_server, method, wire, headers, body))


@hypothesis.settings(max_examples=200, deadline=None, database=None, derandomize=True)
@hypothesis.given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE"]),
    path=st.sampled_from(
        ["/dbs", "/dbs/d", "/dbs/d/colls", "/dbs/d/colls/c", "/dbs/d/colls/c/docs",
         "/dbs/d/colls/c/docs/1", "/dbs/d/colls/c/pkranges", "/offers", "/offers/AAAB"]
    ),
    headers=st.dictionaries(HEADERS.filter(lambda h: h != "x-ms-date"), VALUES, max_size=4),
    body=CONTENTS,
)  # fmt: skip
def test_random_requests_to_what_exists(
    open_server: RawClient, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> None:
    open_server.post("/dbs", {"id": "d"})
    open_server.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
    open_server.post("/dbs/d/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert_answered(ask_once(open_server, method, path, headers, body))


@hypothesis.settings(max_examples=100, deadline=None, database=None, derandomize=True)
@hypothesis.given(
    token=st.one_of(VALUES, VALUES.map(lambda text: f"type=master&ver=1.0&sig={text}")),
    date=VALUES,
)
def test_random_signatures(server: RunningServer, token: str, date: str) -> None:
    client = RawClient(server.endpoint)
    headers = {"authorization": token, "x-ms-date": date}
    reply = client.request("GET", "/dbs", headers=headers, sign_with=None)
    client.close()
    assert reply.status == 401
    assert reply.json["code"] == "Unauthorized"


def test_the_account_works_after_all_this(open_server: RawClient, name: str) -> None:
    path = f"/dbs/{name}"
    assert open_server.get("/").status == 200
    assert open_server.post("/dbs", {"id": name}).status == 201
    assert (
        open_server.post(f"{path}/colls", {"id": "c", "partitionKey": PARTITION_KEY}).status == 201
    )
    made = open_server.post(f"{path}/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]')
    assert made.status == 201
    assert open_server.get(f"{path}/colls/c/docs/1", pk='["a"]').json == made.json
    assert open_server.delete(path).status == 204
    assert open_server.get("/dbs").status == 200
