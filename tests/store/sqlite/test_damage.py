"""A damaged database file or item."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import apsw
import pytest

from perseid.config import Settings
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.types import StoreError
from tests.support.raw import RawClient
from tests.support.running import running

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ("UPDATE meta SET value = 'long ago' WHERE name = 'clock'", "clock limit"),
        ("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE name = 'clock'", "could not be used"),
        ("UPDATE meta SET value = 'xyz' WHERE name = 'token_secret'", "secret for"),
        ("UPDATE resources SET state = '{' WHERE kind = 'database'", "database 'd' is damaged"),
        ("UPDATE resources SET state = '{}' WHERE kind = 'database'", "database 'd' is damaged"),
        ("UPDATE resources SET id = CAST(x'ff' AS TEXT)", "could not be used"),
        ("ALTER TABLE positions DROP COLUMN purged_since_change", "cannot open"),
        ("DROP TABLE change_logs", "cannot open"),
        ("ALTER TABLE tombstones DROP COLUMN previous_own_cutoff", "cannot open"),
    ],
)
def test_a_server_does_not_start_on_what_it_cannot_read(
    tmp_path: Path, damage: str, text: str
) -> None:
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        assert client.post("/dbs", {"id": "d"}).status == 201
        client.close()
    with contextlib.closing(apsw.Connection(str(tmp_path / DATABASE_FILE))) as db:
        db.execute(damage)
    for _ in range(2):  # and lets go of the directory
        with pytest.raises(StoreError, match=text), running(Settings(data=tmp_path)):
            pass


def _item_tables(db: apsw.Connection) -> list[str]:
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'items_[0-9]*'"
    return [str(table) for (table,) in db.execute(tables)]


DOCS: Final = "/dbs/d/colls/c/docs"


def store_damaged_item(folder: Path, damage: str) -> None:
    """Leaves the item '1' in the container of DOCS, and changes its row behind everyone's back."""
    key = {"paths": ["/id"], "kind": "Hash", "version": 2}
    with running(Settings(data=folder)) as settings:
        client = RawClient(settings.endpoint)
        assert client.post("/dbs", {"id": "d"}).status == 201
        assert client.post("/dbs/d/colls", {"id": "c", "partitionKey": key}).status == 201
        assert client.post(DOCS, {"id": "1", "a": 1}, pk='["1"]').status == 201
        client.close()
    with contextlib.closing(apsw.Connection(str(folder / DATABASE_FILE))) as db:
        (table,) = _item_tables(db)
        db.execute(f"UPDATE {table} SET {damage}")


def test_a_damaged_item_can_be_replaced(tmp_path: Path) -> None:
    """The answer says what was done."""
    store_damaged_item(tmp_path, "body = x'5c27696417ff'")  # {"id": "\xff"}: no text
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        written = client.put(f"{DOCS}/1", {"id": "1", "a": 2}, pk='["1"]')
        assert written.status == 200
        assert float(written.headers["x-ms-request-charge"]) > 0
        assert client.get(f"{DOCS}/1", pk='["1"]').json["a"] == 2
        client.close()


@pytest.mark.parametrize(
    "damage",
    [
        "body = x'4c176117ff'",  # {"a": "\xff"}: no text
        "body = x'4c1761132d'",  # {"a": -}: no number
        "etag = CAST(x'ff' AS TEXT)",
    ],
)
def test_queries_over_a_damaged_item_tell_of_the_damage(tmp_path: Path, damage: str) -> None:
    store_damaged_item(tmp_path, damage)
    is_body = damage.startswith("body")
    grouped = ["SELECT DISTINCT VALUE c.a FROM c", "SELECT VALUE SUM(c.a) FROM c"]
    with running(Settings(data=tmp_path, relaxed=True)) as settings:
        client = RawClient(settings.endpoint)
        for text in [
            "SELECT c.a FROM c",
            "SELECT * FROM c WHERE UPPER(c.b) = 'X'",
            "SELECT * FROM c ORDER BY c.a",
            *(grouped if is_body else []),
        ]:
            found = client.query(DOCS, text)
            assert found.status == 503, text
            assert "damaged" in found.json["message"] or "file" in found.json["message"]
        change = {"operations": [{"op": "set", "path": "/b", "value": 1}]}
        for patch in (change, change | {"condition": "FROM c WHERE c.a = 1"}):
            assert client.patch(f"{DOCS}/1", patch, pk='["1"]').status == 503
        client.close()


def test_an_item_that_is_no_object_any_more_is_not_patched(tmp_path: Path) -> None:
    store_damaged_item(tmp_path, "body = jsonb('[1]')")
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        change = {"operations": [{"op": "set", "path": "/b", "value": 1}]}
        refused = client.patch(f"{DOCS}/1", change, pk='["1"]')
        assert refused.status == 503
        assert "damaged" in refused.json["message"]
        client.close()
