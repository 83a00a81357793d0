"""What the admin handlers share: their context, and reading bodies and query options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qs

from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.request import Exchange, Request, Response
from perseid.model import Container
from perseid.service.account import Account
from perseid.service.lifetimes.sweeper import Sweeper


@dataclass(frozen=True, slots=True)
class AdminContext:
    """What admin handlers work on: the account and its sweeper."""

    account: Account
    sweeper: Sweeper


AdminHandler: TypeAlias = Callable[[AdminContext, Request, Exchange], Awaitable[Response]]


def container_of(context: AdminContext, exchange: Exchange) -> Container:
    """The container that the path names."""
    return context.account.catalog.container(exchange.names[0], exchange.names[1])


def json_response(body: dict[str, Any]) -> Response:
    return Response(200, [], wire.encode(body))


def body_number(body: dict[str, Any], name: str) -> float:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(f'The body must be {{"{name}": number}}.')
    return value


def query_options(request: Request, **defaults: str) -> dict[str, str]:
    """The options of the query string; 400 for a name that has no default."""
    given = parse_qs(request.query_string, keep_blank_values=True)
    unknown = set(given) - set(defaults)
    if unknown:
        raise BadRequest(f"Unknown option '{min(unknown)}'; known: {', '.join(defaults)}.")
    return defaults | {name: values[-1] for name, values in given.items()}


def integer_option(options: dict[str, str], name: str, most: int, least: int = 1) -> int:
    text = options[name]
    # The length is checked first: Python refuses to parse thousands of digits.
    is_number = text.isascii() and text.isdigit() and len(text.lstrip("0")) <= len(str(most))
    number = int(text.lstrip("0") or "0") if is_number else -1
    if not least <= number <= most:
        raise BadRequest(f"{name} is a whole number from {least} to {most}; not '{text[:100]}'.")
    return number
