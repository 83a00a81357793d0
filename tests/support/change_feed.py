"""Both modes of the change feed: their headers, and what the changes say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

LATEST: Final = {"A-IM": "Incremental Feed"}
ALL_VERSIONS: Final = {
    "A-IM": "Full-Fidelity Feed",
    "x-ms-cosmos-changefeed-wire-format-version": "2021-09-15",
}


def operations_of(changes: Iterable[Any]) -> list[tuple[str, str]]:
    """The operation and the id of each change of all versions."""
    return [
        (
            change["metadata"]["operationType"],
            change["current"].get("id") or change["metadata"]["id"],
        )
        for change in changes
    ]
