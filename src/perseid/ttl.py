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
MAX_TTL: Final = 2_147_483_647
# Earlier than any `_ts`: a horizon here means that nothing is dead.
BEFORE_ANY_TS: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class Policy:
    """A container's TTL setting, and what earlier settings have already killed.

    `default_ttl` is None when TTL is off, NEVER when only items set lifetimes, else seconds.
    Death is final although nothing is rewritten when the setting changes, because two integers
    remember it: inheriting items written at or before `inherited_dead`, and items whose own
    lifetime ended at or before `own_dead`, died under an earlier setting.
    """

    default_ttl: int | None = None
    final_inherited_cutoff: int = BEFORE_ANY_TS
    final_own_cutoff: int = BEFORE_ANY_TS

    def changed(self, default_ttl: int | None, now: int) -> Policy:
        """The policy after `defaultTtl` becomes `default_ttl` at clock `now`."""
        final_inherited_cutoff, final_own_cutoff = (
            self.final_inherited_cutoff,
            self.final_own_cutoff,
        )
        if self.default_ttl is not None:
            if self.default_ttl != NEVER:
                final_inherited_cutoff = max(final_inherited_cutoff, now - self.default_ttl)
            if default_ttl is None:
                final_own_cutoff = max(final_own_cutoff, now)
        return Policy(default_ttl, final_inherited_cutoff, final_own_cutoff)

    def cutoff(self, now: int, *, revive_unpurged: bool = False) -> Cutoff:
        """What is dead at `now`, as two integers that serve every item of the container.

        `revive_unpurged` looks at the current setting only, as the cloud service does.
        """
        if (
            self.default_ttl is None
            and self.final_own_cutoff == self.final_inherited_cutoff == BEFORE_ANY_TS
        ):
            return NOTHING_EXPIRED
        inherited, own = (
            (BEFORE_ANY_TS, BEFORE_ANY_TS)
            if revive_unpurged
            else (self.final_inherited_cutoff, self.final_own_cutoff)
        )
        if self.default_ttl is not None:
            own = max(own, now)
            if self.default_ttl != NEVER:
                inherited = max(inherited, now - self.default_ttl)
        return Cutoff(inherited, own)


class Cutoff(NamedTuple):
    """A policy at one instant: an item is dead when its base lies at or before its bound.

    The base of an item without a ttl is its `_ts`; of one with a ttl, `_ts` plus that ttl.
    """

    inherited: int
    own: int

    @property
    def expires_nothing(self) -> bool:
        """Nothing in the container is dead, so nobody needs to look."""
        return self.inherited == BEFORE_ANY_TS and self.own == BEFORE_ANY_TS

    def common(self, other: Cutoff) -> Cutoff:
        """What is dead behind both."""
        return Cutoff(min(self.inherited, other.inherited), min(self.own, other.own))


NOTHING_EXPIRED: Final = Cutoff(BEFORE_ANY_TS, BEFORE_ANY_TS)


def is_live(ts: int, item_ttl: int | None, cutoff: Cutoff) -> bool:
    """Whether the item still exists; in the very second `_ts + ttl` it no longer does."""
    if item_ttl is None:
        return ts > cutoff.inherited
    return item_ttl == NEVER or ts + item_ttl > cutoff.own


def first_live_ts(item_ttl: int | None, cutoff: Cutoff) -> int:
    """The earliest `_ts` with which an item of this ttl still exists."""
    if item_ttl is None:
        return cutoff.inherited + 1
    return BEFORE_ANY_TS if item_ttl == NEVER else cutoff.own - item_ttl + 1


def live_sql(inherited: str, own: str) -> str:
    """The same rule for stores that filter in SQL, over columns `ts` and `ttl`; the horizon's two
    integers are called as said."""
    return (
        f"(CASE WHEN ttl IS NULL THEN ts > {inherited} WHEN ttl = -1 THEN TRUE"
        f" ELSE ts + ttl > {own} END)"
    )


LIVE_SQL: Final = live_sql(":inherited", ":own")


def expired_by_change_sql(
    inherited: str, own: str, previous_inherited: str, previous_own: str
) -> str:
    """Who is dead, but would not be behind another horizon, of an earlier policy."""
    return f"(NOT {live_sql(inherited, own)} AND {live_sql(previous_inherited, previous_own)})"


EXPIRED_BY_CHANGE_SQL: Final = expired_by_change_sql(
    ":inherited", ":own", ":previous_inherited", ":previous_own"
)

# Those who can die, by where their lifetime comes from: the condition that selects them, and the
# base that decides. Indexes over lifetimes are made of these, so who uses them writes the same.
EXPIRING_ITEMS_SQL: Final = {"inheriting": ("ttl IS NULL", "ts"), "own": ("ttl > 0", "ts + ttl")}


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
        return _valid_ttl(value)
    return check_item_ttl(value)


def _valid_ttl(value: Any) -> int | None:
    """A whole number in range as an int; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value) if value == NEVER or 1 <= value <= MAX_TTL else None


def _check(value: Any, name: str) -> int:
    lifetime = _valid_ttl(value)
    if lifetime is None:
        shown = orjson.dumps(value).decode()
        raise BadRequest(
            f"The input {name} '{shown}' is invalid. Ensure to provide a nonzero positive integer"
            f" less than or equal to '{MAX_TTL}', or '-1' which means never expire.",
            listed=True,
        )
    return lifetime
