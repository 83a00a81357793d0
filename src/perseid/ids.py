"""Names of resources: `_rid`, `_self` and `_etag`, and which ids a client may choose.

Turns counters into the identifiers clients see and back. Refuses to hand out the counters: they
are the store's, so that an identifier is never used twice.
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
    Literal["database", "container", "user", "permission", "offer"] | ChildKind
)

# The type of a container's child is the high nibble of the last byte of its rid.
_NIBBLES: Final[Mapping[ChildKind, int]] = {
    "document": 0x0, "conflict": 0x4, "pkrange": 0x5, "udf": 0x6, "trigger": 0x7, "sproc": 0x8,
}  # fmt: skip
_FEEDS: Final[Mapping[ResourceKind, str]] = {
    "database": "dbs", "container": "colls", "user": "users", "permission": "permissions",
    "offer": "offers", "document": "docs", "conflict": "conflicts", "pkrange": "pkranges",
    "udf": "udfs", "trigger": "triggers", "sproc": "sprocs",
}  # fmt: skip

_NUMBER_BITS: Final = 60
_CONTAINER_BIT: Final = 0x8000_0000  # tells a container of a database from a user of it
_SHARED: Final = 10  # characters that the eight bytes of a container give all of its children


# Resource ids -----------------------------------------------------------------------------------


def encode(raw: bytes) -> str:
    """Base64 with `-` for `/`, so that a rid is one segment of a path."""
    return b2a_base64(raw, newline=False).decode().replace("/", "-")


@lru_cache(maxsize=1024)
def decode(rid: str) -> bytes | None:
    """The bytes of a rid, or None if no bytes are written like that."""
    try:
        raw = a2b_base64(rid.replace("-", "/").encode("ascii"))
    except (BadBase64, UnicodeEncodeError):
        return None
    # the decoder skips what it does not know; only the one spelling of these bytes is a rid
    return raw if encode(raw) == rid else None


def database_rid(number: int) -> str:
    """Four bytes, eight characters: clients tell a rid path from a name path by that length."""
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
    """The number in a child's rid, or None if it names no such child of that container."""
    if rid[:_SHARED] != container[:_SHARED]:  # most names of items are none, and need no decoding
        return None
    raw = decode(rid)
    if raw is None or len(raw) != 16 or raw[:8] != decode(container):
        return None
    tail = int.from_bytes(raw[8:], "little")
    if tail >> _NUMBER_BITS != _NIBBLES[kind]:
        return None
    return tail & (1 << _NUMBER_BITS) - 1


def document_number(rid: str, container: str) -> int | None:
    """The number in a document's rid, or None if it names no document of that container."""
    return child_number(rid, container, "document")


def looks_like_database_rid(text: str) -> bool:
    """Whether a path that starts with this segment may be made of rids."""
    return len(text) == 8 and len(decode(text) or b"") == 4


def self_link(parent: str, kind: ResourceKind, rid: str) -> str:
    """The `_self` below the parent's; databases and offers have the parent `""`."""
    return f"{parent}{_FEEDS[kind]}/{rid}/"


# Etags ------------------------------------------------------------------------------------------

_MASK96: Final = (1 << 96) - 1


def make_etag(ts: int, unique: int) -> str:
    """An etag with its quotes; another `unique` (of 96 bits) is another etag.

    Where only the last 32 bits differ, etags sort as those do: the change feed rests on it.
    """
    digits = f"{unique & _MASK96:024x}"
    return (
        f'"{digits[16:]}-{digits[12:16]}-{digits[8:12]}-{digits[4:8]}'
        f'-{ts & 0xFFFFFFFF:08x}{digits[:4]}"'
    )


def same_etag(one: str, other: str) -> bool:
    """Whether two etags are the same, whichever of them lost its quotes or was marked weak."""
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
_MOST_CHARACTERS: Final = 255
_MOST_ITEM_BYTES: Final = 1023
_FORBIDDEN: Final = frozenset("/\\#?")


def check_resource_id(value: Any, kind: str) -> str:
    """The id of anything but an item, or a 400; `kind` is for the text only."""
    name = _check_text(value, kind, "255")
    if len(name) > _MOST_CHARACTERS:
        raise _invalid(name, kind, "255")
    if not _FORBIDDEN.isdisjoint(name):
        raise _illegal(name, kind, "may not contain '/', '\\', '#' or '?'")
    if name.endswith(" "):
        raise _illegal(name, kind, "may not end with a space")
    return name


def check_item_id(value: Any) -> str:
    """The id of an item, or a 400. Clients refuse more than this; the wire does not."""
    name = _check_text(value, "item", "1024")
    # four bytes are the longest UTF-8 character: short ids need no encoding to be cleared
    if len(name) * 4 > _MOST_ITEM_BYTES and len(name.encode()) > _MOST_ITEM_BYTES:
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
