"""Functions that take a whole item."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from perseid.query.functions.builtin import OBJECT, Builtin
from perseid.query.values import UNDEFINED

# The top four bits of an item's eight bytes in its rid are the resource type.
_NUMBER_BITS: Final = (1 << 60) - 1


def document_id(item: dict[str, Any]) -> Any:
    """The item's number within its partition: the second part of its rid, after the container's."""
    rid = item.get("_rid")
    if type(rid) is not str:
        return UNDEFINED
    try:
        parts = base64.b64decode(rid.replace("-", "/"), validate=True)
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        return UNDEFINED
    if len(parts) < 16:
        return UNDEFINED
    return int.from_bytes(parts[8:16], "little") & _NUMBER_BITS


FUNCTIONS: Final = (Builtin("DOCUMENTID", (OBJECT,), document_id),)
