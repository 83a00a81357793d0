"""The grammar of index paths: `/a/b/?`, `/"any name"/*`, `/list/[]/x/?`, `/list/[]/{a, b}/?`.

Checks whether a path is well formed, and makes spellings of the same path equal. `charges.py`
decides which values of an item a path covers.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, TypeAlias, TypeGuard

from perseid.errors import BadRequest
from perseid.paths import Segment, parse_path, split_path
from perseid.service.definitions.json_types import invalid

ROOT: Final = "/*"


class PolicyPathStep(NamedTuple):
    """One step of a path: a label, one of the marks [] * ?, or the names of a tuple."""

    kind: Literal["label", "mark", "tuple"]
    text: str


PolicyPath: TypeAlias = tuple[PolicyPathStep, ...]

_ELEMENTS: Final = PolicyPathStep("mark", "[]")
_SCALAR: Final = PolicyPathStep("mark", "?")
_EVERYTHING: Final = PolicyPathStep("mark", "*")
_MARKS: Final = {step.text: step for step in (_ELEMENTS, _SCALAR, _EVERYTHING)}
_ENDINGS: Final = frozenset((_SCALAR, _EVERYTHING))

# Without quotes a label is letters, digits and underscores.
_PLAIN: Final = re.compile(r"\w+")


def index_path(text: str) -> PolicyPath:
    """The steps of an included, excluded or spatial path; equal paths have equal steps."""
    steps = _steps(text)
    for i, step in enumerate(steps):
        # a tuple names properties of array elements, so it needs [] before it and /? after it
        stray_tuple = step.kind == "tuple" and (
            steps[max(i - 1, 0)] != _ELEMENTS or steps[i + 1 :] != (_SCALAR,)
        )
        if stray_tuple or (step in _ENDINGS and i != len(steps) - 1):
            raise _unacceptable(text)
    return steps


def composite_path(text: str) -> PolicyPath:
    """The steps of a composite index path: labels and [], ending in a label."""
    steps = _steps(text)
    if steps[-1].kind != "label" or any(
        step.kind != "label" and step != _ELEMENTS for step in steps
    ):
        raise _unacceptable(text)
    return steps


def is_property_path(value: object) -> TypeGuard[str]:
    """True if the value is a path to one property, as unique keys and vectors need it."""
    try:
        return isinstance(value, str) and bool(parse_path(value))
    except BadRequest:
        return False


def _steps(text: str) -> PolicyPath:
    try:
        segments = split_path(text)
    except BadRequest:
        raise _unacceptable(text) from None
    return tuple(_step(segment, text) for segment in segments)


def _step(segment: Segment, path: str) -> PolicyPathStep:
    name = segment.name
    if segment.quoted or _PLAIN.fullmatch(name):
        return PolicyPathStep("label", name)
    if name in _MARKS:
        return _MARKS[name]
    if name.startswith("{") and name.endswith("}"):
        names = [part.strip() for part in name[1:-1].split(",")]
        if all(map(_PLAIN.fullmatch, names)):
            return PolicyPathStep("tuple", ",".join(names))
    raise _unacceptable(path)


def _unacceptable(path: str) -> BadRequest:
    return invalid(
        f"The indexing path '{path}' could not be accepted. Please ensure that the path is a valid"
        " path. Common errors include invalid characters or absence of quotes around labels."
    )
