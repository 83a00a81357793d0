"""Patches: a list of operations on the text of an item, and the condition they depend on.

Pure. Numbers are kept as text, so everything that a patch does not change stays the same: 1.0 stays
1.0, and an integer of any length keeps all of its digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

import orjson

from perseid import documents
from perseid.documents import SYSTEM_PROPERTIES
from perseid.errors import BadRequest
from perseid.partition import KeyDefinition
from perseid.query import CompiledQuery, compile_condition, run
from perseid.query.deadline import Deadline, call_context
from perseid.query.planner.grouping import is_linear
from perseid.query.values import as_number
from perseid.service import preconditions

MAX_OPERATIONS: Final = 10
LEVELS: Final = 3  # around a value: {"operations": [{"value": …}]}

_IMMUTABLE: Final = SYSTEM_PROPERTIES | {"id"}
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
CONDITION_SECONDS: Final = 1.0
# What is longer is not evaluated on the event loop: bytes of item and patch, and bytes of the
# condition times bytes of the item.
_SHORT_BYTES: Final = 32 * 1024
_SHORT_WORK: Final = 1 << 23
_BAD_ESCAPE: Final = re.compile(r"~(?![01])")
_ARRAY_END: Final = "-"
_NEEDS_VALUE: Final = frozenset(("add", "set", "replace", "incr"))
_MISSING: Final = object()

PatchPath = tuple[str, ...]


class PatchOperation(NamedTuple):
    """One operation; `number` counts from one, as in messages."""

    number: int
    op: str
    path: PatchPath
    value: Any = None
    source: PatchPath = ()

    def fail(self, why: str) -> NoReturn:
        raise BadRequest(f"For Operation({self.number}): {why}", listed=True)


@dataclass(frozen=True, slots=True)
class Patch:
    """Operations, applied in order, all or none, if the stored item meets the condition."""

    operations: tuple[PatchOperation, ...]
    condition: CompiledQuery | None
    source: bytes  # the text it was read from
    count: int  # of the operations
    is_read: bool = True  # False: checked by another process; only the source is known here

    def __reduce__(self) -> tuple[Any, ...]:
        """As text: values would take as long to read as the text, and a condition is code."""
        return Patch, ((), None, self.source, self.count, False)

    def is_short(self, body: bytes) -> bool:
        """True if condition and operations take a few milliseconds at most for this item."""
        if len(body) + len(self.source) > _SHORT_BYTES or not self.is_read:
            return False
        return self.condition is None or (
            len(self.condition.text) * len(body) <= _SHORT_WORK and self.is_linear
        )

    @property
    def is_linear(self) -> bool:
        """True if the condition takes time in proportion to the size of the item."""
        return self.is_read and (self.condition is None or _is_linear(self.condition))

    def check_condition(self, body: bytes, now: float, seconds: float = CONDITION_SECONDS) -> None:
        """412 unless the stored item meets the condition."""
        if self.condition is None:
            return
        deadline = Deadline(seconds)
        context = call_context(now, deadline.check)
        matches = run(self.condition, (orjson.loads(body),), {}, context)
        if next(matches, _MISSING) is _MISSING:
            raise preconditions.failed()

    def apply(self, body: bytes) -> bytes:
        """The text of the item after all operations, without system properties."""
        item = documents.exact(body)
        if not isinstance(item, dict):
            raise documents.damaged_item()
        for name in SYSTEM_PROPERTIES:
            item.pop(name, None)
        for operation in self.operations:
            _OPERATIONS[operation.op](item, operation)
        return orjson.dumps(item)


@lru_cache(maxsize=256)
def _is_linear(condition: CompiledQuery) -> bool:
    return is_linear(condition.bound)


# Reading ----------------------------------------------------------------------------------------


def parse(raw: bytes, key: KeyDefinition) -> Patch:
    """The patch in a request body; `key` says which paths cannot be patched."""
    documents.parse_named(raw, around=LEVELS)
    return read(documents.exact(raw), key, raw)


def read(value: Any, key: KeyDefinition, source: bytes) -> Patch:
    """The patch in a decoded body: an object, or only the array of its operations."""
    if isinstance(value, list):
        value = {"operations": value}
    operations = value.get("operations") if isinstance(value, dict) else None
    if not isinstance(operations, list):
        raise BadRequest(
            'A patch is {"operations": [{"op": …, "path": …, "value": …}, …], "condition": …},'
            " or the array of its operations.",
            listed=True,
        )
    if not operations:
        raise BadRequest("The patch request has no operations.", listed=True)
    if len(operations) > MAX_OPERATIONS:
        raise BadRequest(
            f"The patch request has {len(operations)} operations, more than the"
            f" {MAX_OPERATIONS} that are supported.",
            listed=True,
        )
    return Patch(
        tuple(_read_operation(number, entry, key) for number, entry in enumerate(operations, 1)),
        _read_condition(value.get("condition")),
        source,
        len(operations),
    )


def read_if_short(patch: Patch, key: KeyDefinition) -> Patch:
    """The patch; if another process has read it, and its text is short, it is read here, too."""
    if patch.is_read or len(patch.source) > _SHORT_BYTES:
        return patch
    return read(documents.exact(patch.source), key, patch.source)


def _read_condition(text: Any) -> CompiledQuery | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise BadRequest(
            "The condition of a patch must be a string: 'from c where …'.", listed=True
        )
    condition = compile_condition(text)
    if condition.parameters:
        raise BadRequest("The condition of a patch cannot have parameters.", listed=True)
    return condition


def _read_operation(number: int, value: Any, key: KeyDefinition) -> PatchOperation:
    operation = PatchOperation(number, "", ())
    if not isinstance(value, dict):
        operation.fail('An operation is an object: {"op": …, "path": …, "value": …}.')
    op = value.get("op")
    if not isinstance(op, str) or op not in _OPERATIONS:
        operation.fail(f"'op' must be one of {', '.join(_OPERATIONS)}.")
    path = _read_path(operation, value, "path", key)
    if op in _NEEDS_VALUE and "value" not in value:
        operation.fail(f"'{op}' needs a 'value'.")
    given = value.get("value")
    if op == "incr" and not isinstance(given, orjson.Fragment):
        operation.fail("The value of 'incr' must be a number.")
    source = _read_path(operation, value, "from", key) if op == "move" else ()
    if source and len(path) > len(source) and path[: len(source)] == source:
        operation.fail("A value cannot be moved into itself: 'path' lies below 'from'.")
    return PatchOperation(number, op, path, given, source)


def _read_path(
    operation: PatchOperation, value: dict[str, Any], name: str, key: KeyDefinition
) -> PatchPath:
    text = value.get(name)
    if not isinstance(text, str) or not text.startswith("/"):
        operation.fail(f"'{name}' must be a JSON pointer, '/' and a name: '/address/city'.")
    if _BAD_ESCAPE.search(text):
        operation.fail(f"In '{name}', write '~' as '~0', and '/' inside a name as '~1'.")
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))
    if path[0] in _IMMUTABLE:
        operation.fail(
            f"'{text}' cannot be patched: '{path[0]}' identifies the item or is set by the server."
        )
    for tokens in key.tokens:
        # Neither the key itself, nor an object around it, nor a value below it.
        if all(name == token for name, token in zip(path, tokens, strict=False)):
            operation.fail(f"'{text}' cannot be patched: it holds the item's partition key.")
    return path


# Applying ---------------------------------------------------------------------------------------


def _add(item: Any, operation: PatchOperation) -> None:
    _insert(item, operation, _copy(operation.value))


def _insert(item: Any, operation: PatchOperation, value: Any) -> None:
    parent, name = _parent(item, operation, operation.path)
    if isinstance(parent, list):
        parent.insert(_index(parent, name, operation), value)
    else:
        parent[name] = value


def _set(item: Any, operation: PatchOperation) -> None:
    parent, name = _parent(item, operation, operation.path)
    _set_value(parent, name, operation, _copy(operation.value))


def _replace(item: Any, operation: PatchOperation) -> None:
    parent, name = _parent(item, operation, operation.path)
    _existing(parent, name, operation)
    _set_value(parent, name, operation, _copy(operation.value))


def _remove(item: Any, operation: PatchOperation) -> None:
    _remove_value(item, operation, operation.path)


def _increment(item: Any, operation: PatchOperation) -> None:
    parent, name = _parent(item, operation, operation.path)
    old = _find(parent, name, operation)
    if old is _MISSING:
        _set_value(parent, name, operation, operation.value)
        return
    if not isinstance(old, orjson.Fragment):
        operation.fail("'incr' needs a number at its path; the value there has another type.")
    total = as_number(_number(old) + _number(operation.value))
    if not math.isfinite(total):
        operation.fail("The sum is too large for a number.")
    _set_value(parent, name, operation, orjson.Fragment(orjson.dumps(total)))


def _move(item: Any, operation: PatchOperation) -> None:
    if operation.source == operation.path:
        _existing(*_parent(item, operation, operation.path), operation)
        return
    _insert(item, operation, _remove_value(item, operation, operation.source))


_OPERATIONS: Final[dict[str, Callable[[Any, PatchOperation], None]]] = {
    "add": _add,
    "set": _set,
    "replace": _replace,
    "remove": _remove,
    "incr": _increment,
    "move": _move,
}


def _parent(item: Any, operation: PatchOperation, path: PatchPath) -> tuple[Any, str]:
    """The object or array that the last step of a path is in, and that step."""
    for depth, name in enumerate(path[:-1]):
        item = _find(item, name, operation) if isinstance(item, dict | list) else _MISSING
        if item is _MISSING:
            operation.fail(f"There is nothing at '{_text(path[: depth + 1])}'.")
    if not isinstance(item, dict | list):
        operation.fail(f"At '{_text(path[:-1])}' there is neither an object nor an array.")
    return item, path[-1]


def _find(parent: Any, name: str, operation: PatchOperation) -> Any:
    if isinstance(parent, dict):
        return parent.get(name, _MISSING)
    index = _index(parent, name, operation)
    return parent[index] if index < len(parent) else _MISSING


def _existing(parent: Any, name: str, operation: PatchOperation) -> Any:
    value = _find(parent, name, operation)
    if value is _MISSING:
        operation.fail(f"'{operation.op}' needs an existing value at '{name}'; there is none.")
    return value


def _set_value(parent: Any, name: str, operation: PatchOperation, value: Any) -> None:
    if isinstance(parent, dict):
        parent[name] = value
        return
    index = _index(parent, name, operation)
    parent[index : index + 1] = [value]


def _remove_value(item: Any, operation: PatchOperation, path: PatchPath) -> Any:
    parent, name = _parent(item, operation, path)
    value = _existing(parent, name, operation)
    del parent[name if isinstance(parent, dict) else int(name)]
    return value


def _index(array: list[Any], name: str, operation: PatchOperation) -> int:
    """An index of the array, or the one after its last element."""
    if name == _ARRAY_END:
        return len(array)
    if _INDEX.fullmatch(name) is None:
        operation.fail(f"'{name}' is not an array index: give a whole number, or '-'.")
    if int(name) > len(array):
        operation.fail(
            f"The index {name} is outside of the array, which has {len(array)} elements."
        )
    return int(name)


def _number(text: orjson.Fragment) -> int | float:
    number: int | float = orjson.loads(orjson.dumps(text))
    return number


def _copy(value: Any) -> Any:
    """A deep copy: later operations may change the value in the item."""
    if isinstance(value, dict):
        return {name: _copy(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_copy(element) for element in value]
    return value


def _text(path: PatchPath) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
