"""What a built-in function is: its name, what it takes, and the body that is its idea.

The wrapper here is the only place that looks at argument types. A body sees arguments of the kinds
its row asks for, or is not called at all and the result is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perseid.query.values import UNDEFINED, as_number, is_integer, is_number
from perseid.query.work_limit import EXPENSIVE_STEPS, WorkLimit, steps_of_values

# A kind gives the argument as the body wants it, or UNDEFINED to refuse it.
ArgumentType = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class CallContext:
    """The world outside the arguments: the time, a source of chance, and who may say stop."""

    now: float
    random: Callable[[], float]
    work_limit: WorkLimit = field(default_factory=WorkLimit)


def STRING(v: Any) -> Any:  # noqa: N802  # kinds read as constants in the tables
    return v if type(v) is str else UNDEFINED


def BOOL(v: Any) -> Any:  # noqa: N802
    return v if type(v) is bool else UNDEFINED


def NUMBER(v: Any) -> Any:  # noqa: N802
    return as_number(v) if is_number(v) else UNDEFINED


def INTEGER(v: Any) -> Any:  # noqa: N802
    """A number without a fraction, of any size; the body gets an `int`."""
    if type(v) is float:
        return int(v) if v.is_integer() else UNDEFINED
    return v if type(v) is int else UNDEFINED


def INT64(v: Any) -> Any:  # noqa: N802
    """A whole number of 64 bits; the body gets an `int`."""
    return int(v) if is_integer(v) else UNDEFINED


def ARRAY(v: Any) -> Any:  # noqa: N802
    return v if type(v) is list else UNDEFINED


def OBJECT(v: Any) -> Any:  # noqa: N802
    return v if type(v) is dict else UNDEFINED


def ANY(v: Any) -> Any:  # noqa: N802
    """Any value that is defined."""
    return v


def MAYBE(v: Any) -> Any:  # noqa: N802
    """Any value, undefined too; the only kind that lets undefined through to the body."""
    return v


@dataclass(frozen=True, slots=True)
class Builtin:
    """One row of a table of functions.

    `rest` is the kind of any number of further arguments. A body that is `timed`, and so answers
    the same during one run only, or `random` gets the context as its first argument, since nothing
    else could make its answers differ. A `heavy` one may take long, or give far more than it got,
    whatever its arguments look like.
    """

    name: str
    takes: tuple[ArgumentType, ...]
    body: Callable[..., Any]
    optional: tuple[ArgumentType, ...] = ()
    rest: ArgumentType | None = None
    timed: bool = False
    random: bool = False
    expensive: bool = False
    aliases: tuple[str, ...] = ()
    _argument_types: tuple[ArgumentType, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_argument_types", self.takes + self.optional)

    @property
    def deterministic(self) -> bool:
        return not (self.timed or self.random)

    @property
    def min_args(self) -> int:
        return len(self.takes)

    @property
    def max_args(self) -> int | None:
        """None when there is no limit."""
        return None if self.rest else len(self._argument_types)

    def call(self, ctx: CallContext, args: Sequence[Any]) -> Any:
        """The result for `args`, whose number the binder has checked.

        It raises nothing but what the effort does, when all of it has been too much.
        """
        argument_types = self._argument_types
        if self.rest and len(args) > len(argument_types):
            argument_types += (self.rest,) * (len(args) - len(argument_types))
        accepted: list[Any] = [ctx] if self.timed or self.random else []
        for argument_type, arg in zip(argument_types, args, strict=False):
            value = argument_type(arg)
            if value is UNDEFINED and argument_type is not MAYBE:
                return UNDEFINED
            accepted.append(value)
        steps = steps_of_values(args)
        if self.expensive:
            steps += EXPENSIVE_STEPS
        if steps:
            ctx.work_limit.spend(steps)
        try:
            return self.body(*accepted)
        except RecursionError:  # nested deeper than Python walks; no stored item is
            return UNDEFINED
