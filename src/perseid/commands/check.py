"""`perseid check`: checks the integrity of a data directory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from perseid.commands.arguments import NamedPath
from perseid.commands.output import plural, print_json, printable
from perseid.config import Settings
from perseid.store.types import StoreError


@click.command()
@click.argument("directory", type=NamedPath(), default=Settings().data)
@click.option("--quick", "is_quick", is_flag=True, help="Skip the per-item checks.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def check(directory: Path, *, is_quick: bool, as_json: bool) -> None:
    """Check the data in DIRECTORY; default: perseid-data.

    Checks the database file, counters, items, unique keys and change logs. It changes nothing and
    may run while a server uses the directory. The exit code is 0 if there are no problems, 1 if
    there are.

    \b
    Example:
      perseid check /var/lib/perseid
    """
    from perseid.commands import integrity

    try:
        checks = integrity.check(directory, is_quick=is_quick)
    except StoreError as exc:
        raise click.ClickException(f"{str(exc)[0].upper()}{str(exc)[1:]}.") from exc
    is_ok = not any(each.wrong for each in checks)
    if as_json:
        print_json({"ok": is_ok, "checks": [asdict(each) for each in checks]})
    else:
        for each in checks:
            verdict = plural(each.wrong, "problem") if each.wrong else "no problems"
            click.echo(f"{each.name}: {each.checked:,} checked, {verdict}")
            for problem in each.problems:
                click.echo(f"  {printable(problem)}")
            if each.wrong > len(each.problems):
                click.echo(f"  and {each.wrong - len(each.problems)} more")
    if not is_ok:
        raise SystemExit(1)
