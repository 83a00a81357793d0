"""Items: create, read, replace, upsert, patch, delete. What is allowed and what comes back.

Each write is a pure decision over the rows it touches (see store.protocol), made of steps that a
batch uses as well; a dead row counts as absent everywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache
from typing import Any, Final

import orjson

from perseid import charges, documents, ids, partition, ttl
from perseid.documents import Document
from perseid.errors import BadRequest, Conflict, PartitionKeyMismatch
from perseid.model import Container, ItemKey, Row
from perseid.service import unique_keys
from perseid.service.databases import ALREADY_EXISTS
from perseid.service.operation import Operation
from perseid.service.patching import Patch
from perseid.service.preconditions import check_if_absent, check_if_match, is_unchanged
from perseid.service.transactions import Draft, Outcome, Place, Step, Transaction, write
from perseid.store.protocol import Decision, View

_KEY_REQUIRED: Final = "PartitionKey value must be supplied for this operation."
_KEY_MISMATCH: Final = (
    "PartitionKey extracted from document doesn't match the one specified in the header."
    " Partition key provided either doesn't correspond to definition in the collection or doesn't"
    " match partition key field values specified in the document."
)
_KEY_INCOMPLETE: Final = (
    "Partition key provided either doesn't correspond to definition in the collection or doesn't"
    " match partition key field values specified in the document. The container's key has"
    " {levels} level(s), the request gives {given}."
)


def place_of(container: Container, header: str | None) -> Place:
    """The logical partition a request names; it must name one completely."""
    if header is None:
        raise BadRequest(_KEY_REQUIRED, charge=charges.REJECTED)
    levels = container.key.levels
    pk, given = _named_key(header, levels)
    if given != levels:
        raise PartitionKeyMismatch(_KEY_INCOMPLETE.format(levels=levels, given=given))
    if len(container.ranges) == 1:
        return Place(pk, 0)
    return _locate(container, pk)[0]


@lru_cache(maxsize=16_384)
def _named_key(header: str, levels: int) -> tuple[bytes, int]:
    """The key that a header names, as it is stored, and how many levels of it are given."""
    components = partition.parse_header(header, levels)
    return partition.canonical(components), len(components)


def _locate(container: Container, pk: bytes) -> tuple[Place, str]:
    epk = partition.effective_of(pk, container.key)
    if len(container.ranges) == 1:
        return Place(pk, 0), epk
    return Place(pk, partition.range_of(epk, container.ranges).index), epk


def draft(
    container: Container, document: Document, header: str | None, *, is_indexed: bool = True
) -> Draft:
    """Checks a body as far as it can be checked alone: id, key, lifetime, size."""
    value = document.value
    item_id = ids.check_item_id(value.get("id"))
    components = partition.extract(container.key, value)
    pk = partition.canonical(components)
    levels = container.key.levels
    if header is not None and _named_key(header, levels) != (pk, levels):
        raise PartitionKeyMismatch(_KEY_MISMATCH)
    partition.check_size(components)
    place, epk = _locate(container, pk)
    return _drafted(container, document, item_id, place, bytes.fromhex(epk), is_indexed=is_indexed)


def _drafted(
    container: Container,
    document: Document,
    item_id: str,
    place: Place,
    epk: bytes,
    *,
    is_indexed: bool,
) -> Draft:
    value = document.value
    return Draft(
        item_id,
        place,
        epk,
        document,
        ttl.stored_item_ttl(value, container.policy),
        charges.count_terms(value, container.index) if is_indexed else 0,
        unique_keys.entries(container, place.pk, value) if container.unique_keys else (),
    )


async def read(op: Operation, place: Place, name: str) -> tuple[Row | None, int]:
    """The live item that a URL names by id or by rid, or None, and the LSN of its range."""
    row, lsn = await op.store.read(op.container, place.range_index, ItemKey(place.pk, name))
    if row is None or not ttl.is_live(row.ts, row.ttl, op.horizon):
        row = await _read_by_rid(op, place, name)
        if row is not None and not ttl.is_live(row.ts, row.ttl, op.horizon):
            row = None
    return row, lsn


async def _read_by_rid(op: Operation, place: Place, rid: str) -> Row | None:
    number = ids.document_number(rid, op.container.rid)
    if number is None:
        return None
    row = await op.store.read_number(op.container, number)
    return row if row is not None and row.pk == place.pk else None


async def resolve_id(op: Operation, place: Place, name: str) -> str:
    """The id of the item a URL names; the name itself unless it is the rid of an item."""
    if ids.document_number(name, op.container.rid) is None:
        return name
    row, _ = await read(op, place, name)
    return name if row is None else row.id


def create(op: Operation, new: Draft) -> Awaitable[Outcome]:
    return perform(op, creation(new))


def upsert(
    op: Operation, new: Draft, if_match: str | None, if_none_match: str | None = None
) -> Awaitable[Outcome]:
    """Creates or replaces; `if_none_match="*"` allows the first only."""
    return perform(op, upsertion(new, if_match, if_none_match))


def replace(op: Operation, item_id: str, new: Draft, if_match: str | None) -> Awaitable[Outcome]:
    """Replaces an item; the new body may carry another id, if that one is free."""
    return perform(op, replacement(item_id, new, if_match))


def patch(
    op: Operation,
    place: Place,
    item_id: str,
    wanted: Patch,
    if_match: str | None,
    *,
    is_indexed: bool = True,
) -> Awaitable[Outcome]:
    return perform(op, patching(place, item_id, wanted, if_match, is_indexed=is_indexed))


def delete(op: Operation, place: Place, item_id: str, if_match: str | None) -> Awaitable[Outcome]:
    return perform(op, deletion(place, item_id, if_match))


def perform(op: Operation, step: Step) -> Awaitable[Outcome]:
    """Runs one operation as a transaction of its own."""

    def decide(view: View) -> Decision[Outcome]:
        work = Transaction(op, view)
        outcome = step.run(work)
        return Decision(work.changes, outcome, at=int(work.op.now))

    return write(op, step.place.range_index, step.keys, decide)


# Operations as steps: a transaction may hold one of them, or those of a whole batch.


def creation(new: Draft) -> Step:
    key = ItemKey(new.place.pk, new.id)

    def run(work: Transaction) -> Outcome:
        if work.clear(key) is not None:
            raise Conflict(ALREADY_EXISTS)
        return Outcome(201, work.put(key, new, None), work.view.lsn, None, new)

    return Step(new.place, (key,), run)


def upsertion(new: Draft, if_match: str | None, if_none_match: str | None) -> Step:
    key = ItemKey(new.place.pk, new.id)

    def run(work: Transaction) -> Outcome:
        old = work.clear(key)
        if old is not None:
            check_if_match(old.etag, if_match)
            check_if_absent(if_none_match)
        row = work.put(key, new, old)
        return Outcome(201 if old is None else 200, row, work.view.lsn, old, new)

    return Step(new.place, (key,), run)


def replacement(item_id: str, new: Draft, if_match: str | None) -> Step:
    key, new_key = ItemKey(new.place.pk, item_id), ItemKey(new.place.pk, new.id)

    def run(work: Transaction) -> Outcome:
        old = work.existing(key)
        check_if_match(old.etag, if_match)
        if new_key != key and work.clear(new_key) is not None:
            raise Conflict(ALREADY_EXISTS)
        return Outcome(200, work.put(new_key, new, old), work.view.lsn, old, new)

    return Step(new.place, (key,) if key == new_key else (key, new_key), run)


def patching(
    place: Place, item_id: str, wanted: Patch, if_match: str | None, *, is_indexed: bool = True
) -> Step:
    key = ItemKey(place.pk, item_id)

    def run(work: Transaction) -> Outcome:
        old = work.existing(key)
        check_if_match(old.etag, if_match)
        wanted.check_condition(old.body, work.op.now)
        container = work.op.container
        document = documents.parse(wanted.apply(old.body))
        new = _redraft(container, old, place, document, is_indexed=is_indexed)
        row = work.put(key, new, old)
        return Outcome(200, row, work.view.lsn, old, new, len(wanted.operations))

    return Step(place, (key,), run)


def deletion(place: Place, item_id: str, if_match: str | None) -> Step:
    key = ItemKey(place.pk, item_id)

    def run(work: Transaction) -> Outcome:
        old = work.existing(key)
        check_if_match(old.etag, if_match)
        work.remove(old)
        return Outcome(204, old, work.view.lsn, old)

    return Step(place, (key,), run)


def reading(place: Place, item_id: str, known: str | None) -> Step:
    """A read inside a transaction; `known` is the version that need not be sent again."""
    key = ItemKey(place.pk, item_id)

    def run(work: Transaction) -> Outcome:
        row = work.existing(key)
        return Outcome(304 if is_unchanged(row.etag, known) else 200, row, work.view.lsn)

    return Step(place, (key,), run)


def _redraft(
    container: Container, old: Row, place: Place, document: Document, *, is_indexed: bool
) -> Draft:
    """What a patch has made of an item: still the same one, and checked like any other body."""
    value = document.value
    pk = partition.canonical(partition.extract(container.key, value))
    if value.get("id") != old.id or pk != old.pk:
        raise PartitionKeyMismatch("A patch may change neither the id nor the partition key.")
    return _drafted(container, document, old.id, place, old.epk, is_indexed=is_indexed)


def charge_of(container: Container, outcome: Outcome, factor: int = 1) -> float:
    """What an operation cost; `factor` is that of the consistency level, for reads."""
    row, old, draft = outcome.row, outcome.old, outcome.draft
    if draft is None:
        if outcome.status == 204:
            return charges.delete(row.size, row.terms)
        return factor * (charges.MISS if outcome.status == 304 else charges.point_read(row.size))
    if old is None:
        return charges.create(row.size, row.terms, len(draft.unique))
    changed = _changed_terms(container, old, row, draft)
    if outcome.patches:
        return charges.patch(old.size, row.size, changed, outcome.patches)
    return charges.replace(old.size, row.size, changed)


def _changed_terms(container: Container, old: Row, row: Row, draft: Draft) -> int:
    if old.terms == row.terms and documents.is_resealed(old.body, draft.document.text):
        return 0  # written again to live longer
    # An item kept out of the index has no terms, whatever it holds.
    before = _as_it_was(old) if old.terms else {}
    after = draft.document.value if row.terms else {}
    return charges.changed_terms(before, after, container.index)


def _as_it_was(old: Row) -> dict[str, Any]:
    """What a write has replaced, for its price; what was damaged is mended at the full one."""
    try:
        body: dict[str, Any] = orjson.loads(old.body)
    except orjson.JSONDecodeError:
        return {}
    return body
