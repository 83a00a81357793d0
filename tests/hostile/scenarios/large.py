"""Items of 2 MB: with escapes, patched in small steps, and in the change feed."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import MEGABYTES_2, PK, Attack, Attacker, Scenario
from tests.hostile.scenarios.queries import container_names
from tests.hostile.scenarios.writes import BULK
from tests.support.raw import RawClient

FILLINGS: Final = (b'{"a":[1.5]}', b'{"b":[]}')
CHANGES: Final = {"A-IM": "Incremental Feed"}


def _body(item_id: str, filling: bytes) -> bytes:
    """An item of almost 2 MB, which repeats `filling`."""
    start = f'{{"id":"{item_id}","pk":"a","x":['.encode()
    count = (MEGABYTES_2 - 4000) // (len(filling) + 1)
    return start + b",".join([filling] * count) + b"]}"


def _escapes(attack: Attack) -> None:
    bodies = [_body("1", b'"' + b"\\u003a" * 2000 + b'"'), _body("2", b'{"\\u003a":"\\u0022:"}')]
    upsert = PK | {"x-ms-documentdb-is-upsert": "true"}

    def work(attacker: Attacker, number: int) -> None:
        attacker.send("POST", attack.docs, bodies[number % 2], upsert)

    attack.swarm(2, work)


def _many_values(attack: Attack) -> None:
    """Each way to send many small values, with two bodies that replace each other."""
    values = [_body("1", filling)[len('{"id":"1","pk":"a","x":') : -1] for filling in FILLINGS]
    upsert = PK | {"x-ms-documentdb-is-upsert": "true"}
    requests = []
    for value in values:
        item = b'{"id":"1","pk":"a","x":' + value + b"}"
        operations = b'[{"operationType":"Upsert","resourceBody":' + item + b"}]"
        requests += [
            ("POST", attack.docs, item, upsert),
            ("POST", attack.docs, operations, BULK | PK),
            ("POST", attack.docs, operations, BULK | PK | {"x-ms-cosmos-batch-atomic": "True"}),
            ("POST", "/_perseid/import" + container_names(attack.container), item, {}),
        ]

    def work(attacker: Attacker, number: int) -> None:
        for request in requests:
            if not attack.is_over:
                attacker.send(*request)

    attack.swarm(3, work)


def _prepare_large(raw: RawClient, container: str) -> None:
    for item_id, filling in (("1", b'{"a":1,"b":[2,3]}'), ("2", b'"\\u00e9","y"')):
        body = _body(item_id, filling)
        headers = {"x-ms-documentdb-partitionkey": '["a"]'}
        reply = raw.request("POST", f"{container}/docs", body, headers)
        assert reply.status == 201, reply.body[:300]


def _patches(attack: Attack) -> None:
    change = {"operations": [{"op": "incr", "path": "/n", "value": 1}]}

    def work(attacker: Attacker, number: int) -> None:
        attacker.send("PATCH", f"{attack.docs}/{1 + number % 2}", change, PK)

    attack.swarm(2, work)


def _change_feed(attack: Attack) -> None:
    def work(attacker: Attacker, number: int) -> None:
        attacker.send("GET", attack.docs, headers=CHANGES)

    attack.swarm(2, work)


LARGE: Final = (
    Scenario("escaped-bodies", "writes of 2 MB that consist of escapes", _escapes),
    Scenario(
        "many-values",
        "upserts, batches, bulk requests and imports of 2 MB of small values",
        _many_values,
    ),
    Scenario("large-patches", "small patches of items of 2 MB", _patches, _prepare_large),
    Scenario("large-changes", "the change feed over items of 2 MB", _change_feed, _prepare_large),
)
