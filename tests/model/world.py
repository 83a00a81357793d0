"""What a server should hold: databases, containers and items in dictionaries.

As plain as the rules allow. An item that is found expired expires there and then, under whatever
setting is in force; there are no watermarks, no indexes and no pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

Document = dict[str, Any]
MAX_TTL: Final = 2147483647


class Key(NamedTuple):
    pk: str
    id: str


@dataclass
class Item:
    """A live item: what the client sent, and what the server said about it."""

    body: Document
    ts: int
    etag: str
    place: int  # in the order of creation
    version: int  # in the order of writing

    @property
    def ttl(self) -> int | None:
        """Its own lifetime; whatever is none counts as absent."""
        ttl = self.body.get("ttl")
        return ttl if is_lifetime(ttl) else None


@dataclass(frozen=True)
class Patch:
    """Operations on properties at the top, if `n` is not less than `least`."""

    operations: Sequence[Document]
    least: int | None = None

    def applied(self, body: Document) -> Document | None:
        """A new body, or None if an operation cannot be done."""
        body = dict(body)
        for each in self.operations:
            name = each["path"].removeprefix("/")
            match each["op"]:
                case "set" | "add":
                    body[name] = each["value"]
                case "remove" if name in body:
                    del body[name]
                case "incr" if is_number(body.get(name, 0)):
                    body[name] = body.get(name, 0) + each["value"]
                case _:
                    return None
        return body


@dataclass(frozen=True)
class Step:
    """One operation on one item, alone or in a batch."""

    how: str
    key: Key
    body: Document  # of the item, where one is sent
    patch: Patch
    etag: str | None = None


class Outcome(NamedTuple):
    status: int
    item: Item | None = None  # as it is after the step


def is_lifetime(value: object) -> bool:
    return type(value) is int and (value == -1 or 1 <= value <= MAX_TTL)


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass
class Container:
    default_ttl: int | None
    is_unique: bool  # no two items of a partition have the same `n`
    items: dict[Key, Item] = field(default_factory=dict)
    written: int = 0  # versions so far
    # Where a reader of the change feed stands: its etag, and the version it has read.
    reader: tuple[str | None, int] = (None, 0)
    _places: Iterator[int] = field(default_factory=count)

    # Time

    def purge(self, now: float) -> None:
        """Ends everyone whose time is over under the setting as it is."""
        self.items = {
            key: item for key, item in self.items.items() if not self._is_over(item, int(now))
        }

    def change(self, default_ttl: int | None, now: float) -> None:
        """The old setting holds until now, the new one from now on; both in this second."""
        self.purge(now)
        self.default_ttl = default_ttl
        self.purge(now)

    def ends(self) -> Iterator[int]:
        """When each expiring item expires."""
        for item in self.items.values():
            end = self._end(item)
            if end is not None:
                yield end

    def _end(self, item: Item) -> int | None:
        if self.default_ttl is None:
            return None
        lifetime = self.default_ttl if item.ttl is None else item.ttl
        return None if lifetime == -1 else item.ts + lifetime

    def _is_over(self, item: Item, now: int) -> bool:
        end = self._end(item)
        return end is not None and end <= now

    # Writing; each says what the server answers

    def accepts(self, body: Document) -> bool:
        """Whether the lifetime is valid; while TTL is off it is not checked."""
        return self.default_ttl is None or "ttl" not in body or is_lifetime(body["ttl"])

    def create(self, key: Key, body: Document) -> int:
        if not self.accepts(body):
            return 400
        return 409 if key in self.items or self._is_taken(key, body) else 201

    def upsert(self, key: Key, body: Document, etag: str | None) -> int:
        if not self.accepts(body):
            return 400
        old = self.items.get(key)
        if old is not None and etag not in (None, old.etag):
            return 412
        if self._is_taken(key, body):
            return 409
        return 201 if old is None else 200

    def replace(self, key: Key, body: Document, etag: str | None) -> int:
        if not self.accepts(body):
            return 400
        old = self.items.get(key)
        if old is None:
            return 404
        if etag not in (None, old.etag):
            return 412
        target = Key(key.pk, body["id"])
        if target != key and target in self.items:
            return 409
        return 409 if self._is_taken(key, body) else 200

    def delete(self, key: Key, etag: str | None) -> int:
        old = self.items.get(key)
        if old is None:
            return 404
        return 412 if etag not in (None, old.etag) else 204

    def patch(self, key: Key, patch: Patch, etag: str | None) -> int:
        old = self.items.get(key)
        if old is None:
            return 404
        if etag not in (None, old.etag):
            return 412
        if patch.least is not None and old.body["n"] < patch.least:
            return 412
        body = patch.applied(old.body)
        if body is None or not self.accepts(body):
            return 400
        return 409 if self._is_taken(key, body) else 200

    def put(self, key: Key, body: Document, now: float, etag: str) -> None:
        """After a write that was accepted; a replace may have given the item another id."""
        old = self.items.pop(key, None)
        place = next(self._places) if old is None else old.place
        self.written += 1
        self.items[Key(key.pk, body["id"])] = Item(body, int(now), etag, place, self.written)

    def clear(self, pk: str) -> None:
        self.items = {key: item for key, item in self.items.items() if key.pk != pk}

    # Several operations together

    def follow(self, step: Step, now: float, etag: str) -> Outcome:
        """Takes the step if it can be taken; a version it makes gets the etag."""
        key, body = step.key, step.body
        match step.how:
            case "create":
                status = self.create(key, body)
            case "upsert":
                status = self.upsert(key, body, step.etag)
            case "replace":
                status = self.replace(key, body, step.etag)
            case "patch":
                status = self.patch(key, step.patch, step.etag)
                if status == 200:
                    body = step.patch.applied(self.items[key].body) or {}
            case "delete":
                status = self.delete(key, step.etag)
                if status == 204:
                    del self.items[key]
                return Outcome(status)
            case _:
                item = self.items.get(key)
                return Outcome(404 if item is None else 200, item)
        if status >= 400:
            return Outcome(status)
        self.put(key, body, now, etag)
        return Outcome(status, self.items[Key(key.pk, body["id"])])

    def batch(self, steps: Sequence[Step], now: float, etags: Sequence[str]) -> list[Outcome]:
        """All of them, or none if one fails."""
        before = dict(self.items)
        done: list[Outcome] = []
        for step, etag in zip(steps, etags, strict=True):
            done.append(self.follow(step, now, etag))
            if done[-1].status >= 400:
                self.items = before
                outcomes = [Outcome(424)] * len(steps)
                outcomes[len(done) - 1] = done[-1]
                return outcomes
        return done

    def feasible(self, steps: Sequence[Step], now: float) -> list[Step]:
        """The steps without those that would make a batch of them fail."""
        before = dict(self.items)
        chosen = [step for step in steps if self.follow(step, now, "").status < 400]
        self.items = before
        return chosen

    def _is_taken(self, key: Key, body: Document) -> bool:
        return self.is_unique and any(
            other.pk == key.pk and other != key and item.body["n"] == body["n"]
            for other, item in self.items.items()
        )

    # Reading

    def listed(self, pk: str | None = None) -> list[Item]:
        """In the order of creation."""
        found = [item for key, item in self.items.items() if pk in (None, key.pk)]
        return sorted(found, key=lambda item: item.place)


@dataclass
class Database:
    containers: dict[str, Container] = field(default_factory=dict)


@dataclass
class World:
    databases: dict[str, Database] = field(default_factory=dict)

    def containers(self) -> Iterator[tuple[str, Container]]:
        """With the path of each."""
        for name, database in self.databases.items():
            for each, container in database.containers.items():
                yield f"/dbs/{name}/colls/{each}", container

    def find(self, database: str, container: str) -> Container | None:
        found = self.databases.get(database)
        return None if found is None else found.containers.get(container)

    def purge(self, now: float) -> None:
        for _, container in self.containers():
            container.purge(now)
