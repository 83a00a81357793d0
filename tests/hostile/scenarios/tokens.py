"""Keys and tokens that allow little, used for everything."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.hostile.attack import PK, QUERY, READ_ONLY_KEY, Attack, Attacker, Scenario
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply

B: Final = {"x-ms-documentdb-partitionkey": '["b"]'}
UPSERT: Final = {"x-ms-documentdb-is-upsert": "true"}
CHANGE: Final = {"operations": [{"op": "set", "path": "/n", "value": 1}]}
USER: Final = "/dbs/d/users/u"
SECRET: Final = "this is in the other partition"
Request = tuple[str, str, Any, dict[str, str]]


def _prepare(raw: RawClient, container: str) -> None:
    for pk, text in (("a", "own"), ("b", SECRET)):
        body = {"id": "1", "pk": pk, "text": text}
        assert raw.post(f"{container}/docs", body, pk=json.dumps([pk])).status == 201
    assert raw.post("/dbs/d/users", {"id": "u"}).status == 201
    link = container.strip("/")
    permissions: list[dict[str, Any]] = [
        {"id": "a", "resource": link, "resourcePartitionKey": ["a"]},
        {"id": "item", "resource": f"{link}/docs/1", "resourcePartitionKey": ["a"]},
    ]
    for permission in permissions:
        body = permission | {"permissionMode": "All"}
        assert raw.post(f"{USER}/permissions", body).status == 201


def _writes(docs: str, pk: dict[str, str], name: str) -> list[Request]:
    """Writes to a partition."""
    item = {"id": "1", "pk": name}
    operation = [{"operationType": "Delete", "id": "1"}]
    batch = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
    clear = docs.removesuffix("/docs") + "/operations/partitionkeydelete"
    return [
        ("POST", docs, item, pk | UPSERT),
        ("PUT", f"{docs}/1", item, pk),
        ("PATCH", f"{docs}/1", CHANGE, pk),
        ("DELETE", f"{docs}/1", None, pk),
        ("POST", docs, operation, pk | batch),
        ("POST", clear, None, pk),
    ]


def _everything_else(container: str) -> list[Request]:
    """What neither a read-only key nor a token for items may do."""
    return [
        ("POST", "/dbs", {"id": "new"}, {}),
        ("DELETE", "/dbs/d", None, {}),
        ("POST", "/dbs/d/colls", {"id": "new", "partitionKey": PARTITION_KEY}, {}),
        ("PUT", container, {"id": "attacked", "partitionKey": PARTITION_KEY}, {}),
        ("DELETE", container, None, {}),
        ("POST", "/dbs/d/users", {"id": "new"}, {}),
        ("GET", f"{USER}/permissions/a", None, {}),
        ("GET", f"{USER}/permissions", None, {}),
        ("POST", "/_perseid/ttl/drain", None, {}),
        ("POST", "/_perseid/sweeper/pause", None, {}),
        ("GET", "/_perseid/metrics", None, {}),
        ("POST", "/_perseid/import/d/attacked", b'{"id":"2","pk":"b"}', {}),
        ("POST", f"{container}/sprocs", {"id": "s", "body": "function () {}"}, {}),
    ]


def _reads_of_others(docs: str) -> list[Request]:
    """Reads of another partition, by every way to name it."""
    text = {"query": "SELECT * FROM c"}
    return [
        ("GET", f"{docs}/1", None, B),
        ("POST", docs, text, QUERY | B),
        ("POST", docs, text, dict(QUERY)),
        ("POST", docs, text, QUERY | B | {"x-ms-documentdb-partitionkeyrangeid": "0"}),
        ("GET", docs, None, {}),
        ("GET", docs, None, B),
        ("GET", docs, None, {"A-IM": "Incremental Feed"}),
        ("GET", docs, None, {"A-IM": "Incremental Feed"} | B),
        ("GET", "/dbs", None, {}),
        ("GET", "/offers", None, {}),
    ]


def _renames(docs: str) -> list[Request]:
    """What a token for the item `1` must not do: make another item of it."""
    other = {"id": "2", "pk": "a"}
    rename = {"operations": [{"op": "set", "path": "/id", "value": "2"}]}
    return [
        ("PUT", f"{docs}/1", other, PK),
        ("PATCH", f"{docs}/1", rename, PK),
        ("POST", docs, other, PK),
        ("GET", f"{docs}/2", None, PK),
    ]


def _token(attacker: Attacker, permission: str) -> str:
    token: str = attacker.raw.get(f"{USER}/permissions/{permission}").json["_token"]
    return token


def _check(attack: Attack, who: str, request: Request, reply: Reply | None) -> None:
    if reply is None:
        return
    if reply.status < 400 or SECRET.encode() in reply.body:
        what = f"{who} {request[0]} {request[1]} {request[3]}: {reply.status} {reply.body[:200]!r}"
        attack.tally.fail("not refused", what)


def _probes(attack: Attack) -> None:
    requests_of_key = _everything_else(attack.container) + _writes(attack.docs, PK, "a")
    requests_of_token = (
        _everything_else(attack.container)
        + _writes(attack.docs, B, "b")
        + _reads_of_others(attack.docs)
    )

    def work(attacker: Attacker, number: int) -> None:
        chance = attack.chance(number)
        token, of_item = _token(attacker, "a"), _token(attacker, "item")
        for request in requests_of_key:
            reply = attacker.send(*request, sign_with=READ_ONLY_KEY)
            _check(attack, "read-only key", request, reply)
        for request in requests_of_token:
            _check(attack, "token", request, attacker.send(*request, token=token))
            place = chance.randrange(len(token))
            forged = token[:place] + chance.choice("Aa0=&;%") + token[place + 1 :]
            if forged != token:
                _check(attack, "forged token", request, attacker.send(*request, token=forged))
            _check(attack, "no key", request, attacker.send(*request, sign_with=None))
        for request in _renames(attack.docs):
            _check(attack, "token of an item", request, attacker.send(*request, token=of_item))
            own_item = {"id": "1", "pk": "a"}  # if it was renamed
            attacker.send("POST", attack.docs, own_item, PK | UPSERT)
            attacker.send("DELETE", f"{attack.docs}/2", None, PK)
        own = ("GET", f"{attack.docs}/1", None, PK)
        reply = attacker.send(*own, token=token)
        if reply is not None and reply.status != 200:
            attack.tally.fail("refused what is allowed", f"{reply.status} {reply.body[:200]!r}")

    attack.swarm(1, work)


TOKENS: Final = (
    Scenario(
        "tokens",
        "a read-only key, a token for one partition, forged tokens and no key, used for everything",
        _probes,
        _prepare,
    ),
)
