"""A parsed pattern: frozen data, each part with its source in the syntax of Python's `re`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Char:
    """Takes exactly one character."""

    source: str


@dataclass(frozen=True, slots=True)
class Edge:
    """Takes nothing and looks at most one character each way: anchors, word boundaries."""

    source: str


@dataclass(frozen=True, slots=True)
class Lookaround:
    """Takes nothing; `body` has to match, or must not, before or after this place."""

    source: str
    body: PatternNode


@dataclass(frozen=True, slots=True)
class Opaque:
    """What only a backtracking matcher can do; a `body` that has matched is not tried again."""

    source: str
    body: PatternNode | None = None


@dataclass(frozen=True, slots=True)
class Concatenation:
    """All parts, one after the other; with one part it is a group."""

    source: str
    parts: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    source: str
    branches: tuple[PatternNode, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`body` from `low` to `high` times, without limit when `high` is None."""

    source: str
    body: PatternNode
    low: int
    high: int | None


PatternNode = Char | Edge | Lookaround | Opaque | Concatenation | Choice | Loop
