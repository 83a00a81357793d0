"""Aggregates: fed the values of a group one by one, asked once for the result.

Undefined values are skipped by all of them. An aggregate that met a value it has no answer for
stays undefined whatever follows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from perseid.query.functions.totals import is_rankable
from perseid.query.values import UNDEFINED, as_number, canonical, is_number, sort_key


class Aggregate(ABC):
    """The running state of one aggregate over one group."""

    __slots__ = ()

    @abstractmethod
    def add(self, value: Any) -> None:
        """Takes the value of one more row; undefined values change nothing."""

    @abstractmethod
    def result(self) -> Any:
        """The aggregate of what was added so far."""


class Count(Aggregate):
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, value: Any) -> None:
        if value is not UNDEFINED:
            self._count += 1

    def result(self) -> Any:
        return self._count


class CountIf(Count):
    __slots__ = ()

    def add(self, value: Any) -> None:
        if value is True:
            self._count += 1


class Sum(Aggregate):
    __slots__ = ("_count", "_spoilt", "_total")

    def __init__(self) -> None:
        self._total: int | float = 0
        self._count = 0
        self._spoilt = False

    def add(self, value: Any) -> None:
        if is_number(value):
            self._total += as_number(value)
            self._count += 1
        elif value is not UNDEFINED:
            self._spoilt = True

    def result(self) -> Any:
        return UNDEFINED if self._spoilt else as_number(self._total)


class Avg(Sum):
    __slots__ = ()

    def result(self) -> Any:
        return UNDEFINED if self._spoilt or not self._count else self._total / self._count


class Min(Aggregate):
    __slots__ = ("_best", "_key", "_spoilt")

    def __init__(self) -> None:
        self._best: Any = UNDEFINED
        self._key: tuple[Any, ...] | None = None
        self._spoilt = False

    def add(self, value: Any) -> None:
        if value is UNDEFINED:
            return
        if not is_rankable(value):
            self._spoilt = True
            return
        key = sort_key(value)
        if self._key is None or self._is_better(key, self._key):
            self._best, self._key = value, key

    def result(self) -> Any:
        return UNDEFINED if self._spoilt else self._best

    def _is_better(self, key: tuple[Any, ...], best: tuple[Any, ...]) -> bool:
        return key < best


class Max(Min):
    __slots__ = ()

    def _is_better(self, key: tuple[Any, ...], best: tuple[Any, ...]) -> bool:
        return key > best


class MakeList(Aggregate):
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        if value is not UNDEFINED:
            self._values.append(value)

    def result(self) -> Any:
        return list(self._values)


class MakeSet(Aggregate):
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[tuple[Any, ...], Any] = {}

    def add(self, value: Any) -> None:
        if value is not UNDEFINED:
            self._values.setdefault(canonical(value), value)

    def result(self) -> Any:
        return list(self._values.values())


AGGREGATES: Final[dict[str, type[Aggregate]]] = {
    "AVG": Avg,
    "COUNT": Count,
    "COUNTIF": CountIf,
    "MAKELIST": MakeList,
    "MAKESET": MakeSet,
    "MAX": Max,
    "MIN": Min,
    "SUM": Sum,
}
