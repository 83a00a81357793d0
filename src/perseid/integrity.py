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
from perseid.service import unique_keys
from perseid.service.catalog import Catalog
from perseid.store.checking import Held, Snapshot, snapshot, state_at_rest
from perseid.store.directory import DATABASE_FILE
from perseid.store.position import START, Position
from perseid.store.protocol import Resource, StoreError

MOST_SHOWN: Final = 20


@dataclass(slots=True)
class Finding:
    """One thing that was looked at: how many of them, and what is wrong."""

    name: str
    looked: int = 0
    wrong: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        self.wrong += 1
        if len(self.problems) < MOST_SHOWN:
            self.problems.append(problem)


def check(directory: Path, *, is_quick: bool = False) -> list[Finding]:
    """Everything that was looked at; StoreError if nothing can be."""
    path = directory / DATABASE_FILE
    before = state_at_rest(path) if path.exists() else None
    try:
        findings = _look(path, is_quick)
        is_settled = before is None or state_at_rest(path) == before
    except StoreError:
        if before is None or state_at_rest(path) == before:
            raise
        is_settled = False
    # A server has begun to write under our eyes. Its log keeps the states apart from now on.
    return findings if is_settled else _look(path, is_quick)


def _look(path: Path, is_quick: bool) -> list[Finding]:
    with snapshot(path) as found:
        findings = [_file(found, is_quick)]
        if findings[0].wrong:
            return findings  # what else would be said rests on a damaged file
        resources = found.resources()
        metadata = _metadata(found, resources)
        findings.append(metadata)
        if metadata.wrong:
            return findings
        containers = Catalog(resources).containers()
        findings.append(_counters(found, containers))
        if not is_quick:
            findings.append(_items(found, containers))
            findings.append(_unique_keys(found, containers))
            findings.append(_change_logs(found, containers))
        return findings


def _file(found: Snapshot, is_quick: bool) -> Finding:
    finding = Finding("database file", 1)
    for problem in found.damage(is_quick=is_quick):
        finding.add(problem)
    return finding


def _metadata(found: Snapshot, resources: list[Resource]) -> Finding:
    """Every resource has an owner, and every container its tables and no table is left over."""
    finding = Finding("databases, containers and what belongs to them", len(resources))
    known = {resource.rid for resource in resources}
    for resource in resources:
        if resource.parent and resource.parent not in known:
            finding.add(f"{resource.kind} '{resource.id}' belongs to nothing that exists")
        target = resource.state.get("resource_rid") if resource.kind == "offer" else None
        if target is not None and target not in known:
            finding.add(f"offer '{resource.id}' is for nothing that exists")
    numbers = {
        resource.state["number"]: resource.id
        for resource in resources
        if resource.kind == "container"
    }
    for kind in ("items", "unique"):
        tables = found.tables(kind)
        for number, name in numbers.items():
            if number not in tables:
                finding.add(f"container '{name}' has no table {kind}_{number}")
        for number in sorted(tables - set(numbers)):
            finding.add(f"table {kind}_{number} belongs to no container")
    return finding


def _counters(found: Snapshot, containers: list[Container]) -> Finding:
    """What each range says it holds is what it holds, and no item is newer than its range."""
    finding = Finding("counters of ranges")
    positions = found.positions()
    for container in containers:
        held = found.held(container.number)
        for part in container.ranges:
            finding.looked += 1
            position = positions.pop((container.number, part.index), None)
            place = f"{container.path}, range {part.index}"
            if position is None:
                finding.add(f"{place}: has no counters")
            real = held.pop(part.index, Held(0, 0, 0))
            for problem in _differences(position or START, real):
                finding.add(f"{place}: {problem}")
        for index in held:
            finding.add(f"{container.path}: holds items of range {index}, which does not exist")
    for number, index in positions:
        finding.add(f"counters of container {number}, range {index} belong to nothing")
    return finding


def _differences(position: Position, real: Held) -> Iterator[str]:
    if position.items != real.items:
        yield f"counts {position.items} items and holds {real.items}"
    if position.size != real.size:
        yield f"counts {position.size} bytes and holds {real.size}"
    if position.lsn < real.highest_lsn:
        yield f"is at LSN {position.lsn}, behind an item's {real.highest_lsn}"


def _items(found: Snapshot, containers: list[Container]) -> Finding:
    """Each item's body agrees with the columns beside it."""
    finding = Finding("items")
    for container in containers:
        for id_ in found.unreadable(container.number).values():
            finding.looked += 1
            finding.add(f"{container.path}/docs/{id_}: the body cannot be read")
        for row in found.rows(container.number):
            finding.looked += 1
            for problem in _contradictions(container, row):
                finding.add(f"{container.path}/docs/{row.id}: {problem}")
    return finding


def _decoded(body: bytes) -> dict[str, Any] | None:
    """An item's body; None if it is damaged."""
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return decoded if isinstance(decoded, dict) else None


def _contradictions(container: Container, row: Row) -> Iterator[str]:
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
    for name, said, stored in pairs:
        if said != stored:
            yield f"its body says {name} {said!r}, it is stored as {stored!r}"


def _unique_keys(found: Snapshot, containers: list[Container]) -> Finding:
    """Each item claims the values it has, and nobody claims for an item that is not there."""
    finding = Finding("unique keys")
    for container in containers:
        claimed = found.entries(container.number)
        finding.looked += sum(map(len, claimed.values()))
        if not container.unique_keys and not claimed:
            continue
        hidden = found.hidden(container.number)
        for row in found.rows(container.number):
            body = _decoded(row.body)
            has = claimed.pop(row.number, set())
            if body is None:  # told before
                continue
            values = set(unique_keys.entries(container, row.pk, body))
            # What nobody sees any more may have lost a value to an item that was written since.
            if has != values and not (row.number in hidden and has < values):
                finding.add(f"{container.path}/docs/{row.id}: claims other values than it has")
        for number in claimed.keys() - found.unreadable(container.number).keys():
            finding.add(f"{container.path}: item {number} is gone and still claims values")
    return finding


def _change_logs(found: Snapshot, containers: list[Container]) -> Finding:
    """A log knows the last write of each item since it began, and nothing of the future."""
    finding = Finding("change logs")
    numbers = found.logs()
    for container in containers:
        if container.number not in numbers:
            continue
        for id_, body in found.logged(container.number):
            finding.looked += 1
            document = None if body is None else _decoded(body)
            if body is not None and (document is None or document.get("id") != id_):
                finding.add(f"{container.path}: a logged version of '{id_}' cannot be read")
        for problem in found.log_problems(container.number):
            finding.add(f"{container.path}: {problem}")
    return finding
