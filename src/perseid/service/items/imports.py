"""Imports: many items in one request, each accepted or rejected on its own.

An import differs from other writes in one way: it may say when an item was written. So a copy keeps
the lifetimes of the original, and a test can start with items of any age. Items that would have
expired already are not stored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal, NamedTuple

import orjson

from perseid import ttl
from perseid.errors import AlreadyExists, BadRequest, CosmosError
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items import point_operations
from perseid.service.items.decoding import run_decoding
from perseid.service.items.transactions import CheckedItem
from perseid.service.operation import Operation, begin, retry_if_stale

ExistingMode = Literal["replace", "skip", "fail"]
LifetimeMode = Literal["restart", "keep"]
EXISTING_MODES: Final = ("replace", "skip", "fail")
LIFETIME_MODES: Final = ("restart", "keep")
# As many as share one commit. Other writes run between two such groups.
_LINES_AT_A_TIME: Final = 64
# Then the import stops: a body of 2 MB can have a million lines that are no items.
MOST_REFUSED: Final = 1_000
_LINE: Final = re.compile(rb"\S[^\n]*")  # without the space before it


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What happens to existing items, which `_ts` the imported items get, and what is accepted."""

    existing: ExistingMode = "replace"
    lifetimes: LifetimeMode = "restart"
    age: int = 0
    is_lenient: bool = False  # accepts an invalid ttl while TTL is off


@dataclass(frozen=True, slots=True)
class RejectedLine:
    line: int  # of the request, from 1
    id: Any  # None if the line could not be read, or has an array or object as its id
    status: int
    message: str


@dataclass(slots=True)
class ImportResult:
    """How many lines of an import were stored or skipped, and which were rejected."""

    created: int = 0
    replaced: int = 0
    skipped: int = 0
    expired: int = 0
    refused: list[RejectedLine] = field(default_factory=list)
    unread: int = 0  # lines after too many that were rejected


class NumberedLine(NamedTuple):
    number: int  # from 1
    text: bytes


class CheckedLine(NamedTuple):
    """A line that is an item."""

    line: NumberedLine
    new: CheckedItem
    ts: int | None  # that was sent; negative if it is no time, None if it is not needed


async def import_items(
    account: Account,
    container: Container,
    body: bytes,
    import_options: ImportOptions,
    now: float,
) -> ImportResult:
    """Stores each line that is an item; blank lines are ignored.

    It stops after MOST_REFUSED rejected lines, at the end of a group.
    """
    op = begin(account, container, now)
    if import_options.age > op.ts:
        raise BadRequest(f"An age of {import_options.age} seconds reaches back beyond 1970.")
    import_result = ImportResult()
    lines = _numbered_lines(body)
    while group := [*islice(lines, _LINES_AT_A_TIME)]:
        checked = await _check(op, group, import_options)
        await asyncio.gather(
            *(_store_line(op, each, import_options, import_result) for each in checked)
        )
        if len(import_result.refused) >= MOST_REFUSED:
            line_count = body.count(b"\n") + (not body.endswith(b"\n"))
            import_result.unread = line_count - group[-1].number
            break
    import_result.refused.sort(key=lambda rejected_line: rejected_line.line)
    return import_result


def _numbered_lines(body: bytes) -> Iterator[NumberedLine]:
    """The lines that are not blank, one after the other: together they may need much memory."""
    number, position = 1, 0
    for line in _LINE.finditer(body):
        number += body.count(b"\n", position, line.start())
        position = line.start()
        yield NumberedLine(number, line[0])


async def _check(
    op: Operation, lines: Sequence[NumberedLine], import_options: ImportOptions
) -> list[CheckedLine | RejectedLine]:
    texts = [line.text for line in lines]
    work = _check_lines, op.container, lines, import_options
    try:
        return await run_decoding(op.account, texts, *work)
    except CosmosError as error:  # of the worker process; lines before these are stored
        return [RejectedLine(line.number, None, error.status, error.message) for line in lines]


def _check_lines(
    container: Container, lines: Sequence[NumberedLine], import_options: ImportOptions
) -> list[CheckedLine | RejectedLine]:
    return [_check_line(container, line, import_options) for line in lines]


def _check_line(
    container: Container, line: NumberedLine, import_options: ImportOptions
) -> CheckedLine | RejectedLine:
    is_kept, is_lenient = import_options.lifetimes == "keep", import_options.is_lenient
    try:
        new = point_operations.check_body(container, line.text, None, True, is_lenient)
    except CosmosError as error:
        return RejectedLine(line.number, _id_of(line.text), error.status, error.message)
    return CheckedLine(line, new, _sent_ts(line.text) if is_kept else None)


def _sent_ts(line: bytes) -> int | None:
    ts = orjson.loads(line).get("_ts")
    return ts if ts is None or (isinstance(ts, int) and not isinstance(ts, bool)) else -1


async def _store_line(
    op: Operation,
    checked: CheckedLine | RejectedLine,
    import_options: ImportOptions,
    import_result: ImportResult,
) -> None:
    async def store(current: Operation) -> None:
        line = checked
        if current.container is not op.container and isinstance(line, CheckedLine):
            (line,) = await _check(current, (line.line,), import_options)
        if isinstance(line, RejectedLine):
            import_result.refused.append(line)
        else:
            await _store_item(current, line, import_options, import_result)

    try:
        await retry_if_stale(op, store)
    except CosmosError as error:
        assert isinstance(checked, CheckedLine)  # noqa: S101
        import_result.refused.append(
            RejectedLine(checked.line.number, checked.new.id, error.status, error.message)
        )


async def _store_item(
    op: Operation, checked: CheckedLine, import_options: ImportOptions, import_result: ImportResult
) -> None:
    new = checked.new
    written = _written_at(op, checked.ts, import_options)
    if not ttl.is_live(written, new.ttl, op.cutoff):
        current_cutoff = ttl.Policy(op.container.policy.default_ttl).cutoff(op.ts)
        if not ttl.is_live(written, new.ttl, current_cutoff):
            import_result.expired += 1
            return
        # An earlier policy expired all items of this age, which is final for the items that
        # existed then. This one did not exist: it gets the earliest `_ts` of a live item.
        written = ttl.first_live_ts(new.ttl, op.cutoff)
    await _write_item(op._replace(written=written), new, import_options.existing, import_result)


async def _write_item(
    op: Operation, new: CheckedItem, existing: ExistingMode, import_result: ImportResult
) -> None:
    if existing == "replace":
        stored = await point_operations.upsert(op, new, None)
        import_result.created += stored.old is None
        import_result.replaced += stored.old is not None
        return
    try:
        await point_operations.create(op, new)
        import_result.created += 1
    except AlreadyExists:
        if existing == "fail":
            raise
        import_result.skipped += 1


def _written_at(op: Operation, ts: int | None, import_options: ImportOptions) -> int:
    """The `_ts` of the item, given the one that was sent; never in the future."""
    if import_options.lifetimes == "keep":
        if ts is not None and ts >= 0:
            return min(ts, op.ts)
        if ts is not None:
            raise BadRequest("To keep an item's lifetime its _ts must be whole seconds since 1970.")
    return op.ts - import_options.age


def _id_of(line: bytes) -> Any:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    item_id = value.get("id") if isinstance(value, dict) else None
    return None if isinstance(item_id, dict | list) else item_id
