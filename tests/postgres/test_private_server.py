"""The PostgreSQL of the tests leaves nothing behind, whatever becomes of those who asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.only_on("postgres", reason="about its server")

ASK = """
from tests.support.postgres import Postgres
print(Postgres().fresh_dsn().partition("host=")[2], flush=True)
input()
"""


def test_a_server_goes_with_who_asked_for_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASK],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asking:
        assert asking.stdout is not None
        data = Path(asking.stdout.readline().strip())
        server = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(server, 0)
        asking.send_signal(signal.SIGKILL)
    until(lambda: not data.parent.exists())
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
