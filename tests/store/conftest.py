"""A store by itself, without a server, on each of the databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from perseid.config import Settings
from perseid.store.protocol import Store
from tests.store.rows import Run
from tests.support.stores import Place, open_store


@pytest.fixture
def run() -> Iterator[Run[Any]]:
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture
def home(place: Place) -> Settings:
    """Where the test's store is; whoever opens it again finds what was kept."""
    return place.lasting()


@pytest.fixture
def store(home: Settings, run: Run[Any]) -> Iterator[Store]:
    opened: Store = run(open_store(home))
    yield opened
    run(opened.close())
