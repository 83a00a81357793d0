"""Signatures with a key of the account, and the service's 401 and 403 about them."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from perseid import clock
from perseid.config import Settings
from perseid.errors import Forbidden, Unauthorized
from perseid.http.emulator_tokens import EmulatorTokens, token_in
from perseid.http.headers import (
    AUTHORIZATION,
    DATE,
    SIGNED_DATE,
    parse_date,
)
from perseid.http.request import Exchange, Request
from perseid.limits import MAX_CLOCK_SKEW
from perseid.service import grants

_MISSING: Final = (
    "Required Header authorization is missing. Ensure a valid Authorization token is passed."
)
_WRONG_SIGNATURE: Final = (
    "The input authorization token can't serve the request. The wrong key is being used or the"
    " expected payload is not built as per the protocol. For more info:"
    " https://aka.ms/cosmosdb-tsg-unauthorized. Server used the following payload to sign: '{}'"
)
_DATE: Final = (
    "The authorization token is not valid at the current time. The request is dated '{}'; the"
    " server's time is '{}', and 15 minutes of difference are allowed. It was signed as '{}'."
)
_READ_ONLY_KEY: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " The key used can only read."
)
_LONGEST_PAYLOAD: Final = 2000  # characters of a signed text in an error
_BLOCK: Final = 64  # bytes of one block of SHA-256


class AccountKey:
    """A key of the account, prepared for signing.

    HMAC is two hashes that both start with the key. Copying the two started hashes avoids hashing
    the key again; `hmac` takes twice as long, or releases the interpreter lock.
    """

    __slots__ = ("_inner", "_outer", "is_read_only", "name")

    def __init__(self, name: str, key: bytes, is_read_only: bool) -> None:
        self.name = name
        self.is_read_only = is_read_only
        key = (sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in key))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in key))

    def sign(self, payload: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(payload)
        outer.update(inner.digest())
        return outer.digest()


class _VerifiedSignature(NamedTuple):
    """A valid signature: what it signs, the header it came in, and the key that made it."""

    signed_parts: tuple[str, str, str | None]  # kind, link, date; the method is POST
    header: bytes
    key: AccountKey


class SignatureVerifier:
    """Checks that a request is signed with one of the account's keys."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.no_auth
        given = [
            (name, text, is_read_only)
            for name, text, is_read_only in (
                ("primary", settings.key, False),
                ("secondary", settings.secondary_key, False),
                ("read-only", settings.read_only_key, True),
                ("secondary read-only", settings.secondary_read_only_key, True),
            )
            if text
        ]
        self._keys = tuple(AccountKey(name, decode_key(text), reads) for name, text, reads in given)
        self._emulator_tokens = EmulatorTokens(settings, [text for _, text, _ in given])
        # Dates have whole seconds, so all POST requests that a client sends to one container within
        # a second have the same signature. Requests for single items have different ones.
        self._last: _VerifiedSignature | None = None

    def check(
        self, request: Request, exchange: Exchange, kind: str, link: str, *, is_read: bool
    ) -> str | None:
        """401 unless the signature matches `kind` and `link`; 403 if its key can only read.

        Returns a resource token unchecked: what it allows depends on its permission.
        """
        if self._is_open:
            return None
        header = request.header(AUTHORIZATION)
        if not header:
            raise Unauthorized(_MISSING)
        date = request.header(SIGNED_DATE)
        last = self._last
        is_signed = True
        if (
            last is not None
            and request.method == "POST"
            and last.signed_parts == (kind, link, date)
            and compare_digest(header.encode(), last.header)
        ):
            key = last.key
        elif signature := _signature(header):
            # A link made of rids is signed as its last rid in lower case.
            signing_key = self._signing_key(
                _payload(request, date, kind, link), signature
            ) or self._signing_key(
                _payload(request, date, kind, link.rpartition("/")[2].lower()), signature
            )
            if signing_key is None:
                raise _wrong_signature(request, date, kind, link)
            key = signing_key
            if date and request.method == "POST":
                self._last = _VerifiedSignature((kind, link, date), header.encode(), key)
        elif (token := _token(header)) is not None:
            return token
        elif (emulator_token := token_in(header)) is not None:
            index = self._emulator_tokens.key_index(emulator_token, request.scheme)
            key = self._keys[index]
            is_signed = False
        else:
            raise _wrong_signature(request, date, kind, link)
        text = date or request.header(DATE)
        if is_signed and not _is_within_skew(text):
            printable = _printable_payload(request, date, kind, link)
            raise Unauthorized(_DATE.format(text, _server_date(), printable))
        if key.is_read_only and not is_read:
            raise Forbidden(_READ_ONLY_KEY)
        exchange.caller = key.name
        return None

    def _signing_key(self, payload: str, signature: bytes) -> AccountKey | None:
        data = payload.encode()
        for key in self._keys:
            if compare_digest(key.sign(data), signature):
                return key
        return None


def _payload(request: Request, date: str | None, kind: str, link: str) -> str:
    """The text that a client signs."""
    dates = f"{date.lower()}\n\n" if date else f"\n{(request.header(DATE) or '').lower()}\n"
    return f"{request.method.lower()}\n{kind}\n{link}\n{dates}"


def _wrong_signature(request: Request, date: str | None, kind: str, link: str) -> Unauthorized:
    return Unauthorized(_WRONG_SIGNATURE.format(_printable_payload(request, date, kind, link)))


def _printable_payload(request: Request, date: str | None, kind: str, link: str) -> str:
    payload = _payload(request, date, kind, link).replace("\n", "\\n")
    return payload if len(payload) <= _LONGEST_PAYLOAD else f"{payload[:_LONGEST_PAYLOAD]}…"


def _is_within_skew(text: str | None) -> bool:
    """True if a date is close enough to the server's."""
    stamp = parse_date(text) if text else None
    return stamp is not None and -MAX_CLOCK_SKEW <= clock.wall() - stamp <= MAX_CLOCK_SKEW


def _server_date() -> str:
    return datetime.fromtimestamp(clock.wall(), UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


def decode_key(text: str) -> bytes:
    """The bytes of a base64 key; ValueError if it is not base64."""
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
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return b""


def _token(header: str) -> str | None:
    """`type=resource&ver=1&sig=…`, percent-decoded; None if the header is something else."""
    plain = unquote(header) if "%" in header else header
    return plain if grants.is_token(plain) else None
