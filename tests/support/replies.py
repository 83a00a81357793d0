"""What tests read from an answer, whatever it answers."""

from __future__ import annotations

from tests.support.raw import Reply


def outcome(reply: Reply) -> tuple[int, int, str]:
    """Status, sub-status and code of a refusal."""
    return reply.status, reply.sub_status, reply.json["code"]


def charge(reply: Reply) -> float:
    """The request units of a request."""
    return float(reply.headers["x-ms-request-charge"])


def assert_bad_request(reply: Reply) -> None:
    assert (reply.status, reply.sub_status) == (400, 0)
    assert reply.json["code"] == "BadRequest"
