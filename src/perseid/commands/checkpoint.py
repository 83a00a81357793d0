"""The progress of an import or export in a small file, so that a later run can continue it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from perseid import private_files
from perseid.commands.arguments import NamedPath

F = TypeVar("F", bound=Callable[..., Any])

_HEAD: Final = 64 * 1024


def resumable(verb: str, stream: str) -> Callable[[F], F]:
    """Adds --checkpoint, --restart and --json to a command that can continue an earlier run."""

    def decorated(command: F) -> F:
        for option in reversed(
            (
                click.option(
                    "--checkpoint",
                    type=NamedPath(must_be_file=True, dir_okay=False),
                    help=f"File that records the progress of the {verb}. Default:"
                    f" FILE.{verb}-state next to FILE; none for standard {stream}.",
                ),
                click.option(
                    "--restart", is_flag=True, help="Ignore an existing checkpoint and start over."
                ),
                click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
            )
        ):
            command = option(command)
        return command

    return decorated


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A progress file. `path` is None if the command cannot be continued.

    `purpose` identifies what the state belongs to: a file, a container, a format.
    """

    path: Path | None
    purpose: dict[str, Any]

    @property
    def hint(self) -> str:
        """What to do after an interruption; follows the sentence that reports it."""
        return "" if self.path is None else " Run the same command again to continue."

    def load(self) -> dict[str, Any] | None:
        """The stored state; click.ClickException if it belongs to something else."""
        if self.path is None or not self.path.exists():
            return None
        try:
            stored = json.loads(self.path.read_bytes())
            state: dict[str, Any] = stored["state"]
            purpose: dict[str, Any] = stored["purpose"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise click.ClickException(
                f"{self.path} is not a valid checkpoint; start over with --restart."
            ) from exc
        for name, value in self.purpose.items():
            if purpose.get(name) != value:
                raise click.ClickException(
                    f"{self.path} was written by a run with another {name}"
                    f" ({purpose.get(name)}, now {value}). Start over with --restart, or give"
                    " each run its own file with --checkpoint."
                )
        return state

    def check_writable(self) -> None:
        """click.ClickException if the file cannot be written, before the first items are sent."""
        if self.path is not None:
            self._write(self.path, "").unlink()

    def save(self, state: dict[str, Any]) -> None:
        """Replaces the file atomically: a crash leaves the old one or the new one."""
        if self.path is not None:
            text = json.dumps({"purpose": self.purpose, "state": state}, indent=1)
            os.replace(self._write(self.path, text), self.path)

    def _write(self, path: Path, text: str) -> Path:
        """Writes a new file next to `path` and returns its path."""
        new_file = path.with_name(path.name + ".new")
        try:
            with private_files.create_file(new_file) as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            return new_file
        except OSError as exc:
            raise click.ClickException(
                f"Cannot write {path}: {exc.strerror}. Choose another file with --checkpoint."
            ) from exc

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def fingerprint(path: Path) -> str:
    """Detects a changed file by its size and its first bytes."""
    with open(path, "rb") as file:
        head = hashlib.sha256(file.read(_HEAD)).hexdigest()[:16]
    return f"{path.stat().st_size}-{head}"
