"""Three-valued AND and OR: over any number of true, false and undefined."""

from __future__ import annotations

from collections.abc import Iterable

from perseid.query.values import UNDEFINED, Undefined

Truth = bool | Undefined


def conjunction(truths: Iterable[Truth]) -> Truth:
    """False if one is false, otherwise undefined if one is undefined, otherwise true."""
    return _decided_by(False, truths)


def disjunction(truths: Iterable[Truth]) -> Truth:
    """True if one is true, otherwise undefined if one is undefined, otherwise false."""
    return _decided_by(True, truths)


def _decided_by(decisive: bool, truths: Iterable[Truth]) -> Truth:
    result: Truth = not decisive
    for truth in truths:
        if truth is decisive:
            return decisive
        if truth is UNDEFINED:
            result = UNDEFINED
    return result
