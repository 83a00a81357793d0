"""What the database's failures mean to a client, told by SQLSTATE."""

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

# Others got in the way; the transaction was undone, and the same again may well succeed.
_CONFLICTS: Final = frozenset(("40001", "40P01", "55P03"))
# The server or one of its nodes has gone away.
_GONE: Final = ("08", "57P")
# Nobody could be asked; whoever waited for that has waited long enough.
_UNREACHABLE: Final = (PoolTimeout, PoolClosed, TooManyRequests)
_VALUE_REJECTED: Final = ("22", "54")

_UNSTORABLE: Final = (
    "The item holds something that PostgreSQL's JSON cannot: the character \\u0000, half of a"
    " surrogate pair, a number out of range, or too many levels."
)


def is_retryable(exc: BaseException) -> bool:
    """Whether a transaction that failed so, before COMMIT was sent, is worth another try."""
    if not isinstance(exc, psycopg.Error) or isinstance(exc, _UNREACHABLE):
        return False
    state = exc.sqlstate
    if state is None:  # the connection broke
        return isinstance(exc, psycopg.OperationalError)
    return state in _CONFLICTS or state.startswith(_GONE)


def may_have_committed(exc: psycopg.OperationalError) -> bool:
    """Whether a failure of what was sent with COMMIT leaves open if that was done: the server
    went away. Every other answer comes instead of the COMMIT's."""
    if isinstance(exc, _UNREACHABLE):  # nothing was sent
        return False
    return exc.sqlstate is None or exc.sqlstate.startswith(_GONE)


def is_single_write_error(exc: BaseException) -> bool:
    """Whether one write of a group is to blame for its failure: for its values, or its key."""
    return is_value_rejected(exc) or isinstance(exc, psycopg.IntegrityError)


def is_value_rejected(exc: BaseException) -> bool:
    """Whether the values themselves were refused."""
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
    """Driver errors in the client's terms, without details of the server; others as they are."""
    if isinstance(exc, _UNREACHABLE):
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
