"""An SQLite store in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.store.protocol import Stores
from perseid.store.sqlite.store import open_stores
from tests.support.rows import (
    Run,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def store(path: Path, run: Run[None]) -> Iterator[Stores]:
    opened = open_stores(path, durability="off")
    yield opened
    run(opened.close())
