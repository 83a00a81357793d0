"""Aggregate functions as accumulators: they get the values of a group one by one.

All aggregates skip undefined values. An aggregate that gets a value it cannot use is undefined,
whatever follows. Except for MAKELIST, the result depends neither on the order of the values nor on
whether equal values are added one by one or with a count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, Final

from perseid.query.functions.totals import is_rankable
from perseid.query.values import UNDEFINED, as_number, canonical, is_number, sort_key


class Accumulator(ABC):
    """The running state of one aggregate over one group."""

    __slots__ = ()

    @abstractmethod
    def add(self, value: Any, times: int = 1) -> None:
        """Adds a value `times` times; undefined values change nothing."""

    @abstractmethod
    def result(self) -> Any:
        """The aggregate of the values added so far."""


# Floats that `Sum` collects before it adds them to the exact total.
_MAX_PENDING: Final = 4096


class CountDefined(Accumulator):
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any, times: int = 1) -> None:
        if value is not UNDEFINED:
            self._count += times

    def result(self) -> Any:
        return self._count


class CountIf(CountDefined):
    __slots__ = ()

    def add(self, value: Any, times: int = 1) -> None:
        if value is True:
            self._count += times


class Sum(Accumulator):
    """Exact until the result is rounded once, so the order of the values does not matter."""

    __slots__ = ("_count", "_fractions", "_is_undefined", "_pending", "_special", "_whole")

    def __init__(self) -> None:
        self._whole = 0
        self._fractions: Fraction | None = None  # None while all values are integers
        self._pending: list[float] = []
        self._special = 0.0  # the sum of infinities and NaN
        self._count = 0
        self._is_undefined = False

    def add(self, value: Any, times: int = 1) -> None:
        if not is_number(value):
            self._is_undefined = self._is_undefined or value is not UNDEFINED
            return
        self._count += times
        number = as_number(value)
        if type(number) is int:
            self._whole += number * times
        elif not math.isfinite(number):
            self._special += number
        elif times == 1:
            self._pending.append(float(number))
            if len(self._pending) >= _MAX_PENDING:
                self._add_pending()
        else:
            self._fractions = (self._fractions or Fraction()) + Fraction(number) * times

    def result(self) -> Any:
        return UNDEFINED if self._is_undefined else self._total()

    def _total(self) -> int | float:
        if self._special != 0:  # NaN too
            return self._special
        if self._pending:
            self._add_pending()
        if self._fractions is None:
            return as_number(self._whole)
        try:
            return float(self._fractions + self._whole)
        except OverflowError:
            return math.inf if self._fractions + self._whole > 0 else -math.inf

    def _add_pending(self) -> None:
        """Adds the pending floats to the exact total, a hundred times faster than one by one."""
        total, rest = self._fractions or Fraction(), self._pending
        try:
            # The rounding error of each sum is added up in the next round, until it is 0.
            while rounded := math.fsum(rest):
                total += Fraction(rounded)
                rest.append(-rounded)
        except OverflowError:
            total = sum(map(Fraction, self._pending), self._fractions or Fraction())
        self._fractions, self._pending = total, []


class Avg(Sum):
    __slots__ = ()

    def result(self) -> Any:
        return UNDEFINED if self._is_undefined or not self._count else self._total() / self._count


class Min(Accumulator):
    __slots__ = ("_best", "_is_undefined", "_key")

    def __init__(self) -> None:
        self._best: Any = UNDEFINED
        self._key: tuple[Any, ...] | None = None
        self._is_undefined = False

    def add(self, value: Any, _times: int = 1) -> None:
        if value is UNDEFINED:
            return
        if not is_rankable(value):
            self._is_undefined = True
            return
        key = sort_key(value)
        if self._key is None or self._is_better(key, self._key):
            self._best, self._key = value, key

    def result(self) -> Any:
        return UNDEFINED if self._is_undefined else self._best

    def _is_better(self, key: tuple[Any, ...], best: tuple[Any, ...]) -> bool:
        return key < best


class Max(Min):
    __slots__ = ()

    def _is_better(self, key: tuple[Any, ...], best: tuple[Any, ...]) -> bool:
        return key > best


class MakeList(Accumulator):
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any, times: int = 1) -> None:
        if value is not UNDEFINED:
            self._values += [value] * times

    def result(self) -> Any:
        return list(self._values)


class MakeSet(Accumulator):
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[tuple[Any, ...], Any] = {}

    def add(self, value: Any, _times: int = 1) -> None:
        if value is not UNDEFINED:
            self._values.setdefault(canonical(value), value)

    def result(self) -> Any:
        return list(self._values.values())


AGGREGATES: Final[dict[str, type[Accumulator]]] = {
    "AVG": Avg,
    "COUNT": CountDefined,
    "COUNTIF": CountIf,
    "MAKELIST": MakeList,
    "MAKESET": MakeSet,
    "MAX": Max,
    "MIN": Min,
    "SUM": Sum,
}

# Aggregates whose results contain all values.
LISTS: Final = frozenset({"MAKELIST", "MAKESET"})
