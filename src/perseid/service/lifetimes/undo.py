"""Reverts the last change of `defaultTtl`. Expired items that were not purged become live."""

from __future__ import annotations

from typing import Any, NamedTuple

from perseid import ttl
from perseid.errors import Conflict
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.definitions.container import check_combination
from perseid.service.lifetimes import policies
from perseid.service.lifetimes.item_totals import count_items
from perseid.service.lifetimes.preview import check_guard
from perseid.store.types import AuditEntry, ExpiryCount, PutResource
from perseid.ttl import ExpirySpan, Policy


class _UndoEffect(NamedTuple):
    """What an undo restores, and what it cannot restore."""

    spans: tuple[ExpirySpan, ...]  # the items that the change expired
    restored: ExpiryCount
    expired_by_change: int  # the container's counter when this was counted
    purged: int  # of the items that the change expired

    def as_json(self) -> dict[str, Any]:
        restored = {"items": self.restored.items, "bytes": self.restored.size}
        return {"restored": restored, "alreadyPurged": self.purged}


async def undo(
    account: Account, rid: str, caller: str, confirmation: str | None, now: float
) -> dict[str, Any]:
    """Goes back to the policy before the last change; the answer says what that restored."""
    async with account.metadata_lock:
        container = policies.current_container(account, rid)
        old = account.catalog.resource(rid)
        previous = policies.previous_policy(old.state)
        if previous is None:
            raise Conflict("There is no change of defaultTtl to undo.")
        await check_guard(account, container, previous.default_ttl, confirmation, now)
        effect = await _count_effect(account, container, old.state, previous, now)
        state = _state_after_undo(account, container, old.state, previous, now)
        state |= _state_if_rejected(account, container)
        entry = {
            "event": "undo",
            "defaultTtl": {"old": container.policy.default_ttl, "new": previous.default_ttl},
            "caller": caller,
            **effect.as_json(),
        }
        resource = old._replace(etag=await account.new_etag(now), ts=int(now), state=state)
        await account.change(
            [PutResource(resource, replaces=old.etag), AuditEntry(int(now), rid, entry)]
        )
    effect = await _recount(account, container, effect)
    return {
        "container": container.path,
        "defaultTtl": previous.default_ttl,
        **effect.as_json(),
    }


async def _count_effect(
    account: Account, container: Container, state: dict[str, Any], previous: Policy, now: float
) -> _UndoEffect:
    previous_cutoff = account.cutoff_under(previous, now)
    spans = ttl.newly_expired_spans(previous_cutoff, account.cutoff(container, now))
    restored = await count_items(account, container, spans)
    expired_by_change = await policies.count_expired_by_change(account, container)
    purged = expired_by_change - state["previous"]["purged_since_change"]
    return _UndoEffect(spans, restored, expired_by_change, purged)


def _state_after_undo(
    account: Account, container: Container, state: dict[str, Any], previous: Policy, now: float
) -> dict[str, Any]:
    properties = {k: v for k, v in container.properties.items() if k != "defaultTtl"}
    if previous.default_ttl is not None:
        properties["defaultTtl"] = previous.default_ttl
    check_combination(properties)  # the index may have been switched off since the change
    purgeable = policies.purge_cutoff(account, container, now)
    return {
        **{k: v for k, v in state.items() if k != "previous"},
        "properties": properties,
        "final_cutoffs": [*previous.final_cutoff],
        "expired_age": state["previous"].get("expired_age", container.age_at_final_expiry),
        **policies.purge_hold_state(purgeable.earlier(account.cutoff_under(previous, now)), now),
    }


def _state_if_rejected(account: Account, container: Container) -> dict[str, Any]:
    """What the undo would have recorded without a clock jump, if one waits for a decision."""
    if account.jump is None or account.corrected_time is None:
        return {}
    without_jump, state = policies.without_jump(account, container, account.jump)
    previous = policies.previous_policy(state)
    if previous is None:
        return {}
    after = _state_after_undo(account, without_jump, state, previous, account.corrected_time())
    corrected = {key: after.get(key) for key in policies.TIME_KEYS}
    return {"if_rejected": {"jump": account.jump.after, "state": corrected}}


async def _recount(account: Account, container: Container, effect: _UndoEffect) -> _UndoEffect:
    """Corrects the counts if another server process purged items after they were counted.

    The undo has been made by now, so no more of them are purged. If the metadata changed again,
    only this count is repeated, not the undo.
    """

    async def count() -> int:
        current = account.catalog.container_by_rid(container.rid)
        if current is None:
            return effect.expired_by_change
        return await policies.count_expired_by_change(account, current)

    purged_meanwhile = await account.retry_if_stale(count) - effect.expired_by_change
    if not purged_meanwhile:
        return effect
    return effect._replace(
        restored=await count_items(account, container, effect.spans),
        purged=effect.purged + purged_meanwhile,
    )
