"""The official .NET client against the server: one program, which prints a line for each check.

`dotnet` restores, compiles and runs it. PERSEID_DOTNET_RUN names another command that compiles and
runs the C# files of the folder it gets as its argument.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from perseid.clock import MovableClock
from tests.clients.tools import skip_unless_asked_for
from tests.support.running import running
from tests.support.stores import Place

PROGRAM = Path(__file__).parent / "dotnet"
SECONDS = 600
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dotnet")]


def command(place: Path) -> list[str]:
    given = os.environ.get("PERSEID_DOTNET_RUN")
    if given:
        return [*shlex.split(given), str(place)]
    skip_unless_asked_for("dotnet")
    return ["dotnet", "run", "--project", str(place)]


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_dotnet(tls: bool, tmp_path: Path, place: Place) -> None:
    # Building writes next to the project, so it is copied out of the source tree.
    project = Path(shutil.copytree(PROGRAM, tmp_path / "dotnet"))
    wanted = place.lasting(test_clock=True, relaxed=False, tls=tls)
    with running(wanted, MovableClock()) as settings:
        variables = {
            "PERSEID_ENDPOINT": settings.endpoint,
            "PERSEID_KEY": settings.key,
            "PERSEID_INSECURE": "1" if tls else "0",
        }
        done = subprocess.run(
            command(project),
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert done.stdout.rstrip().endswith(" passed, 0 failed"), done.stdout
