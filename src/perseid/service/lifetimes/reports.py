"""What a lifetime policy does to what is stored: preview, forecast, explanation, guard, undo.

Read-only but for `undo` and `configure`. Figures come from the two indexes over lifetimes, so they
cost what they count, not what the container holds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from perseid import partition, ttl
from perseid.errors import BadRequest, Conflict, NotFound, PreconditionFailed
from perseid.model import Container, ItemKey, Row
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.definitions.container import check_combination
from perseid.service.items.transactions import LogicalPartition, item_not_found
from perseid.service.lifetimes import policies
from perseid.service.operation import Operation
from perseid.store.types import AuditEntry, ExpiryCount, ExpirySpan, PutResource
from perseid.ttl import NEVER, Cutoff, Policy

FORECAST_BUCKETS: Final = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "year": 31_536_000,
}  # fmt: skip
# Widths a histogram may choose from when nobody named one.
_BUCKET_WIDTHS: Final = (
    1,
    5,
    15,
    60,
    300,
    900,
    3600,
    21_600,
    86_400,
    604_800,
    2_592_000,
    31_536_000,
)
_MOST_BUCKETS: Final = 24
_SAMPLES: Final = 10
_LATEST: Final = 2**62
LARGEST_FORECAST: Final = 1000


class ItemTotals(NamedTuple):
    items: int = 0
    bytes: int = 0

    def __add__(self, other: object) -> ItemTotals:
        if not isinstance(other, tuple):
            return NotImplemented
        return ItemTotals(self.items + other[0], self.bytes + other[1])


# Preview and guard


async def preview(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """What a change of `defaultTtl` would do at this moment; changes nothing."""
    old, new = container.policy, container.policy.changed(default_ttl, int(now))
    before = account.cutoff(container, now)
    after = new.cutoff(int(now), revive_unpurged=account.settings.revive_unpurged)
    expiring_now = await _expiry_count(account, container, _newly_expired_spans(before, after))
    pending_purge = await _pending_purge(account, container, before)
    inheriting, own = await _live_by_ttl_source(account, container, _later_cutoff(before, after))
    expiring = losing_expiry = 0
    for live_group, will_expire, would_expire_before in (
        (inheriting, _has_default_expiry(new), _has_default_expiry(old)),
        (own, new.default_ttl is not None, old.default_ttl is not None),
    ):
        expiring += live_group.items if will_expire and not would_expire_before else 0
        losing_expiry += live_group.items if would_expire_before and not will_expire else 0
    samples = [
        _item_summary(row)
        for key_range in container.ranges
        for span in _newly_expired_spans(before, after)
        for row in await account.stores.expiry.sample(container, key_range.index, span, _SAMPLES)
    ]
    return {
        "asOf": int(now),
        "container": container.path,
        "defaultTtl": old.default_ttl,
        "proposedDefaultTtl": default_ttl,
        "expiresNow": {
            "items": expiring_now.items,
            "bytes": expiring_now.size,
            "oldestTs": expiring_now.oldest,
            "newestTs": expiring_now.newest,
        },
        "gainsExpiry": expiring,
        "losesExpiry": losing_expiry,
        "pendingPurge": pending_purge._asdict(),
        "invalidTtl": await account.stores.expiry.invalid_ttls(container, before),
        "sample": samples[:_SAMPLES],
        "histogram": await _histogram(
            account, container, new, _later_cutoff(before, after), int(now)
        ),
        "confirmationToken": tokens.seal(account.secret, _confirmation(container, default_ttl)),
    }


async def check_guard(
    account: Account,
    container: Container,
    default_ttl: int | None,
    confirmation: str | None,
    now: float,
) -> None:
    """412 with the preview if a change would kill more than the guard allows, unconfirmed."""
    limit = container.guard or account.settings.expiry_guard
    if limit is None:
        return
    if confirmation is not None:
        tokens.unseal(account.secret, confirmation, **_confirmation(container, default_ttl))
        return
    preview_body = await preview(account, container, default_ttl, now)
    expiring_now = preview_body["expiresNow"]["items"]
    live = await account.usage(container, account.cutoff(container, now))
    if expiring_now > parse_guard(limit, live.items):
        raise PreconditionFailed(
            f"The change of defaultTtl would end {expiring_now} items at once; the guard allows"
            f" {limit}."
            " Send the confirmationToken of the preview in the header x-perseid-confirm to do it.",
            details={"preview": preview_body},
        )


def parse_guard(text: str, live: int) -> float:
    """How many items may die at once: a number of items, or a percentage of the living."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if match is None:
        raise BadRequest(
            f"A guard is a number of items or a percentage, like 500 or 10%; not '{text}'."
        )
    return float(match[1]) * live / 100 if match[2] else float(match[1])


def _confirmation(container: Container, default_ttl: int | None) -> dict[str, Any]:
    """A confirmation holds for this change of this version of the container, and no other."""
    return {"f": "ttl", "c": container.rid, "e": container.etag, "d": default_ttl}


# The audit log


def audit_change_later(
    account: Account, old: Container, new: Container, caller: str, now: float
) -> None:
    """Counts what a policy change has killed after it was answered, for the audit log.

    The change itself must not cost more on a large container, and it does not wait for this.
    """
    account.pending_audit_counts.add((new.rid, new.etag))
    task = asyncio.create_task(_audit_change(account, old, new, caller, now))
    account.background.add(task)
    task.add_done_callback(account.background.discard)


async def _audit_change(
    account: Account, old: Container, new: Container, caller: str, now: float
) -> None:
    try:
        before, after = account.cutoff(old, now), account.cutoff(new, now)
        expiring_now = await _expiry_count(account, new, _newly_expired_spans(before, after))
        entry = {
            "event": "counts",
            "defaultTtl": {"old": old.policy.default_ttl, "new": new.policy.default_ttl},
            "caller": caller,
            "expiredImmediately": {"items": expiring_now.items, "bytes": expiring_now.size},
            "etag": new.etag,
        }
        await account.stores.metadata.change([AuditEntry(int(now), new.rid, entry)])
    finally:
        account.pending_audit_counts.discard((new.rid, new.etag))


async def audit(
    account: Account, container: Container | None, after: int, limit: int
) -> list[dict[str, Any]]:
    """The lines of the log behind `after`, oldest first."""
    rid = None if container is None else container.rid
    return [
        {
            "line": line,
            "ts": note.ts,
            "containerRid": note.container,
            "container": _path_of(account, note.container),
            **_with_current_names(note.entry),
        }
        for line, note in await account.stores.metadata.audit_entries(rid, after, limit)
    ]


# Entries stored by earlier versions; the migration rewrites their keys.
_EARLIER_AUDIT_KEYS: Final = {"diedAtOnce": "expiredImmediately", "revived": "restored"}


def _with_current_names(entry: dict[str, Any]) -> dict[str, Any]:
    """An audit entry as earlier versions stored it, under the names that the API uses now."""
    renamed = {_EARLIER_AUDIT_KEYS.get(key, key): value for key, value in entry.items()}
    return renamed | ({"event": "counts"} if entry["event"] == "figures" else {})


def _path_of(account: Account, rid: str) -> str | None:
    """Of a container that is still there."""
    container = account.catalog.container_by_rid(rid)
    return None if container is None else container.path


# Undo, hold and guard settings


async def undo(
    account: Account, rid: str, caller: str, confirmation: str | None, now: float
) -> dict[str, Any]:
    """Goes back to the policy before the last change; who is still on disk lives again."""
    async with account.metadata_lock:
        container = account.catalog.container_by_rid(rid)
        if container is None:
            raise NotFound("The container is gone.")
        old = account.catalog.resource(rid)
        previous = policies.previous_policy(old.state)
        if previous is None:
            raise Conflict("There is no change of defaultTtl to undo.")
        await check_guard(account, container, previous.default_ttl, confirmation, now)
        earlier = account.cutoff_under(previous, now)
        restored_spans = _newly_expired_spans(earlier, account.cutoff(container, now))
        restored = await _expiry_count(account, container, restored_spans)
        expired_by_change: int = await policies.count_expired_by_change(account, container)
        purged = expired_by_change - old.state["previous"]["spared"]
        properties = {k: v for k, v in container.properties.items() if k != "defaultTtl"}
        if previous.default_ttl is not None:
            properties["defaultTtl"] = previous.default_ttl
        check_combination(properties)  # the index may be gone by now
        state = {k: v for k, v in old.state.items() if k != "previous"}
        state |= {
            "properties": properties,
            "deaths": [previous.final_inherited_cutoff, previous.final_own_cutoff],
            "dead_age": old.state["previous"].get("dead_age", container.age_at_final_expiry),
        }
        removable = policies.purge_cutoff(account, container, now)
        state |= policies.purge_hold_state(removable.common(earlier), now)
        etag = await account.new_etag(now)
        entry = {
            "event": "undo",
            "defaultTtl": {"old": container.policy.default_ttl, "new": previous.default_ttl},
            "caller": caller,
            "restored": {"items": restored.items, "bytes": restored.size},
            "alreadyPurged": purged,
        }
        resource = old._replace(etag=etag, ts=int(now), state=state)
        await account.change(
            [PutResource(resource, replaces=old.etag), AuditEntry(int(now), rid, entry)]
        )

    async def recount() -> int:
        current = account.catalog.container_by_rid(rid)
        return (
            expired_by_change
            if current is None
            else await policies.count_expired_by_change(account, current)
        )

    # Another front end may have removed some after they were counted; by now nobody does. What is
    # done is done, so if the metadata has changed once more only this is asked again.
    purged_meanwhile = await account.retry_if_stale(recount) - expired_by_change
    if purged_meanwhile:
        restored, purged = (
            await _expiry_count(account, container, restored_spans),
            purged + purged_meanwhile,
        )
    return {
        "container": container.path,
        "defaultTtl": previous.default_ttl,
        "restored": {"items": restored.items, "bytes": restored.size},
        "alreadyPurged": purged,
    }


async def configure(
    account: Account, rid: str, settings: dict[str, Any], caller: str, now: float
) -> Container:
    """Sets the container's purge hold and guard; what is not named stays."""
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
    async with account.metadata_lock:
        container = account.catalog.container_by_rid(rid)
        if container is None:
            raise NotFound("The container is gone.")
        old = account.catalog.resource(rid)
        resource = old._replace(state=old.state | state)
        note = AuditEntry(int(now), rid, {"event": "settings", "caller": caller, **settings})
        await account.change([PutResource(resource, replaces=old.etag), note])
        return account.catalog.container_for(resource)


# Status, forecast, explanation


async def status(account: Account, container: Container, now: float) -> dict[str, Any]:
    """The policy, who lives under it, and who waits to be removed."""
    cutoff = account.cutoff(container, now)
    policy = container.policy
    usage = await account.usage(container, cutoff)
    inheriting, own = await _live_by_ttl_source(account, container, cutoff)
    expiring = (ItemTotals(*inheriting[:2]) if _has_default_expiry(policy) else ItemTotals()) + (
        ItemTotals(*own[:2]) if policy.default_ttl is not None else ItemTotals()
    )
    live = ItemTotals(usage.items, usage.size)
    return {
        "container": container.path,
        "asOf": int(now),
        "defaultTtl": policy.default_ttl,
        "live": live._asdict(),
        "expiring": expiring._asdict(),
        "nonExpiring": ItemTotals(
            live.items - expiring.items, live.bytes - expiring.bytes
        )._asdict(),
        "pendingPurge": ItemTotals(usage.expired_items, usage.expired_size)._asdict(),
        "purgedTotal": usage.purged_items,
        "purgedBytes": usage.purged_size,
        "purgeLagSeconds": await _purge_lag(account, container, cutoff, int(now)),
        "nextExpiry": await _next_expiry(account, container, cutoff, int(now)),
        "purgeHoldSeconds": container.purge_hold.seconds,
        "guard": container.guard,
        "policyChanges": account.catalog.resource(container.rid).state.get("policy_changes", 0),
    }


async def forecast(
    account: Account, container: Container, width: int, count: int, now: float
) -> dict[str, Any]:
    """Who dies when, under the policy as it is: buckets from now on, and what is in none."""
    cutoff = account.cutoff(container, now)
    policy, start = container.policy, int(now)
    buckets = [ItemTotals()] * count
    later = ItemTotals()
    for span, shift in _expiring_spans(policy, cutoff, start):
        for key_range in container.ranges:
            near = narrow_span(span, upto=start + width * count - shift)
            counts = await account.stores.expiry.histogram(
                container, key_range.index, near, start - shift, width
            )
            for bucket, expiry_count in counts.items():
                buckets[bucket] += ItemTotals(*expiry_count)
            far = narrow_span(span, after=near.upto)
            later += ItemTotals(
                *(await account.stores.expiry.expiry_count(container, key_range.index, far))[:2]
            )
    state = await status(account, container, now)
    return {
        "container": container.path,
        "asOf": start,
        "bucketSeconds": width,
        "buckets": [
            {"from": start + i * width, "to": start + (i + 1) * width, **each._asdict()}
            for i, each in enumerate(buckets)
        ],
        "later": later._asdict(),
        "nonExpiring": state["nonExpiring"],
        "pendingPurge": state["pendingPurge"],
    }


async def explain(
    op: Operation, logical_partition: LogicalPartition, item_id: str, proposed: int | None = None
) -> dict[str, Any]:
    """Why an item lives or is dead, and when it ends; never its body.

    `proposed` asks what a `ttl` of that value would mean, written now.
    """
    row, _ = await op.stores.items.read(
        op.container, logical_partition.range_index, ItemKey(logical_partition.pk, item_id)
    )
    if row is None:
        raise item_not_found()
    policy, cutoff, now = op.container.policy, op.cutoff, op.ts
    is_live = ttl.is_live(row.ts, row.ttl, cutoff)
    expiry = ttl.expires_at(row.ts, row.ttl, policy) if is_live else _expired_at(op.container, row)
    answer = {
        **_item_summary(row),
        "asOf": now,
        "live": is_live,
        "rule": _ttl_rule(policy, row.ttl),
        "reason": _reason(policy, row, is_live),
        "expiresAt": expiry,
        "remainingSeconds": None if expiry is None or not is_live else expiry - now,
        "ttlSource": ttl_source(policy, row.ttl),
        "purgePosition": None if is_live else await _purge_position(op, logical_partition, row),
    }
    if proposed is not None:
        answer["proposed"] = {
            "ttl": proposed,
            "expiresAt": ttl.expires_at(now, proposed, policy),
        }
    return answer


def ttl_source(policy: Policy, item_ttl: int | None) -> str:
    """Who decides when the item ends: `item`, `container`, or `none` if it does not."""
    if policy.default_ttl is None:
        return "none"
    if item_ttl is not None:
        return "none" if item_ttl == NEVER else "item"
    return "none" if policy.default_ttl == NEVER else "container"


def _ttl_rule(policy: Policy, item_ttl: int | None) -> str:
    """The cell of the 3 x 3 matrix, by its number in the specification."""
    row = 0 if item_ttl is None else 1 if item_ttl == NEVER else 2
    column = 0 if policy.default_ttl is None else 1 if policy.default_ttl == NEVER else 2
    return f"T-{20 + 3 * row + column:03d}"


def _reason(policy: Policy, row: Row, is_live: bool) -> str:
    if is_live:
        return "alive under the current policy and every earlier one"
    if row.ttl is not None:
        if row.ts + row.ttl <= policy.final_own_cutoff:
            return "its own ttl ended before time to live was switched off"
        return "its own ttl has ended"
    if row.ts <= policy.final_inherited_cutoff:
        return "an earlier defaultTtl of the container has ended it"
    return "the container's defaultTtl has ended it"


async def _purge_position(op: Operation, logical_partition: LogicalPartition, row: Row) -> int:
    """How many are removed before it: the dead, whatever age the living have reached."""
    container, (inherited, own) = op.container, op.cutoff
    expiry_ages, expired_at = policies.expiry_ages(container), _expired_at(container, row)
    spans = (
        ExpirySpan(
            "inheriting",
            ttl.BEFORE_ANY_TS,
            min(inherited, expiry_ages.until, expired_at - expiry_ages.before - 1),
        ),
        ExpirySpan(
            "inheriting", expiry_ages.until, min(inherited, expired_at - expiry_ages.after - 1)
        ),
        ExpirySpan("own", ttl.BEFORE_ANY_TS, min(own, expired_at - 1)),
    )
    expiry_counts = [
        await op.stores.expiry.expiry_count(container, logical_partition.range_index, span)
        for span in spans
        if span.after < span.upto
    ]
    return sum(expiry_count.items for expiry_count in expiry_counts)


# Figures


def _has_default_expiry(policy: Policy) -> bool:
    return policy.default_ttl is not None and policy.default_ttl != NEVER


def _newly_expired_spans(before: Cutoff, after: Cutoff) -> tuple[ExpirySpan, ExpirySpan]:
    """What is dead behind `after` and was not behind `before`; empty spans where none is."""
    return (
        ExpirySpan("inheriting", before.inherited, max(before.inherited, after.inherited)),
        ExpirySpan("own", before.own, max(before.own, after.own)),
    )


def _later_cutoff(one: Cutoff, other: Cutoff) -> Cutoff:
    return Cutoff(max(one.inherited, other.inherited), max(one.own, other.own))


def narrow_span(
    span: ExpirySpan, *, after: int | None = None, upto: int | None = None
) -> ExpirySpan:
    return ExpirySpan(
        span.kind,
        span.after if after is None else max(after, span.after),
        span.upto if upto is None else max(upto, span.after),
    )


async def _expiry_count(
    account: Account, container: Container, spans: Iterable[ExpirySpan]
) -> ExpiryCount:
    counts = [
        await account.stores.expiry.expiry_count(container, key_range.index, span)
        for key_range in container.ranges
        for span in spans
        if span.after < span.upto
    ]
    return ExpiryCount(
        sum(expiry_count.items for expiry_count in counts),
        sum(expiry_count.size for expiry_count in counts),
        min((t.oldest for t in counts if t.oldest is not None), default=None),
        max((t.newest for t in counts if t.newest is not None), default=None),
        max((t.last for t in counts if t.last is not None), default=None),
    )


async def _live_by_ttl_source(
    account: Account, container: Container, cutoff: Cutoff
) -> tuple[ExpiryCount, ExpiryCount]:
    """The living without a ttl of their own, and those with one that ends."""
    return (
        await _expiry_count(
            account, container, (ExpirySpan("inheriting", cutoff.inherited, _LATEST),)
        ),
        await _expiry_count(account, container, (ExpirySpan("own", cutoff.own, _LATEST),)),
    )


async def _pending_purge(account: Account, container: Container, cutoff: Cutoff) -> ItemTotals:
    usage = await account.usage(container, cutoff)
    return ItemTotals(usage.expired_items, usage.expired_size)


def _expiring_spans(policy: Policy, cutoff: Cutoff, now: int) -> list[tuple[ExpirySpan, int]]:
    """The living that will end, with what is added to a base to get the second of its end."""
    if policy.default_ttl is None:
        return []
    spans = [(ExpirySpan("own", max(now, cutoff.own), _LATEST), 0)]
    if policy.default_ttl != NEVER:
        start = max(now - policy.default_ttl, cutoff.inherited)
        spans.append((ExpirySpan("inheriting", start, _LATEST), policy.default_ttl))
    return spans


async def _histogram(
    account: Account, container: Container, policy: Policy, cutoff: Cutoff, now: int
) -> list[dict[str, int]]:
    """When the living would end under `policy`, in a couple of dozen bars of a round width."""
    expiring_spans = _expiring_spans(policy, cutoff, now)
    last = now
    for span, shift in expiring_spans:
        expiry_count = await _expiry_count(account, container, (span,))
        last = max(last, now if expiry_count.last is None else expiry_count.last + shift)
    if last == now:
        return []
    width = next(
        (each for each in _BUCKET_WIDTHS if (last - now) / each <= _MOST_BUCKETS),
        _BUCKET_WIDTHS[-1],
    )
    buckets: dict[int, ItemTotals] = {}
    for span, shift in expiring_spans:
        for key_range in container.ranges:
            counts = await account.stores.expiry.histogram(
                container, key_range.index, span, now - shift, width
            )
            for bucket, bucket_tally in counts.items():
                buckets[bucket] = buckets.get(bucket, ItemTotals()) + ItemTotals(*bucket_tally)
    return [
        {
            "from": now + bucket * width,
            "to": now + (bucket + 1) * width,
            **buckets[bucket]._asdict(),
        }
        for bucket in sorted(buckets)
    ]


async def _purge_lag(account: Account, container: Container, cutoff: Cutoff, now: int) -> int:
    """For how long the oldest dead item has been waiting."""
    longest = 0
    for key_range in container.ranges:
        for span in _newly_expired_spans(Cutoff(ttl.BEFORE_ANY_TS, ttl.BEFORE_ANY_TS), cutoff):
            for row in await account.stores.expiry.sample(container, key_range.index, span, 1):
                longest = max(longest, now - _expired_at(container, row))
    return longest


def _expired_at(container: Container, row: Row) -> int:
    """When a dead item had reached its age; removal goes by the same."""
    return row.ts + (policies.expiry_ages(container).of(row.ts) if row.ttl is None else row.ttl)


async def _next_expiry(
    account: Account, container: Container, cutoff: Cutoff, now: int
) -> int | None:
    expiry: list[int] = []
    for span, shift in _expiring_spans(container.policy, cutoff, now):
        for key_range in container.ranges:
            expiry += [
                (row.ts if row.ttl is None else row.ts + row.ttl) + shift
                for row in await account.stores.expiry.sample(container, key_range.index, span, 1)
            ]
    return min(expiry, default=None)


def _item_summary(row: Row) -> dict[str, Any]:
    key: list[Any] = [
        {} if component is partition.ABSENT else component
        for component in partition.from_canonical(row.pk)
    ]
    return {"id": row.id, "partitionKey": key, "_ts": row.ts, "ttl": row.ttl}
