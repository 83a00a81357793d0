"""Throughput: what a create, a replace or a migration may ask for, and how offers show it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from perseid.errors import BadRequest
from perseid.service.throughput.rules import (
    DEFAULT_THROUGHPUT,
    Throughput,
    autoscale,
    manual,
    minimum,
    offer_content,
    replaced_throughput,
    throughput_from_headers,
)

INVALID = "One of the specified inputs is invalid"


def too_low(asked: int, least: int) -> str:
    return f"Requested throughput {asked} is less than required minimum throughput {least}"


def refusal(offer_throughput: str | None, autopilot: str | None) -> str:
    with pytest.raises(BadRequest) as caught:
        throughput_from_headers(offer_throughput, autopilot)
    assert caught.value.listed
    return caught.value.message


# Creation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offer_throughput", "autopilot", "expected"),
    [
        (None, None, None),
        ("400", None, Throughput(400, None, None, 400)),
        (" 10100 ", None, Throughput(10100, None, None, 10100)),
        ("1000000", None, Throughput(1000000, None, None, 1000000)),
        (None, '{"maxThroughput":1000}', Throughput(100, 1000, None, 1000)),
        (None, '{"maxThroughput":4000.0}', Throughput(400, 4000, None, 4000)),
        (
            None,
            '{"maxThroughput":7000,'
            '"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":0}}}',
            Throughput(700, 7000, 0, 7000),
        ),
        (
            None,
            '{"maxThroughput":5000,'
            '"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":20}}}',
            Throughput(500, 5000, 20, 5000),
        ),
        (
            None,
            '{"maxThroughput":5000,"autoUpgradePolicy":{"throughputPolicy":{}}}',
            Throughput(500, 5000, None, 5000),
        ),
        (
            None,
            '{"maxThroughput":5000,"autoUpgradePolicy":null}',
            Throughput(500, 5000, None, 5000),
        ),
    ],
)
def test_requested(
    offer_throughput: str | None, autopilot: str | None, expected: Throughput | None
) -> None:
    assert throughput_from_headers(offer_throughput, autopilot) == expected


@pytest.mark.parametrize(
    ("offer_throughput", "autopilot", "fragment"),
    [
        ("400", '{"maxThroughput":1000}', "cannot be requested together"),
        ("", None, INVALID),
        ("many", None, INVALID),
        ("400.5", None, INVALID),
        ("٤٠٠", None, INVALID),
        ("9" * 5000, None, INVALID),
        ("-200", None, too_low(-200, 400)),
        ("0", None, too_low(0, 400)),
        ("300", None, too_low(300, 400)),
        ("450", None, "between 400 and 1000000 inclusive in increments of 100."),
        ("1000100", None, "Requested throughput 1000100 is more than"),
        (None, "", INVALID),
        (None, "{", INVALID),
        (None, "4000", INVALID),
        (None, "{}", INVALID),
        (None, '{"maxThroughput":"4000"}', INVALID),
        (None, '{"maxThroughput":-200}', too_low(-200, 1000)),
        (None, '{"maxThroughput":900}', too_low(900, 1000)),
        (
            None,
            '{"maxThroughput":1500}',
            "between 1000 and 1000000 inclusive in increments of 1000.",
        ),
        (None, '{"maxThroughput":1001000}', "Requested throughput 1001000 is more than"),
        (None, '{"maxThroughput":1000,"autoUpgradePolicy":1}', INVALID),
        (
            None,
            '{"maxThroughput":1000,'
            '"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":-1}}}',
            INVALID,
        ),
        (
            None,
            '{"maxThroughput":1000,'
            '"autoUpgradePolicy":{"throughputPolicy":{"incrementPercent":"5"}}}',
            INVALID,
        ),
    ],
)
def test_refused_requests(
    offer_throughput: str | None, autopilot: str | None, fragment: str
) -> None:
    assert fragment in refusal(offer_throughput, autopilot)


# Minimum -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("highest_ever", "is_autoscale", "stored_gb", "containers", "least"),
    [
        (0, False, 0, 0, 400),
        (40_000, False, 0, 0, 400),
        (50_000, False, 0, 0, 500),
        (50_100, False, 0, 0, 600),
        (400, False, 600, 0, 600),
        (400, False, 600.5, 0, 700),
        (400, False, 0, 25, 400),
        (400, False, 0, 30, 900),
        (0, True, 0, 0, 1000),
        (10_000, True, 0, 0, 1000),
        (60_000, True, 0, 0, 6000),
        (60_100, True, 0, 0, 7000),
        (0, True, 97, 0, 1000),
        (0, True, 150, 0, 2000),
        (0, True, 0, 27, 3000),
    ],
)
def test_minimum(
    highest_ever: int, is_autoscale: bool, stored_gb: float, containers: int, least: int
) -> None:
    assert least == minimum(
        highest_ever, is_autoscale=is_autoscale, stored_gb=stored_gb, containers=containers
    )


# Offers ------------------------------------------------------------------------------------------


def test_manual_offer() -> None:
    assert offer_content(DEFAULT_THROUGHPUT) == {
        "offerThroughput": 400,
        "offerIsRUPerMinuteThroughputEnabled": False,
        "offerMinimumThroughputParameters": {
            "maxThroughputEverProvisioned": 400,
            "maxConsumedStorageEverInKB": 0,
        },
    }


@pytest.mark.parametrize(
    ("percent", "upgrade"),
    [
        (None, {}),
        (0, {"autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 0}}}),
        (5, {"autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 5}}}),
    ],
)
def test_autoscale_offer(percent: int | None, upgrade: dict[str, Any]) -> None:
    assert offer_content(autoscale(4000, percent, highest_ever=9000)) == {
        "offerThroughput": 400,
        "offerIsRUPerMinuteThroughputEnabled": False,
        "offerMinimumThroughputParameters": {
            "maxThroughputEverProvisioned": 9000,
            "maxConsumedStorageEverInKB": 0,
        },
        "offerAutopilotSettings": {
            "tier": 0,
            "maximumTierThroughput": 0,
            "autoUpgrade": False,
            "maxThroughput": 4000,
        }
        | upgrade,
    }


# Replace -----------------------------------------------------------------------------------------


def offer(**content: Any) -> dict[str, Any]:
    return {"offerVersion": "V2", "content": content}


def settings(most: Any, percent: Any = None) -> dict[str, Any]:
    policy = {"throughputPolicy": {"incrementPercent": percent}}
    return {"maxThroughput": most} | ({} if percent is None else {"autoUpgradePolicy": policy})


@pytest.mark.parametrize(
    ("old", "content", "expected"),
    [
        (DEFAULT_THROUGHPUT, {"offerThroughput": 500}, manual(500)),
        (DEFAULT_THROUGHPUT, {"offerThroughput": 500, "offerAutopilotSettings": None}, manual(500)),
        (manual(50_000), {"offerThroughput": 500}, manual(500, highest_ever=50_000)),
        (
            autoscale(5000, 2),
            {"offerThroughput": 500, "offerAutopilotSettings": settings(7000, 20)},
            autoscale(7000, 20),
        ),
        (autoscale(5000, 0), {"offerAutopilotSettings": settings(8000)}, autoscale(8000, 0)),
        (autoscale(5000), {"offerAutopilotSettings": settings(8000)}, autoscale(8000)),
        (
            autoscale(9000),
            {"offerAutopilotSettings": settings(2000)},
            autoscale(2000, highest_ever=9000),
        ),
    ],
)
def test_replaced(old: Throughput, content: dict[str, Any], expected: Throughput) -> None:
    assert replaced_throughput(old, offer(**content)) == expected


def test_replace_with_what_was_read_changes_nothing() -> None:
    for old in (DEFAULT_THROUGHPUT, autoscale(4000), autoscale(4000, 5, highest_ever=9000)):
        assert replaced_throughput(old, {"content": offer_content(old)}) == old


@pytest.mark.parametrize(
    ("old", "body", "fragment"),
    [
        (DEFAULT_THROUGHPUT, None, INVALID),
        (DEFAULT_THROUGHPUT, {}, INVALID),
        (DEFAULT_THROUGHPUT, {"content": []}, INVALID),
        (DEFAULT_THROUGHPUT, offer(), INVALID),
        (DEFAULT_THROUGHPUT, offer(offerThroughput="500"), INVALID),
        (DEFAULT_THROUGHPUT, offer(offerThroughput=True), INVALID),
        (DEFAULT_THROUGHPUT, offer(offerThroughput=-200), too_low(-200, 400)),
        (DEFAULT_THROUGHPUT, offer(offerThroughput=450), "increments of 100"),
        (DEFAULT_THROUGHPUT, offer(offerThroughput=1_000_100), "more than the maximum"),
        (manual(60_000), offer(offerThroughput=400), too_low(400, 600)),
        (
            DEFAULT_THROUGHPUT,
            offer(offerAutopilotSettings=settings(4000)),
            "x-ms-cosmos-migrate-offer-to-autopilot must be supplied",
        ),
        (
            autoscale(4000),
            offer(offerThroughput=400),
            "x-ms-cosmos-migrate-offer-to-manual-throughput must be supplied",
        ),
        (
            autoscale(4000),
            offer(offerThroughput=800, offerAutopilotSettings=settings(4000)),
            "content.offerThroughput cannot be set",
        ),
        (autoscale(4000), offer(offerAutopilotSettings=settings(None)), INVALID),
        (autoscale(4000), offer(offerAutopilotSettings=settings(-1)), too_low(-1, 1000)),
        (autoscale(60_000), offer(offerAutopilotSettings=settings(4000)), too_low(4000, 6000)),
        (autoscale(4000), offer(offerAutopilotSettings=settings(4500)), "increments of 1000"),
    ],
)
def test_refused_replaces(old: Throughput, body: Any, fragment: str) -> None:
    with pytest.raises(BadRequest) as caught:
        replaced_throughput(old, body)
    assert fragment in caught.value.message


def test_storage_and_containers_raise_the_minimum() -> None:
    with pytest.raises(BadRequest, match=too_low(500, 600)):
        replaced_throughput(manual(1000), offer(offerThroughput=500), stored_gb=550)
    with pytest.raises(BadRequest, match=too_low(500, 900)):
        replaced_throughput(manual(1000), offer(offerThroughput=500), containers=30)


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (DEFAULT_THROUGHPUT, autoscale(1000, highest_ever=400)),
        (manual(2500), autoscale(3000, highest_ever=2500)),
        (manual(400, highest_ever=60_000), autoscale(6000, highest_ever=60_000)),
        (autoscale(4000, 5), autoscale(4000, 5)),
    ],
)
@pytest.mark.parametrize(
    "content", [{"offerThroughput": -1}, {"offerAutopilotSettings": settings(-1)}]
)
def test_migration_to_autoscale(
    old: Throughput, expected: Throughput, content: dict[str, Any]
) -> None:
    assert replaced_throughput(old, offer(**content), migrate_to_autopilot=True) == expected


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (autoscale(4000, 5), manual(4000)),
        (autoscale(4000, highest_ever=9000), manual(4000, highest_ever=9000)),
        (DEFAULT_THROUGHPUT, DEFAULT_THROUGHPUT),
    ],
)
def test_migration_to_manual(old: Throughput, expected: Throughput) -> None:
    body = offer(offerAutopilotSettings=settings(-1))
    assert replaced_throughput(old, body, migrate_to_manual=True) == expected


def test_no_migration_both_ways() -> None:
    with pytest.raises(BadRequest):
        replaced_throughput(DEFAULT_THROUGHPUT, offer(offerThroughput=400), True, True)


# Whatever is sent --------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "content",
                    "offerThroughput",
                    "offerAutopilotSettings",
                    "maxThroughput",
                    "autoUpgradePolicy",
                    "throughputPolicy",
                    "incrementPercent",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@examples(deadline=None)
@given(
    st.sampled_from([DEFAULT_THROUGHPUT, manual(60_000), autoscale(4000, 5)]),
    JSON | st.builds(offer, offerThroughput=JSON, offerAutopilotSettings=JSON),
    st.booleans(),
    st.booleans(),
)
def test_any_body_gives_a_throughput_or_a_400(
    old: Throughput, body: Any, to_autopilot: bool, to_manual: bool
) -> None:
    try:
        new = replaced_throughput(old, body, to_autopilot, to_manual)
    except BadRequest:
        return
    assert new.highest_ever >= old.highest_ever
    assert 400 <= new.ceiling <= 1_000_000


@examples(deadline=None)
@given(st.none() | st.text(max_size=12), st.none() | st.text(max_size=12))
def test_any_headers_give_a_throughput_or_a_400(
    offer_throughput: str | None, autopilot: str | None
) -> None:
    try:
        throughput_from_headers(offer_throughput, autopilot)
    except BadRequest:
        return
