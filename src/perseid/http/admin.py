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
from perseid.http.headers import CONFIRM, SESSION_TOKEN
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import session_token
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.items import imports, point_operations
from perseid.service.items.scope import search_container
from perseid.service.lifetimes import metrics as account_metrics
from perseid.service.lifetimes.audit import audit_entries
from perseid.service.lifetimes.forecast import BUCKET_SECONDS, MOST_BUCKETS
from perseid.service.lifetimes.forecast import forecast as forecast_expiry
from perseid.service.lifetimes.item_explanation import explain_item
from perseid.service.lifetimes.preview import preview as preview_change
from perseid.service.lifetimes.settings import configure as configure_container
from perseid.service.lifetimes.status import status
from perseid.service.lifetimes.sweeper import Sweeper
from perseid.service.lifetimes.undo import undo as undo_change
from perseid.service.operation import begin, retry_if_stale
from perseid.service.queries import explanation, query_requests
from perseid.service.throughput import enforcement

PREFIX: Final = "/_perseid/"
_EXPLAINED_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class AdminContext:
    """What administrators can reach: the account and its sweeper."""

    account: Account
    sweeper: Sweeper


AdminHandler = Callable[[AdminContext, Request, Exchange], Awaitable[Response]]


async def health(_context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """The process answers."""
    return _json_response({"status": "ok", "version": __version__})


async def ready(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """The data can be read."""
    await context.account.check_store()
    return _json_response({"status": "ready", "version": __version__})


async def certificate(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """The certificate to trust, when the server speaks HTTPS."""
    path = context.account.settings.cert
    if path is None:
        raise NotFound("This server speaks plain HTTP; there is no certificate.")
    return Response(200, [], path.read_bytes(), "application/x-pem-file")


# The clock


async def read_clock(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    clock = context.account.clock
    body: dict[str, Any] = {
        "now": clock.now(),
        "movable": isinstance(clock, MovableClock),
        "heldUntil": clock.held_until(),
    }
    if isinstance(clock, MovableClock):
        body["frozen"] = clock.is_frozen
    return _json_response(body)


async def freeze_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Time stands still."""
    return await _change_clock(context, request, exchange, MovableClock.freeze)


async def resume_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Time runs on from where it stands."""
    return await _change_clock(context, request, exchange, MovableClock.resume)


async def advance_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"seconds": n}: time moves forward."""
    seconds = _number(parse_object(request.body), "seconds")
    return await _change_clock(context, request, exchange, lambda clock: clock.advance(seconds))


async def set_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"to": epoch seconds}: time moves forward to that instant."""
    instant = _number(parse_object(request.body), "to")
    return await _change_clock(context, request, exchange, lambda clock: clock.set(instant))


async def _change_clock(
    context: AdminContext,
    request: Request,
    exchange: Exchange,
    change: Callable[[MovableClock], float],
) -> Response:
    """Moves the clock, of all front ends at once."""
    account, clock = context.account, _require_movable_clock(context)
    async with account.metadata_lock:
        trial = clock.trial()
        try:
            change(trial)
        except ValueError as exc:
            raise BadRequest(f"The clock was not moved: {exc}.") from None
        await account.publish_clock(trial.setting)
        clock.adopt(trial.setting)
    return await _clock_changed(context, request, exchange)


def _require_movable_clock(context: AdminContext) -> MovableClock:
    clock = context.account.clock
    if not isinstance(clock, MovableClock):
        raise NotFound("The clock of this server cannot be moved; start it with --test-clock.")
    return clock


async def _clock_changed(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """The new time is durable before anyone is told, so that a restart does not go back."""
    await context.account.persist_clock(context.account.clock.now(), ahead=0)
    context.sweeper.wake()
    return await read_clock(context, request, exchange)


# Lifetimes of one container


async def read_lifetimes(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """The policy, how many live under it, how many wait to be removed."""
    body = await status(context.account, _container(context, exchange), request.now)
    return _json_response(body)


async def preview(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"defaultTtl": n, -1 or null}: what that change would do now."""
    body = parse_object(request.body)
    if "defaultTtl" not in body:
        raise BadRequest('A preview needs {"defaultTtl": seconds, -1 or null}.')
    default_ttl = ttl.check_default_ttl(body["defaultTtl"])
    container = _container(context, exchange)
    return _json_response(
        await preview_change(context.account, container, default_ttl, request.now)
    )


async def forecast(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?bucket=hour&count=24: who dies when, under the policy as it is."""
    options = _query_options(request, bucket="hour", count="24")
    width = BUCKET_SECONDS.get(options["bucket"])
    if width is None:
        raise BadRequest(f"bucket is one of {', '.join(BUCKET_SECONDS)}.")
    count = _integer_option(options, "count", MOST_BUCKETS)
    container = _container(context, exchange)
    body = await forecast_expiry(context.account, container, width, count, request.now)
    seconds = context.sweeper.drain_seconds(body["pendingPurge"]["items"])
    return _json_response(body | {"drainSeconds": seconds})


async def explain(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"id": …, "partitionKey": […], "ttl": optional}: why an item lives or not, and until when."""
    body = parse_object(request.body)
    container = _container(context, exchange)
    if not isinstance(body.get("id"), str) or not isinstance(body.get("partitionKey"), list):
        raise BadRequest('An explanation needs {"id": "…", "partitionKey": […]}.')
    logical_partition = point_operations.logical_partition_of(
        container, wire.encode(body["partitionKey"]).decode()
    )
    proposed = ttl.check_item_ttl(body["ttl"]) if "ttl" in body else None
    op = begin(context.account, container, request.now)
    return _json_response(await explain_item(op, logical_partition, body["id"], proposed))


async def undo(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Reverts the last change of defaultTtl."""
    rid = _container(context, exchange).rid
    confirmation = request.header(CONFIRM)
    return _json_response(
        await undo_change(context.account, rid, exchange.caller, confirmation, request.now)
    )


async def configure(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"purgeHoldSeconds": n, "guard": "500" or "10%" or null}"""
    rid = _container(context, exchange).rid
    settings = parse_object(request.body)
    changed = await configure_container(
        context.account, rid, settings, exchange.caller, request.now
    )
    return _json_response(await status(context.account, changed, request.now))


async def drain(context: AdminContext, _request: Request, exchange: Exchange) -> Response:
    """Removes everything dead now and says how much that was."""
    container = _container(context, exchange) if exchange.names else None
    counts = await context.sweeper.drain(container)
    return _json_response({"purged": sum(counts.values()), "containers": counts})


async def audit(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?after=line&limit=100: the log of policy changes."""
    options = _query_options(request, after="0", limit="100")
    container = _container(context, exchange) if exchange.names else None
    after = _integer_option(options, "after", 2**62, least=0)
    limit = _integer_option(options, "limit", 10_000)
    return _json_response(
        {"entries": await audit_entries(context.account, container, after, limit)}
    )


# Queries


async def explain_query(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    """{"database", "container", "query", "parameters", "partitionKey"}: how it would run."""
    body = parse_object(request.body)
    names = [body.get("database"), body.get("container")]
    if not all(isinstance(name, str) for name in names):
        raise BadRequest('An explanation needs {"database": "…", "container": "…", "query": "…"}.')
    container = context.account.catalog.container(*map(str, names))
    op = begin(context.account, container, request.now)
    encoded_query = wire.encode({**body, "parameters": body.get("parameters")})
    query = query_requests.parse_request(encoded_query)
    key = body.get("partitionKey")
    if key is not None:
        key = wire.encode(key if isinstance(key, list) else [key]).decode()
    scope = search_container(op, key)
    return _json_response(await explanation.explain(op, query, scope, _EXPLAINED_ROWS))


# Items in numbers


async def import_items(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?existing=replace&lifetimes=restart&age=0: JSON lines, each stored or refused by itself."""
    options = _query_options(request, existing="replace", lifetimes="restart", age="0")
    for name, choices in (
        ("existing", imports.EXISTING_MODES),
        ("lifetimes", imports.LIFETIME_MODES),
    ):
        if options[name] not in choices:
            raise BadRequest(f"{name} is one of {', '.join(choices)}; not '{options[name]}'.")
    import_options = imports.ImportOptions(
        existing=cast(imports.ExistingMode, options["existing"]),
        lifetimes=cast(imports.LifetimeMode, options["lifetimes"]),
        age=_integer_option(options, "age", 2**40, least=0),
    )
    if import_options.age and import_options.lifetimes == "keep":
        raise BadRequest("Items either keep the lifetimes they bring or get an age; not both.")
    container = _container(context, exchange)
    lines = request.body.split(b"\n")
    import_result = await imports.import_items(
        context.account, container, lines, import_options, request.now
    )
    # What is stored stays, whatever has become of the container meanwhile: nothing is done again.
    op = begin(context.account, container, request.now)
    lsns = await retry_if_stale(op, lambda op: op.account.lsns(op.container))
    token = session_token(container, lsns)  # of its ranges, which never change
    return Response(200, [(SESSION_TOKEN, token)], wire.encode(asdict(import_result)))


# The sweeper and the figures


async def read_sweeper(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    sweeper, account = context.sweeper, context.account
    usages = [
        await account.usage(container, ttl.NOTHING_EXPIRED)
        for container in account.catalog.containers()
    ]
    return _json_response(
        {
            "paused": sweeper.is_paused,
            "alarm": sweeper.alarm,
            "pace": account.settings.sweep_pace if sweeper.pace is None else sweeper.pace,
            "purgedItems": sum(usage.purged_items for usage in usages),
            "purgedBytes": sum(usage.purged_size for usage in usages),
            "purgeCharge": round(sum(sweeper.charges.values()), 2),
            "exhaustedSeconds": enforcement.exhausted_seconds_total(account, request.now),
        }
    )


async def pause_sweeper(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """Stops removing; reads are not affected."""
    context.sweeper.pause()
    return await read_sweeper(context, request, exchange)


async def resume_sweeper(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    context.sweeper.resume()
    return await read_sweeper(context, request, exchange)


async def pace_sweeper(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """{"pace": share of the time, above 0 and at most 1}"""
    pace = _number(parse_object(request.body), "pace")
    if not 0 < pace <= 1:
        raise BadRequest("pace is a share of the time: above 0 and at most 1.")
    context.sweeper.pace = pace
    return await read_sweeper(context, request, exchange)


async def confirm_clock(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """The leap of the system's clock was meant: go on removing."""
    await context.sweeper.confirm_clock()
    return await read_sweeper(context, request, exchange)


async def read_metrics(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    """Prometheus text."""
    figures = await account_metrics.collect(context.account, context.sweeper, request.now)
    text = metrics.exposition(figures)
    return Response(200, [], text, "text/plain; version=0.0.4; charset=utf-8")


async def read_metrics_json(
    context: AdminContext, request: Request, _exchange: Exchange
) -> Response:
    return _json_response(
        await account_metrics.collect(context.account, context.sweeper, request.now)
    )


# Path below the prefix, `*` for a name -> method -> handler.
ROUTES: Final[dict[str, dict[str, AdminHandler]]] = {
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
UNSIGNED_ROUTES: Final = frozenset(("certificate.pem", "health", "ready"))  # need no signature
READ_ONLY_ROUTES: Final = frozenset(("clock",))  # a key that can only read will do
_CONTAINER_ROUTES: Final = frozenset(("import", "ttl"))  # followed by the names of one
_CLOCK_ROUTES: Final = frozenset(("clock/freeze", "clock/resume", "clock/advance", "clock/set"))


class AdminRoute(NamedTuple):
    """Who answers a request, and who may make it."""

    handler: AdminHandler
    is_open: bool
    is_read: bool


def route(context: AdminContext, request: Request, exchange: Exchange) -> AdminRoute:
    """Finds the handler; sets the names in the path on the exchange."""
    parts = request.path[len(PREFIX) :].rstrip("/").split("/")
    name = "/".join(parts)
    if name not in ROUTES and parts[0] in _CONTAINER_ROUTES and len(parts) >= 3:
        exchange.names = parts[1:3]
        name = "/".join([parts[0], "*", "*", *parts[3:]])
    methods = ROUTES.get(name)
    is_hidden = name in _CLOCK_ROUTES and not isinstance(context.account.clock, MovableClock)
    if methods is None or is_hidden:
        raise NotFound(f"There is no administration route '{request.path[:200]}'.")
    handler = methods.get(request.method)
    if handler is None:
        raise MethodNotAllowed(
            f"'{request.path[:200]}' does not take {request.method}; it takes {', '.join(methods)}."
        )
    return AdminRoute(handler, name in UNSIGNED_ROUTES, name in READ_ONLY_ROUTES)


def _container(context: AdminContext, exchange: Exchange) -> Container:
    return context.account.catalog.container(exchange.names[0], exchange.names[1])


def _json_response(body: dict[str, Any]) -> Response:
    return Response(200, [], wire.encode(body))


def _number(body: dict[str, Any], name: str) -> float:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f'The body must be {{"{name}": number}}.')
    return value


def _query_options(request: Request, **defaults: str) -> dict[str, str]:
    given = parse_qs(request.query_string, keep_blank_values=True)
    unknown = set(given) - set(defaults)
    if unknown:
        raise BadRequest(f"Unknown option '{min(unknown)}'; known: {', '.join(defaults)}.")
    return defaults | {name: values[-1] for name, values in given.items()}


def _integer_option(options: dict[str, str], name: str, most: int, least: int = 1) -> int:
    text = options[name]
    # Told by its length first: Python refuses to read thousands of digits.
    is_number = text.isascii() and text.isdigit() and len(text.lstrip("0")) <= len(str(most))
    number = int(text.lstrip("0") or "0") if is_number else -1
    if not least <= number <= most:
        raise BadRequest(f"{name} is a whole number from {least} to {most}; not '{text[:100]}'.")
    return number
