"""The version of the SQLite library that comes with the driver; `perseid --version` prints it."""

from __future__ import annotations

import apsw


def sqlite_version() -> str:
    return apsw.sqlite_lib_version()
