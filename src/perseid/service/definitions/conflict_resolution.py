"""Conflict resolution policies: checked and returned; with one write region nothing conflicts."""

from __future__ import annotations

from typing import Any, Final

from perseid.service.definitions.json_types import (
    as_object,
    as_text,
    malformed,
    one_of,
    or_default,
)
from perseid.service.definitions.path_grammar import is_property_path

MODES: Final = ("LastWriterWins", "Custom")


def normalised_policy(value: Any) -> dict[str, str]:
    """The complete `conflictResolutionPolicy`; the last writer wins by default, by `_ts`."""
    given = as_object(or_default(value, {}), "conflictResolutionPolicy")
    mode = one_of(or_default(given.get("mode"), MODES[0]), MODES)
    if mode is None:
        raise malformed("conflictResolutionPolicy.mode", f"one of {', '.join(MODES)}")
    path, procedure = (
        as_text(or_default(given.get(name), ""), f"conflictResolutionPolicy.{name}")
        for name in ("conflictResolutionPath", "conflictResolutionProcedure")
    )
    if mode == "LastWriterWins":
        path = path or "/_ts"
        if procedure or not is_property_path(path):
            raise malformed(
                "conflictResolutionPolicy", "a path to a property and no procedure in this mode"
            )
    elif path:
        raise malformed("conflictResolutionPolicy", "without a path in mode Custom")
    return {
        "mode": mode,
        "conflictResolutionPath": path,
        "conflictResolutionProcedure": procedure,
    }
