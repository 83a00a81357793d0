"""A container's purge hold and guard: settings of Perseid, not of the service."""

from __future__ import annotations

from typing import Any

from perseid.errors import BadRequest
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.lifetimes import policies
from perseid.service.lifetimes.preview import parse_guard
from perseid.store.types import AuditEntry, PutResource


async def configure(
    account: Account, rid: str, settings: dict[str, Any], caller: str, now: float
) -> Container:
    """Sets the purge hold and the guard; a setting that is not named stays as it is."""
    state = _checked_state(settings)
    async with account.metadata_lock:
        policies.current_container(account, rid)
        old = account.catalog.resource(rid)
        resource = old._replace(state=old.state | state)
        entry = AuditEntry(int(now), rid, {"event": "settings", "caller": caller, **settings})
        await account.change([PutResource(resource, replaces=old.etag), entry])
        return account.catalog.container_for(resource)


def _checked_state(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings as the container's state stores them; 400 if one is invalid."""
    unknown = set(settings) - {"purgeHoldSeconds", "guard"}
    if unknown:
        raise BadRequest(f"Unknown setting '{min(unknown)}'; known: purgeHoldSeconds, guard.")
    state: dict[str, Any] = {}
    if "purgeHoldSeconds" in settings:
        seconds = settings["purgeHoldSeconds"]
        if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= 2**31:
            raise BadRequest("purgeHoldSeconds must be a whole number of seconds, 0 or more.")
        state["hold_seconds"] = seconds
    if "guard" in settings:
        guard = settings["guard"]
        if guard is not None:
            guard = str(guard)
            parse_guard(guard, 0)
        state["guard"] = guard
    return state
