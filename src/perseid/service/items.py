"""Items: create, read, replace, upsert, delete, list. What is allowed and what comes back.

Each write is a pure decision over the rows it touches (see store.protocol); a dead row counts as
absent everywhere, and is swept along by the write that takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from perseid import charges, ids, partition, ttl
from perseid.documents import Document, seal
from perseid.errors import BadRequest, Conflict, Forbidden, NotFound, PartitionKeyMismatch
from perseid.model import Container, ItemKey, Row, item_number
from perseid.service import unique_keys
from perseid.service.databases import ALREADY_EXISTS
from perseid.service.operation import Operation
from perseid.service.preconditions import check_if_absent, check_if_match
from perseid.store.protocol import Decision, Put, Remove, View

_NOT_FOUND: Final = (
    "Entity with the specified id does not exist in the system."
    " More info: https://aka.ms/cosmosdb-tsg-not-found"
)
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
_UNIQUE: Final = "Unique index constraint violation."


class Place(NamedTuple):
    """A logical partition: its stored key and the physical range that holds it."""

    pk: bytes
    range_index: int


class Written(NamedTuple):
    """An accepted write: the row as it is now (for a delete, as it was), and what it replaced."""

    row: Row
    old: Row | None
    lsn: int


class Draft(NamedTuple):
    """A document that passed every check that needs no other document."""

    id: str
    place: Place
    epk: bytes
    document: Document
    ttl: int | None
    terms: int
    unique: tuple[bytes, ...]


def place_of(container: Container, header: str | None) -> Place:
    """The logical partition a request names; it must name one completely."""
    if header is None:
        raise BadRequest(_KEY_REQUIRED, charge=charges.REJECTED)
    pk = _complete_key(header, container.key)
    if len(container.ranges) == 1:
        return Place(pk, 0)
    return _locate(container, pk)[0]


@lru_cache(maxsize=16_384)
def _complete_key(header: str, definition: partition.KeyDefinition) -> bytes:
    components = partition.parse_header(header, definition)
    if len(components) != len(definition.paths):
        raise PartitionKeyMismatch(
            _KEY_INCOMPLETE.format(levels=len(definition.paths), given=len(components))
        )
    return partition.canonical(components)


def _locate(container: Container, pk: bytes) -> tuple[Place, str]:
    epk = partition.effective_of(pk, container.key)
    return Place(pk, partition.range_of(epk, container.ranges).index), epk


def draft(
    container: Container, document: Document, header: str | None, *, is_indexed: bool = True
) -> Draft:
    """Checks a body as far as it can be checked alone: id, key, lifetime, size."""
    value = document.value
    item_id = ids.check_item_id(value.get("id"))
    components = partition.extract(container.key, value)
    pk = partition.canonical(components)
    if header is not None:
        given = partition.parse_header(header, container.key)
        if partition.canonical(given) != pk or len(given) != len(container.key.paths):
            raise PartitionKeyMismatch(_KEY_MISMATCH)
    partition.check_size(components)
    place, epk = _locate(container, pk)
    return Draft(
        id=item_id,
        place=place,
        epk=bytes.fromhex(epk),
        document=document,
        ttl=ttl.stored_item_ttl(value, container.policy),
        terms=charges.count_terms(value, container.index) if is_indexed else 0,
        unique=unique_keys.entries(container, pk, value) if container.unique_keys else (),
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


async def create(op: Operation, new: Draft) -> Written:
    key = ItemKey(new.place.pk, new.id)

    def decide(view: View) -> Decision[Written]:
        changes: list[Put | Remove] = []
        if _live(op, view, key, changes) is not None:
            raise Conflict(ALREADY_EXISTS)
        row = _put(op, new, None, view, changes)
        return Decision(changes, Written(row, None, view.lsn))

    return await op.store.write(op.container, new.place.range_index, (key,), decide)


async def upsert(
    op: Operation, new: Draft, if_match: str | None, if_none_match: str | None = None
) -> Written:
    """Creates or replaces; `if_none_match="*"` allows the first only."""
    key = ItemKey(new.place.pk, new.id)

    def decide(view: View) -> Decision[Written]:
        changes: list[Put | Remove] = []
        old = _live(op, view, key, changes)
        if old is not None:
            check_if_match(old.etag, if_match)
            check_if_absent(if_none_match)
        row = _put(op, new, old, view, changes)
        return Decision(changes, Written(row, old, view.lsn))

    return await op.store.write(op.container, new.place.range_index, (key,), decide)


async def replace(op: Operation, item_id: str, new: Draft, if_match: str | None) -> Written:
    """Replaces an item; the new body may carry another id, if that one is free."""
    key, new_key = ItemKey(new.place.pk, item_id), ItemKey(new.place.pk, new.id)

    def decide(view: View) -> Decision[Written]:
        old = _existing(op, view, key)
        check_if_match(old.etag, if_match)
        changes: list[Put | Remove] = []
        if new_key != key and _live(op, view, new_key, changes) is not None:
            raise Conflict(ALREADY_EXISTS)
        row = _put(op, new, old, view, changes)
        return Decision(changes, Written(row, old, view.lsn))

    keys = (key,) if key == new_key else (key, new_key)
    return await op.store.write(op.container, new.place.range_index, keys, decide)


async def delete(op: Operation, place: Place, item_id: str, if_match: str | None) -> Written:
    key = ItemKey(place.pk, item_id)

    def decide(view: View) -> Decision[Written]:
        old = _existing(op, view, key)
        check_if_match(old.etag, if_match)
        return Decision([Remove(old)], Written(old, old, view.lsn))

    return await op.store.write(op.container, place.range_index, (key,), decide)


def not_found() -> NotFound:
    """For an item that is absent or dead: nothing tells the two apart."""
    return NotFound(_NOT_FOUND, charge=charges.MISS)


def replace_charge(container: Container, written: Written, new: dict[str, Any]) -> float:
    """What a write cost that put one document in the place of another."""
    assert written.old is not None  # noqa: S101  (the caller looked)
    # An item kept out of the index has no terms, whatever it holds.
    old = orjson.loads(written.old.body) if written.old.terms else {}
    changed = charges.changed_terms(old, new if written.row.terms else {}, container.index)
    return charges.replace(written.old.size, written.row.size, changed)


def _existing(op: Operation, view: View, key: ItemKey) -> Row:
    row = view.rows[key]
    if row is None or not ttl.is_live(row.ts, row.ttl, op.horizon):
        raise not_found()
    return row


def _live(op: Operation, view: View, key: ItemKey, changes: list[Put | Remove]) -> Row | None:
    """The live row of the key; a dead one is removed by the same transaction."""
    row = view.rows[key]
    if row is not None and not ttl.is_live(row.ts, row.ttl, op.horizon):
        changes.append(Remove(row, expired=True))
        return None
    return row


def _put(
    op: Operation, new: Draft, old: Row | None, view: View, changes: list[Put | Remove]
) -> Row:
    """Adds the write of `new`, in the place of `old` if there is one."""
    _claim(op, new.unique, old, view, changes)
    container = op.container
    version = item_number(new.place.range_index, view.lsn, len(changes))
    number = version if old is None else old.number
    etag = ids.make_etag(op.ts, container.number << 60 | version)
    rid = ids.child_rid(container.rid, "document", number)
    body = seal(new.document.text, rid, container.docs_link, etag, op.ts)
    size = new.document.size + len(body) - len(new.document.text)
    row = Row(
        number, new.place.pk, new.id, new.epk, op.ts, new.ttl,
        view.lsn, etag, size, new.terms, body,
    )  # fmt: skip
    _check_room(op, row, old, view)
    changes.append(Put(row, old, new.unique))
    return row


def _check_room(op: Operation, row: Row, old: Row | None, view: View) -> None:
    """403 when the logical partition would grow too large; the dead do not count."""
    limit = op.account.settings.partition_limit
    if view.size + row.size <= limit:  # then no partition of the range can be near it
        return
    if view.weigh(row.pk, op.horizon) + row.size - (0 if old is None else old.size) > limit:
        raise Forbidden(
            "Partition key reached maximum size of 20 GB. Learn more:"
            " https://aka.ms/CosmosDB/sql/errors/full-pk",
            sub_status=1014,
        )


def _claim(
    op: Operation,
    entries: Sequence[bytes],
    own: Row | None,
    view: View,
    changes: list[Put | Remove],
) -> None:
    """Refuses values that a live item holds; those of dead items are free, and swept along."""
    for entry in entries:
        holder = view.holders.get(entry)
        if holder is None or (own is not None and holder.number == own.number):
            continue
        if ttl.is_live(holder.ts, holder.ttl, op.horizon):
            raise Conflict(_UNIQUE, listed=True)
        if not any(change.row.number == holder.number for change in changes):
            changes.append(Remove(holder, expired=True))
