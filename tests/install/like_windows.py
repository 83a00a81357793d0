"""`python -m tests.install.like_windows serve …` runs `perseid` as if the system were Windows.

This is an imitation: what Windows lacks is taken away, and files behave as there in the three ways
that have caused failures. Only a run on Windows can show that Perseid works there.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

MISSING_MODULES = ("fcntl", "grp", "pwd", "readline", "resource", "termios", "uvloop")
MISSING_NAMES = {
    os: (
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "PRIO_PROCESS", "geteuid", "getpriority",
        "getuid", "posix_fallocate", "setpriority", "sysconf",
    ),
    signal: ("SIGKILL", "SIGHUP", "SIGQUIT"),
}  # fmt: skip


_access = os.access


def open_files() -> set[Path]:
    """The files that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(Path(os.readlink(f"/proc/self/fd/{name}")))
        except OSError:  # the one that listed the folder
            continue
    return found


def lock(descriptor: int, _mode: int, size: int) -> None:
    """Locks bytes from the current position on, as `msvcrt.locking` does."""
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, size, 0, os.SEEK_CUR)


def rename(self: Path, target: Path) -> Path:
    """Windows refuses to rename a directory that contains an open file."""
    if any(self in file.parents for file in open_files()):
        raise PermissionError(13, "Access is denied", str(self))
    os.rename(self, target)
    return target


def remove_tree(path: Path, **_options: Any) -> None:
    """Removes what is not open, as `shutil.rmtree` does with `ignore_errors`."""
    in_use = open_files()
    for each in sorted(path.rglob("*"), reverse=True):
        if each.is_dir():
            each.rmdir()
        elif each not in in_use:
            each.unlink()
    if not any(path.iterdir()):
        path.rmdir()


def has_access(path: Any, mode: int, **options: Any) -> bool:
    """There is no /dev/shm."""
    return not str(path).startswith("/dev/") and _access(path, mode, **options)


def refuse_handler(*_arguments: Any) -> None:
    raise NotImplementedError


def imitate() -> None:
    import apsw
    import click
    import cryptography.x509
    import granian.server.embed
    import orjson
    import psycopg_pool
    import rich.console
    import yaml

    # Libraries have their own code for each system, so they are loaded before it seems to change.
    assert all((apsw, click, cryptography, granian, orjson, psycopg_pool, pytest, rich, yaml))
    for name in MISSING_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    for module, names in MISSING_NAMES.items():
        for name in names:
            delattr(module, name)
    msvcrt = ModuleType("msvcrt")
    vars(msvcrt).update(LK_NBLCK=2, locking=lock)
    sys.modules["msvcrt"] = msvcrt
    setattr(asyncio.SelectorEventLoop, "add_signal_handler", refuse_handler)  # noqa: B010
    setattr(os, "access", has_access)  # noqa: B010
    setattr(Path, "rename", rename)  # noqa: B010
    setattr(shutil, "rmtree", remove_tree)  # noqa: B010
    sys.platform = "win32"


if __name__ == "__main__":
    imitate()
    from perseid.__main__ import main

    main()
