"""The properties and functions that a condition such as `c.created < AGO("day", 1)` names.

The server has accepted the condition before; if it is wrong nevertheless, it names nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from perseid.query.nodes import Node, Property


class ConditionPath(NamedTuple):
    """A property of an item: as the condition writes it, and the names on the way to it."""

    text: str
    names: tuple[str, ...]


def condition_paths(condition: str) -> list[ConditionPath]:
    """The longest paths, in the order of the condition: `c.a.b`, not `c.a` as well."""
    from perseid.query.nodes import Property  # imported here because it is slow

    query = _query(condition)
    properties = [node for node in _nodes(query) if isinstance(node, Property)]
    inner = {id(node.target) for node in properties if _names(node) is not None}
    paths: dict[tuple[str, ...], ConditionPath] = {}
    for node in sorted(properties, key=lambda each: each.start):
        names = _names(node)
        if names is not None and id(node) not in inner:
            paths.setdefault(names, ConditionPath(query[node.start : node.end], names))
    return [*paths.values()]


def has_calls(condition: str) -> bool:
    from perseid.query.nodes import Call

    return any(isinstance(node, Call) for node in _nodes(_query(condition)))


def _query(condition: str) -> str:
    # The line break ends a comment in the condition, which would hide the parenthesis.
    return f"SELECT * FROM c WHERE ({condition}\n)"


def _nodes(query: str) -> Iterator[Node]:
    from perseid.errors import CosmosError
    from perseid.query.nodes import walk
    from perseid.query.parser import parse

    try:
        tree = parse(query)
    except CosmosError:
        return
    yield from walk(tree)


def _names(node: Property) -> tuple[str, ...] | None:
    """The names from the item to this property; None if it is not a property of `c`."""
    from perseid.query.nodes import Identifier, Property

    names = [node.name]
    target = node.target
    while isinstance(target, Property):
        names.append(target.name)
        target = target.target
    if isinstance(target, Identifier) and target.name == "c":
        return tuple(reversed(names))
    return None
