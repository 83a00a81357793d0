"""`perseid import` that is interrupted, and continues when it runs again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import Cli, decoded
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.support.waiting import TooSlow, repeat_if_slow
from tests.unit.commands.test_transfer import new_container, new_items, write_lines


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


def start_import(
    endpoint: str, container_names: tuple[str, str], path: Path
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "perseid",
            "import",
            *container_names,
            str(path),
            "--json",
            "--connections",
            "2",
        ],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_while_waiting_for_a_response() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        command = subprocess.Popen(
            [sys.executable, "-m", "perseid", "clock", "show"],
            env=os.environ | {"PERSEID_ENDPOINT": endpoint},
            stderr=subprocess.PIPE,
            text=True,
        )
        connection, _ = silent.accept()
        with connection:
            assert connection.recv(1)
            command.send_signal(signal.SIGINT)
            assert command.communicate()[1] == "Interrupted.\n"
    assert command.returncode == 130


def count(raw: RawClient, container_names: tuple[str, str]) -> int:
    path = "/dbs/{}/colls/{}/docs".format(*container_names)
    text = "SELECT VALUE COUNT(1) FROM c"
    (found,) = raw.query(path, text, x_perseid_direct="true").json["Documents"]
    return int(found)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_import_continues_after_an_interruption(
    endpoint: str, cli: Cli, raw: RawClient, database: str, tmp_path: Path, how: int
) -> None:
    """Interrupted twice, the import is complete after the third run, without gaps or duplicates."""

    def attempt(factor: int) -> None:
        folder = tmp_path / str(factor)
        folder.mkdir()
        names = new_container(raw, database, f"c{factor}", defaultTtl=60)
        interrupt_import(endpoint, cli, raw, names, folder, how, total=12_000 * factor)

    repeat_if_slow(attempt)


def interrupt_import(
    endpoint: str,
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    folder: Path,
    how: int,
    *,
    total: int,
) -> None:
    """TooSlow if an import is complete before it is interrupted."""
    path = write_lines(folder / "items", new_items(total))
    had = 0
    for _ in range(2):
        process = start_import(endpoint, container_names, path)
        while process.poll() is None and count(raw, container_names) < had + total // 6:
            pass  # each look is a request
        process.send_signal(how)
        stdout, stderr = process.communicate(timeout=60)
        had = count(raw, container_names)
        if had == total:
            raise TooSlow("the import was complete before it was interrupted")
        assert 0 < had < total, (stdout, stderr)
        if how == signal.SIGINT:
            assert process.returncode == 130
            report = json.loads(stdout)
            assert (report["complete"], report["items"]) == (False, had)
            assert "Run the same command again to continue." in stderr
    report = decoded(cli("import", *container_names, str(path), "--json"))
    assert (report["complete"], report["items"]) == (True, total)
    if how == signal.SIGINT:
        assert (report["earlierItems"], report["created"]) == (had, total - had)
    assert count(raw, container_names) == total
    assert {each.name for each in folder.iterdir()} == {"items"}
