"""Starts the installed Perseid, stores an item, reads it and stops the server, on any system.

`python tests/install/smoke.py` uses the `perseid` of this Python and nothing of the checkout. The
workflows run it on Linux, macOS and Windows.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

PERSEID: Final = (sys.executable, "-m", "perseid")
SECONDS: Final = 60
START_FILE: Final = """
databases:
  - id: shop
    containers:
      - id: orders
        partitionKey: /customer
"""
ITEM: Final = {"id": "o1", "customer": "ada"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(folder: Path, port: int) -> subprocess.Popen[str]:
    """A server that is ready; it is started in `folder`, where no checkout is found."""
    (folder / "start.yaml").write_text(START_FILE)
    server = subprocess.Popen(
        [*PERSEID, "serve", "--memory", "--port", str(port), "--init", "start.yaml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Windows sends Ctrl-Break to a group of processes, so the server gets its own.
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    assert server.stdout is not None
    said = ""
    for line in server.stdout:
        said += line
        if "Ctrl-C" in line:
            return server
    raise AssertionError(f"the server did not start:\n{said}")


def run(folder: Path, port: int, *arguments: str, given: str | None = None) -> str:
    """What a command of Perseid prints."""
    command, *rest = arguments
    done = subprocess.run(
        [*PERSEID, command, "--endpoint", f"http://127.0.0.1:{port}/", *rest],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def stop(server: subprocess.Popen[str]) -> str:
    """Asks the server to stop, as Ctrl-C does; what it still prints."""
    server.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))
    said, _ = server.communicate(timeout=SECONDS)
    assert server.returncode == 0, f"exit code {server.returncode}: {said}"
    return said


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        server = start(folder, port)
        try:
            run(folder, port, "import", "shop", "orders", "-", given=json.dumps(ITEM))
            query = ("query", "shop", "orders", "SELECT c.id, c.customer FROM c", "--json")
            answer: dict[str, Any] = json.loads(run(folder, port, *query))
            assert answer["items"] == [ITEM], answer
            said = stop(server)
        finally:
            server.kill()
            server.wait(SECONDS)
    assert "Stopped." in said, said
    sys.stdout.write("One item was stored and read, and the server has stopped.\n")


if __name__ == "__main__":
    main()
