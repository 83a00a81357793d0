"""Admission with --enforce-throughput: which requests about items may run.

What a request costs is known only when it is answered. So it is admitted if each of its ranges has
request units left, and the charge of its response is billed to the ranges it touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from perseid import charges, documents, partition
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items.scope import Scope, interval_of, point_of
from perseid.service.operation import Operation
from perseid.service.queries.requests import LONG_TEXT
from perseid.service.throughput import enforcement

BodyKind: TypeAlias = Literal["query", "item", "other"]


class Admission(NamedTuple):
    """The decision about a request."""

    retry_after_ms: int  # 0 if the request is admitted
    allowance: float  # request units that each of its ranges has left in this second


def admit(
    account: Account,
    container: Container,
    range_indexes: Sequence[int],
    now: float,
    *,
    is_low_priority: bool,
) -> Admission:
    """Admits a request if each of its ranges has request units left."""
    wait = enforcement.wait_ms(account, container, range_indexes, now, is_low=is_low_priority)
    if wait:
        return Admission(wait, 0.0)
    return Admission(0, enforcement.allowance(account, container, range_indexes, now))


def ranges_of(op: Operation, scope: Scope, body: bytes, kind: BodyKind) -> Sequence[int]:
    """The physical ranges of a request, as far as they are known before it runs."""
    container = op.container
    if len(container.ranges) == 1:
        return (0,)
    interval = interval_of(container, scope) or _interval_of_body(op, body, kind)
    return partition.overlapping(container.ranges, *interval) or (0,)


def _interval_of_body(op: Operation, body: bytes, kind: BodyKind) -> tuple[str, str]:
    """From and up to, not including: the effective partition keys that a body names."""
    container = op.container
    if kind == "query":
        plans = op.account.plans
        if len(body) > LONG_TEXT and plans.find(container, body, op.now) is None:
            return partition.WHOLE  # it is planned later, in a thread
        filtered_key = plans.find_or_bind(container, body, op.now).partition_key
        return partition.WHOLE if filtered_key is None else point_of(container, filtered_key)
    if kind == "item":
        value = documents.parse(body).value
        return point_of(container, partition.canonical(partition.extract(container.key, value)))
    return partition.WHOLE


def affordable_count(allowance: float, sizes: Sequence[int]) -> int:
    """How many items of these sizes a page returns within an allowance: at least one."""
    left = allowance
    for count, size in enumerate(sizes):
        if count and left <= 0:
            return count
        left -= charges.read(size)
    return len(sizes)
