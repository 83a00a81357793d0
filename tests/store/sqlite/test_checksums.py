"""Bits that flipped in the database file: reads, `perseid check` and the sweeper notice them."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
from click.testing import CliRunner

from perseid.commands.cli import main
from perseid.config import Settings
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.types import StoreError
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.waiting import until

pytestmark = pytest.mark.only_on("sqlite", reason="about files and the one writer")

DOCS: Final = "/dbs/d/colls/c/docs"


def document(number: int) -> dict[str, Any]:
    text = f'The text of item {number}, with spaces\nand "quotes". ' * 5
    return {"id": str(number), "pk": "p", "n": number, "text": text, "deep": [{"a": [1.50, None]}]}


def store_items(folder: Path, count: int, **definition: Any) -> list[dict[str, Any]]:
    """Leaves items in a container; their documents as they were read."""
    with running(Settings(data=folder)) as settings:
        client = RawClient(settings.endpoint)
        assert client.post("/dbs", {"id": "d"}).status == 201
        body = {"id": "c", "partitionKey": PARTITION_KEY, **definition}
        assert client.post("/dbs/d/colls", body).status == 201
        for number in range(count):
            assert client.post(DOCS, document(number), pk='["p"]').status == 201
        found = [client.get(f"{DOCS}/{number}", pk='["p"]').json for number in range(count)]
        client.close()
    return found


@contextlib.contextmanager
def database(folder: Path) -> Any:
    with contextlib.closing(apsw.Connection(str(folder / DATABASE_FILE))) as db:
        yield db


def items_table(db: apsw.Connection) -> str:
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'items_[0-9]*'"
    return str(db.execute(tables).get)


def damage(folder: Path, number: int, change: str) -> None:
    with database(folder) as db:
        db.execute(f"UPDATE {items_table(db)} SET {change} WHERE id = ?", (str(number),))
        assert db.changes() == 1


def check(folder: Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["check", str(folder)])
    return result.exit_code, result.output


CHANGES: Final = {
    "text": "body = CAST(replace(body, 'text', 'tect') AS BLOB)",
    "number": "body = jsonb(json_set(body, '$.n', 7))",
    "ttl": "ttl = 5",
    "ts": "ts = ts + 1",
    "etag": "etag = 'x'",
    "type": "size = 'many'",
    "type without a checksum": "size = 'many', checksum = NULL",
    "malformed": "body = x'5c27696417ff'",
    "no JSON": "body = x'ff'",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_damaged_item_is_named_and_can_be_repaired(tmp_path: Path, what: str) -> None:
    store_items(tmp_path, 3)
    damage(tmp_path, 1, CHANGES[what])
    code, report = check(tmp_path)
    assert code == 1
    assert "docs/1: " in report
    assert "docs/0: " not in report
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        for _ in range(2):
            refused = client.get(f"{DOCS}/1", pk='["p"]')
            assert refused.status == 503
            assert "'1' is damaged" in refused.json["message"]
        for number in (0, 2):
            assert client.get(f"{DOCS}/{number}", pk='["p"]').status == 200
        change = {"operations": [{"op": "set", "path": "/b", "value": 1}]}
        patched = client.patch(f"{DOCS}/1", change, pk='["p"]')
        assert patched.status == 503
        assert "'1' is damaged" in patched.json["message"]
        assert client.put(f"{DOCS}/1", document(1), pk='["p"]').status == 200
        assert client.get(f"{DOCS}/1", pk='["p"]').json["text"] == document(1)["text"]
        client.close()
    # The range was counted with the size that is lost.
    assert (check(tmp_path)[0] == 0) is ("type" not in what)


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("is_logged", [False, True])
def test_a_damaged_item_can_be_deleted(tmp_path: Path, what: str, is_logged: bool) -> None:
    policy = {"changeFeedPolicy": {"retentionDuration": 10}} if is_logged else {}
    store_items(tmp_path, 2, **policy)
    damage(tmp_path, 1, CHANGES[what])
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        assert client.delete(f"{DOCS}/1", pk='["p"]').status == 204
        assert client.get(f"{DOCS}/1", pk='["p"]').status == 404
        assert client.query(DOCS, "SELECT VALUE c.id FROM c").json["Documents"] == ["0"]
        client.close()


def test_queries_and_the_change_feed_fail_on_what_is_known_to_be_damaged(tmp_path: Path) -> None:
    store_items(tmp_path, 3)
    damage(tmp_path, 1, CHANGES["number"])
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        assert client.get(f"{DOCS}/1", pk='["p"]').status == 503
        for text in ("SELECT * FROM c", "SELECT * FROM c WHERE c.n = 7", "SELECT c.n FROM c"):
            refused = client.query(DOCS, text)
            assert refused.status == 503, text
            assert "'1' is damaged" in refused.json["message"]
        found = client.query(DOCS, "SELECT VALUE c.n FROM c WHERE c.n = 2")
        assert found.json["Documents"] == [2]
        feed = client.get(DOCS, a_im="Incremental Feed")
        assert feed.status == 503
        assert client.put(f"{DOCS}/1", document(1), pk='["p"]').status == 200
        assert client.query(DOCS, "SELECT * FROM c").status == 200
        client.close()


def flip(content: bytearray, rng: random.Random, first: int, end: int) -> None:
    content[rng.randrange(first, end)] ^= 1 << rng.randrange(8)


@pytest.mark.parametrize("seed", range(2))
def test_flipped_bits_are_never_served(tmp_path: Path, seed: int) -> None:
    """Point reads give what was written or an error, and `check` reports the file."""
    expected = store_items(tmp_path / "whole", 100)
    whole = (tmp_path / "whole" / DATABASE_FILE).read_bytes()
    rng = random.Random(seed)
    for turn in range(6):
        content = bytearray(whole)
        for _ in range(10):
            flip(content, rng, 4096, len(content))
        folder = tmp_path / str(turn)
        folder.mkdir()
        (folder / DATABASE_FILE).write_bytes(content)
        assert check(folder)[0] == 1
        with contextlib.suppress(StoreError), running(Settings(data=folder)) as settings:
            client = RawClient(settings.endpoint)
            for number, item in enumerate(expected):
                found = client.get(f"{DOCS}/{number}", pk='["p"]')
                assert found.status in (200, 404, 503), found
                assert found.status != 200 or found.json == item
            client.close()


def test_each_damaged_text_is_reported(tmp_path: Path) -> None:
    """One bit in the text of every tenth item."""
    expected = store_items(tmp_path, 100)
    rng = random.Random(1)
    with database(tmp_path) as db:
        for number in range(0, 100, 10):
            values = (str(number),)
            body = bytearray(
                db.execute(f"SELECT body FROM {items_table(db)} WHERE id = ?", values).get
            )
            first = body.index(b"The text")
            flip(body, rng, first, first + 200)
            db.execute(
                f"UPDATE {items_table(db)} SET body = ? WHERE id = ?", (bytes(body), *values)
            )
    code, report = check(tmp_path)
    assert code == 1
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        for number, item in enumerate(expected):
            found = client.get(f"{DOCS}/{number}", pk='["p"]')
            assert (f"docs/{number}: " in report) is (number % 10 == 0), number
            assert found.status == (503 if number % 10 == 0 else 200)
            assert number % 10 == 0 or found.json == item
        client.close()


def test_the_sweeper_finds_damage_and_adds_missing_checksums(tmp_path: Path) -> None:
    store_items(tmp_path, 30)
    damage(tmp_path, 1, CHANGES["number"])
    damage(tmp_path, 2, "checksum = NULL")
    damage(tmp_path, 3, "checksum = NULL, etag = CAST(x'ff' AS TEXT)")
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        until(lambda: client.get("/_perseid/sweeper").json["verifiedItems"] == 30)
        assert client.get("/_perseid/sweeper").json["damagedItems"] == 2
        assert client.query(DOCS, "SELECT * FROM c WHERE c.n = 7").status == 503
        metrics = client.get("/_perseid/metrics").body.decode()
        assert "perseid_verified_items_total 30" in metrics
        assert "perseid_damaged_items 2" in metrics
        assert client.delete(f"{DOCS}/1", pk='["p"]').status == 204
        assert client.get("/_perseid/sweeper").json["damagedItems"] == 1
        client.close()
    with database(tmp_path) as db:
        missing = f"SELECT id FROM {items_table(db)} WHERE checksum IS NULL"
        assert [id_ for (id_,) in db.execute(missing)] == ["3"]


def test_whitespace_between_members_does_not_matter(tmp_path: Path) -> None:
    """SQLite leaves it out."""
    store_items(tmp_path, 0)
    body = b'{ "id" : "ab",\n\t"pk":"p", "x": [ 1.0 , "\\u0041 \\/" ] }\r\n'
    with running(Settings(data=tmp_path)) as settings:
        client = RawClient(settings.endpoint)
        assert (
            client.request("POST", DOCS, body, {"x-ms-documentdb-partitionkey": '["p"]'}).status
            == 201
        )
        assert client.get(f"{DOCS}/ab", pk='["p"]').status == 200
        client.close()
    assert check(tmp_path)[0] == 0
