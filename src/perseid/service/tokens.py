"""Continuation tokens: a position with a signature, so that clients cannot make one up.

They survive a restart, because the secret is stored with the data.
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
    """The token for `position`; it contains only characters that a header allows."""
    payload = orjson.dumps(position)
    mac = hmac.digest(secret, payload, "sha256")[:_MAC_BYTES]
    return base64.urlsafe_b64encode(mac + payload).decode()


def invalid_token(reason: str) -> BadRequest:
    """400 with the words that clients search for."""
    return BadRequest(f"Invalid Continuation Token. {reason}")


def unseal(secret: bytes, token: str, **expected: Any) -> dict[str, Any]:
    """The position in a token; 400 if the signature or one of the `expected` members differs."""
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not payload or not hmac.compare_digest(
        hmac.digest(secret, payload, "sha256")[:_MAC_BYTES], mac
    ):
        raise invalid_token("The continuation token is malformed; send it back unchanged.")
    position: dict[str, Any] = orjson.loads(payload)
    for name, value in expected.items():
        if position.get(name) != value:
            raise invalid_token("The continuation token belongs to another request.")
    return position
