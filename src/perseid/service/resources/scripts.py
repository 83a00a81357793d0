"""Stored procedures, triggers and user-defined functions: stored, but never executed.

Checks their definitions, and has the errors for requests that want one executed.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Literal

from perseid.errors import BadRequest
from perseid.ids import check_resource_id, child_rid
from perseid.service.resources.registry import Properties, RegistryKind

_TYPES: Final = ("Pre", "Post")
_OPERATIONS: Final = ("All", "Create", "Update", "Replace", "Delete")
_MISSING: Final = (
    "The input content is invalid because the required properties - '{}; ' - are missing"
)


def execution_unsupported(name: str) -> BadRequest:
    """The error for a request that executes a stored procedure."""
    return BadRequest(
        f"The stored procedure '{name}' is registered, but Perseid does not support executing"
        " stored procedures yet; nothing was changed."
    )


def check_triggers(header: str, value: str) -> None:
    """400 for a write that names triggers: without them it would differ from what was asked."""
    if value.strip():
        raise BadRequest(
            f"The header {header} names '{value[:200]}', but Perseid does not support executing"
            " triggers yet; nothing was written. Leave the header out to write without them."
        )


def _procedure(body: Properties) -> Properties:
    return _script(body, "stored procedure")


def _function(body: Properties) -> Properties:
    return _script(body, "user-defined function")


def _trigger(body: Properties) -> Properties:
    return _script(body, "trigger", triggerType=_TYPES, triggerOperation=_OPERATIONS)


def _script(body: Properties, kind: str, **choices: tuple[str, ...]) -> Properties:
    """The properties of a body that are stored, each as it was sent."""
    required = ("id", "body", *choices)
    missing = [name for name in required if body.get(name) is None]
    if missing:
        raise BadRequest(_MISSING.format("; ".join(missing)), listed=True)
    check_resource_id(body["id"], kind)
    text = body["body"]
    if not isinstance(text, str) or not text.strip():
        raise BadRequest(
            f"The body of a {kind} is its JavaScript source as a string, such as"
            ' "function () { … }".',
            listed=True,
        )
    for name, allowed in choices.items():
        _check_choice(name, body[name], allowed)
    return {name: body[name] for name in required}


def _check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value.lower() not in {choice.lower() for choice in allowed}:
        raise BadRequest(f"{name} is one of {', '.join(allowed)}; not '{value}'.", listed=True)


def _rid(kind: Literal["sproc", "trigger", "udf"], container: str, number: int) -> str:
    return child_rid(container, kind, number)


PROCEDURE: Final = RegistryKind("sproc", partial(_rid, "sproc"), _procedure)
TRIGGER: Final = RegistryKind("trigger", partial(_rid, "trigger"), _trigger)
FUNCTION: Final = RegistryKind("udf", partial(_rid, "udf"), _function)
