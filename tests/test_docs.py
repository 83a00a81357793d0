"""The documentation names every route and setting, and its examples run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from perseid import pytest_plugin, start_file
from perseid.cli import main
from perseid.commands import shell
from perseid.config import Settings
from perseid.http import admin
from perseid.start_file import declaring

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ADMIN = (ROOT / "docs" / "admin.md").read_text()
CLI = (ROOT / "docs" / "cli.md").read_text()
INIT = (ROOT / "docs" / "init.md").read_text()
PYTEST = (ROOT / "docs" / "pytest.md").read_text()


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


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words that call it."""
    if isinstance(command, click.Group):
        for word, child in command.commands.items():
            yield from commands(child, f"{name} {word}")
    else:
        yield name, command


COMMANDS = dict(commands(main, "perseid"))
SHARED = CLI.partition("## Options that many commands share")[2].partition("\n## ")[0]


def section_of(name: str) -> str:
    """What the documentation says about a command, or about the group it belongs to."""
    title = " ".join(name.split()[:2])
    return CLI.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    section = section_of(name)
    assert section, f"docs/cli.md has no section about {name}"
    if len(name.split()) > 2:
        assert f"`{name}" in section
    for option in COMMANDS[name].params:
        if isinstance(option, click.Option):
            for flag in (*option.opts, *option.secondary_opts):
                assert re.search(rf"(?<![\w-]){flag}(?![\w-])", section + SHARED), f"{name} {flag}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_explains_itself(name: str) -> None:
    command = COMMANDS[name]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert (option.help or "").endswith("."), f"{name} {option.opts}"


def test_every_command_of_the_shell_is_documented() -> None:
    for name in shell.COMMANDS:
        assert f"`{name}" in section_of("perseid query")


def test_every_property_of_the_start_file_is_documented() -> None:
    for name in (*declaring._DATABASE, *declaring._CONTAINER, *declaring._SEED):
        assert f"`{name}`" in INIT


def test_the_example_of_a_start_file_is_good(tmp_path: Path) -> None:
    path = tmp_path / "start.yaml"
    path.write_text(re.findall(r"```yaml\n(.*?)```", INIT, re.DOTALL)[0])
    declared = start_file.declare(path, start_file.read(path))
    assert [each.id for each in declared.databases[0].containers] == ["sessions", "orders"]


def test_every_fixture_and_setting_of_the_plugin_is_documented() -> None:
    fixtures = [
        name
        for name, each in vars(pytest_plugin).items()
        if type(each).__name__ == "FixtureFunctionDefinition"
    ]
    assert len(fixtures) == 7
    settings = [name for name, _ in pytest_plugin._SETTINGS]
    for name in (*fixtures, *settings):
        assert f"`{name}`" in PYTEST


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
