"""`perseid delete` against a running server: which items it deletes, and which it keeps."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from perseid.clock import MovableClock
from perseid.commands import delete_items
from perseid.commands.connection import Connection
from perseid.commands.data_client import delete_item
from tests.support.builders import create_container
from tests.support.cli import Cli, decoded, printed
from tests.support.raw import RawClient
from tests.support.servers import RunningServer

OLD = "c.created < '2025-11-18'"


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


@pytest.fixture
def container_names(raw: RawClient, database: str) -> tuple[str, str]:
    """Three orders of 2024 and two of 2026, of two customers."""
    for number, year in enumerate((2024, 2024, 2024, 2026, 2026)):
        customer = ("ada", "bob")[number % 2]
        body = {"id": f"o{number}", "pk": customer, "created": f"{year}-01-31"}
        new_item(raw, database, "c", body, [customer])
    return database.removeprefix("/dbs/"), "c"


@pytest.fixture
def database(raw: RawClient, database: str) -> str:
    create_container(raw, database)
    return database


def new_item(
    raw: RawClient, database: str, container: str, body: dict[str, Any], key: list[Any]
) -> None:
    reply = raw.post(f"{database}/colls/{container}/docs", body, pk=json.dumps(key))
    assert reply.status == 201, reply


def ids(raw: RawClient, database: str, container: str = "c") -> list[str]:
    path = f"/dbs/{database.removeprefix('/dbs/')}/colls/{container}/docs"
    return sorted(each["id"] for each in raw.get(path).json["Documents"])


def test_deletes_the_items_that_match(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    result = cli("delete", *container_names, "--where", OLD, given="y\n")
    assert printed(result) == "3 items deleted.\n"
    name = "/".join(container_names)
    assert result.stderr == f"Delete 3 items of the container {name}? [y/N] "
    assert ids(raw, container_names[0]) == ["o3", "o4"]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_without_a_yes_nothing_is_deleted(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], answer: str
) -> None:
    result = cli("delete", *container_names, "--where", OLD, given=answer)
    assert result.exit_code == 1
    assert "Nothing was deleted" in result.stderr
    assert len(ids(raw, container_names[0])) == 5


def test_dry_run(cli: Cli, raw: RawClient, container_names: tuple[str, str]) -> None:
    result = cli("delete", *container_names, "--where", OLD, "--dry-run")
    assert printed(result).splitlines()[0] == "3 items match; nothing was deleted."
    assert 'o0 ["ada"]' in result.stdout
    found = decoded(cli("delete", *container_names, "--where", OLD, "--dry-run", "--json"))
    assert found["matched"] == 3
    values = {"c.created": "2024-01-31"}
    assert {"id": "o1", "partitionKey": ["bob"], "values": values} in found["sample"]
    assert len(ids(raw, container_names[0])) == 5


def test_dry_run_shows_the_values_that_the_condition_names(
    cli: Cli, raw: RawClient, database: str
) -> None:
    """Id and partition key once only; a property that an item lacks not at all."""
    body = {"id": "a", "pk": "p", "to": {"first name": "Ada\n"}, "note": "n" * 100}
    new_item(raw, database, "c", body, ["p"])
    condition = """c.id = "a" AND c.pk = 'p' AND c.to["first name"] > '' AND c.note != 'c.x'
        AND NOT IS_DEFINED(c.gone) AND c["to"]["first name"] != "b" """
    names = (database.removeprefix("/dbs/"), "c")
    result = cli("delete", *names, "--where", condition, "--dry-run")
    line = printed(result).splitlines()[1]
    first = r"""  a ["p"] c.to["first name"]="Ada\n" c.note="nnn"""
    assert line.startswith(first)
    assert line.endswith("nn…")
    assert len(line) < 140
    (shown,) = decoded(cli("delete", *names, "--where", condition, "--dry-run", "--json"))["sample"]
    assert shown["values"] == {'c.to["first name"]': "Ada\n", "c.note": "n" * 100}


NEVER = "A comparison with undefined never matches: a property that is missing"


@pytest.mark.parametrize("options", [("--yes",), ("--dry-run",), ("--dry-run", "--json")])
def test_without_a_match_properties_that_no_item_has_are_named(
    cli: Cli, container_names: tuple[str, str], options: tuple[str, ...]
) -> None:
    condition = "c.create < '2025' AND c.created > 'c.word' OR c['a b'].d = 1 OR c.create = 2"
    result = cli("delete", *container_names, "--where", condition, *options)
    assert result.exit_code == 0
    missing = "No item has c.create.", "No item has c['a b'].d."
    *notes, last = result.stderr.splitlines()
    assert tuple(notes) == missing
    assert last.startswith(NEVER)


def test_without_a_match_in_a_partition(cli: Cli, container_names: tuple[str, str]) -> None:
    condition = ("--where", "c.create = @n", "-p", "@n=1")
    options = (*condition, "--partition-key", '"ada"', "--yes")
    result = cli("delete", *container_names, *options)
    assert result.stderr.startswith("No item of the partition has c.create.\n")


def test_without_a_match_of_a_function(cli: Cli, container_names: tuple[str, str]) -> None:
    condition = "c.created < AGO('fortnight', 1)"
    result = cli("delete", *container_names, "--where", condition, "--yes")
    assert printed(result) == "No item matches.\n"
    assert result.stderr.startswith(NEVER)
    assert "AGO" in result.stderr


def test_without_a_match_at_most_five_properties_are_looked_up(
    cli: Cli, container_names: tuple[str, str]
) -> None:
    condition = " AND ".join(f"c.p{number} = 1" for number in range(7))
    result = cli("delete", *container_names, "--where", condition, "--yes")
    assert result.stderr.count("No item has c.p") == 5


def test_json(cli: Cli, container_names: tuple[str, str]) -> None:
    found = decoded(cli("delete", *container_names, "--where", OLD, "--yes", "--json"))
    assert found == {"complete": True, "deleted": 3, "gone": 0, "changed": 0}


def test_nothing_matches(cli: Cli, container_names: tuple[str, str]) -> None:
    result = cli("delete", *container_names, "--where", "c.created < '1999'")
    assert (printed(result), result.stderr) == ("No item matches.\n", "")


def test_one_partition_and_parameters(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    condition = ("--where", "c.created < @day", "-p", "@day=2025-11-18")
    printed(cli("delete", *container_names, *condition, "--partition-key", '"bob"', "--yes"))
    assert ids(raw, container_names[0]) == ["o0", "o2", "o3", "o4"]


def test_several_pages(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delete_items, "_PAGE", 2)
    result = cli("delete", *container_names, "--where", "true", "--yes")
    assert printed(result) == "5 items deleted.\n"
    assert ids(raw, container_names[0]) == []


HIERARCHY = {"paths": ["/tenant", '/a/"b c"'], "kind": "MultiHash", "version": 2}


@pytest.mark.parametrize(
    ("definition", "body", "values"),
    [
        ({"paths": ["/pk"], "kind": "Hash", "version": 2}, {}, [{}]),
        ({"paths": ["/pk"], "kind": "Hash", "version": 2}, {"pk": None}, [None]),
        ({"paths": ["/pk"], "kind": "Hash", "version": 2}, {"pk": [1]}, [{}]),
        ({"paths": ["/pk"], "kind": "Hash", "version": 1}, {"pk": 1.5}, [1.5]),
        (HIERARCHY, {"tenant": "t", "a": {"b c": True}}, ["t", True]),
        (HIERARCHY, {"tenant": "t"}, ["t", {}]),
    ],
)
def test_every_kind_of_partition_key(
    cli: Cli,
    raw: RawClient,
    database: str,
    definition: dict[str, Any],
    body: dict[str, Any],
    values: list[Any],
) -> None:
    create_container(raw, database, "k", partitionKey=definition)
    new_item(raw, database, "k", {"id": "a #?%é"} | body, values)
    names = (database.removeprefix("/dbs/"), "k")
    assert printed(cli("delete", *names, "--where", "true", "-y")) == "1 item deleted.\n"
    assert ids(raw, database, "k") == []


def test_a_container_without_a_partition_key(cli: Cli, raw: RawClient, database: str) -> None:
    old = {"x-ms-version": "2017-02-22"}
    assert raw.request("POST", f"{database}/colls", {"id": "k"}, headers=old).status == 201
    assert raw.request("POST", f"{database}/colls/k/docs", {"id": "a"}, headers=old).status == 201
    names = (database.removeprefix("/dbs/"), "k")
    assert printed(cli("delete", *names, "--where", "true", "-y")) == "1 item deleted.\n"


def test_an_item_that_changes_is_checked_again(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """o0 is changed before it is deleted so that it still matches, o2 so that it does not."""
    path = "/dbs/{}/colls/{}/docs".format(*container_names)
    changes = {"o0": "2020-01-01", "o2": "2026-01-01"}

    def change_first(
        connection: Connection, container: tuple[str, str], id_: str, key: list[Any], etag: str
    ) -> int:
        if created := changes.pop(id_, None):
            body = {"id": id_, "pk": key[0], "created": created}
            assert raw.put(f"{path}/{id_}", body, pk=json.dumps(key)).status == 200
        return delete_item(connection, container, id_, key, etag)

    monkeypatch.setattr(delete_items, "delete_item", change_first)
    found = decoded(
        cli("delete", *container_names, "--where", OLD, "--yes", "--connections", "1", "--json")
    )
    assert found == {"complete": True, "deleted": 2, "gone": 0, "changed": 0}
    assert ids(raw, container_names[0]) == ["o2", "o3", "o4"]


def test_an_item_that_always_changes_is_kept_and_reported(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = "/dbs/{}/colls/{}/docs".format(*container_names)

    def change_first(
        connection: Connection, container: tuple[str, str], id_: str, key: list[Any], etag: str
    ) -> int:
        if id_ == "o0":
            body = {"id": id_, "pk": key[0], "created": "2020"}
            assert raw.put(f"{path}/{id_}", body, pk=json.dumps(key)).status == 200
        if id_ == "o1":
            assert raw.delete(f"{path}/{id_}", pk=json.dumps(key)).status in (204, 404)
        return delete_item(connection, container, id_, key, etag)

    monkeypatch.setattr(delete_items, "delete_item", change_first)
    result = cli("delete", *container_names, "--where", OLD, "--yes", "--connections", "1")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["1 item deleted."]
    assert "1 item was gone already" in result.stderr
    assert "1 item changed while it was to be deleted, and was kept" in result.stderr
    assert "o0" in ids(raw, container_names[0])


def test_an_interruption_says_how_many_were_deleted(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stop = threading.Event()  # of Ctrl-C

    def delete_and_interrupt(*arguments: Any) -> int:
        status = delete_item(*arguments)
        stop.set()
        return status

    monkeypatch.setattr(delete_items, "interruptible", lambda _: nullcontext(stop))
    monkeypatch.setattr(delete_items, "delete_item", delete_and_interrupt)
    command = ("delete", *container_names, "--where", "true", "--yes", "--connections", "1")
    result = cli(*command)
    assert (result.exit_code, result.stdout) == (130, "1 item deleted.\n")
    assert "Run the same command again" in result.stderr
    assert len(ids(raw, container_names[0])) == 4


def test_a_failure_says_how_many_were_deleted(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The container is deleted meanwhile, and the next page of the query fails."""
    monkeypatch.setattr(delete_items, "_PAGE", 1)

    def delete_all(*arguments: Any) -> int:
        status = delete_item(*arguments)
        raw.delete("/dbs/{}/colls/{}".format(*container_names))
        return status

    monkeypatch.setattr(delete_items, "delete_item", delete_all)
    result = cli("delete", *container_names, "--where", "true", "--yes", "--connections", "1")
    assert result.exit_code == 1
    assert result.stderr.endswith(" 1 item deleted before that.\n")


def test_expired_items_do_not_match(
    cli: Cli, raw: RawClient, database: str, clock: MovableClock
) -> None:
    create_container(raw, database, "k", defaultTtl=10)
    new_item(raw, database, "k", {"id": "a", "pk": "p"}, ["p"])
    clock.advance(10)
    names = (database.removeprefix("/dbs/"), "k")
    assert printed(cli("delete", *names, "--where", "true", "-y")) == "No item matches.\n"


@pytest.mark.parametrize(
    ("condition", "code", "message"),
    [
        (["--where", "c.created <"], 1, "The condition of --where is not valid: Syntax error"),
        (["--where", "true ORDER BY c.id"], 1, "The condition of --where is not valid: Syntax"),
        (["--where", "true) OR (true"], 0, ""),
        (["--where", "orders.id = 'a'"], 1, "The condition of --where is not valid: Identifier"),
        (["--where", " "], 2, "--where is empty; to delete all items, give --where true."),
        (["--where", "SELECT * FROM c WHERE true"], 2, "--where begins with SELECT; give only"),
        (["--where", " where c.id = 'a'"], 2, "give only what follows WHERE"),
        (["--where", "\nfrom c WHERE true"], 2, "--where begins with FROM; give only what"),
        (["--where", "(SELECT VALUE c.id = 'o1')"], 0, ""),
        (["--where", "selected.id = 'a'"], 1, "The condition of --where is not valid: Identifier"),
        (["--where", "c.id = @id"], 2, "--where has parameters without a value: @id"),
        ([], 2, "Missing option '--where'"),
    ],
)
def test_conditions(
    cli: Cli, container_names: tuple[str, str], condition: list[str], code: int, message: str
) -> None:
    result = cli("delete", *container_names, *condition, "--dry-run")
    assert result.exit_code == code, result.output
    assert message in result.stderr


def test_a_comment_in_the_condition_does_not_widen_it(
    cli: Cli, container_names: tuple[str, str]
) -> None:
    found = cli("delete", *container_names, "--where", f"{OLD} -- old", "--dry-run", "--json")
    assert decoded(found)["matched"] == 3


@pytest.mark.parametrize(
    ("names", "message"),
    [(("nowhere", "c"), "There is no container nowhere/c"), (("nowhere",), "Missing argument")],
)
def test_a_missing_container(cli: Cli, names: tuple[str, ...], message: str) -> None:
    result = cli("delete", *names, "--where", "true", "--yes")
    assert result.exit_code in (1, 2)
    assert message in result.stderr


@pytest.mark.parametrize(
    "text",
    ["DELETE FROM c WHERE c.id = 'o1'", " delete c", "UPDATE c SET c.a = 1", "INSERT INTO c"],
)
def test_a_query_that_is_to_write_gets_a_hint(
    cli: Cli, container_names: tuple[str, str], text: str
) -> None:
    result = cli("query", *container_names, text)
    assert result.exit_code == 1
    assert "Syntax error" in result.stderr
    hint = "Queries only read; delete items with `perseid delete`"
    assert (hint in result.stderr) == ("delete" in text.lower())
    assert "Queries only read" in result.stderr


def test_other_wrong_queries_get_no_hint(cli: Cli, container_names: tuple[str, str]) -> None:
    result = cli("query", *container_names, "SELECT FROM c WHERE c.delete = 1")
    assert result.exit_code == 1
    assert "Queries only read" not in result.stderr
