"""What a scan asks of an item besides its condition on the body, as SQL for any driver.

`mark` writes down where the value of a name is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from perseid.model import RANGE_SHIFT
from perseid.store.protocol import Scan

Mark: TypeAlias = Callable[[str], str]


def scope_sql(scan: Scan, mark: Mark, live: str) -> tuple[str, dict[str, Any]]:
    """The whole scope and its values; `live` is the liveness test in the same dialect."""
    text = f"number > {mark('after')}"
    # One row more than fits tells that there are others.
    values: dict[str, Any] = {"after": scan.after, "limit": scan.limit + 1}
    if scan.range_index is not None:
        text += f" AND number >= {mark('first')} AND number < {mark('last')}"
        values["first"] = scan.range_index << RANGE_SHIFT
        values["last"] = (scan.range_index + 1) << RANGE_SHIFT
    text += key_sql(scan, values, mark)
    if not scan.horizon.is_endless:
        text += f" AND {live}"
        values["inherited"], values["own"] = scan.horizon.inherited, scan.horizon.own
    return text, values


def key_sql(scan: Scan, values: dict[str, Any], mark: Mark) -> str:
    """The logical partition, key prefix or interval of hashes that a scan is about."""
    text = ""
    if scan.pk_prefix is not None:
        if scan.is_prefix:
            text += f" AND pk >= {mark('pk')} AND pk < {mark('pk_end')}"
            values["pk_end"] = scan.pk_prefix + b"\xff"
        else:
            text += f" AND pk = {mark('pk')}"
        values["pk"] = scan.pk_prefix
    if scan.epk_min is not None:
        text += f" AND epk >= {mark('epk_min')}"
        values["epk_min"] = scan.epk_min
    if scan.epk_max is not None:
        text += f" AND epk < {mark('epk_max')}"
        values["epk_max"] = scan.epk_max
    return text
