"""Server processes that a test kills or stops; where that is not needed, `running` is faster."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import perseid
from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import free_port
from tests.support.stores import flags

STOP_SECONDS = 60.0  # until a test gives up waiting: a machine may be busy


def environment() -> dict[str, str]:
    """The variables of a process that imports the same `perseid` as the tests."""
    source = str(Path(perseid.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path}


class ServerProcess:
    """`perseid serve` in a process of its own, and a client of it."""

    def __init__(self, child: subprocess.Popen[str], raw: RawClient) -> None:
        self.child = child
        self.raw = raw

    @property
    def endpoint(self) -> str:
        return self.raw.endpoint

    def stop(self, how: signal.Signals) -> tuple[int, str]:
        """Sends the signal and waits; the exit code and the rest of the output."""
        self.raw.close()
        self.child.send_signal(how)
        output, _ = self.child.communicate(timeout=STOP_SECONDS)
        return self.child.returncode, output


@contextmanager
def server_process(settings: Settings, *options: str) -> Iterator[ServerProcess]:
    """A process that is ready for requests; it is killed at the end of the block if it still runs.

    `settings` says where the data is, `options` are further flags of `perseid serve`.
    """
    port = free_port()
    command = [sys.executable, "-m", "perseid", "serve", *flags(settings), "--port", str(port)]
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    ) as child:
        try:
            assert child.stdout is not None
            lines = list(itertools.takewhile(lambda line: "Ctrl-C" not in line, child.stdout))
            assert any("is ready" in line for line in lines), "".join(lines)
            assert child.poll() is None, "".join(lines)
            with closing(RawClient(f"http://127.0.0.1:{port}/")) as raw:
                yield ServerProcess(child, raw)
        finally:
            child.kill()
