"""`access_path` describes what `search` does: both choose with the same code."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from perseid.conditions import NUMBER, AllOf, Comparison, Condition, Filter, Order
from perseid.model import Container
from perseid.store.postgres import queries as postgres_queries
from perseid.store.protocol import Stores
from perseid.store.sql import choose_access, index_limits
from perseid.store.sql.choose_access import Access
from perseid.store.sqlite import queries as sqlite_queries
from perseid.store.types import Decision, Put, Search, View
from tests.support.rows import Run, row

PATHS = frozenset({("many",), ("few",), ("n",)})
MANY = Comparison(("many",), NUMBER, "=", 0)
FEW = Comparison(("few",), NUMBER, "=", 0)
ABOVE = Comparison(("n",), NUMBER, ">", 0)


def insert_bodies(store: Stores, container: Container, run: Run[Any]) -> None:
    def decide(view: View) -> Decision[None]:
        bodies = [{"many": 1, "few": n // 8, "n": n} for n in range(40)]
        rows = [
            row(view.lsn, str(n), position=n, body=orjson.dumps({"id": str(n), **body}))
            for n, body in enumerate(bodies)
        ]
        return Decision([Put(each) for each in rows], None)

    run(store.items.write(container, 0, [], decide))


@pytest.mark.parametrize(
    ("condition", "order", "expected"),
    [
        (None, None, ("scan", None)),
        (MANY, None, ("index", ("many",))),
        (AllOf((MANY, FEW)), None, ("index", ("few",))),  # the first one has more items
        (AllOf((ABOVE, MANY)), None, ("index", ("many",))),  # one value before a range
        (None, ("n",), ("order", ("n",))),
        (ABOVE, ("n",), ("index", ("n",))),
        (FEW, ("n",), ("index", ("few",))),  # few items are sorted
        (MANY, ("n",), ("order", ("n",))),
    ],
)
def test_a_search_takes_the_access_path_that_is_described(
    store: Stores,
    container: Container,
    run: Run[Any],
    monkeypatch: pytest.MonkeyPatch,
    condition: Condition | None,
    order: tuple[str, ...] | None,
    expected: tuple[str, Any],
) -> None:
    chosen: list[Access] = []

    async def recorded(*arguments: Any) -> Access:
        chosen.append(await choose_access.choose_access(*arguments))
        return chosen[-1]

    for module in (sqlite_queries, postgres_queries):
        monkeypatch.setattr(module, "choose_access", recorded)
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 0)
    monkeypatch.setattr(choose_access, "SORTED_UP_TO", 10)
    insert_bodies(store, container, run)
    where = None if condition is None else Filter(condition, (1,))
    search = Search(
        where=where, indexable=PATHS, order=None if order is None else Order(order, False)
    )
    run(store.queries.search(container, search))
    taken = [*chosen]
    described = run(store.queries.access_path(container, search))
    assert (described.method, described.path) == expected
    assert taken in ([], [chosen[-1]])  # a search without a choice does not ask
    page = run(store.queries.search(container, search))
    assert page.is_ordered == (order is not None and expected != ("index", ("few",)))
