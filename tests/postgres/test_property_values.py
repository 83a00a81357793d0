"""The entries of property indexes follow every change of the items, in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from perseid.conditions import PropertyPath
from perseid.model import Container, Row
from perseid.service.catalog import build_container
from perseid.store.postgres import property_indexes
from perseid.store.postgres.store import open_stores
from perseid.store.protocol import Stores
from perseid.store.types import Decision, PurgeRequest, Put, PutResource, Remove, View
from perseid.ttl import Cutoff
from tests.support import postgres
from tests.support.property_values import wrong_entries
from tests.support.rows import DATABASE, Run, container_resource, key, row
from tests.support.stores import pool_of

pytestmark = pytest.mark.only_on("postgres", reason="has the entries in a table")

RESOURCE: Final = container_resource(7)
PATHS: Final[tuple[PropertyPath, ...]] = (("a",), ("o", "b"), ("50%", 0))
PARTS: Final = ("7:0", "7:1")
IDS: Final = ("p", "q")
PKS: Final = (b"\x08a\xff", b"\x08b\xff")
keys = st.tuples(st.sampled_from(IDS), st.sampled_from(PKS))
values: Final[st.SearchStrategy[Any]] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.text("aé%\"", max_size=3),
    st.just("x" * 300), st.just([1]), st.just({}),
)  # fmt: skip
bodies = st.fixed_dictionaries(
    {}, optional={"a": values, "o": st.just({}) | values.map(lambda b: {"b": b}), "50%": values}
)


class Entries(RuleBasedStateMachine):
    """Two server processes write, purge and clear, while indexes come and go."""

    run: Run[Any]
    stores: list[Stores]
    db: psycopg.Connection[Any]

    @initialize()
    def empty(self) -> None:
        self.db.execute("TRUNCATE items, property_values, property_indexes")
        self.db.execute("UPDATE positions SET items = 0, bytes = 0, indexes = indexes + 1")
        self.now = 100

    def container(self, store: Stores) -> Container:
        return build_container(RESOURCE, DATABASE, catalog_generation=store.metadata.generation)

    @rule(
        process=st.integers(0, 1),
        part=st.integers(0, 1),
        wanted=st.dictionaries(keys, st.none() | bodies, max_size=4),
        ttl=st.none() | st.integers(1, 5),
    )
    def write(
        self,
        process: int,
        part: int,
        wanted: dict[tuple[str, bytes], dict[str, Any] | None],
        ttl: int | None,
    ) -> None:
        """Creates, replaces and deletes in one transaction."""
        store = self.stores[process]

        def decide(view: View) -> Decision[None]:
            changes: list[Put | Remove] = []
            for place, ((item_id, pk), body) in enumerate(wanted.items()):
                old = view.rows[key(item_id, pk)]
                if body is None:
                    changes += [] if old is None else [Remove(old)]
                else:
                    changes.append(
                        Put(self._row(view, place, item_id, pk, body, ttl, part, old), old)
                    )
            return Decision(changes, None)

        asked = [key(item_id, pk) for item_id, pk in wanted]
        self.run(store.items.write(self.container(store), part, asked, decide))

    def _row(
        self,
        view: View,
        place: int,
        item_id: str,
        pk: bytes,
        body: dict[str, Any],
        ttl: int | None,
        part: int,
        old: Row | None,
    ) -> Row:
        text = json.dumps(body | {"id": item_id}).encode()
        made = row(
            view.lsn, item_id, part=part, position=place, pk=pk, body=text, ts=self.now, ttl=ttl
        )
        return made if old is None else made._replace(number=old.number)

    @rule(process=st.integers(0, 1), part=st.integers(0, 1), pk=st.sampled_from(PKS))
    def clear(self, process: int, part: int, pk: bytes) -> None:
        store = self.stores[process]
        cutoff = Cutoff(self.now - 4, self.now)
        self.run(store.items.clear_partition(self.container(store), part, pk, cutoff))

    @rule(part=st.integers(0, 1), seconds=st.integers(1, 4))
    def purge(self, part: int, seconds: int) -> None:
        self.now += seconds
        store = self.stores[0]
        cutoff = Cutoff(self.now - 4, self.now)
        request = PurgeRequest(
            self.container(store), part, cutoff, max_items=3, take_over_lease=True
        )
        self.run(store.expiry.purge(request))

    @rule(
        process=st.integers(0, 1),
        part=st.sampled_from(PARTS),
        path=st.sampled_from(PATHS),
        steps=st.integers(0, 4),
    )
    def add_index(self, process: int, part: str, path: PropertyPath, steps: int) -> None:
        """Lists an index and fills some of it; other rules may come before the rest."""
        pool = pool_of(self.stores[process])
        index = self.run(property_indexes.add(pool, part, path))
        assert index is not None
        while steps and self.run(property_indexes.fill_step(pool, part, index)) < 1:
            steps -= 1

    @rule(process=st.integers(0, 1))
    def go_on_filling(self, process: int) -> None:
        pool = pool_of(self.stores[process])
        for each in self.run(property_indexes.listed(pool, PARTS)):
            self.run(property_indexes.fill_step(pool, each.part, each.identity))

    @rule(process=st.integers(0, 1), part=st.sampled_from(PARTS), path=st.sampled_from(PATHS))
    def drop_index(self, process: int, part: str, path: PropertyPath) -> None:
        pool = pool_of(self.stores[process])
        for each in self.run(property_indexes.listed(pool, [part])):
            if each.path == path:
                self.run(property_indexes.mark_dropping(pool, part, each.id))
                while self.run(property_indexes.remove_step(pool, part, each.id)):
                    pass

    @invariant()
    def entries_are_those_of_the_items(self) -> None:
        assert wrong_entries(self.db) == []


@pytest.fixture
def machine(run: Run[Any]) -> Iterator[type[Entries]]:
    dsn = postgres.fresh_dsn()
    first = run(open_stores(dsn))[0]
    run(first.metadata.change([PutResource(RESOURCE)]))
    second = run(open_stores(dsn))[0]
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("SET search_path TO perseid")
        attributes = {"run": staticmethod(run), "stores": [first, second], "db": db}
        yield type("Machine", (Entries,), attributes)
    run(second.close())
    run(first.close())
    postgres.server().drop(dsn)


def test_entries_are_those_of_the_items(
    machine: type[Entries], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(property_indexes, "ITEMS_IN_A_STEP", 2)
    monkeypatch.setattr(property_indexes, "_REMOVED_IN_A_STEP", 2)
    machine.TestCase.settings = settings(
        max_examples=30,
        stateful_step_count=40,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # making it smaller takes minutes
        suppress_health_check=[HealthCheck.too_slow],
    )
    machine.TestCase().runTest()
