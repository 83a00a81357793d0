"""Preconditions: If-Match and If-None-Match, for every kind of resource."""

from __future__ import annotations

from perseid.errors import PreconditionFailed
from perseid.ids import same_etag

_FAILED = (
    "Operation cannot be performed because one of the specified precondition is not met."
    " Learn more: https://aka.ms/CosmosDB/sql/errors/precondition-failed"
)


def failed() -> PreconditionFailed:
    return PreconditionFailed(_FAILED)


def check_if_match(etag: str, if_match: str | None) -> None:
    """412 unless the existing resource has the etag the client sent; `*` matches any."""
    if if_match is not None and if_match != "*" and not same_etag(etag, if_match):
        raise failed()


def check_if_absent(if_none_match: str | None) -> None:
    """412 for a write that requires that the resource does not exist; called when it does."""
    if if_none_match == "*":
        raise failed()


def is_unchanged(etag: str, if_none_match: str | None) -> bool:
    """True if the client has this version already, so that the answer is 304."""
    return if_none_match is not None and (if_none_match == "*" or same_etag(etag, if_none_match))
