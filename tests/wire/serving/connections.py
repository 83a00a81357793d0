"""Plain connections to a server."""

from __future__ import annotations

import http.client
from typing import Any, NamedTuple

from tests.support.raw import signature

OTHER_KEY = "c29tZSBvdGhlciBrZXkgdGhhdCBpcyBsb25nIGVub3VnaCBmb3Igc3RyYW5nZXJz"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> Answer:
    sent = signature(method, path) | (headers or {})
    connection.request(method, path, body, sent, **options)
    response = connection.getresponse()
    return Answer(
        response.status,
        {name.lower(): value for name, value in response.getheaders()},
        response.read(),
    )
