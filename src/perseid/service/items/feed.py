"""The feed of a container's items: all live items of a scope, in pages, by item number."""

from __future__ import annotations

from typing import NamedTuple

from perseid.model import Container, Row
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.items.scope import Scope, search_of
from perseid.service.operation import Operation
from perseid.service.throughput import admission


class ItemFeedPage(NamedTuple):
    rows: list[Row]
    continuation: str | None  # None on the last page
    range_index: int | None  # of the scope, if it is confined to one range


def position_of(account: Account, container: Container, continuation: str | None) -> int:
    """The item number that a page continues after."""
    if not continuation:
        return -1
    position: int = tokens.unseal(account.secret, continuation, f="items", c=container.rid)["n"]
    return position


async def read_page(
    op: Operation, scope: Scope, *, after: int, limit: int, allowance: float
) -> ItemFeedPage:
    """The next items; fewer than `limit` if the allowance in request units is short."""
    search = search_of(op, scope, after=after, limit=limit)
    rows, has_more, *_ = await op.stores.queries.search(op.container, search)
    if op.account.budgets is not None:
        affordable = admission.affordable_count(allowance, [row.size for row in rows])
        has_more = has_more or affordable < len(rows)
        del rows[affordable:]
    continuation = None
    if has_more or len(rows) == limit:  # as the service: a full page does not end the feed
        position = {"f": "items", "c": op.container.rid, "n": rows[-1].number}
        continuation = tokens.seal(op.account.secret, position)
    return ItemFeedPage(rows, continuation, search.range_index)
