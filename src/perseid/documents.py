"""The text of an item: checked when it is received, completed with system properties for storing.

A document is stored as the bytes that were sent, without whitespace between its tokens: numbers,
escapes and the order of members do not change. The server sets only the system properties. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import orjson

from perseid.errors import BadRequest, RequestEntityTooLarge, ServiceUnavailable
from perseid.limits import MAX_BODY_BYTES

# System properties do not count, so an item that was read or exported can be sent back.
_MAX_SENT_BYTES: Final = MAX_BODY_BYTES + 1024
MAX_NESTING: Final = 128
SYSTEM_PROPERTIES: Final = frozenset(("_rid", "_self", "_etag", "_attachments", "_ts"))
_LSN: Final = frozenset(("_lsn",))
TOO_LARGE: Final = "Request size is too large"
_QUOTED_NAMES: Final = tuple(f'"{name}"'.encode() for name in SYSTEM_PROPERTIES)

_FIRST: Final = '"_rid":"'  # the start of the system properties
_COMMA_AND_FIRST: Final = f",{_FIRST}".encode()

# Clients that send back what they have read have the system properties last, in the order and form
# of `seal`. The pattern ends at the closing brace, so it matches at the top level only.
_TAIL: Final = re.compile(
    rb'"_rid"\s*:\s*"[^"\\]*"\s*,\s*"_self"\s*:\s*"[^"\\]*"'
    rb'\s*,\s*"_etag"\s*:\s*"(?:[^"\\]|\\")*"\s*,\s*"_attachments"\s*:\s*"[^"\\]*"'
    rb'\s*,\s*"_ts"\s*:\s*\d+\s*\}\Z'
)
_ESCAPED_COLON: Final = re.compile(rb"\\u003[aA]")
# The end of a member and the name of the next one, whose letters may be escaped.
_NEXT_MEMBER: Final = re.compile(r'[ \t\r\n,]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*')
_LSN_NAME: Final = re.compile(rb'"(?:_|\\u005[fF])(?:l|\\u006[cC])(?:s|\\u0073)(?:n|\\u006[eE])"')
_WHITESPACE: Final = b" \t\r\n"
# A string, or whitespace outside of strings. Possessive, so that long strings need no memory.
_STRING_OR_WHITESPACE: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")|[ \t\r\n]++')
# Numbers stay text, because Python refuses to read integers of more than 4,300 digits.
_SKIPPING: Final = json.JSONDecoder(parse_int=str, parse_float=str)

_FLAT: Final = 3  # levels that most nested values have
_STEPS: Final = {ord("["): 1, ord("]"): -1}
_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"{}[]"))

# Characters that stand before a value, a name or an escape, and how many of them a text may have
# that is decoded in a few milliseconds. Decoding cannot be interrupted.
_STRUCTURE: Final = b",:[{\\"
_MANY_VALUES: Final = 20_000


class Document:
    """A received item: its text, without system properties and whitespace, and its value."""

    __slots__ = ("size", "text", "value")

    def __init__(self, text: bytes, value: dict[str, Any], size: int) -> None:
        self.text = text
        self.value = value
        self.size = size  # of the compact text, before system properties

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the value: another process would take as long to read it as to decode it."""
        return UndecodedDocument, (self.text, self.size)


class UndecodedDocument(Document):
    """A document that another process has checked; it is decoded each time its value is read."""

    __slots__ = ()

    def __init__(self, text: bytes, size: int) -> None:
        self.text = text
        self.size = size

    @property
    def value(self) -> dict[str, Any]:  # type: ignore[override]
        value: dict[str, Any] = orjson.loads(self.text)
        return value


def has_many_values(*texts: bytes, most: int = _MANY_VALUES) -> bool:
    """True if decoding the texts takes more than a few milliseconds; an estimate.

    It takes a millisecond for the largest items, most of which are a few long strings.
    """
    if sum(map(len, texts)) <= most:
        return False
    return sum(len(text) - len(text.translate(None, _STRUCTURE)) for text in texts) > most


def parse_json(raw: bytes, *, around: int = 0, largest: int = MAX_BODY_BYTES) -> Any:
    """The decoded body, or a 400 that says where it is invalid.

    `around` is the number of levels that the request has around its items and values, which may be
    as deep as an item that is sent alone.
    """
    if len(raw) > largest:
        raise RequestEntityTooLarge(TOO_LARGE, listed=True)
    if not raw:
        raise BadRequest("The request body is empty; it must be JSON.")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise BadRequest(
            f"The request body is not valid JSON: {exc.msg} at line {exc.lineno},"
            f" column {exc.colno}."
        ) from None
    # After decoding, because the check takes linear time on valid JSON only.
    if raw.count(b"{") + raw.count(b"[") > MAX_NESTING:
        _check_depth(raw, MAX_NESTING + around)
    return value


def parse_named(raw: bytes, *, around: int = 0) -> Any:
    """The decoded body; 400 if an object has a name twice."""
    value = parse_json(raw, around=around)
    compact = orjson.dumps(value)
    if raw != compact:
        _check_names(raw, compact)
    return value


def parse_object(raw: bytes) -> dict[str, Any]:
    """The decoded body of a request whose body must be a JSON object."""
    value = parse_named(raw)
    if not isinstance(value, dict):
        raise BadRequest("The request body must be a JSON object.")
    return value


def exact(text: bytes) -> Any:
    """Valid JSON, decoded so that each number keeps its text.

    A number becomes an `orjson.Fragment`, which is encoded as the same text again.
    """
    return json.loads(text.decode(), parse_float=orjson.Fragment, parse_int=orjson.Fragment)


def damaged_item() -> ServiceUnavailable:
    """The error for a stored item that is no longer valid JSON."""
    return ServiceUnavailable(
        "The body of an item is damaged in the database; run `perseid check` to see which one."
    )


def parse(raw: bytes) -> Document:
    """The document in a request body."""
    value = parse_json(raw, largest=_MAX_SENT_BYTES)
    if not isinstance(value, dict):
        raise BadRequest("An item must be a JSON object.")
    compact = orjson.dumps(value)
    size = len(compact)
    text = raw
    if raw != compact:
        _check_names(raw, compact)
        text = without_whitespace(raw)
    if not value.keys().isdisjoint(SYSTEM_PROPERTIES):
        text = strip_system(text)
        value = {name: value[name] for name in value if name not in SYSTEM_PROPERTIES}
        size = len(orjson.dumps(value))
    if len(text) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge(TOO_LARGE, listed=True)
    return Document(text, value, size)


def from_value(value: dict[str, Any]) -> Document:
    """A document that the server computed from another one, such as a patched item."""
    kept = {name: value[name] for name in value if name not in SYSTEM_PROPERTIES}
    text = orjson.dumps(kept)
    if len(text) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge(TOO_LARGE, listed=True)
    return Document(text, kept, len(text))


def seal(text: bytes, rid: str, self_link: str, etag: str, ts: int) -> bytes:
    """The stored text: the document with its system properties at the end."""
    inner = etag.strip('"')
    system = (
        f'{_FIRST}{rid}","_self":"{self_link}{rid}/","_etag":"\\"{inner}\\""'
        f',"_attachments":"attachments/","_ts":{ts}}}'
    )
    body = text[:-1]
    return body + (b"" if body == b"{" else b",") + system.encode("ascii")


def is_resealed(sealed: bytes, text: bytes) -> bool:
    """True if `sealed` is this document with system properties; False if that is not certain."""
    body = text[:-1]
    # System properties come last, and no other member of the object has the name _rid.
    return sealed.startswith(_COMMA_AND_FIRST, len(body)) and sealed.startswith(body)


def with_lsn(text: bytes, lsn: int) -> bytes:
    """A stored text with the `_lsn` of the change feed, which replaces an `_lsn` of the item."""
    if _LSN_NAME.search(text) is not None:
        text = _strip_members(text, _LSN)
    return b'%b,"_lsn":%d}' % (text[:-1], lsn)


def strip_system(text: bytes) -> bytes:
    """The same JSON object without its top-level system properties; no other byte changes."""
    start = text.rfind(b'"_rid"')
    if start > 0 and _TAIL.match(text, start) is not None:
        head = text[:start].rstrip()
        # These are all of them: no object has a name twice.
        return (head[:-1].rstrip() if head.endswith(b",") else head) + b"}"
    # Any letter of a name may be escaped.
    if b"\\u00" in text or any(name in text for name in _QUOTED_NAMES):
        return _strip_members(text)
    return text


def _strip_members(text: bytes, names: frozenset[str] = SYSTEM_PROPERTIES) -> bytes:
    """The text without the top-level members that have one of the names."""
    decoded = text.decode()
    kept = [decoded[start:end] for name, start, _, end in _members(decoded) if name not in names]
    return f"{{{','.join(kept)}}}".encode()


def member_texts(text: str) -> Iterator[tuple[str, str]]:
    """The name of each top-level member of a JSON object, and the text of its value."""
    for name, _, start, end in _members(text):
        yield name, text[start:end]


def _members(text: str) -> Iterator[tuple[str, int, int, int]]:
    """The name of each top-level member of a JSON object, and where it, its value and its end are.

    The values are skipped by the decoder, which is far faster than a loop over their tokens.
    """
    skip = _SKIPPING.raw_decode
    position = _NEXT_MEMBER.match(text, text.index("{") + 1)
    while position is not None:
        quoted = position[1]
        name = json.loads(quoted) if "\\" in quoted else quoted[1:-1]
        _, end = skip(text, position.end())
        yield name, position.start(1), position.end(), end
        position = _NEXT_MEMBER.match(text, end)


def _check_names(raw: bytes, compact: bytes) -> None:
    """400 for an object with a name twice, of which decoders would keep the last.

    The decoded value has no duplicates, so its text has fewer colons between names and values than
    the one sent. Colons are counted including those inside strings first, which is enough unless
    some of them are escaped. Most clients send compact text, which need not be checked.
    """
    if raw.count(b":") == compact.count(b":") and (
        b"\\u003" not in raw or _ESCAPED_COLON.search(raw) is None
    ):
        return
    if without_strings(raw).count(b":") != without_strings(compact).count(b":"):
        json.loads(raw, object_pairs_hook=_unique_names, parse_int=str)


def without_strings(text: bytes) -> bytes:
    """Valid JSON without its strings. Takes a few milliseconds for the largest items."""
    if b"\\" in text:  # pairs first: the quote after an escaped backslash ends the string
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])


def without_whitespace(text: bytes) -> bytes:
    """Valid JSON without whitespace between its tokens."""
    outside = without_strings(text)
    if len(outside.translate(None, _WHITESPACE)) == len(outside):
        return text
    return _STRING_OR_WHITESPACE.sub(rb"\1", text)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadRequest(f"The request body names the property '{twice}' twice in one object.")
    return members


def _check_depth(raw: bytes, limit: int) -> None:
    brackets = without_strings(raw).translate(_SQUARE, _NOT_BRACKETS)
    depth = 0
    while depth < _FLAT and brackets:  # without the innermost pairs, of which there are many
        brackets = brackets.replace(b"[]", b"")
        depth += 1
    if len(brackets) // 2 + depth > limit:
        depth += max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
        if depth > limit:
            raise BadRequest(f"The request body is nested deeper than {limit} levels.")
