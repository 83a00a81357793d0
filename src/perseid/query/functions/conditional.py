"""Functions that return one of their arguments; the others may be undefined."""

from __future__ import annotations

from typing import Any, Final

from perseid.query.functions.builtin import INTEGER, MAYBE, Builtin
from perseid.query.values import UNDEFINED


def iif(condition: Any, when_true: Any, otherwise: Any) -> Any:
    return when_true if condition is True else otherwise


def choose(position: int, *choices: Any) -> Any:
    return choices[position - 1] if 1 <= position <= len(choices) else UNDEFINED


FUNCTIONS: Final = (
    Builtin("CHOOSE", (INTEGER, MAYBE), choose, rest=MAYBE),
    Builtin("IIF", (MAYBE, MAYBE, MAYBE), iif),
)
