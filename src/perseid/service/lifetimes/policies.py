"""A container's TTL policy over time: what may be purged, what a change has to record.

The state kept with a container: `final_cutoffs` (see ttl.Policy), `previous` for the undo,
`hold_since` and `hold_cutoff` while expired items are on hold, the container's own guard and hold
settings, and `if_rejected`: after a clock jump that was neither confirmed nor rejected, what a
policy change would have recorded at the time without the jump.
"""

from __future__ import annotations

from typing import Any, Final

from perseid import ttl
from perseid.clock import ClockJump
from perseid.errors import NotFound
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.catalog import build_container
from perseid.store.types import PutResource
from perseid.ttl import NOTHING_EXPIRED, Cutoff, ExpiryAges, Policy

# The keys of a container's state that depend on the time of a policy change.
TIME_KEYS: Final = ("final_cutoffs", "expired_age", "previous", "hold_since", "hold_cutoff")


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
    state = await _change_state(account, container, default_ttl, now)
    if account.jump is not None and account.corrected_time is not None:
        unchanged, _ = without_jump(account, container, account.jump)
        corrected = await _change_state(account, unchanged, default_ttl, account.corrected_time())
        state["if_rejected"] = {"jump": account.jump.after, "state": corrected}
    return state


async def _change_state(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    old = container.policy
    return {
        "previous": {
            "default_ttl": old.default_ttl,
            "final_cutoffs": [*old.final_cutoff],
            "expired_age": container.age_at_final_expiry,
            "purged_since_change": await count_expired_by_change(account, container),
        },
        **final_cutoff_state(container, default_ttl, now),
        **purge_hold_state(purge_cutoff(account, container, now), now),
    }


def final_cutoff_state(container: Container, default_ttl: int | None, now: float) -> dict[str, Any]:
    """What a change of `defaultTtl` at `now` records about expiry under the policy before."""
    old, new = container.policy, container.policy.changed(default_ttl, int(now))
    age = ttl.changed_age_at_final_expiry(old, new, container.age_at_final_expiry)
    return {"final_cutoffs": [*new.final_cutoff], "expired_age": age}


def follow_up_state(
    account: Account, container: Container, default_ttl: int | None, state: dict[str, Any]
) -> dict[str, Any]:
    """`state` with what the old policy expired while the change was written."""
    changed = state | final_cutoff_state(container, default_ttl, account.clock.now())
    if account.jump is not None and account.corrected_time is not None and "if_rejected" in state:
        unchanged, _ = without_jump(account, container, account.jump)
        final = final_cutoff_state(unchanged, default_ttl, account.corrected_time())
        corrected = state["if_rejected"]
        changed["if_rejected"] = corrected | {"state": corrected["state"] | final}
    return changed


def without_jump(
    account: Account, container: Container, jump: ClockJump
) -> tuple[Container, dict[str, Any]]:
    """The container and its state without the times of the jump at which its policy changed."""
    resource = account.catalog.resource(container.rid)
    corrected = resource.state.get("if_rejected")
    if corrected is None or corrected["jump"] != jump.after:
        return container, resource.state
    state = resource.state | corrected["state"]
    return build_container(resource._replace(state=state), container.database), state


async def changes_after_rejection(
    account: Account, jump: ClockJump, now: float
) -> list[PutResource]:
    """Policy changes made at times of the jump become those of the corrected time."""
    changes = []
    for container in account.catalog.containers():
        resource = account.catalog.resource(container.rid)
        corrected = resource.state.get("if_rejected")
        if corrected is not None and corrected["jump"] == jump.after:
            state = {k: v for k, v in resource.state.items() if k != "if_rejected"}
            changed = resource._replace(
                etag=await account.new_etag(now), ts=int(now), state=state | corrected["state"]
            )
            changes.append(PutResource(changed, replaces=resource.etag))
    return changes


def purge_hold_state(cutoff: Cutoff, now: float) -> dict[str, Any]:
    """After a policy change, a purge hold lets only those items be purged that could be before it.

    Recorded without a hold as well, because the hold may be set after the change.
    """
    return {"hold_since": int(now), "hold_cutoff": [*cutoff]}


def previous_policy(state: dict[str, Any]) -> Policy | None:
    """The policy before the last change, for the undo."""
    previous = state.get("previous")
    return None if previous is None else Policy(previous["default_ttl"], *previous["final_cutoffs"])
