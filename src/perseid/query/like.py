"""Patterns of LIKE: `%` for any text, `_` for a character, `[a-z]` and `[^a-z]` for one of some."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from perseid.query.values import UNDEFINED

# Places in a text times parts of a stretch; a second or so.
_MOST_WORK: Final = 300_000_000
# As much of it as is done before other threads have their turn; some milliseconds.
_WORK_AT_ONCE: Final = 1_000_000
_NO_CHARACTER: Final = r"[^\x00-\U0010ffff]"
_PIECE: Final = re.compile(r"\[\^?[^\]]+\]|.", re.DOTALL)


@lru_cache(maxsize=256)
def matcher(pattern: str, escape: str) -> Callable[[str], Any]:
    """A test of whole texts against a LIKE pattern; undefined where it would take too long.

    The stretches between the `%` are looked for one after the other, each at the first place it
    fits: as exact as a regular expression with `.*` between them, without its backtracking.
    """
    stretches = _stretches(pattern, escape)
    head, *others = [re.compile("".join(parts), re.DOTALL) for parts in stretches]
    if not others:
        return lambda text: head.fullmatch(text) is not None
    tail, tail_length = others.pop(), len(stretches[-1])
    middle = [(part, len(parts)) for part, parts in zip(others, stretches[1:], strict=False)]
    # Where a stretch may fit is tried place by place, unless it is plain text.
    work = max((len(parts) for parts in stretches[1:-1] if not _is_plain(parts)), default=0)

    def matches(text: str) -> Any:
        if work * len(text) > _MOST_WORK:
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
    """The first place of a stretch of so many characters; long texts are searched bit by bit."""
    if len(text) * length <= _WORK_AT_ONCE:
        return part.search(text, start)
    step = _WORK_AT_ONCE // max(length, 1) + 1
    for first in range(start, len(text) - length + 1, step):
        matched = part.search(text, first, first + step + length - 1)
        if matched is not None:
            return matched
    return None


def _is_plain(parts: list[str]) -> bool:
    return all((len(part) == 1 and part != ".") or part[0] == "\\" for part in parts)


def _stretches(pattern: str, escape: str) -> list[list[str]]:
    """What stands between the `%` of a pattern: a regular expression for each character."""
    stretches: list[list[str]] = [[]]
    position = 0
    while position < len(pattern):
        if pattern[position] == escape and position + 1 < len(pattern):
            stretches[-1].append(re.escape(pattern[position + 1]))
            position += 2
            continue
        piece = _PIECE.match(pattern, position)
        assert piece is not None  # noqa: S101  # the last alternative takes any character
        position = piece.end()
        if piece[0] == "%":
            stretches.append([])
        else:
            stretches[-1].append(_piece(piece[0]))
    return stretches


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
    """The inside of a bracket; a range that runs backwards holds nothing and is left out."""
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
