"""Translates SQL with named values, which both databases share, for PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

# A name after one colon; two colons are a cast.
_NAME: Final = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


# `conditions_sql` writes names so, and doubles other percent signs.
_MARK: Final = re.compile(r"%%|%\(([a-z_][a-z0-9_]*)\)s")


def positional_marks(sql: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The same for names that are written as the driver has them, which converts them slower."""
    text, names = _translated_marks(sql)
    return text, [values[name] for name in names]


@lru_cache(maxsize=4096)
def _translated_marks(sql: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}

    def place(match: re.Match[str]) -> str:
        name = match[1]
        return "%" if name is None else f"${names.setdefault(name, len(names) + 1)}"

    return _MARK.sub(place, sql), tuple(names)


def positional(sql: str, values: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The statement with $1, $2, … for its names, and the values in that order."""
    text, names = _translated(sql)
    return text, [values[name] for name in names]


@lru_cache(maxsize=4096)
def _translated(sql: str) -> tuple[str, tuple[str, ...]]:
    names: dict[str, int] = {}
    text = _NAME.sub(lambda match: f"${names.setdefault(match[1], len(names) + 1)}", sql)
    return text, tuple(names)
