"""The effect of a change of `defaultTtl` before it is made, and the guard that compares with it."""

from __future__ import annotations

import re
from typing import Any, Final

from perseid import ttl
from perseid.errors import BadRequest, PreconditionFailed
from perseid.model import Container
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.lifetimes.item_totals import (
    ItemTotals,
    bucket_json,
    count_by_bucket,
    count_items,
    item_summary,
    sample_items,
)
from perseid.ttl import Cutoff, Policy

_SAMPLES: Final = 10


async def preview(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """What a change of `defaultTtl` would do now; changes nothing."""
    old, new = container.policy, container.policy.changed(default_ttl, int(now))
    before, after = account.cutoff(container, now), account.cutoff_under(new, now)
    spans = ttl.newly_expired_spans(before, after)
    expires_now = await count_items(account, container, spans)
    gained, lost = await _count_gained_and_lost(account, container, new, before.later(after))
    usage = await account.usage(container, before)
    samples = await sample_items(account, container, spans, _SAMPLES)
    return {
        "asOf": int(now),
        "container": container.path,
        "defaultTtl": old.default_ttl,
        "proposedDefaultTtl": default_ttl,
        "expiresNow": {
            "items": expires_now.items,
            "bytes": expires_now.size,
            "oldestTs": expires_now.oldest,
            "newestTs": expires_now.newest,
        },
        "gainsExpiry": gained,
        "losesExpiry": lost,
        "pendingPurge": ItemTotals(usage.expired_items, usage.expired_size)._asdict(),
        "invalidTtl": await account.stores.expiry.count_invalid_ttls(container, before),
        "sample": [item_summary(row) for row in samples[:_SAMPLES]],
        "histogram": await _histogram(account, container, new, before.later(after), int(now)),
        "guard": _guard_of(account, container),
        "confirmationToken": tokens.seal(account.secret, _confirmation(container, default_ttl)),
    }


async def check_guard(
    account: Account,
    container: Container,
    default_ttl: int | None,
    confirmation: str | None,
    now: float,
) -> None:
    """412 with the preview if an unconfirmed change would expire more than the guard allows."""
    limit = _guard_of(account, container)
    if limit is None:
        return
    if confirmation is not None:
        tokens.unseal(account.secret, confirmation, **_confirmation(container, default_ttl))
        return
    effect = await preview(account, container, default_ttl, now)
    expires_now = effect["expiresNow"]["items"]
    live = await account.usage(container, account.cutoff(container, now))
    if expires_now > parse_guard(limit, live.items):
        raise PreconditionFailed(
            f"The change of defaultTtl would expire {expires_now} items immediately; the guard"
            f" allows {limit}. To confirm the change, send the confirmationToken of the preview in"
            " the header x-perseid-confirm.",
            details={"preview": effect},
        )


def _guard_of(account: Account, container: Container) -> str | None:
    """The guard that applies: the container's own, or that of the server."""
    return container.guard or account.settings.expiry_guard


def parse_guard(text: str, live: int) -> float:
    """How many items may expire at once: a number of items, or a percentage of live items."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if match is None:
        raise BadRequest(
            f"A guard is a number of items or a percentage, like 500 or 10%; not '{text}'."
        )
    return float(match[1]) * live / 100 if match[2] else float(match[1])


def _confirmation(container: Container, default_ttl: int | None) -> dict[str, Any]:
    """A confirmation is valid for this change of this version of the container only."""
    return {"f": "ttl", "c": container.rid, "e": container.etag, "d": default_ttl}


async def _count_gained_and_lost(
    account: Account, container: Container, new: Policy, cutoff: Cutoff
) -> tuple[int, int]:
    """How many live items would gain an expiry, and how many would lose theirs."""
    gained = lost = 0
    for span in ttl.live_spans(cutoff):
        is_gain, was_expiring = new.expires(span.kind), container.policy.expires(span.kind)
        if is_gain != was_expiring:
            items = (await count_items(account, container, [span])).items
            gained, lost = (gained + items, lost) if is_gain else (gained, lost + items)
    return gained, lost


async def _histogram(
    account: Account, container: Container, policy: Policy, cutoff: Cutoff, now: int
) -> list[dict[str, int]]:
    """When the live items would expire under `policy`, in a couple of dozen buckets."""
    spans = ttl.expiring_spans(policy, cutoff, now)
    last = now
    for span, lifetime in spans:
        count = await count_items(account, container, [span])
        last = max(last, now if count.last is None else count.last + lifetime)
    if last == now:
        return []
    width = ttl.bucket_width(last - now)
    buckets: dict[int, ItemTotals] = {}
    for span, lifetime in spans:
        counts = await count_by_bucket(account, container, span, now - lifetime, width)
        for bucket, totals in counts.items():
            buckets[bucket] = buckets.get(bucket, ItemTotals()) + totals
    return [bucket_json(bucket, buckets[bucket], now, width) for bucket in sorted(buckets)]
