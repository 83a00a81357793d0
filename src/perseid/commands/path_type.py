"""Paths as commands take them: an empty one is a mistake and not the current directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click


class NamedPath(click.Path):
    """`is_replaced` refuses devices, pipes and whatever else must not give way to a file."""

    def __init__(self, *, must_be_file: bool = False, **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self._must_be_file = must_be_file

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("The path is empty.", param, ctx)
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self._must_be_file and path.exists() and not path.is_file():
            self.fail(f"'{path}' is not a file.", param, ctx)
        return path
