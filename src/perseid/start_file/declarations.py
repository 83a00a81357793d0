"""The declarations of a start file: databases, containers, throughput and items to store.

The service's own checks are used; this module adds the line and path of each problem.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson

from perseid import documents, ids, partition, ttl
from perseid.documents import Document
from perseid.durations import seconds_of
from perseid.errors import CosmosError
from perseid.model import Container, Database
from perseid.physical_ranges import equal_ranges, stored_form
from perseid.query import validate_computed
from perseid.service.catalog import build_container
from perseid.service.definitions.container import new_container
from perseid.service.items import point_operations
from perseid.service.items.transactions import CheckedItem
from perseid.service.throughput.rules import Throughput, throughput_from_headers
from perseid.start_file.parser import LocatedValue, StartFileError
from perseid.store.types import Resource

T = TypeVar("T")

_DATABASE: Final = ("id", "throughput", "containers")
# Written as clients send them.
_PROPERTIES: Final = (
    "partitionKey", "defaultTtl", "indexingPolicy", "uniqueKeyPolicy", "conflictResolutionPolicy",
    "geospatialConfig", "analyticalStorageTtl", "computedProperties", "vectorEmbeddingPolicy",
    "fullTextPolicy", "changeFeedPolicy",
)  # fmt: skip
_CONTAINER: Final = ("id", *_PROPERTIES, "uniqueKeys", "throughput", "items", "seeds")
_SEED: Final = ("age", "items", "file")


@dataclass(frozen=True, slots=True)
class Seed:
    """An item to store once, as if it were `age` seconds old."""

    checked_item: CheckedItem
    age: int
    node: LocatedValue


@dataclass(frozen=True, slots=True)
class ContainerDeclaration:
    id: str
    body: dict[str, Any]
    throughput: Throughput | None
    seeds: tuple[Seed, ...]
    node: LocatedValue


@dataclass(frozen=True, slots=True)
class DatabaseDeclaration:
    id: str
    throughput: Throughput | None
    containers: tuple[ContainerDeclaration, ...]
    node: LocatedValue


@dataclass(frozen=True, slots=True)
class Declaration:
    file: Path
    databases: tuple[DatabaseDeclaration, ...]


def declare(file: Path, root: LocatedValue, *, is_lenient: bool = False) -> Declaration:
    """The declaration in the file; StartFileError with all its problems.

    `is_lenient` accepts what the service refuses.
    """
    reader = _DeclarationReader(file, is_lenient=is_lenient)
    databases = reader.databases(root)
    if reader.problems:
        raise StartFileError(file, reader.problems)
    return Declaration(file, databases)


class _DeclarationReader:
    """Reads the declarations and collects all problems, so that users can fix them together."""

    def __init__(self, file: Path, *, is_lenient: bool) -> None:
        self._file = file
        self._is_lenient = is_lenient
        self.problems: list[str] = []

    def databases(self, root: LocatedValue) -> tuple[DatabaseDeclaration, ...]:
        members = self._object(root, ("databases",), needs="databases")
        databases = [self._database(node) for node in self._list(members.get("databases"))]
        return self._distinct([each for each in databases if each is not None], "database")

    def _database(self, node: LocatedValue) -> DatabaseDeclaration | None:
        members = self._object(node, _DATABASE, needs="id")
        name = self._id(members.get("id"), "database")
        throughput = self._throughput(members.get("throughput"))
        containers = [self._container(each) for each in self._list(members.get("containers"))]
        if name is None:
            return None
        valid = self._distinct([each for each in containers if each is not None], "container")
        return DatabaseDeclaration(name, throughput, valid, node)

    def _container(self, node: LocatedValue) -> ContainerDeclaration | None:
        members = self._object(node, _CONTAINER, needs="id")
        if "partitionKey" not in members and members:
            self._add(node, "'partitionKey' is missing, for example partitionKey: /user")
            return None
        name = self._id(members.get("id"), "container")
        throughput = self._throughput(members.get("throughput"))
        before = len(self.problems)
        body = self._body(members)
        if name is None or len(self.problems) > before:
            return None
        body = {"id": name, **body}
        definition = self._checked(node, lambda: self._definition(body))
        if definition is None:
            return None
        seeds = self._seeds(members, _example_container(definition))
        return ContainerDeclaration(name, body, throughput, seeds, node)

    def _body(self, members: dict[str, LocatedValue]) -> dict[str, Any]:
        """The properties as clients send them, each checked at its place in the file."""
        body: dict[str, Any] = {}
        if "partitionKey" in members:
            body["partitionKey"] = _partition_key(members["partitionKey"].plain())
        if "defaultTtl" in members:
            body["defaultTtl"] = self._lifetime(members["defaultTtl"])
        for name in _PROPERTIES:
            if name in members and name not in body:
                body[name] = members[name].plain()
        if "uniqueKeys" in members:
            keys = members["uniqueKeys"].plain()
            if "uniqueKeyPolicy" in members:
                self._add(members["uniqueKeys"], "use uniqueKeys or uniqueKeyPolicy, not both")
            if not isinstance(keys, list):
                self._add(members["uniqueKeys"], "must be a list of keys, for example [[/email]]")
                keys = []
            body["uniqueKeyPolicy"] = {
                "uniqueKeys": [{"paths": key if isinstance(key, list) else [key]} for key in keys]
            }
        key = body.get("partitionKey")
        for name, value in body.items():  # the partition key is first
            node = members.get(name) or members["uniqueKeys"]
            probe = {"id": "probe", "partitionKey": key, name: value}
            before = len(self.problems)
            self._checked(node, lambda p=probe: self._definition(p))  # type: ignore[misc]
            if name == "partitionKey" and len(self.problems) > before:
                key = _partition_key(
                    "/id"
                )  # or the same problem would be reported for every other property
        return body

    def _definition(self, body: dict[str, Any]) -> dict[str, Any]:
        return new_container(body, computed_check=validate_computed, is_lenient=self._is_lenient)

    def _lifetime(self, node: LocatedValue) -> Any:
        """A value of defaultTtl from `off`, `none`, seconds or a duration."""
        value = node.value
        if value == "off":
            return None
        if value == "none":
            return ttl.NEVER
        if isinstance(value, str):
            return self._duration(node)
        return node.plain()

    def _duration(self, node: LocatedValue) -> int:
        value = node.value
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        seconds = seconds_of(value) if isinstance(value, str) else None
        if not isinstance(seconds, int):
            self._add(
                node, f"{_json_text(value)} is not a duration like 90, 90s, 15m, 2h, 3d or 1w"
            )
            return 1
        return seconds

    def _throughput(self, node: LocatedValue | None) -> Throughput | None:
        if node is None or node.value is None:
            return None
        value = node.plain()
        if isinstance(value, dict) and list(value) == ["autoscale"]:
            settings = orjson.dumps({"maxThroughput": value["autoscale"]}).decode()
            return self._checked(node, lambda: throughput_from_headers(None, settings))
        if isinstance(value, int) and not isinstance(value, bool):
            return self._checked(node, lambda: throughput_from_headers(str(value), None))
        self._add(node, f"{_json_text(value)} is neither RU/s like 400 nor {{autoscale: 4000}}")
        return None

    # Seeds

    def _seeds(self, members: dict[str, LocatedValue], container: Container) -> tuple[Seed, ...]:
        seeds = [
            seed
            for node, document in self._documents(members.get("items"))
            for seed in self._seed(node, document, 0, container)
        ]
        for group in self._list(members.get("seeds")):
            parts = self._object(group, _SEED)
            age = self._duration(parts["age"]) if "age" in parts else 0
            located = [*self._documents(parts.get("items")), *self._lines(parts.get("file"))]
            for node, document in located:
                seeds += self._seed(node, document, age, container)
        self._check_duplicates(seeds)
        return tuple(seeds)

    def _seed(
        self, node: LocatedValue, document: Document, age: int, container: Container
    ) -> Iterator[Seed]:
        checked_item = self._checked(
            node,
            lambda: point_operations.checked_item(
                container, document, None, is_lenient=self._is_lenient
            ),
        )
        if checked_item is None:
            return
        lifetime_seconds = ttl.expires_at(0, checked_item.ttl, container.policy)
        if lifetime_seconds is not None and lifetime_seconds <= age:
            self._add(
                node,
                f"the item has expired already: its ttl is {lifetime_seconds} s, its age {age} s",
            )
            return
        yield Seed(checked_item, age, node)

    def _documents(self, node: LocatedValue | None) -> Iterator[tuple[LocatedValue, Document]]:
        """Items in the start file itself."""
        for each in self._list(node):
            if not isinstance(each.value, dict):
                self._add(each, "an item must be an object")
                continue
            yield each, documents.from_value(each.plain())

    def _lines(self, node: LocatedValue | None) -> Iterator[tuple[LocatedValue, Document]]:
        """The items of a JSON lines file; its path is relative to the start file."""
        if node is None:
            return
        if not isinstance(node.value, str):
            self._add(node, "must be the name of a file with one item per line")
            return
        path = self._file.parent / node.value
        try:
            lines = path.read_bytes().splitlines()
        except OSError as exc:
            self._add(node, f"cannot read {path}: {exc.strerror}")
            return
        first = next(filter(None, map(bytes.strip, lines)), b"{}")
        if first[:1] != b"{" or first == b"{":  # an array, a table, an object on several lines
            self._add(
                node,
                f"{path.name} does not have one JSON item per line;"
                " perseid import reads other formats",
            )
            return
        for number, line in enumerate(lines, 1):
            if line.strip():
                location = LocatedValue(None, node.line, f"{node.path}, {path.name}:{number}")
                document = self._checked(location, lambda text=line: documents.parse(text))  # type: ignore[misc]
                if document is not None:
                    yield location, document

    def _check_duplicates(self, seeds: list[Seed]) -> None:
        """Reports seeds with the same id and partition key, or the same unique-key values."""
        seeds_by_value: dict[Any, Seed] = {}
        for seed in seeds:
            key = (seed.checked_item.logical_partition.pk, seed.checked_item.id)
            for unique_value in (key, *seed.checked_item.unique):
                other = seeds_by_value.setdefault(unique_value, seed)
                if other is not seed:
                    what = (
                        f"the id '{seed.checked_item.id}'"
                        if unique_value == key
                        else "values of a unique key"
                    )
                    self._add(seed.node, f"has {what} of the item in line {other.node.line}")

    # Shapes

    def _object(
        self, node: LocatedValue, known: tuple[str, ...], needs: str | None = None
    ) -> dict[str, LocatedValue]:
        if not isinstance(node.value, dict):
            self._add(node, f"must be an object with {_listed(known)}")
            return {}
        members: dict[str, LocatedValue] = node.value
        for name, member in members.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, 1, 0.6)
                hint = f"did you mean {close[0]}?" if close else f"allowed are {_listed(known)}"
                self._add(member, f"'{name}' is unknown; {hint}")
        if needs is not None and needs not in members:
            self._add(node, f"'{needs}' is missing")
        return members

    def _list(self, node: LocatedValue | None) -> list[LocatedValue]:
        if node is None or node.value is None:
            return []
        if not isinstance(node.value, list):
            self._add(node, "must be a list")
            return []
        return node.value

    def _id(self, node: LocatedValue | None, kind: str) -> str | None:
        if node is None:
            return None
        return self._checked(node, lambda: ids.check_resource_id(node.plain(), kind))

    def _distinct(self, declarations: list[T], kind: str) -> tuple[T, ...]:
        names: dict[str, int] = {}
        for each in declarations:
            name, node = each.id, each.node  # type: ignore[attr-defined]
            if name in names:
                self._add(node, f"the {kind} '{name}' is already declared in line {names[name]}")
            names.setdefault(name, node.line)
        return tuple(declarations)

    def _checked(self, node: LocatedValue, check: Callable[[], T]) -> T | None:
        """The result of the check; None, with its message added to the problems, if it fails."""
        try:
            return check()
        except CosmosError as exc:
            self._add(node, exc.message)
            return None

    def _add(self, node: LocatedValue, problem: str) -> None:
        text = node.at(problem)
        if text not in self.problems:
            self.problems.append(text)


def _partition_key(value: Any) -> Any:
    """A path, a list of paths for a hierarchical key, or the object that clients send."""
    if isinstance(value, str):
        return {"paths": [value], "kind": "Hash", "version": 2}
    if isinstance(value, list):
        kind = "Hash" if len(value) == 1 else "MultiHash"
        return {"paths": value, "kind": kind, "version": 2}
    return value


def _example_container(definition: dict[str, Any]) -> Container:
    """A container with this definition, to check items against."""
    database = Database(1, "d", ids.database_rid(1), "", 0)
    policy = ttl.Policy()
    state = {
        "number": 1,
        "properties": definition,
        "ranges": stored_form(
            equal_ranges(1, partition.parse_definition(definition["partitionKey"]))
        ),
        "final_cutoffs": [policy.final_inherited_cutoff, policy.final_own_cutoff],
    }
    rid = ids.container_rid(database.rid, 1)
    return build_container(
        Resource(rid, "container", database.rid, definition["id"], "", 0, state), database
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _json_text(value: Any) -> str:
    return orjson.dumps(value).decode()
