"""Walks along an index: every item in its place, and no page pays for those that follow it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import orjson
import pytest

from perseid.conditions import Comparison, Filter, Order
from perseid.model import item_number
from perseid.query.values import UNDEFINED, sort_key
from perseid.store.sqlite import schema, searches
from perseid.store.sqlite.disk_reserve import DiskReserve
from perseid.store.sqlite.indexes import PropertyIndexes
from perseid.store.types import Search, SearchPage

pytestmark = pytest.mark.only_on("sqlite", reason="walks along its indexes")

TABLE: Final = 7
PATH: Final = ("v",)
VALUES: Final = [UNDEFINED, None, False, True, *range(-3, 40), 0.5, *map(str, range(20)), "é"]
TIMES: Final = 30


@pytest.fixture(scope="module")
def db() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    schema.migrate(connection)
    schema.create_items(connection, TABLE, [0])
    connection.executemany(
        f"INSERT INTO items_{TABLE} VALUES"
        " (?, x'00', ?, x'00', 1, NULL, 1, '', 2, 1, jsonb(?), NULL)",
        [(number, str(number), orjson.dumps(body).decode()) for number, body in bodies().items()],
    )
    yield connection
    connection.close()


def bodies() -> dict[int, dict[str, Any]]:
    """Items by their numbers, equal values far from each other."""
    values = VALUES * TIMES
    return {
        item_number(0, lsn, 0): {"n": lsn % 2} if value is UNDEFINED else {"v": value, "n": lsn % 2}
        for lsn, value in enumerate(values, 1)
    }


@pytest.mark.parametrize("where", [None, Filter(Comparison(("n",), 4, "=", 0), (1,))])
@pytest.mark.parametrize("is_descending", [False, True])
def test_a_page_of_an_order_costs_what_it_holds(
    db: apsw.Connection, is_descending: bool, where: Filter | None
) -> None:
    no_writer: Any = None
    indexes = PropertyIndexes(db, no_writer, {}, DiskReserve(Path("db"), 0))
    indexes._create(TABLE, PATH)()
    index = indexes.find(TABLE, PATH)
    assert index is not None
    order = Order(PATH, is_descending)
    sorts: list[int] = []
    db.trace_v2(
        apsw.SQLITE_TRACE_PROFILE,
        lambda each: sorts.append(each["stmt_status"]["SQLITE_STMTSTATUS_SORT"]),
    )
    found: list[int] = []
    page = SearchPage([], False)
    while page.next_position is not None or not found:
        search = Search(where=where, limit=17, start=page.next_position)
        page = searches.ordered_search(db, TABLE, search, order, index)
        found += [row.number for row in page.rows]
    db.trace_v2(0)
    matching = [each for each in bodies().items() if where is None or each[1]["n"] == 1]
    matching.sort(key=lambda each: (sort_key(each[1].get("v", UNDEFINED)), each[0]))
    expected = [number for number, _ in matching]
    assert found == (expected[::-1] if is_descending else expected)
    assert set(sorts) == {0}
