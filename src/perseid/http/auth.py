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
    " server's time is '{}', and 15 minutes of difference are allowed. It was signed as '{}'."
)
_READ_ONLY: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " The key used can only read."
)


class Key(NamedTuple):
    """A key of the account, ready to sign: copying a started HMAC spares hashing the key again,
    and short updates keep the interpreter's lock, which a one-shot digest would give away."""

    name: str
    started: hmac.HMAC
    is_read_only: bool

    def sign(self, payload: bytes) -> bytes:
        signing = self.started.copy()
        signing.update(payload)
        return signing.digest()


class Guard:
    """Checks that a request is signed with one of the account's keys."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.no_auth
        self._keys = tuple(
            Key(name, hmac.new(decode_key(text), None, "sha256"), is_read_only)
            for name, text, is_read_only in (
                ("primary", settings.key, False),
                ("secondary", settings.secondary_key, False),
                ("read-only", settings.read_only_key, True),
                ("secondary read-only", settings.secondary_read_only_key, True),
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
            for key in self._keys:
                if hmac.compare_digest(key.sign(payload), given):
                    _check_date(date or request.header("date"), f"{first}{link}\n{last}")
                    if key.is_read_only and not is_read:
                        raise Forbidden(_READ_ONLY)
                    request.caller = key.name
                    return
        shown = f"{first}{link}\n{last}".replace("\n", "\\n")
        raise Unauthorized(_REFUSED.format(shown))


def decode_key(text: str) -> bytes:
    """The bytes of a base64 key; ValueError if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as exc:
        raise ValueError("a key must be base64") from exc


_ENCODED: Final = "type%3Dmaster%26ver%3D1.0%26sig%3D"


def _signature(header: str) -> bytes:
    """The signature in `type=master&ver=1.0&sig=…`, percent-encoded or not; b"" if none."""
    if header.startswith(_ENCODED):  # as both official clients write it
        text = header[len(_ENCODED) :]
        text = text.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=")
    else:
        plain = unquote(header) if "%" in header else header
        fields = dict(parse_qsl(plain.replace("+", "%2B")))
        if fields.get("type") != "master" or fields.get("ver") != "1.0":
            return b""
        text = fields.get("sig", "")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _check_date(text: str | None, signed: str) -> None:
    stamp = _parse_date(text) if text else None
    now = clock.wall()
    if stamp is None or abs(now - stamp) > LARGEST_SKEW:
        shown = datetime.fromtimestamp(now, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        raise Unauthorized(_DATE.format(text, shown, signed.replace("\n", "\\n")))


@lru_cache(maxsize=256)
def _parse_date(text: str) -> float | None:
    """Seconds since the epoch of an RFC 1123 date; cached, since a second has many requests."""
    try:
        date = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
