"""Who may do what: master-key signatures, constant-time, with the service's 401 and 403."""

from __future__ import annotations

import base64
import binascii
import hmac
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from perseid import clock
from perseid.config import Settings
from perseid.errors import Forbidden, Unauthorized
from perseid.http.request import Request

LARGEST_SKEW: Final = 15 * 60

_MISSING: Final = (
    "Required Header authorization is missing. Ensure a valid Authorization token is passed."
)
_REFUSED: Final = (
    "The input authorization token can't serve the request. The wrong key is being used or the"
    " expected payload is not built as per the protocol. For more info:"
    " https://aka.ms/cosmosdb-tsg-unauthorized. Server used the following payload to sign: '{}'"
)
_DATE: Final = (
    "The authorization token is not valid at the current time. The request is dated '{}'; the"
    " server's time is '{}', and 15 minutes of difference are allowed."
)
_READ_ONLY: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " The key used can only read."
)


class Key(NamedTuple):
    secret: bytes
    is_read_only: bool


class Guard:
    """Checks that a request is signed with one of the account's keys."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.no_auth
        self._keys = tuple(
            Key(decode_key(text), is_read_only)
            for text, is_read_only in (
                (settings.key, False),
                (settings.secondary_key, False),
                (settings.read_only_key, True),
                (settings.secondary_read_only_key, True),
            )
            if text
        )

    def check(self, request: Request, kind: str, link: str, *, is_read: bool) -> None:
        """401 unless the signature fits `kind` and `link`; 403 if its key may only read."""
        if self._is_open:
            return
        header = request.header("authorization")
        if not header:
            raise Unauthorized(_MISSING)
        date = request.header("x-ms-date")
        first = f"{request.method.lower()}\n{kind}\n"
        last = f"{date.lower()}\n\n" if date else f"\n{(request.header('date') or '').lower()}\n"
        given = _signature(header)
        # A link made of rids is signed as its last rid in lower case.
        for candidate in (link, link.rpartition("/")[2].lower()):
            payload = f"{first}{candidate}\n{last}".encode()
            for secret, is_read_only in self._keys:
                if hmac.compare_digest(hmac.digest(secret, payload, "sha256"), given):
                    _check_date(date or request.header("date"))
                    if is_read_only and not is_read:
                        raise Forbidden(_READ_ONLY)
                    return
        shown = f"{first}{link}\n{last}".replace("\n", "\\n")
        raise Unauthorized(_REFUSED.format(shown))


def decode_key(text: str) -> bytes:
    """The bytes of a base64 key; ValueError if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise ValueError("a key must be base64") from exc


def _signature(header: str) -> bytes:
    """The signature in `type=master&ver=1.0&sig=…`, percent-encoded or not; b"" if none."""
    plain = unquote(header) if "%" in header else header
    kind, _, rest = plain.partition("&")
    if kind != "type=master":
        return b""
    version, _, signature = rest.partition("&sig=")
    if version != "ver=1.0":
        # Clients write the three fields in this order; others may not.
        fields = dict(parse_qsl(plain.replace("+", "%2B")))
        signature = fields.get("sig", "")
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _check_date(text: str | None) -> None:
    stamp = _parse_date(text) if text else None
    now = clock.wall()
    if stamp is None or abs(now - stamp) > LARGEST_SKEW:
        shown = datetime.fromtimestamp(now, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        raise Unauthorized(_DATE.format(text, shown))


@lru_cache(maxsize=256)
def _parse_date(text: str) -> float | None:
    """Seconds since the epoch of an RFC 1123 date; cached, since a second has many requests."""
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
