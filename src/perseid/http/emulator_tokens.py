"""Tokens of Entra as emulators accept them: what a client library issues to itself for tests.

Such a token has the form of a JWT, but in place of a signature it carries a key of the account. So
it is the key, and its claims are not signed: it may be used where the key itself could be
sent, and never appears in a log or an error.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from hmac import compare_digest
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import orjson

from perseid import clock
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import Unauthorized

_CLOCK_TOLERANCE: Final = 300  # seconds that the clock of a client may be ahead
_LONGEST: Final = 16 * 1024
_UNSAFE: Final = (
    "The input authorization token can't serve the request. Tokens of Microsoft Entra ID are"
    " accepted over HTTPS, or by a server on a loopback address: they contain a key of the account."
)
_NOT_ACCEPTED: Final = (
    "The input authorization token can't serve the request. A token of Microsoft Entra ID must be"
    " one that clients issue for emulators, with a key of this account in place of its signature."
)
_WELL_KNOWN: Final = (
    "The input authorization token can't serve the request. Tokens with the well-known key are"
    " accepted by a server on a loopback address only: start it with a --key of its own."
)
_TIME: Final = (
    "The authorization token is not valid at the current time: its claims nbf and exp must be"
    " Unix times before and after the time of the server, {}."
)


def token_in(header: str) -> str | None:
    """The token of `type=aad&ver=1.0&sig=…`, percent-encoded or not; None of another header."""
    plain = unquote(header) if "%" in header else header
    fields = dict(parse_qsl(plain.replace("+", "%2B"), keep_blank_values=True))
    is_token = fields.get("type") == "aad" and fields.get("ver") == "1.0"
    return fields.get("sig") if is_token else None


class EmulatorTokens:
    """Finds the key that a token carries."""

    def __init__(self, settings: Settings, keys: Sequence[str]) -> None:
        self._keys = [text.encode() for text in keys]
        self._is_loopback = settings.is_loopback

    def key_index(self, token: str, scheme: str) -> int:
        """Which of the keys the token carries; 401 if none, or if it is not valid now.

        `scheme` is what the listener speaks: a header could be from anyone.
        """
        if scheme != "https" and not self._is_loopback:
            raise Unauthorized(_UNSAFE)
        header, claims, secret = _parts(token)
        matching = [i for i, key in enumerate(self._keys) if compare_digest(key, secret)]
        if not matching or not isinstance(header, dict) or not isinstance(claims, dict):
            raise Unauthorized(_NOT_ACCEPTED)
        if secret == WELL_KNOWN_KEY.encode() and not self._is_loopback:
            raise Unauthorized(_WELL_KNOWN)
        # Clients issue tokens by their own clock, so a test clock that was moved does not matter.
        now = clock.wall()
        starts_at, expires_at = _time(claims.get("nbf", now)), _time(claims.get("exp"))
        if starts_at is None or expires_at is None:
            raise Unauthorized(_TIME.format(int(now)))
        if not starts_at - _CLOCK_TOLERANCE <= now < expires_at:
            raise Unauthorized(_TIME.format(int(now)))
        return matching[0]


def _parts(token: str) -> tuple[Any, Any, bytes]:
    """Header and claims as JSON, and the key; 401 if the token does not have that form."""
    try:
        if len(token) > _LONGEST:
            raise ValueError
        header, claims, secret = map(_decode, token.split("."))
        return orjson.loads(header), orjson.loads(claims), secret
    except ValueError:  # also of base64 and of JSON
        raise Unauthorized(_NOT_ACCEPTED) from None


def _decode(text: str) -> bytes:
    """The bytes of base64url without padding."""
    padded = text + "=" * (-len(text) % 4)
    if "=" in text:
        raise binascii.Error
    return base64.b64decode(padded, altchars=b"-_", validate=True)


def _time(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None
