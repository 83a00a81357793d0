"""The TTL arithmetic: cutoffs, spans between them, purge order, buckets, and their SQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid import ttl
from perseid.ttl import (
    BEFORE_ANY_TS,
    EXPIRED_BY_CHANGE_SQL,
    EXPIRING_ITEMS_SQL,
    LIVE_ALTERNATIVES_SQL,
    LIVE_SQL,
    NEVER,
    NOTHING_EXPIRED,
    Cutoff,
    ExpiryAges,
    ExpirySpan,
    Policy,
    PurgeHold,
)

DATABASE = apsw.Connection(":memory:")
SECONDS = st.integers(0, 60)
ITEM_TTLS = st.sampled_from([None, NEVER, 1, 5, 20, 60])
DEFAULTS = st.sampled_from([None, NEVER, 1, 5, 20, 60])
CUTOFFS = st.builds(Cutoff, st.just(BEFORE_ANY_TS) | SECONDS, st.just(BEFORE_ANY_TS) | SECONDS)
ITEMS = st.tuples(SECONDS, ITEM_TTLS)


def evaluate(expression: str, ts: int, item_ttl: int | None, **values: int) -> Any:
    """The expression as SQLite computes it for one item."""
    sql = f"SELECT {expression} FROM (SELECT :ts AS ts, :ttl AS ttl)"
    return DATABASE.execute(sql, {"ts": ts, "ttl": item_ttl, **values}).get


def is_in(spans: Iterable[ExpirySpan], ts: int, item_ttl: int | None) -> bool:
    """As the stores select the items of spans; True if exactly one span holds the item."""
    matches = 0
    for span in spans:
        condition, base = EXPIRING_ITEMS_SQL[span.kind]
        selected = f"{condition} AND {base} > :after AND {base} <= :upto"
        matches += bool(evaluate(selected, ts, item_ttl, after=span.after, upto=span.upto))
    assert matches <= 1
    return matches == 1


# Cutoffs


@given(ITEMS, CUTOFFS, CUTOFFS)
def test_earlier_and_later_cutoffs(
    item: tuple[int, int | None], one: Cutoff, other: Cutoff
) -> None:
    is_live_at = [ttl.is_live(*item, cutoff) for cutoff in (one, other)]
    assert ttl.is_live(*item, one.earlier(other)) is any(is_live_at)
    assert ttl.is_live(*item, one.later(other)) is all(is_live_at)


@given(ITEMS, CUTOFFS)
def test_liveness_in_sql(item: tuple[int, int | None], cutoff: Cutoff) -> None:
    is_live = ttl.is_live(*item, cutoff)
    values = cutoff._asdict()
    assert bool(evaluate(LIVE_SQL, *item, **values)) is is_live
    matches = [bool(evaluate(sql, *item, **values)) for sql in LIVE_ALTERNATIVES_SQL]
    assert sum(matches) == is_live


@given(ITEMS, CUTOFFS, CUTOFFS)
def test_expired_by_change_in_sql(
    item: tuple[int, int | None], cutoff: Cutoff, previous: Cutoff
) -> None:
    values = cutoff._asdict() | {
        "previous_inherited": previous.inherited,
        "previous_own": previous.own,
    }
    expected = ttl.is_expired_by_change(*item, cutoff, previous)
    assert bool(evaluate(EXPIRED_BY_CHANGE_SQL, *item, **values)) is expected


@given(ITEM_TTLS, CUTOFFS)
def test_first_live_ts_is_the_boundary(item_ttl: int | None, cutoff: Cutoff) -> None:
    first = ttl.first_live_ts(item_ttl, cutoff)
    assert ttl.is_live(first, item_ttl, cutoff)
    if item_ttl != NEVER:
        assert not ttl.is_live(first - 1, item_ttl, cutoff)


HELD = Cutoff(3, 4)


@pytest.mark.parametrize(
    ("hold", "now", "cutoff"),
    [
        (PurgeHold(), 100, Cutoff(90, 100)),
        (PurgeHold(0, 100, HELD), 100, Cutoff(90, 100)),
        (PurgeHold(30, 100, HELD), 100, HELD),
        (PurgeHold(30, 100, HELD), 129, HELD),
        (PurgeHold(30, 100, HELD), 130, Cutoff(90, 100)),
        (PurgeHold(30, 100, Cutoff(3, 500)), 129, Cutoff(3, 129)),  # what is live is never purged
    ],
)
def test_purge_hold(hold: PurgeHold, now: int, cutoff: Cutoff) -> None:
    assert ttl.purge_cutoff(Policy(10), hold, now) == cutoff


# Spans


@given(ITEMS, CUTOFFS, CUTOFFS)
def test_newly_expired_spans(item: tuple[int, int | None], before: Cutoff, after: Cutoff) -> None:
    expected = ttl.is_live(*item, before) and not ttl.is_live(*item, after)
    assert is_in(ttl.newly_expired_spans(before, after), *item) is expected


@given(ITEMS, CUTOFFS)
def test_expired_and_live_spans(item: tuple[int, int | None], cutoff: Cutoff) -> None:
    is_live = ttl.is_live(*item, cutoff)
    assert is_in(ttl.expired_spans(cutoff), *item) is not is_live
    can_expire = item[1] != NEVER
    assert is_in(ttl.live_spans(cutoff), *item) is (is_live and can_expire)


@given(ITEMS, DEFAULTS, CUTOFFS, SECONDS)
def test_expiring_spans(
    item: tuple[int, int | None], default_ttl: int | None, final: Cutoff, now: int
) -> None:
    policy = Policy(default_ttl, *final)
    expiry = ttl.expires_at(*item, policy)
    spans = ttl.expiring_spans(policy, policy.cutoff(now), now)
    is_live = ttl.is_live(*item, policy.cutoff(now))
    assert is_in([each.span for each in spans], *item) is (is_live and expiry is not None)
    for span, lifetime in spans:
        if is_in([span], *item):
            assert evaluate(EXPIRING_ITEMS_SQL[span.kind][1], *item) + lifetime == expiry


@pytest.mark.parametrize("bound", [-5, 0, 7, 10, 15])
def test_split(bound: int) -> None:
    span = ExpirySpan("own", 0, 10)
    near, far = span.split(bound)
    assert near.after == 0
    assert near.upto == far.after == min(max(bound, 0), 10)
    assert far.upto == 10


@pytest.mark.parametrize(
    ("default_ttl", "inheriting", "own"), [(None, False, False), (-1, False, True), (9, True, True)]
)
def test_which_kinds_expire(default_ttl: int | None, inheriting: bool, own: bool) -> None:
    policy = Policy(default_ttl)
    assert (policy.expires("inheriting"), policy.expires("own")) == (inheriting, own)


# Expired at, purge order

AGES = st.builds(ExpiryAges, st.just(BEFORE_ANY_TS) | SECONDS, SECONDS, SECONDS)


@given(ITEMS, AGES)
def test_expired_at_in_sql(item: tuple[int, int | None], ages: ExpiryAges) -> None:
    sql = ttl.inherited_expired_at_sql(":until", ":before", ":after")
    if item[1] is None:
        assert evaluate(sql, *item, **ages._asdict()) == ttl.expired_at(*item, ages)


@given(ITEMS, CUTOFFS, AGES, SECONDS)
def test_purge_order(
    item: tuple[int, int | None], cutoff: Cutoff, ages: ExpiryAges, second: int
) -> None:
    is_before = not ttl.is_live(*item, cutoff) and ttl.expired_at(*item, ages) < second
    assert is_in(ttl.spans_purged_before(cutoff, ages, second), *item) is is_before


def test_age_at_final_expiry() -> None:
    first = Policy(10)
    second = first.changed(60, now=100)
    assert ttl.changed_age_at_final_expiry(first, second, 0) == 10
    assert ttl.expiry_ages(second, 10) == ExpiryAges(90, 10, 60)
    # 60 seconds before 110 is before the cutoff that 10 seconds left, so that one stays.
    third = second.changed(5, now=110)
    assert ttl.changed_age_at_final_expiry(second, third, 10) == 10
    assert ttl.expiry_ages(third, 10) == ExpiryAges(90, 10, 5)
    off = third.changed(None, now=200)
    assert ttl.changed_age_at_final_expiry(third, off, 10) == 5
    assert ttl.expiry_ages(off, 5) == ExpiryAges(195, 5, 0)


# Buckets


@given(st.integers(1, 1000), SECONDS, st.integers(1, 90))
def test_buckets(seconds: int, start: int, width: int) -> None:
    base = start + seconds
    bucket = ttl.bucket_of(base, start, width)
    first, last = ttl.bucket_bounds(bucket, start, width)
    assert first < base <= last
    sql = ttl.bucket_sql("ts", ":start", ":width")
    assert evaluate(sql, base, None, start=start, width=width) == bucket


@pytest.mark.parametrize(
    ("seconds", "width"),
    [(1, 1), (24, 1), (25, 5), (120, 5), (121, 15), (86_400, 3600), (10**10, 31_536_000)],
)
def test_bucket_width(seconds: int, width: int) -> None:
    assert ttl.bucket_width(seconds) == width


# Names


@pytest.mark.parametrize(
    ("item_ttl", "default_ttl", "source", "rule"),
    [
        (None, None, "none", "T-020"), (None, -1, "none", "T-021"), (None, 9, "container", "T-022"),
        (-1, None, "none", "T-023"), (-1, -1, "none", "T-024"), (-1, 9, "none", "T-025"),
        (5, None, "none", "T-026"), (5, -1, "item", "T-027"), (5, 9, "item", "T-028"),
    ],
)  # fmt: skip
def test_source_and_rule(
    item_ttl: int | None, default_ttl: int | None, source: str, rule: str
) -> None:
    policy = Policy(default_ttl)
    assert ttl.ttl_source(item_ttl, policy) == source
    assert ttl.ttl_rule(item_ttl, policy) == rule


def test_nothing_expires_before_any_ts() -> None:
    assert NOTHING_EXPIRED.expires_nothing
    assert all(span.is_empty for span in ttl.expired_spans(NOTHING_EXPIRED))
    assert NOTHING_EXPIRED.bound("inheriting") == NOTHING_EXPIRED.bound("own") == BEFORE_ANY_TS
