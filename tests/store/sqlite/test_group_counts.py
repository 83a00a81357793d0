"""Group counts on SQLite: what an evaluation that stops early leaves behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw
import pytest

from perseid.model import Container
from perseid.store.protocol import Stores
from perseid.store.sqlite import group_counts
from perseid.store.types import GroupCount, Search
from tests.support.rows import Run, insert
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about its statements")


def test_an_evaluation_that_stops_early_leaves_no_statement_open(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    """An open statement would keep its snapshot, and later queries would read old items."""
    run(insert(store, container, "1", "2", "3"))
    db = apsw.Connection(str(sqlite_database(store).path))

    def stop(groups: Iterable[GroupCount]) -> None:
        next(iter(groups))
        raise TimeoutError

    try:
        with pytest.raises(TimeoutError) as caught:
            group_counts.count_groups(db, container.number, Search(), None, [("id",)], stop)
        assert caught.value.__traceback__ is not None  # which keeps the frames alive
        assert db.txn_state("main") == apsw.SQLITE_TXN_NONE
    finally:
        db.close()
