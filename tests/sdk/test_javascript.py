"""The official JavaScript SDK against the server: each js/*.test.mjs file is one test.

The packages are installed once, outside the source tree, into a cache that is keyed by
package.json. PERSEID_NODE_MODULES names a ready node_modules directory instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from perseid.config import Settings
from tests.support.kept import kept
from tests.support.running import running

SOURCES = Path(__file__).parent / "js"
GOLDEN = Path(__file__).parents[1] / "golden"
FILES = sorted(path.name for path in SOURCES.glob("*.test.mjs"))
# Files that need a server of their own.
SERVERS = {
    # These compare what the client merges, or the whole language, with direct answers.
    "queries.test.mjs": Settings(memory=True, relaxed=True),
    "query-plans.test.mjs": Settings(memory=True, relaxed=True),
    "top60.test.mjs": Settings(memory=True, relaxed=True),
    "refusals.test.mjs": Settings(memory=True, relaxed=False),
    "throttling.test.mjs": Settings(memory=True, enforce_throughput=True),
}
pytestmark = pytest.mark.xdist_group("javascript")  # one process installs the packages
INSTALL = ("install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")


@pytest.fixture(scope="session")
def node() -> str:
    """The path of node."""
    return _program("node")


@pytest.fixture(scope="session")
def workspace(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the test files next to their packages.

    Node looks for a module's packages next to the module itself, so the files are copied there.
    """
    place = tmp_path_factory.mktemp("js")
    for source in (*SOURCES.glob("*.mjs"), SOURCES / "package.json"):
        shutil.copy(source, place)
    (place / "node_modules").symlink_to(_packages(), target_is_directory=True)
    return place


@pytest.mark.parametrize("file", FILES)
def test_javascript(file: str, node: str, workspace: Path, request: pytest.FixtureRequest) -> None:
    with ExitStack() as stack:
        if file in SERVERS:
            settings = stack.enter_context(running(SERVERS[file]))
        else:
            settings = request.getfixturevalue("settings")
        variables = os.environ | {
            "PERSEID_ENDPOINT": settings.endpoint,
            "PERSEID_KEY": settings.key,
            "PERSEID_GOLDEN": str(GOLDEN),
        }
        _run([node, "--test-reporter=spec", file], workspace, variables, seconds=120)


def _packages() -> Path:
    """A node_modules directory with what package.json asks for."""
    given = os.environ.get("PERSEID_NODE_MODULES")
    if given:
        return Path(given).resolve()
    manifest = SOURCES / "package.json"

    def install(place: Path) -> None:
        shutil.copy(manifest, place)
        _run([_program("npm"), *INSTALL], place, os.environ, seconds=300)

    return kept("js", [manifest.read_bytes()], install) / "node_modules"


def _program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed; the JavaScript SDK needs node and npm")
    return path


def _run(
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
