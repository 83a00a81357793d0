"""What Perseid does on Windows, as far as another system can show it: see `like_windows.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perseid.config import Settings
from tests.install import smoke
from tests.support.processes import environment, server_process
from tests.support.running import free_port
from tests.unit.modules import MODULES, PACKAGE

LIKE_WINDOWS = "tests.install.like_windows"
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the imitation needs Linux")


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes find the tests, and keep the files of servers with --memory in a folder of ours."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(PACKAGE.parent), str(ROOT))))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_every_module_can_be_imported() -> None:
    names = [
        ".".join(("perseid", *module.relative_to(PACKAGE).with_suffix("").parts))
        for module in MODULES
        if module.name != "__main__.py"
    ]
    text = f"import {LIKE_WINDOWS} as w; w.imitate()\nimport {', '.join(names)}"
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_server_in_memory_stores_an_item_stops_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smoke, "PERSEID", (sys.executable, "-m", LIKE_WINDOWS))
    smoke.main()
    assert [*tmp_path.glob("perseid-*")] == []


def test_only_one_server_uses_a_data_directory(tmp_path: Path) -> None:
    data = Settings(data=tmp_path / "data", durability="off")
    with server_process(data, module=LIKE_WINDOWS) as server:
        command = (sys.executable, "-m", LIKE_WINDOWS, "serve", "--data", str(data.data))
        done = subprocess.run(
            [*command, "--port", str(free_port())],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=smoke.SECONDS,
            check=False,
        )
        assert done.returncode == 1
        assert f"in use by another perseid server (process {server.child.pid})" in done.stderr
