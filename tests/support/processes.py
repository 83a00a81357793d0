"""Server processes that a test kills or stops; where that is not needed, `running` is faster."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import perseid
from perseid.config import Settings
from tests.support.raw import RawClient
from tests.support.running import free_port
from tests.support.stores import flags

STOP_SECONDS = 60.0  # until a test gives up waiting: a machine may be busy


def environment() -> dict[str, str]:
    """The variables of a process that imports the same `perseid` as the tests.

    Servers serve HTTP only: tests start many at a time, and the port for HTTPS is always the same.
    """
    source = str(Path(perseid.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path, "PERSEID_HTTPS_PORT": "0"}


class NotStarted(AssertionError):
    """The process ended before it was ready; the text is what it wrote."""


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
def server_process(
    settings: Settings,
    *options: str,
    module: str = "perseid",
    output: Path | None = None,
    port: int | None = None,
) -> Iterator[ServerProcess]:
    """A process that is ready for requests; it is killed at the end of the block if it still runs.

    `settings` says where the data is, `options` are further flags of `perseid serve`. A process
    that may write much gets a file for its output: a full pipe would stop it. `module` is run in
    the place of `perseid`, with the same arguments.
    """
    port = port or free_port()
    command = [sys.executable, "-m", module, "serve", *flags(settings), "--port", str(port)]
    with ExitStack() as stack:
        written = None if output is None else stack.enter_context(output.open("wb"))
        child = stack.enter_context(
            subprocess.Popen(
                [*command, *options],
                stdout=subprocess.PIPE if written is None else written,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment() | {"PERSEID_RELAXED": str(settings.relaxed)},
            )
        )
        try:
            said = _first_lines(child) if output is None else _first_text(child, output)
            if "is ready" not in said or child.poll() is not None:
                raise NotStarted(said)
            with closing(RawClient(f"http://127.0.0.1:{port}/")) as raw:
                yield ServerProcess(child, raw)
        finally:
            child.kill()


def _first_lines(child: subprocess.Popen[str]) -> str:
    """What the process writes until it is ready or has ended."""
    assert child.stdout is not None
    return "".join(itertools.takewhile(lambda line: "Ctrl-C" not in line, child.stdout))


def _first_text(child: subprocess.Popen[str], output: Path) -> str:
    """The same from a file."""
    give_up = time.monotonic() + STOP_SECONDS
    while True:
        has_ended = child.poll() is not None  # before the text is read, so that none is missed
        said = output.read_text(errors="replace")
        if "Ctrl-C" in said or has_ended or time.monotonic() > give_up:
            return said
        time.sleep(0.005)
