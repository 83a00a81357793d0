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
from perseid.service import policies, tokens
from perseid.service.account import Account
from perseid.service.definitions import check_agreement
from perseid.service.operation import Operation
from perseid.service.transactions import Place, not_found
from perseid.store.protocol import Note, PutResource, Span, Tally
from perseid.ttl import NEVER, Horizon, Policy

WIDTHS: Final = {
    "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "year": 31_536_000,
}  # fmt: skip
# Widths a histogram may choose from when nobody named one.
_NICE: Final = (1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000)
_BARS: Final = 24
_SAMPLES: Final = 10
_LATEST: Final = 2**62
LARGEST_FORECAST: Final = 1000


class Count(NamedTuple):
    items: int = 0
    bytes: int = 0

    def __add__(self, other: object) -> Count:
        if not isinstance(other, tuple):
            return NotImplemented
        return Count(self.items + other[0], self.bytes + other[1])


# Preview and guard


async def preview(
    account: Account, container: Container, default_ttl: int | None, now: float
) -> dict[str, Any]:
    """What a change of `defaultTtl` would do at this moment; changes nothing."""
    old, new = container.policy, container.policy.changed(default_ttl, int(now))
    before = account.horizon(container, now)
    after = new.horizon(int(now), revive_unpurged=account.settings.revive_unpurged)
    dying = await _tally(account, container, _between(before, after))
    backlog = await _backlog(account, container, before)
    inheriting, own = await _living(account, container, _later(before, after))
    mortal = immortal = 0
    for alive, is_mortal, was_mortal in (
        (inheriting, _inherits_end(new), _inherits_end(old)),
        (own, new.default_ttl is not None, old.default_ttl is not None),
    ):
        mortal += alive.items if is_mortal and not was_mortal else 0
        immortal += alive.items if was_mortal and not is_mortal else 0
    samples = [
        _shown(row)
        for part in container.ranges
        for span in _between(before, after)
        for row in await account.store.sample(container, part.index, span, _SAMPLES)
    ]
    return {
        "asOf": int(now),
        "container": container.path,
        "defaultTtl": old.default_ttl,
        "proposedDefaultTtl": default_ttl,
        "diesNow": {
            "items": dying.items,
            "bytes": dying.size,
            "oldestTs": dying.oldest,
            "newestTs": dying.newest,
        },
        "becomesMortal": mortal,
        "becomesImmortal": immortal,
        "backlog": backlog._asdict(),
        "invalidTtl": await account.store.invalid_ttls(container, before),
        "sample": samples[:_SAMPLES],
        "histogram": await _histogram(account, container, new, _later(before, after), int(now)),
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
    seen = await preview(account, container, default_ttl, now)
    dying = seen["diesNow"]["items"]
    living = await account.usage(container, account.horizon(container, now))
    if dying > parse_guard(limit, living.items):
        raise PreconditionFailed(
            f"The change of defaultTtl would end {dying} items at once; the guard allows {limit}."
            " Send the confirmationToken of the preview in the header x-perseid-confirm to do it.",
            details={"preview": seen},
        )


def parse_guard(text: str, living: int) -> float:
    """How many items may die at once: a number of items, or a percentage of the living."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if match is None:
        raise BadRequest(
            f"A guard is a number of items or a percentage, like 500 or 10%; not '{text}'."
        )
    return float(match[1]) * living / 100 if match[2] else float(match[1])


def _confirmation(container: Container, default_ttl: int | None) -> dict[str, Any]:
    """A confirmation holds for this change of this version of the container, and no other."""
    return {"f": "ttl", "c": container.rid, "e": container.etag, "d": default_ttl}


# The audit log


def count_later(account: Account, old: Container, new: Container, caller: str, now: float) -> None:
    """Counts what a policy change has killed after it was answered, for the audit log.

    The change itself must not cost more on a large container, and it does not wait for this.
    """
    account.uncounted.add((new.rid, new.etag))
    task = asyncio.create_task(_count(account, old, new, caller, now))
    account.background.add(task)
    task.add_done_callback(account.background.discard)


async def _count(account: Account, old: Container, new: Container, caller: str, now: float) -> None:
    try:
        before, after = account.horizon(old, now), account.horizon(new, now)
        dying = await _tally(account, new, _between(before, after))
        entry = {
            "event": "figures",
            "defaultTtl": {"old": old.policy.default_ttl, "new": new.policy.default_ttl},
            "caller": caller,
            "diedAtOnce": {"items": dying.items, "bytes": dying.size},
            "etag": new.etag,
        }
        await account.store.change([Note(int(now), new.rid, entry)])
    finally:
        account.uncounted.discard((new.rid, new.etag))


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
            **note.entry,
        }
        for line, note in await account.store.notes(rid, after, limit)
    ]


def _path_of(account: Account, rid: str) -> str | None:
    """Of a container that is still there."""
    container = account.catalog.container_by_rid(rid)
    return None if container is None else container.path


# Undo, hold and guard settings


async def undo(
    account: Account, rid: str, caller: str, confirmation: str | None, now: float
) -> dict[str, Any]:
    """Goes back to the policy before the last change; who is still on disk lives again."""
    async with account.metadata:
        container = account.catalog.container_by_rid(rid)
        if container is None:
            raise NotFound("The container is gone.")
        old = account.catalog.resource(rid)
        previous = policies.previous_policy(old.state)
        if previous is None:
            raise Conflict("There is no change of defaultTtl to undo.")
        await check_guard(account, container, previous.default_ttl, confirmation, now)
        earlier = account.horizon_of(previous, now)
        revived = _between(earlier, account.horizon(container, now))
        back = await _tally(account, container, revived)
        spared: int = await policies.count_spared(account, container)
        purged = spared - old.state["previous"]["spared"]
        properties = {k: v for k, v in container.properties.items() if k != "defaultTtl"}
        if previous.default_ttl is not None:
            properties["defaultTtl"] = previous.default_ttl
        check_agreement(properties)  # the index may be gone by now
        state = {k: v for k, v in old.state.items() if k != "previous"}
        state |= {
            "properties": properties,
            "deaths": [previous.inherited_dead, previous.own_dead],
            "dead_age": old.state["previous"].get("dead_age", container.dead_age),
        }
        removable = policies.purge_horizon(account, container, now)
        state |= policies.held_state(removable.common(earlier), now)
        etag = await account.new_etag(now)
        entry = {
            "event": "undo",
            "defaultTtl": {"old": container.policy.default_ttl, "new": previous.default_ttl},
            "caller": caller,
            "revived": {"items": back.items, "bytes": back.size},
            "alreadyPurged": purged,
        }
        resource = old._replace(etag=etag, ts=int(now), state=state)
        await account.change([PutResource(resource, replaces=old.etag), Note(int(now), rid, entry)])

    async def recount() -> int:
        current = account.catalog.container_by_rid(rid)
        return spared if current is None else await policies.count_spared(account, current)

    # Another front end may have removed some after they were counted; by now nobody does. What is
    # done is done, so if the metadata has changed once more only this is asked again.
    late = await account.on_current(recount) - spared
    if late:
        back, purged = await _tally(account, container, revived), purged + late
    return {
        "container": container.path,
        "defaultTtl": previous.default_ttl,
        "revived": {"items": back.items, "bytes": back.size},
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
    async with account.metadata:
        container = account.catalog.container_by_rid(rid)
        if container is None:
            raise NotFound("The container is gone.")
        old = account.catalog.resource(rid)
        resource = old._replace(state=old.state | state)
        note = Note(int(now), rid, {"event": "settings", "caller": caller, **settings})
        await account.change([PutResource(resource, replaces=old.etag), note])
        return account.catalog.built(resource)


# Status, forecast, explanation


async def status(account: Account, container: Container, now: float) -> dict[str, Any]:
    """The policy, who lives under it, and who waits to be removed."""
    horizon = account.horizon(container, now)
    policy = container.policy
    usage = await account.usage(container, horizon)
    inheriting, own = await _living(account, container, horizon)
    mortal = (Count(*inheriting[:2]) if _inherits_end(policy) else Count()) + (
        Count(*own[:2]) if policy.default_ttl is not None else Count()
    )
    living = Count(usage.items, usage.size)
    return {
        "container": container.path,
        "asOf": int(now),
        "defaultTtl": policy.default_ttl,
        "live": living._asdict(),
        "mortal": mortal._asdict(),
        "immortal": Count(living.items - mortal.items, living.bytes - mortal.bytes)._asdict(),
        "backlog": Count(usage.dead_items, usage.dead_size)._asdict(),
        "purgedTotal": usage.purged_items,
        "purgedBytes": usage.purged_size,
        "purgeLagSeconds": await _lag(account, container, horizon, int(now)),
        "nextExpiry": await _next_expiry(account, container, horizon, int(now)),
        "purgeHoldSeconds": container.hold.seconds,
        "guard": container.guard,
        "policyChanges": account.catalog.resource(container.rid).state.get("policy_changes", 0),
    }


async def forecast(
    account: Account, container: Container, width: int, count: int, now: float
) -> dict[str, Any]:
    """Who dies when, under the policy as it is: buckets from now on, and what is in none."""
    horizon = account.horizon(container, now)
    policy, start = container.policy, int(now)
    buckets = [Count()] * count
    later = Count()
    for span, shift in _endings(policy, horizon, start):
        for part in container.ranges:
            near = replace_span(span, upto=start + width * count - shift)
            found = await account.store.histogram(container, part.index, near, start - shift, width)
            for bucket, tally in found.items():
                buckets[bucket] += Count(*tally)
            far = replace_span(span, after=near.upto)
            later += Count(*(await account.store.tally(container, part.index, far))[:2])
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
        "immortal": state["immortal"],
        "backlog": state["backlog"],
    }


async def explain(
    op: Operation, place: Place, item_id: str, proposed: int | None = None
) -> dict[str, Any]:
    """Why an item lives or is dead, and when it ends; never its body.

    `proposed` asks what a `ttl` of that value would mean, written now.
    """
    row, _ = await op.store.read(op.container, place.range_index, ItemKey(place.pk, item_id))
    if row is None:
        raise not_found()
    policy, horizon, now = op.container.policy, op.horizon, op.ts
    is_live = ttl.is_live(row.ts, row.ttl, horizon)
    ends = ttl.expires_at(row.ts, row.ttl, policy) if is_live else _died_at(op.container, row)
    answer = {
        **_shown(row),
        "asOf": now,
        "live": is_live,
        "rule": _matrix_cell(policy, row.ttl),
        "because": _clause(policy, row, is_live),
        "expiresAt": ends,
        "remainingSeconds": None if ends is None or not is_live else ends - now,
        "origin": origin(policy, row.ttl),
        "purgePlace": None if is_live else await _purge_place(op, place, row),
    }
    if proposed is not None:
        answer["proposed"] = {
            "ttl": proposed,
            "expiresAt": ttl.expires_at(now, proposed, policy),
        }
    return answer


def origin(policy: Policy, item_ttl: int | None) -> str:
    """Who decides when the item ends: `item`, `container`, or `none` if it does not."""
    if policy.default_ttl is None:
        return "none"
    if item_ttl is not None:
        return "none" if item_ttl == NEVER else "item"
    return "none" if policy.default_ttl == NEVER else "container"


def _matrix_cell(policy: Policy, item_ttl: int | None) -> str:
    """The cell of the 3 x 3 matrix, by its number in the specification."""
    row = 0 if item_ttl is None else 1 if item_ttl == NEVER else 2
    column = 0 if policy.default_ttl is None else 1 if policy.default_ttl == NEVER else 2
    return f"T-{20 + 3 * row + column:03d}"


def _clause(policy: Policy, row: Row, is_live: bool) -> str:
    if is_live:
        return "alive under the current policy and every earlier one"
    if row.ttl is not None:
        if row.ts + row.ttl <= policy.own_dead:
            return "its own ttl ended before time to live was switched off"
        return "its own ttl has ended"
    if row.ts <= policy.inherited_dead:
        return "an earlier defaultTtl of the container has ended it"
    return "the container's defaultTtl has ended it"


async def _purge_place(op: Operation, place: Place, row: Row) -> int:
    """How many are removed before it: the dead, whatever age the living have reached."""
    container, (inherited, own) = op.container, op.horizon
    ages, ended = policies.ages(container), _died_at(container, row)
    spans = (
        Span("inheriting", ttl.DAWN, min(inherited, ages.until, ended - ages.before - 1)),
        Span("inheriting", ages.until, min(inherited, ended - ages.after - 1)),
        Span("own", ttl.DAWN, min(own, ended - 1)),
    )
    tallies = [
        await op.store.tally(container, place.range_index, span)
        for span in spans
        if span.after < span.upto
    ]
    return sum(tally.items for tally in tallies)


# Figures


def _inherits_end(policy: Policy) -> bool:
    return policy.default_ttl is not None and policy.default_ttl != NEVER


def _between(before: Horizon, after: Horizon) -> tuple[Span, Span]:
    """What is dead behind `after` and was not behind `before`; empty spans where none is."""
    return (
        Span("inheriting", before.inherited, max(before.inherited, after.inherited)),
        Span("own", before.own, max(before.own, after.own)),
    )


def _later(one: Horizon, other: Horizon) -> Horizon:
    return Horizon(max(one.inherited, other.inherited), max(one.own, other.own))


def replace_span(span: Span, *, after: int | None = None, upto: int | None = None) -> Span:
    return Span(
        span.kind,
        span.after if after is None else max(after, span.after),
        span.upto if upto is None else max(upto, span.after),
    )


async def _tally(account: Account, container: Container, spans: Iterable[Span]) -> Tally:
    found = [
        await account.store.tally(container, part.index, span)
        for part in container.ranges
        for span in spans
        if span.after < span.upto
    ]
    return Tally(
        sum(tally.items for tally in found),
        sum(tally.size for tally in found),
        min((t.oldest for t in found if t.oldest is not None), default=None),
        max((t.newest for t in found if t.newest is not None), default=None),
        max((t.last for t in found if t.last is not None), default=None),
    )


async def _living(account: Account, container: Container, horizon: Horizon) -> tuple[Tally, Tally]:
    """The living without a ttl of their own, and those with one that ends."""
    return (
        await _tally(account, container, (Span("inheriting", horizon.inherited, _LATEST),)),
        await _tally(account, container, (Span("own", horizon.own, _LATEST),)),
    )


async def _backlog(account: Account, container: Container, horizon: Horizon) -> Count:
    usage = await account.usage(container, horizon)
    return Count(usage.dead_items, usage.dead_size)


def _endings(policy: Policy, horizon: Horizon, now: int) -> list[tuple[Span, int]]:
    """The living that will end, with what is added to a base to get the second of its end."""
    if policy.default_ttl is None:
        return []
    spans = [(Span("own", max(now, horizon.own), _LATEST), 0)]
    if policy.default_ttl != NEVER:
        start = max(now - policy.default_ttl, horizon.inherited)
        spans.append((Span("inheriting", start, _LATEST), policy.default_ttl))
    return spans


async def _histogram(
    account: Account, container: Container, policy: Policy, horizon: Horizon, now: int
) -> list[dict[str, int]]:
    """When the living would end under `policy`, in a couple of dozen bars of a round width."""
    endings = _endings(policy, horizon, now)
    last = now
    for span, shift in endings:
        tally = await _tally(account, container, (span,))
        last = max(last, now if tally.last is None else tally.last + shift)
    if last == now:
        return []
    width = next((each for each in _NICE if (last - now) / each <= _BARS), _NICE[-1])
    bars: dict[int, Count] = {}
    for span, shift in endings:
        for part in container.ranges:
            found = await account.store.histogram(container, part.index, span, now - shift, width)
            for bucket, tally_ in found.items():
                bars[bucket] = bars.get(bucket, Count()) + Count(*tally_)
    return [
        {"from": now + bar * width, "to": now + (bar + 1) * width, **bars[bar]._asdict()}
        for bar in sorted(bars)
    ]


async def _lag(account: Account, container: Container, horizon: Horizon, now: int) -> int:
    """For how long the oldest dead item has been waiting."""
    longest = 0
    for part in container.ranges:
        for span in _between(Horizon(ttl.DAWN, ttl.DAWN), horizon):
            for row in await account.store.sample(container, part.index, span, 1):
                longest = max(longest, now - _died_at(container, row))
    return longest


def _died_at(container: Container, row: Row) -> int:
    """When a dead item had reached its age; removal goes by the same."""
    return row.ts + (policies.ages(container).of(row.ts) if row.ttl is None else row.ttl)


async def _next_expiry(
    account: Account, container: Container, horizon: Horizon, now: int
) -> int | None:
    ends: list[int] = []
    for span, shift in _endings(container.policy, horizon, now):
        for part in container.ranges:
            ends += [
                (row.ts if row.ttl is None else row.ts + row.ttl) + shift
                for row in await account.store.sample(container, part.index, span, 1)
            ]
    return min(ends, default=None)


def _shown(row: Row) -> dict[str, Any]:
    key: list[Any] = [
        {} if component is partition.ABSENT else component
        for component in partition.from_canonical(row.pk)
    ]
    return {"id": row.id, "partitionKey": key, "_ts": row.ts, "ttl": row.ttl}
