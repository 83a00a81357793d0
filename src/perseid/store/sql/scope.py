"""The scope of a search besides its condition, as SQL for either database.

`mark` writes the placeholder for the value of a name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

from perseid.model import RANGE_SHIFT
from perseid.store.types import Search

Mark: TypeAlias = Callable[[str], str]


class _Shape(NamedTuple):
    """Which parts a scope has; searches of the same shape share their SQL text."""

    has_range: bool
    key: Literal["any", "partition", "prefix"]
    has_epk_min: bool
    has_epk_max: bool
    filters_expired: bool


def scope_sql(search: Search, mark: Mark, live: str) -> tuple[str, dict[str, Any]]:
    """The whole scope and its values; `live` is the liveness test in the same dialect."""
    # One row more than fits tells that there are others.
    values: dict[str, Any] = {"after": search.after, "limit": search.limit + 1}
    if search.range_index is not None:
        values["first"] = search.range_index << RANGE_SHIFT
        values["last"] = (search.range_index + 1) << RANGE_SHIFT
    _bind_key(search, values)
    cutoff = search.cutoff
    if not cutoff.expires_nothing:
        values["inherited"], values["own"] = cutoff.inherited, cutoff.own
    return _scope_text(_shape(search), mark, live), values


def key_sql(search: Search, values: dict[str, Any], mark: Mark) -> str:
    """The logical partition, key prefix or interval of hashes; adds their values."""
    _bind_key(search, values)
    return _key_text(_shape(search), mark)


def _shape(search: Search) -> _Shape:
    key: Literal["any", "partition", "prefix"] = "any"
    if search.pk_prefix is not None:
        key = "prefix" if search.is_prefix else "partition"
    return _Shape(
        search.range_index is not None,
        key,
        search.epk_min is not None,
        search.epk_max is not None,
        not search.cutoff.expires_nothing,
    )


@lru_cache(maxsize=256)
def _scope_text(shape: _Shape, mark: Mark, live: str) -> str:
    text = f"number > {mark('after')}"
    if shape.has_range:
        text += f" AND number >= {mark('first')} AND number < {mark('last')}"
    text += _key_text(shape, mark)
    if shape.filters_expired:
        text += f" AND {live}"
    return text


def _bind_key(search: Search, values: dict[str, Any]) -> None:
    if search.pk_prefix is not None:
        values["pk"] = search.pk_prefix
        if search.is_prefix:
            values["pk_end"] = search.pk_prefix + b"\xff"
    if search.epk_min is not None:
        values["epk_min"] = search.epk_min
    if search.epk_max is not None:
        values["epk_max"] = search.epk_max


def _key_text(shape: _Shape, mark: Mark) -> str:
    text = ""
    if shape.key == "prefix":
        text += f" AND pk >= {mark('pk')} AND pk < {mark('pk_end')}"
    elif shape.key == "partition":
        text += f" AND pk = {mark('pk')}"
    if shape.has_epk_min:
        text += f" AND epk >= {mark('epk_min')}"
    if shape.has_epk_max:
        text += f" AND epk < {mark('epk_max')}"
    return text
