"""Continuation tokens of queries. A token belongs to one query with its parameters."""

from __future__ import annotations

from typing import Any

from perseid.service import tokens
from perseid.service.operation import Operation
from perseid.service.queries.requests import QueryRequest


def seal_position(
    op: Operation, request: QueryRequest, interval: str, position: dict[str, Any]
) -> str:
    """The token of a position, for requests about the same interval of keys, if it names one."""
    owner = _owner(op, request)
    if interval:
        owner["i"] = interval
    return tokens.seal(op.account.secret, owner | position)


def unseal_position(
    op: Operation, request: QueryRequest, interval: str, token: str
) -> dict[str, Any]:
    """The position in a token; raises if the token is of another query or interval."""
    return tokens.unseal(op.account.secret, token, **_owner(op, request), i=interval or None)


def is_of_service(token: str) -> bool:
    """True for a token that the cloud service made for one range; none of ours looks like that."""
    return token.startswith(("+RID:~", "-RID:~"))


def _owner(op: Operation, request: QueryRequest) -> dict[str, Any]:
    return {"f": "query", "c": op.container.rid, "q": request.digest}
