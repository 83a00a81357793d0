"""Paths of properties in definitions: `/a/b`, `/"any name"/c`, with wildcards `/a/[]/*`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from perseid.errors import BadRequest


class Segment(NamedTuple):
    """One step of a path; quotes distinguish a property called `*` from the wildcard."""

    name: str
    quoted: bool


_SEGMENT: Final = re.compile(
    r"""/(?: (?P<quote>["']) (?P<quoted>(?:(?!(?P=quote))[^\\]|\\.)+) (?P=quote)
           | (?P<plain>[^/"'][^/]*) )(?=/|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN: Final = re.compile(r"\w+")
_NAME: Final = re.compile(
    r"""/(?: \w+ | (?P<quote>["']) (?:(?!(?P=quote))[^\\]|\\.)+ (?P=quote) )(?=/|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_WILDCARDS: Final = frozenset('*?[]{}"')


def split_path(path: str) -> tuple[Segment, ...]:
    """The segments of `/a/"b c"/*`, wildcards included."""
    segments: list[Segment] = []
    position = 0
    while match := _SEGMENT.match(path, position):
        quoted = match["quoted"]
        if quoted is None:
            segments.append(Segment(match["plain"], quoted=False))
        else:
            segments.append(Segment(_ESCAPE.sub(r"\1", quoted), quoted=True))
        position = match.end()
    if position != len(path) or not segments:
        raise BadRequest(f"The path '{path}' is not valid.", listed=True)
    return tuple(segments)


def parse_path(path: str) -> tuple[str, ...]:
    """The property names of a path to one value, without wildcards and array steps."""
    segments = split_path(path)
    if any(not quoted and not _WILDCARDS.isdisjoint(name) for name, quoted in segments):
        raise BadRequest(f"The path '{path}' may not contain wildcards.", listed=True)
    return tuple(name for name, _ in segments)


def unaccepted_position(path: str) -> int | None:
    """Where a path stops being one of plain or quoted names; None if it does not.

    Plain names consist of letters, digits and underscores.
    """
    position = 0
    while match := _NAME.match(path, position):
        position = match.end()
    if position == len(path) and path:
        return None
    rest = path[position:]
    # The slash is accepted if something follows it; an unclosed quote fails where it begins.
    if len(rest) < 2 or rest[0] != "/" or rest[1] in "\"'":
        return position + (len(rest) > 1 and rest[0] == "/")
    start = position + 1
    plain = _PLAIN.match(path, start)
    return start if plain is None else plain.end()
