"""The modules of the package, for tests that read its source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "src" / "perseid"
MODULES: Final = sorted(PACKAGE.rglob("*.py"))


def name_of(module: Path) -> str:
    """The path of a module in the package."""
    return module.relative_to(PACKAGE).as_posix()
