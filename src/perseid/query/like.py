"""Compiles LIKE patterns: `%` any text, `_` one character, `[a-z]` and `[^a-z]` one of a set.

Matching takes time proportional to the text and the pattern, and refuses (undefined) what would
take more than about a second.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from perseid.query.values import UNDEFINED

# Characters of the text times characters of a segment: about a second.
_MAX_WORK: Final = 300_000_000
# The part of it that one call of `re` may do, since other threads wait: some milliseconds.
_MAX_WORK_PER_SEARCH: Final = 1_000_000
_NO_CHARACTER: Final = r"[^\x00-\U0010ffff]"
_PIECE: Final = re.compile(r"\[\^?[^\]]+\]|.", re.DOTALL)


@lru_cache(maxsize=256)
def matcher(pattern: str, escape: str) -> Callable[[str], Any]:
    """A function that tells whether a text matches; undefined where that would take too long.

    The segments between the `%` are searched one after the other, each at the first place where it
    matches. That equals a regular expression with `.*` between them, without its backtracking.
    """
    segments = _segments(pattern, escape)
    head, *others = [re.compile("".join(parts), re.DOTALL) for parts in segments]
    if not others:
        return lambda text: head.fullmatch(text) is not None
    tail, tail_length = others.pop(), len(segments[-1])
    middle = [(part, len(parts)) for part, parts in zip(others, segments[1:], strict=False)]
    # `re` tries a segment at every place, unless it is plain text, for which it searches faster.
    work = max((len(parts) for parts in segments[1:-1] if not _is_plain(parts)), default=0)

    def matches(text: str) -> Any:
        if work * len(text) > _MAX_WORK:
            return UNDEFINED
        matched = head.match(text)
        for part, length in middle:
            if matched is None:
                return False
            matched = _search(part, length, text, matched.end())
        start = len(text) - tail_length
        return matched is not None and start >= matched.end() and bool(tail.match(text, start))

    return matches


def _search(part: re.Pattern[str], length: int, text: str, start: int) -> re.Match[str] | None:
    """The first match of a segment of `length` characters; long texts are searched in pieces."""
    if len(text) * length <= _MAX_WORK_PER_SEARCH:
        return part.search(text, start)
    step = _MAX_WORK_PER_SEARCH // max(length, 1) + 1
    for first in range(start, len(text) - length + 1, step):
        matched = part.search(text, first, first + step + length - 1)
        if matched is not None:
            return matched
    return None


def _is_plain(parts: list[str]) -> bool:
    return all((len(part) == 1 and part != ".") or part[0] == "\\" for part in parts)


def _segments(pattern: str, escape: str) -> list[list[str]]:
    """The segments between the `%` of a pattern, each a list of one-character expressions."""
    segments: list[list[str]] = [[]]
    position = 0
    while position < len(pattern):
        if pattern[position] == escape and position + 1 < len(pattern):
            segments[-1].append(re.escape(pattern[position + 1]))
            position += 2
            continue
        piece = _PIECE.match(pattern, position)
        assert piece is not None  # noqa: S101  # the last alternative takes any character
        position = piece.end()
        if piece[0] == "%":
            segments.append([])
        else:
            segments[-1].append(_piece(piece[0]))
    return segments


def _piece(piece: str) -> str:
    if piece == "_":
        return "."
    if len(piece) == 1:
        return re.escape(piece)
    negated = piece.startswith("[^") and piece != "[^]"
    members = _members(piece[1 + negated : -1])
    if not members:
        return "." if negated else _NO_CHARACTER
    return f"[{'^' if negated else ''}{members}]"


def _members(members: str) -> str:
    """The inside of a bracket as `re` writes it; a range such as `z-a` is empty and left out."""
    parts = []
    position = 0
    while position < len(members):
        first = members[position]
        if members[position + 1 : position + 2] == "-" and position + 2 < len(members):
            last = members[position + 2]
            if first <= last:
                parts.append(f"{re.escape(first)}-{re.escape(last)}")
            position += 3
        else:
            parts.append(re.escape(first))
            position += 1
    return "".join(parts)
