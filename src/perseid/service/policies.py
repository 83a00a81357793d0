"""A container's TTL policy over time: what may be purged, what a change leaves behind.

The state kept with a container: `deaths` (see ttl.Policy), `previous` for the undo, `hold` while
dead items are kept, and the container's own guard and hold settings.
"""

from __future__ import annotations

from typing import Any

from perseid.model import Container
from perseid.service.account import Account
from perseid.store.protocol import Ages
from perseid.ttl import EVERYTHING_LIVES, Horizon, Policy


def ages(container: Container) -> Ages:
    """For the order of removal; exact for the two latest policies that had a default."""
    policy = container.policy
    after = max(policy.default_ttl or 0, 0)
    return Ages(policy.inherited_dead, container.dead_age, after)


def purge_horizon(account: Account, container: Container, now: float) -> Horizon:
    """What may be removed physically: the dead, less those on hold."""
    hold = container.hold
    if now < hold.since + hold.seconds:
        # The change may have revived some of them: see `revive_unpurged`.
        return hold.horizon.common(account.horizon(container, now))
    return account.horizon(container, now - hold.seconds)


def spare_horizon(account: Account, container: Container, now: float) -> Horizon | None:
    """What the policy before the last change would have killed by now."""
    if account.catalog.container_by_rid(container.rid) is None:
        return None  # dropped a moment ago
    previous = previous_policy(account.catalog.resource(container.rid).state)
    return None if previous is None else account.horizon_of(previous, now)


async def count_spared(account: Account, container: Container) -> int:
    """How many removed items a policy before would have spared, over the container's life."""
    return (await account.usage(container, EVERYTHING_LIVES)).spared


async def changed_state(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """What the container's state becomes when `defaultTtl` changes."""
    old = container.policy
    return {
        "previous": {
            "default_ttl": old.default_ttl,
            "deaths": [old.inherited_dead, old.own_dead],
            "dead_age": container.dead_age,
            "spared": await count_spared(account, container),
        },
        **ended_state(container, default_ttl, now),
        **held_state(purge_horizon(account, container, now), now),
    }


def ended_state(container: Container, default_ttl: int | None, now: float) -> dict[str, Any]:
    """What a change of `defaultTtl` in this second leaves to remember of the policy before."""
    policy, old = container.policy.changed(default_ttl, int(now)), container.policy
    is_same = policy.inherited_dead == old.inherited_dead
    return {
        "deaths": [policy.inherited_dead, policy.own_dead],
        "dead_age": container.dead_age if is_same else old.default_ttl or 0,
    }


def held_state(horizon: Horizon, now: float) -> dict[str, Any]:
    """From a change on, for as long as dead items are held, only what could be removed before it
    may be removed. Kept even where none are held: that may be decided after the change."""
    return {"hold_since": int(now), "hold_horizon": [*horizon]}


def previous_policy(state: dict[str, Any]) -> Policy | None:
    """The policy before the last change, for the undo."""
    previous = state.get("previous")
    return None if previous is None else Policy(previous["default_ttl"], *previous["deaths"])
