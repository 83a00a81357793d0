"""The live items of a container that will expire, soonest first, in pages.

The stores list each range and each kind of item in the order of its index on expiry; this module
merges those lists. A position is the key of the last item in the merged order, so a page costs as
much as the items it returns, wherever it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from perseid import ttl
from perseid.limits import MAX_PAGE_BYTES
from perseid.model import Container, Row
from perseid.service import tokens
from perseid.service.account import Account
from perseid.store.types import SpanPosition
from perseid.ttl import ExpirySpan

MOST_ITEMS: Final = 1000
_READS_AT_A_TIME: Final = 32
_KINDS: Final[tuple[ttl.ExpiryKind, ...]] = ("inheriting", "own")


class _Key(NamedTuple):
    """Orders all expiring items of a container."""

    expires_at: int
    kind: int
    range_index: int
    size: int
    terms: int
    number: int

    @classmethod
    def of(cls, row: Row, kind: ttl.ExpiryKind, lifetime: int) -> _Key:
        base = ttl.expiry_base(row.ts, row.ttl)
        return cls(
            base + lifetime, _KINDS.index(kind), row.range_index, row.size, row.terms, row.number
        )


class ExpiringItem(NamedTuple):
    expires_at: int | None
    ttl: int | None
    body: bytes  # its JSON text


class ExpiringPage(NamedTuple):
    items: list[ExpiringItem]
    continuation: str | None  # None on the last page


class _Part(NamedTuple):
    """A part of a list of one range and kind: a span, or the rest of one base after a position."""

    span: ExpirySpan
    after: SpanPosition | None = None


async def expiring_items(
    account: Account, container: Container, count: int, continuation: str | None, now: float
) -> ExpiringPage:
    """At most `count` items with their texts; fewer if they are large."""
    last = _position(account, container, continuation)
    page = (await _candidates(account, container, count, last, int(now)))[: count + 1]
    rows: list[Row] = []
    size = 0
    for _, row in page[:count]:
        size += row.size
        if rows and size > MAX_PAGE_BYTES:
            break
        rows.append(row)
    has_more = len(rows) < len(page)
    token = None
    if has_more:
        position = {"f": "expiring", "c": container.rid, "p": [*page[len(rows) - 1][0]]}
        token = tokens.seal(account.secret, position)
    return ExpiringPage(await _with_texts(account, container, rows), token)


def _position(account: Account, container: Container, continuation: str | None) -> _Key | None:
    if not continuation:
        return None
    token = tokens.unseal(account.secret, continuation, f="expiring", c=container.rid)
    return _Key._make(token["p"])


async def _candidates(
    account: Account, container: Container, count: int, last: _Key | None, now: int
) -> list[tuple[_Key, Row]]:
    """At least the first `count` items after `last` and one more, if there are so many."""
    found: list[tuple[_Key, Row]] = []
    spans = ttl.expiring_spans(container.policy, account.cutoff(container, now), now)
    for span, lifetime in spans:
        for key_range in container.ranges:
            needed = count + 1
            for part in _parts(key_range.index, span, lifetime, last):
                rows = await account.stores.expiry.sample(
                    container, key_range.index, part.span, needed, part.after
                )
                found += [(_Key.of(row, span.kind, lifetime), row) for row in rows]
                needed -= len(rows)
                if not needed:
                    break
    return sorted(found, key=itemgetter(0))


def _parts(range_index: int, span: ExpirySpan, lifetime: int, last: _Key | None) -> Iterator[_Part]:
    """The parts of a list that are after `last`, in their order."""
    if last is None:
        yield _Part(span)
        return
    base = last.expires_at - lifetime
    upto, rest = span.split(base)
    this, that = (_KINDS.index(span.kind), range_index), (last.kind, last.range_index)
    same_base = upto.split(base - 1)[1]  # what expires in the same second
    if this >= that and not same_base.is_empty:
        after = SpanPosition(last.size, last.terms, last.number) if this == that else None
        yield _Part(same_base, after)
    if not rest.is_empty:
        yield _Part(rest)


async def _with_texts(
    account: Account, container: Container, rows: list[Row]
) -> list[ExpiringItem]:
    """Leaves out items that were written or removed since they were listed."""
    items = []
    for index, row in enumerate(rows):
        if index % _READS_AT_A_TIME == 0:
            await asyncio.sleep(0)  # other requests run in between
        current = await account.stores.items.read_number(container, row.number)
        if current is not None and current.etag == row.etag:
            expires_at = ttl.expires_at(row.ts, row.ttl, container.policy)
            items.append(ExpiringItem(expires_at, row.ttl, current.body))
    return items
