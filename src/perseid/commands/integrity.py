"""Checks a data directory: the database file, and that its rows agree with each other.

Reads one snapshot, changes nothing, and may run while a server uses the directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from perseid import ids, partition, ttl
from perseid.errors import CosmosError
from perseid.model import RANGE_SHIFT, Container, Row
from perseid.service.catalog import Catalog
from perseid.service.items import unique_keys
from perseid.store.sql.range_state import EMPTY_RANGE, RangeState
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.sqlite.snapshot import RangeContents, Snapshot, snapshot, state_at_rest
from perseid.store.types import Resource, StoreError

MAX_PROBLEMS: Final = 20


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
            return checks  # further results would come from a damaged file
        resources = database_snapshot.resources()
        metadata = _metadata(database_snapshot, resources)
        checks.append(metadata)
        if metadata.wrong:
            return checks
        containers = Catalog(resources).containers()
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


def _metadata(database_snapshot: Snapshot, resources: list[Resource]) -> IntegrityCheck:
    """Every resource has an owner, every container its tables, every table a container."""
    result = IntegrityCheck("databases, containers and other resources", len(resources))
    known = {resource.rid for resource in resources}
    for resource in resources:
        if resource.parent and resource.parent not in known:
            result.add(f"{resource.kind} '{resource.id}' has an owner that does not exist")
        target = resource.state.get("resource_rid") if resource.kind == "offer" else None
        if target is not None and target not in known:
            result.add(f"offer '{resource.id}' is for a resource that does not exist")
    numbers = {
        resource.state["number"]: resource.id
        for resource in resources
        if resource.kind == "container"
    }
    for kind in ("items", "unique"):
        tables = database_snapshot.tables(kind)
        for number, name in numbers.items():
            if number not in tables:
                result.add(f"container '{name}' has no table {kind}_{number}")
        for number in sorted(tables - set(numbers)):
            result.add(f"table {kind}_{number} belongs to no container")
    return result


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
        for id_ in database_snapshot.unreadable(container.number).values():
            result.checked += 1
            result.add(f"{container.path}/docs/{id_}: the body cannot be read")
        for row in database_snapshot.rows(container.number):
            result.checked += 1
            for problem in _item_problems(container, row):
                result.add(f"{container.path}/docs/{row.id}: {problem}")
    return result


def _decoded(body: bytes) -> dict[str, Any] | None:
    """The decoded body of an item; None if it is damaged."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _item_problems(container: Container, row: Row) -> Iterator[str]:
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
        ("ttl", ttl.stored_item_ttl(body, ttl.Policy()), row.ttl),
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
        for row in database_snapshot.rows(container.number):
            body = _decoded(row.body)
            stored_entries = entries_by_item.pop(row.number, set())
            if body is None:  # the check of the items reports it
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
