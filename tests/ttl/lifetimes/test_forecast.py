"""The forecast of upcoming expirations, compared with what then happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.ttl_containers import Shelf, Shelves
from tests.ttl.lifetimes.admin import HISTORIES, Figures, answer, ask, status, stored


def forecast(shelf: Shelf, bucket: str, count: int) -> Figures:
    return answer(ask(shelf, f"forecast?bucket={bucket}&count={count}"))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize(("bucket", "count"), [("second", 40), ("minute", 3), ("day", 1)])
def test_forecast_accounts_for_everything_stored(
    shelves: Shelves, history: Callable[[Shelf], None], bucket: str, count: int
) -> None:
    shelf = shelves.make(100)
    history(shelf)
    told, figures = forecast(shelf, bucket, count), status(shelf)
    assert told["asOf"] == shelves.now
    assert len(told["buckets"]) == count
    for name, whole in zip(("items", "bytes"), stored(figures), strict=True):
        in_buckets = sum(each[name] for each in told["buckets"])
        rest = told["later"][name] + told["nonExpiring"][name] + told["pendingPurge"][name]
        assert in_buckets + rest == whole
        assert in_buckets + told["later"][name] == figures["expiring"][name]


@pytest.mark.parametrize("history", HISTORIES)
def test_forecast_comes_true(shelves: Shelves, history: Callable[[Shelf], None]) -> None:
    """Buckets are (from, to]: move the clock to each end and count who is left."""
    shelf = shelves.make(100)
    history(shelf)
    told = forecast(shelf, "minute", 4)
    left = shelf.counted()
    expected_from = told["asOf"]
    for bucket in told["buckets"]:
        assert (bucket["from"], bucket["to"]) == (expected_from, expected_from + 60)
        expected_from += 60
        size = status(shelf)["live"]["bytes"]
        shelves.clock.set(bucket["to"])
        left -= bucket["items"]
        assert shelf.counted() == left
        assert size - status(shelf)["live"]["bytes"] == bucket["bytes"]
    assert left == told["later"]["items"] + told["nonExpiring"]["items"]


@pytest.mark.parametrize("history", HISTORIES)
def test_next_expiry_is_the_observed_one(
    shelves: Shelves, history: Callable[[Shelf], None]
) -> None:
    shelf = shelves.make(100)
    history(shelf)
    alive, following = shelf.counted(), status(shelf)["nextExpiry"]
    if following is None:
        shelves.clock.advance(100_000)
        assert shelf.counted() == alive
        return
    shelves.clock.set(following - 1)
    assert shelf.counted() == alive
    shelves.clock.set(following)
    assert shelf.counted() < alive


def test_forecast_of_the_second_before_expiry(shelves: Shelves) -> None:
    """An item that ends in exactly a bucket's width is in that bucket, not in the next."""
    shelf = shelves.make(60)
    shelf.create("a")
    shelf.create("b", 61)
    told = forecast(shelf, "minute", 2)
    assert [bucket["items"] for bucket in told["buckets"]] == [1, 1]


def test_forecast_by_default_shows_a_day_of_hours(shelves: Shelves) -> None:
    shelf = shelves.make(3600)
    shelf.create("a")
    told = answer(shelf.raw.get(f"{shelf.admin}/forecast"))
    assert told["bucketSeconds"] == 3600
    assert [bucket["items"] for bucket in told["buckets"]] == [1] + [0] * 23


def test_forecast_tells_the_time_to_drain(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    assert forecast(shelf, "hour", 1)["drainSeconds"] == 0
    shelf.create("a")
    shelf.clock.advance(10)
    told = forecast(shelf, "hour", 1)
    assert told["pendingPurge"]["items"] == 1
    assert told["drainSeconds"] is None or told["drainSeconds"] > 0


@pytest.mark.parametrize(
    "query",
    [
        "bucket=fortnight", "bucket=", "bucket=HOUR", "count=0", "count=-1", "count=x", "count=",
        "count=1001", "count=1.5", "buckets=hour", "count=%C2%B2",
        pytest.param(f"count={'9' * 5000}", id="thousands of digits"),
    ],
)  # fmt: skip
def test_forecasts_that_are_none(shelves: Shelves, query: str) -> None:
    reply = ask(shelves.make(10), f"forecast?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
