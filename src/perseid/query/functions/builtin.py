"""The definition of a built-in function: its name, its argument types and its body.

Argument types are checked in `Builtin.call` only. A body is called with arguments of the types that
its definition lists; otherwise it is not called and the result is undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from perseid.query.values import UNDEFINED, as_number, is_integer, is_number
from perseid.query.work_limit import EXPENSIVE_STEPS, WorkLimit, steps_of_values

# Returns the argument as the body needs it, or UNDEFINED if it has the wrong type.
ArgumentType = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a function may use besides its arguments: time, random numbers and the work limit."""

    now: float
    random: Callable[[], float]
    work_limit: WorkLimit = field(default_factory=WorkLimit)


def STRING(v: Any) -> Any:  # noqa: N802  # used like constants in the tables
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
    """An integer of 64 bits; the body gets an `int`."""
    return int(v) if is_integer(v) else UNDEFINED


def ARRAY(v: Any) -> Any:  # noqa: N802
    return v if type(v) is list else UNDEFINED


def OBJECT(v: Any) -> Any:  # noqa: N802
    return v if type(v) is dict else UNDEFINED


def ANY(v: Any) -> Any:  # noqa: N802
    """Any defined value."""
    return v


def MAYBE(v: Any) -> Any:  # noqa: N802
    """Any value; the only argument type that passes undefined to the body."""
    return v


@dataclass(frozen=True, slots=True)
class Builtin:
    """One row of a function table.

    `rest` is the type of any number of further arguments. A `timed` function depends on the time of
    the run, a `random` one differs for each row; both get the context as first argument. An
    `expensive` function may take long or return far more than it got, even for small arguments.
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

        Raises only what the work limit raises to stop the evaluation.
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
            result = self.body(*accepted)
        except RecursionError:  # deeper than any stored item can be
            return UNDEFINED
        if self.expensive and (steps := steps_of_values((result,))):
            ctx.work_limit.spend(steps)  # it may be far larger than the arguments
        return result
