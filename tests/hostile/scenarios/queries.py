"""Queries that take long, need much memory, or make the server build indexes."""

from __future__ import annotations

import json
from typing import Final

from tests.hostile.attack import PK, READ_ONLY_KEY, Attack, Attacker, Limits, Scenario
from tests.support.raw import RawClient

SPLIT: Final = "(SELECT VALUE STRINGSPLIT(REPLICATE('a,',4000),','))"
METADATA: Final = (
    f"SELECT VALUE COUNT(1) FROM c JOIN a IN {SPLIT} JOIN b IN {SPLIT}",
    "SELECT VALUE LENGTH(UPPER(REPLACE(REPLICATE('a',10000),'a',REPLICATE('é',1500)))) FROM c",
)
BOMBS: Final = (
    "SELECT VALUE ARRAY(SELECT a, b, d FROM a IN c.a JOIN b IN c.a JOIN d IN c.a) FROM c",
    "SELECT VALUE MAKELIST({'x': x, 'y': y, 'z': z}) FROM c JOIN x IN c.a JOIN y IN c.a"
    " JOIN z IN c.a",
    "SELECT DISTINCT x, y, z FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT x, y, z FROM c JOIN x IN c.a JOIN y IN c.a"
    " JOIN z IN c.a)",
    "SELECT x, y, z, COUNT(1) AS n FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a"
    " GROUP BY x, y, z",
)
HEAVY: Final = (
    "SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a WHERE x + y + z = -1"
)
PATHS: Final = 60
CHURNED_ITEMS: Final = 1500


def _metadata_queries(attack: Attack) -> None:
    paths = ("/dbs", "/dbs/d/colls", "/offers", "/dbs/d/users")

    def work(attacker: Attacker, number: int) -> None:
        path, text = paths[number % len(paths)], METADATA[number // 2 % len(METADATA)]
        attacker.query(path, text, sign_with=READ_ONLY_KEY)

    attack.swarm(30, work)


def _prepare_array(raw: RawClient, container: str) -> None:
    body = {"id": "1", "pk": "a", "a": list(range(300))}
    assert raw.post(f"{container}/docs", body, pk='["a"]').status == 201


def _memory_bombs(attack: Attack) -> None:
    def work(attacker: Attacker, number: int) -> None:
        attacker.query(attack.docs, BOMBS[number % len(BOMBS)])

    attack.swarm(len(BOMBS), work)


def _heavy_queries(attack: Attack) -> None:
    def work(attacker: Attacker, number: int) -> None:
        attacker.query(attack.docs, HEAVY)

    attack.swarm(4, work)


def _prepare_paths(raw: RawClient, container: str) -> None:
    """Items with sixty properties."""
    for first in range(0, CHURNED_ITEMS, 500):
        lines = [
            {"id": str(number), "pk": "a"} | {f"p{path}": number % 97 for path in range(PATHS)}
            for number in range(first, first + 500)
        ]
        body = "\n".join(map(json.dumps, lines)).encode()
        reply = raw.request("POST", "/_perseid/import" + container_names(container), body)
        assert reply.status == 200, reply
        assert reply.json["created"] == 500, reply.json


def container_names(container: str) -> str:
    """`/database/container`, as administration paths have it."""
    _, _, database, _, name = container.split("/")
    return f"/{database}/{name}"


def _index_churn(attack: Attack) -> None:
    """Each query filters by another path, and writes go on meanwhile."""

    def work(attacker: Attacker, number: int) -> None:
        chance = attack.chance(number)
        for path in chance.sample(range(PATHS), PATHS):
            if attack.is_over:
                return
            if number:
                text = f"SELECT * FROM c WHERE c.p{path} = {chance.randrange(97)}"
                attacker.query(attack.docs, text)
            else:
                body = {"id": f"new{path}", "pk": "a"} | {f"p{each}": 1 for each in range(PATHS)}
                upsert = PK | {"x-ms-documentdb-is-upsert": "true"}
                attacker.send("POST", attack.docs, body, upsert)

    attack.swarm(4, work)


QUERIES: Final = (
    Scenario(
        "metadata-queries",
        "30 clients with a read-only key query databases, containers, offers and users",
        _metadata_queries,
    ),
    Scenario(
        "memory-bombs",
        "ARRAY, MAKELIST, DISTINCT and GROUP BY over 27 million rows",
        _memory_bombs,
        _prepare_array,
    ),
    Scenario(
        "index-churn",
        f"queries over {PATHS} paths at once, with writes meanwhile",
        _index_churn,
        _prepare_paths,
    ),
    Scenario(
        "heavy-queries",
        "four honest queries with three JOINs over an array of 300",
        _heavy_queries,
        _prepare_array,
        limits=Limits(p99_ms=10.0),
    ),
)
