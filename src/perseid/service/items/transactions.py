"""A transaction while it is decided: what its operations see, and what they have changed so far.

The rules are the same for one operation and for a batch: each operation sees the changes of the
operations before it. An expired row counts as absent, and the write that replaces it removes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from perseid import charges, ids, ttl
from perseid.documents import Document, seal
from perseid.errors import ITEM_NOT_FOUND, Conflict, DamagedItem, Forbidden, NotFound
from perseid.model import ItemKey, Row, item_number
from perseid.service.lifetimes import policies
from perseid.service.operation import Operation, rebase_to_now
from perseid.service.throughput import enforcement
from perseid.store.types import Decision, PartitionAtCutoff, Put, Remove, View

T = TypeVar("T")

_UNIQUE: Final = "Unique index constraint violation."


class LogicalPartition(NamedTuple):
    """A logical partition: its stored key and the physical range that holds it."""

    pk: bytes
    range_index: int


class CheckedItem(NamedTuple):
    """A document that passed all checks that do not depend on other items."""

    id: str
    logical_partition: LogicalPartition
    epk: bytes
    document: Document
    ttl: int | None
    terms: int
    unique: tuple[bytes, ...]


class WriteResult(NamedTuple):
    """The result of an operation: the row after it, or the last row of a deleted item.

    `old` is the row it replaced and `checked_item` the item it wrote, if there is one; `patches`
    counts the operations of a patch. `changed_terms` is None until the charge is computed.
    """

    status: int
    row: Row
    lsn: int
    old: Row | None = None
    checked_item: CheckedItem | None = None
    patches: int = 0
    changed_terms: int | None = None


class ItemOperation(NamedTuple):
    """One operation on items: the keys it reads, and what it does in a transaction."""

    logical_partition: LogicalPartition
    keys: tuple[ItemKey, ...]
    run: Callable[[Transaction], WriteResult]


def write(
    op: Operation,
    range_index: int,
    keys: Sequence[ItemKey],
    decide: Callable[[View], Decision[T]],
    *,
    is_heavy: bool = False,
) -> Awaitable[T]:
    """Decides and applies in one transaction: see `ItemStore.write`.

    Where purging is charged to the container, so are expired items that a write removes.
    """
    account = op.account
    if account.budgets is not None and enforcement.is_purge_metered(account):
        return _write_metered(op, range_index, keys, decide, is_heavy=is_heavy)
    return account.stores.items.write(op.container, range_index, keys, decide, is_heavy=is_heavy)


async def _write_metered(
    op: Operation,
    range_index: int,
    keys: Sequence[ItemKey],
    decide: Callable[[View], Decision[T]],
    *,
    is_heavy: bool,
) -> T:
    changes: Sequence[Put | Remove] = ()

    def decide_and_keep(view: View) -> Decision[T]:
        nonlocal changes
        decision = decide(view)
        changes = decision.changes
        return decision

    result = await op.stores.items.write(
        op.container, range_index, keys, decide_and_keep, is_heavy=is_heavy
    )
    expired_rows = (
        change.row for change in changes if isinstance(change, Remove) and change.expired
    )
    charge = sum(charges.delete(row.size, row.terms) for row in expired_rows)
    enforcement.record_purge_charge(op.account, op.container, charge)
    return result


def item_not_found() -> NotFound:
    """The error for an absent or expired item; clients cannot tell the two apart."""
    return NotFound(ITEM_NOT_FOUND, charge=charges.MISS)


class Transaction:
    """The rows that the store has read, and the changes of the operations so far."""

    __slots__ = (
        "_changed_items",
        "_growth",
        "_puts",
        "_reserved_entries",
        "_rows",
        "changes",
        "needed_sizes",
        "op",
        "view",
    )

    def __init__(self, op: Operation, view: View) -> None:
        self.op = rebase_to_now(op)
        self.view = view
        self.changes: list[Put | Remove] = []
        self.needed_sizes: list[PartitionAtCutoff] = []  # that the view lacks
        self._rows: dict[ItemKey, Row | None] = {}
        self._reserved_entries: dict[bytes, Row] = {}  # entries of the unique-key index
        self._changed_items: set[int] = set()  # numbers; their entries in the store are outdated
        self._puts = 0
        self._growth = 0  # bytes of live items

    def decision(self, result: T) -> Decision[T]:
        """The decision to make the changes so far, with `result` for the caller."""
        return Decision(self.changes, result, needs_sizes=self.needed_sizes, at=int(self.op.now))

    def require_live(self, key: ItemKey) -> Row:
        """The live row of the key; 404 if there is none."""
        row = self._row(key)
        if row is None or not self._is_live(row):
            raise item_not_found()
        return row

    def require_readable(self, key: ItemKey) -> Row:
        """The live row of the key with its body; 503 if that is damaged."""
        row = self.require_live(key)
        if not row.body:
            raise DamagedItem(row.id)
        return row

    def remove_if_expired(self, key: ItemKey) -> Row | None:
        """The live row of the key, or None. An expired row is removed."""
        row = self._row(key)
        if row is not None and not self._is_live(row):
            self._remove(row, expired=True)
            return None
        return row

    def remove(self, row: Row) -> None:
        self._growth -= row.size
        self._remove(row, expired=False)

    def put(self, key: ItemKey, new: CheckedItem, old: Row | None) -> Row:
        """Writes `new` as the item of its key; it replaces `old` if that is not None."""
        if new.unique:
            self._reserve_unique_keys(new.unique, old)
        op, view = self.op, self.view
        container, ts = op.container, op.ts
        version = item_number(new.logical_partition.range_index, view.lsn, self._puts)
        number = version if old is None else old.number
        etag = ids.make_etag(ts, container.number << 60 | version)
        rid = ids.child_rid(container.rid, "document", number)
        body = seal(new.document.text, rid, container.docs_link, etag, ts)
        size = new.document.size + len(body) - len(new.document.text)
        row = Row(
            number, new.logical_partition.pk, new.id, new.epk, ts, new.ttl,
            view.lsn, etag, size, new.terms, body,
        )  # fmt: skip
        self._check_partition_size(row, old)
        self._puts += 1
        self._growth += size if old is None else size - old.size
        if old is not None and old.id != new.id:
            self._rows[old.key] = None
        self._rows[key] = row
        if new.unique:
            self._release_unique_keys(number)
            self._reserved_entries.update(dict.fromkeys(new.unique, row))
        self.changes.append(Put(row, old, new.unique))
        return row

    def _row(self, key: ItemKey) -> Row | None:
        rows = self._rows
        return rows[key] if key in rows else self.view.rows[key]

    def _is_live(self, row: Row) -> bool:
        return ttl.is_live(row.ts, row.ttl, self.op.cutoff)

    def _remove(self, row: Row, *, expired: bool) -> None:
        self._rows[row.key] = None
        self._release_unique_keys(row.number)
        self.changes.append(
            Remove(row, expired, expired and self._was_live_under_previous_policy(row))
        )

    def _was_live_under_previous_policy(self, row: Row) -> bool:
        """True if an expired row would be live under the policy before the last change.

        It is counted, because an undo of that change can no longer restore it.
        """
        op = self.op
        previous_cutoff = policies.previous_cutoff(op.account, op.container, op.now)
        return previous_cutoff is not None and ttl.is_live(row.ts, row.ttl, previous_cutoff)

    def _reserve_unique_keys(self, entries: tuple[bytes, ...], own: Row | None) -> None:
        """409 if a live item has one of the values; expired items that have them are removed."""
        for entry in entries:
            owner = self._unique_key_owner(entry)
            if owner is None or (own is not None and owner.number == own.number):
                continue
            if self._is_live(owner):
                raise Conflict(_UNIQUE, listed=True)
            self._remove(owner, expired=True)

    def _unique_key_owner(self, entry: bytes) -> Row | None:
        if entry in self._reserved_entries:
            return self._reserved_entries[entry]
        row = self.view.unique_key_owners.get(entry)
        return None if row is None or row.number in self._changed_items else row

    def _release_unique_keys(self, number: int) -> None:
        self._changed_items.add(number)
        if self._reserved_entries:
            self._reserved_entries = {
                entry: row for entry, row in self._reserved_entries.items() if row.number != number
            }

    def _check_partition_size(self, row: Row, old: Row | None) -> None:
        """403 if the logical partition would become too large; expired items do not count."""
        op, view = self.op, self.view
        limit = op.account.settings.partition_limit
        added = self._growth + row.size
        if view.size + added <= limit:  # then no partition of the range can reach it
            return
        partition = PartitionAtCutoff(row.pk, op.cutoff)
        size = view.partition_sizes.get(partition)
        if size is None:
            self.needed_sizes.append(partition)
        elif size + added - (0 if old is None else old.size) > limit:
            raise Forbidden(
                "Partition key reached maximum size of 20 GB. Learn more:"
                " https://aka.ms/CosmosDB/sql/errors/full-pk",
                sub_status=1014,
            )
