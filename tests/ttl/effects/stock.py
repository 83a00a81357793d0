"""Helpers for tests that run on expired items, before and after the purge."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.support.raw import Reply
from tests.support.ttl_containers import Shelf

# Differ from one request to the next, whatever they are about.
_VOLATILE: Final = {"x-ms-activity-id", "date"}
Bury = Callable[[Shelf], None]


def same(reply: Reply) -> tuple[int, dict[str, str], str]:
    """An answer without what makes every answer unique."""
    headers = {name: value for name, value in reply.headers.items() if name not in _VOLATILE}
    return reply.status, headers, re.sub(r"ActivityId: [\w-]+", "", reply.body.decode())


def lsn(shelf: Shelf) -> int:
    """The last LSN of a container with one range."""
    token = shelf.raw.get(f"{shelf.path}/docs").headers["x-ms-session-token"]
    match = re.fullmatch(r"0:-1#(\d+)", token)
    assert match, token
    return int(match[1])


# Queries ----------------------------------------------------------------------------------------

# Alive: n = 1, 3, 5, 7; dead: n = 0, 2, 4, 6, 8, in between and at both ends.
LIVING: Final = [1, 3, 5, 7]
EVERYONE: Final = range(9)


def stock_item(number: int) -> dict[str, Any]:
    is_dead = number % 2 == 0
    item = {
        "id": f"i{number}",
        "pk": "p" if number < 5 else "q",
        "n": number,
        "kind": "dead" if is_dead else ("low" if number < 4 else "high"),
        "same": True,
        "tags": [{"t": number * 10}, {"t": number * 10 + 1}],
    }
    return item | {"ttl": 5} if is_dead else item


@dataclass(frozen=True)
class Stock:
    """The same living items twice: with the dead among them, and without."""

    mixed: Shelf
    clean: Shelf


def taken(reply: Reply) -> bool:
    return (
        reply.status == 409
        and 'Message: {"Errors":["Unique index constraint violation."]}' in reply.json["message"]
    )


# Quota ------------------------------------------------------------------------------------------


def usage(shelf: Shelf) -> dict[str, int]:
    """The figures of x-ms-resource-usage."""
    reply = shelf.raw.get(shelf.path, x_ms_documentdb_populatequotainfo="true")
    assert reply.status == 200
    pairs = [pair.split("=") for pair in reply.headers["x-ms-resource-usage"].split(";") if pair]
    return {name: int(value) for name, value in pairs}


def statistics(shelf: Shelf) -> tuple[int, int, int]:
    """Items, kilobytes and partition keys of a container with one range."""
    reply = shelf.raw.get(shelf.path, x_ms_documentdb_populatepartitionstatistics="true")
    (only,) = reply.json["statistics"]
    keys: int = only["sampledDistinctPartitionKeyCount"]
    return only["documentCount"], only["sizeInKB"], keys
