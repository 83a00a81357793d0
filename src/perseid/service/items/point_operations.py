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
from perseid.service.items import unique_keys
from perseid.service.items.patches import Patch
from perseid.service.items.transactions import (
    CheckedItem,
    ItemOperation,
    LogicalPartition,
    Transaction,
    WriteResult,
    write,
)
from perseid.service.operation import Operation
from perseid.service.preconditions import check_if_absent, check_if_match, is_unchanged
from perseid.service.resources.databases import ALREADY_EXISTS
from perseid.store.types import Decision, View

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


def logical_partition_of(container: Container, header: str | None) -> LogicalPartition:
    """The logical partition a request names; it must name one completely."""
    if header is None:
        raise BadRequest(_KEY_REQUIRED, charge=charges.REJECTED)
    levels = container.key.levels
    pk, given = _named_key(header, levels)
    if given != levels:
        raise PartitionKeyMismatch(_KEY_INCOMPLETE.format(levels=levels, given=given))
    if len(container.ranges) == 1:
        return LogicalPartition(pk, 0)
    return _locate(container, pk)[0]


@lru_cache(maxsize=16_384)
def _named_key(header: str, levels: int) -> tuple[bytes, int]:
    """The key that a header names, as it is stored, and how many levels of it are given."""
    components = partition.parse_header(header, levels)
    return partition.canonical(components), len(components)


def _locate(container: Container, pk: bytes) -> tuple[LogicalPartition, str]:
    epk = partition.effective_of(pk, container.key)
    if len(container.ranges) == 1:
        return LogicalPartition(pk, 0), epk
    return LogicalPartition(pk, partition.range_of(epk, container.ranges).index), epk


def checked_item(
    container: Container, document: Document, header: str | None, *, is_indexed: bool = True
) -> CheckedItem:
    """Checks a body as far as it can be checked alone: id, key, lifetime, size."""
    value = document.value
    item_id = ids.check_item_id(value.get("id"))
    components = partition.extract(container.key, value)
    pk = partition.canonical(components)
    levels = container.key.levels
    if header is not None and _named_key(header, levels) != (pk, levels):
        raise PartitionKeyMismatch(_KEY_MISMATCH)
    partition.check_size(components)
    logical_partition, epk = _locate(container, pk)
    return _build_checked_item(
        container, document, item_id, logical_partition, bytes.fromhex(epk), is_indexed=is_indexed
    )


def _build_checked_item(
    container: Container,
    document: Document,
    item_id: str,
    logical_partition: LogicalPartition,
    epk: bytes,
    *,
    is_indexed: bool,
) -> CheckedItem:
    value = document.value
    return CheckedItem(
        item_id,
        logical_partition,
        epk,
        document,
        ttl.stored_item_ttl(value, container.policy),
        charges.count_terms(value, container.index) if is_indexed else 0,
        unique_keys.entries(container, logical_partition.pk, value)
        if container.unique_keys
        else (),
    )


async def read(
    op: Operation, logical_partition: LogicalPartition, name: str
) -> tuple[Row | None, int]:
    """The live item that a URL names by id or by rid, or None, and the LSN of its range."""
    row, lsn = await op.stores.items.read(
        op.container, logical_partition.range_index, ItemKey(logical_partition.pk, name)
    )
    if row is None or not ttl.is_live(row.ts, row.ttl, op.cutoff):
        row = await _read_by_rid(op, logical_partition, name)
        if row is not None and not ttl.is_live(row.ts, row.ttl, op.cutoff):
            row = None
    return row, lsn


async def _read_by_rid(op: Operation, logical_partition: LogicalPartition, rid: str) -> Row | None:
    number = ids.document_number(rid, op.container.rid)
    if number is None:
        return None
    row = await op.stores.items.read_number(op.container, number)
    return row if row is not None and row.pk == logical_partition.pk else None


async def resolve_id(op: Operation, logical_partition: LogicalPartition, name: str) -> str:
    """The id of the item a URL names; the name itself unless it is the rid of an item."""
    if ids.document_number(name, op.container.rid) is None:
        return name
    row, _ = await read(op, logical_partition, name)
    return name if row is None else row.id


def create(op: Operation, new: CheckedItem) -> Awaitable[WriteResult]:
    return perform(op, create_operation(new))


def upsert(
    op: Operation, new: CheckedItem, if_match: str | None, if_none_match: str | None = None
) -> Awaitable[WriteResult]:
    """Creates or replaces; `if_none_match="*"` allows the first only."""
    return perform(op, upsert_operation(new, if_match, if_none_match))


def replace(
    op: Operation, item_id: str, new: CheckedItem, if_match: str | None
) -> Awaitable[WriteResult]:
    """Replaces an item; the new body may carry another id, if that one is free."""
    return perform(op, replace_operation(item_id, new, if_match))


def patch(
    op: Operation,
    logical_partition: LogicalPartition,
    item_id: str,
    item_patch: Patch,
    if_match: str | None,
    *,
    is_indexed: bool = True,
) -> Awaitable[WriteResult]:
    return perform(
        op, patch_operation(logical_partition, item_id, item_patch, if_match, is_indexed=is_indexed)
    )


def delete(
    op: Operation, logical_partition: LogicalPartition, item_id: str, if_match: str | None
) -> Awaitable[WriteResult]:
    return perform(op, delete_operation(logical_partition, item_id, if_match))


def perform(op: Operation, item_operation: ItemOperation) -> Awaitable[WriteResult]:
    """Runs one operation as a transaction of its own."""

    def decide(view: View) -> Decision[WriteResult]:
        transaction = Transaction(op, view)
        write_result = item_operation.run(transaction)
        return Decision(
            transaction.changes,
            write_result,
            needs_sizes=transaction.needed_sizes,
            at=int(transaction.op.now),
        )

    return write(op, item_operation.logical_partition.range_index, item_operation.keys, decide)


# Operations as steps: a transaction may hold one of them, or those of a whole batch.


def create_operation(new: CheckedItem) -> ItemOperation:
    key = ItemKey(new.logical_partition.pk, new.id)

    def run(transaction: Transaction) -> WriteResult:
        if transaction.remove_if_expired(key) is not None:
            raise Conflict(ALREADY_EXISTS)
        return WriteResult(201, transaction.put(key, new, None), transaction.view.lsn, None, new)

    return ItemOperation(new.logical_partition, (key,), run)


def upsert_operation(
    new: CheckedItem, if_match: str | None, if_none_match: str | None
) -> ItemOperation:
    key = ItemKey(new.logical_partition.pk, new.id)

    def run(transaction: Transaction) -> WriteResult:
        old = transaction.remove_if_expired(key)
        if old is not None:
            check_if_match(old.etag, if_match)
            check_if_absent(if_none_match)
        row = transaction.put(key, new, old)
        return WriteResult(201 if old is None else 200, row, transaction.view.lsn, old, new)

    return ItemOperation(new.logical_partition, (key,), run)


def replace_operation(item_id: str, new: CheckedItem, if_match: str | None) -> ItemOperation:
    key, new_key = (
        ItemKey(new.logical_partition.pk, item_id),
        ItemKey(new.logical_partition.pk, new.id),
    )

    def run(transaction: Transaction) -> WriteResult:
        old = transaction.require_live(key)
        check_if_match(old.etag, if_match)
        if new_key != key and transaction.remove_if_expired(new_key) is not None:
            raise Conflict(ALREADY_EXISTS)
        return WriteResult(200, transaction.put(new_key, new, old), transaction.view.lsn, old, new)

    return ItemOperation(new.logical_partition, (key,) if key == new_key else (key, new_key), run)


def patch_operation(
    logical_partition: LogicalPartition,
    item_id: str,
    item_patch: Patch,
    if_match: str | None,
    *,
    is_indexed: bool = True,
) -> ItemOperation:
    key = ItemKey(logical_partition.pk, item_id)

    def run(transaction: Transaction) -> WriteResult:
        old = transaction.require_live(key)
        check_if_match(old.etag, if_match)
        item_patch.check_condition(old.body, transaction.op.now)
        container = transaction.op.container
        document = documents.parse(item_patch.apply(old.body))
        new = _check_patched_item(
            container, old, logical_partition, document, is_indexed=is_indexed
        )
        row = transaction.put(key, new, old)
        return WriteResult(200, row, transaction.view.lsn, old, new, len(item_patch.operations))

    return ItemOperation(logical_partition, (key,), run)


def delete_operation(
    logical_partition: LogicalPartition, item_id: str, if_match: str | None
) -> ItemOperation:
    key = ItemKey(logical_partition.pk, item_id)

    def run(transaction: Transaction) -> WriteResult:
        old = transaction.require_live(key)
        check_if_match(old.etag, if_match)
        transaction.remove(old)
        return WriteResult(204, old, transaction.view.lsn, old)

    return ItemOperation(logical_partition, (key,), run)


def read_operation(
    logical_partition: LogicalPartition, item_id: str, known: str | None
) -> ItemOperation:
    """A read inside a transaction; `known` is the version that need not be sent again."""
    key = ItemKey(logical_partition.pk, item_id)

    def run(transaction: Transaction) -> WriteResult:
        row = transaction.require_live(key)
        return WriteResult(304 if is_unchanged(row.etag, known) else 200, row, transaction.view.lsn)

    return ItemOperation(logical_partition, (key,), run)


def _check_patched_item(
    container: Container,
    old: Row,
    logical_partition: LogicalPartition,
    document: Document,
    *,
    is_indexed: bool,
) -> CheckedItem:
    """What a patch has made of an item: still the same one, and checked like any other body."""
    value = document.value
    pk = partition.canonical(partition.extract(container.key, value))
    if value.get("id") != old.id or pk != old.pk:
        raise PartitionKeyMismatch("A patch may change neither the id nor the partition key.")
    return _build_checked_item(
        container, document, old.id, logical_partition, old.epk, is_indexed=is_indexed
    )


def charge_of(container: Container, write_result: WriteResult, factor: int = 1) -> float:
    """What an operation cost; `factor` is that of the consistency level, for reads."""
    row, old, checked_item = write_result.row, write_result.old, write_result.checked_item
    if checked_item is None:
        if write_result.status == 204:
            return charges.delete(row.size, row.terms)
        return factor * (
            charges.MISS if write_result.status == 304 else charges.point_read(row.size)
        )
    if old is None:
        return charges.create(row.size, row.terms, len(checked_item.unique))
    changed = _changed_terms(container, old, row, checked_item)
    if write_result.patches:
        return charges.patch(old.size, row.size, changed, write_result.patches)
    return charges.replace(old.size, row.size, changed)


def _changed_terms(container: Container, old: Row, row: Row, checked_item: CheckedItem) -> int:
    if old.terms == row.terms and documents.is_resealed(old.body, checked_item.document.text):
        return 0  # written again to live longer
    # An item kept out of the index has no terms, whatever it holds.
    before = _old_document(old) if old.terms else {}
    after = checked_item.document.value if row.terms else {}
    return charges.changed_terms(before, after, container.index)


def _old_document(old: Row) -> dict[str, Any]:
    """What a write has replaced, for its price; what was damaged is mended at the full one."""
    try:
        body: dict[str, Any] = orjson.loads(old.body)
    except orjson.JSONDecodeError:
        return {}
    return body
