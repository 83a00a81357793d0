"""Resource tokens: signed for a permission, and what that permission allows.

A token names its permission and the time at which it expires. It allows what the permission says
when it is used, so it is invalid once the permission or its user is deleted.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import orjson

from perseid.errors import BadRequest, Unauthorized
from perseid.partition import (
    KeyDefinition,
    PartitionKey,
    canonical,
    effective,
    parse_header,
    point_interval,
)
from perseid.service.account import Account
from perseid.service.catalog import Catalog
from perseid.service.resources.registry import Properties

MIN_LIFETIME: Final = 10  # seconds
MAX_LIFETIME: Final = 86_400
DEFAULT_LIFETIME: Final = 3_600
_CLOCK_TOLERANCE: Final = 60  # seconds that the clocks of server processes may differ

_PREFIX: Final = "type=resource&ver=1&sig="
# Derives a key from the secret that differs from that of continuation tokens.
_PURPOSE: Final = b"perseid resource token"
_MAC_BYTES: Final = 32
_MALFORMED: Final = (
    "The input authorization token can't serve the request. The resource token was not issued by"
    " this server, or was changed since."
)
_REVOKED: Final = (
    "The input authorization token can't serve the request. The permission that the resource token"
    " was issued for does not exist any more."
)
_EXPIRED: Final = (
    "The authorization token is not valid at the current time. Please create another token and"
    " retry (token expiry time: {}, current server time: {})."
)
_KINDS: Final = {
    "dbs": "database",
    "colls": "container",
    "sprocs": "sproc",
    "triggers": "trigger",
    "udfs": "udf",
}


class Grant(NamedTuple):
    """What a permission allows: the resource at `path` and all below it, for one key if given."""

    path: tuple[str, ...]
    may_write: bool
    key: bytes | None  # as in the partition key header
    caller: str  # for the audit log


def check_lifetime(seconds: int) -> int:
    if not MIN_LIFETIME <= seconds <= MAX_LIFETIME:
        raise BadRequest(
            f"The header x-ms-documentdb-expiry-seconds must be from {MIN_LIFETIME} to"
            f" {MAX_LIFETIME}, not {seconds}."
        )
    return seconds


def issue(account: Account, permission: str, lifetime: int, now: float) -> str:
    """A token for the permission with that rid, valid for `lifetime` seconds."""
    payload = orjson.dumps({"p": permission, "x": int(now) + lifetime})
    return _PREFIX + base64.urlsafe_b64encode(_mac(account, payload) + payload).decode()


def is_token(header: str) -> bool:
    """True if a decoded authorization header has the form of a resource token."""
    return dict(parse_qsl(header.replace("+", "%2B"))).get("type") == "resource"


def open_token(account: Account, header: str, now: float) -> Grant:
    """What the token in an authorization header allows now; 401 if the token is not valid."""
    fields = dict(parse_qsl(header.replace("+", "%2B")))
    try:
        raw = base64.b64decode(fields.get("sig", ""), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not payload or not hmac.compare_digest(_mac(account, payload), mac):
        raise Unauthorized(_MALFORMED)
    token = orjson.loads(payload)
    # One that is valid for too long was issued at times of a clock jump that was rejected.
    if not now < token["x"] <= now + MAX_LIFETIME + _CLOCK_TOLERANCE:
        raise Unauthorized(_EXPIRED.format(_http_date(token["x"]), _http_date(now)))
    if not account.catalog.has_resource(token["p"]):
        raise Unauthorized(_REVOKED)
    permission = account.catalog.resource(token["p"])
    properties = permission.state["properties"]
    path, key = target(account.catalog, properties)
    user = account.catalog.resource(permission.parent)
    return Grant(
        path,
        properties["permissionMode"].lower() == "all",
        key,
        f"user {user.id}, permission {permission.id}",
    )


def split(link: str) -> list[str]:
    """The segments of a link; slashes at its ends are ignored."""
    return link.strip("/").split("/")


def target(catalog: Catalog, properties: Properties) -> tuple[tuple[str, ...], bytes | None]:
    """The path and key of a permission; links by names and by rids give the same path."""
    key = properties.get("resourcePartitionKey")
    path = locate(catalog, split(properties["resource"]))
    return path, None if key is None else orjson.dumps(key)


def locate(catalog: Catalog, parts: Sequence[str]) -> tuple[str, ...]:
    """A path with rids instead of names; the name of a resource that does not exist is kept."""
    located: list[str] = []
    parent = ""
    for feed, name in zip(parts[0::2], parts[1::2], strict=True):
        kind = _KINDS.get(feed)
        resource = catalog.find(kind, parent, name) if kind and (parent or not located) else None
        parent = "" if resource is None else resource.rid
        located += (feed, name if resource is None else resource.rid)
    return tuple(located)


def confined_key(key: bytes, definition: KeyDefinition) -> PartitionKey | None:
    """The key of a grant, read for that container; None if the container cannot have it."""
    try:
        return parse_header(key, definition.levels)
    except BadRequest:
        return None


def covers_key(confined: PartitionKey, given: PartitionKey) -> bool:
    """True if the key or key prefix of a request lies inside the confined key."""
    return len(given) >= len(confined) and canonical(given[: len(confined)]) == canonical(confined)


def covers_interval(
    confined: PartitionKey, definition: KeyDefinition, start: bytes, end: bytes
) -> bool:
    """True if an interval of effective keys lies inside the confined key.

    The effective keys below a prefix begin with that of the prefix.
    """
    first, last = point_interval(effective(confined, definition))
    return bytes.fromhex(first) <= start < end <= bytes.fromhex(last)


def _mac(account: Account, payload: bytes) -> bytes:
    key = hmac.digest(account.secret, _PURPOSE, "sha256")
    return hmac.digest(key, payload, "sha256")


def _http_date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
