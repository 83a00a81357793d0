"""Preconditions: If-Match and If-None-Match, decided in one place for every kind of resource."""

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
    """412 unless the existing resource is the version the caller means; `*` means any."""
    if if_match is not None and if_match != "*" and not same_etag(etag, if_match):
        raise failed()


def check_if_absent(if_none_match: str | None) -> None:
    """412 for a writer who asked that there be nothing yet, and there is something."""
    if if_none_match == "*":
        raise failed()


def is_unchanged(etag: str, if_none_match: str | None) -> bool:
    """Whether a reader already holds this version and need not be sent it again."""
    return if_none_match is not None and (if_none_match == "*" or same_etag(etag, if_none_match))
