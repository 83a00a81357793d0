"""Time to live: which values are valid, when an item stops existing. The only TTL arithmetic.

Pure: the clock is an argument. The SQL twin of the liveness test sits beside the function; tests
hold the two equal. Every path that shows items to a client uses one of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from perseid.errors import BadRequest

NEVER: Final = -1
LONGEST: Final = 2_147_483_647
# Earlier than any `_ts`: a horizon here means that nothing is dead.
DAWN: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class Policy:
    """A container's TTL setting, and what earlier settings have already killed.

    `default_ttl` is None when TTL is off, NEVER when only items set lifetimes, else seconds.
    Death is final although nothing is rewritten when the setting changes, because two integers
    remember it: inheriting items written at or before `inherited_dead`, and items whose own
    lifetime ended at or before `own_dead`, died under an earlier setting.
    """

    default_ttl: int | None = None
    inherited_dead: int = DAWN
    own_dead: int = DAWN

    def changed(self, default_ttl: int | None, now: int) -> Policy:
        """The policy after `defaultTtl` becomes `default_ttl` at clock `now`."""
        inherited_dead, own_dead = self.inherited_dead, self.own_dead
        if self.default_ttl is not None:
            if self.default_ttl != NEVER:
                inherited_dead = max(inherited_dead, now - self.default_ttl)
            if default_ttl is None:
                own_dead = max(own_dead, now)
        return Policy(default_ttl, inherited_dead, own_dead)

    def horizon(self, now: int, *, revive_unpurged: bool = False) -> Horizon:
        """What is dead at `now`, as two integers that serve every item of the container.

        `revive_unpurged` looks at the current setting only, as the cloud service does.
        """
        if self.default_ttl is None and self.own_dead == self.inherited_dead == DAWN:
            return EVERYTHING_LIVES
        inherited, own = (DAWN, DAWN) if revive_unpurged else (self.inherited_dead, self.own_dead)
        if self.default_ttl is not None:
            own = max(own, now)
            if self.default_ttl != NEVER:
                inherited = max(inherited, now - self.default_ttl)
        return Horizon(inherited, own)


class Horizon(NamedTuple):
    """A policy at one instant: an item is dead when its base lies at or before its bound.

    The base of an item without a ttl is its `_ts`; of one with a ttl, `_ts` plus that ttl.
    """

    inherited: int
    own: int

    @property
    def is_endless(self) -> bool:
        """Nothing in the container is dead, so nobody needs to look."""
        return self.inherited == DAWN and self.own == DAWN

    def common(self, other: Horizon) -> Horizon:
        """What is dead behind both."""
        return Horizon(min(self.inherited, other.inherited), min(self.own, other.own))


EVERYTHING_LIVES: Final = Horizon(DAWN, DAWN)


def is_live(ts: int, item_ttl: int | None, horizon: Horizon) -> bool:
    """Whether the item still exists; in the very second `_ts + ttl` it no longer does."""
    if item_ttl is None:
        return ts > horizon.inherited
    return item_ttl == NEVER or ts + item_ttl > horizon.own


def first_alive(item_ttl: int | None, horizon: Horizon) -> int:
    """The earliest `_ts` with which an item of this ttl still exists."""
    if item_ttl is None:
        return horizon.inherited + 1
    return DAWN if item_ttl == NEVER else horizon.own - item_ttl + 1


def live_sql(inherited: str, own: str) -> str:
    """The same rule for stores that filter in SQL, over columns `ts` and `ttl`; the horizon's two
    integers are called as said."""
    return (
        f"(CASE WHEN ttl IS NULL THEN ts > {inherited} WHEN ttl = -1 THEN TRUE"
        f" ELSE ts + ttl > {own} END)"
    )


LIVE_SQL: Final = live_sql(":inherited", ":own")


def spared_sql(inherited: str, own: str, spare_inherited: str, spare_own: str) -> str:
    """Who is dead, but would not be behind another horizon, of an earlier policy."""
    return f"(NOT {live_sql(inherited, own)} AND {live_sql(spare_inherited, spare_own)})"


SPARED_SQL: Final = spared_sql(":inherited", ":own", ":spare_inherited", ":spare_own")

# Those who can die, by where their lifetime comes from: the condition that selects them, and the
# base that decides. Indexes over lifetimes are made of these, so who uses them writes the same.
MORTALS_SQL: Final = {"inheriting": ("ttl IS NULL", "ts"), "own": ("ttl > 0", "ts + ttl")}


def expires_at(ts: int, item_ttl: int | None, policy: Policy) -> int | None:
    """The second at which the item is gone under the current setting, or None if it never goes.

    A container without a default has TTL switched off, whatever its items say.
    """
    if policy.default_ttl is None:
        return None
    lifetime = policy.default_ttl if item_ttl is None else item_ttl
    return None if lifetime == NEVER else ts + lifetime


def check_default_ttl(value: Any) -> int | None:
    """The container's `defaultTtl` as seconds, NEVER, or None for off (absent or null)."""
    if value is None:
        return None
    return _check(value, "defaultTtl")


def check_item_ttl(value: Any) -> int:
    """The item's `ttl` as seconds or NEVER; for containers that have TTL switched on."""
    return _check(value, "ttl")


def stored_item_ttl(document: dict[str, Any], policy: Policy) -> int | None:
    """The item's own lifetime as it is stored beside the body: None when absent.

    With TTL on, a bad value is refused. With TTL off nobody interprets it, and if it is still
    there when TTL is switched on, it counts as absent.
    """
    if "ttl" not in document:
        return None
    value = document["ttl"]
    if policy.default_ttl is None:
        return _as_lifetime(value)
    return check_item_ttl(value)


def _as_lifetime(value: Any) -> int | None:
    """A whole number in range as an int; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if value == NEVER or 1 <= value <= LONGEST else None


def _check(value: Any, name: str) -> int:
    lifetime = _as_lifetime(value)
    if lifetime is None:
        shown = orjson.dumps(value).decode()
        raise BadRequest(
            f"The input {name} '{shown}' is invalid. Ensure to provide a nonzero positive integer"
            f" less than or equal to '{LONGEST}', or '-1' which means never expire.",
            listed=True,
        )
    return lifetime
