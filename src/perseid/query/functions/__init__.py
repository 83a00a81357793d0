"""The tables of built-in functions and aggregates of the query language.

Full-text, vector and spatial functions are not supported. Calls are bound and compiled elsewhere.
"""

from __future__ import annotations

from typing import Final

from perseid.query.functions import (
    arrays,
    conditional,
    conversions,
    dates,
    items,
    mathematics,
    strings,
    typechecks,
)
from perseid.query.functions.aggregates import AGGREGATES, Accumulator
from perseid.query.functions.builtin import Builtin, CallContext

__all__ = ["AGGREGATES", "BUILTINS", "Accumulator", "Builtin", "CallContext", "lookup"]

_TABLES: Final = (arrays, conditional, conversions, dates, items, mathematics, strings, typechecks)

# By upper-case name, with one more entry for each alias.
BUILTINS: Final[dict[str, Builtin]] = {
    name.upper(): function
    for table in _TABLES
    for function in table.FUNCTIONS
    for name in (function.name, *function.aliases)
}


def lookup(name: str) -> Builtin | None:
    """The function of that name, in upper or lower case, or None; aggregates are not included."""
    return BUILTINS.get(name.upper())
