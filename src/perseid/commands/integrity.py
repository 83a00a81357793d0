"""Checks a data directory: the database file, and that its rows agree with each other.

Reads one snapshot, changes nothing, and may run while a server uses the directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Any, Final

import orjson

from perseid import ids, partition, ttl
from perseid.errors import CosmosError
from perseid.model import RANGE_SHIFT, Container, Row
from perseid.physical_ranges import MAX_RANGES
from perseid.service.catalog import Catalog
from perseid.service.items import unique_keys
from perseid.store.sql.range_state import EMPTY_RANGE, RangeState
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.sqlite.snapshot import RangeContents, Snapshot, snapshot, state_at_rest
from perseid.store.types import Resource, StoreError

MAX_PROBLEMS: Final = 20
_NUMBERS: Final = MAX_RANGES << RANGE_SHIFT
_COLUMN_TYPES: Final[dict[str, type | UnionType]] = {
    "number": int, "pk": bytes, "id": str, "epk": bytes, "ts": int, "ttl": int | None,
    "lsn": int, "etag": str, "size": int, "terms": int,
}  # fmt: skip


@dataclass(slots=True)
class IntegrityCheck:
    """The result of checking one kind of data: how many were checked, and which are wrong."""

    name: str
    checked: int = 0
    wrong: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        self.wrong += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def check(directory: Path, *, is_quick: bool = False) -> list[IntegrityCheck]:
    """The result of every check; StoreError if the data cannot be read at all."""
    path = directory / DATABASE_FILE
    before = state_at_rest(path) if path.exists() else None
    try:
        checks = _check_snapshot(path, is_quick)
        is_unchanged = before is None or state_at_rest(path) == before
    except StoreError:
        if before is None or state_at_rest(path) == before:
            raise
        is_unchanged = False
    # A server started to write during the check. From now on its write-ahead log keeps our
    # snapshot apart from its changes, so check again.
    return checks if is_unchanged else _check_snapshot(path, is_quick)


def _check_snapshot(path: Path, is_quick: bool) -> list[IntegrityCheck]:
    with snapshot(path) as database_snapshot:
        checks = [_file(database_snapshot, is_quick)]
        if checks[0].wrong:
            # Further results would come from a damaged file, except for which items have suffered.
            return checks if is_quick else [*checks, _damaged_items(database_snapshot)]
        metadata, containers = _metadata(database_snapshot)
        checks.append(metadata)
        if metadata.wrong:
            return checks
        checks.append(_counters(database_snapshot, containers))
        if not is_quick:
            checks.append(_items(database_snapshot, containers))
            checks.append(_unique_keys(database_snapshot, containers))
            checks.append(_change_logs(database_snapshot, containers))
        return checks


def _file(database_snapshot: Snapshot, is_quick: bool) -> IntegrityCheck:
    result = IntegrityCheck("database file", 1)
    for problem in database_snapshot.damage(is_quick=is_quick):
        result.add(problem)
    return result


def _metadata(database_snapshot: Snapshot) -> tuple[IntegrityCheck, list[Container]]:
    """Every definition is valid, and the resources agree with each other and with the tables."""
    result = IntegrityCheck("databases, containers and other resources")
    containers: list[Container] = []
    try:
        resources = database_snapshot.resources()
        result.checked = len(resources)
        _check_resources(result, database_snapshot, resources)
        if not result.wrong:
            containers = Catalog(resources).containers()
    except StoreError as exc:  # a definition that a server would refuse as well
        result.add(str(exc))
    return result, containers


def _check_resources(
    result: IntegrityCheck, database_snapshot: Snapshot, resources: list[Resource]
) -> None:
    """Every resource has an owner, every container its tables, every table a container."""
    known = {resource.rid for resource in resources}
    for resource in resources:
        if resource.parent and resource.parent not in known:
            result.add(f"{resource.kind} '{resource.id}' has an owner that does not exist")
        target = resource.state.get("resource_rid") if resource.kind == "offer" else None
        if isinstance(target, str) and target not in known:
            result.add(f"offer '{resource.id}' is for a resource that does not exist")
    numbers = {
        resource.state["number"]: resource.id
        for resource in resources
        if resource.kind == "container" and type(resource.state.get("number")) is int
    }
    if len(numbers) < sum(resource.kind == "container" for resource in resources):
        return  # a damaged definition; the tables cannot be compared
    for kind in ("items", "unique"):
        tables = database_snapshot.tables(kind)
        for number, name in numbers.items():
            if number not in tables:
                result.add(f"container '{name}' has no table {kind}_{number}")
        for number in sorted(tables - set(numbers) - database_snapshot.hidden_containers()):
            result.add(f"table {kind}_{number} belongs to no container")


def _counters(database_snapshot: Snapshot, containers: list[Container]) -> IntegrityCheck:
    """The counters of each range match its items, and no item is newer than its range."""
    result = IntegrityCheck("counters of physical ranges")
    range_states = database_snapshot.range_states()
    for container in containers:
        range_contents = database_snapshot.range_contents(container.number)
        for key_range in container.ranges:
            result.checked += 1
            range_state = range_states.pop((container.number, key_range.index), None)
            range_name = f"{container.path}, range {key_range.index}"
            if range_state is None:
                result.add(f"{range_name}: has no counters")
            actual = range_contents.pop(key_range.index, RangeContents(0, 0, 0))
            for problem in _differences(range_state or EMPTY_RANGE, actual):
                result.add(f"{range_name}: {problem}")
        for index in range_contents:
            result.add(f"{container.path}: has items in range {index}, which does not exist")
    for number, index in range_states:
        result.add(f"counters of container {number}, range {index} belong to no range")
    return result


def _differences(range_state: RangeState, actual: RangeContents) -> Iterator[str]:
    if not all(type(figure) is int for figure in (*range_state, *actual)):
        yield "its counters, or columns of its items, are not integers"
        return
    if range_state.items != actual.items:
        yield f"its counter says {range_state.items} items, it has {actual.items}"
    if range_state.size != actual.size:
        yield f"its counter says {range_state.size} bytes, it has {actual.size}"
    if range_state.lsn < actual.highest_lsn:
        yield f"its LSN {range_state.lsn} is below an item's LSN {actual.highest_lsn}"


def _items(database_snapshot: Snapshot, containers: list[Container]) -> IntegrityCheck:
    """The body of each item agrees with the other columns of its row."""
    result = IntegrityCheck("items")
    for container in containers:
        _check_items(database_snapshot, container, result)
    return result


def _check_items(database_snapshot: Snapshot, container: Container, result: IntegrityCheck) -> None:
    for id_ in database_snapshot.unreadable(container.number).values():
        result.checked += 1
        result.add(f"{container.path}/docs/{id_}: the body cannot be read")
    for row, is_damaged in database_snapshot.rows(container.number):
        result.checked += 1
        if is_damaged:
            result.add(f"{container.path}/docs/{row.id}: its checksum does not match")
        for problem in _item_problems(container, row):
            result.add(f"{container.path}/docs/{row.id}: {problem}")


def _damaged_items(database_snapshot: Snapshot) -> IntegrityCheck:
    """The items of a damaged file that can still be read, and are not what was written."""
    result = IntegrityCheck("items")

    def look() -> None:
        for container in Catalog(database_snapshot.resources()).containers():
            database_snapshot.salvage(partial(_check_items, database_snapshot, container, result))

    database_snapshot.salvage(look)
    return result


def _decoded(body: bytes) -> dict[str, Any] | None:
    """The decoded body of an item; None if it is damaged."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _column_problem(row: Row) -> str | None:
    """A column with a value that a server cannot have written; None if there is none."""
    for name, kinds in _COLUMN_TYPES.items():
        value = getattr(row, name)
        if not isinstance(value, kinds):
            return f"its {name} is {value!r}"
    return None if 0 <= row.number < _NUMBERS else f"its number is {row.number}"


def _item_problems(container: Container, row: Row) -> Iterator[str]:
    if (problem := _column_problem(row)) is not None:
        yield problem
        return
    body = _decoded(row.body)
    if body is None:
        yield "the body cannot be read"
        return
    try:
        pk = partition.canonical(partition.extract(container.key, body))
    except CosmosError as exc:
        yield f"its partition key cannot be read: {exc.message}"
        return
    epk = partition.effective_of(pk, container.key)
    rid = ids.child_rid(container.rid, "document", row.number)
    pairs = (
        ("id", body.get("id"), row.id),
        ("_ts", body.get("_ts"), row.ts),
        ("_etag", body.get("_etag"), row.etag),
        ("_rid", body.get("_rid"), rid),
        ("partition key", pk, row.pk),
        ("hash of the partition key", bytes.fromhex(epk), row.epk),
        ("ttl", ttl.stored_item_ttl(body, ttl.Policy(), is_lenient=True), row.ttl),
        ("range", partition.range_of(epk, container.ranges).index, row.number >> RANGE_SHIFT),
    )
    for name, body_value, column_value in pairs:
        if body_value != column_value:
            yield f"{name} is {body_value!r} in its body and {column_value!r} in its row"


def _unique_keys(database_snapshot: Snapshot, containers: list[Container]) -> IntegrityCheck:
    """Each item has unique-key entries for its values, and each entry has its item."""
    result = IntegrityCheck("unique keys")
    for container in containers:
        entries_by_item = database_snapshot.entries(container.number)
        result.checked += sum(map(len, entries_by_item.values()))
        if not container.unique_keys and not entries_by_item:
            continue
        hidden = database_snapshot.hidden(container.number)
        for row, _ in database_snapshot.rows(container.number):
            body = _decoded(row.body)
            stored_entries = entries_by_item.pop(row.number, set())
            # The check of the items reports these.
            if body is None or _column_problem(row) is not None:
                continue
            values = set(unique_keys.entries(container, row.pk, body))
            # A hidden item may have lost an entry to an item that was written since.
            if stored_entries != values and not (row.number in hidden and stored_entries < values):
                problem = "its unique-key entries do not match its values"
                result.add(f"{container.path}/docs/{row.id}: {problem}")
        for number in (
            entries_by_item.keys() - database_snapshot.unreadable(container.number).keys()
        ):
            result.add(
                f"{container.path}: unique-key entries of item {number}, which does not exist"
            )
    return result


def _change_logs(database_snapshot: Snapshot, containers: list[Container]) -> IntegrityCheck:
    """A log has the last write of each item since the log began, and no later write."""
    result = IntegrityCheck("change logs")
    numbers = database_snapshot.logs()
    for container in containers:
        if container.number not in numbers:
            continue
        for id_, body in database_snapshot.logged(container.number):
            result.checked += 1
            document = None if body is None else _decoded(body)
            if body is not None and (document is None or document.get("id") != id_):
                result.add(f"{container.path}: a logged version of '{id_}' cannot be read")
        for problem in database_snapshot.log_problems(container.number):
            result.add(f"{container.path}: {problem}")
    return result
