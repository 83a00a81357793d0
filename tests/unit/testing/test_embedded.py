"""A server in a thread: it ends with its block, however that ends."""

from __future__ import annotations

import itertools
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from perseid.config import Settings
from perseid.errors import StartError
from perseid.testing import embedded_server
from perseid.testing.embedded_server import free_port, running


def servers() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "perseid"]


def test_ctrl_c_while_it_starts_leaves_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the process would wait for its thread for ever."""

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    before = servers()
    replaced = SimpleNamespace(Event=Interrupted, Thread=threading.Thread)
    monkeypatch.setattr(embedded_server, "threading", replaced)
    with pytest.raises(KeyboardInterrupt), running(Settings(memory=True)):
        pass
    assert servers() == before


def test_a_failure_of_the_block_is_the_one_that_is_told() -> None:
    before = servers()
    with pytest.raises(ZeroDivisionError), running(Settings(memory=True)):
        raise ZeroDivisionError
    assert servers() == before


def test_a_server_that_cannot_start(tmp_path: Path) -> None:
    before = servers()
    (tmp_path / "file").touch()
    for settings in (Settings(data=tmp_path / "file"), Settings(memory=True, key="no key")):
        with pytest.raises(StartError), running(settings):
            pytest.fail("it runs")
    assert servers() == before


def test_a_port_that_is_lost_again_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between choosing it and listening, another process may be given it."""
    before = servers()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = itertools.chain((taken,), iter(free_port, None))
        monkeypatch.setattr(embedded_server, "free_port", lambda: next(ports))
        with running(Settings(memory=True)) as settings:
            assert settings.port != taken
    assert servers() == before
