"""`perseid query`, its shell, `perseid portal` and `perseid completion`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.commands.admin_client import AdminClient
from perseid.commands.arguments import parse_key, parse_parameter
from perseid.commands.query import QuerySession, table_of
from perseid.commands.query_shell import COMMANDS, Shell
from perseid.commands.shell_completion import ShellCompleter
from perseid.config import Settings
from tests.support.builders import create_container
from tests.support.cli import Cli, decoded, invoke, printed
from tests.support.raw import RawClient
from tests.support.running import free_port, running
from tests.support.servers import RunningServer

OTHER_KEY = "b3RoZXIga2V5"


@pytest.fixture(scope="session")
def server(strict_server: RunningServer) -> RunningServer:
    """Commands get direct answers from a strict server, too."""
    return strict_server


@pytest.fixture
def container_names(raw: RawClient, container: str) -> tuple[str, str]:
    """Five people in two towns, and one without."""
    people = [("ada", "x"), ("bob", "x"), ("cy", "y"), ("dee", "y"), ("[b]eve\x1b", None)]
    for number, (name, town) in enumerate(people):
        body = {"id": str(number), "pk": "p", "name": name, "n": number}
        body |= {} if town is None else {"town": town, "more": {"a": [1]}}
        assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201
    _, _, database, _, name = container.split("/")
    return database, name


def test_a_table(cli: Cli, container_names: tuple[str, str]) -> None:
    result = cli("query", *container_names, "SELECT c.name, c.town, c.more FROM c ORDER BY c.n")
    lines = [" ".join(line.split()) for line in printed(result).splitlines()]
    assert lines[0] == "name town more"
    assert lines[1] == 'ada x {"a": [1]}'
    assert lines[5] == "[b]eve\N{REPLACEMENT CHARACTER}"
    assert result.stderr.startswith("5 results, ")
    assert result.stderr.endswith(" RU, 1 page\n")


def test_a_table_hides_nothing_that_was_asked_for(
    cli: Cli, container_names: tuple[str, str]
) -> None:
    output = printed(cli("query", *container_names, "SELECT TOP 1 c._etag, 7 AS _score FROM c"))
    assert output.split()[:2] == ["_etag", "_score"]
    whole = printed(cli("query", *container_names, "SELECT TOP 1 * FROM c"))
    assert "_ts" in whole
    assert "_rid" not in whole


def test_values_and_nothing(cli: Cli, container_names: tuple[str, str]) -> None:
    text = printed(cli("query", *container_names, "SELECT VALUE c.n FROM c WHERE c.n > 3"))
    assert text.split() == ["value", "4"]
    nothing = cli("query", *container_names, "SELECT * FROM c WHERE c.n > 30")
    assert (printed(nothing), nothing.stderr[:10]) == ("", "0 results,")


def test_json_with_parameters_and_pages(cli: Cli, container_names: tuple[str, str]) -> None:
    text = "SELECT VALUE c.name FROM c WHERE c.town = @town AND c.n >= @n ORDER BY c.n"
    found = decoded(
        cli(
            "query",
            *container_names,
            text,
            "-p",
            "@town=x",
            "-p",
            "n=0",
            "--page-size",
            "1",
            "--json",
        )
    )
    assert found["items"] == ["ada", "bob"]
    assert found["count"] == 2
    assert found["pages"] >= 2
    assert found["charge"] > 0


def test_lines_and_a_limit(cli: Cli, container_names: tuple[str, str]) -> None:
    text = "SELECT c.n FROM c ORDER BY c.n"
    lines = printed(
        cli("query", *container_names, text, "--lines", "--limit", "3", "--page-size", "2")
    )
    assert [json.loads(line) for line in lines.splitlines()] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_one_partition(cli: Cli, container_names: tuple[str, str]) -> None:
    text = "SELECT VALUE COUNT(1) FROM c"
    for key, count in (('"p"', 5), ('["p"]', 5), ('"q"', 0)):
        found = decoded(cli("query", *container_names, text, "--partition-key", key, "--json"))
        assert found["items"] == [count]


def test_a_query_from_a_pipe(cli: Cli, container_names: tuple[str, str]) -> None:
    assert decoded(cli("query", *container_names, "--json", given="SELECT VALUE 1\n"))["items"] == [
        1
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("SELEC * FROM c",), 1, "Syntax error"),
        (("SELECT 1", "-p", "novalue"), 2, "'novalue' is not of the form @name=value"),
        (("SELECT 1", "--partition-key", "p"), 2, "'p' is not JSON"),
        (("  ",), 2, "No query given"),
        (("SELECT '\udcff'",), 2, "is not UTF-8"),
        (("SELECT @a", "-p", "@a=\udcff"), 2, "is not UTF-8"),
        (("SELECT 1", "--partition-key", "NaN"), 2, "'NaN' is not JSON"),
        (("SELECT 1", "--partition-key", "1e999"), 2, "'1e999' is not JSON"),
    ],
)
def test_failures(
    cli: Cli, container_names: tuple[str, str], arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = cli("query", *container_names, *arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_places_that_are_not_there(cli: Cli, container_names: tuple[str, str]) -> None:
    missing = cli("query", "nowhere", "c", "SELECT 1")
    assert missing.exit_code == 1
    assert "does not exist: check the names of database and container" in missing.stderr
    assert "check the names" in cli("ttl", "status", container_names[0], "nowhere").stderr
    no_text = cli("query", container_names[0], "a\udcff", "SELECT 1")
    assert (no_text.exit_code, "is not UTF-8" in no_text.stderr) == (2, True)
    nothing = cli("query", given="SELECT 1")
    assert (nothing.exit_code, "No container given" in nothing.stderr) == (2, True)


def test_an_output_that_does_not_know_all_characters(
    endpoint: str, container_names: tuple[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perseid", "query", *container_names, "SELECT '日本' AS name"],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"??" in done.stdout) == (0, True)


@pytest.mark.parametrize("form", ["--json", "--lines"])
def test_json_is_exact_in_every_encoding(
    endpoint: str, container_names: tuple[str, str], form: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "perseid", "query", *container_names, "SELECT VALUE '日本é'", form],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint, "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.decode("cp1252"))
    assert (found["items"][0] if form == "--json" else found) == "日本é"


def test_a_query_that_is_no_text(endpoint: str, container_names: tuple[str, str]) -> None:
    for errors in ("strict", "surrogateescape"):  # Python's choice depends on the locale
        done = subprocess.run(
            [sys.executable, "-m", "perseid", "query", *container_names],
            env=os.environ | {"PERSEID_ENDPOINT": endpoint, "PYTHONIOENCODING": f"utf-8:{errors}"},
            input=b"SELECT '\xff'",
            capture_output=True,
            check=False,
        )
        assert done.returncode == 2
        assert b"is not" in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        (">&-", "clock show", 0),
        ("<&-", "query {} {}", 2),
        ("<&-", "import {} {} -", 0),
        ("2>&-", "query {} {} 'SELEC'", 1),
        (">&-", "export {} {}", 0),
    ],
)
def test_streams_that_were_closed(
    endpoint: str, container_names: tuple[str, str], closed: str, arguments: str, code: int
) -> None:
    line = f"exec {sys.executable} -m perseid {arguments.format(*container_names)} {closed}"
    done = subprocess.run(
        ["sh", "-c", line],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_parameters() -> None:
    assert parse_parameter("@a=NaN") == ("@a", "NaN")
    assert parse_parameter("@a=1e999") == ("@a", "1e999")
    assert parse_parameter("@a=1") == ("@a", 1)
    assert parse_parameter("a=true") == ("@a", True)
    assert parse_parameter("a=b=c") == ("@a", "b=c")
    assert parse_parameter('a="1"') == ("@a", "1")
    assert parse_key('"a"') == ["a"]
    assert parse_key("[1, null]") == [1, None]


def test_a_wide_table_says_what_it_leaves_out() -> None:
    table = table_of([{f"p{n}": n for n in range(20)}])
    assert table.caption == "and 8 more properties; --json shows all"


def test_queries_that_the_service_leaves_to_its_clients(
    cli: Cli, container_names: tuple[str, str]
) -> None:
    counts = decoded(
        cli("query", *container_names, "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk", "--json")
    )
    assert counts["items"] == [{"pk": "p", "n": 5}]
    text = "SELECT VALUE c.n FROM c ORDER BY c.town, c.n DESC"
    assert len(decoded(cli("query", *container_names, text, "--json"))["items"]) == 5
    result = cli("query", *container_names, text, "--explain")
    assert printed(result).startswith("Result  5 rows")
    assert result.stderr.startswith("The cloud service refuses this query: The order by query")


def test_explain(cli: Cli, container_names: tuple[str, str]) -> None:
    """A tree for people, all figures for scripts; nothing but the plan."""
    text = "SELECT * FROM c WHERE c.n > @n"
    tree = printed(cli("query", *container_names, text, "-p", "@n=2", "--explain"))
    assert "examined" in tree
    plan = decoded(cli("query", *container_names, text, "-p", "@n=2", "--explain", "--json"))
    assert f"{plan['tree']}\n" == tree
    assert plan["refusal"] is None
    assert plan["returned"] == 2
    one = decoded(
        cli("query", *container_names, text, "--explain", "--json", "--partition-key", '"q"')
    )
    assert one["returned"] == 0


# The shell


@pytest.fixture
def shell(endpoint: str, key: str, container_names: tuple[str, str]) -> Iterator[Shell]:
    client = AdminClient(endpoint, key)
    with client.connect() as connection:
        yield Shell(QuerySession(client, connection, *container_names))


def say(shell: Shell, capsys: pytest.CaptureFixture[str], *lines: str) -> tuple[str, str]:
    for line in lines:
        shell.enter(line)
    found = capsys.readouterr()
    return found.out, found.err


def test_the_shell_answers_and_goes_on(
    shell: Shell, capsys: pytest.CaptureFixture[str], container_names: tuple[str, str]
) -> None:
    assert shell.prompt == f"{container_names[0]}/{container_names[1]}> "
    out, err = say(shell, capsys, "", "SELECT VALUE c.n FROM c WHERE c.n = 2;")
    assert out.split() == ["value", "2"]
    assert err.startswith("1 result, ")
    assert "examined" in say(shell, capsys, ".explain SELECT * FROM c")[0]
    wrongs = (
        "SELEC", ".nothing", ".more", ".format xml", ".page x", ".explain", ".use", ".unset a",
    )  # fmt: skip
    for wrong in wrongs:
        out, err = say(shell, capsys, wrong)
        assert out == ""
        assert err.count("\n") == 1


def test_the_shell_pages(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (".page 2", ".format lines", "SELECT VALUE c.n FROM c ORDER BY c.n")
    out, err = say(shell, capsys, *lines)
    assert (out, "More results: .more" in err) == ("0\n1\n", True)
    assert say(shell, capsys, ".more")[0] == "2\n3\n"
    assert say(shell, capsys, ".more")[0] == "4\n"
    assert "No more results." in say(shell, capsys, ".more")[1]


def test_the_shell_remembers_parameters_and_keys(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say(shell, capsys, ".set @n=3")[0] == "@n = 3\n"
    say(shell, capsys, ".format json", '.partition-key "p"')
    out, _ = say(shell, capsys, "SELECT VALUE c.name FROM c WHERE c.n = @n")
    assert json.loads(out)["items"] == ["dee"]
    say(shell, capsys, ".partition-key", ".unset @n")
    out, err = say(shell, capsys, "SELECT VALUE c.name FROM c WHERE c.n = @n OR c.n = '@m'")
    assert json.loads(out)["items"] == []
    assert err == "Missing parameter values: @n.\n"
    err = say(shell, capsys, ".set @n")[1]
    assert "'@n' is not of the form @name=value." in err
    assert "--parameter" not in err


@pytest.mark.parametrize("word", ["exit", "QUIT;", ".exit", ".quit"])
def test_the_shell_can_be_left_with_and_without_the_dot(
    shell: Shell, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert say(shell, capsys, word) == ("", "")
    assert shell.is_finished


def test_help_works_without_the_dot(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    assert say(shell, capsys, "help") == say(shell, capsys, ".help")
    assert not shell.is_finished


def test_the_shell_finds_its_way(
    shell: Shell, capsys: pytest.CaptureFixture[str], container_names: tuple[str, str]
) -> None:
    assert container_names[0] in say(shell, capsys, ".databases")[0].split()
    assert say(shell, capsys, ".containers")[0] == "c\n"
    assert say(shell, capsys, ".use other")[1] == "There is no database other.\n"
    assert say(shell, capsys, ".use 'an other' it")[1] == "There is no container an other/it.\n"
    assert say(shell, capsys, ".use it's")[1] == "There is no database it's.\n"
    assert (
        say(shell, capsys, f".use {container_names[0]} d")[1]
        == f"There is no container {container_names[0]}/d.\n"
    )
    assert shell.prompt == "{}/{}> ".format(*container_names)
    say(shell, capsys, f".use {container_names[0]}")
    assert shell.prompt == f"{container_names[0]}> "
    assert "No container given" in say(shell, capsys, "SELECT 1")[1]
    say(shell, capsys, ".use {} {}".format(*container_names))
    assert say(shell, capsys, ".format json", "SELECT VALUE 1")[0] != ""
    out, _ = say(shell, capsys, ".help")
    for name in COMMANDS:
        assert name in out
    say(shell, capsys, ".quit")
    assert shell.is_finished


@pytest.fixture
def completer(shell: Shell) -> ShellCompleter:
    return ShellCompleter(shell.session, COMMANDS)


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [
        ("", ".us", {".use"}),
        ("", "", set(COMMANDS)),
        ("", "sel", {"SELECT"}),
        ("SELECT ", "array_l", {"ARRAY_LENGTH("}),
        ("SELECT * FROM c ", "ord", {"ORDER BY"}),
        ("SELECT VALUE ", "cou", {"COUNT(", "COUNTIF("}),
        ("SELECT ", "c.n", {"c.n", "c.name"}),
        ("SELECT ", "x.to", {"x.town"}),
        ("SELECT ", "c.more.", {"c.more.a"}),
        ("SELECT ", "c.more.a[0].", set()),
        ("SELECT ", "c.name.", set()),
        ("SELECT ", "c.nothing.x", set()),
        (".explain SELECT ", "c.to", {"c.town"}),
        ("SELECT ", "@", {"@n"}),
        (".unset ", "@", {"@n"}),
        (".format ", "", {"table", "json", "lines"}),
        (".format json ", "", set()),
        (".page ", "s", set()),
        ("SELECT 1 ", "", set()),
    ],
)  # fmt: skip
def test_the_shell_completes(
    shell: Shell, completer: ShellCompleter, before: str, word: str, expected: set[str]
) -> None:
    shell.session.parameters["@n"] = 1
    candidates = completer.candidates(before, word)
    assert len(candidates) == len(set(candidates))
    assert set(candidates) == expected


def test_the_shell_completes_names(
    raw: RawClient, completer: ShellCompleter, container_names: tuple[str, str]
) -> None:
    database, container = container_names
    create_container(raw, f"/dbs/{database}", "two words")
    assert completer.candidates(".use ", database[:-1]) == [database]
    assert set(completer.candidates(f".use {database} ", "")) == {container, "'two words'"}
    assert completer.candidates(f".use {database} ", "'tw") == ["'two words'"]
    assert completer.candidates(f".use {database} {container} ", "") == []
    assert completer.candidates(".use nowhere ", "") == []
    assert completer.candidates(".use it's ", "") == []
    assert completer.candidates(f".use '{database}' ", "'tw") == ["'two words'"]


def test_completion_without_a_container_or_a_server(shell: Shell, key: str) -> None:
    shell.session.container = None
    assert ShellCompleter(shell.session, COMMANDS).candidates("SELECT ", "c.n") == []
    client = AdminClient(f"http://127.0.0.1:{free_port()}/", key)
    with client.connect() as connection:
        lost = ShellCompleter(QuerySession(client, connection, "d", "c"), COMMANDS)
        assert lost.candidates("SELECT ", "c.n") == []
        assert lost.candidates(".use ", "") == []
        assert lost.candidates("", "sel") == ["SELECT"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_the_tab_key_completes_on_a_terminal(
    endpoint: str, container_names: tuple[str, str], tmp_path: Path
) -> None:
    history = tmp_path / "history"
    out = type_into_shell(endpoint, container_names, history, b"sel\t c.na\t FROM c\nexit\n")
    assert b"ada" in out.split()
    assert "SELECT c.name FROM c" in history.read_text()


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_the_shell_on_a_terminal_keeps_a_history(
    endpoint: str, container_names: tuple[str, str], tmp_path: Path
) -> None:
    history = tmp_path / "state" / "history"
    lines = b"SELECT VALUE \\\n c.name FROM c WHERE c.n = 2\n.quit\n"
    out = type_into_shell(endpoint, container_names, history, lines)
    assert b"cy" in out.split()
    assert "c.name FROM c" in history.read_text()


def type_into_shell(
    endpoint: str, container_names: tuple[str, str], history: Path, text: bytes
) -> bytes:
    """What the shell prints on a terminal on which the text is typed."""
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "perseid", "query", *container_names],
        env=os.environ
        | {"PERSEID_ENDPOINT": endpoint, "PERSEID_HISTORY": str(history), "TERM": "dumb"},
        stdin=slave,
        stdout=slave,
        stderr=subprocess.STDOUT,
    )
    os.close(slave)
    out = b""
    while b"> " not in out:  # before the prompt, the terminal would handle the Tab key
        out += os.read(master, 65536)
    os.write(master, text)
    while True:
        try:
            out += os.read(master, 65536)
        except OSError:  # the other side is gone
            break
    os.close(master)
    assert process.wait(60) == 0
    return out


# Portal and completion


def test_portal_prints_its_address(cli: Cli, endpoint: str, key: str) -> None:
    from urllib.parse import quote

    url = f"{endpoint}_explorer/#key={quote(key, safe='')}"
    assert printed(cli("portal", "--print")) == f"{url}\n"
    assert decoded(cli("portal", "--json")) == {"url": url}


def test_portal_opens_a_browser(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def take(url: str) -> bool:
        opened.append(url)
        return len(opened) == 1

    monkeypatch.setattr("webbrowser.open", take)
    assert printed(cli("portal")) == ""
    assert "/_explorer/#key=" in opened[0]
    assert opened[0] in printed(cli("portal"))


def test_portal_says_what_is_wrong_before_a_browser_does(cli: Cli) -> None:
    result = cli("portal", key=OTHER_KEY)
    assert (result.exit_code, "does not accept this key" in result.stderr) == (1, True)


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_scripts(name: str) -> None:
    text = printed(invoke("", "completion", name))
    assert "_PERSEID_COMPLETE" in text
    assert "perseid" in text


def test_completion_knows_commands_and_options() -> None:
    from click.shell_completion import ShellComplete

    from perseid.commands.cli import main

    complete = ShellComplete(main, {}, "perseid", "_PERSEID_COMPLETE")

    def names(*words: str) -> set[str]:
        *before, last = words
        return {each.value for each in complete.get_completions(before, last)}

    assert names("") >= {"serve", "query", "import", "export", "check", "doctor", "portal", "ttl"}
    assert names("import", "d", "c", "f", "--ex") == {"--existing"}
    assert names("import", "d", "c", "f", "--existing", "") == {"replace", "skip", "fail"}


def test_completion_knows_databases_and_containers(
    endpoint: str, key: str, container_names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.shell_completion import ShellComplete

    from perseid.commands.cli import main

    complete = ShellComplete(main, {}, "perseid", "_PERSEID_COMPLETE")
    database, container = container_names
    string = f"AccountEndpoint={endpoint};AccountKey={key};"
    for variable, value in (("ENDPOINT", endpoint), ("CONNECTION_STRING", string)):
        with monkeypatch.context() as environment:
            environment.setenv(f"PERSEID_{variable}", value)
            for command in (["query"], ["import"], ["ttl", "status"], ["container", "show"]):
                databases = complete.get_completions(command, database[:-1])
                assert [each.value for each in databases] == [database]
                containers = complete.get_completions([*command, database], "")
                assert [each.value for each in containers] == [container]
                assert complete.get_completions([*command, "nowhere"], "") == []
    monkeypatch.setenv("PERSEID_ENDPOINT", f"http://127.0.0.1:{free_port()}/")
    assert complete.get_completions(["query"], "") == []
    monkeypatch.setenv("PERSEID_ENDPOINT", "nonsense")
    assert complete.get_completions(["query"], "") == []


def test_keys_that_are_no_keys(cli: Cli) -> None:
    with running(Settings(memory=True, read_only_key=OTHER_KEY)) as found:
        assert invoke(found.endpoint, "query", "d", "c", "SELECT 1", key=OTHER_KEY).exit_code == 1
    assert cli("query", "d", "c", "SELECT 1", key="no base64").exit_code == 2
