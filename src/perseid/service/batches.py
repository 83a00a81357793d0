"""Batches: several operations in one request, all or nothing, or each on its own.

A transactional batch is one decision over all of its keys, so it has one LSN and one `_ts`, and
each operation sees what those before it did. In a bulk request each operation is a transaction of
its own; they are queued together, in order, and share commits with whatever else is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import orjson

from perseid import charges, documents
from perseid.errors import (
    BadRequest,
    CosmosError,
    FailedDependency,
    PartitionKeyMismatch,
    RequestEntityTooLarge,
    RequestTimeout,
)
from perseid.model import Container
from perseid.service import items, patching
from perseid.service.operation import Operation, confirm, on_current
from perseid.service.transactions import Draft, Outcome, Place, Step, Transaction, write
from perseid.store.protocol import Decision, Put, View

MOST_OPERATIONS: Final = 100
LARGEST_RESPONSE: Final = 4 * 1024 * 1024
_LEVELS: Final = 2 + patching.LEVELS  # around what is written: [{"resourceBody": …}]
_FEW_PATCHES: Final = 4
_LONGEST_SECONDS: Final = 5.0
# What an entry of the response takes besides the item.
_ENTRY: Final = 128


class Options(NamedTuple):
    """How the operations of a batch are to be read."""

    container: Container
    header: str | None  # the partition key of all of them, if they have one in common
    is_indexed: bool
    with_bodies: bool  # of what was written; what is read always comes with its body


class Result(NamedTuple):
    """What became of one operation: its outcome, or why it did not happen."""

    status: int
    charge: float
    outcome: Outcome | None = None
    error: CosmosError | None = None
    has_body: bool = False


class Results(NamedTuple):
    """Of all operations, in their order, and the LSN behind the last of them."""

    results: list[Result]
    lsn: int

    @property
    def charge(self) -> float:
        return charges.batch(result.charge for result in self.results)

    @property
    def is_success(self) -> bool:
        """Whether all have a status of success; 304 is none, though nothing is undone for it."""
        return all(200 <= result.status < 300 for result in self.results)


class Member(NamedTuple):
    """An operation of a batch, ready to run, or the reason why it never will be."""

    kind: str
    step: Step | CosmosError


# Reading ----------------------------------------------------------------------------------------


def parse(raw: bytes, options: Options) -> list[Member]:
    """The operations of a request body; what is wrong with a single one shows in its result."""
    documents.parse_named(raw, around=_LEVELS)
    operations = documents.exact(raw)
    if not isinstance(operations, list):
        raise BadRequest('A batch is an array of operations: [{"operationType": "Create", …}, …].')
    if not operations:
        raise BadRequest("Batch request has no operations.")
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(
            "Batch request has more operations than what is supported."
            f" It has {len(operations)}, the most is {MOST_OPERATIONS}."
        )
    return [_read(operation, options) for operation in operations]


def _read(operation: Any, options: Options) -> Member:
    kind = operation.get("operationType") if isinstance(operation, dict) else None
    try:
        if not isinstance(kind, str) or kind not in _KINDS:
            raise BadRequest(f"The operationType must be one of {', '.join(_KINDS)}.")
        return Member(kind, _KINDS[kind](_Reader(operation, options)))
    except CosmosError as error:
        return Member(str(kind), error)


class _Reader:
    """The parts of one operation, each checked when it is asked for."""

    def __init__(self, operation: dict[str, Any], options: Options) -> None:
        self._operation = operation
        self._options = options

    @property
    def key(self) -> str | None:
        """The operation's own partition key, which must be the batch's if that has one."""
        own, common = self._text("partitionKey"), self._options.header
        if own is None or common is None:
            return common if own is None else own
        container = self._options.container
        if items.place_of(container, own) != items.place_of(container, common):
            raise PartitionKeyMismatch(
                "The partitionKey of the operation is not the one the batch is for."
            )
        return common

    @property
    def place(self) -> Place:
        return items.place_of(self._options.container, self.key)

    @property
    def id(self) -> str:
        name = self._text("id")
        if name is None:
            raise BadRequest("The operation needs the 'id' of an item.")
        return name

    @property
    def draft(self) -> Draft:
        options = self._options
        document = documents.parse(orjson.dumps(self._body))
        return items.draft(options.container, document, self.key, is_indexed=options.is_indexed)

    @property
    def patch(self) -> Step:
        options = self._options
        wanted = patching.read(self._body, options.container.key)
        return items.patching(
            self.place, self.id, wanted, self.if_match, is_indexed=options.is_indexed
        )

    @property
    def if_match(self) -> str | None:
        return self._text("ifMatch")

    @property
    def if_none_match(self) -> str | None:
        return self._text("ifNoneMatch")

    @property
    def _body(self) -> Any:
        if "resourceBody" not in self._operation:
            raise BadRequest("The operation needs a 'resourceBody'.")
        return self._operation["resourceBody"]

    def _text(self, name: str) -> str | None:
        value = self._operation.get(name)
        if value is not None and not isinstance(value, str):
            raise BadRequest(f"The '{name}' of an operation must be a string.")
        return value


_KINDS: Final[dict[str, Callable[[_Reader], Step]]] = {
    "Create": lambda its: items.creation(its.draft),
    "Upsert": lambda its: items.upsertion(its.draft, its.if_match, its.if_none_match),
    # The service gives 304 for either header when it names the version there is.
    "Read": lambda its: items.reading(its.place, its.id, its.if_none_match or its.if_match),
    "Replace": lambda its: items.replacement(its.id, its.draft, its.if_match),
    "Delete": lambda its: items.deletion(its.place, its.id, its.if_match),
    "Patch": lambda its: its.patch,
}


# All or nothing ---------------------------------------------------------------------------------


async def run_atomic(
    op: Operation, place: Place, members: Sequence[Member], options: Options, factor: int
) -> Results:
    """Runs the operations as one transaction of one logical partition."""
    keys = {key for _, step in members if isinstance(step, Step) for key in step.keys}

    def decide(view: View) -> Decision[tuple[list[Outcome], CosmosError | None, int]]:
        work = Transaction(op, view)
        room = _Room()
        outcomes: list[Outcome] = []
        deadline = time.perf_counter() + _LONGEST_SECONDS
        try:
            for position, member in enumerate(members):
                if time.perf_counter() > deadline:  # all other writes wait for this one
                    raise RequestTimeout(
                        f"The batch takes longer than {_LONGEST_SECONDS:g} seconds. Nothing of it"
                        " was done; please divide it."
                    )
                outcomes.append(_run(member, work, room, position, options))
        except CosmosError as error:
            claimed = [
                entry
                for change in work.changes
                if isinstance(change, Put)
                for entry in change.unique
            ]
            return Decision((), (outcomes, error, view.lsn - 1), claimed)
        lsn = view.lsn if work.changes else view.lsn - 1
        return Decision(work.changes, (outcomes, None, lsn), at=work.op.ts)

    # A patch decodes its item, which may be large.
    is_heavy = sum(member.kind == "Patch" for member in members) > _FEW_PATCHES
    outcomes, error, lsn = await write(
        op, place.range_index, tuple(sorted(keys)), decide, is_heavy=is_heavy
    )
    if error is not None:
        results = [_DEPENDENT] * len(members)
        results[len(outcomes)] = _refused(error)
        return Results(results, lsn)

    def told() -> list[Result]:
        return [
            _done(member, outcome, options, factor)
            for member, outcome in zip(members, outcomes, strict=True)
        ]

    # What a change costs is found by comparing the item with what it was.
    return Results(await asyncio.to_thread(told) if is_heavy else told(), lsn)


# Each on its own --------------------------------------------------------------------------------


async def run_each(
    op: Operation,
    range_index: int | None,
    members: Sequence[Member],
    options: Options,
    factor: int,
    *,
    goes_on: bool,
    reread: Callable[[Container], Sequence[Member]],
) -> Results:
    """Runs each operation as a transaction; `goes_on` says what happens after one has failed.

    Each goes to the range of its own key, whichever the request names. A 410 would be of no use: a
    client that knows the ranges of a container made anew under the same name looks again, finds the
    range it was refused, and the JavaScript one then waits on it for ever.
    `reread` gives the operations for the container as it is by then, if it changes in between.
    """
    if any(isinstance(member.step, CosmosError) for member in members):
        await confirm(op)  # what is refused by now never comes to the store, which would find out
    room = _Room()
    first = op.container

    async def run(position: int, member: Member) -> Result:
        async def transact(op: Operation) -> Result:
            current = member
            if op.container is not first:
                current = reread(op.container)[position]
            step = current.step
            if isinstance(step, CosmosError):
                return _refused(step)

            def decide(view: View) -> Decision[Outcome]:
                work = Transaction(op, view)
                outcome = _run(current, work, room, position, options)
                return Decision(work.changes, outcome, at=work.op.ts)

            part = step.place.range_index
            outcome = await write(op, part, step.keys, decide)
            return _done(current, outcome, options._replace(container=op.container), factor)

        try:
            return await on_current(op, transact)
        except CosmosError as error:
            room.give_back(position)
            return _refused(error)

    if goes_on:
        # Queued in this order before any of them is run, so they share their commits.
        results = list(await asyncio.gather(*map(run, range(len(members)), members)))
    else:
        results = []
        for position, member in enumerate(members):
            has_failed = bool(results) and results[-1].status >= 400
            results.append(_DEPENDENT if has_failed else await run(position, member))
    lsns = await op.store.lsns(op.container)
    return Results(results, lsns[range_index_of(members, range_index)])


def range_index_of(members: Sequence[Member], given: int | None) -> int:
    """The range whose position the response tells: the one asked for, or that of the first."""
    if given is not None:
        return given
    steps = (member.step for member in members if isinstance(member.step, Step))
    return next((step.place.range_index for step in steps), 0)


def ranges_of(members: Sequence[Member]) -> set[int]:
    """The ranges that the operations are for, as far as they are any."""
    return {member.step.place.range_index for member in members if isinstance(member.step, Step)}


# Both -------------------------------------------------------------------------------------------


class _Room:
    """What is left of the largest response, by operation, so that asking twice takes once."""

    def __init__(self) -> None:
        self._taken: dict[int, int] = {}

    def take(self, position: int, size: int) -> None:
        """413 before anything is written whose answer would not fit."""
        self._taken[position] = size + _ENTRY
        if sum(self._taken.values()) > LARGEST_RESPONSE:
            self.give_back(position)
            raise RequestEntityTooLarge(
                "The response would be larger than 4 MB with this operation.", sub_status=3402
            )

    def give_back(self, position: int) -> None:
        self._taken.pop(position, None)


def _run(
    member: Member, work: Transaction, room: _Room, position: int, options: Options
) -> Outcome:
    if isinstance(member.step, CosmosError):
        raise member.step
    outcome = member.step.run(work)
    if _has_body(member, outcome, options):
        room.take(position, len(outcome.row.body))
    return outcome


def _has_body(member: Member, outcome: Outcome, options: Options) -> bool:
    if outcome.status in (204, 304):
        return False
    return options.with_bodies or member.kind == "Read"


def _done(member: Member, outcome: Outcome, options: Options, factor: int) -> Result:
    charge = items.charge_of(options.container, outcome, factor)
    has_body = _has_body(member, outcome, options)
    return Result(outcome.status, charge, outcome, None, has_body)


def _refused(error: CosmosError) -> Result:
    charge = charges.REJECTED if error.charge is None else error.charge
    return Result(error.status, charge, None, error)


_DEPENDENT: Final = Result(
    FailedDependency.status,
    0.0,
    None,
    FailedDependency("Another operation of the batch has failed, so this one was not done."),
)
