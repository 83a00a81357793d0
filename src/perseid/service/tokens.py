"""Continuation tokens: a position, signed, so that only what this server gave out comes back.

They survive a restart, because the secret lives with the data.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Any, Final

import orjson

from perseid.errors import BadRequest

_MAC_BYTES: Final = 9


def seal(secret: bytes, position: dict[str, Any]) -> str:
    """Header-safe text that holds `position`."""
    payload = orjson.dumps(position)
    mac = hmac.digest(secret, payload, "sha256")[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + payload).decode()


def unseal(secret: bytes, token: str, **expected: Any) -> dict[str, Any]:
    """The position in a token; 400 if it was not made here or not for what `expected` says."""
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not payload or not hmac.compare_digest(
        hmac.digest(secret, payload, "sha256")[:_MAC_BYTES], mac
    ):
        raise BadRequest("The continuation token is malformed; send back the one you were given.")
    position: dict[str, Any] = orjson.loads(payload)
    for name, value in expected.items():
        if position.get(name) != value:
            raise BadRequest("The continuation token belongs to another request.")
    return position
