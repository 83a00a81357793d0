"""The commit of a write while the server answers nothing else, on the event loop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perseid.model import Container
from perseid.store.protocol import Stores
from perseid.store.sqlite import writer
from tests.support.rows import Run, ids_in, insert
from tests.support.stores import sqlite_database

pytestmark = pytest.mark.only_on("sqlite", reason="about the one writer")


@pytest.fixture
def threads(store: Stores, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list of the threads that have committed."""
    monkeypatch.setattr(writer, "_SHORT_COMMIT", 60.0)
    names: list[str] = []

    def note() -> bool:
        names.append(threading.current_thread().name)
        return False  # let it happen

    sqlite_database(store).write_db.set_commit_hook(note)
    return names


def test_one_request_is_committed_on_the_event_loop(
    run: Run[Any], store: Stores, container: Container, threads: list[str]
) -> None:
    run(insert(store, container, "1"))  # how fast the disk is
    store.load.running.add("a request")
    run(insert(store, container, "2"))
    store.load.running.add("another")
    run(insert(store, container, "3"))
    assert threads == ["perseid-writer", threading.current_thread().name, "perseid-writer"]
    assert run(ids_in(store, container)) == ["1", "2", "3"]


def test_a_slow_disk_is_waited_for_in_the_thread(
    run: Run[Any],
    store: Stores,
    container: Container,
    threads: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer, "_SHORT_COMMIT", 0.0)
    store.load.running.add("a request")
    for number in range(3):
        run(insert(store, container, str(number)))
    assert threads == ["perseid-writer"] * 3
