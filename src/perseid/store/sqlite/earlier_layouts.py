"""Names in files of earlier layouts, for readers that must not migrate them."""

from __future__ import annotations

import contextlib
from typing import Any, Final, NamedTuple

from perseid.store.sql.computed_ranges import ranges_of


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


def present_state(kind: str, state: dict[str, Any], layout: int) -> dict[str, Any]:
    """The state of a resource in an earlier layout as the present one has it.

    What is damaged stays as it is; reading it reports the damage.
    """
    if kind != "container":
        return state
    present = _with_present_keys(state) if layout < 7 else state
    if layout < 9:
        with contextlib.suppress(LookupError, TypeError):
            present = present | {"ranges": ranges_of(present) or present["ranges"]}
    return present


def _with_present_keys(state: dict[str, Any]) -> dict[str, Any]:
    renamed = {_KEYS_BEFORE_7.get(key, key): value for key, value in state.items()}
    if "previous" in renamed:
        renamed["previous"] = _with_present_keys(renamed["previous"])
    return renamed
