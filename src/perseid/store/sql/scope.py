"""The scope of a search besides its condition, as SQL for either database.

`mark` writes the placeholder for the value of a name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from perseid.model import RANGE_SHIFT
from perseid.store.types import Search

Mark: TypeAlias = Callable[[str], str]


class _KeyShape(NamedTuple):
    """Which parts of a key a search names."""

    has_pk: bool
    is_prefix: bool
    has_epk_min: bool
    has_epk_max: bool


_ANY_KEY: Final = _KeyShape(False, False, False, False)


def scope_sql(search: Search, mark: Mark, live: str) -> tuple[str, dict[str, Any]]:
    """The whole scope and its values; `live` is the liveness test in the same dialect."""
    # One row more than fits tells that there are others.
    values: dict[str, Any] = {"after": search.after, "limit": search.limit + 1}
    has_range = search.range_index is not None
    if search.range_index is not None:
        values["first"] = search.range_index << RANGE_SHIFT
        values["last"] = (search.range_index + 1) << RANGE_SHIFT
    key = _bind_key(search, values)
    cutoff = search.cutoff
    filters_expired = not cutoff.expires_nothing
    if filters_expired:
        values["inherited"], values["own"] = cutoff.inherited, cutoff.own
    return _scope_text(has_range, key, filters_expired, mark, live), values


def key_sql(search: Search, values: dict[str, Any], mark: Mark) -> str:
    """The logical partition, key prefix or interval of hashes; adds their values."""
    return _key_text(_bind_key(search, values), mark)


@lru_cache(maxsize=256)
def _scope_text(
    has_range: bool, key: _KeyShape, filters_expired: bool, mark: Mark, live: str
) -> str:
    """Searches of the same shape share their text."""
    text = f"number > {mark('after')}"
    if has_range:
        text += f" AND number >= {mark('first')} AND number < {mark('last')}"
    text += _key_text(key, mark)
    if filters_expired:
        text += f" AND {live}"
    return text


def _bind_key(search: Search, values: dict[str, Any]) -> _KeyShape:
    """Adds the values of the key, and says which parts of a key the search names."""
    if search.pk_prefix is None and search.epk_min is None and search.epk_max is None:
        return _ANY_KEY
    if search.pk_prefix is not None:
        values["pk"] = search.pk_prefix
        if search.is_prefix:
            values["pk_end"] = search.pk_prefix + b"\xff"
    if search.epk_min is not None:
        values["epk_min"] = search.epk_min
    if search.epk_max is not None:
        values["epk_max"] = search.epk_max
    return _KeyShape(
        search.pk_prefix is not None,
        search.is_prefix,
        search.epk_min is not None,
        search.epk_max is not None,
    )


def _key_text(key: _KeyShape, mark: Mark) -> str:
    text = ""
    if key.has_pk and key.is_prefix:
        text += f" AND pk >= {mark('pk')} AND pk < {mark('pk_end')}"
    elif key.has_pk:
        text += f" AND pk = {mark('pk')}"
    if key.has_epk_min:
        text += f" AND epk >= {mark('epk_min')}"
    if key.has_epk_max:
        text += f" AND epk < {mark('epk_max')}"
    return text
