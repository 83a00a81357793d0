"""Packages of npm for tests: installed once, outside the source tree, by their package.json."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.kept import kept

INSTALL = ("install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")


def node_modules(manifest: Path, name: str, purpose: str) -> Path:
    """A node_modules directory with what a package.json asks for; without npm the test is skipped.

    PERSEID_NODE_MODULES names a ready directory with the packages of all tests instead.
    """
    given = os.environ.get("PERSEID_NODE_MODULES")
    if given:
        return Path(given).resolve()

    def install(place: Path) -> None:
        shutil.copy(manifest, place)
        run([program("npm", purpose), *INSTALL], place, os.environ, seconds=300)

    return kept(name, [manifest.read_bytes()], install) / "node_modules"


def program(name: str, purpose: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed; {purpose} needs node and npm")
    return path


def run(
    command: list[str], place: Path, variables: os._Environ[str] | dict[str, str], seconds: int
) -> None:
    """Runs a program to its end; its output is the failure's text."""
    try:
        done = subprocess.run(
            command,
            cwd=place,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        output = (late.output or b"").decode(errors="replace")
        pytest.fail(f"{command} took more than {seconds} s\n{output}", pytrace=False)
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace")
        pytest.fail(f"{command} ended with {done.returncode}\n{output}", pytrace=False)
