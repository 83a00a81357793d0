"""What tests compile or install once: in the user's cache folder, never in the source tree."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perseid"


def kept(name: str, sources: Iterable[bytes], fill: Callable[[Path], None]) -> Path:
    """A folder that `fill` has filled; it is made again when the sources change.

    It is filled next to its place and renamed: no other process ever sees half of it.
    """
    digest = hashlib.sha256(b"".join(sources)).hexdigest()[:16]
    place = CACHE / f"{name}-{digest}"
    if place.exists():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, ignore_cleanup_errors=True) as temporary:
        fresh = Path(temporary) / "fresh"
        fresh.mkdir()
        fill(fresh)
        try:
            fresh.rename(place)
        except OSError:
            if not place.exists():  # else another process was faster, and has made the same
                raise
    return place
