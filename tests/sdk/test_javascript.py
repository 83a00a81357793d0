"""The official JavaScript SDK against the server: each js/*.test.mjs file is one test."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from perseid.config import Settings
from tests.support.node import node_modules, program, run
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
PURPOSE = "the JavaScript SDK"


@pytest.fixture(scope="session")
def node() -> str:
    """The path of node."""
    return program("node", PURPOSE)


@pytest.fixture(scope="session")
def workspace(node: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the test files next to their packages.

    Node looks for a module's packages next to the module itself, so the files are copied there.
    """
    place = tmp_path_factory.mktemp("js")
    for source in (*SOURCES.glob("*.mjs"), SOURCES / "package.json"):
        shutil.copy(source, place)
    (place / "node_modules").symlink_to(packages(), target_is_directory=True)
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
        run([node, "--test-reporter=spec", file], workspace, variables, seconds=600)


def packages() -> Path:
    """A node_modules directory with the official client."""
    return node_modules(SOURCES / "package.json", "js", PURPOSE)
