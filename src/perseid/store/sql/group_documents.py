"""Documents that stand for a group of items in group counts."""

from __future__ import annotations

from typing import Any

from perseid.conditions import PropertyPath


def put_value(document: dict[str, Any], path: PropertyPath, value: Any) -> None:
    """Puts a value at a path. No path is a prefix of another, so the steps between are objects."""
    for name in path[:-1]:
        document = document.setdefault(str(name), {})
    document[str(path[-1])] = value
