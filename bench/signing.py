"""Builds signed requests as bytes; opens no socket."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from perseid.config import WELL_KNOWN_KEY

_SECRET = hmac.new(base64.b64decode(WELL_KNOWN_KEY), digestmod=hashlib.sha256)


class Request(NamedTuple):
    """The bytes of a request; if there is a tail, a fresh id goes between head and tail."""

    head: bytes
    tail: bytes = b""


class Target(NamedTuple):
    """Where requests go and when they were signed; a signature is valid for fifteen minutes."""

    port: int
    date: str

    def request(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        extra: int = 0,
    ) -> bytes:
        """One request. `path` consists of plain names; `extra` bytes will be added to the body."""
        lines = [
            f"{verb} {path} HTTP/1.1",
            f"host: 127.0.0.1:{self.port}",
            "accept: application/json",
            "x-ms-version: 2020-07-15",
            f"x-ms-date: {self.date}",
            f"authorization: {sign(verb, path, self.date)}",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(body) + extra}"]
        return "\r\n".join((*lines, "", "")).encode() + (body or b"")


def sign(verb: str, path: str, date: str) -> str:
    """The authorization header of a request for a path of names."""
    parts = path.strip("/").split("/")
    is_feed = len(parts) % 2 == 1
    kind, link = (parts[-1], parts[:-1]) if is_feed else (parts[-2], parts)
    keyed = _SECRET.copy()
    keyed.update(f"{verb.lower()}\n{kind}\n{'/'.join(link)}\n{date.lower()}\n\n".encode())
    signature = base64.b64encode(keyed.digest()).decode()
    return quote(f"type=master&ver=1.0&sig={signature}", safe="")
