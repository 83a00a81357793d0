"""The nodes of a parsed pattern: immutable data, each with its source for Python's `re`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Char:
    """Matches exactly one character."""

    source: str


@dataclass(frozen=True, slots=True)
class Boundary:
    """Matches a position by the characters next to it: line starts and ends, word boundaries."""

    source: str


@dataclass(frozen=True, slots=True)
class Lookaround:
    """Matches a position if `body` matches, or does not match, before or after it."""

    source: str
    body: PatternNode


@dataclass(frozen=True, slots=True)
class Opaque:
    """Needs backtracking: a back reference (no `body`), or an atomic group around `body`."""

    source: str
    body: PatternNode | None = None


@dataclass(frozen=True, slots=True)
class Concatenation:
    """All parts, one after the other; a group is a concatenation of one part."""

    source: str
    parts: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the branches."""

    source: str
    branches: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` repeated `low` to `high` times; no upper limit if `high` is None."""

    source: str
    body: PatternNode
    low: int
    high: int | None


PatternNode = Char | Boundary | Lookaround | Opaque | Concatenation | Choice | Loop
