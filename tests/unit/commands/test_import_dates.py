"""`perseid import --age-from`: lifetimes that start at a date in the items."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.builders import create_container
from tests.support.cli import Cli, decoded, printed
from tests.support.raw import RawClient
from tests.support.servers import RunningServer

DAY = 86_400


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


@pytest.fixture
def container_names(raw: RawClient, database: str) -> tuple[str, str]:
    """TTL is off, so that the items of every age are stored."""
    create_container(raw, database)
    return database.removeprefix("/dbs/"), "c"


def stored(raw: RawClient, container_names: tuple[str, str]) -> dict[str, dict[str, Any]]:
    path = "/dbs/{}/colls/{}/docs".format(*container_names)
    return {each["id"]: each for each in raw.get(path).json["Documents"]}


@pytest.mark.parametrize(
    ("created", "ts"),
    [
        ('"2024-02-29"', 1_709_164_800),
        ('"2024-02-29T12:00:00Z"', 1_709_208_000),
        ('"2024-02-29T12:00:00.999+02:00"', 1_709_200_800),
        ("1709164800", 1_709_164_800),
        ("1709164800.5", 1_709_164_800),
        ("1.7091648e9", 1_709_164_800),
        ('"1709164800"', 1_709_164_800),
        ("0", 0),
    ],
)
def test_the_date_becomes_the_time_of_the_write(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    tmp_path: Path,
    created: str,
    ts: int,
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(f'{{"_ts": 5, "id": "a", "pk": "p", "created": {created}, "_etag": "x"}}\n')
    printed(cli("import", *container_names, str(file), "--age-from", "created"))
    item = stored(raw, container_names)["a"]
    assert item["_ts"] == ts
    assert item["created"] == json.loads(created)


def test_csv_and_expiry(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], clock: MovableClock, tmp_path: Path
) -> None:
    """The column stays a property; what has expired by its date is not stored."""
    raw.put(
        "/dbs/{}/colls/{}".format(*container_names),
        raw.get("/dbs/{}/colls/{}".format(*container_names)).json | {"defaultTtl": DAY},
    )
    now = int(clock.now())
    file = tmp_path / "orders.csv.gz"
    rows = ["id,pk,written", f"old,p,{now - DAY}", f"new,p,{now - DAY + 1}", f"later,p,{now + 9}"]
    file.write_bytes(gzip.compress("\n".join(rows).encode()))
    command = ("import", *container_names, str(file), "--age-from", "written", "--json")
    found = decoded(cli(*command))
    assert (found["created"], found["expired"], found["rejected"]) == (2, 1, 0)
    assert {name: item["_ts"] for name, item in stored(raw, container_names).items()} == {
        "new": now - DAY + 1,
        "later": now,
    }


@pytest.mark.parametrize(
    ("created", "message"),
    [
        ('"yesterday"', "its 'created' is neither seconds since 1970 nor a date"),
        ('""', "its 'created' is neither"),
        ("true", "its 'created' is neither"),
        ("null", "its 'created' is neither"),
        ("NaN", "its 'created' is neither"),
        ("[1]", "its 'created' is neither"),
        ("-1", "its 'created' is before 1970"),
        ('"1969-12-31"', "its 'created' is before 1970"),
        ("1709164800000", "its 'created' is after the year 9999; milliseconds are not accepted"),
        ("1e999", "its 'created' is after the year 9999"),
    ],
)
def test_other_values_are_rejected_with_file_and_line(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    tmp_path: Path,
    created: str,
    message: str,
) -> None:
    file = tmp_path / "a.jsonl"
    good = '{"id": "good", "pk": "p", "created": 7}'
    file.write_text(f'{good}\n{{"id": "bad", "pk": "p", "created": {created}}}\n')
    result = cli("import", *container_names, str(file), "--age-from", "created")
    assert result.exit_code == 1
    assert f"{file}, line 2 (bad): The item has no age: {message}" in result.stderr
    assert list(stored(raw, container_names)) == ["good"]


def test_an_item_without_the_property(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text("id,pk,created\na,p,\nb,p,2024-02-29\n")
    result = cli("import", *container_names, str(file), "--age-from", "created")
    assert result.exit_code == 1
    assert "line 2 (a): The item has no age: it has no property 'created'." in result.stderr
    assert list(stored(raw, container_names)) == ["b"]


def test_a_line_that_is_no_item_is_rejected_by_the_server(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "a", "pk": "p", "created": 7}\n[1]\n{"id"\n')
    found = cli("import", *container_names, str(file), "--age-from", "created", "--json")
    assert json.loads(found.stdout)["rejected"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--age", "1m"), "Use --age-from or --age, not both."),
        (("--age-from", ""), "--age-from"),
    ],
)
def test_wrong_options(
    cli: Cli, container_names: tuple[str, str], options: tuple[str, ...], message: str
) -> None:
    command = ("import", *container_names, "-", "--age-from", "created", *options)
    result = cli(*command, given="")
    assert result.exit_code == 2
    assert message in result.stderr
