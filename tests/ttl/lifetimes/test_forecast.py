"""The forecast of upcoming expirations, compared with what then happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.ttl_containers import TtlContainer, TtlContainers
from tests.ttl.lifetimes.admin import HISTORIES, Figures, ask, body_of, on_disk, status


def forecast(container: TtlContainer, bucket: str, count: int) -> Figures:
    return body_of(ask(container, f"forecast?bucket={bucket}&count={count}"))


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize(("bucket", "count"), [("second", 40), ("minute", 3), ("day", 1)])
def test_forecast_accounts_for_everything_stored(
    containers: TtlContainers, history: Callable[[TtlContainer], None], bucket: str, count: int
) -> None:
    container = containers.make(100)
    history(container)
    told, figures = forecast(container, bucket, count), status(container)
    assert told["asOf"] == containers.now
    assert len(told["buckets"]) == count
    for name, whole in zip(("items", "bytes"), on_disk(figures), strict=True):
        in_buckets = sum(each[name] for each in told["buckets"])
        rest = told["later"][name] + told["nonExpiring"][name] + told["pendingPurge"][name]
        assert in_buckets + rest == whole
        assert in_buckets + told["later"][name] == figures["expiring"][name]


@pytest.mark.parametrize("history", HISTORIES)
def test_forecast_comes_true(
    containers: TtlContainers, history: Callable[[TtlContainer], None]
) -> None:
    """Buckets are (from, to]: move the clock to each end and count who is left."""
    container = containers.make(100)
    history(container)
    told = forecast(container, "minute", 4)
    left = container.counted()
    expected_from = told["asOf"]
    for bucket in told["buckets"]:
        assert (bucket["from"], bucket["to"]) == (expected_from, expected_from + 60)
        expected_from += 60
        size = status(container)["live"]["bytes"]
        containers.clock.set(bucket["to"])
        left -= bucket["items"]
        assert container.counted() == left
        assert size - status(container)["live"]["bytes"] == bucket["bytes"]
    assert left == told["later"]["items"] + told["nonExpiring"]["items"]


@pytest.mark.parametrize("history", HISTORIES)
def test_next_expiry_is_the_observed_one(
    containers: TtlContainers, history: Callable[[TtlContainer], None]
) -> None:
    container = containers.make(100)
    history(container)
    alive, following = container.counted(), status(container)["nextExpiry"]
    if following is None:
        containers.clock.advance(100_000)
        assert container.counted() == alive
        return
    containers.clock.set(following - 1)
    assert container.counted() == alive
    containers.clock.set(following)
    assert container.counted() < alive


def test_forecast_of_the_second_before_expiry(containers: TtlContainers) -> None:
    """An item that ends in exactly a bucket's width is in that bucket, not in the next."""
    container = containers.make(60)
    container.create("a")
    container.create("b", 61)
    told = forecast(container, "minute", 2)
    assert [bucket["items"] for bucket in told["buckets"]] == [1, 1]


def test_forecast_by_default_shows_a_day_of_hours(containers: TtlContainers) -> None:
    container = containers.make(3600)
    container.create("a")
    told = body_of(container.raw.get(f"{container.admin}/forecast"))
    assert told["bucketSeconds"] == 3600
    assert [bucket["items"] for bucket in told["buckets"]] == [1] + [0] * 23


def test_forecast_tells_the_time_to_drain(containers: TtlContainers) -> None:
    container = containers.make(10)
    assert forecast(container, "hour", 1)["drainSeconds"] == 0
    container.create("a")
    container.clock.advance(10)
    told = forecast(container, "hour", 1)
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
def test_forecasts_that_are_none(containers: TtlContainers, query: str) -> None:
    reply = ask(containers.make(10), f"forecast?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
