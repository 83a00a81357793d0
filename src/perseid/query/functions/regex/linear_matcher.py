"""A matcher whose time is proportional to the length of the text, for every pattern.

The pattern is compiled into steps, the states of a nondeterministic automaton. A search follows all
possible steps at once, one character at a time. Each set of steps that occurs is kept, with the set
that follows it for each character, so most characters cost one lookup. The result is only whether
there is a match, so greediness and the order of alternatives do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, assert_never

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

# Transitions to keep; beyond that all are dropped. Most patterns need a few dozen.
MAX_TRANSITIONS: Final = 10_000

_Test = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _CharStep:
    """Leads to step `then` if the next character passes the test."""

    test: _Test
    then: int


@dataclass(frozen=True, slots=True)
class _AssertionStep:
    """Leads to step `then` if assertion number `assertion` is true at this position."""

    assertion: int
    then: int


@dataclass(frozen=True, slots=True)
class _Fork:
    """Leads to each of the steps `targets`."""

    targets: tuple[int, ...]


_Step = _CharStep | _AssertionStep | _Fork
_ACCEPT: Final = 0


class LinearMatcher:
    """The steps of one pattern and the transitions seen so far."""

    def __init__(self, node: PatternNode) -> None:
        self._steps: list[_Step] = [_Fork(())]  # step 0 is the match
        self._tests: dict[str, _Test] = {}
        self._assertions: list[_Test] = []
        self._assertion_numbers: dict[str, int] = {}
        self._start = self._emit(node, _ACCEPT)
        self._clear_states()

    def search(self, text: str) -> bool:
        """True if some part of `text` matches."""
        state, transitions = self._move(frozenset(), "", self._assertions_at(text, 0))
        for position, char in enumerate(text, 1):
            if _ACCEPT in state:
                return True
            assertions = self._assertions_at(text, position)
            next_state = transitions.get((char, assertions))
            if next_state is None:
                next_state = transitions[char, assertions] = self._move(state, char, assertions)
            state, transitions = next_state
        return _ACCEPT in state

    # --- running

    def _clear_states(self) -> None:
        self._transitions = 0
        # For each set of steps: the set, and the next one by character and true assertions.
        self._states: dict[frozenset[int], tuple[frozenset[int], dict[Any, Any]]] = {}

    def _assertions_at(self, text: str, position: int) -> tuple[bool, ...]:
        return tuple(test(text, position) is not None for test in self._assertions)

    def _move(
        self, state: frozenset[int], char: str, assertions: tuple[bool, ...]
    ) -> tuple[frozenset[int], dict[Any, Any]]:
        """The state after `char`; the match may also start here."""
        reached = [self._start]
        for number in state:
            step = self._steps[number]
            if isinstance(step, _CharStep) and step.test(char):
                reached.append(step.then)
        next_state = self._closure(reached, assertions)
        self._transitions += 1
        if self._transitions > MAX_TRANSITIONS:
            self._clear_states()
        return self._states.setdefault(next_state, (next_state, {}))

    def _closure(self, pending: list[int], assertions: tuple[bool, ...]) -> frozenset[int]:
        """The steps reached that test a character or are the match."""
        seen: set[int] = set()
        reached: set[int] = set()
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            step = self._steps[number]
            if isinstance(step, _Fork):
                pending.extend(step.targets)
            elif isinstance(step, _CharStep):
                reached.add(number)
            elif assertions[step.assertion]:
                pending.append(step.then)
        if _ACCEPT in seen:
            reached.add(_ACCEPT)
        return frozenset(reached)

    # --- compiling, from the end to the start: a step needs the number of the next one

    def _emit(self, node: PatternNode, then: int) -> int:
        match node:
            case Char():
                return self._add(_CharStep(self._test(node.source), then))
            case Boundary() | Lookaround():
                return self._add(_AssertionStep(self._assertion(node.source), then))
            case Concatenation():
                for part in reversed(node.parts):
                    then = self._emit(part, then)
                return then
            case Choice():
                return self._add(_Fork(tuple(self._emit(branch, then) for branch in node.branches)))
            case Loop():
                return self._emit_loop(node, then)
            case Opaque():
                raise AssertionError("the pattern needs the backtracking matcher")
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

    def _assertion(self, source: str) -> int:
        if source not in self._assertion_numbers:
            self._assertion_numbers[source] = len(self._assertions)
            self._assertions.append(re.compile(source).match)
        return self._assertion_numbers[source]
