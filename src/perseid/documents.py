"""The text of an item: checked when it comes in, stamped with system properties when it is kept.

A document is stored as the bytes that were sent, so numbers, escapes and key order come back as
they were; only the system properties are the server's. Pure.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any, Final

import orjson

from perseid.errors import BadRequest, RequestEntityTooLarge, ServiceUnavailable
from perseid.limits import MAX_BODY_BYTES

# With system properties, which do not count: what was read or exported can be sent back.
_MAX_SENT_BYTES: Final = MAX_BODY_BYTES + 1024
DEEPEST: Final = 128
SYSTEM_PROPERTIES: Final = frozenset(("_rid", "_self", "_etag", "_attachments", "_ts"))
_LSN: Final = frozenset(("_lsn",))
TOO_LARGE: Final = "Request size is too large"
_QUOTED_NAMES: Final = tuple(f'"{name}"'.encode() for name in SYSTEM_PROPERTIES)

_FIRST: Final = '"_rid":"'  # of those that are spliced
_FIRST_BEHIND: Final = f",{_FIRST}".encode()

# The way a client sends back what it has read: the system properties last, in the order and form
# in which they were spliced. Anchored at the closing brace, so it can only be the top level.
_TAIL: Final = re.compile(
    rb'"_rid"\s*:\s*"[^"\\]*"\s*,\s*"_self"\s*:\s*"[^"\\]*"'
    rb'\s*,\s*"_etag"\s*:\s*"(?:[^"\\]|\\")*"\s*,\s*"_attachments"\s*:\s*"[^"\\]*"'
    rb'\s*,\s*"_ts"\s*:\s*\d+\s*\}\Z'
)
_ESCAPED_COLON: Final = re.compile(rb"\\u003[aA]")
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS: Final = {ord("{"): 1, ord("["): 1, ord("}"): -1, ord("]"): -1}
_NOT_BRACKETS: Final = bytes(set(range(256)) - _STEPS.keys())


class Document:
    """An item as it came in: its text without system properties, and its value."""

    __slots__ = ("size", "text", "value")

    def __init__(self, text: bytes, value: dict[str, Any], size: int) -> None:
        self.text = text
        self.value = value
        self.size = size  # of the compact text, before system properties


def parse_json(raw: bytes, *, around: int = 0, largest: int = MAX_BODY_BYTES) -> Any:
    """The decoded body, or a 400 that says where it is broken.

    `around` is how many levels the request has around the items and values in it, which may be as
    deep as those that are sent alone.
    """
    if len(raw) > largest:
        raise RequestEntityTooLarge(TOO_LARGE)
    if not raw:
        raise BadRequest("The request body is empty; it must be JSON.")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        raise BadRequest(
            f"The request body is not valid JSON: {exc.msg} at line {exc.lineno},"
            f" column {exc.colno}."
        ) from None
    # After decoding: on text that is known to be JSON the walk below is linear.
    if raw.count(b"{") + raw.count(b"[") > DEEPEST:
        _check_depth(raw, DEEPEST + around)
    return value


def parse_named(raw: bytes, *, around: int = 0) -> Any:
    """The decoded body, each name once in its object."""
    value = parse_json(raw, around=around)
    _check_names(raw, orjson.dumps(value))
    return value


def parse_object(raw: bytes) -> dict[str, Any]:
    """The decoded body of a request whose body must be a JSON object."""
    value = parse_named(raw)
    if not isinstance(value, dict):
        raise BadRequest("The request body must be a JSON object.")
    return value


def exact(text: bytes) -> Any:
    """JSON that is known to be valid, decoded with each number kept as its text.

    A number becomes an `orjson.Fragment`: encoding the value again writes it as it was.
    """
    return json.loads(text.decode(), parse_float=orjson.Fragment, parse_int=orjson.Fragment)


def damaged_item() -> ServiceUnavailable:
    """For an item that was one when it was stored, and cannot be read as one any more."""
    return ServiceUnavailable(
        "The body of an item is damaged in the database; `perseid check` tells of which one."
    )


def parse(raw: bytes) -> Document:
    """A document from a request body."""
    value = parse_json(raw, largest=_MAX_SENT_BYTES)
    if not isinstance(value, dict):
        raise BadRequest("An item must be a JSON object.")
    compact = orjson.dumps(value)
    _check_names(raw, compact)
    text = raw.strip(b" \t\r\n")
    size = len(compact)
    if not value.keys().isdisjoint(SYSTEM_PROPERTIES):
        text = strip_system(text)
        value = {name: value[name] for name in value if name not in SYSTEM_PROPERTIES}
        size = len(orjson.dumps(value))
    if len(text) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge(TOO_LARGE)
    return Document(text, value, size)


def from_value(value: dict[str, Any]) -> Document:
    """A document that was computed here (a patch, a script) and not sent as text."""
    kept = {name: value[name] for name in value if name not in SYSTEM_PROPERTIES}
    text = orjson.dumps(kept)
    if len(text) > MAX_BODY_BYTES:
        raise RequestEntityTooLarge(TOO_LARGE)
    return Document(text, kept, len(text))


def seal(text: bytes, rid: str, self_link: str, etag: str, ts: int) -> bytes:
    """The stored text: the document with its system properties at the end."""
    inner = etag.strip('"')
    system = (
        f'{_FIRST}{rid}","_self":"{self_link}{rid}/","_etag":"\\"{inner}\\""'
        f',"_attachments":"attachments/","_ts":{ts}}}'
    )
    body = text[:-1].rstrip()
    return body + (b"" if body == b"{" else b",") + system.encode("ascii")


def is_resealed(sealed: bytes, text: bytes) -> bool:
    """Whether the stored text is that of this document: a quick yes, and no if in doubt."""
    body = text[:-1].rstrip()
    # System properties come last, and no other member of an object can be called _rid.
    return sealed.startswith(_FIRST_BEHIND, len(body)) and sealed.startswith(body)


def with_lsn(text: bytes, lsn: int) -> bytes:
    """A stored text with the `_lsn` that the change feed adds, in the place of the item's own."""
    if b'"_lsn"' in text or b"\\u00" in text:
        text = _strip_members(text, _LSN)
    return b'%b,"_lsn":%d}' % (text[:-1], lsn)


def strip_system(text: bytes) -> bytes:
    """The same JSON object without its top-level system properties; all else to the byte."""
    start = text.rfind(b'"_rid"')
    if start > 0 and _TAIL.match(text, start) is not None:
        head = text[:start].rstrip()
        text = (head[:-1].rstrip() if head.endswith(b",") else head) + b"}"
    # Any letter of a name may have been escaped.
    if b"\\u00" in text or any(name in text for name in _QUOTED_NAMES):
        return _strip_members(text)
    return text


def _strip_members(text: bytes, names: frozenset[str] = SYSTEM_PROPERTIES) -> bytes:
    """Walks the tokens and leaves out top-level members that carry one of the names."""
    kept: list[bytes] = []
    depth, start, name = 0, 1, b""
    previous = b""

    def close(end: int) -> None:
        if name and orjson.loads(name) not in names:
            kept.append(text[start:end].strip())

    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
            if depth == 0:
                close(token.start())
        elif depth == 1 and mark == b",":
            close(token.start())
            start, name = token.end(), b""
        elif depth == 1 and mark == b":" and not name:
            name = previous
        previous = mark
    return b"{" + b",".join(kept) + b"}"


def _check_names(raw: bytes, compact: bytes) -> None:
    """Refuses an object that names a member twice; decoders would silently keep the last.

    The decoded value has lost duplicates, so its text has fewer colons than the one sent: at least
    the one behind the lost name. Only an escaped colon could make up for it; then, and when the
    numbers differ, the text is decoded once more, slowly. Most clients send compact text.
    """
    if raw == compact:
        return
    if raw.count(b":") != compact.count(b":") or (b"\\u003" in raw and _ESCAPED_COLON.search(raw)):
        json.loads(raw, object_pairs_hook=_unique_names)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise BadRequest(f"The request body names the property '{twice}' twice in one object.")
    return members


def _check_depth(raw: bytes, deepest: int) -> None:
    brackets = _STRING.sub(b"", raw).translate(None, _NOT_BRACKETS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > deepest:
        raise BadRequest(f"The request body is nested deeper than {deepest} levels.")
