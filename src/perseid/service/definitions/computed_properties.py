"""Computed properties: names and queries that a container evaluates like stored properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from perseid.documents import SYSTEM_PROPERTIES
from perseid.service.definitions.json_types import as_objects, as_text, invalid, malformed

ComputedCheck: TypeAlias = Callable[[str, str], None]
"""Takes the name and the query of a computed property; raises BadRequest if one is invalid."""

MAX_COMPUTED: Final = 20
_RESERVED_NAMES: Final = SYSTEM_PROPERTIES | {"id", "_lsn"}


def normalised(value: Any, check: ComputedCheck) -> list[dict[str, str]] | None:
    """The `computedProperties`, or None if there are none."""
    entries = as_objects(value, "computedProperties")
    if len(entries) > MAX_COMPUTED:
        raise invalid(
            f"The container has {len(entries)} computed properties; the maximum is {MAX_COMPUTED}."
        )
    computed: dict[str, str] = {}
    for entry in entries:
        name = as_text(entry.get("name"), "computedProperties.name")
        query = as_text(entry.get("query"), "computedProperties.query")
        if not name or name in _RESERVED_NAMES or name in computed:
            raise malformed("computedProperties.name", "unique, not empty and no system property")
        check(name, query)
        computed[name] = query
    return [{"name": name, "query": query} for name, query in computed.items()] or None
