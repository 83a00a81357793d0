"""Regular expressions in the PCRE dialect that cannot keep the server busy.

Python's `re` runs them when even its worst case is short. Otherwise a linear matcher does, which
knows everything but references to groups, atomic groups and possessive quantifiers. The bounds:

- a pattern has at most `MAX_PATTERN` characters, and `MAX_SIZE` parts once counts are written out;
- `re` gets a text when places to start times ways to go on times parts is at most `MAX_TRIES`;
- the linear matcher gets a text when its length times the parts is at most `MAX_WORK`.

Past them there is no answer, as for text that is no pattern at all. `\\w`, `\\d` and `\\b` follow
Unicode; a dot is one character, not one UTF-16 unit.
"""

from __future__ import annotations

import math
import re
from functools import cached_property, lru_cache
from typing import Final, assert_never

from perseid.query.functions.regex.machine import Machine
from perseid.query.functions.regex.nodes import (
    Char,
    Choice,
    Concatenation,
    Edge,
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
    """A pattern ready for searching."""

    def __init__(self, node: PatternNode) -> None:
        self._node = node
        self._regex = re.compile(node.source)
        self._size = _size(node)
        self._is_regular = _is_regular(node)
        self._tries: dict[int, float] = {}

    def search(self, text: str) -> bool | Undefined:
        """True when some part of `text` matches, undefined when finding out takes too long."""
        length = len(text)
        if self._tries_for(length) <= MAX_TRIES:
            return self._regex.search(text) is not None
        inner = (length + 1) * _inner_ways(self._node, length)
        if self._is_regular and max(self._size * length, inner) <= MAX_WORK:
            return self._machine.search(text)
        return UNDEFINED

    @cached_property
    def _machine(self) -> Machine:
        return Machine(self._node)

    def _tries_for(self, length: int) -> float:
        # Rounded up to a power of two: few different lengths to estimate, and never too low.
        rounded = 1 << length.bit_length()
        if rounded not in self._tries:
            ways = _ways(self._node, rounded) * _inner_ways(self._node, rounded)
            self._tries[rounded] = rounded * ways * self._size
        return self._tries[rounded]


@lru_cache(maxsize=512)
def compiled(pattern: str, modifiers: str = "") -> Pattern | None:
    """The pattern read with `modifiers`, or None for text that is not a usable pattern."""
    if len(pattern) > MAX_PATTERN or not MODIFIERS.issuperset(modifiers):
        return None
    try:
        node = parse(pattern, modifiers)
        return Pattern(node) if _size(node) <= MAX_SIZE else None
    except (ValueError, re.error, OverflowError, RecursionError):  # ValueError: PatternError too
        return None


def _size(node: PatternNode) -> float:
    """How many parts the pattern has when every count is written out."""
    match node:
        case Char() | Edge():
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
    """In how many ways backtracking may match one piece of text of that length, at most."""
    match node:
        case Char() | Edge() | Lookaround() | Opaque():
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
        spare = length if loop.high is None else min(length, loop.high - loop.low)
        return spare + 1
    # A body that can go several ways multiplies with every round.
    rounds = length if loop.high is None else loop.high
    return math.inf if rounds * math.log(body) > math.log(MAX_TRIES) else body**rounds * rounds


def _inner_ways(node: PatternNode, length: int) -> float:
    """The most ways within one assertion or atomic group: those are decided once, and apart."""
    match node:
        case Char() | Edge():
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
    """True when the linear matcher can run the pattern."""
    match node:
        case Char() | Edge():
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
