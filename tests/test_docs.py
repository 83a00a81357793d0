"""The documentation names every route and setting, and its examples run."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from perseid.cli import main
from perseid.config import Settings
from perseid.http import admin

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ADMIN = (ROOT / "docs" / "admin.md").read_text()


@pytest.mark.parametrize("name", admin.ROUTES)
def test_every_administration_route_is_documented(name: str) -> None:
    shown = name.replace("*/*", "{database}/{container}")
    for method in admin.ROUTES[name]:
        assert f"`{method} /_perseid/{shown}`" in ADMIN


@pytest.mark.parametrize("setting", [field.name for field in dataclasses.fields(Settings)])
def test_every_setting_has_a_flag_with_help(setting: str) -> None:
    options = {option.name: option for option in main.commands["serve"].params}
    help_text = getattr(options[setting], "help", "")
    assert help_text.endswith(".")


def test_the_first_example_of_the_readme_runs(endpoint: str) -> None:
    """As a newcomer pastes it, but for the port."""
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    code = blocks[0].replace("http://127.0.0.1:8081/", endpoint)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    names["client"].__exit__()  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_pictures_and_pages_that_are_linked_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_picture_is_shown_somewhere() -> None:
    text = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    for picture in (ROOT / "docs" / "images").iterdir():
        assert f"images/{picture.name}" in text
