"""An SQLite store in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.model import Container
from perseid.service.catalog import build_container
from perseid.store.protocol import (
    PutResource,
)
from perseid.store.sqlite.store import SqliteStore
from tests.store.rows import (
    DATABASE,
    Run,
    container_resource,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def store(path: Path, run: Run[None]) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, durability="off")
    yield opened
    run(opened.close())


@pytest.fixture
def container(store: SqliteStore, run: Run[None]) -> Container:
    """A container of two ranges."""
    made = container_resource(7)
    run(store.change([PutResource(made)]))
    return build_container(made, DATABASE)
