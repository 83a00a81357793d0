"""Keys of client-side encryption, and the policies of containers that name them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.builders import PARTITION_KEY, create_container, temporary_database
from tests.support.change_feed import LATEST
from tests.support.raw import RawClient, Reply
from tests.support.replies import outcome
from tests.support.servers import RunningServer, Servers

PK = "x-ms-documentdb-partitionkey"
INTENDED = "x-ms-cosmos-intended-collection-rid"
READ_ONLY_KEY = base64.b64encode(b"only for reading, but 32 bytes and more").decode()
ALGORITHM = "AEAD_AES_256_CBC_HMAC_SHA256"
SYSTEM = ("_rid", "_self", "_etag", "_ts", "createTime")


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(read_only_key=READ_ONLY_KEY)


def key_of(name: str = "key", **changes: Any) -> dict[str, Any]:
    metadata = {"type": "own store", "name": "n", "value": "https://v/1", "algorithm": "RSA-OAEP"}
    return {
        "id": name,
        "encryptionAlgorithm": ALGORITHM,
        "keyWrapMetadata": metadata,
        "wrappedDataEncryptionKey": base64.b64encode(bytes(range(256))).decode(),
    } | changes


@pytest.fixture
def feed(database: str) -> str:
    return f"{database}/clientencryptionkeys"


def stored(raw: RawClient, feed: str) -> list[str]:
    return [each["id"] for each in raw.get(feed).json["ClientEncryptionKeys"]]


# Keys -------------------------------------------------------------------------------------------


def test_create_and_read(raw: RawClient, database: str, feed: str) -> None:
    owner = raw.get(database).json
    reply = raw.post(feed, key_of())
    made = reply.json
    assert reply.status == 201
    assert {name: made[name] for name in made if name not in SYSTEM} == key_of()
    assert made["createTime"] == made["_ts"]
    assert made["_self"] == f"{owner['_self']}clientencryptionkeys/{made['_rid']}/"
    assert reply.headers["etag"] == made["_etag"]
    assert float(reply.headers["x-ms-request-charge"]) > 0
    rid = base64.b64decode(made["_rid"].replace("-", "/"))
    above = base64.b64decode(owner["_rid"].replace("-", "/"))
    # The database, four zeros, the key, and the type of the resource.
    assert (len(rid), rid[:8], rid[12:]) == (16, above + bytes(4), b"\2\0\0\0")
    headers = {
        "x-ms-cosmos-allow-cachedreads": "true",
        "x-ms-cosmos-database-rid": owner["_rid"],
        "x-ms-cosmos-is-client-encrypted": "true",
    }
    for path in (f"{feed}/key", f"/{made['_self']}"):
        read = raw.request("GET", path, headers=headers)
        assert (read.status, read.json) == (200, made)
        assert read.headers["etag"] == made["_etag"]


def test_a_read_with_the_current_etag(raw: RawClient, feed: str) -> None:
    """304 makes a client tell its user that the key must be wrapped again."""
    etag = raw.post(feed, key_of()).headers["etag"]
    reply = raw.get(f"{feed}/key", if_none_match=etag)
    assert (reply.status, reply.body) == (304, b"")
    assert raw.get(f"{feed}/key", if_none_match='"other"').status == 200


def test_ids_are_unique_in_the_database(raw: RawClient, feed: str, name: str) -> None:
    assert raw.post(feed, key_of()).status == 201
    other = key_of(wrappedDataEncryptionKey="AAAA", encryptionAlgorithm="other")
    assert outcome(raw.post(feed, other)) == (409, 0, "Conflict")
    assert raw.get(f"{feed}/key").json["wrappedDataEncryptionKey"] != "AAAA"
    with temporary_database(raw, f"{name}-2") as second:
        assert raw.post(f"{second}/clientencryptionkeys", key_of()).status == 201


def test_replace(raw: RawClient, feed: str) -> None:
    made = raw.post(feed, key_of()).json
    wrapped = {"type": "t", "name": "n2", "value": "v2", "algorithm": "RSA-OAEP"}
    body = key_of(keyWrapMetadata=wrapped, wrappedDataEncryptionKey="BBBB")
    reply = raw.put(f"{feed}/key", body, if_match=made["_etag"])
    changed = reply.json
    assert reply.status == 200
    assert {name: changed[name] for name in body} == body
    assert (changed["_rid"], changed["createTime"]) == (made["_rid"], made["createTime"])
    assert reply.headers["etag"] == changed["_etag"] != made["_etag"]
    assert raw.get(f"{feed}/key").json == changed
    stale = raw.put(f"{feed}/key", key_of(), if_match=made["_etag"])
    assert outcome(stale) == (412, 0, "PreconditionFailed")
    assert outcome(raw.put(f"{feed}/none", key_of("none"))) == (404, 0, "NotFound")
    renamed = raw.put(f"{feed}/key", key_of("other"))
    assert outcome(renamed) == (400, 0, "BadRequest")
    assert "'key' and cannot be changed" in renamed.json["message"]
    assert raw.get(f"{feed}/key").json == changed


def test_the_time_of_creation_stays(raw: RawClient, feed: str, clock: Any) -> None:
    made = raw.post(feed, key_of()).json
    clock.advance(5)
    changed = raw.put(f"{feed}/key", key_of()).json
    assert changed["_ts"] > made["_ts"]
    assert changed["createTime"] == made["createTime"]


def test_lists_and_queries(raw: RawClient, database: str, feed: str) -> None:
    made = [raw.post(feed, key_of(f"k{number}")).json for number in range(3)]
    reply = raw.get(feed)
    assert reply.status == 200
    assert reply.json == {
        "_rid": raw.get(database).json["_rid"],
        "ClientEncryptionKeys": made,
        "_count": 3,
    }
    rows = raw.query(feed, "SELECT * FROM k WHERE k.id = 'k1'").json["ClientEncryptionKeys"]
    assert rows == [made[1]]


def test_missing_ones(raw: RawClient, database: str, feed: str) -> None:
    assert outcome(raw.get(f"{feed}/key")) == (404, 0, "NotFound")
    elsewhere = f"{database}-missing/clientencryptionkeys"
    for reply in (raw.get(elsewhere), raw.post(elsewhere, key_of())):
        assert (reply.status, reply.sub_status) == (404, 1003)


def test_they_are_neither_deleted_nor_upserted(raw: RawClient, feed: str) -> None:
    raw.post(feed, key_of())
    assert outcome(raw.delete(f"{feed}/key")) == (405, 0, "MethodNotAllowed")
    assert outcome(raw.post(feed, key_of(), upsert="true")) == (405, 0, "MethodNotAllowed")
    assert stored(raw, feed) == ["key"]


def test_they_go_with_their_database(raw: RawClient, database: str, feed: str, name: str) -> None:
    made = raw.post(feed, key_of()).json
    assert raw.delete(database).status == 204
    assert raw.post("/dbs", {"id": name}).status == 201
    assert stored(raw, feed) == []
    assert raw.post(feed, key_of()).json["_rid"] != made["_rid"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"id": None}, "required properties - 'id; ' - are missing"),
        ({"id": "a/b"}, "may not contain"),
        ({"encryptionAlgorithm": None}, "'encryptionAlgorithm; ' - are missing"),
        ({"encryptionAlgorithm": ""}, "'encryptionAlgorithm' must be a string"),
        ({"keyWrapMetadata": None}, "'keyWrapMetadata; ' - are missing"),
        ({"keyWrapMetadata": []}, "'keyWrapMetadata' must be an object"),
        ({"keyWrapMetadata": {"type": 5}}, "'keyWrapMetadata.type' must be a string"),
        ({"wrappedDataEncryptionKey": None}, "'wrappedDataEncryptionKey; ' - are missing"),
        ({"wrappedDataEncryptionKey": 7}, "'wrappedDataEncryptionKey' must be base64"),
        ({"wrappedDataEncryptionKey": "no base64"}, "'wrappedDataEncryptionKey' must be base64"),
        ({"wrappedDataEncryptionKey": ""}, "'wrappedDataEncryptionKey' must be base64"),
    ],
)
def test_bodies_that_are_refused(
    raw: RawClient, feed: str, change: dict[str, Any], text: str
) -> None:
    made = raw.post(feed, key_of("x")).json
    for reply in (raw.post(feed, key_of(**change)), raw.put(f"{feed}/x", key_of("x") | change)):
        assert outcome(reply) == (400, 0, "BadRequest")
        assert text in reply.json["message"]
    assert raw.get(feed).json["ClientEncryptionKeys"] == [made]


def test_a_key_that_can_only_read(raw: RawClient, feed: str) -> None:
    raw.post(feed, key_of())
    for reply in (
        raw.request("GET", feed, sign_with=READ_ONLY_KEY),
        raw.request("GET", f"{feed}/key", sign_with=READ_ONLY_KEY),
    ):
        assert reply.status == 200
    for reply in (
        raw.request("POST", feed, key_of("other"), sign_with=READ_ONLY_KEY),
        raw.request("PUT", f"{feed}/key", key_of(), sign_with=READ_ONLY_KEY),
    ):
        assert outcome(reply) == (403, 0, "Forbidden")
    assert stored(raw, feed) == ["key"]


# Policies of containers -------------------------------------------------------------------------


def path_of(path: Any = "/p", **changes: Any) -> dict[str, Any]:
    return {
        "path": path,
        "clientEncryptionKeyId": "key",
        "encryptionType": "Deterministic",
        "encryptionAlgorithm": ALGORITHM,
    } | changes


def policy_of(*paths: Any, version: Any = 1) -> dict[str, Any]:
    return {"includedPaths": list(paths), "policyFormatVersion": version}


def define(raw: RawClient, database: str, policy: Any, **properties: Any) -> Reply:
    body = {"id": "e", "partitionKey": PARTITION_KEY, "clientEncryptionPolicy": policy}
    return raw.post(f"{database}/colls", body | properties)


RANDOMIZED = {"encryptionType": "Randomized"}
POLICIES = [
    policy_of(),
    policy_of(path_of("/z"), path_of("/a", **RANDOMIZED)),
    policy_of(path_of("/id"), path_of("/pk"), path_of("/x", **RANDOMIZED), version=2),
    {"policyFormatVersion": 1, "includedPaths": [path_of() | {"further": [1]}], "more": None},
    {"includedPaths": [path_of()]},
]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_comes_back_as_sent(
    raw: RawClient, database: str, feed: str, policy: dict[str, Any]
) -> None:
    raw.post(feed, key_of())
    created = define(raw, database, policy)
    read = raw.get(f"{database}/colls/e")
    assert (created.status, read.status) == (201, 200)
    for reply in (created, read):
        assert json.dumps(reply.json["clientEncryptionPolicy"]) == json.dumps(policy)


UNKNOWN = "ClientEncryptionKey with id '[none]' does not exist."
DETERMINISTIC = "has to be encrypted with Deterministic"
DUPLICATE = "Duplicate path found: /p"
TOP_LEVEL = "Only top-level paths are currently supported for encryption"
VERSION_2 = "Encryption of partition key or id is only supported with policy format version 2"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (policy_of(path_of(clientEncryptionKeyId="none")), UNKNOWN),
        (policy_of(path_of(), path_of(**RANDOMIZED)), DUPLICATE),
        (policy_of(path_of("/p/q")), TOP_LEVEL),
        (policy_of(path_of("p")), "must start with '/'"),
        (policy_of(path_of("/")), "must be a top-level path"),
        (policy_of(path_of("")), "must be a top-level path"),
        (policy_of(path_of(path=None)), "must be a top-level path"),
        (policy_of(path_of(path=5)), "must be a top-level path"),
        (policy_of(path_of(clientEncryptionKeyId="")), "clientEncryptionKeyId' must be"),
        (policy_of(path_of(clientEncryptionKeyId=None)), "clientEncryptionKeyId' must be"),
        (policy_of(path_of(encryptionType="Plaintext")), "encryptionType' must be"),
        (policy_of(path_of(encryptionType=None)), "encryptionType' must be"),
        (policy_of(path_of(encryptionAlgorithm="")), "encryptionAlgorithm' must be"),
        (policy_of(path_of("/id", **RANDOMIZED), version=2), DETERMINISTIC),
        (policy_of(path_of("/pk", **RANDOMIZED), version=2), DETERMINISTIC),
        (policy_of(path_of("/id")), VERSION_2),
        (policy_of(path_of("/pk")), VERSION_2),
        ({"includedPaths": [path_of("/id")]}, VERSION_2),
        (policy_of(path_of(), version=0), "policyFormatVersion' must be 1 or 2"),
        (policy_of(path_of(), version=3), "policyFormatVersion' must be 1 or 2"),
        (policy_of(path_of(), version="1"), "policyFormatVersion' must be 1 or 2"),
        ({"policyFormatVersion": 1}, "includedPaths' must be an array"),
        ({"includedPaths": {}, "policyFormatVersion": 1}, "includedPaths' must be an array"),
        (policy_of(5), "includedPaths[0]' must be an object"),
        ("text", "'clientEncryptionPolicy' must be an object"),
    ],
)  # fmt: skip
def test_policies_that_are_refused(
    raw: RawClient, database: str, feed: str, policy: Any, text: str
) -> None:
    raw.post(feed, key_of())
    reply = define(raw, database, policy)
    assert outcome(reply) == (400, 0, "BadRequest")
    assert text in reply.json["message"]
    assert raw.get(f"{database}/colls/e").status == 404


def test_the_top_of_a_nested_partition_key(raw: RawClient, database: str, feed: str) -> None:
    """What is encrypted is the whole property, and with it the key inside."""
    raw.post(feed, key_of())
    key = {"paths": ["/top/inner", "/b"], "kind": "MultiHash", "version": 2}
    for path in ("/top", "/b"):
        reply = define(raw, database, policy_of(path_of(path)), partitionKey=key)
        assert (reply.status, VERSION_2 in reply.json["message"]) == (400, True)
    assert (
        define(raw, database, policy_of(path_of("/top"), version=2), partitionKey=key).status == 201
    )


def test_a_policy_stays(raw: RawClient, database: str, feed: str) -> None:
    raw.post(feed, key_of())
    made = define(raw, database, policy_of(path_of())).json
    changed = policy_of(path_of(encryptionType="Randomized"))
    for policy in (None, policy_of(), changed, policy_of(path_of(), version=2)):
        reply = raw.put(f"{database}/colls/e", made | {"clientEncryptionPolicy": policy})
        assert outcome(reply) == (400, 0, "BadRequest")
        text = "'clientEncryptionPolicy' cannot be changed as part of collection replace operation."
        assert text in reply.json["message"]
    assert raw.get(f"{database}/colls/e").json == made
    reply = raw.put(f"{database}/colls/e", made | {"defaultTtl": 60})
    assert (reply.status, reply.json["clientEncryptionPolicy"]) == (200, policy_of(path_of()))


def test_a_policy_is_not_added_later(raw: RawClient, database: str, container: str) -> None:
    made = raw.get(container).json
    reply = raw.put(container, made | {"clientEncryptionPolicy": policy_of()})
    assert outcome(reply) == (400, 0, "BadRequest")
    assert raw.get(container).json == made


# The container that a client means ---------------------------------------------------------------


def operation(kind: str) -> dict[str, Any]:
    return {"operationType": kind, "resourceBody": {"id": "2", "pk": "a"}, "partitionKey": '["a"]'}


BATCH = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
BULK = BATCH | {"x-ms-cosmos-batch-atomic": "False", "x-ms-cosmos-batch-continue-on-error": "True"}
QUERY = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "true"}
PLAN = QUERY | {
    "x-ms-cosmos-is-query-plan-request": "True",
    "x-ms-cosmos-supported-query-features": "OrderBy",
}
TEXT = {"query": "SELECT * FROM c", "parameters": []}
PATCH = {"operations": [{"op": "set", "path": "/x", "value": 1}]}
ITEM = {"id": "1", "pk": "a"}
CALLS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/docs", {"id": "2", "pk": "a"}, {}),
    ("POST", "/docs", ITEM, {"x-ms-documentdb-is-upsert": "true"}),
    ("GET", "/docs/1", None, {}),
    ("PUT", "/docs/1", ITEM, {}),
    ("PATCH", "/docs/1", PATCH, {}),
    ("GET", "/docs", None, {}),
    ("GET", "/docs", None, LATEST),
    ("POST", "/docs", TEXT, QUERY),
    ("POST", "/docs", TEXT, PLAN),
    ("POST", "/docs", [operation("Create")], BATCH),
    ("POST", "/docs", [operation("Create")], BULK | {"x-ms-documentdb-partitionkeyrangeid": "0"}),
    ("DELETE", "/docs/1", None, {}),
    ("POST", "/operations/partitionkeydelete", None, {}),
]


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    CALLS,
    ids=["create", "upsert", "read", "replace", "patch", "list", "change feed", "query", "plan",
         "batch", "bulk", "delete", "delete by key"],
)  # fmt: skip
def test_every_item_call_of_another_container(
    raw: RawClient, container: str, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    """The client reloads policy and keys; otherwise it would write with those of the old one."""
    rid = raw.get(container).json["_rid"]
    assert raw.post(f"{container}/docs", ITEM, pk='["a"]').status == 201
    before = raw.get(f"{container}/docs").json
    sent = {"x-ms-cosmos-is-client-encrypted": "true", PK: '["a"]'} | headers
    if "partitionkeyrangeid" in str(headers):
        del sent[PK]
    stale = raw.request(method, f"{container}{path}", body, sent | {INTENDED: "AAAAAIAAAAA="})
    assert outcome(stale) == (400, 1024, "BadRequest")
    assert raw.get(f"{container}/docs").json == before
    current = raw.request(method, f"{container}{path}", body, sent | {INTENDED: rid})
    assert current.status < 300


@pytest.fixture
def encrypted(raw: RawClient, database: str, feed: str) -> str:
    raw.post(feed, key_of())
    paths = [path_of(path) for path in ("/id", "/pk", "/p")]
    policy = policy_of(*paths, version=2)
    return create_container(raw, database, "e", clientEncryptionPolicy=policy)


def test_ciphertext_is_stored_and_compared(raw: RawClient, encrypted: str) -> None:
    """Ids and keys are base64 with `_` and `-`, and keep their `=`."""
    item = {"id": "A_z-9Q==", "pk": "q/7+ZA==", "p": ["YQ==", None], "n": "eA=="}
    pk = json.dumps([item["pk"]])
    assert raw.post(f"{encrypted}/docs", item, pk=pk).status == 201
    assert raw.get(f"{encrypted}/docs/{item['id']}", pk=pk).json["p"] == item["p"]
    text = "SELECT VALUE COUNT(1) FROM c WHERE c.n = @n AND ARRAY_CONTAINS(@list, c.pk)"
    parameters = [{"name": "@n", "value": "eA=="}, {"name": "@list", "value": [item["pk"]]}]
    assert raw.query(f"{encrypted}/docs", text, parameters).json["Documents"] == [1]
    patch = {"operations": [{"op": "set", "path": "/p/1", "value": "Yg=="}]}
    patched = raw.request("PATCH", f"{encrypted}/docs/{item['id']}", patch, {PK: pk})
    assert patched.json["p"] == ["YQ==", "Yg=="]
