"""A container's TTL policy over time: what may be purged, what a change has to record.

The state stored with a container: `deaths` (see ttl.Policy), `previous` for the undo, `hold_*` for
the purge hold, and the container's own guard.
"""

from __future__ import annotations

from typing import Any

from perseid import ttl
from perseid.errors import NotFound
from perseid.model import Container
from perseid.service.account import Account
from perseid.ttl import NOTHING_EXPIRED, Cutoff, ExpiryAges, Policy


def current_container(account: Account, rid: str) -> Container:
    """The container as the catalog has it now; the caller holds the metadata lock."""
    container = account.catalog.container_by_rid(rid)
    if container is None:
        raise NotFound("The container no longer exists.")
    return container


def expiry_ages(container: Container) -> ExpiryAges:
    return ttl.expiry_ages(container.policy, container.age_at_final_expiry)


def purge_cutoff(account: Account, container: Container, now: float) -> Cutoff:
    """What may be purged: expired items, except those on hold."""
    return ttl.purge_cutoff(
        container.policy,
        container.purge_hold,
        int(now),
        revive_unpurged=account.settings.revive_unpurged,
    )


def previous_cutoff(account: Account, container: Container, now: float) -> Cutoff | None:
    """What would have expired by now under the policy before the last change, if there was one."""
    if account.catalog.container_by_rid(container.rid) is None:
        return None  # it was deleted meanwhile
    previous = previous_policy(account.catalog.resource(container.rid).state)
    return None if previous is None else account.cutoff_under(previous, now)


async def count_expired_by_change(account: Account, container: Container) -> int:
    """How many items were purged since the container exists that only the policy change before
    their purge expired."""
    return (await account.usage(container, NOTHING_EXPIRED)).expired_by_change


async def policy_change_state(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """The keys of the container's state that a change of `defaultTtl` sets."""
    old = container.policy
    return {
        "previous": {
            "default_ttl": old.default_ttl,
            "deaths": [*old.final_cutoff],
            "dead_age": container.age_at_final_expiry,
            "spared": await count_expired_by_change(account, container),
        },
        **final_cutoff_state(container, default_ttl, now),
        **purge_hold_state(purge_cutoff(account, container, now), now),
    }


def final_cutoff_state(container: Container, default_ttl: int | None, now: float) -> dict[str, Any]:
    """What a change of `defaultTtl` at `now` records about expiry under the policy before."""
    old, new = container.policy, container.policy.changed(default_ttl, int(now))
    age = ttl.changed_age_at_final_expiry(old, new, container.age_at_final_expiry)
    return {"deaths": [*new.final_cutoff], "dead_age": age}


def purge_hold_state(cutoff: Cutoff, now: float) -> dict[str, Any]:
    """After a policy change, a purge hold lets only those items be purged that could be before it.

    Recorded without a hold as well, because the hold may be set after the change.
    """
    return {"hold_since": int(now), "hold_horizon": [*cutoff]}


def previous_policy(state: dict[str, Any]) -> Policy | None:
    """The policy before the last change, for the undo."""
    previous = state.get("previous")
    return None if previous is None else Policy(previous["default_ttl"], *previous["deaths"])
