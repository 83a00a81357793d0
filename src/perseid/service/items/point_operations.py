"""Items: create, read, replace, upsert, patch, delete, and what each operation costs.

Each write is a pure decision over the rows it touches (see `store.protocol`). It is made of item
operations, which batches use too. An expired row counts as absent everywhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from perseid import charges, documents, ids, partition, ttl
from perseid.documents import Document
from perseid.errors import (
    AlreadyExists,
    BadRequest,
    CosmosError,
    IdChangeForbidden,
    PartitionKeyMismatch,
)
from perseid.model import Container, ItemKey, Row
from perseid.service.account import Account
from perseid.service.items import unique_keys
from perseid.service.items.decoding import run_decoding
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
from perseid.store.types import Decision, View

# Bytes of an item that a database takes milliseconds to convert; not on the event loop.
HEAVY_WRITE: Final = 128 * 1024
# What requests ask of the index, as a number or as a word, and whether the item is indexed.
INDEXING_DIRECTIVES: Final = {
    "0": True, "default": True,
    "1": True, "include": True,
    "2": False, "exclude": False,
}  # fmt: skip
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
    """The logical partition that a request names; 400 if the key is missing or only a prefix."""
    if header is None and (header := partition.header_of(header, container.key)) is None:
        raise BadRequest(_KEY_REQUIRED, charge=charges.REJECTED)
    levels = len(container.key.paths)
    in_first_range, given = _named_key(header, levels)
    if given != levels:
        raise PartitionKeyMismatch(_KEY_INCOMPLETE.format(levels=levels, given=given))
    if len(container.ranges) == 1:
        return in_first_range
    return _locate(container, in_first_range.pk)[0]


@lru_cache(maxsize=16_384)
def _named_key(header: str, levels: int) -> tuple[LogicalPartition, int]:
    """The key that a header names, as in a container of one range, and how many levels it has."""
    components = partition.parse_header(header, levels)
    return LogicalPartition(partition.canonical(components), 0), len(components)


def _locate(container: Container, pk: bytes) -> tuple[LogicalPartition, str]:
    epk = partition.effective_of(pk, container.key)
    if len(container.ranges) == 1:
        return LogicalPartition(pk, 0), epk
    return LogicalPartition(pk, partition.range_of(epk, container.ranges).index), epk


def checked_item(
    container: Container,
    document: Document,
    header: str | None,
    *,
    is_indexed: bool = True,
    is_lenient: bool = False,
) -> CheckedItem:
    """The item of a body, after the checks that need no other item: id, key, `ttl`, size.

    `is_lenient` accepts an invalid `ttl` while TTL is off.
    """
    value = document.value
    item_id = ids.check_item_id(value.get("id"))
    components = partition.extract(container.key, value)
    pk = partition.canonical(components)
    levels = len(container.key.paths)
    if header is not None and _named_key(header, levels) != ((pk, 0), levels):
        raise PartitionKeyMismatch(_KEY_MISMATCH)
    partition.check_size(components)
    logical_partition, epk = _locate(container, pk)
    return build_checked_item(
        container,
        document,
        item_id,
        logical_partition,
        bytes.fromhex(epk),
        is_indexed=is_indexed,
        is_lenient=is_lenient,
    )


def check_body(
    container: Container,
    body: bytes,
    header: str | None,
    is_indexed: bool,
    is_lenient: bool = False,
) -> CheckedItem:
    """The item of a request body."""
    document = documents.parse(body)
    return checked_item(container, document, header, is_indexed=is_indexed, is_lenient=is_lenient)


def build_checked_item(
    container: Container,
    document: Document,
    item_id: str,
    logical_partition: LogicalPartition,
    epk: bytes,
    *,
    is_indexed: bool,
    is_lenient: bool,
) -> CheckedItem:
    value = document.value
    return CheckedItem(
        item_id,
        logical_partition,
        epk,
        document,
        ttl.stored_item_ttl(value, container.policy, is_lenient=is_lenient),
        charges.count_terms(value, container.index) if is_indexed else 0,
        unique_keys.entries(container, logical_partition.pk, value)
        if container.unique_keys
        else (),
    )


async def read(
    op: Operation, logical_partition: LogicalPartition, name: str
) -> tuple[Row | None, int]:
    """The live item with this id or rid, or None, and the LSN of its range."""
    row, lsn = await op.account.stores.items.read(
        op.container, logical_partition.range_index, ItemKey(logical_partition.pk, name)
    )
    if row is None or not ttl.is_live(row.ts, row.ttl, op.cutoff):
        row = await _read_by_rid(op, logical_partition, name)
        if row is not None and not ttl.is_live(row.ts, row.ttl, op.cutoff):
            row = None
    return row, lsn


async def _read_by_rid(op: Operation, logical_partition: LogicalPartition, rid: str) -> Row | None:
    row = await find_by_rid(op.account, op.container, rid)
    return row if row is not None and row.pk == logical_partition.pk else None


async def find_by_rid(account: Account, container: Container, rid: str) -> Row | None:
    """The stored item with that rid, expired or not."""
    number = ids.document_number(rid, container.rid)
    return None if number is None else await account.stores.items.read_number(container, number)


async def resolve_id(op: Operation, logical_partition: LogicalPartition, name: str) -> str:
    """The id of the item that a URL names by id or by rid."""
    if ids.document_number(name, op.container.rid) is None:
        return name
    row, _ = await read(op, logical_partition, name)
    return name if row is None else row.id


def create(op: Operation, new: CheckedItem) -> Awaitable[WriteResult]:
    return perform(op, create_operation(new), new.document.size)


def upsert(
    op: Operation, new: CheckedItem, if_match: str | None, if_none_match: str | None = None
) -> Awaitable[WriteResult]:
    """Creates or replaces; with `if_none_match="*"` it only creates."""
    return perform(op, upsert_operation(new, if_match, if_none_match), new.document.size)


def replace(
    op: Operation, item_id: str, new: CheckedItem, if_match: str | None, *, may_rename: bool = True
) -> Awaitable[WriteResult]:
    """Replaces an item; the new body may have another id, if no item has that one."""
    operation = replace_operation(item_id, new, if_match, may_rename=may_rename)
    return perform(op, operation, new.document.size)


def delete(
    op: Operation, logical_partition: LogicalPartition, item_id: str, if_match: str | None
) -> Awaitable[WriteResult]:
    return perform(op, delete_operation(logical_partition, item_id, if_match))


def perform(op: Operation, item_operation: ItemOperation, size: int = 0) -> Awaitable[WriteResult]:
    """Runs one operation, which writes an item of that size, as a transaction of its own."""

    def decide(view: View) -> Decision[WriteResult]:
        transaction = Transaction(op, view)
        return transaction.decision(item_operation.run(transaction))

    return write(
        op,
        item_operation.logical_partition.range_index,
        item_operation.keys,
        decide,
        is_heavy=size > HEAVY_WRITE,
    )


# Item operations: a transaction runs one of them, or all of a batch.


def create_operation(new: CheckedItem) -> ItemOperation:
    key = ItemKey(new.logical_partition.pk, new.id)

    def run(transaction: Transaction) -> WriteResult:
        if transaction.remove_if_expired(key) is not None:
            raise AlreadyExists
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


def replace_operation(
    item_id: str, new: CheckedItem, if_match: str | None, *, may_rename: bool = True
) -> ItemOperation:
    key, new_key = (
        ItemKey(new.logical_partition.pk, item_id),
        ItemKey(new.logical_partition.pk, new.id),
    )

    def run(transaction: Transaction) -> WriteResult:
        old = transaction.require_live(key)
        check_if_match(old.etag, if_match)
        if new_key != key and not may_rename:
            raise IdChangeForbidden
        if new_key != key and transaction.remove_if_expired(new_key) is not None:
            raise AlreadyExists
        return WriteResult(200, transaction.put(new_key, new, old), transaction.view.lsn, old, new)

    return ItemOperation(new.logical_partition, (key,) if key == new_key else (key, new_key), run)


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
    """A read inside a transaction; 304 if the etag `known` is the current one."""
    key = ItemKey(logical_partition.pk, item_id)

    def run(transaction: Transaction) -> WriteResult:
        row = transaction.require_readable(key)
        return WriteResult(304 if is_unchanged(row.etag, known) else 200, row, transaction.view.lsn)

    return ItemOperation(logical_partition, (key,), run)


def compared_bytes(write_result: WriteResult) -> int:
    """The bytes of the item and of the previous one, if the charge has to compare them."""
    old = write_result.old
    if old is None or write_result.checked_item is None or write_result.changed_terms is not None:
        return 0
    return len(write_result.row.body) + len(old.body)


async def compare(op: Operation, write_results: Sequence[WriteResult]) -> list[WriteResult]:
    """The same results with the number of changed terms, for items too large for `charge_of`."""
    pairs = [
        (each.old, each.checked_item)
        for each in write_results
        if compared_bytes(each) and each.old is not None and each.checked_item is not None
    ]
    differing = [pair for pair in pairs if not _is_unchanged(*pair)]
    texts = [text for old, new in differing for text in (old.body, new.document.text)]
    try:
        counts = await run_decoding(op.account, texts, _count_changes, op.container, differing)
    except CosmosError:
        # The items are written already, so this is no error: every term counts as changed.
        counts = [old.terms + new.terms for old, new in differing]
    remaining = iter(counts)
    changes = iter([0 if _is_unchanged(*pair) else next(remaining) for pair in pairs])
    return [
        each._replace(changed_terms=next(changes)) if compared_bytes(each) else each
        for each in write_results
    ]


def _count_changes(container: Container, pairs: Sequence[tuple[Row, CheckedItem]]) -> list[int]:
    return [changed_terms(container, old, new) for old, new in pairs]


def charge_of(container: Container, write_result: WriteResult, factor: int = 1) -> float:
    """The charge of an operation; reads are multiplied by `factor`, for the consistency level."""
    row, old, checked_item = write_result.row, write_result.old, write_result.checked_item
    if checked_item is None:
        if write_result.status == 204:
            return charges.delete(row.size, row.terms)
        return factor * (
            charges.MISS if write_result.status == 304 else charges.point_read(row.size)
        )
    if old is None:
        return charges.create(row.size, row.terms, len(checked_item.unique))
    changed = write_result.changed_terms
    if changed is None:
        changed = changed_terms(container, old, checked_item)
    if write_result.patches:
        return charges.patch(old.size, row.size, changed, write_result.patches)
    return charges.replace(old.size, row.size, changed)


def changed_terms(container: Container, old: Row, new: CheckedItem) -> int:
    """How many index terms differ between an item and the one that replaces it."""
    if _is_unchanged(old, new):
        return 0
    # An item that is excluded from the index has no terms.
    before = _old_document(old) if old.terms else {}
    after = new.document.value if new.terms else {}
    return charges.changed_terms(before, after, container.index)


def _is_unchanged(old: Row, new: CheckedItem) -> bool:
    """True if the item is written again to renew its lifetime; False if that is not certain."""
    return old.terms == new.terms and documents.is_resealed(old.body, new.document.text)


def _old_document(old: Row) -> dict[str, Any]:
    """The replaced document, for the charge. If it is damaged, every term counts as new."""
    try:
        body: dict[str, Any] = orjson.loads(old.body)
    except orjson.JSONDecodeError:
        return {}
    return body
