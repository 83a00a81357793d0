"""A store by itself, without a server, on each of the databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from perseid.config import Settings
from perseid.model import Container
from perseid.store.protocol import Stores
from tests.store.change_logs import add
from tests.support.rows import Run, added_container, container_resource
from tests.support.stores import Place, open_store


@pytest.fixture
def home(place: Place) -> Settings:
    """Where the test's store is; opened again, it holds what was stored."""
    return place.lasting()


@pytest.fixture
def store(home: Settings, run: Run[Any]) -> Iterator[Stores]:
    opened: Stores = run(open_store(home))
    yield opened
    run(opened.close())


@pytest.fixture
def container(store: Stores, run: Run[None]) -> Container:
    """A container of two ranges."""
    return added_container(store, run, container_resource(7))


@pytest.fixture
def unique_container(store: Stores, run: Run[None]) -> Container:
    """One with a unique key, /e."""
    return added_container(store, run, container_resource(8, unique=True))


@pytest.fixture
def all_versions(store: Stores, run: Run[Any]) -> Container:
    """Two ranges, all versions."""
    return add(store, run, keeps=True)


@pytest.fixture
def latest_versions(store: Stores, run: Run[Any]) -> Container:
    """Two ranges, latest versions."""
    return add(store, run, 8, keeps=False)
