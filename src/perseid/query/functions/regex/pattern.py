"""Compiled patterns, and the choice between `re` and the linear matcher for each text.

Python's `re` searches a text if even its worst case is short, otherwise the linear matcher, which
supports everything but back references, atomic groups and possessive quantifiers. The limits:

- a pattern has at most `MAX_PATTERN` characters, and `MAX_SIZE` nodes with its counts expanded;
- `re` is used if start positions times ways to match times nodes are at most `MAX_TRIES`;
- the linear matcher is used if the length of the text times the nodes is at most `MAX_WORK`.

Beyond them the result is undefined, as it is for an invalid pattern. `\\w`, `\\d` and `\\b` follow
Unicode; a dot matches one character, not one UTF-16 unit.
"""

from __future__ import annotations

import math
import re
from functools import cached_property, lru_cache
from typing import Final, assert_never

from perseid.query.functions.regex.linear_matcher import LinearMatcher
from perseid.query.functions.regex.nodes import (
    Boundary,
    Char,
    Choice,
    Concatenation,
    Lookaround,
    Loop,
    Opaque,
    PatternNode,
)
from perseid.query.functions.regex.parser import MODIFIERS, parse
from perseid.query.values import UNDEFINED, Undefined

MAX_PATTERN: Final = 10_000
MAX_SIZE: Final = 100_000
MAX_TRIES: Final = 30_000_000
MAX_WORK: Final = 3_000_000


class Pattern:
    """A compiled pattern."""

    def __init__(self, node: PatternNode) -> None:
        self._node = node
        self._regex = re.compile(node.source)
        self._size = _size(node)
        self._is_regular = _is_regular(node)
        self._tries: dict[int, float] = {}

    def search(self, text: str) -> bool | Undefined:
        """True if some part of `text` matches; undefined if the search would take too long."""
        length = len(text)
        if self._tries_for(length) <= MAX_TRIES:
            return self._regex.search(text) is not None
        inner = (length + 1) * _inner_ways(self._node, length)
        if self._is_regular and max(self._size * length, inner) <= MAX_WORK:
            return self._linear_matcher.search(text)
        return UNDEFINED

    @cached_property
    def _linear_matcher(self) -> LinearMatcher:
        return LinearMatcher(self._node)

    def _tries_for(self, length: int) -> float:
        # Rounded up to a power of two: few estimates to keep, and none is too low.
        rounded = 1 << length.bit_length()
        if rounded not in self._tries:
            ways = _ways(self._node, rounded) * _inner_ways(self._node, rounded)
            self._tries[rounded] = rounded * ways * self._size
        return self._tries[rounded]


@lru_cache(maxsize=512)
def compiled(pattern: str, modifiers: str = "") -> Pattern | None:
    """The compiled pattern, or None if it is invalid, unsupported or too large."""
    if len(pattern) > MAX_PATTERN or not MODIFIERS.issuperset(modifiers):
        return None
    try:
        node = parse(pattern, modifiers)
        return Pattern(node) if _size(node) <= MAX_SIZE else None
    except (ValueError, re.error, OverflowError, RecursionError):  # PatternError is a ValueError
        return None


def _size(node: PatternNode) -> float:
    """How many nodes the pattern has with its counts expanded."""
    match node:
        case Char() | Boundary():
            return 1
        case Lookaround():
            return 1 + _size(node.body)
        case Opaque():
            return 1 + (_size(node.body) if node.body else 0)
        case Concatenation():
            return 1 + sum(map(_size, node.parts))
        case Choice():
            return 1 + sum(map(_size, node.branches))
        case Loop():
            return 1 + _size(node.body) * max(node.low + 1, node.high or 0)
        case _:
            assert_never(node)


def _ways(node: PatternNode, length: int) -> float:
    """The most ways in which backtracking can match one piece of text of that length."""
    match node:
        case Char() | Boundary() | Lookaround() | Opaque():
            return 1
        case Concatenation():
            return math.prod(_ways(part, length) for part in node.parts)
        case Choice():
            return sum(_ways(branch, length) for branch in node.branches)
        case Loop():
            return _loop_ways(_ways(node.body, length), node, length)
        case _:
            assert_never(node)


def _loop_ways(body: float, loop: Loop, length: int) -> float:
    if body <= 1:
        optional_rounds = length if loop.high is None else min(length, loop.high - loop.low)
        return optional_rounds + 1
    # The ways of the body multiply with every round.
    rounds = length if loop.high is None else loop.high
    return math.inf if rounds * math.log(body) > math.log(MAX_TRIES) else body**rounds * rounds


def _inner_ways(node: PatternNode, length: int) -> float:
    """The most ways within one lookaround or atomic group, which is matched separately."""
    match node:
        case Char() | Boundary():
            return 1
        case Lookaround() | Opaque():
            body = node.body
            return _ways(body, length) * _inner_ways(body, length) if body else 1
        case Concatenation():
            return max((_inner_ways(part, length) for part in node.parts), default=1)
        case Choice():
            return max(_inner_ways(branch, length) for branch in node.branches)
        case Loop():
            return _inner_ways(node.body, length)
        case _:
            assert_never(node)


def _is_regular(node: PatternNode) -> bool:
    """True if the linear matcher supports the pattern."""
    match node:
        case Char() | Boundary():
            return True
        case Lookaround():
            return _is_regular(node.body)
        case Opaque():
            return False
        case Concatenation():
            return all(map(_is_regular, node.parts))
        case Choice():
            return all(map(_is_regular, node.branches))
        case Loop():
            return _is_regular(node.body)
        case _:
            assert_never(node)
