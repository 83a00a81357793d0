"""Whether a data directory is sound: the file itself, and what must hold between its rows.

Reads one snapshot, changes nothing, and may run beside a server.
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
from perseid.store.sqlite.check import RangeContents, Snapshot, snapshot, state_at_rest
from perseid.store.sqlite.files import DATABASE_FILE
from perseid.store.types import Resource, StoreError

MOST_PROBLEMS: Final = 20


@dataclass(slots=True)
class CheckResult:
    """One thing that was looked at: how many of them, and what is wrong."""

    name: str
    looked: int = 0
    wrong: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        self.wrong += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)


def check(directory: Path, *, is_quick: bool = False) -> list[CheckResult]:
    """Everything that was looked at; StoreError if nothing can be."""
    path = directory / DATABASE_FILE
    before = state_at_rest(path) if path.exists() else None
    try:
        check_results = _check_snapshot(path, is_quick)
        is_unchanged = before is None or state_at_rest(path) == before
    except StoreError:
        if before is None or state_at_rest(path) == before:
            raise
        is_unchanged = False
    # A server has begun to write under our eyes. Its log keeps the states apart from now on.
    return check_results if is_unchanged else _check_snapshot(path, is_quick)


def _check_snapshot(path: Path, is_quick: bool) -> list[CheckResult]:
    with snapshot(path) as database_snapshot:
        check_results = [_file(database_snapshot, is_quick)]
        if check_results[0].wrong:
            return check_results  # what else would be said rests on a damaged file
        resources = database_snapshot.resources()
        metadata = _metadata(database_snapshot, resources)
        check_results.append(metadata)
        if metadata.wrong:
            return check_results
        containers = Catalog(resources).containers()
        check_results.append(_counters(database_snapshot, containers))
        if not is_quick:
            check_results.append(_items(database_snapshot, containers))
            check_results.append(_unique_keys(database_snapshot, containers))
            check_results.append(_change_logs(database_snapshot, containers))
        return check_results


def _file(database_snapshot: Snapshot, is_quick: bool) -> CheckResult:
    check_result = CheckResult("database file", 1)
    for problem in database_snapshot.damage(is_quick=is_quick):
        check_result.add(problem)
    return check_result


def _metadata(database_snapshot: Snapshot, resources: list[Resource]) -> CheckResult:
    """Every resource has an owner, and every container its tables and no table is left over."""
    check_result = CheckResult("databases, containers and what belongs to them", len(resources))
    known = {resource.rid for resource in resources}
    for resource in resources:
        if resource.parent and resource.parent not in known:
            check_result.add(f"{resource.kind} '{resource.id}' belongs to nothing that exists")
        target = resource.state.get("resource_rid") if resource.kind == "offer" else None
        if target is not None and target not in known:
            check_result.add(f"offer '{resource.id}' is for nothing that exists")
    numbers = {
        resource.state["number"]: resource.id
        for resource in resources
        if resource.kind == "container"
    }
    for kind in ("items", "unique"):
        tables = database_snapshot.tables(kind)
        for number, name in numbers.items():
            if number not in tables:
                check_result.add(f"container '{name}' has no table {kind}_{number}")
        for number in sorted(tables - set(numbers)):
            check_result.add(f"table {kind}_{number} belongs to no container")
    return check_result


def _counters(database_snapshot: Snapshot, containers: list[Container]) -> CheckResult:
    """What each range says it holds is what it holds, and no item is newer than its range."""
    check_result = CheckResult("counters of ranges")
    range_states = database_snapshot.range_states()
    for container in containers:
        range_contents = database_snapshot.range_contents(container.number)
        for key_range in container.ranges:
            check_result.looked += 1
            range_state = range_states.pop((container.number, key_range.index), None)
            range_name = f"{container.path}, range {key_range.index}"
            if range_state is None:
                check_result.add(f"{range_name}: has no counters")
            actual = range_contents.pop(key_range.index, RangeContents(0, 0, 0))
            for problem in _differences(range_state or EMPTY_RANGE, actual):
                check_result.add(f"{range_name}: {problem}")
        for index in range_contents:
            check_result.add(
                f"{container.path}: holds items of range {index}, which does not exist"
            )
    for number, index in range_states:
        check_result.add(f"counters of container {number}, range {index} belong to nothing")
    return check_result


def _differences(range_state: RangeState, actual: RangeContents) -> Iterator[str]:
    if range_state.items != actual.items:
        yield f"counts {range_state.items} items and holds {actual.items}"
    if range_state.size != actual.size:
        yield f"counts {range_state.size} bytes and holds {actual.size}"
    if range_state.lsn < actual.highest_lsn:
        yield f"is at LSN {range_state.lsn}, behind an item's {actual.highest_lsn}"


def _items(database_snapshot: Snapshot, containers: list[Container]) -> CheckResult:
    """Each item's body agrees with the columns beside it."""
    check_result = CheckResult("items")
    for container in containers:
        for id_ in database_snapshot.unreadable(container.number).values():
            check_result.looked += 1
            check_result.add(f"{container.path}/docs/{id_}: the body cannot be read")
        for row in database_snapshot.rows(container.number):
            check_result.looked += 1
            for problem in _item_problems(container, row):
                check_result.add(f"{container.path}/docs/{row.id}: {problem}")
    return check_result


def _decoded(body: bytes) -> dict[str, Any] | None:
    """An item's body; None if it is damaged."""
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
            yield f"its body says {name} {body_value!r}, it is stored as {column_value!r}"


def _unique_keys(database_snapshot: Snapshot, containers: list[Container]) -> CheckResult:
    """Each item claims the values it has, and nobody claims for an item that is not there."""
    check_result = CheckResult("unique keys")
    for container in containers:
        entries_by_item = database_snapshot.entries(container.number)
        check_result.looked += sum(map(len, entries_by_item.values()))
        if not container.unique_keys and not entries_by_item:
            continue
        hidden = database_snapshot.hidden(container.number)
        for row in database_snapshot.rows(container.number):
            body = _decoded(row.body)
            stored_entries = entries_by_item.pop(row.number, set())
            if body is None:  # told before
                continue
            values = set(unique_keys.entries(container, row.pk, body))
            # What nobody sees any more may have lost a value to an item that was written since.
            if stored_entries != values and not (row.number in hidden and stored_entries < values):
                check_result.add(f"{container.path}/docs/{row.id}: claims other values than it has")
        for number in (
            entries_by_item.keys() - database_snapshot.unreadable(container.number).keys()
        ):
            check_result.add(f"{container.path}: item {number} is gone and still claims values")
    return check_result


def _change_logs(database_snapshot: Snapshot, containers: list[Container]) -> CheckResult:
    """A log knows the last write of each item since it began, and nothing of the future."""
    check_result = CheckResult("change logs")
    numbers = database_snapshot.logs()
    for container in containers:
        if container.number not in numbers:
            continue
        for id_, body in database_snapshot.logged(container.number):
            check_result.looked += 1
            document = None if body is None else _decoded(body)
            if body is not None and (document is None or document.get("id") != id_):
                check_result.add(f"{container.path}: a logged version of '{id_}' cannot be read")
        for problem in database_snapshot.log_problems(container.number):
            check_result.add(f"{container.path}: {problem}")
    return check_result
