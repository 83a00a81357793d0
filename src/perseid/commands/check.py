"""`perseid check`: tells whether a data directory is sound."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from perseid.commands.output import print_json, printable
from perseid.commands.path_type import NamedPath
from perseid.config import Settings
from perseid.store.types import StoreError


@click.command()
@click.argument("directory", type=NamedPath(), default=Settings().data)
@click.option("--quick", "is_quick", is_flag=True, help="Leave out the look at every item.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def check(directory: Path, *, is_quick: bool, as_json: bool) -> None:
    """Check the data in DIRECTORY; default: perseid-data.

    Looks at the database file, at the counters, at every item, at the unique keys and at the change
    logs. Changes nothing and may run while a server uses the directory. The exit code is 0 if all
    is sound, 1 if something is wrong.

    \b
    Example:
      perseid check /var/lib/perseid
    """
    from perseid.commands import integrity

    try:
        findings = integrity.check(directory, is_quick=is_quick)
    except StoreError as exc:
        raise click.ClickException(f"{str(exc)[0].upper()}{str(exc)[1:]}.") from exc
    is_sound = not any(finding.wrong for finding in findings)
    if as_json:
        print_json({"sound": is_sound, "findings": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            verdict = f"{finding.wrong} wrong" if finding.wrong else "sound"
            click.echo(f"{finding.name}: {finding.looked:,} looked at, {verdict}")
            for problem in finding.problems:
                click.echo(f"  {printable(problem)}")
            if finding.wrong > len(finding.problems):
                click.echo(f"  and {finding.wrong - len(finding.problems)} more")
    if not is_sound:
        raise SystemExit(1)
