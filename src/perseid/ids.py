"""Identifiers of resources: `_rid`, `_self` and `_etag`, and which ids a client may choose.

Converts numbers to identifiers and back. The store assigns the numbers, so that no identifier is
used twice.
"""

from __future__ import annotations

from binascii import Error as BadBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from perseid.errors import BadRequest

ChildKind: TypeAlias = Literal["document", "conflict", "pkrange", "udf", "trigger", "sproc"]
ResourceKind: TypeAlias = (
    Literal["database", "container", "user", "permission", "clientencryptionkey", "offer"]
    | ChildKind
)

# The type of a container's child is the high nibble of the last byte of its rid.
_NIBBLES: Final[Mapping[ChildKind, int]] = {
    "document": 0x0, "conflict": 0x4, "pkrange": 0x5, "udf": 0x6, "trigger": 0x7, "sproc": 0x8,
}  # fmt: skip
_FEEDS: Final[Mapping[ResourceKind, str]] = {
    "database": "dbs", "container": "colls", "user": "users", "permission": "permissions",
    "offer": "offers", "document": "docs", "conflict": "conflicts", "pkrange": "pkranges",
    "udf": "udfs", "trigger": "triggers", "sproc": "sprocs",
    "clientencryptionkey": "clientencryptionkeys",
}  # fmt: skip

_NUMBER_BITS: Final = 60
_CONTAINER_BIT: Final = 0x8000_0000  # set in the rid of a container, not in that of a user
_CLIENT_ENCRYPTION_KEY: Final = 2  # its type among those that share the place of a user
_SHARED: Final = 10  # characters of a container's rid that the rids of its children start with


# Resource ids -----------------------------------------------------------------------------------


def encode(raw: bytes) -> str:
    """Base64 with `-` instead of `/`, so that a rid is one segment of a path."""
    return b2a_base64(raw, newline=False).decode().replace("/", "-")


@lru_cache(maxsize=1024)
def decode(rid: str) -> bytes | None:
    """The bytes of a rid, or None if the text is not a rid."""
    try:
        raw = a2b_base64(rid.replace("-", "/").encode("ascii"))
    except (BadBase64, UnicodeEncodeError):
        return None
    # the decoder skips unknown characters; only the canonical spelling is a rid
    return raw if encode(raw) == rid else None


def database_rid(number: int) -> str:
    """Four bytes, eight characters: clients recognise a path of rids by that length."""
    return encode(number.to_bytes(4, "little"))


def container_rid(database: str, number: int) -> str:
    """Eight bytes below the database's; `number` has 31 bits."""
    if number >= _CONTAINER_BIT:
        raise OverflowError("a container number has 31 bits")
    return encode(_owner(database, 4) + (number | _CONTAINER_BIT).to_bytes(4, "big"))


def user_rid(database: str, number: int) -> str:
    """Eight bytes below the database's, never equal to a container's; `number` has 31 bits."""
    if number >= _CONTAINER_BIT:
        raise OverflowError("a user number has 31 bits")
    return encode(_owner(database, 4) + number.to_bytes(4, "big"))


def client_encryption_key_rid(database: str, number: int) -> str:
    """Sixteen bytes below the database's: no user, the number, and the type of the resource."""
    numbers = (0, number, _CLIENT_ENCRYPTION_KEY)
    return encode(_owner(database, 4) + b"".join(each.to_bytes(4, "little") for each in numbers))


def permission_rid(user: str, number: int) -> str:
    """Sixteen bytes below the user's."""
    return encode(_owner(user, 8) + number.to_bytes(8, "little"))


def child_rid(container: str, kind: ChildKind, number: int) -> str:
    """Sixteen bytes below the container's; `number` has 60 bits."""
    if number >> _NUMBER_BITS:
        raise OverflowError("the number of a container's child has 60 bits")
    tail = (_NIBBLES[kind] << _NUMBER_BITS | number).to_bytes(8, "little")
    return encode(_owner(container, 8) + tail)


def offer_rid(number: int) -> str:
    """Three bytes, four characters without padding."""
    return encode(number.to_bytes(3, "big"))


def _owner(rid: str, length: int) -> bytes:
    raw = decode(rid)
    if raw is None or len(raw) != length:
        raise ValueError(f"not a rid of {length} bytes: {rid!r}")
    return raw


def child_number(rid: str, container: str, kind: ChildKind) -> int | None:
    """The number in a child's rid, or None if it is not the rid of such a child."""
    if rid[:_SHARED] != container[:_SHARED]:  # most names are ids, and need no decoding
        return None
    raw = decode(rid)
    if raw is None or len(raw) != 16 or raw[:8] != decode(container):
        return None
    tail = int.from_bytes(raw[8:], "little")
    if tail >> _NUMBER_BITS != _NIBBLES[kind]:
        return None
    return tail & (1 << _NUMBER_BITS) - 1


def document_number(rid: str, container: str) -> int | None:
    """The number in a document's rid, or None if it is not the rid of such a document."""
    return child_number(rid, container, "document")


def looks_like_database_rid(text: str) -> bool:
    """True if a path that starts with this segment may consist of rids."""
    return len(text) == 8 and len(decode(text) or b"") == 4


def self_link(parent: str, kind: ResourceKind, rid: str) -> str:
    """The `_self` of a resource; `parent` is that of its owner, or "" for databases and offers."""
    return f"{parent}{_FEEDS[kind]}/{rid}/"


# Etags ------------------------------------------------------------------------------------------

_MASK96: Final = (1 << 96) - 1


def make_etag(ts: int, unique: int) -> str:
    """An etag with its quotes; each `unique` (of 96 bits) gives another etag.

    Etags that differ only in the last 32 bits sort by those: the change feed depends on it.
    """
    digits = f"{unique & _MASK96:024x}"
    return (
        f'"{digits[16:]}-{digits[12:16]}-{digits[8:12]}-{digits[4:8]}'
        f'-{ts & 0xFFFFFFFF:08x}{digits[:4]}"'
    )


def same_etag(one: str, other: str) -> bool:
    """True if two etags are equal; quotes and the mark of a weak etag are ignored."""
    return one == other or _bare_etag(one) == _bare_etag(other)


def _bare_etag(etag: str) -> str:
    etag = etag.removeprefix("W/")
    if len(etag) >= 2 and etag[0] == etag[-1] == '"':
        return etag[1:-1]
    return etag


# Ids chosen by clients --------------------------------------------------------------------------

MISSING_ID: Final = (
    "The input content is invalid because the required properties - 'id; ' - are missing"
)
_MAX_CHARACTERS: Final = 255
_MAX_ITEM_BYTES: Final = 1023
_FORBIDDEN: Final = frozenset("/\\#?")


def check_resource_id(value: Any, kind: str) -> str:
    """The id of a resource other than an item, or a 400; `kind` is for the message."""
    name = _check_text(value, kind, "255")
    if len(name) > _MAX_CHARACTERS:
        raise _invalid(name, kind, "255")
    if not _FORBIDDEN.isdisjoint(name):
        raise _illegal(name, kind, "may not contain '/', '\\', '#' or '?'")
    if name.endswith(" "):
        raise _illegal(name, kind, "may not end with a space")
    return name


def check_item_id(value: Any) -> str:
    """The id of an item, or a 400. Some clients reject more ids than the service does."""
    name = _check_text(value, "item", "1024")
    # a character has at most four bytes of UTF-8, so short ids need no encoding
    if len(name) * 4 > _MAX_ITEM_BYTES and len(name.encode()) > _MAX_ITEM_BYTES:
        raise _invalid(name, "item", "1024")
    if "/" in name or "\\" in name:
        raise _illegal(name, "item", "may not contain '/' or '\\'")
    return name


def _check_text(value: Any, kind: str, limit: str) -> str:
    if value is None:
        raise BadRequest(MISSING_ID, listed=True)
    if not isinstance(value, str) or not value:
        raise _invalid(value, kind, limit)
    return value


def _invalid(value: Any, kind: str, limit: str) -> BadRequest:
    return BadRequest(
        f"The input {kind} name '{_shortened(value)}' is invalid. "
        f"Ensure to provide a unique non-empty string less than '{limit}' characters.",
        listed=True,
    )


def _illegal(value: str, kind: str, rule: str) -> BadRequest:
    return BadRequest(f"The {kind} id '{_shortened(value)}' {rule}.", listed=True)


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 64 else f"{text[:64]}…"
