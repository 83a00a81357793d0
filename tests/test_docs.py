"""Every route, setting, command and function is documented, and the examples of the pages run."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from perseid import start_file
from perseid.clock import MovableClock
from perseid.commands import clock, container, db, query_shell, ttl
from perseid.commands.cli import main
from perseid.config import Settings
from perseid.http.admin import routes as admin
from perseid.query import CallContext, compile_query, run
from perseid.query.functions import AGGREGATES, BUILTINS
from perseid.start_file import declarations
from perseid.testing import pytest_plugin
from tests.support.cli import all_commands
from tests.support.pages import (
    DOCS,
    PAGES,
    README,
    ROOT,
    Reader,
    anchors,
    blocks,
    is_runnable,
    links,
    rows,
)
from tests.support.raw import RawClient
from tests.support.running import running

ADMIN = (DOCS / "admin.md").read_text()
CLI = (DOCS / "cli.md").read_text()
INIT = (DOCS / "init.md").read_text()
PYTEST = (DOCS / "pytest.md").read_text()
ALL_TEXT = "".join(page.read_text() for page in PAGES)
CONTEXT = CallContext(0.0, lambda: 0.5)
# The addresses of servers in the pages; users migrate to the second one.
FIRST, SECOND = "http://127.0.0.1:8081/", "http://127.0.0.1:8082/"


def section(page: str, title: str) -> str:
    """The text of a page under a heading of the second level."""
    text = (DOCS / page).read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    assert text, f"docs/{page} has no section '{title}'"
    return text


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


# Completeness


@pytest.mark.parametrize("name", admin.ROUTES)
def test_every_administration_route_is_documented(name: str) -> None:
    path = name.replace("*/*", "{database}/{container}")
    for method in admin.ROUTES[name]:
        assert f"`{method} /_perseid/{path}`" in ADMIN


@pytest.mark.parametrize("setting", [field.name for field in dataclasses.fields(Settings)])
def test_every_setting_has_a_flag_with_help(setting: str) -> None:
    options = {option.name: option for option in COMMANDS["perseid serve"].params}
    help_text = getattr(options[setting], "help", "")
    assert help_text.endswith(".")


def test_the_table_of_settings_is_complete_and_true() -> None:
    documented = {row[0]: row[1:3] for row in rows(section("operations.md", "Settings"))}
    documented.pop("flag")
    expected = {
        f"`--{field.name.replace('_', '-')}`": [
            f"`PERSEID_{field.name.upper()}`",
            shown_default(field),
        ]
        for field in dataclasses.fields(Settings)
    }
    assert documented == expected


def shown_default(field: dataclasses.Field[Any]) -> str:
    if field.name == "key":
        return "the emulators' key"
    if field.default is False:
        return "off"
    return "none" if field.default is None else f"`{field.default}`"


COMMANDS = {
    name: command for name, command in all_commands() if not isinstance(command, click.Group)
}
SHARED = CLI.partition("## Options that many commands share")[2].partition("\n## ")[0]


def section_of(name: str) -> str:
    """The documentation of a command, or of the group it belongs to."""
    title = " ".join(name.split()[:2])
    text = CLI.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return text + section("operations.md", "Settings") if title == "perseid serve" else text


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(name: str) -> None:
    _, title, examples = (COMMANDS[name].help or "").partition("Example")
    assert title
    assert name in examples


@pytest.mark.parametrize("group", [main, clock.clock, container.container, db.db, ttl.ttl])
def test_no_description_is_cut(group: click.Group) -> None:
    listed = CliRunner().invoke(group, ["--help"], env={"COLUMNS": "80"}).stdout
    assert "..." not in listed.partition("Commands:")[2]


def test_every_command_of_the_shell_is_documented() -> None:
    for name in query_shell.COMMANDS:
        assert f"`{name}" in section_of("perseid query")


def test_every_property_of_the_start_file_is_documented() -> None:
    for name in (*declarations._DATABASE, *declarations._CONTAINER, *declarations._SEED):
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


def test_the_tables_of_functions_are_complete() -> None:
    described = re.findall(r"^\| `(\w+)\(", section("query.md", "Functions"), re.MULTILINE)
    assert len(described) == len(set(described))
    assert {name.upper() for name in described} == {*BUILTINS, *AGGREGATES}


EXAMPLES = [row[2:] for row in rows(section("query.md", "Functions")) if row[2][:1] == "`"]


@pytest.mark.parametrize(("example", "result"), EXAMPLES)
def test_examples_of_functions_give_what_they_say(example: str, result: str) -> None:
    text = example.strip("`")
    query = f"SELECT VALUE ({text}) FROM c" if text.startswith("SELECT") else f"SELECT VALUE {text}"
    rows_of_query = list(run(compile_query(query), [{"n": [1, 2, 2]}], {}, CONTEXT))
    assert rows_of_query == [json.loads(result.strip("`"))]


def test_every_series_of_the_metrics_is_documented(raw: RawClient) -> None:
    text = raw.get("/_perseid/metrics").body.decode()
    documented = section("operations.md", "Metrics")
    for series in re.findall(r"# TYPE (\w+)", text):
        assert f"`{series}`" in documented


def test_every_tested_difference_is_documented() -> None:
    tests = (ROOT / "tests" / "wire" / "test_differences.py").read_text()
    topics = {row[0] for row in rows((DOCS / "compatibility.md").read_text())}
    assert set(re.findall(r'difference\("([^"]+)"\)', tests)) <= topics


@pytest.mark.parametrize(
    "page", [DOCS / "architecture.md", *sorted((DOCS / "adr").iterdir())], ids=page_name
)
def test_files_named_in_a_page_exist(page: Path) -> None:
    for name in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        places = (ROOT / "src" / "perseid" / name, ROOT / name)
        is_there = any(place.exists() for place in places)
        assert is_there, name


# Links and syntax


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_are_named_by_titles(page: Path) -> None:
    """On the site there are no files: menus and headings show titles."""
    assert re.findall(r"\[[\w./-]+\.md\]\(", page.read_text()) == []
    assert "[README]" not in page.read_text()


def test_every_page_can_be_reached_from_the_contents() -> None:
    reachable = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "index.md")}
    assert set(DOCS.glob("*.md")) - {DOCS / "index.md"} <= reachable
    assert "docs/index.md" in links(README)


def test_every_picture_is_shown_somewhere() -> None:
    for picture in (DOCS / "images").iterdir():
        assert f"images/{picture.name}" in ALL_TEXT


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_json_blocks_are_json(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json":
            json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_python_blocks_are_python(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block.text, f"{page.name}:{block.line}", "exec")


# Examples

CLIENTS = {page.stem: page for page in sorted((DOCS / "clients").glob("*.md"))}
PROGRAM_SUFFIXES = (".cs", ".go", ".java", ".mjs", ".mod", ".py", ".rs", ".toml", ".xml")
NOT_CODE = ("", "json", "sh", "text", "yaml")


def lines_of(text: str) -> str:
    """The text without indentation and empty lines: a page shows a part of a file."""
    return "\n".join(filter(None, map(str.strip, text.splitlines())))


@pytest.mark.parametrize("client", CLIENTS)
def test_the_code_of_a_client_is_that_of_its_program(client: str) -> None:
    """Code in other languages does not run here; the program of each client is run with it."""
    program = ROOT / "tests" / "clients" / client
    sources = [
        lines_of(file.read_text()) for file in program.rglob("*") if file.suffix in PROGRAM_SUFFIXES
    ]
    for block in blocks(CLIENTS[client]):
        if block.language not in NOT_CODE and block.mark != "run":  # the others run here
            code = lines_of(block.text)
            assert any(code in source for source in sources), f"{client}.md:{block.line}"


def test_every_client_program_has_a_page_that_connects() -> None:
    programs = {each.name for each in (ROOT / "tests" / "clients").iterdir() if each.is_dir()}
    assert {name for name in programs if not name.startswith("__")} == set(CLIENTS)
    for page in CLIENTS.values():
        connect = page.read_text().partition("\n## Connect\n")[2].partition("\n## ")[0]
        assert "```" in connect, page.name


# Where the version of each client is pinned that is not the latest one.
PINNED = {
    "java/pom.xml": r"<artifactId>azure-cosmos</artifactId>\s*<version>([^<]+)<",
    "go/go.mod": r"/azcosmos v(\S+)",
    "rust/Cargo.toml": r'azure_data_cosmos = \{ version = "=([^"]+)"',
    "dotnet/Perseid.Client.csproj": r'"Microsoft.Azure.Cosmos" Version="([^"]+)"',
    "tools.py": r'"[a-z-]+==([^"]+)"',
}


@pytest.mark.parametrize("file", PINNED)
def test_the_table_of_clients_has_the_versions_that_are_run(file: str) -> None:
    text = (ROOT / "tests" / "clients" / file).read_text()
    versions = re.findall(PINNED[file], text)
    assert versions
    for version in versions:
        assert version in section("compatibility.md", "Clients that were run")


@pytest.fixture
def movable() -> MovableClock:
    clock = MovableClock()
    clock.freeze()
    return clock


@pytest.fixture
def reader(
    tmp_path: Path, movable: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """A reader of the pages with two servers; `time.sleep` moves their clock."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "sleep", movable.advance)
    data = Settings(data=tmp_path / "perseid-data", durability="off")
    with running(data, movable) as first, running(Settings(memory=True), movable) as second:
        reader = Reader(tmp_path, {FIRST: first.endpoint, SECOND: second.endpoint})
        yield reader
        reader.close()


def create_sessions(endpoint: str) -> None:
    """Creates two sessions for the page about migrating."""
    client = RawClient(endpoint)
    key = {"paths": ["/user"], "kind": "Hash", "version": 2}
    client.post("/dbs", {"id": "shop"})
    client.post("/dbs/shop/colls", {"id": "sessions", "partitionKey": key, "defaultTtl": 60})
    for name in ("s1", "s2"):
        client.post("/dbs/shop/colls/sessions/docs", {"id": name, "user": "ada"}, pk='["ada"]')
    client.close()


@pytest.mark.parametrize("page", [page for page in PAGES if is_runnable(page)], ids=page_name)
def test_the_examples_run(page: Path, reader: Reader) -> None:
    """All blocks of a page in one session, from top to bottom."""
    if page.name == "migrating.md":
        create_sessions(reader.places[FIRST])
    reader.read(page)


@pytest.mark.parametrize("tls", [False, True])
def test_the_health_check_of_the_image(tls: bool) -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    (command,) = re.findall(r"^HEALTHCHECK .*? CMD (.*)$", text, re.MULTILINE)
    with running(Settings(memory=True, tls=tls)) as settings:
        variables = {"PERSEID_PORT": str(settings.port), "PERSEID_TLS": "1" if tls else "0"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        for more, is_well in (({}, True), ({"PERSEID_PORT": "1"}, False)):
            done = subprocess.run(
                json.loads(command),
                env=os.environ | {"PATH": path} | variables | more,
                stderr=subprocess.PIPE,
                check=False,
            )
            assert (done.returncode == 0) is is_well, done.stderr


def test_the_image_has_what_the_pages_start_it_with() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "pip install --no-cache-dir '.[postgres]'" in text  # for --store


def test_the_image_keeps_its_data_in_its_volume_unless_told_otherwise() -> None:
    """By the default: PERSEID_DATA would contradict the PERSEID_MEMORY of the compose file."""
    text = (ROOT / "Dockerfile").read_text()
    assert not re.search(r"^ENV .*PERSEID_DATA", text, re.MULTILINE)
    assert "WORKDIR /\n" in text
    assert f"ln -s data /{Settings().data}" in text


def test_a_backup_can_be_served(reader: Reader, tmp_path: Path) -> None:
    reader.read(DOCS / "operations.md")
    with running(Settings(data=tmp_path / "restored")) as settings:
        client = RawClient(settings.endpoint)
        assert client.get("/dbs/shop/colls/orders/docs/o1", pk='["ada"]').status == 200
        client.close()
