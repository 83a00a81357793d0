"""How far an import or export has come, in a small file beside the data, so that it can go on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from perseid.commands.path_type import NamedPath

F = TypeVar("F", bound=Callable[..., Any])

_HEAD: Final = 64 * 1024


def resumable(verb: str, stream: str) -> Callable[[F], F]:
    """The options of a command that goes on where it ended, and says as JSON how far it came."""

    def decorated(command: F) -> F:
        for option in reversed(
            (
                click.option(
                    "--checkpoint",
                    type=NamedPath(must_be_file=True, dir_okay=False),
                    help=f"Where to note how far the {verb} has come. Default:"
                    f" FILE.{verb}-state beside FILE; none for standard {stream}.",
                ),
                click.option(
                    "--restart", is_flag=True, help="Begin again although a checkpoint is there."
                ),
                click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
            )
        ):
            command = option(command)
        return command

    return decorated


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`path` is None where nothing can be resumed; `purpose` says what the state belongs to."""

    path: Path | None
    purpose: dict[str, Any]

    @property
    def hint(self) -> str:
        """What to do after an interruption; behind the sentence that tells of it."""
        return "" if self.path is None else " Run the same command again to go on."

    def load(self) -> dict[str, Any] | None:
        """What was stored last; click.ClickException if it belongs to something else."""
        if self.path is None or not self.path.exists():
            return None
        try:
            stored = json.loads(self.path.read_bytes())
            state: dict[str, Any] = stored["state"]
            purpose: dict[str, Any] = stored["purpose"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise click.ClickException(
                f"{self.path} cannot be read as the state of an earlier run;"
                " start over with --restart."
            ) from exc
        for name, value in self.purpose.items():
            if purpose.get(name) != value:
                raise click.ClickException(
                    f"{self.path} was left by a run with another {name}"
                    f" ({purpose.get(name)}, now {value}). Start over with --restart, or keep the"
                    " states of several runs apart with --checkpoint."
                )
        return state

    def check_writable(self) -> None:
        """click.ClickException if there is no place for it: now, and not after the first items."""
        if self.path is not None:
            self._write(self.path, "").unlink()

    def save(self, state: dict[str, Any]) -> None:
        """Replaces the file in one step: a crash leaves the old one or the new one."""
        if self.path is not None:
            text = json.dumps({"purpose": self.purpose, "state": state}, indent=1)
            os.replace(self._write(self.path, text), self.path)

    def _write(self, path: Path, text: str) -> Path:
        """The file that is to take the place of `path`."""
        new_file = path.with_name(path.name + ".new")
        try:
            with open(new_file, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            return new_file
        except OSError as exc:
            raise click.ClickException(
                f"Cannot write {path}: {exc.strerror}. Choose a place with --checkpoint."
            ) from exc

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def fingerprint(path: Path) -> str:
    """Tells whether a file is still the one that was begun: its size and its first bytes."""
    with open(path, "rb") as file:
        head = hashlib.sha256(file.read(_HEAD)).hexdigest()[:16]
    return f"{path.stat().st_size}-{head}"
