"""Who may do what: master-key signatures and resource tokens, with the service's 401 and 403."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from perseid import clock, ids
from perseid.config import Settings
from perseid.errors import Forbidden, Unauthorized
from perseid.http.headers import PARTITION_KEY, epk_interval, parse_date
from perseid.http.request import Exchange, Request
from perseid.limits import MAX_CLOCK_SKEW
from perseid.partition import canonical, parse_header
from perseid.service import grants
from perseid.service.account import Account
from perseid.service.grants import Grant

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
_OTHER_RESOURCE: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " Please retry with another authorization header. The permission of the resource token is on"
    " another resource."
)
_READ_PERMISSION: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " Please retry with another authorization header. The permission of the resource token is for"
    " reading."
)
_OTHER_KEY: Final = (
    "Insufficient permissions provided in the authorization header for the corresponding request."
    " Please retry with another authorization header. The permission of the resource token is"
    " confined to the partition key {}, and the request must name that key."
)

_BLOCK: Final = 64  # bytes that the hash takes at a time
_CONTAINER: Final = 4  # segments of the path of a container
_ITEM: Final = 6  # and of something in it
# What a token can open at all; everything else takes a key of the account.
_TOKEN_KINDS: Final = frozenset(
    ("colls", "docs", "pkranges", "sprocs", "triggers", "udfs", "conflicts")
)


class AccountKey:
    """A key of the account, ready to sign.

    HMAC is two hashes, each begun with the key; copies of what was begun spare hashing the key
    again. A ready-made one costs twice as much, or gives the interpreter's lock away.
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
    """A signature that was found right: what it is for, how it is written, and whose it is."""

    signed_parts: tuple[str, str, str, str | None]  # method, kind, link, date
    header: bytes
    key: AccountKey


class SignatureVerifier:
    """Checks that a request is signed with one of the account's keys."""

    def __init__(self, settings: Settings) -> None:
        self._is_open = settings.no_auth
        self._keys = tuple(
            AccountKey(name, decode_key(text), is_read_only)
            for name, text, is_read_only in (
                ("primary", settings.key, False),
                ("secondary", settings.secondary_key, False),
                ("read-only", settings.read_only_key, True),
                ("secondary read-only", settings.secondary_read_only_key, True),
            )
            if text
        )
        # A date has whole seconds, so what a client writes to one container or asks of it within
        # a second is all signed the same.
        self._last: _VerifiedSignature | None = None

    def check(
        self, request: Request, exchange: Exchange, kind: str, link: str, *, is_read: bool
    ) -> str | None:
        """401 unless the signature fits `kind` and `link`; 403 if its key may only read.

        A resource token is given back as it is: what it allows depends on its permission.
        """
        if self._is_open:
            return None
        header = request.header("authorization")
        if not header:
            raise Unauthorized(_MISSING)
        date = request.header("x-ms-date")
        signed_parts = (request.method, kind, link, date)
        last = self._last
        if (
            last is not None
            and last.signed_parts == signed_parts
            and compare_digest(header.encode(), last.header)
        ):
            key = last.key
        else:
            given = _signature(header)
            if not given and (token := _token(header)) is not None:
                return token
            # A link made of rids is signed as its last rid in lower case.
            signing_key = self._signing_key(
                _payload(request, date, kind, link), given
            ) or self._signing_key(
                _payload(request, date, kind, link.rpartition("/")[2].lower()), given
            )
            if signing_key is None:
                raise Unauthorized(
                    _WRONG_SIGNATURE.format(_printable_payload(request, date, kind, link))
                )
            key = signing_key
            if date:
                self._last = _VerifiedSignature(signed_parts, header.encode(), key)
        text = date or request.header("date")
        if not _is_within_skew(text):
            printable = _printable_payload(request, date, kind, link)
            raise Unauthorized(_DATE.format(text, _server_date(), printable))
        if key.is_read_only and not is_read:
            raise Forbidden(_READ_ONLY_KEY)
        exchange.caller = key.name
        return None

    def _signing_key(self, payload: str, given: bytes) -> AccountKey | None:
        data = payload.encode()
        for key in self._keys:
            if compare_digest(key.sign(data), given):
                return key
        return None


def _payload(request: Request, date: str | None, kind: str, link: str) -> str:
    """The text that is signed."""
    dates = f"{date.lower()}\n\n" if date else f"\n{(request.header('date') or '').lower()}\n"
    return f"{request.method.lower()}\n{kind}\n{link}\n{dates}"


def _printable_payload(request: Request, date: str | None, kind: str, link: str) -> str:
    return _payload(request, date, kind, link).replace("\n", "\\n")


def _is_within_skew(text: str | None) -> bool:
    """Whether a date is about the server's own."""
    stamp = parse_date(text) if text else None
    return stamp is not None and abs(clock.wall() - stamp) <= MAX_CLOCK_SKEW


def _server_date() -> str:
    return datetime.fromtimestamp(clock.wall(), UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")


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
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return b""


def _token(header: str) -> str | None:
    """`type=resource&ver=1&sig=…`, percent-decoded; None if the header is something else."""
    plain = unquote(header) if "%" in header else header
    return plain if grants.is_token(plain) else None


class AccessRequest(NamedTuple):
    """What a request wants, as far as it matters to a resource token."""

    kind: str
    link: str
    is_read: bool
    is_keyed: bool  # it is about the items of one logical partition, or of several


async def check_resource_token(
    account: Account,
    request: Request,
    exchange: Exchange,
    token: str,
    access_request: AccessRequest,
) -> None:
    """401 unless the token is good now; 403 unless its permission covers the request."""
    grant = grants.open_token(account, token, request.now)
    exchange.caller = grant.caller
    if access_request.kind == "":
        return  # the account: clients read it first, with any token they hold
    if access_request.kind in ("colls", "pkranges") and request.method == "GET":
        path = _path(account, access_request)
        # Clients need a container's definition and its ranges to reach anything in it.
        if len(path) == _CONTAINER and grant.path[:_CONTAINER] == path:
            return
        raise Forbidden(_OTHER_RESOURCE)
    if access_request.kind not in _TOKEN_KINDS or not await _covers_resource(
        account, request, exchange, grant, access_request
    ):
        raise Forbidden(_OTHER_RESOURCE)
    if not access_request.is_read and not grant.may_write:
        raise Forbidden(_READ_PERMISSION)
    if grant.key is not None:
        _check_partition_key(account, request, exchange, grant.key, access_request)


def _path(account: Account, access_request: AccessRequest) -> tuple[str, ...]:
    # An id that a client did not escape may hold anything, even a slash.
    return grants.locate(account.catalog, access_request.link.split("/", _ITEM - 1))


async def _covers_resource(
    account: Account,
    request: Request,
    exchange: Exchange,
    grant: Grant,
    access_request: AccessRequest,
) -> bool:
    path = _path(account, access_request)
    if path[: len(grant.path)] == grant.path:
        return True
    if len(path) == len(grant.path) == _ITEM and path[:-1] == grant.path[:-1]:
        return path[-2] == "docs" and await _is_same_item(
            account, request, exchange, path[-1], grant.path[-1]
        )
    return False


async def _is_same_item(
    account: Account, request: Request, exchange: Exchange, asked: str, granted: str
) -> bool:
    """Whether an item that the request names by id and its permission by rid, or the other way
    round, is the same one. From then on the request means its id."""
    container = account.catalog.container_of_items(exchange.names[0], exchange.names[1])
    for rid, name in ((asked, granted), (granted, asked)):
        number = ids.document_number(rid, container.rid)
        row = None if number is None else await account.stores.items.read_number(container, number)
        header = request.header(PARTITION_KEY)
        if row is not None and row.id == name and header is not None:
            exchange.names = (exchange.names[0], exchange.names[1], row.id)
            return canonical(parse_header(header, container.key.levels)) == row.pk
    return False


def _check_partition_key(
    account: Account,
    request: Request,
    exchange: Exchange,
    key: bytes,
    access_request: AccessRequest,
) -> None:
    """403 unless the request stays within the key: it must name the key, or hashes below it.

    Hashes will do for what only lists: what is written has the key that its body says.
    """
    if not access_request.is_keyed:
        if access_request.kind == "docs":
            return  # a query plan: it looks at no item
        raise Forbidden(_OTHER_KEY.format(key.decode()))
    container = account.catalog.container_of_items(exchange.names[0], exchange.names[1])
    confined = grants.confined_key(key, container.key)
    header = request.header(PARTITION_KEY)
    is_inside = False
    if confined is not None and header is not None:
        is_inside = grants.covers_key(confined, parse_header(header, container.key.levels))
    elif confined is not None and access_request.is_read:
        start, end = epk_interval(request)
        if start is not None and end is not None:
            is_inside = grants.covers_interval(confined, container.key, start, end)
            exchange.confined_key = key.decode()
    if not is_inside:
        raise Forbidden(_OTHER_KEY.format(key.decode()))
