"""Names in files of earlier layouts, for readers that must not migrate them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Names(NamedTuple):
    visible: str  # the view of a container's visible items, before its number
    purged_since_change: str  # a column of `positions`
    checksum: str  # a column of the items; NULL in layouts without it


PRESENT_NAMES: Final = Names("visible", "purged_since_change", "checksum")
_BEFORE_8: Final = PRESENT_NAMES._replace(checksum="NULL")
_BEFORE_7: Final = Names("standing", "spared", "NULL")
_KEYS_BEFORE_7: Final = {
    "deaths": "final_cutoffs",
    "dead_age": "expired_age",
    "hold_horizon": "hold_cutoff",
    "spared": "purged_since_change",
}


def names_of(layout: int) -> Names:
    return PRESENT_NAMES if layout >= 8 else _BEFORE_8 if layout == 7 else _BEFORE_7


def present_state(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a resource in a layout before 7, with the present keys."""
    renamed = {_KEYS_BEFORE_7.get(key, key): value for key, value in state.items()}
    if "previous" in renamed:
        renamed["previous"] = present_state(renamed["previous"])
    return renamed
