"""Data of earlier layouts, loaded from SQL text, and what clients were given for it.

Each layout has two files: the SQL that makes the data, and a JSON file with the tokens, etags and
positions that the old release gave to clients.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support import postgres
from tests.support.raw import RawClient
from tests.support.running import running

HERE: Final = Path(__file__).parent
DATABASE_FILE: Final = "perseid.sqlite3"
START_FILE: Final = HERE / "start.json"  # the one that the old server was started with
NOW: Final = 1_767_225_866  # the last second that the old server has shown


@dataclass(frozen=True)
class Stored:
    """One copy of the data of a layout, in a folder or in a database of its own."""

    layout: str
    settings: Settings
    given: dict[str, str]

    def count_items(self, container: int) -> int:
        """The items of a container in the database, whether clients see them or not."""
        if self.settings.store is not None:
            with psycopg.connect(self.settings.store) as db:
                sql = "SELECT COUNT(*) FROM perseid.items WHERE container = %s"
                row: Any = db.execute(sql, (container,)).fetchone()
                return int(row[0])
        with contextlib.closing(apsw.Connection(str(self.settings.data / DATABASE_FILE))) as file:
            return int(file.execute(f"SELECT COUNT(*) FROM items_{container}").get)


@contextmanager
def sqlite(layout: str, folder: Path) -> Iterator[Stored]:
    data = folder / "data"
    data.mkdir()
    with contextlib.closing(apsw.Connection(str(data / DATABASE_FILE))) as db:
        db.execute((HERE / f"{layout}.sql").read_text())
    settings = Settings(data=data, init=START_FILE, durability="off", relaxed=True)
    yield Stored(layout, settings, _given(layout))


@contextmanager
def postgresql(layout: str, folder: Path) -> Iterator[Stored]:
    server = postgres.server()
    dsn = server.fresh_dsn()
    try:
        with psycopg.connect(dsn) as db:
            db.execute((HERE / f"{layout}.sql").read_bytes())
        settings = Settings(store=dsn, data=folder, init=START_FILE, durability="off", relaxed=True)
        yield Stored(layout, settings, _given(layout))
    finally:
        server.drop(dsn)


def _given(layout: str) -> dict[str, str]:
    given: dict[str, str] = json.loads((HERE / f"{layout}.json").read_text())
    return given


@dataclass(frozen=True)
class Opened:
    """A running server on the data, with its clock stopped at NOW."""

    raw: RawClient
    clock: MovableClock
    given: dict[str, str]

    def ids(self, container: str, pk: str | None = None) -> set[str]:
        """The items that a client sees: by feed and by query, which must agree."""
        path, key = f"/dbs/d/colls/{container}/docs", {} if pk is None else {"pk": f'["{pk}"]'}
        queried = self.raw.query(path, "SELECT VALUE c.id FROM c", count="-1", **key)
        assert queried.status == 200, queried
        found = set(queried.json["Documents"])
        listed = self.raw.get(path, count="-1", **key)
        assert {each["id"] for each in listed.json["Documents"]} == found
        return found

    def read(self, container: str, item: str, pk: str = "a", **headers: str) -> Any:
        """The answer to a point read."""
        return self.raw.get(f"/dbs/d/colls/{container}/docs/{item}", pk=f'["{pk}"]', **headers)

    def create(self, container: str, item: str, pk: str = "a", **rest: Any) -> int:
        """The status of a create."""
        body = {"id": item, "pk": pk, **rest}
        return self.raw.post(f"/dbs/d/colls/{container}/docs", body, pk=f'["{pk}"]').status

    def changes(self, container: str, mode: str, etag: str) -> tuple[list[Any], str]:
        """The change feed from a position to its end, and the position there."""
        found: list[Any] = []
        while True:
            headers = {"A-IM": mode, "If-None-Match": etag}
            reply = self.raw.request("GET", f"/dbs/d/colls/{container}/docs", headers=headers)
            assert reply.status in (200, 304), reply
            etag = reply.headers["etag"]
            if reply.status == 304:
                return found, etag
            found += reply.json["Documents"]

    def drain(self, container: str = "") -> Any:
        """Of all containers, or of one; the clock jump in the stored data is confirmed first."""
        self.admin("POST", "sweeper/pause", {})
        self.admin("POST", "sweeper/confirm-clock", {})
        return self.admin("POST", f"ttl/{container}drain", {})

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        reply = self.raw.request(method, f"/_perseid/{path}", body)
        assert reply.status == 200, reply
        return reply.json


@contextmanager
def opened(stored: Stored, at: float = NOW) -> Iterator[Opened]:
    clock = MovableClock(lambda: at)
    clock.freeze()
    with running(stored.settings, clock) as settings:
        raw = RawClient(settings.endpoint)
        try:
            yield Opened(raw, clock, stored.given)
        finally:
            raw.close()
