"""Options of the command line that several benchmarks have."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
PAIRS: Final = click.option(
    "--pairs", type=click.IntRange(1, 99), default=9, help="Pairs of runs of each row."
)
SECONDS: Final = click.option(
    "--seconds", type=click.IntRange(1, 60), default=3, help="Length of a run."
)
DOCUMENTS: Final = click.option(
    "--documents", type=click.IntRange(100, 200_000), default=10_000, help="Documents to load."
)
JSON_FILE: Final = click.option(
    "--json", "json_file", type=_FILE, help="Write all runs to this file."
)
MARKDOWN_FILE: Final = click.option(
    "--markdown", "markdown_file", type=_FILE, help="Write the table to this file, too."
)
