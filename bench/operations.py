"""The rows that compare databases, and numbers of server processes; loads their documents."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from bench.cpu_time import Operation, target_of
from bench.load import send_all
from bench.queries import EQUALITY, GROUPED, ORDERED, Query, variants
from bench.servers import Server
from bench.signing import Request, Target
from bench.workload import (
    CREATED,
    DATABASE,
    PRELOADED,
    fresh_creates,
    point_reads,
    preload,
    setup,
    upserts,
)

_LOADING_CONNECTIONS: Final = 32
_QUERY_CONNECTIONS: Final = 8
# Creates and upserts have their own containers: otherwise queries would have more to do on the
# server that has written more.
_UPSERTED: Final = f"{DATABASE}/colls/upserted"
_COUNTED: Final = Query(
    "COUNT of a third", "SELECT VALUE COUNT(1) FROM c WHERE c.active = false", 0
)


def _equalities(target: Target, documents: int) -> list[Request]:
    """Each of them matches one document."""

    def values(number: int) -> dict[str, str]:
        return {"@email": f"customer{number * 7919 % documents}@example.com"}

    return variants(target, EQUALITY._replace(values=values))


def _query(query: Query) -> Operation:
    def requests(target: Target, _documents: int) -> list[Request]:
        return variants(target, query)

    return Operation(query.name, 200, requests, _QUERY_CONNECTIONS)


OPERATIONS: Final = (
    Operation("point read", 200, point_reads),
    Operation("point read, 1 connection", 200, point_reads, 1),
    Operation("create", 201, fresh_creates),
    Operation("create, 1 connection", 201, fresh_creates, 1),
    Operation("upsert", 200, partial(upserts, path=_UPSERTED)),
    Operation(EQUALITY.name, 200, _equalities, _QUERY_CONNECTIONS),
    _query(ORDERED),
    _query(_COUNTED),
    _query(GROUPED),
)


class Plan(NamedTuple):
    """Which rows, on how many documents, for how long."""

    operations: Sequence[Operation]
    pairs: int
    seconds: int
    documents: int

    def conditions(self, client: str) -> dict[str, Any]:
        return {
            "python": platform.python_version(),
            "client": client,
            "cores": os.cpu_count(),
            "pairs": self.pairs,
            "seconds": self.seconds,
            "documents": self.documents,
        }


def load(server: Server, documents: int) -> None:
    """Creates the containers, and the documents of all rows except create."""
    target = target_of(server)
    send_all(server.port, setup(target, (PRELOADED, CREATED, _UPSERTED)), 201)
    for path in (PRELOADED, _UPSERTED):
        requests = preload(target_of(server), range(documents), path)
        send_all(server.port, requests, 201, _LOADING_CONNECTIONS)
