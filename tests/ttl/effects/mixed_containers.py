"""Helpers for tests that run on expired items, before and after the purge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from tests.support.raw import Reply
from tests.support.ttl_containers import TtlContainer

# Differ from one request to the next, whatever they are about.
_VOLATILE: Final = {"x-ms-activity-id", "x-ms-request-duration-ms", "date"}


def same(reply: Reply) -> tuple[int, dict[str, str], str]:
    """An answer without what makes every answer unique."""
    headers = {name: value for name, value in reply.headers.items() if name not in _VOLATILE}
    return reply.status, headers, re.sub(r"ActivityId: [\w-]+", "", reply.body.decode())


def session_lsn(container: TtlContainer) -> int:
    """The last LSN of a container with one range."""
    token = container.raw.get(f"{container.path}/docs").headers["x-ms-session-token"]
    match = re.fullmatch(r"0:-1#(\d+)", token)
    assert match, token
    return int(match[1])


# Queries ----------------------------------------------------------------------------------------

# Live: n = 1, 3, 5, 7; expired: n = 0, 2, 4, 6, 8, in between and at both ends.
LIVE: Final = [1, 3, 5, 7]
ALL: Final = range(9)


def mixed_item(number: int) -> dict[str, Any]:
    is_expired = number % 2 == 0
    item = {
        "id": f"i{number}",
        "pk": "p" if number < 5 else "q",
        "n": number,
        "kind": "expired" if is_expired else ("low" if number < 4 else "high"),
        "same": True,
        "tags": [{"t": number * 10}, {"t": number * 10 + 1}],
    }
    return item | {"ttl": 5} if is_expired else item


@dataclass(frozen=True)
class MixedContainers:
    """The same live items twice: with expired items among them, and without."""

    mixed: TtlContainer
    clean: TtlContainer


def taken(reply: Reply) -> bool:
    return (
        reply.status == 409
        and 'Message: {"Errors":["Unique index constraint violation."]}' in reply.json["message"]
    )


# Quota ------------------------------------------------------------------------------------------
