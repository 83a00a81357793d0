"""The order of a property from some place on, as stretches of an index that follow each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perseid.conditions import STRING, Order, Place, has_only_value


def stretches(
    order: Order,
    start: Place | None,
    rank: str,
    same: str,
    further: Callable[[str], str],
    mark: Callable[[str], str],
) -> list[tuple[str, dict[str, Any]]]:
    """Each stretch as SQL and what it binds.

    `rank` is the rank of the type as SQL, `same` that the value is that of the start, which is
    bound as start_value, and `further` that it compares so with it.
    """
    if start is None:
        return [(f"{rank} <= {STRING}", {})]
    on, beyond = ("<=", "<") if order.is_descending else (">=", ">")
    here = f"{rank} = {start.rank}"
    bound = {} if has_only_value(start.rank) else {"start_value": start.value}
    found: list[tuple[str, dict[str, Any]]] = [
        (
            f"{here} AND {same} AND number {on} {mark('start_number')}",
            bound | {"start_number": start.number},
        )
    ]
    if bound:
        found.append((f"{here} AND {further(beyond)}", bound))
    found.append((f"{rank} {beyond} {start.rank} AND {rank} <= {STRING}", {}))
    return found
