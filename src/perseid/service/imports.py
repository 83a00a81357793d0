"""Imports: many items in one request, each accepted or refused by itself, with an age if wanted.

An import writes as any client does, with one difference: it may say when an item was written. So
a copy keeps the lifetimes of the original, and a test starts with items of any age. What would
have died already is not stored.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson

from perseid import documents, ttl
from perseid.errors import BadRequest, Conflict, CosmosError
from perseid.model import Container
from perseid.service import items
from perseid.service.account import Account
from perseid.service.databases import ALREADY_EXISTS
from perseid.service.operation import Operation, begin, on_current
from perseid.service.transactions import Draft

Existing = Literal["replace", "skip", "fail"]
Lifetimes = Literal["restart", "keep"]
EXISTING: Final = ("replace", "skip", "fail")
LIFETIMES: Final = ("restart", "keep")
# As many as share a commit; then others have their turn.
_TOGETHER: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How items are imported: over what is there, and how old they are."""

    existing: Existing = "replace"
    lifetimes: Lifetimes = "restart"
    age: int = 0


@dataclass(frozen=True, slots=True)
class Refusal:
    line: int  # of the request, from 1
    id: Any  # as far as one could be read
    status: int
    message: str


@dataclass(slots=True)
class Tally:
    """What became of the lines of an import."""

    created: int = 0
    replaced: int = 0
    skipped: int = 0
    expired: int = 0
    refused: list[Refusal] = field(default_factory=list)


async def store(
    account: Account, container: Container, lines: list[bytes], manner: Manner, now: float
) -> Tally:
    """Stores each line that is an item; blank lines do not count."""
    op = begin(account, container, now)
    if manner.age > op.ts:
        raise BadRequest(f"An age of {manner.age} seconds reaches back beyond 1970.")
    tally = Tally()
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    for start in range(0, len(numbered), _TOGETHER):
        await asyncio.gather(
            *(
                _store_line(op, number, line, manner, tally)
                for number, line in numbered[start : start + _TOGETHER]
            )
        )
    tally.refused.sort(key=lambda refusal: refusal.line)
    return tally


async def _store_line(
    op: Operation, number: int, line: bytes, manner: Manner, tally: Tally
) -> None:
    try:
        await on_current(op, lambda op: _store_item(op, line, manner, tally))
    except CosmosError as error:
        tally.refused.append(Refusal(number, _id_of(line), error.status, error.message))


async def _store_item(op: Operation, line: bytes, manner: Manner, tally: Tally) -> None:
    new = items.draft(op.container, documents.parse(line), None)
    written = _written_at(op, line, manner)
    if not ttl.is_live(written, new.ttl, op.horizon):
        present = ttl.Policy(op.container.policy.default_ttl).horizon(op.ts)
        if not ttl.is_live(written, new.ttl, present):
            tally.expired += 1
            return
        # An earlier setting has killed what was as old as this. That is final for those who were
        # there, and no reason to lose one who was not: it is as old as the oldest who may live.
        written = ttl.first_alive(new.ttl, op.horizon)
    await _store(op._replace(written=written), new, manner.existing, tally)


async def _store(op: Operation, new: Draft, existing: Existing, tally: Tally) -> None:
    if existing == "replace":
        stored = await items.upsert(op, new, None)
        tally.created += stored.old is None
        tally.replaced += stored.old is not None
        return
    try:
        await items.create(op, new)
        tally.created += 1
    except Conflict as conflict:
        if existing == "fail" or conflict.message != ALREADY_EXISTS:
            raise
        tally.skipped += 1


def _written_at(op: Operation, line: bytes, manner: Manner) -> int:
    """The second that the item is stamped with; never one that is still to come."""
    if manner.lifetimes == "keep":
        ts = orjson.loads(line).get("_ts")
        if isinstance(ts, int) and not isinstance(ts, bool) and ts >= 0:
            return min(ts, op.ts)
        if ts is not None:
            raise BadRequest("To keep an item's lifetime its _ts must be whole seconds since 1970.")
    return op.ts - manner.age


def _id_of(line: bytes) -> Any:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value.get("id") if isinstance(value, dict) else None
