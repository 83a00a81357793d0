"""Which programs are compiled and run."""

from __future__ import annotations

import os
import shutil

import pytest


def skip_unless_asked_for(tool: str) -> None:
    """Skips a program that takes minutes to compile, unless `make clients` asks for all."""
    if not os.environ.get("PERSEID_CLIENTS"):
        pytest.skip("this program takes minutes to compile; make clients runs it")
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed; its client needs it")
