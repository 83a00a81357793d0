"""The two servers as child processes on loopback: start them, wait for them, stop them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bench.errors import BenchError, PeerUnavailable
from bench.storage import ServerData

PEER_PACKAGE: Final = "@vercel/cosmosdb-server"
PEER_VERSION: Final = "1.0.1"  # pinned, so that ratios of different days can be compared
_START_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 15.0
_IDLE_SECONDS: Final = 300.0
_INSTALL_SECONDS: Final = 300.0

# The package's command line closes the connection after each reply; its module can keep it open.
# Node's timeouts are off: they also count the time in which Node was too busy to read.
_PEER_SCRIPT: Final = """
const options = {keepAlive: true, keepAliveTimeout: 0, headersTimeout: 0, requestTimeout: 0};
require(process.argv[1]).createHttpServer(options).listen(Number(process.argv[2]), "127.0.0.1");
"""


class Server(NamedTuple):
    name: str
    version: str
    port: int
    pid: int
    start_seconds: float  # from starting the process to its first successful response
    ready_path: str

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def wait_until_idle(self) -> None:
        """Returns when the server has processed requests of clients that have disconnected."""
        if not _answers(self.port, self.ready_path, _IDLE_SECONDS):
            raise BenchError(f"{self.name} did not answer after a run")


@contextmanager
def perseid(server_data: ServerData, *flags: str, source: Path | None = None) -> Iterator[Server]:
    """Perseid as installed, or from `source`, on `server_data`; every commit is forced to disk."""
    from perseid import __version__

    port = free_port()
    command = [sys.executable, "-m", "perseid", "serve", "--host", "127.0.0.1"]
    command += ["--port", str(port), *server_data.flags, *flags]
    path = "/_perseid/ready"
    with _running(
        server_data.server,
        __version__,
        command,
        port=port,
        path=path,
        directory=server_data.directory,
        source=source,
    ) as server:
        yield server


@contextmanager
def peer(package: Path, directory: Path) -> Iterator[Server]:
    """The npm package that `install_peer` installed, over plain HTTP; it keeps data in memory."""
    port = free_port()
    command = [_program("node"), "-e", _PEER_SCRIPT, str(package), str(port)]
    with _running(
        PEER_PACKAGE, PEER_VERSION, command, port=port, path="/", directory=directory
    ) as server:
        yield server


def install_peer(directory: Path) -> Path:
    """Installs the npm package if it is missing; returns its directory."""
    npm = _program("npm")
    _program("node")
    package = directory / "node_modules" / PEER_PACKAGE
    if _installed_version(package) == PEER_VERSION:
        return package
    directory.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--prefix", str(directory), "--no-audit", "--no-fund"]
    command += ["--ignore-scripts", "--omit=dev", f"{PEER_PACKAGE}@{PEER_VERSION}"]
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"npm install took over {_INSTALL_SECONDS:.0f} s") from None
    except subprocess.CalledProcessError as exc:
        raise PeerUnavailable(f"npm install failed: {_first_error(exc.stderr)}") from None
    return package


def bench_directory() -> Path:
    """Directory of the package and of the data. Not /tmp, which may be in memory."""
    chosen = os.environ.get("PERSEID_BENCH_DIR")
    if chosen:
        return Path(chosen).absolute()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "perseid-bench"


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """For the data of one benchmark; removed with it."""
    directory = bench_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory("", "run-", directory) as scratch:
        yield Path(scratch)


def stop_on_sigterm() -> None:
    """Exit instead of being terminated, so that the servers are stopped, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024
    ps_output = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], check=True, capture_output=True, text=True
    )
    return int(ps_output.stdout) * 1024


@contextmanager
def _running(
    name: str,
    version: str,
    command: Sequence[str],
    *,
    port: int,
    path: str,
    directory: Path,
    source: Path | None = None,
) -> Iterator[Server]:
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "output.txt"
    # Settings in the caller's environment must not change what is measured.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PERSEID_")}
    env["PERSEID_HTTPS_PORT"] = "0"  # several servers run at a time, and earlier ones ignore it
    if source is not None:
        env["PYTHONPATH"] = str(source)
    with log.open("wb") as output:
        started_at = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
        )
        try:
            _wait_ready(name, process, port, path, log)
            start_seconds = time.perf_counter() - started_at
            yield Server(name, version, port, process.pid, start_seconds, path)
        finally:
            _stop(process)


def _wait_ready(
    name: str, process: subprocess.Popen[bytes], port: int, path: str, log: Path
) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            log_text = log.read_text(errors="replace").strip()
            raise BenchError(f"{name} exited with code {process.returncode}: {log_text[-500:]}")
        if _answers(port, path, _START_SECONDS):
            return
        time.sleep(0.005)
    raise BenchError(f"{name} did not answer within {_START_SECONDS:.0f} s")


def _answers(port: int, path: str, timeout: float) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    if process.returncode is None:
        process.kill()
        process.wait()


def _program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise PeerUnavailable(f"'{name}' is not on the PATH")
    return program


def _installed_version(package: Path) -> str | None:
    manifest = package / "package.json"
    if not manifest.exists():
        return None
    version: str = json.loads(manifest.read_text())["version"]
    return version


def _first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line.lower()]
    return (lines or text.splitlines() or ["no reason given"])[0].strip()
