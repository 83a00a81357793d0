"""`perseid` with a system clock that a test sets: `python -m tests.faults.shifted serve …`.

The file that CLOCK_FILE names holds the seconds by which the clock is wrong; it may change at any
time.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Final

CLOCK_FILE: Final = "PERSEID_FAULTS_CLOCK"
_DOUBLE: Final = struct.Struct("d")


class ShiftedClock:
    """The system clock of the servers that this process starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.offset = 0.0
        self.set(0.0)
        os.environ[CLOCK_FILE] = str(path)

    def set(self, offset: float) -> None:
        self.offset = offset
        with self._path.open("r+b" if self._path.exists() else "wb") as file:
            file.write(_DOUBLE.pack(offset))


def main() -> None:
    with Path(os.environ[CLOCK_FILE]).open("rb") as file:
        shared = mmap.mmap(file.fileno(), _DOUBLE.size, access=mmap.ACCESS_READ)
    real = time.time

    def shifted() -> float:
        offset: float = _DOUBLE.unpack_from(shared)[0]
        return real() + offset

    time.time = shifted  # before anything of perseid is imported

    from perseid.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
