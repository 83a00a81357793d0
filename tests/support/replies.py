"""What tests read from an answer, whatever it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tests.support.raw import Reply

# What the server adds to an item, in its order.
SYSTEM: Final = ("_rid", "_self", "_etag", "_attachments", "_ts")


def without_system(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without what the server adds to it."""
    return {name: value for name, value in item.items() if name not in SYSTEM}


def outcome(reply: Reply) -> tuple[int, int, str]:
    """Status, sub-status and code of a refusal."""
    return reply.status, reply.sub_status, reply.json["code"]


def charge(reply: Reply) -> float:
    """The request units of a request."""
    text = reply.headers["x-ms-request-charge"]
    assert re.fullmatch(r"\d+(\.\d{1,2})?", text), text
    return float(text)


def assert_bad_request(reply: Reply) -> None:
    assert (reply.status, reply.sub_status) == (400, 0)
    assert reply.json["code"] == "BadRequest"
