"""Documentation as data: code blocks, links and tables of a page, and a reader who runs blocks.

A block whose fence says `run` behind the language is run; one that says `output` is what the block
before it prints, where `…` stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
DOCS: Final = ROOT / "docs"
PAGES: Final = (
    README,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "tests" / "README.md",
    *sorted(DOCS.rglob("*.md")),
)
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*) *(?P<mark>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_SHELL_SECONDS: Final = 60


class Block(NamedTuple):
    """A fenced block; `line` is that of its fence."""

    language: str
    mark: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    content = page.read_text()
    return [
        Block(
            found["language"],
            found["mark"].strip(),
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            content.count("\n", 0, found.start()) + 1,
        )
        for found in _FENCE.finditer(content)
    ]


def is_runnable(page: Path) -> bool:
    return any(block.mark == "run" for block in blocks(page))


def links(page: Path) -> list[str]:
    """Targets of links and pictures; code is not searched for them."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", _FENCE.sub("", page.read_text())))


def anchors(page: Path) -> set[str]:
    """The names that headings of a page have in links."""
    titles = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row below a heading row."""
    for line in re.findall(r"^\|(.*)\|$", text, re.MULTILINE):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
        if not set(cells[0]) <= set("-: "):
            yield cells


class Reader:
    """Pastes the blocks of a page one after the other, as a newcomer would.

    `places` says where the servers really are that a page names. Commands find the one that is
    named first.
    """

    def __init__(self, directory: Path, places: Mapping[str, str]) -> None:
        self._directory = directory
        self.places = places
        self._names: dict[str, object] = {"__name__": "__main__"}
        command = directory / "bin" / "perseid"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m perseid "$@"\n')
        command.chmod(0o755)

    def read(self, page: Path) -> None:
        """Runs what is marked; AssertionError if a block prints something else than it should."""
        printed = ""
        for block in blocks(page):
            if block.mark == "run":
                printed = self._run(block, f"{page.name}:{block.line}")
            elif block.mark == "output":
                pattern = ".*?".join(map(re.escape, block.text.split("…")))
                assert re.fullmatch(pattern, printed, re.DOTALL), f"line {block.line}: {printed}"

    def close(self) -> None:
        """Ends the connections of clients that blocks have made."""
        for each in self._names.values():
            if type(each).__name__ == "CosmosClient":
                each.__exit__()  # type: ignore[attr-defined]

    def _run(self, block: Block, where: str) -> str:
        text = block.text
        for shown, real in self.places.items():
            text = text.replace(shown, real)
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(text, where, "exec"), self._names)
            return printed.getvalue()
        assert block.language == "sh", f"{where}: blocks in {block.language} cannot be run"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.replace(".venv/bin/perseid", "perseid")],
            cwd=self._directory,
            env=os.environ
            | {
                "PATH": f"{self._directory / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "src"),
                "PERSEID_ENDPOINT": next(iter(self.places.values())),
                "COLUMNS": "100",
            },
            capture_output=True,
            text=True,
            timeout=_SHELL_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{where}: {done.stderr}"
        return done.stdout
