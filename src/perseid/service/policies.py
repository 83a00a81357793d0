"""A container's TTL policy over time: what may be purged, what a change leaves behind.

The state kept with a container: `deaths` (see ttl.Policy), `previous` for the undo, `hold` while
dead items are kept, and the container's own guard and hold settings.
"""

from __future__ import annotations

from typing import Any

from perseid.model import Container
from perseid.service.account import Account
from perseid.ttl import Horizon, Policy


def purge_horizon(account: Account, container: Container, now: float) -> Horizon:
    """What may be removed physically: the dead, less those on hold."""
    hold = container.hold
    if hold.seconds == 0:
        return account.horizon(container, now)
    if now < hold.until:
        return hold.horizon
    return account.horizon(container, now - hold.seconds)


def changed_state(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """What the container's state becomes when `defaultTtl` changes."""
    policy = container.policy.changed(default_ttl, int(now))
    old = container.policy
    floor = purge_horizon(account, container, now)
    return {
        "deaths": [policy.inherited_dead, policy.own_dead],
        "previous": {
            "default_ttl": old.default_ttl,
            "deaths": [old.inherited_dead, old.own_dead],
            "at": int(now),
        },
        # Until the hold is over, only what could be removed before the change may be removed.
        "hold_until": int(now) + container.hold.seconds,
        "hold_horizon": [floor.inherited, floor.own],
    }


def previous_policy(state: dict[str, Any]) -> Policy | None:
    """The policy before the last change, for the undo."""
    previous = state.get("previous")
    return None if previous is None else Policy(previous["default_ttl"], *previous["deaths"])
