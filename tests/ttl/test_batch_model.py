"""Random batches against a small model of a logical partition, while time goes by."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, note
from hypothesis import settings as examples
from hypothesis import strategies as st

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY, temporary_database
from tests.support.operations import codes, stored_items
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.support.ttl_containers import TtlContainers

DEFAULT_TTL: Final = 3
IDS: Final = ("a", "b", "c")
_names = itertools.count()


class Refused(Exception):
    pass


class Model:
    """Items of one partition: id to body, with `_ts`, and a number that stands for the etag."""

    def __init__(self) -> None:
        self.items: dict[str, dict[str, Any]] = {}
        self.versions = itertools.count(1)
        self.now = 0

    def live(self) -> dict[str, dict[str, Any]]:
        return {
            id_: item
            for id_, item in self.items.items()
            if item.get("ttl", DEFAULT_TTL) == -1
            or item["_ts"] + item.get("ttl", DEFAULT_TTL) > self.now
        }

    def run(self, operations: list[dict[str, Any]], *, atomic: bool) -> list[int]:
        before, found = copy.deepcopy(self.items), []
        for operation in operations:
            try:
                found.append(self.one(operation))
            except Refused as refusal:
                found.append(refusal.args[0])
                if atomic:
                    self.items = before
                    failed = [424] * len(operations)
                    failed[len(found) - 1] = refusal.args[0]
                    return failed
        return found

    def one(self, operation: dict[str, Any]) -> int:
        kind, id_ = operation["operationType"], operation.get("id")
        body = operation.get("resourceBody")
        if kind != "Patch" and body is not None and body.get("ttl", 1) == 0:
            raise Refused(400)
        live = self.live()
        if kind in ("Create", "Upsert"):
            assert body is not None
            old = live.get(body["id"])
            if kind == "Create" and old is not None:
                raise Refused(409)
            self._match(old, operation)
            self._put(body, old)
            return 200 if old is not None else 201
        assert id_ is not None
        if id_ not in live:
            raise Refused(404)
        self._match(live[id_] if kind != "Read" else None, operation)
        if kind == "Read":
            return 200
        if kind == "Delete":
            del self.items[id_]
            return 204
        if kind == "Patch":
            assert body is not None
            if body.get("condition") and live[id_].get("n", 0) < 2:
                raise Refused(412)
            body = self._patched(live[id_], body["operations"][0])
        assert body is not None
        if body["id"] != id_ and body["id"] in live:
            raise Refused(409)
        self._put(body, live[id_], id_)
        return 200

    def _match(self, old: dict[str, Any] | None, operation: dict[str, Any]) -> None:
        if old is not None and "ifMatch" in operation and operation["ifMatch"] != old["_etag"]:
            raise Refused(412)

    def _patched(self, old: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any]:
        name = operation["path"][1:]
        body = {key: value for key, value in old.items() if key[0] != "_"}
        if operation["op"] == "remove":
            if name not in body:
                raise Refused(400)
            del body[name]
        elif operation["op"] == "incr":
            body[name] = body.get(name, 0) + operation["value"]
        else:
            body[name] = operation["value"]
        if body.get("ttl", 1) < -1 or body.get("ttl", 1) == 0:
            raise Refused(400)
        return body

    def _put(
        self, body: dict[str, Any], old: dict[str, Any] | None, old_id: str | None = None
    ) -> None:
        for id_, other in self.live().items():
            if id_ not in (old_id, body["id"] if old is not None else None) and other.get(
                "mail"
            ) == body.get("mail"):
                raise Refused(409)
        if old_id is not None:
            self.items.pop(old_id, None)
        self.items[body["id"]] = body | {"_ts": self.now, "_etag": f"v{next(self.versions)}"}


# What clients send -------------------------------------------------------------------------------

BODIES = st.fixed_dictionaries(
    {"id": st.sampled_from(IDS), "pk": st.just("p")},
    optional={
        "ttl": st.sampled_from([-1, 1, 2, 5, 5, 0]),
        "mail": st.sampled_from(["x", "y", "z", "u", "v", "w"]),
        "n": st.integers(0, 3),
    },
)
PATCHES = st.fixed_dictionaries(
    {
        "operations": st.lists(
            st.one_of(
                st.fixed_dictionaries(
                    {
                        "op": st.just("set"),
                        "path": st.just("/mail"),
                        "value": st.sampled_from(["x", "y", "z"]),
                    }
                ),
                st.fixed_dictionaries(
                    {
                        "op": st.just("incr"),
                        "path": st.sampled_from(["/n", "/ttl"]),
                        "value": st.integers(-2, 3),
                    }
                ),
                st.fixed_dictionaries(
                    {"op": st.just("remove"), "path": st.sampled_from(["/ttl", "/mail", "/n"])}
                ),
            ),
            min_size=1,
            max_size=1,
        )
    },
    optional={"condition": st.just("from c where c.n >= 2")},
)
OPERATIONS = st.one_of(
    st.builds(
        lambda kind, body: {"operationType": kind, "resourceBody": body},
        st.sampled_from(["Create", "Create", "Upsert"]),
        BODIES,
    ),
    st.builds(
        lambda id_, body: {"operationType": "Replace", "id": id_, "resourceBody": body},
        st.sampled_from(IDS),
        BODIES,
    ),
    st.builds(
        lambda id_, body: {"operationType": "Patch", "id": id_, "resourceBody": body},
        st.sampled_from(IDS),
        PATCHES,
    ),
    st.builds(
        lambda kind, id_: {"operationType": kind, "id": id_},
        st.sampled_from(["Read", "Delete"]),
        st.sampled_from(IDS),
    ),
)
# Seconds that pass, whether the batch is atomic, its operations, which of them asks for the etag
# that the model knows at that moment.
HISTORIES = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.booleans(),
        st.lists(OPERATIONS, min_size=1, max_size=6),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[RawClient]:
    with server.connect() as raw, temporary_database(raw, "model"):
        yield raw


@examples(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=HISTORIES)
def test_random_batches(client: RawClient, clock: MovableClock, history: list[Any]) -> None:
    container = TtlContainers(client, clock, "/dbs/model").make(
        DEFAULT_TTL,
        f"c{next(_names)}",
        uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/mail"]}]},
        partitionKey=PARTITION_KEY,
    )
    model = Model()
    etags: dict[str, str] = {}  # the model's to the server's
    for seconds, atomic, operations, guarded in history:
        clock.advance(seconds)
        model.now = int(clock.now())
        sent = copy.deepcopy(operations)
        if guarded < len(operations) and operations[guarded]["operationType"] != "Create":
            names = sorted(item["_etag"] for item in model.live().values())
            wanted = names[-1] if names else "never"
            operations[guarded]["ifMatch"] = wanted
            sent[guarded]["ifMatch"] = etags.get(wanted, '"no"')
            if operations[guarded]["operationType"] == "Read":
                del operations[guarded]["ifMatch"], sent[guarded]["ifMatch"]
        expected = model.run(operations, atomic=atomic)
        note(f"{seconds} s, atomic {atomic}: {sent} -> {expected}")
        reply = client.batch(container.path, sent, atomic=atomic, pk='["p"]')
        assert codes(reply) == expected
        assert reply.status == (200 if all(code < 300 for code in expected) else 207)
        found = stored_items(client, container.path)
        live = model.live()
        assert {
            id_: {name: value for name, value in item.items() if name[0] != "_" or name == "_ts"}
            for id_, item in found.items()
        } == {
            id_: {name: value for name, value in item.items() if name != "_etag"}
            for id_, item in live.items()
        }
        etags |= {item["_etag"]: found[id_]["_etag"] for id_, item in live.items()}
    client.delete(container.path)
