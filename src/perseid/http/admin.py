"""What Perseid adds beside the service's own URL space, under /_perseid/.

The table at the end is the documentation's source: docs/admin.md lists each of its rows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, cast
from urllib.parse import parse_qs

from perseid import __version__, ttl
from perseid.clock import MovableClock
from perseid.documents import parse_object
from perseid.errors import BadRequest, MethodNotAllowed, NotFound
from perseid.http import metrics, wire
from perseid.http.headers import SESSION_TOKEN
from perseid.http.request import Request, Response
from perseid.http.responses import session_token
from perseid.model import Container
from perseid.service import explaining, imports, items, lifetimes, query_requests, throughput
from perseid.service.account import Account
from perseid.service.operation import begin, on_current
from perseid.service.sweeper import Sweeper
from perseid.store.protocol import Scan

PREFIX: Final = "/_perseid/"
_EXPLAINED_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class Office:
    """What administrators can reach: the account and its sweeper."""

    account: Account
    sweeper: Sweeper


Handler = Callable[[Office, Request], Awaitable[Response]]


async def health(_office: Office, _request: Request) -> Response:
    """The process answers."""
    return _answer({"status": "ok", "version": __version__})


async def ready(office: Office, _request: Request) -> Response:
    """The data can be read."""
    await office.account.store.get_meta("token_secret")
    return _answer({"status": "ready", "version": __version__})


async def certificate(office: Office, _request: Request) -> Response:
    """The certificate to trust, when the server speaks HTTPS."""
    path = office.account.settings.cert
    if path is None:
        raise NotFound("This server speaks plain HTTP; there is no certificate.")
    return Response(200, [], path.read_bytes(), "application/x-pem-file")


# The clock


async def read_clock(office: Office, _request: Request) -> Response:
    clock = office.account.clock
    body: dict[str, Any] = {
        "now": clock.now(),
        "movable": isinstance(clock, MovableClock),
        "heldUntil": clock.held_until(),
    }
    if isinstance(clock, MovableClock):
        body["frozen"] = clock.is_frozen
    return _answer(body)


async def freeze_clock(office: Office, request: Request) -> Response:
    """Time stands still."""
    return await _move(office, request, MovableClock.freeze)


async def resume_clock(office: Office, request: Request) -> Response:
    """Time runs on from where it stands."""
    return await _move(office, request, MovableClock.resume)


async def advance_clock(office: Office, request: Request) -> Response:
    """{"seconds": n}: time moves forward."""
    seconds = _number(parse_object(request.body), "seconds")
    return await _move(office, request, lambda clock: clock.advance(seconds))


async def set_clock(office: Office, request: Request) -> Response:
    """{"to": epoch seconds}: time moves forward to that instant."""
    instant = _number(parse_object(request.body), "to")
    return await _move(office, request, lambda clock: clock.set(instant))


async def _move(office: Office, request: Request, how: Callable[[MovableClock], float]) -> Response:
    """Moves the clock, of all front ends at once."""
    account, clock = office.account, _movable(office)
    async with account.metadata:
        trial = clock.trial()
        try:
            how(trial)
        except ValueError as exc:
            raise BadRequest(f"The clock was not moved: {exc}.") from None
        await account.store.share_clock(trial.setting)
        clock.adopt(trial.setting)
    return await _moved(office, request)


def _movable(office: Office) -> MovableClock:
    clock = office.account.clock
    if not isinstance(clock, MovableClock):
        raise NotFound("The clock of this server cannot be moved; start it with --test-clock.")
    return clock


async def _moved(office: Office, request: Request) -> Response:
    """The new time is durable before anyone is told, so that a restart does not go back."""
    await office.account.reach(office.account.clock.now(), ahead=0)
    office.sweeper.wake()
    return await read_clock(office, request)


# Lifetimes of one container


async def read_lifetimes(office: Office, request: Request) -> Response:
    """The policy, how many live under it, how many wait to be removed."""
    body = await lifetimes.status(office.account, _container(office, request), request.now)
    return _answer(body)


async def preview(office: Office, request: Request) -> Response:
    """{"defaultTtl": n, -1 or null}: what that change would do now."""
    asked = parse_object(request.body)
    if "defaultTtl" not in asked:
        raise BadRequest('A preview needs {"defaultTtl": seconds, -1 or null}.')
    default_ttl = ttl.check_default_ttl(asked["defaultTtl"])
    container = _container(office, request)
    return _answer(await lifetimes.preview(office.account, container, default_ttl, request.now))


async def forecast(office: Office, request: Request) -> Response:
    """?bucket=hour&count=24: who dies when, under the policy as it is."""
    options = _options(request, bucket="hour", count="24")
    width = lifetimes.WIDTHS.get(options["bucket"])
    if width is None:
        raise BadRequest(f"bucket is one of {', '.join(lifetimes.WIDTHS)}.")
    count = _positive(options, "count", lifetimes.LARGEST_FORECAST)
    container = _container(office, request)
    body = await lifetimes.forecast(office.account, container, width, count, request.now)
    seconds = office.sweeper.drain_seconds(body["backlog"]["items"])
    return _answer(body | {"drainSeconds": seconds})


async def explain(office: Office, request: Request) -> Response:
    """{"id": …, "partitionKey": […], "ttl": optional}: why an item lives or not, and until when."""
    asked = parse_object(request.body)
    container = _container(office, request)
    if not isinstance(asked.get("id"), str) or not isinstance(asked.get("partitionKey"), list):
        raise BadRequest('An explanation needs {"id": "…", "partitionKey": […]}.')
    place = items.place_of(container, wire.encode(asked["partitionKey"]).decode())
    proposed = ttl.check_item_ttl(asked["ttl"]) if "ttl" in asked else None
    op = begin(office.account, container, request.now)
    return _answer(await lifetimes.explain(op, place, asked["id"], proposed))


async def undo(office: Office, request: Request) -> Response:
    """Reverts the last change of defaultTtl."""
    rid = _container(office, request).rid
    confirmation = request.header("x-perseid-confirm")
    return _answer(
        await lifetimes.undo(office.account, rid, request.caller, confirmation, request.now)
    )


async def configure(office: Office, request: Request) -> Response:
    """{"purgeHoldSeconds": n, "guard": "500" or "10%" or null}"""
    rid = _container(office, request).rid
    settings = parse_object(request.body)
    changed = await lifetimes.configure(office.account, rid, settings, request.caller, request.now)
    return _answer(await lifetimes.status(office.account, changed, request.now))


async def drain(office: Office, request: Request) -> Response:
    """Removes everything dead now and says how much that was."""
    container = _container(office, request) if request.names else None
    counts = await office.sweeper.drain(container)
    return _answer({"purged": sum(counts.values()), "containers": counts})


async def audit(office: Office, request: Request) -> Response:
    """?after=line&limit=100: the log of policy changes."""
    options = _options(request, after="0", limit="100")
    container = _container(office, request) if request.names else None
    after = _positive(options, "after", 2**62, least=0)
    limit = _positive(options, "limit", 10_000)
    return _answer({"entries": await lifetimes.audit(office.account, container, after, limit)})


# Queries


async def explain_query(office: Office, request: Request) -> Response:
    """{"database", "container", "query", "parameters", "partitionKey"}: how it would run."""
    asked = parse_object(request.body)
    names = [asked.get("database"), asked.get("container")]
    if not all(isinstance(name, str) for name in names):
        raise BadRequest('An explanation needs {"database": "…", "container": "…", "query": "…"}.')
    container = office.account.catalog.container(*map(str, names))
    op = begin(office.account, container, request.now)
    sent = wire.encode({**asked, "parameters": asked.get("parameters")})
    query = query_requests.parse_request(sent)
    scope = Scan(horizon=op.horizon)
    if asked.get("partitionKey") is not None:
        key = asked["partitionKey"]
        header = wire.encode(key if isinstance(key, list) else [key]).decode()
        place = items.place_of(container, header)
        scope = scope._replace(pk_prefix=place.pk, range_index=place.range_index)
    return _answer(await explaining.explain(op, query, scope, _EXPLAINED_ROWS))


# Items in numbers


async def import_items(office: Office, request: Request) -> Response:
    """?existing=replace&lifetimes=restart&age=0: JSON lines, each stored or refused by itself."""
    options = _options(request, existing="replace", lifetimes="restart", age="0")
    for name, choices in (("existing", imports.EXISTING), ("lifetimes", imports.LIFETIMES)):
        if options[name] not in choices:
            raise BadRequest(f"{name} is one of {', '.join(choices)}; not '{options[name]}'.")
    manner = imports.Manner(
        existing=cast(imports.Existing, options["existing"]),
        lifetimes=cast(imports.Lifetimes, options["lifetimes"]),
        age=_positive(options, "age", 2**40, least=0),
    )
    if manner.age and manner.lifetimes == "keep":
        raise BadRequest("Items either keep the lifetimes they bring or get an age; not both.")
    container = _container(office, request)
    lines = request.body.split(b"\n")
    tally = await imports.store(office.account, container, lines, manner, request.now)
    # What is stored stays, whatever has become of the container meanwhile: nothing is done again.
    op = begin(office.account, container, request.now)
    lsns = await on_current(op, lambda op: op.store.lsns(op.container))
    token = session_token(container, lsns)  # of its ranges, which never change
    return Response(200, [(SESSION_TOKEN, token)], wire.encode(asdict(tally)))


# The sweeper and the figures


async def read_sweeper(office: Office, request: Request) -> Response:
    sweeper, account = office.sweeper, office.account
    usages = [
        await account.usage(container, ttl.EVERYTHING_LIVES)
        for container in account.catalog.containers()
    ]
    return _answer(
        {
            "paused": sweeper.is_paused,
            "alarm": sweeper.alarm,
            "pace": account.settings.sweep_pace if sweeper.pace is None else sweeper.pace,
            "purgedItems": sum(usage.purged_items for usage in usages),
            "purgedBytes": sum(usage.purged_size for usage in usages),
            "purgeCharge": round(sum(sweeper.charges.values()), 2),
            "secondsWithoutLeftover": throughput.seconds_without_leftover(account, request.now),
        }
    )


async def pause_sweeper(office: Office, request: Request) -> Response:
    """Stops removing; reads are not affected."""
    office.sweeper.pause()
    return await read_sweeper(office, request)


async def resume_sweeper(office: Office, request: Request) -> Response:
    office.sweeper.resume()
    return await read_sweeper(office, request)


async def pace_sweeper(office: Office, request: Request) -> Response:
    """{"pace": share of the time, above 0 and at most 1}"""
    pace = _number(parse_object(request.body), "pace")
    if not 0 < pace <= 1:
        raise BadRequest("pace is a share of the time: above 0 and at most 1.")
    office.sweeper.pace = pace
    return await read_sweeper(office, request)


async def confirm_clock(office: Office, request: Request) -> Response:
    """The leap of the system's clock was meant: go on removing."""
    await office.sweeper.confirm_clock()
    return await read_sweeper(office, request)


async def read_metrics(office: Office, request: Request) -> Response:
    """Prometheus text."""
    figures = await metrics.collect(office.account, office.sweeper, request.now)
    text = metrics.exposition(figures)
    return Response(200, [], text, "text/plain; version=0.0.4; charset=utf-8")


async def read_metrics_json(office: Office, request: Request) -> Response:
    return _answer(await metrics.collect(office.account, office.sweeper, request.now))


# Path below the prefix, `*` for a name -> method -> handler.
ROUTES: Final[dict[str, dict[str, Handler]]] = {
    "health": {"GET": health},
    "ready": {"GET": ready},
    "certificate.pem": {"GET": certificate},
    "clock": {"GET": read_clock},
    "clock/freeze": {"POST": freeze_clock},
    "clock/resume": {"POST": resume_clock},
    "clock/advance": {"POST": advance_clock},
    "clock/set": {"POST": set_clock},
    "explain": {"POST": explain_query},
    "ttl/drain": {"POST": drain},
    "ttl/audit": {"GET": audit},
    "ttl/*/*": {"GET": read_lifetimes, "PUT": configure},
    "ttl/*/*/preview": {"POST": preview},
    "ttl/*/*/forecast": {"GET": forecast},
    "ttl/*/*/explain": {"POST": explain},
    "ttl/*/*/undo": {"POST": undo},
    "ttl/*/*/drain": {"POST": drain},
    "ttl/*/*/audit": {"GET": audit},
    "import/*/*": {"POST": import_items},
    "sweeper": {"GET": read_sweeper},
    "sweeper/pause": {"POST": pause_sweeper},
    "sweeper/resume": {"POST": resume_sweeper},
    "sweeper/pace": {"POST": pace_sweeper},
    "sweeper/confirm-clock": {"POST": confirm_clock},
    "metrics": {"GET": read_metrics},
    "metrics.json": {"GET": read_metrics_json},
}
OPEN: Final = frozenset(("certificate.pem", "health", "ready"))  # need no signature
READS: Final = frozenset(("clock",))  # a key that can only read will do
_ABOUT_CONTAINERS: Final = frozenset(("import", "ttl"))  # followed by the names of one
_CLOCK_MOVES: Final = frozenset(("clock/freeze", "clock/resume", "clock/advance", "clock/set"))


class Found(NamedTuple):
    """Who answers a request, and who may make it."""

    handler: Handler
    is_open: bool
    is_read: bool


def route(office: Office, request: Request) -> Found:
    """Finds who answers; sets the names in the path."""
    parts = request.path[len(PREFIX) :].rstrip("/").split("/")
    name = "/".join(parts)
    if name not in ROUTES and parts[0] in _ABOUT_CONTAINERS and len(parts) >= 3:
        request.names = parts[1:3]
        name = "/".join([parts[0], "*", "*", *parts[3:]])
    methods = ROUTES.get(name)
    is_hidden = name in _CLOCK_MOVES and not isinstance(office.account.clock, MovableClock)
    if methods is None or is_hidden:
        raise NotFound(f"There is no administration route '{request.path[:200]}'.")
    handler = methods.get(request.method)
    if handler is None:
        raise MethodNotAllowed(
            f"'{request.path[:200]}' does not take {request.method}; it takes {', '.join(methods)}."
        )
    return Found(handler, name in OPEN, name in READS)


def _container(office: Office, request: Request) -> Container:
    return office.account.catalog.container(request.names[0], request.names[1])


def _answer(body: dict[str, Any]) -> Response:
    return Response(200, [], wire.encode(body))


def _number(body: dict[str, Any], name: str) -> float:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f'The body must be {{"{name}": number}}.')
    return value


def _options(request: Request, **defaults: str) -> dict[str, str]:
    given = parse_qs(request.query_string, keep_blank_values=True)
    unknown = set(given) - set(defaults)
    if unknown:
        raise BadRequest(f"Unknown option '{min(unknown)}'; known: {', '.join(defaults)}.")
    return defaults | {name: values[-1] for name, values in given.items()}


def _positive(options: dict[str, str], name: str, most: int, least: int = 1) -> int:
    text = options[name]
    # Told by its length first: Python refuses to read thousands of digits.
    is_number = text.isascii() and text.isdigit() and len(text.lstrip("0")) <= len(str(most))
    number = int(text.lstrip("0") or "0") if is_number else -1
    if not least <= number <= most:
        raise BadRequest(f"{name} is a whole number from {least} to {most}; not '{text[:100]}'.")
    return number
