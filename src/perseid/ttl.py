"""Time to live: which values are valid, when an item expires. All TTL arithmetic is here.

Every function is pure: the time is an argument. Where a store applies a rule in SQL, the SQL stands
next to the function and a test compares the two. Every path that returns items to a client uses
one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from perseid.errors import InvalidTtl

NEVER: Final = -1
MAX_TTL: Final = 2_147_483_647
BEFORE_ANY_TS: Final = -(2**62)  # as a bound of a cutoff: nothing has expired
_AFTER_ANY_EXPIRY: Final = 2**62

# Items that can expire: those that inherit the container's default, and those with their own ttl.
ExpiryKind: TypeAlias = Literal["inheriting", "own"]


# Policies and cutoffs


@dataclass(frozen=True, slots=True)
class Policy:
    """A container's TTL setting, and what expired for good under earlier settings.

    `default_ttl` is None if TTL is off, NEVER if only items set lifetimes, else seconds.
    Expiry is final although a change of the setting rewrites no item, because two integers record
    it: items without a ttl written at or before `final_inherited_cutoff`, and items whose own
    ttl was over at or before `final_own_cutoff`, expired under an earlier setting.
    """

    default_ttl: int | None = None
    final_inherited_cutoff: int = BEFORE_ANY_TS
    final_own_cutoff: int = BEFORE_ANY_TS

    @property
    def final_cutoff(self) -> Cutoff:
        """What expired under earlier settings."""
        return Cutoff(self.final_inherited_cutoff, self.final_own_cutoff)

    def expires(self, kind: ExpiryKind) -> bool:
        """True if items of this kind expire under the current setting."""
        if kind == "own":
            return self.default_ttl is not None
        return self.default_ttl is not None and self.default_ttl != NEVER

    def changed(self, default_ttl: int | None, now: int) -> Policy:
        """The policy after `defaultTtl` becomes `default_ttl` at `now`."""
        inherited, own = self.final_cutoff
        if self.default_ttl is not None:
            if self.default_ttl != NEVER:
                inherited = max(inherited, now - self.default_ttl)
            if default_ttl is None:
                own = max(own, now)
        return Policy(default_ttl, inherited, own)

    def cutoff(self, now: int, *, revive_unpurged: bool = False) -> Cutoff:
        """What has expired at `now`, as two integers that hold for every item of the container.

        `revive_unpurged` applies the current setting only, as the cloud service does.
        """
        if (
            self.default_ttl is None
            and self.final_own_cutoff == self.final_inherited_cutoff == BEFORE_ANY_TS
        ):
            return NOTHING_EXPIRED
        # Every request comes here: the bounds stay apart instead of in one more tuple.
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
    """A policy at one instant: an item has expired if its base is at or before the bound.

    The base of an item without a ttl is its `_ts`; that of an item with a ttl is `_ts` plus ttl.
    """

    inherited: int
    own: int

    @property
    def expires_nothing(self) -> bool:
        """True if no item can have expired, so that reads need not check."""
        return self.inherited == BEFORE_ANY_TS and self.own == BEFORE_ANY_TS

    def bound(self, kind: ExpiryKind) -> int:
        return self.inherited if kind == "inheriting" else self.own

    def earlier(self, other: Cutoff) -> Cutoff:
        """What has expired at both cutoffs."""
        return Cutoff(min(self.inherited, other.inherited), min(self.own, other.own))

    def later(self, other: Cutoff) -> Cutoff:
        """What has expired at one of the cutoffs, or at both."""
        return Cutoff(max(self.inherited, other.inherited), max(self.own, other.own))


NOTHING_EXPIRED: Final = Cutoff(BEFORE_ANY_TS, BEFORE_ANY_TS)


@dataclass(frozen=True, slots=True)
class PurgeHold:
    """How long expired items stay on disk, so that a policy change can be undone.

    For `seconds` after `since`, the last policy change, only what `cutoff` expires may be purged.
    """

    seconds: int = 0
    since: int = 0
    cutoff: Cutoff = NOTHING_EXPIRED


def purge_cutoff(
    policy: Policy, hold: PurgeHold, now: int, *, revive_unpurged: bool = False
) -> Cutoff:
    """What may be purged at `now`: the expired items that the purge hold does not cover."""
    if now < hold.since + hold.seconds:
        # A change may have made some of them live again: see `revive_unpurged`.
        return hold.cutoff.earlier(policy.cutoff(now, revive_unpurged=revive_unpurged))
    return policy.cutoff(now - hold.seconds, revive_unpurged=revive_unpurged)


# Live or expired


def is_live(ts: int, item_ttl: int | None, cutoff: Cutoff) -> bool:
    """False from the second `_ts + ttl` on, that second included."""
    if item_ttl is None:
        return ts > cutoff.inherited
    return item_ttl == NEVER or ts + item_ttl > cutoff.own


def live_sql(inherited: str, own: str) -> str:
    """`is_live` over the columns `ts` and `ttl`, with these placeholders for the cutoff."""
    return (
        f"(CASE WHEN ttl IS NULL THEN ts > {inherited} WHEN ttl = -1 THEN TRUE"
        f" ELSE ts + ttl > {own} END)"
    )


LIVE_SQL: Final = live_sql(":inherited", ":own")

# Condition and base of the items of each kind. The indexes on expiry consist of exactly these
# expressions, so statements that use the indexes repeat them.
EXPIRING_ITEMS_SQL: Final[dict[ExpiryKind, tuple[str, str]]] = {
    "inheriting": ("ttl IS NULL", "ts"),
    "own": ("ttl > 0", "ts + ttl"),
}
# `is_live` once more, as alternatives that an index serves each; no item meets two of them.
LIVE_ALTERNATIVES_SQL: Final = (
    "ttl IS NULL AND ts > :inherited",
    "ttl > 0 AND ts + ttl > :own",
    "ttl = -1",
)


def is_expired_by_change(
    ts: int, item_ttl: int | None, cutoff: Cutoff, previous_cutoff: Cutoff
) -> bool:
    """True if the item has expired, but would be live under the policy before the last change."""
    return not is_live(ts, item_ttl, cutoff) and is_live(ts, item_ttl, previous_cutoff)


def expired_by_change_sql(
    inherited: str, own: str, previous_inherited: str, previous_own: str
) -> str:
    """`is_expired_by_change` with these placeholders for the two cutoffs."""
    return f"(NOT {live_sql(inherited, own)} AND {live_sql(previous_inherited, previous_own)})"


EXPIRED_BY_CHANGE_SQL: Final = expired_by_change_sql(
    ":inherited", ":own", ":previous_inherited", ":previous_own"
)


def first_live_ts(item_ttl: int | None, cutoff: Cutoff) -> int:
    """The earliest `_ts` with which an item of this ttl is live."""
    if item_ttl is None:
        return cutoff.inherited + 1
    return BEFORE_ANY_TS if item_ttl == NEVER else cutoff.own - item_ttl + 1


def expires_at(ts: int, item_ttl: int | None, policy: Policy) -> int | None:
    """The second at which the item expires under the current setting, or None if it never does.

    A container without a default has TTL switched off, whatever its items say.
    """
    if policy.default_ttl is None:
        return None
    lifetime = policy.default_ttl if item_ttl is None else item_ttl
    return None if lifetime == NEVER else ts + lifetime


def expiry_base(ts: int, item_ttl: int | None) -> int:
    """The base of an item that may expire: see Cutoff."""
    return ts if item_ttl is None else ts + item_ttl


def ttl_source(item_ttl: int | None, policy: Policy) -> str:
    """Where the item's lifetime comes from: `item`, `container`, or `none` if it never expires."""
    if policy.default_ttl is None:
        return "none"
    if item_ttl is not None:
        return "none" if item_ttl == NEVER else "item"
    return "none" if policy.default_ttl == NEVER else "container"


def ttl_rule(item_ttl: int | None, policy: Policy) -> str:
    """Which of the nine combinations of `ttl` and `defaultTtl` applies, by its number."""
    row, column = (
        0 if value is None else 1 if value == NEVER else 2
        for value in (item_ttl, policy.default_ttl)
    )
    return f"T-{20 + 3 * row + column:03d}"


# Spans: items of one kind between two bounds


class ExpirySpan(NamedTuple):
    """Items of one kind whose base is in (after, upto]; see Cutoff for what the base is."""

    kind: ExpiryKind
    after: int
    upto: int

    @property
    def is_empty(self) -> bool:
        return self.after >= self.upto

    def split(self, bound: int) -> tuple[ExpirySpan, ExpirySpan]:
        """The items up to `bound`, and those after it."""
        bound = min(max(bound, self.after), self.upto)
        return self._replace(upto=bound), self._replace(after=bound)


class ExpiringSpan(NamedTuple):
    """Live items that will expire, each `lifetime` seconds after its base."""

    span: ExpirySpan
    lifetime: int


def newly_expired_spans(before: Cutoff, after: Cutoff) -> tuple[ExpirySpan, ExpirySpan]:
    """What has expired at `after` and has not at `before`; a span may be empty."""
    return (
        ExpirySpan("inheriting", before.inherited, max(before.inherited, after.inherited)),
        ExpirySpan("own", before.own, max(before.own, after.own)),
    )


def expired_spans(cutoff: Cutoff) -> tuple[ExpirySpan, ExpirySpan]:
    """Everything that has expired."""
    return newly_expired_spans(NOTHING_EXPIRED, cutoff)


def live_spans(cutoff: Cutoff) -> tuple[ExpirySpan, ExpirySpan]:
    """The live items without a ttl, and those with a ttl other than NEVER."""
    return (
        ExpirySpan("inheriting", cutoff.inherited, _AFTER_ANY_EXPIRY),
        ExpirySpan("own", cutoff.own, _AFTER_ANY_EXPIRY),
    )


def expiring_spans(policy: Policy, cutoff: Cutoff, now: int) -> list[ExpiringSpan]:
    """The live items that will expire under the current setting."""
    if policy.default_ttl is None:
        return []
    inheriting, own = live_spans(cutoff.later(policy.cutoff(now, revive_unpurged=True)))
    spans = [ExpiringSpan(own, 0)]
    if policy.expires("inheriting"):
        spans.append(ExpiringSpan(inheriting, policy.default_ttl))
    return spans


# Expired items: since when, and in which order they are purged


class ExpiryAges(NamedTuple):
    """At which age items without a ttl expired: those written up to `until`, and later ones."""

    until: int
    before: int
    after: int


NO_EXPIRY_AGES: Final = ExpiryAges(0, 0, 0)


def expiry_ages(policy: Policy, age_at_final_expiry: int) -> ExpiryAges:
    """Exact for the two latest settings that had a default; earlier ones are not recorded."""
    after = max(policy.default_ttl or 0, 0)
    return ExpiryAges(policy.final_inherited_cutoff, age_at_final_expiry, after)


def changed_age_at_final_expiry(old: Policy, new: Policy, age: int) -> int:
    """The age at which items without a ttl expired for good, once `old` has become `new`."""
    is_same = new.final_inherited_cutoff == old.final_inherited_cutoff
    return age if is_same else old.default_ttl or 0


def expired_at(ts: int, item_ttl: int | None, ages: ExpiryAges) -> int:
    """The second in which an expired item expired. Items are purged in this order."""
    if item_ttl is not None:
        return ts + item_ttl
    return ts + (ages.before if ts <= ages.until else ages.after)


def inherited_expired_at_sql(until: str, before: str, after: str) -> str:
    """`expired_at` for items without a ttl, with these placeholders; for others it is the base."""
    return f"ts + CASE WHEN ts <= {until} THEN {before} ELSE {after} END"


def spans_purged_before(cutoff: Cutoff, ages: ExpiryAges, second: int) -> list[ExpirySpan]:
    """The expired items that expired before `second`, which are purged first."""
    inherited, own = cutoff
    spans = (
        ExpirySpan(
            "inheriting", BEFORE_ANY_TS, min(inherited, ages.until, second - ages.before - 1)
        ),
        ExpirySpan("inheriting", ages.until, min(inherited, second - ages.after - 1)),
        ExpirySpan("own", BEFORE_ANY_TS, min(own, second - 1)),
    )
    return [span for span in spans if not span.is_empty]


# Buckets of a histogram of expiry

_BUCKET_WIDTHS: Final = (
    1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000,
)  # fmt: skip
_MOST_BUCKETS: Final = 24


def bucket_width(seconds: int) -> int:
    """A round width, so that a couple of dozen buckets cover so many seconds."""
    return next(
        (width for width in _BUCKET_WIDTHS if seconds <= width * _MOST_BUCKETS), _BUCKET_WIDTHS[-1]
    )


def bucket_bounds(bucket: int, start: int, width: int) -> tuple[int, int]:
    """The bucket holds what expires after the first second and up to the second one."""
    return start + bucket * width, start + (bucket + 1) * width


def bucket_of(base: int, start: int, width: int) -> int:
    return (base - start - 1) // width


def bucket_sql(base: str, start: str, width: str) -> str:
    """`bucket_of` for bases after `start`, with these placeholders."""
    return f"({base} - {start} - 1) / {width}"


# Valid values


def check_default_ttl(value: Any) -> int | None:
    """The container's `defaultTtl` as seconds, NEVER, or None for off (absent or null)."""
    if value is None:
        return None
    return _check(value, "defaultTtl")


def check_item_ttl(value: Any) -> int:
    """The item's `ttl` as seconds or NEVER."""
    return _check(value, "ttl")


def stored_item_ttl(
    document: dict[str, Any], policy: Policy, *, is_lenient: bool = False
) -> int | None:
    """The item's own ttl as it is stored next to the body; None if absent.

    An invalid value is refused, even while TTL is off and the value has no effect. `is_lenient`
    accepts it then. If it still exists when TTL is switched on, it counts as absent.
    """
    if "ttl" not in document:
        return None
    value = document["ttl"]
    if is_lenient and policy.default_ttl is None:
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
        raise InvalidTtl(
            f"The input {name} '{shown}' is invalid. Ensure to provide a nonzero positive integer"
            f" less than or equal to '{MAX_TTL}', or '-1' which means never expire.",
            listed=True,
        )
    return lifetime
