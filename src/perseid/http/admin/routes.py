"""The routes that Perseid adds to those of the service, under /_perseid/.

docs/admin.md lists every row of the table.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from perseid.clock import MovableClock
from perseid.errors import MethodNotAllowed, NotFound
from perseid.http.admin import clock, lifetimes, process, sweeper
from perseid.http.admin.context import AdminContext, AdminHandler
from perseid.http.admin.explain_query import explain_query
from perseid.http.admin.imports import import_items
from perseid.http.request import Exchange, Request

PREFIX: Final = "/_perseid/"

# Path below the prefix, `*` for a name -> method -> handler.
ROUTES: Final[dict[str, dict[str, AdminHandler]]] = {
    "health": {"GET": process.health},
    "ready": {"GET": process.ready},
    "certificate.pem": {"GET": process.certificate},
    "clock": {"GET": clock.read_clock},
    "clock/freeze": {"POST": clock.freeze_clock},
    "clock/resume": {"POST": clock.resume_clock},
    "clock/advance": {"POST": clock.advance_clock},
    "clock/set": {"POST": clock.set_clock},
    "explain": {"POST": explain_query},
    "ttl/drain": {"POST": lifetimes.drain_all},
    "ttl/audit": {"GET": lifetimes.audit_all},
    "ttl/*/*": {"GET": lifetimes.read_lifetimes, "PUT": lifetimes.configure},
    "ttl/*/*/preview": {"POST": lifetimes.preview},
    "ttl/*/*/forecast": {"GET": lifetimes.forecast},
    "ttl/*/*/expiring": {"GET": lifetimes.expiring},
    "ttl/*/*/explain": {"POST": lifetimes.explain},
    "ttl/*/*/undo": {"POST": lifetimes.undo},
    "ttl/*/*/drain": {"POST": lifetimes.drain},
    "ttl/*/*/audit": {"GET": lifetimes.audit},
    "import/*/*": {"POST": import_items},
    "sweeper": {"GET": sweeper.read_sweeper},
    "sweeper/pause": {"POST": sweeper.pause_sweeper},
    "sweeper/resume": {"POST": sweeper.resume_sweeper},
    "sweeper/pace": {"POST": sweeper.pace_sweeper},
    "sweeper/confirm-clock": {"POST": sweeper.confirm_clock},
    "sweeper/reject-clock": {"POST": sweeper.reject_clock},
    "metrics": {"GET": process.read_metrics},
    "metrics.json": {"GET": process.read_metrics_json},
}
UNSIGNED_ROUTES: Final = frozenset(("certificate.pem", "health", "ready"))  # need no signature
READ_ONLY_ROUTES: Final = frozenset(("clock",))  # a read-only key suffices
_CONTAINER_ROUTES: Final = frozenset(("import", "ttl"))  # followed by the names of a container
_CLOCK_ROUTES: Final = frozenset(("clock/freeze", "clock/resume", "clock/advance", "clock/set"))


class AdminRoute(NamedTuple):
    """The handler of a request, and which keys may call it."""

    handler: AdminHandler
    is_open: bool
    is_read: bool


def route(context: AdminContext, request: Request, exchange: Exchange) -> AdminRoute:
    """Finds the handler; sets the names in the path on the exchange."""
    parts = request.path[len(PREFIX) :].rstrip("/").split("/")
    if parts[0] in _CONTAINER_ROUTES and len(parts) >= 3:
        exchange.names = parts[1:3]
        parts[1:3] = "*", "*"
    name = "/".join(parts)
    methods = ROUTES.get(name)
    is_hidden = name in _CLOCK_ROUTES and not isinstance(context.account.clock, MovableClock)
    if methods is None or is_hidden:
        raise NotFound(f"There is no administration route '{request.path[:200]}'.")
    handler = methods.get(request.method)
    if handler is None:
        raise MethodNotAllowed(
            f"'{request.path[:200]}' does not take {request.method[:32]};"
            f" it takes {', '.join(methods)}."
        )
    return AdminRoute(handler, name in UNSIGNED_ROUTES, name in READ_ONLY_ROUTES)
