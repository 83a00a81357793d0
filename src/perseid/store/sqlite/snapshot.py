"""Reads a database file without changing it, for `perseid check`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import apsw

from perseid.model import RANGE_SHIFT, Row
from perseid.store.sql.range_state import RangeState
from perseid.store.sqlite import metadata, schema
from perseid.store.sqlite.checksums import decoded, is_damaged, tolerant_columns
from perseid.store.sqlite.earlier_layouts import names_of, present_state
from perseid.store.sqlite.lost_files import log_path, refuse_lost_database
from perseid.store.types import Resource, StoreError

_TABLE: Final = re.compile(r"(items|unique|visible|standing|changes)_(\d+)")
_MOST_FINDINGS: Final = 100


class RangeContents(NamedTuple):
    """The actual contents of a range."""

    items: int
    size: int
    highest_lsn: int


class Snapshot:
    """One snapshot of a file, while a server may go on writing."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db
        self._layout: int = db.pragma("user_version")
        self._names = names_of(self._layout)

    def salvage(self, work: Callable[[], None]) -> None:
        """Does as much of the work as a damaged file allows."""
        with contextlib.suppress(apsw.Error, UnicodeDecodeError, StoreError):
            work()

    def damage(self, *, is_quick: bool) -> list[str]:
        """The problems that SQLite finds in the file."""
        pragma = "quick_check" if is_quick else "integrity_check"
        findings = [str(text) for (text,) in self._db.execute(f"PRAGMA {pragma}({_MOST_FINDINGS})")]
        return [] if findings == ["ok"] else findings

    def resources(self) -> list[Resource]:
        return [
            each._replace(state=present_state(each.kind, each.state, self._layout))
            for each in metadata.resources(self._db)
        ]

    def hidden_containers(self) -> set[int]:
        """The numbers of dropped containers whose tables are dropped later."""
        return schema.hidden_containers(self._db)

    def tables(self, kind: str) -> set[int]:
        """The numbers of the containers that have a table or view of this kind."""
        names = [name for (name,) in self._db.execute("SELECT name FROM sqlite_schema")]
        matches = [_TABLE.fullmatch(name) for name in names]
        return {int(match[2]) for match in matches if match is not None and match[1] == kind}

    def range_states(self) -> dict[tuple[int, int], RangeState]:
        columns = "container, range, lsn, items, bytes, purged_items, purged_bytes"
        return {
            (container, part): RangeState(*range_state)
            for container, part, *range_state in self._db.execute(
                f"SELECT {columns}, {self._names.purged_since_change} FROM positions"
            )
        }

    def range_contents(self, number: int) -> dict[int, RangeContents]:
        """By range."""
        sql = (
            f"SELECT number >> {RANGE_SHIFT}, COUNT(*), SUM(size), MAX(lsn)"
            f" FROM items_{number} GROUP BY 1"
        )
        return {part: RangeContents(*figures) for part, *figures in self._db.execute(sql)}

    def rows(self, number: int) -> Iterator[tuple[Row, bool]]:
        """Every item of a container whose body can be read, and whether it is damaged."""
        sql = (
            f"SELECT {tolerant_columns(self._names.checksum)} FROM items_{number}"
            " WHERE json_valid(body, 8)"
        )
        for columns in map(decoded, self._db.execute(sql)):
            row = Row._make(columns[:11])
            yield (
                row._replace(id=_printable(row.id), etag=_printable(row.etag)),
                is_damaged(columns),
            )

    def unreadable(self, number: int) -> dict[int, str]:
        """The numbers and ids of items whose body cannot be read."""
        sql = f"SELECT number, CAST(id AS BLOB) FROM items_{number} WHERE NOT json_valid(body, 8)"
        return {item: id_.decode(errors="replace") for item, id_ in self._db.execute(sql)}

    def entries(self, number: int) -> dict[int, set[bytes]]:
        """The entries in the unique-key index by the item that owns them."""
        entries: dict[int, set[bytes]] = {}
        for item, entry in self._db.execute(f"SELECT number, entry FROM unique_{number}"):
            entries.setdefault(item, set()).add(entry)
        return entries

    def hidden(self, number: int) -> set[int]:
        """The numbers of items of cleared partitions that are pending purge."""
        view = self._names.visible
        if number not in self.tables(view):  # the layouts before 3 have none
            return set()
        sql = f"SELECT number FROM items_{number} EXCEPT SELECT number FROM {view}_{number}"
        return {item for (item,) in self._db.execute(sql)}

    def logs(self) -> set[int]:
        """The numbers of the containers that keep a change log; none in a layout without views."""
        return self.tables("changes") & self.tables(self._names.visible)

    def logged(self, number: int) -> Iterator[tuple[str, bytes | None]]:
        """The id and body of each entry."""
        yield from self._db.execute(f"SELECT id, body FROM changes_{number}")

    def log_problems(self, number: int) -> Iterator[str]:
        """Contradictions between a log and the items or the counters."""
        log, visible = f"changes_{number} AS logged", f"{self._names.visible}_{number}"
        # The others go from an item or an entry to the log of its range.
        floors = f"change_logs ON change_logs.container = {number} AND change_logs.range ="
        same = "logged.pk = items.pk AND logged.id = items.id"
        for text, sql in (
            (
                "the last write of '{}' is not in the log",
                f"SELECT id FROM {visible} AS items"
                f" JOIN {floors} items.number >> {RANGE_SHIFT} WHERE lsn > floor"
                f" AND NOT EXISTS (SELECT 1 FROM {log} WHERE logged.range = change_logs.range"
                f" AND logged.lsn = items.lsn AND {same} AND kind IN ('create', 'replace'))",
            ),
            (
                "'{}' is there, and gone according to the log",
                f"SELECT items.id FROM {log} JOIN {visible} AS items ON {same}"
                " AND items.lsn <= logged.lsn WHERE kind IN ('delete', 'expire')"
                # One transaction may remove an item and write another one of its id.
                f" AND NOT EXISTS (SELECT 1 FROM changes_{number} AS later"
                " WHERE later.range = logged.range AND later.lsn = logged.lsn"
                " AND later.entry > logged.entry AND later.pk = items.pk AND later.id = items.id"
                " AND later.kind IN ('create', 'replace'))",
            ),
            (
                "a change of '{}' is logged before the log begins or ahead of its range",
                f"SELECT id FROM {log} JOIN {floors} logged.range"
                f" JOIN positions ON positions.container = {number}"
                " AND positions.range = logged.range"
                " WHERE logged.lsn NOT BETWEEN floor AND positions.lsn",
            ),
        ):
            for (id_,) in self._db.execute(f"{sql} LIMIT {_MOST_FINDINGS}"):
                yield text.format(id_)


def _printable(text: object) -> str:
    """A text that may have been damaged."""
    return str(text).encode(errors="replace").decode()


def state_at_rest(path: Path) -> tuple[int, int] | None:
    """Changes with the file; None if there is a write-ahead log, as a server may be using it."""
    log = log_path(path)
    shared = log.with_name(f"{log.name.removesuffix('-wal')}-shm")
    if log.exists() and (log.stat().st_size or shared.exists()):
        return None
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def snapshot(path: Path) -> Iterator[Snapshot]:
    """Opens a file for reading; StoreError if that fails or another program owns it."""
    refuse_lost_database(path)
    if not path.exists():
        raise StoreError(f"there is no database at {path}")
    # A file without a write-ahead log is complete; read as immutable, it gets no files next to it.
    mode = "mode=ro" if state_at_rest(path) is None else "mode=ro&immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"file:{quote(str(path.resolve()))}?{mode}", flags=flags)
        with contextlib.closing(db):
            db.set_busy_timeout(10_000)
            schema.check(db)
            if db.pragma("application_id") != schema.APPLICATION_ID:
                raise StoreError(f"the file {path} holds nothing of perseid")
            db.execute("BEGIN")
            yield Snapshot(db)
    except apsw.Error as exc:
        raise StoreError(f"the file {path} cannot be read as a database: {exc}") from exc
    except UnicodeDecodeError as exc:
        raise StoreError(f"the file {path} is damaged: it contains invalid UTF-8") from exc
