"""Plain connections to a server."""

from __future__ import annotations

import http.client
from email.utils import formatdate
from typing import Any, NamedTuple

from perseid.config import WELL_KNOWN_KEY
from tests.support.raw import sign, signed_for

OTHER_KEY = "c29tZSBvdGhlciBrZXk="


def signature(method: str, path: str) -> dict[str, str]:
    kind, link = signed_for(path)
    date = formatdate(usegmt=True)
    return {"x-ms-date": date, "authorization": sign(WELL_KNOWN_KEY, method, kind, link, date)}


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
