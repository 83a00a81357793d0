"""Admin route that imports items."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.admin.context import AdminContext, container_of, integer_option, query_options
from perseid.http.headers import SESSION_TOKEN, is_relaxed
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import session_token
from perseid.service.items import imports
from perseid.service.operation import begin, retry_if_stale


async def import_items(context: AdminContext, request: Request, exchange: Exchange) -> Response:
    """?existing=replace&lifetimes=restart&age=0: stores JSON lines, each by itself."""
    options = _import_options(request, is_lenient=is_relaxed(request, context.account.settings))
    container = container_of(context, exchange)
    import_result = await imports.import_items(
        context.account, container, request.body, options, request.now
    )
    # The items are stored: if the metadata changed meanwhile, only this read is repeated.
    op = begin(context.account, container, request.now)
    lsns = await retry_if_stale(op, lambda op: op.account.lsns(op.container))
    token = session_token(container, lsns)
    return Response(200, [(SESSION_TOKEN, token)], wire.encode(asdict(import_result)))


def _import_options(request: Request, *, is_lenient: bool) -> imports.ImportOptions:
    options = query_options(request, existing="replace", lifetimes="restart", age="0")
    for name, choices in (
        ("existing", imports.EXISTING_MODES),
        ("lifetimes", imports.LIFETIME_MODES),
    ):
        if options[name] not in choices:
            raise BadRequest(f"{name} is one of {', '.join(choices)}; not '{options[name]}'.")
    import_options = imports.ImportOptions(
        existing=cast(imports.ExistingMode, options["existing"]),
        lifetimes=cast(imports.LifetimeMode, options["lifetimes"]),
        age=integer_option(options, "age", 2**40, least=0),
        is_lenient=is_lenient,
    )
    if import_options.age and import_options.lifetimes == "keep":
        raise BadRequest("Items either keep the lifetimes they bring or get an age; not both.")
    return import_options
