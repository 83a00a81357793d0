"""Translates the database's errors, by SQLSTATE, into errors for the client."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests

from perseid.errors import (
    BadRequest,
    CosmosError,
    InsufficientStorage,
    RequestTimeout,
    RetryWith,
    ServiceUnavailable,
)

# A conflict with another transaction; this one was rolled back and may succeed when retried.
_CONFLICTS: Final = frozenset(("40001", "40P01", "55P03"))
# The server or one of its nodes is gone.
_GONE: Final = ("08", "57P")
# No connection was available in time.
_UNREACHABLE: Final = (PoolTimeout, PoolClosed, TooManyRequests)
_VALUE_REJECTED: Final = ("22", "54")

_UNSTORABLE: Final = (
    "The item holds something that PostgreSQL's JSON cannot: the character \\u0000, half of a"
    " surrogate pair, a number out of range, or too many levels."
)


def is_unreachable(exc: BaseException) -> bool:
    """True if no connection was available in time, so that nothing was sent."""
    return isinstance(exc, _UNREACHABLE)


def is_retryable(exc: BaseException) -> bool:
    """True if a transaction that failed before COMMIT was sent may be retried."""
    if not isinstance(exc, psycopg.Error) or is_unreachable(exc):
        return False
    state = exc.sqlstate
    if state is None:  # the connection broke
        return isinstance(exc, psycopg.OperationalError)
    return state in _CONFLICTS or state.startswith(_GONE)


def may_have_committed(exc: psycopg.OperationalError) -> bool:
    """True if it is unknown whether the COMMIT succeeded: the server is gone. Any other error
    means that it did not."""
    if is_unreachable(exc):
        return False
    return exc.sqlstate is None or exc.sqlstate.startswith(_GONE)


def is_single_write_error(exc: BaseException) -> bool:
    """True if the values or the key of one write made the whole group fail."""
    return is_value_rejected(exc) or isinstance(exc, psycopg.IntegrityError)


def is_value_rejected(exc: BaseException) -> bool:
    """True if the database rejected the values."""
    return (
        isinstance(exc, psycopg.Error)
        and exc.sqlstate is not None
        and exc.sqlstate.startswith(_VALUE_REJECTED)
    ) or (isinstance(exc, psycopg.DataError) and exc.sqlstate is None)


def unstorable_item() -> BadRequest:
    return BadRequest(_UNSTORABLE)


def unknown_outcome() -> CosmosError:
    return ServiceUnavailable(
        "The connection to the database was lost while the write was being made durable; it may"
        " or may not have been applied."
    )


def as_client_error(exc: BaseException) -> BaseException:
    """A driver error as an error for the client, without server details; others as they are."""
    if is_unreachable(exc):
        return _caused(ServiceUnavailable("The database cannot be reached at the moment."), exc)
    if not isinstance(exc, psycopg.Error):
        return exc
    state = exc.sqlstate
    if is_value_rejected(exc):
        return _caused(unstorable_item(), exc)
    if state == "53100":
        return _caused(
            InsufficientStorage("The database's disk is full; nothing was written."), exc
        )
    if state in _CONFLICTS:
        return _caused(
            RetryWith("Others were writing to the same partition; nothing was written."), exc
        )
    if state == "57014":
        return _caused(RequestTimeout("The database took too long; nothing was changed."), exc)
    reason = "lost" if state is None else f"reports {state}"
    return _caused(
        ServiceUnavailable(f"The database cannot be used now: connection {reason}."), exc
    )


def _caused(error: CosmosError, cause: BaseException) -> CosmosError:
    error.__cause__ = cause
    return error
