"""Admin routes of the server process: health, certificate, metrics."""

from __future__ import annotations

from perseid import __version__
from perseid.http.admin.context import AdminContext, json_response
from perseid.http.certificate_file import certificate_response
from perseid.http.metrics import exposition
from perseid.http.request import Exchange, Request, Response
from perseid.service.lifetimes.metrics import collect


async def health(_context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """200 while the process is running."""
    return json_response({"status": "ok", "version": __version__})


async def ready(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """200 while the data can be read."""
    await context.account.check_store()
    return json_response({"status": "ready", "version": __version__})


async def certificate(context: AdminContext, _request: Request, _exchange: Exchange) -> Response:
    """The certificate that clients have to trust, if the server uses HTTPS."""
    return certificate_response(context.account)


async def read_metrics(context: AdminContext, request: Request, _exchange: Exchange) -> Response:
    """The metrics as Prometheus text."""
    text = exposition(await collect(context.account, context.sweeper, request.now))
    return Response(200, [], text, "text/plain; version=0.0.4; charset=utf-8")


async def read_metrics_json(
    context: AdminContext, request: Request, _exchange: Exchange
) -> Response:
    return json_response(await collect(context.account, context.sweeper, request.now))
