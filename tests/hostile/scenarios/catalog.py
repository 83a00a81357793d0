"""Much work for one request: a database with many containers, an import of bad lines."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import Attack, Attacker, Scenario
from tests.hostile.scenarios.queries import container_names
from tests.support.builders import create_container
from tests.support.raw import RawClient

CONTAINERS: Final = 1200


def _delete(attack: Attack) -> None:
    def work(attacker: Attacker, number: int) -> None:
        attacker.send("DELETE", "/dbs/many")
        attack.rest()

    attack.swarm(1, work)


def database_delete(containers: int) -> Scenario:
    def prepare(raw: RawClient, container: str) -> None:
        assert raw.post("/dbs", {"id": "many"}).status == 201
        for number in range(containers):
            create_container(raw, "/dbs/many", f"c{number}")

    return Scenario(
        "database-delete",
        f"a database with {containers:,} containers is deleted",
        _delete,
        prepare,
        least_seconds=5.0,
    )


def _bad_imports(attack: Attack) -> None:
    path = "/_perseid/import" + container_names(attack.container)
    body = b"x\n" * 1_000_000

    def work(attacker: Attacker, number: int) -> None:
        attacker.send("POST", path, body)

    attack.swarm(2, work)


CATALOG: Final = (
    database_delete(CONTAINERS),
    Scenario("bad-imports", "imports of a million lines that are no items", _bad_imports),
)
