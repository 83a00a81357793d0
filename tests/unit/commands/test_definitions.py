"""`perseid db` and `perseid container` against a running server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.cli import Cli, decoded, printed
from tests.support.raw import RawClient
from tests.support.servers import RunningServer


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


@pytest.fixture
def shop(cli: Cli, name: str) -> Iterator[str]:
    """A database that the command created."""
    assert printed(cli("db", "create", name)) == f"Created the database {name}.\n"
    yield name
    cli("db", "delete", name, "--yes")


def lines(text: str) -> list[str]:
    """Each printed line with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


# Databases


def test_list_databases(cli: Cli, shop: str) -> None:
    assert shop in printed(cli("db", "list")).splitlines()
    assert shop in {each["id"] for each in decoded(cli("db", "list", "--json"))["databases"]}


def test_create_a_database_with_shared_throughput(cli: Cli, name: str) -> None:
    definition = decoded(cli("db", "create", name, "--throughput", "500", "--json"))
    assert definition["id"] == name
    assert decoded(cli("db", "show", name, "--json"))["throughput"] == {"manual": 500}
    assert "shared throughput 500 RU/s" in lines(printed(cli("db", "show", name)))
    printed(cli("container", "create", name, "c", "--partition-key", "/pk"))
    shown = lines(printed(cli("container", "show", name, "c")))
    assert "throughput shared with the database: 500 RU/s" in shown
    assert decoded(cli("db", "delete", name, "--yes", "--json")) == {"deleted": name}


def test_show_a_database(cli: Cli, shop: str) -> None:
    assert "containers none" in lines(printed(cli("db", "show", shop)))
    for name in ("a", "b"):
        printed(cli("container", "create", shop, name, "--partition-key", "/pk"))
    shown = lines(printed(cli("db", "show", shop)))
    assert shown[0] == shop
    assert "containers a, b" in shown
    assert "shared throughput none" in shown
    found = decoded(cli("db", "show", shop, "--json"))
    assert (found["id"], found["containers"], found["throughput"]) == (shop, ["a", "b"], None)


@pytest.mark.parametrize(
    ("answer", "is_deleted"),
    [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)],
)
def test_delete_asks_first(cli: Cli, shop: str, answer: str, is_deleted: bool) -> None:
    printed(cli("container", "create", shop, "c", "--partition-key", "/pk"))
    for path, question in (
        ((shop, "c"), f"Delete the container {shop}/c with 0 live items? [y/N] "),
        ((shop,), f"Delete the database {shop} with its {int(not is_deleted)} container"),
    ):
        command = "container" if len(path) == 2 else "db"
        result = cli(command, "delete", *path, given=answer)
        assert result.exit_code == (0 if is_deleted else 1)
        assert result.stderr.startswith(question)
        assert ("Nothing was deleted" in result.stderr) is not is_deleted
        assert ("give --yes" in result.stderr) is (answer == "")
        assert (cli(command, "show", *path).exit_code == 1) is is_deleted


def test_ctrl_c_instead_of_an_answer_deletes_nothing(cli: Cli, endpoint: str, shop: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "perseid", "db", "delete", shop],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        question = b""
        while not question.endswith(b"[y/N] ") and (byte := process.stderr.read(1)):
            question += byte
        assert question.startswith(b"Delete the database ")
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"Interrupted.\n"
        assert process.wait(60) == 130
    printed(cli("db", "show", shop))


# Containers


def test_create_and_show_a_container(cli: Cli, shop: str) -> None:
    command = ("container", "create", shop, "sessions", "--partition-key", "/user")
    created = printed(cli(*command, "--default-ttl", "15m", "--throughput", "600"))
    assert created == f"Created the container {shop}/sessions.\n"
    shown = lines(printed(cli("container", "show", shop, "sessions")))
    assert shown[0] == f"{shop}/sessions"
    for line in (
        "partition key /user",
        "default ttl 900 s (15m)",
        "throughput 600 RU/s",
        "indexing consistent",
        "included /*",
    ):
        assert line in shown
    found = decoded(cli("container", "show", shop, "sessions", "--json"))
    assert found["partitionKey"] == {"paths": ["/user"], "kind": "Hash", "version": 2}
    assert (found["defaultTtl"], found["throughput"]) == (900, {"manual": 600})


@pytest.mark.parametrize(
    ("options", "default_ttl", "text"),
    [
        ((), None, "off"),
        (("--default-ttl", "off"), None, "off"),
        (("--default-ttl", "none"), -1, "on, no default"),
        (("--default-ttl", "-1"), -1, "on, no default"),
        (("--default-ttl", "90"), 90, "90 s (1m 30s)"),
    ],
)
def test_default_ttls(
    cli: Cli, shop: str, options: tuple[str, ...], default_ttl: int | None, text: str
) -> None:
    command = ("container", "create", shop, "c", "--partition-key", "/pk", *options, "--json")
    assert decoded(cli(*command)).get("defaultTtl") == default_ttl
    assert f"default ttl {text}" in lines(printed(cli("container", "show", shop, "c")))


def test_hierarchical_keys_and_the_list(cli: Cli, shop: str) -> None:
    keys = ("--partition-key", "/tenant", "--partition-key", "/user")
    found = decoded(cli("container", "create", shop, "deep", *keys, "--json"))
    assert found["partitionKey"] == {
        "paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2,
    }  # fmt: skip
    printed(cli("container", "create", shop, "flat", "--partition-key", "/a/b"))
    assert lines(printed(cli("container", "list", shop))) == [
        "name partition key default ttl", "deep /tenant, /user off", "flat /a/b off",
    ]  # fmt: skip
    listed = decoded(cli("container", "list", shop, "--json"))["containers"]
    assert [each["id"] for each in listed] == ["deep", "flat"]


def test_other_properties_are_shown(cli: Cli, raw: RawClient, shop: str) -> None:
    body = {
        "id": "c",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash"},
        "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/email"]}, {"paths": ["/a", "/b"]}]},
        "computedProperties": [{"name": "low", "query": "SELECT VALUE LOWER(c.name) FROM c"}],
    }
    headers = {"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput": 4000}'}
    assert raw.request("POST", f"/dbs/{shop}/colls", body, headers).status == 201
    text = printed(cli("container", "show", shop, "c"))
    assert "LOWER(c.name)" in text
    for line in (
        "unique keys /email; /a + /b",
        "throughput up to 4,000 RU/s (autoscale)",
        "conflict resolution LastWriterWins, /_ts",
        "geospatial type Geography",
    ):
        assert line in lines(text)


def test_an_empty_list(cli: Cli, shop: str) -> None:
    result = cli("container", "list", shop)
    assert printed(result) == ""
    assert result.stderr == f"There are no containers in the database {shop}.\n"
    assert decoded(cli("container", "list", shop, "--json")) == {"containers": []}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("db", "show", "nowhere"), 1, "There is no database nowhere; see `perseid db list`."),
        (("db", "delete", "nowhere"), 1, "There is no database nowhere"),
        (("db", "delete", "nowhere", "--yes"), 1, "There is no database nowhere"),
        (("db", "create", "a/b"), 1, "a/b"),
        (("db", "create", ""), 2, "The name is empty."),
        (("db", "delete", "", "--yes"), 2, "The name is empty."),
        (("db", "create", "d", "--throughput", "x"), 2, "'x' is not a valid integer"),
        (("container", "list", "nowhere"), 1, "There is no database nowhere"),
        (("container", "show", "nowhere", "c"), 1, "There is no container nowhere/c"),
        (("container", "delete", "a b", "c"), 1, "see `perseid container list 'a b'`."),
        (("container", "delete", "nowhere", "c", "-y"), 1, "There is no container nowhere/c"),
        (
            ("container", "create", "nowhere", "c", "--partition-key", "/pk"),
            1,
            "There is no database nowhere; see `perseid db list`.",
        ),
        (("container", "create", "d", "c"), 2, "Missing option '--partition-key'"),
        (
            ("container", "create", "d", "c", "--partition-key", "user"),
            2,
            "'user' is not a path; it starts with a slash, such as '/user'.",
        ),
        (
            ("container", "create", "d", "c", "--partition-key", "/a", "--default-ttl", "-3"),
            2,
            "'-3' is negative; give a duration like 90, 90s, 15m, 2h, 3d or 1w, or -1 or none"
            " (items never expire by default, only by their own ttl), or off",
        ),
    ],
)
def test_failures(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.split())
    assert "ActivityId" not in result.stderr
    assert result.stdout == ""


def test_what_exists_already(cli: Cli, shop: str) -> None:
    result = cli("db", "create", shop)
    assert (result.exit_code, result.stderr) == (1, f"Error: The database {shop} exists already.\n")
    command = ("container", "create", shop, "c", "--partition-key", "/pk")
    printed(cli(*command))
    assert f"The container {shop}/c exists already." in cli(*command).stderr


def test_refusals_of_the_server_change_nothing(cli: Cli, shop: str) -> None:
    command = ("container", "create", shop, "c", "--partition-key", "/pk")
    for options in (("--throughput", "1"), ("--default-ttl", "0"), ("--default-ttl", "1.5")):
        result = cli(*command, *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert options[1] in result.stderr
    assert cli("container", "show", shop, "c").exit_code == 1
