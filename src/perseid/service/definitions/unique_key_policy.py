"""Unique key policies: how many keys and paths one may have, and which paths are valid."""

from __future__ import annotations

from typing import Any, Final

from perseid.service.definitions.json_types import (
    as_list,
    as_object,
    as_objects,
    invalid,
    or_default,
)
from perseid.service.definitions.path_grammar import is_property_path

MAX_KEYS: Final = 10
MAX_PATHS: Final = 16  # of all keys together


def normalised_policy(value: Any) -> dict[str, Any]:
    """The `uniqueKeyPolicy` with known members only."""
    given = as_object(or_default(value, {}), "uniqueKeyPolicy")
    keys = [_unique_key(entry) for entry in as_objects(given.get("uniqueKeys"), "uniqueKeys")]
    total = sum(map(len, keys))
    for count, most, what in (
        (len(keys), MAX_KEYS, "unique keys"),
        (total, MAX_PATHS, "unique key paths"),
    ):
        if count > most:
            raise invalid(f"The unique key policy has {count} {what}; the maximum is {most}.")
    return {"uniqueKeys": [{"paths": paths} for paths in keys]}


def _unique_key(entry: dict[str, Any]) -> list[str]:
    paths = as_list(entry.get("paths"), "uniqueKeys.paths")
    if not paths:
        raise invalid("A unique key must have at least one path.")
    for path in paths:
        if not is_property_path(path):
            raise invalid(
                f"The unique key path '{path}' could not be accepted. Unique key paths must contain"
                " only valid characters and not contain a trailing slash or wildcard character."
            )
    return list(paths)
