"""Checks of JSON types in definitions: object, array, string, whole number, one of some names.

Each function returns the value with its type, or raises the service's 400 for a wrong type. The
caller checks what the value means.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perseid.errors import BadRequest


def invalid(text: str) -> BadRequest:
    """The error to raise for a definition the service's validators would list."""
    return BadRequest(text, listed=True)


def malformed(name: str, expected: str) -> BadRequest:
    """The error to raise for a value of the wrong JSON type."""
    return invalid(f"One of the specified inputs is invalid: '{name}' must be {expected}.")


def or_default(value: Any, default: Any) -> Any:
    """The value, or the default if it is absent or null."""
    return default if value is None else value


def as_object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed(name, "an object")
    return value


def as_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise malformed(name, "an array")
    return value


def as_objects(value: Any, name: str) -> list[dict[str, Any]]:
    """A list of objects; absent and null count as empty."""
    entries = as_list(or_default(value, []), name)
    return [as_object(entry, f"{name}[{i}]") for i, entry in enumerate(entries)]


def as_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise malformed(name, "a string")
    return value


def as_whole(value: Any, name: str) -> int:
    """A whole number; `60.0` counts as one, `true` does not."""
    whole = whole_number(value)
    if whole is None:
        raise malformed(name, "a whole number")
    return whole


def whole_number(value: Any) -> int | None:
    """The value as an int, or None if it is not a whole number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def one_of(value: Any, names: Iterable[str]) -> str | None:
    """The name that equals the value, ignoring case, or None."""
    if not isinstance(value, str):
        return None
    return next((name for name in names if name.lower() == value.lower()), None)
