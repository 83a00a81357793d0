"""A container's TTL policy over time: what may be purged, what a change leaves behind.

The state kept with a container: `final_cutoffs` (see ttl.Policy), `previous` for the undo,
`hold_since` and `hold_cutoff` while expired items are on hold, and the container's own guard and
hold settings.
"""

from __future__ import annotations

from typing import Any

from perseid.model import Container
from perseid.service.account import Account
from perseid.store.types import ExpiryAges
from perseid.ttl import NOTHING_EXPIRED, Cutoff, Policy


def expiry_ages(container: Container) -> ExpiryAges:
    """For the order of removal; exact for the two latest policies that had a default."""
    policy = container.policy
    after = max(policy.default_ttl or 0, 0)
    return ExpiryAges(policy.final_inherited_cutoff, container.age_at_final_expiry, after)


def purge_cutoff(account: Account, container: Container, now: float) -> Cutoff:
    """What may be removed physically: the dead, less those on hold."""
    purge_hold = container.purge_hold
    if now < purge_hold.since + purge_hold.seconds:
        # The change may have revived some of them: see `revive_unpurged`.
        return purge_hold.cutoff.common(account.cutoff(container, now))
    return account.cutoff(container, now - purge_hold.seconds)


def previous_cutoff(account: Account, container: Container, now: float) -> Cutoff | None:
    """What the policy before the last change would have killed by now."""
    if account.catalog.container_by_rid(container.rid) is None:
        return None  # dropped a moment ago
    previous = previous_policy(account.catalog.resource(container.rid).state)
    return None if previous is None else account.cutoff_under(previous, now)


async def count_expired_by_change(account: Account, container: Container) -> int:
    """How many removed items a policy before would have spared, over the container's life."""
    return (await account.usage(container, NOTHING_EXPIRED)).expired_by_change


async def policy_change_state(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """What the container's state becomes when `defaultTtl` changes."""
    old = container.policy
    return {
        "previous": {
            "default_ttl": old.default_ttl,
            "final_cutoffs": [old.final_inherited_cutoff, old.final_own_cutoff],
            "expired_age": container.age_at_final_expiry,
            "purged_since_change": await count_expired_by_change(account, container),
        },
        **final_cutoff_state(container, default_ttl, now),
        **purge_hold_state(purge_cutoff(account, container, now), now),
    }


def final_cutoff_state(container: Container, default_ttl: int | None, now: float) -> dict[str, Any]:
    """What a change of `defaultTtl` in this second leaves to remember of the policy before."""
    policy, old = container.policy.changed(default_ttl, int(now)), container.policy
    is_same = policy.final_inherited_cutoff == old.final_inherited_cutoff
    return {
        "final_cutoffs": [policy.final_inherited_cutoff, policy.final_own_cutoff],
        "expired_age": container.age_at_final_expiry if is_same else old.default_ttl or 0,
    }


def purge_hold_state(cutoff: Cutoff, now: float) -> dict[str, Any]:
    """From a change on, for as long as dead items are held, only what could be removed before it
    may be removed. Kept even where none are held: that may be decided after the change."""
    return {"hold_since": int(now), "hold_cutoff": [*cutoff]}


def previous_policy(state: dict[str, Any]) -> Policy | None:
    """The policy before the last change, for the undo."""
    previous = state.get("previous")
    return None if previous is None else Policy(previous["default_ttl"], *previous["final_cutoffs"])
