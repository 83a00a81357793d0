"""`perseid completion`: prints a script with which a shell completes commands and options."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

SHELLS: Final[dict[str, type[ShellComplete]]] = {
    "bash": BashComplete,
    "fish": FishComplete,
    "zsh": ZshComplete,
}
VARIABLE: Final = "_PERSEID_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for bash, zsh or fish.

    \b
    Examples:
      eval "$(perseid completion bash)"       in ~/.bashrc
      eval "$(perseid completion zsh)"        in ~/.zshrc
      perseid completion fish > ~/.config/fish/completions/perseid.fish
    """
    program = context.find_root().command
    script = SHELLS[shell](program, {}, "perseid", VARIABLE)
    # Not `source()`: for bash it would start bash to read its version.
    click.echo(script.source_template % script.source_vars())
