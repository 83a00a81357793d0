"""A matcher whose time grows with the length of the text and never with its luck.

The pattern becomes a small program; the machine runs all its threads at once, one character at a
time. Each set of threads gets a number and remembers where each character led, so text soon runs
along known ways. It only says whether there is a match, which makes greed and order irrelevant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, assert_never

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

# Known ways are forgotten beyond this; most patterns need a few dozen.
MAX_KNOWN: Final = 10_000

_Test = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Take:
    """Goes on to `then` if the next character passes."""

    test: _Test
    then: int


@dataclass(frozen=True, slots=True)
class _Check:
    """Goes on to `then` if assertion number `edge` holds here."""

    edge: int
    then: int


@dataclass(frozen=True, slots=True)
class _Fork:
    """Goes on to each of `targets`."""

    targets: tuple[int, ...]


_Step = _Take | _Check | _Fork
_ACCEPT: Final = 0


class Machine:
    """The program of one pattern and the ways found so far."""

    def __init__(self, node: PatternNode) -> None:
        self._steps: list[_Step] = [_Fork(())]  # step 0 accepts
        self._tests: dict[str, _Test] = {}
        self._edges: list[_Test] = []
        self._edge_numbers: dict[str, int] = {}
        self._start = self._emit(node, _ACCEPT)
        self._clear_states()

    def search(self, text: str) -> bool:
        """True when some part of `text` matches."""
        state, known = self._move(frozenset(), "", self._edges_at(text, 0))
        for at, char in enumerate(text, 1):
            if _ACCEPT in state:
                return True
            edges = self._edges_at(text, at)
            next_state = known.get((char, edges))
            if next_state is None:
                next_state = known[char, edges] = self._move(state, char, edges)
            state, known = next_state
        return _ACCEPT in state

    # --- running

    def _clear_states(self) -> None:
        self._known = 0
        # Each state: its threads, and for each character and outcome of the edges the next one.
        self._states: dict[frozenset[int], tuple[frozenset[int], dict[Any, Any]]] = {}

    def _edges_at(self, text: str, at: int) -> tuple[bool, ...]:
        return tuple(edge(text, at) is not None for edge in self._edges)

    def _move(
        self, state: frozenset[int], char: str, edges: tuple[bool, ...]
    ) -> tuple[frozenset[int], dict[Any, Any]]:
        """The state after `char`, with a new thread that starts here."""
        reached = [self._start]
        for number in state:
            step = self._steps[number]
            if isinstance(step, _Take) and step.test(char):
                reached.append(step.then)
        threads = self._closure(reached, edges)
        self._known += 1
        if self._known > MAX_KNOWN:
            self._clear_states()
        return self._states.setdefault(threads, (threads, {}))

    def _closure(self, pending: list[int], edges: tuple[bool, ...]) -> frozenset[int]:
        """The threads that wait for a character, or have accepted."""
        seen: set[int] = set()
        waiting: set[int] = set()
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            step = self._steps[number]
            if isinstance(step, _Fork):
                pending.extend(step.targets)
            elif isinstance(step, _Take):
                waiting.add(number)
            elif edges[step.edge]:
                pending.append(step.then)
        if _ACCEPT in seen:
            waiting.add(_ACCEPT)
        return frozenset(waiting)

    # --- building, from the end to the start so that each step knows what follows it

    def _emit(self, node: PatternNode, then: int) -> int:
        match node:
            case Char():
                return self._add(_Take(self._test(node.source), then))
            case Edge() | Lookaround():
                return self._add(_Check(self._edge(node.source), then))
            case Concatenation():
                for part in reversed(node.parts):
                    then = self._emit(part, then)
                return then
            case Choice():
                return self._add(_Fork(tuple(self._emit(one, then) for one in node.branches)))
            case Loop():
                return self._emit_loop(node, then)
            case Opaque():
                raise AssertionError("a pattern for the backtracking matcher only")
            case _:
                assert_never(node)

    def _emit_loop(self, loop: Loop, then: int) -> int:
        first = then
        if loop.high is None:
            first = self._add(_Fork(()))
            self._steps[first] = _Fork((self._emit(loop.body, first), then))
        else:
            for _ in range(loop.high - loop.low):
                first = self._add(_Fork((self._emit(loop.body, first), then)))
        for _ in range(loop.low):
            first = self._emit(loop.body, first)
        return first

    def _add(self, step: _Step) -> int:
        self._steps.append(step)
        return len(self._steps) - 1

    def _test(self, source: str) -> _Test:
        if source not in self._tests:
            self._tests[source] = re.compile(source).match
        return self._tests[source]

    def _edge(self, source: str) -> int:
        if source not in self._edge_numbers:
            self._edge_numbers[source] = len(self._edges)
            self._edges.append(re.compile(source).match)
        return self._edge_numbers[source]
