"""Provisioned throughput: which values are allowed, and how an offer changes them.

Pure. `offers.py` stores offers, `enforcement.py` refuses requests that exceed them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

from perseid.service.definitions.json_types import as_object, as_whole, invalid, malformed

LARGEST: Final = 1_000_000
LARGEST_WITHOUT_KEY: Final = 10_000  # of a container without a partition key: it has one range
SERVERLESS_RATE: Final = 5000  # RU/s of each range of a serverless account
MANUAL_STEP: Final = 100
AUTOSCALE_STEP: Final = 1000
# In a database with shared throughput each further container raises the minimum.
CONTAINERS_INCLUDED: Final = 25

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a database or container may use in a second.

    With autoscale `throughput` is the lowest value, a tenth of `autoscale_max`. `increment_percent`
    is the automatic increase that a client requested; None, which offers show differently from 0,
    if none did. `highest_ever` determines the minimum after a reduction.
    """

    throughput: int
    autoscale_max: int | None = None
    increment_percent: int | None = None
    highest_ever: int = 0

    @property
    def ceiling(self) -> int:
        """The highest RU/s; partitions and minimums are derived from it."""
        return self.throughput if self.autoscale_max is None else self.autoscale_max


# RU/s of one physical range of a new container.
_RANGE_MANUAL: Final = 6_000
_RANGE_OTHERWISE: Final = 10_000


def range_count(throughput: Throughput, *, is_shared: bool) -> int:
    """The number of physical ranges of a new container: one for each started share of its RU/s, or
    of those of its database if it shares them."""
    is_manual = throughput.autoscale_max is None and not is_shared
    return max(1, -(-throughput.ceiling // (_RANGE_MANUAL if is_manual else _RANGE_OTHERWISE)))


def manual(throughput: int, *, highest_ever: int = 0) -> Throughput:
    """Manual throughput that records the highest value so far."""
    return Throughput(throughput, highest_ever=max(highest_ever, throughput))


def autoscale(
    most: int, increment_percent: int | None = None, *, highest_ever: int = 0
) -> Throughput:
    """Autoscale throughput up to `most` that records the highest value so far."""
    return Throughput(most // 10, most, increment_percent, max(highest_ever, most))


DEFAULT_THROUGHPUT: Final = manual(400)
"""Of a container that was created without throughput in a database without it."""


def minimum(
    highest_ever: int, *, is_autoscale: bool, stored_gb: float = 0, containers: int = 0
) -> int:
    """The lowest manual throughput, or the lowest autoscale maximum, that may be requested.

    `containers` counts those that share the throughput of a database; 0 for a container.
    """
    further = max(0, containers - CONTAINERS_INCLUDED)
    if is_autoscale:
        least = max(1000 + 1000 * further, highest_ever / 10, stored_gb * 10)
        return _rounded_up(least, AUTOSCALE_STEP)
    return _rounded_up(max(400 + 100 * further, highest_ever / 100, stored_gb), MANUAL_STEP)


def throughput_from_headers(
    offer_throughput: str | None, autopilot: str | None
) -> Throughput | None:
    """The throughput that the headers of a create request, or None without such headers.

    `offer_throughput` is the value of x-ms-offer-throughput, `autopilot` that of
    x-ms-cosmos-offer-autopilot-settings.
    """
    if offer_throughput is not None and autopilot is not None:
        raise invalid("Manual throughput and autoscale settings cannot be requested together.")
    if offer_throughput is not None:
        if not _NUMBER.fullmatch(offer_throughput.strip()):
            raise malformed("x-ms-offer-throughput", "a whole number")
        throughput = int(offer_throughput.strip())
        _check_value(throughput, minimum(0, is_autoscale=False), MANUAL_STEP)
        return manual(throughput)
    if autopilot is not None:
        settings = _decoded(autopilot)
        most, percent = _autopilot_settings(settings)
        _check_value(most, minimum(0, is_autoscale=True), AUTOSCALE_STEP)
        return autoscale(most, percent)
    return None


def replaced_throughput(
    old: Throughput,
    body: Any,
    migrate_to_autopilot: bool = False,
    migrate_to_manual: bool = False,
    *,
    stored_gb: float = 0,
    containers: int = 0,
) -> Throughput:
    """The throughput after a replace of its offer with this body.

    A change of the mode needs a migration header. The service then chooses the value and ignores
    the body; the next replace can change it.
    """
    content = as_object(as_object(body, "body").get("content"), "content")
    is_autoscale = old.autoscale_max is not None
    if migrate_to_autopilot and migrate_to_manual:
        raise invalid("An offer cannot migrate to autoscale and to manual throughput at once.")
    if migrate_to_manual:
        return manual(old.ceiling, highest_ever=old.highest_ever)
    least = minimum(
        old.highest_ever,
        is_autoscale=is_autoscale or migrate_to_autopilot,
        stored_gb=stored_gb,
        containers=containers,
    )
    if migrate_to_autopilot:
        start = max(least, _rounded_up(old.ceiling, AUTOSCALE_STEP))
        return autoscale(start, old.increment_percent, highest_ever=old.highest_ever)
    if is_autoscale:
        return _replaced_autoscale(old, content, least)
    if content.get("offerAutopilotSettings") is not None:
        raise invalid(
            "x-ms-cosmos-migrate-offer-to-autopilot must be supplied and offercontent must not"
            " contain autopilotSettings for migration from manual throughput to autoscale."
        )
    throughput = as_whole(content.get("offerThroughput"), "content.offerThroughput")
    _check_value(throughput, least, MANUAL_STEP)
    return manual(throughput, highest_ever=old.highest_ever)


def _replaced_autoscale(old: Throughput, content: dict[str, Any], least: int) -> Throughput:
    settings = content.get("offerAutopilotSettings")
    if settings is None:
        raise invalid(
            "x-ms-cosmos-migrate-offer-to-manual-throughput must be supplied"
            " for migration from autoscale to manual throughput."
        )
    most, percent = _autopilot_settings(settings)
    _check_value(most, least, AUTOSCALE_STEP)
    given = content.get("offerThroughput")
    if most == old.autoscale_max and given not in (None, old.throughput):
        raise invalid(
            "The throughput of this offer scales by itself, up to"
            f" content.offerAutopilotSettings.maxThroughput, which is {most}: replace that, or"
            " supply x-ms-cosmos-migrate-offer-to-manual-throughput to leave autoscale."
            " content.offerThroughput cannot be set."
        )
    # Clients modify the policy that they have read, so it must not disappear.
    percent = old.increment_percent if percent is None else percent
    return autoscale(most, percent, highest_ever=old.highest_ever)


def check_provisioned(throughput: Throughput | None, *, is_serverless: bool) -> None:
    """400 if throughput is requested in a serverless account."""
    if throughput is not None and is_serverless:
        raise invalid(
            "Setting offer throughput or autopilot on container is not supported for serverless"
            " accounts."
        )


def check_without_key(throughput: Throughput) -> None:
    """400 if the throughput is more than a container without a partition key can have."""
    if throughput.ceiling > LARGEST_WITHOUT_KEY:
        raise invalid(
            f"The throughput of a container without a partition key is at most"
            f" {LARGEST_WITHOUT_KEY}, not {throughput.ceiling}."
        )


def offer_content(throughput: Throughput) -> dict[str, Any]:
    """The `content` of the offer, as clients read it."""
    content: dict[str, Any] = {
        "offerThroughput": throughput.throughput,
        "offerIsRUPerMinuteThroughputEnabled": False,
        "offerMinimumThroughputParameters": {
            "maxThroughputEverProvisioned": throughput.highest_ever,
            "maxConsumedStorageEverInKB": 0,
        },
    }
    if throughput.autoscale_max is not None:
        settings: dict[str, Any] = {
            "tier": 0,
            "maximumTierThroughput": 0,
            "autoUpgrade": False,
            "maxThroughput": throughput.autoscale_max,
        }
        if throughput.increment_percent is not None:
            settings["autoUpgradePolicy"] = {
                "throughputPolicy": {"incrementPercent": throughput.increment_percent}
            }
        content["offerAutopilotSettings"] = settings
    return content


def _decoded(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise malformed("x-ms-cosmos-offer-autopilot-settings", "JSON") from None


def _autopilot_settings(value: Any) -> tuple[int, int | None]:
    """The maximum and, if given, the increment of autoscale settings."""
    settings = as_object(value, "offerAutopilotSettings")
    most = as_whole(settings.get("maxThroughput"), "maxThroughput")
    policy: Any = settings
    for name in ("autoUpgradePolicy", "throughputPolicy"):
        policy = policy.get(name)
        if policy is None:
            return most, None
        policy = as_object(policy, name)
    if policy.get("incrementPercent") is None:
        return most, None
    percent = as_whole(policy["incrementPercent"], "incrementPercent")
    if not 0 <= percent <= 100:
        raise malformed("incrementPercent", "from 0 to 100")
    return most, percent


def _check_value(value: int, least: int, step: int) -> None:
    if least <= value <= LARGEST and value % step == 0:
        return
    text = (
        f"The offer should have valid throughput values between {least} and {LARGEST} inclusive"
        f" in increments of {step}."
    )
    if value < least:
        text += f" Requested throughput {value} is less than required minimum throughput {least}."
    elif value > LARGEST:
        text += f" Requested throughput {value} is more than the maximum throughput {LARGEST}."
    raise invalid(text)


def _rounded_up(value: float, step: int) -> int:
    return int(-(-value // step)) * step
