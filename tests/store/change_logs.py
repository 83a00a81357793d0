"""Containers with a log of all versions, and short ways to write to them and read changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perseid.model import Container
from perseid.store.protocol import Stores
from perseid.store.types import ChangeSearch, Decision, Put, Remove, Resource, Search, View
from tests.support.rows import Run, added_container, container_resource, row

NOW = 5000


def resource(number: int, *, keeps: bool, unique: bool = False, etag: str = '"1"') -> Resource:
    made = container_resource(number, unique=unique)
    return made._replace(etag=etag, state=made.state | {"keeps_versions": keeps})


def add(store: Stores, run: Run[Any], number: int = 7, **options: Any) -> Container:
    return added_container(store, run, resource(number, **options))


async def write(
    store: Stores,
    container: Container,
    *changes: Callable[[int, int], Put | Remove],
    part: int = 0,
) -> None:
    """One transaction; each change is made from the LSN and its place."""

    def decide(view: View) -> Decision[None]:
        return Decision([make(view.lsn, at) for at, make in enumerate(changes)], None)

    await store.items.write(container, part, (), decide)


def new(item_id: str, *, part: int = 0, **rest: Any) -> Callable[[int, int], Put]:
    return lambda lsn, at: Put(row(lsn, item_id, part=part, position=at, **rest))


def search(after: int = 0, part: int = 0, **scope: Any) -> ChangeSearch:
    since = scope.pop("since", None)
    wanted = ChangeSearch(Search(**scope), part, after)
    return wanted if since is None else wanted._replace(since=since)


def latest(
    store: Stores, run: Run[Any], container: Container, **wanted: Any
) -> tuple[list[str], int]:
    page = run(store.changes.latest(container, search(**wanted)))
    return [each.id for each in page.rows], page.lsn


def versions(
    store: Stores, run: Run[Any], container: Container, trimmed_until: int = 0, **wanted: Any
) -> list[tuple[int, str, str]]:
    page = run(store.changes.versions(container, search(**wanted), trimmed_until))
    assert page.is_complete
    return [(change.lsn, change.kind, change.id) for change in page.changes]
