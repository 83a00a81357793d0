"""The command line: help, version, exit codes, bad flags."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from perseid import __version__
from perseid.config import WELL_KNOWN_KEY, Settings
from tests.support.running import free_port, running


def perseid(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perseid", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_help_names_every_setting() -> None:
    result = perseid("serve", "--help")
    assert (result.returncode, result.stderr) == (0, "")
    for setting in dataclasses.fields(Settings):
        assert f"--{setting.name.replace('_', '-')}" in result.stdout
        assert f"PERSEID_{setting.name.upper()}" in result.stdout
    assert WELL_KNOWN_KEY not in result.stdout


def test_ctrl_c_before_anything_has_begun() -> None:
    """Loading the program takes a moment."""
    text = """
        import runpy, sys
        class Interrupted:
            def find_spec(self, name, *rest):
                if name == "perseid.commands.cli":
                    raise KeyboardInterrupt
        sys.meta_path.insert(0, Interrupted())
        runpy.run_module("perseid", run_name="__main__")
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, timeout=60, check=False
    )
    assert (result.returncode, result.stderr) == (130, b"")


def test_version() -> None:
    """What a report of a problem needs; scripts read the first line."""
    result = perseid("--version")
    assert (result.returncode, result.stderr) == (0, "")
    release, python, sqlite, system = result.stdout.splitlines()
    assert release == f"perseid {__version__}"
    assert python == f"{platform.python_implementation()} {platform.python_version()}"
    assert re.fullmatch(r"SQLite \d+\.\d+\.\d+", sqlite)
    assert system == platform.platform()


def test_refusals_are_one_line_and_an_exit_code(settings: Settings, tmp_path: Path) -> None:
    held = Settings(data=tmp_path, durability="off")
    with running(held):
        for arguments, fragment in (
            (("--host", "0.0.0.0"), "refusing to listen on 0.0.0.0"),
            (("--memory", "--port", str(settings.port)), "cannot listen on"),
            (("--memory", "--host", "a..b", "--allow-well-known-key"), "cannot listen on 'a..b'"),
            (("--data", str(tmp_path), "--port", str(free_port())), "in use by another perseid"),
        ):
            result = perseid("serve", *arguments)
            assert result.returncode == 1
            assert fragment in result.stderr
            assert "Traceback" not in result.stderr
            assert result.stdout == ""


def test_memory_and_a_data_directory_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else data that a user means to keep is lost at the end."""
    data = tmp_path / "kept"
    for arguments, variables in (
        (("--memory", "--data", str(data)), {}),
        (("--memory", "--data", "perseid-data"), {}),  # which it would have been anyway
        (("--memory",), {"PERSEID_DATA": str(data)}),
        (("--data", str(data)), {"PERSEID_MEMORY": "1"}),
    ):
        with monkeypatch.context() as environment:
            for name, value in variables.items():
                environment.setenv(name, value)
            result = perseid("serve", "--port", str(free_port()), *arguments)
        assert (result.returncode, result.stdout) == (1, "")
        assert "--memory and --data are mutually exclusive" in result.stderr
        assert not data.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--port", "0"),
        ("--port", "70000"),
        ("--port", "x"),
        ("--durability", "some"),
        ("--sweep-pace", "nan"),
        ("--data", ""),
        ("--what",),
    ],
)
def test_bad_flags(arguments: tuple[str, ...]) -> None:
    result = perseid("serve", *arguments)
    assert result.returncode == 2
    assert arguments[0] in result.stderr
