"""Source, tests, docs, portal and `--help` do without the words that docs/glossary.md bans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from tests.support.cli import all_commands

ROOT: Final = Path(__file__).parents[2]
GLOSSARY: Final = ROOT / "docs" / "glossary.md"

# A user of the system, whose name is banned, runs the PostgreSQL server of the tests.
EXCEPTIONS: Final = ("tests/support/postgres.py",)

# Released migrations never change, and neither does the data that tests upgrade with them. Data
# files of earlier layouts are read under the names that they have.
FROZEN: Final = (
    "src/perseid/store/sqlite/earlier_layouts.py",
    "src/perseid/store/sqlite/migrations.py",
    "src/perseid/store/postgres/migrations.py",
    "tests/store/sqlite/old_layouts.py",
    "tests/upgrade/**/*",
)
CHECKED: Final = (
    "*.md", "*.yml", "Makefile", "Dockerfile", "pyproject.toml", ".pre-commit-config.yaml",
    ".ci/*", ".github/**/*", "bench/**/*", "docs/**/*", "examples/**/*", "src/**/*", "tests/**/*",
)  # fmt: skip
SUFFIXES: Final = {
    "",
    ".css",
    ".html",
    ".js",
    ".md",
    ".mjs",
    ".py",
    ".sql",
    ".svg",
    ".toml",
    ".yaml",
    ".yml",
}
# A bracket is a word, so that the parameter of a function is not taken for a part of its name.
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|\(")


def words(text: str) -> str:
    """The words of a text in lower case, with spaces around them; identifiers are taken apart."""
    return f" {' '.join(_WORD.findall(text)).lower()} "


def glossary() -> str:
    return GLOSSARY.read_text()


def banned() -> dict[str, str]:
    """What to say instead of each banned word, which is spelt as `words` does."""
    section = glossary().partition("\n## Banned words\n")[2].partition("\n## ")[0]
    replacements = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            _, terms, replacement, _ = line.split("|")
            for term in re.findall(r"`([^`]+)`", terms):
                replacements[words(term)] = replacement.strip()
    return replacements


BANNED: Final = banned()


def paths(globs: Sequence[str]) -> set[Path]:
    return {path for glob in globs for path in ROOT.glob(glob)}


def checked_files(globs: Sequence[str]) -> list[Path]:
    return sorted(
        path
        for path in paths(globs) - paths(FROZEN)
        if path.is_file() and path.suffix in SUFFIXES and "node_modules" not in path.parts
    )


def text_of(path: Path) -> str:
    if path == GLOSSARY:
        return glossary().partition("\n## Banned words\n")[0]
    return path.read_text()


def problems_of(path: Path) -> list[str]:
    name = str(path.relative_to(ROOT))
    return [*problems(name, name), *problems(text_of(path), name)]


def problems(text: str, name: str) -> Iterator[str]:
    all_words = words(text)
    for term, replacement in BANNED.items():
        if term not in all_words:
            continue
        lines = [str(n) for n, line in enumerate(text.splitlines(), 1) if term in words(line)]
        # A phrase may be on two lines.
        yield f"{name}:{','.join(lines) or '?'}: '{term.strip()}'; say: {replacement}"


COMMANDS: Final = dict(all_commands())


def test_the_glossary_has_banned_words() -> None:
    assert len(BANNED) > 20


def test_identifiers_are_taken_apart() -> None:
    assert words("putIfAbsent, is_live; HTTPStore2") == " put if absent is live http store 2 "


def test_files_have_no_banned_words() -> None:
    exceptions = paths(EXCEPTIONS)
    files = [path for path in checked_files(CHECKED) if path not in exceptions]
    assert [problem for path in files for problem in problems_of(path)] == []


@pytest.mark.parametrize("glob", EXCEPTIONS)
def test_exceptions_are_still_needed(glob: str) -> None:
    assert any(problems_of(path) for path in checked_files([glob])), "remove it from EXCEPTIONS"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_no_banned_words(name: str) -> None:
    shown = CliRunner().invoke(COMMANDS[name], ["--help"], prog_name=name)
    assert shown.exit_code == 0
    listed = list(problems(shown.stdout, f"{name} --help"))
    assert listed == []
