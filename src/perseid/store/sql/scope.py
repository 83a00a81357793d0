"""What a scan asks of an item besides its condition on the body, as SQL for any driver.

`mark` writes down where the value of a name is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, TypeAlias

from perseid.model import RANGE_SHIFT
from perseid.store.types import Search

Mark: TypeAlias = Callable[[str], str]


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
    return _scope_text(tuple(values), mark, live), values


def key_sql(search: Search, values: dict[str, Any], mark: Mark) -> str:
    """The logical partition, key prefix or interval of hashes that a scan is about."""
    _bind_key(search, values)
    return _key_text(values, mark)


@lru_cache(maxsize=256)
def _scope_text(names: tuple[str, ...], mark: Mark, live: str) -> str:
    """What is bound tells what is asked, so the same few texts serve all scans."""
    text = f"number > {mark('after')}"
    if "first" in names:
        text += f" AND number >= {mark('first')} AND number < {mark('last')}"
    text += _key_text(names, mark)
    if "own" in names:
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


def _key_text(names: Collection[str], mark: Mark) -> str:
    text = ""
    if "pk_end" in names:
        text += f" AND pk >= {mark('pk')} AND pk < {mark('pk_end')}"
    elif "pk" in names:
        text += f" AND pk = {mark('pk')}"
    if "epk_min" in names:
        text += f" AND epk >= {mark('epk_min')}"
    if "epk_max" in names:
        text += f" AND epk < {mark('epk_max')}"
    return text
