"""The .NET client of 2017 against the server: one program, which prints a line for each check.

The client, DocumentClient 1.13, was built for .NET Framework. PERSEID_DOTNET2017_RUN names a
command that compiles the C# files of the folder it gets as its argument with that client, and runs
them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.support.running import running

PROGRAM = Path(__file__).parent / "dotnet2017"
SECONDS = 600


@pytest.mark.slow
@pytest.mark.xdist_group("dotnet")
def test_dotnet2017() -> None:
    command = os.environ.get("PERSEID_DOTNET2017_RUN")
    if not command:
        pytest.skip("PERSEID_DOTNET2017_RUN is not set; the client needs .NET Framework")
    with running(Settings(memory=True, test_clock=True), MovableClock()) as settings:
        variables = {"PERSEID_ENDPOINT": settings.endpoint, "PERSEID_KEY": settings.key}
        done = subprocess.run(
            [*shlex.split(command), str(PROGRAM)],
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
