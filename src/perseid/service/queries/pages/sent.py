"""Pages and groups on their way to a worker process: what page builders read of them.

They are plain data, as answers to worker processes have to be.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any, Final, NamedTuple, TypeAlias

from perseid.conditions import OrderPosition
from perseid.model import Row, body_of, size_of
from perseid.store.types import GroupCount, SearchPage
from perseid.workers.messages import AnswerWithParts

_NUMBER: Final = 0


class SentPage(NamedTuple):
    """Columns instead of rows: there are fewer objects to send."""

    numbers: list[int]
    sizes: list[int]
    has_more: bool
    next_position: tuple[Any, ...] | None
    is_ordered: bool

    def page(self, bodies: list[bytes]) -> SearchPage:
        """The page again; columns that were not sent are empty."""
        nothing, empty, zero = repeat(b""), repeat(""), repeat(0)
        columns = zip(
            self.numbers,
            nothing,  # pk
            empty,  # id
            nothing,  # epk
            zero,  # ts
            repeat(None),  # ttl
            zero,  # lsn
            empty,  # etag
            self.sizes,
            zero,  # terms
            bodies,
        )  # not strict: most of them do not end
        rows = map(tuple.__new__, repeat(Row), columns)  # half the time of `Row._make`
        sent = self.next_position
        position = None if sent is None else OrderPosition._make(sent)
        return SearchPage([*rows], self.has_more, position, self.is_ordered)


def pack(page: SearchPage) -> AnswerWithParts:
    """The fields of a `SentPage`, and the bodies."""
    rows, has_more, position, is_ordered, _ = page
    numbers = [row[_NUMBER] for row in rows]
    plain_position = position and tuple(position)
    fields = numbers, [*map(size_of, rows)], has_more, plain_position, is_ordered
    return AnswerWithParts(fields, [*map(body_of, rows)])


# How many items each group has, and the documents of the groups.
SentGroups: TypeAlias = "tuple[list[int], list[dict[str, Any]]]"


def pack_groups(groups: list[GroupCount]) -> SentGroups:
    return [group.items for group in groups], [group.document for group in groups]


def unpack_groups(sent: SentGroups) -> list[GroupCount]:
    return [*map(tuple.__new__, repeat(GroupCount), zip(*sent, strict=True))]
