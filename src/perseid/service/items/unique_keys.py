"""Unique keys: the index entries that an item reserves in its logical partition."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import orjson

from perseid.model import Container


def entries(container: Container, pk: bytes, document: dict[str, Any]) -> tuple[bytes, ...]:
    """One digest for each unique key, of the constraint, the logical partition and the values.

    A missing path counts as null, so only one item of a partition may omit it.
    """
    return tuple(
        blake2b(
            orjson.dumps([position, [_value(document, path) for path in paths]]
            , option=orjson.OPT_SORT_KEYS) + b"\0" + pk,
            digest_size=20,
        ).digest()
        for position, paths in enumerate(container.unique_keys)
    )  # fmt: skip


def _value(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return None
        document = document[name]
    return _same_number(document)


def _same_number(value: Any) -> Any:
    """The value with every number as a double, so that 1 and 1.0 are equal."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if value == 0 and isinstance(value, float):
        return 0.0  # and not -0.0
    if isinstance(value, list):
        return [_same_number(element) for element in value]
    if isinstance(value, dict):
        return {name: _same_number(member) for name, member in value.items()}
    return value
