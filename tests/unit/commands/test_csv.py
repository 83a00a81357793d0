"""CSV: which values cells hold, how rows are rejected, and that exports can be imported again."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.clock import MovableClock
from perseid.commands import item_files
from perseid.commands.csv_files import csv_records, value_text, write_csv
from perseid.commands.item_files import ItemFile
from tests.support.builders import create_container
from tests.support.cli import Cli, decoded, printed
from tests.support.raw import RawClient
from tests.support.servers import RunningServer
from tests.unit.commands.test_transfer import interrupt_at_third_page, stored_items


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


@pytest.fixture
def container_names(raw: RawClient, database: str) -> tuple[str, str]:
    create_container(raw, database, "c")
    return database.removeprefix("/dbs/"), "c"


def read(content: bytes) -> list[tuple[int, int, Any, str | None]]:
    """Number, line, item and problem of each row."""
    with closing(ItemFile(None, io.BytesIO(content))) as source:
        return [
            (each.number, each.line, json.loads(each.text or b"null"), each.problem)
            for each in source.records(csv_records)
        ]


def written(*texts: str) -> bytes:
    """Items as CSV."""
    stream = io.BytesIO()
    write_csv(io.BytesIO("".join(f"{text}\n" for text in texts).encode()), stream)
    return stream.getvalue()


# Cells


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("true", "true"), ("FALSE", "false"), ("null", "null"), ("NULL", "null"),
        ("0", "0"), ("-1.50e+1", "-1.50e+1"), ("12345678901234567890", "12345678901234567890"),
        ('{"a": [1]}', '{"a": [1]}'), ("[]", "[]"), ('"7"', '"7"'), ('""', '""'),
        ("ada", '"ada"'), (" ada ", '" ada "'), ("007", '"007"'), ("+1", '"+1"'), ("1.", '"1."'),
        (".5", '".5"'), ("1,5", '"1,5"'), ("0x10", '"0x10"'), ("NaN", '"NaN"'), ("True", '"True"'),
        ("Null", '"Null"'), ("{a}", '"{a}"'), ("[NaN]", '"[NaN]"'), ('"half', '"\\"half"'),
        (" 1", '" 1"'), ("-", '"-"'), ("١", '"١"'), ("2030-01-31", '"2030-01-31"'),
    ],
)  # fmt: skip
def test_values_of_cells(cell: str, value: str) -> None:
    assert value_text(cell) == value


def test_an_empty_cell_is_no_value() -> None:
    assert value_text("") is None
    assert read(b"id,a,b\nx,,1\n") == [(1, 2, {"id": "x", "b": 1}, None)]


def test_ids_are_strings() -> None:
    rows = read(b'n,id\n7,7\n8,true\n9,"""x"""\n')
    assert [item["id"] for _, _, item, _ in rows] == ["7", "true", '"x"']
    assert [item["n"] for _, _, item, _ in rows] == [7, 8, 9]


# Rows


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"id\n", []),
        (b"\xef\xbb\xbfid,a.b\r\nx,1\r\n", [(1, 2, {"id": "x", "a.b": 1}, None)]),
        (b"\nid,a\n\n,\nx,1", [(1, 5, {"id": "x", "a": 1}, None)]),
        ('id,é\nx,"1,5 ""é""\r\nb"\ny,2\n'.encode(), [
            (1, 2, {"id": "x", "é": '1,5 "é"\r\nb'}, None), (2, 4, {"id": "y", "é": 2}, None),
        ]),
        (b'id,a\nx,"{""b"":\n1}"\n', [(1, 2, {"id": "x", "a": {"b": 1}}, None)]),
        (b'id,a\nx,5" pipe\n', [(1, 2, {"id": "x", "a": '5" pipe'}, None)]),
    ],
)  # fmt: skip
def test_rows(content: bytes, expected: list[tuple[int, int, Any, str | None]]) -> None:
    assert read(content) == expected
    assert read(gzip.compress(content)) == expected


def test_rows_that_do_not_fit_are_problems_and_the_next_ones_are_read() -> None:
    rows = read(b'id,a\nx,1,2\ny\n"z"z,1\nw,1\rv,2\nlast,"1"\n')
    assert [(line, item) for _, line, item, _ in rows] == [
        (2, None), (3, None), (4, None), (5, None), (6, {"id": "last", "a": 1}),
    ]  # fmt: skip
    problems = [problem for *_, problem in rows]
    assert problems[:2] == [
        "The row has 3 values, the header 2.", "The row has 1 value, the header 2.",
    ]  # fmt: skip
    assert "a comma is missing" in (problems[2] or "")
    assert "line breaks in quotes" in (problems[3] or "")
    assert problems[4] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "line 1: the header has no column 'id'"),
        (b"\nid;a\n1;2\n", "line 2: the header has no column 'id'"),
        (b"id,,a\n", "line 1: column 2 of the header has no name"),
        (b"id,a,a\n", "line 1: the header has two columns 'a'"),
        (b'"id"x,a\n', "line 1: The row is not CSV"),
        (b'id,a\nx,1\ny,"2\nz,3\n', "line 3: a value that starts with a quote in this row has no"),
        (b"id\n\xff\n", "line 2: contains invalid UTF-8"),
    ],
)
def test_files_that_are_not_csv(content: bytes, message: str) -> None:
    with pytest.raises(click.ClickException) as raised:
        read(content)
    assert message in raised.value.message


def test_a_quote_that_is_never_closed_is_read_only_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.commands.csv_files.LARGEST_ITEM", 1000)
    with pytest.raises(click.ClickException, match="line 2: a value in this row is too long"):
        read(b'id,a\nx,"' + b"line\n" * 1000)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_rows_across_the_ends_of_chunks(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_files, "_CHUNK", chunk)
    content = 'id,a\né1,"x\r\n""y"""\né2,2\n'.encode()
    assert [item for _, _, item, _ in read(content)] == [
        {"id": "é1", "a": 'x\r\n"y"'}, {"id": "é2", "a": 2},
    ]  # fmt: skip


# Writing


def test_columns_are_all_properties_system_properties_last() -> None:
    text = written('{"id":"a","_ts":1,"n":1.50e1}', '{"x":{"y":[1,2.0]},"id":"b","_ts":2}')
    assert text.decode().splitlines() == [
        "id,n,x,_ts", "a,1.50e1,,1", 'b,,"{""y"":[1,2.0]}",2',
    ]  # fmt: skip
    assert written() == b"id\n"


def test_other_programs_read_it() -> None:
    text = 'a "quoted", text\r\nwith lines'
    rows = list(csv.reader(io.StringIO(written(json.dumps({"id": "a", "t": text})).decode())))
    assert rows == [["id", "t"], ["a", text]]


_NAMES = st.text(min_size=1).filter(lambda name: name != "id" and name.isprintable())
_TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["", "true", "NULL", "007", "7", "-1e5", '"7"', "[1]", "{}", " 1", "\r", "\n"]),
)
_VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), _TEXTS,
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda values: st.lists(values) | st.dictionaries(_NAMES, values),
    max_leaves=5,
)  # fmt: skip
_ITEMS = st.builds(
    lambda id_, members: {"id": id_} | members,
    _TEXTS.filter(lambda id_: id_ != ""),
    st.dictionaries(_NAMES, _VALUES, max_size=4),
)


@given(st.lists(_ITEMS, min_size=1, max_size=5))
def test_what_is_written_is_read_as_the_same(items: list[dict[str, Any]]) -> None:
    rows = read(written(*map(json.dumps, items)))
    assert [json.dumps(item, sort_keys=True) for _, _, item, _ in rows] == [
        json.dumps(item, sort_keys=True) for item in items
    ]


# Commands

ITEMS = (
    b'{"id":"1","pk":"p","n":1.50e1,"text":"a,\\"b\\"\\r\\nc","deep":{"list":[1,{"x":null}]}}',
    b'{"id":"2","pk":"p","flag":true,"nothing":null,"zip":"01234","seven":"7","empty":""}',
    b'{"id":"3","pk":"p","ttl":-1,"\xc3\xa9":"\xe6\x97\xa5"}',
)


@pytest.mark.parametrize(
    ("name", "options", "unpack"),
    [
        ("o.csv", (), bytes),
        ("o.csv.gz", (), gzip.decompress),
        ("o", ("--format", "csv"), bytes),
        ("o", ("--format", "csv", "--gzip"), gzip.decompress),
    ],
)
def test_export_and_import_are_inverse(
    cli: Cli, raw: RawClient, database: str, container_names: tuple[str, str], tmp_path: Path,
    name: str, options: tuple[str, ...], unpack: Callable[[bytes], bytes],
) -> None:  # fmt: skip
    path = "/dbs/{}/colls/{}/docs".format(*container_names)
    for text in ITEMS:
        headers = {"x-ms-documentdb-partitionkey": '["p"]'}
        assert raw.request("POST", path, text, headers).status == 201
    out = tmp_path / name
    exported = decoded(cli("export", *container_names, str(out), *options, "--json"))
    assert exported["items"] == 3
    header = unpack(out.read_bytes()).decode().split("\n")[0]
    assert header == "id,pk,n,text,deep,flag,nothing,zip,seven,empty,ttl,é,_ts"
    assert [each.name for each in tmp_path.iterdir()] == [name]
    create_container(raw, database, "copy")
    copy = (container_names[0], "copy")
    imported = decoded(cli("import", *copy, str(out), *options[:2], "--json"))
    assert (imported["complete"], imported["created"]) == (True, 3)
    lines = [
        printed(cli("export", *each, "--system", "none")).splitlines()
        for each in (container_names, copy)
    ]
    assert sorted(lines[0]) == sorted(lines[1]) == sorted(text.decode() for text in ITEMS)


def test_export_to_standard_output(cli: Cli, container_names: tuple[str, str]) -> None:
    given_items = "".join(f'{{"id":"{n}","pk":"p"}}\n' for n in range(3))
    printed(cli("import", *container_names, "-", given=given_items))
    command = ("export", *container_names, "--format", "csv", "--system", "none")
    header, *rows = printed(cli(*command)).splitlines()
    assert (header, sorted(rows)) == ("id,pk", ["0,p", "1,p", "2,p"])


def test_lifetimes_are_kept(
    cli: Cli,
    raw: RawClient,
    clock: MovableClock,
    database: str,
    container_names: tuple[str, str],
    tmp_path: Path,
) -> None:
    printed(cli("import", *container_names, "-", given='{"id":"a","pk":"p","ttl":60}'))
    written_at = stored_items(raw, container_names)["a"]["_ts"]
    clock.advance(10)
    printed(cli("export", *container_names, str(tmp_path / "o.csv")))
    create_container(raw, database, "copy", defaultTtl=-1)
    copy = (container_names[0], "copy")
    printed(cli("import", *copy, str(tmp_path / "o.csv"), "--lifetimes", "keep"))
    assert stored_items(raw, copy)["a"]["_ts"] == written_at
    clock.advance(50)
    assert stored_items(raw, copy) == {}


def test_an_empty_container(cli: Cli, container_names: tuple[str, str], tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    printed(cli("export", *container_names, str(out)))
    assert out.read_bytes() == b"id\n"
    assert decoded(cli("import", *container_names, str(out), "--json"))["items"] == 0


def test_export_continues_after_an_interruption(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_items = "".join(f'{{"id":"{n}","pk":"p","p{n}":1}}\n' for n in range(350))
    printed(cli("import", *container_names, "-", given=given_items))
    interrupt_at_third_page(monkeypatch)
    out = tmp_path / "o.csv"
    assert cli("export", *container_names, str(out)).exit_code == 130
    assert not out.exists()
    found = decoded(cli("export", *container_names, str(out), "--json"))
    assert (found["items"], found["earlierItems"]) == (350, 200)
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len(rows) == 350
    assert all(row[f"p{row['id']}"] == "1" for row in rows)
    assert [each.name for each in tmp_path.iterdir()] == ["o.csv"]


def test_bad_rows_are_named_by_file_and_line(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "users.csv"
    path.write_text('id,pk,ttl\na,p,\nb,p,0\nc,p\n,p,1\n"d"d,p,1\ne,p,5\n')
    result = cli("import", *container_names, str(path))
    assert result.exit_code == 1
    assert "rejected  4" in result.stdout
    output = result.stderr.splitlines()
    assert output[0].startswith(f"{path}, line 3 (b): The input ttl '0' is invalid")
    assert output[1] == f"{path}, line 4: The row has 2 values, the header 3."
    assert output[2].startswith(f"{path}, line 5")
    assert "id" in output[2]
    assert output[3].startswith(f"{path}, line 6: The row is not CSV")
    assert set(stored_items(raw, container_names)) == {"a", "e"}


def test_csv_without_its_name_says_what_to_do(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "items.txt"
    path.write_text("id,pk\na,p\n")
    result = cli("import", *container_names, str(path))
    assert (result.exit_code, "for CSV give --format csv" in result.stderr) == (1, True)
    command = ("import", *container_names, "-", "--format", "csv", "--json")
    assert decoded(cli(*command, given="id,pk\na,p\n"))["created"] == 1


# import --create


def definition(cli: Cli, *names: str) -> Any:
    return decoded(cli("container", "show", *names, "--json"))


def test_create_makes_database_and_container(cli: Cli, name: str, tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text("id,town\n1,x\n2,y\n")
    command = ("import", name, "users", str(path), "--create", "--partition-key", "/town")
    result = cli(*command, "--default-ttl", "1h", "--json")
    assert decoded(result)["created"] == 2
    assert result.stderr.splitlines() == [
        f"Created the database {name}.", f"Created the container {name}/users.",
    ]  # fmt: skip
    found = definition(cli, name, "users")
    assert (found["partitionKey"]["paths"], found["defaultTtl"]) == (["/town"], 3600)
    again = cli(*command, "--default-ttl", "60m", "--json")
    assert (decoded(again)["replaced"], again.stderr) == (2, "")
    assert decoded(cli("import", name, "users", str(path), "--create", "--json"))["replaced"] == 2
    keys = ("--partition-key", "/town", "--partition-key", "/id")
    printed(cli("import", name, "deep", str(path), "--create", *keys))
    assert definition(cli, name, "deep")["partitionKey"]["kind"] == "MultiHash"
    assert "defaultTtl" not in definition(cli, name, "deep")
    printed(cli("db", "delete", name, "--yes"))


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--create",), 2, "is missing: give its partition key, such as --partition-key /id."),
        (("--partition-key", "/id"), 2, "only with --create"),
        (("--default-ttl", "5"), 2, "only with --create"),
        (("--create", "--partition-key", "id"), 2, "'id' is not a path"),
        (("--create", "--partition-key", "/id", "--default-ttl", "-3"), 2, "'-3' is negative"),
        (("--create", "--partition-key", "/id", "--default-ttl", "0"), 1, "'0'"),
        (("--create", "--partition-key", "/id/"), 1, "/id/"),
        ((), 1, "--create creates it."),
    ],
)
def test_what_cannot_be_created_changes_nothing(
    cli: Cli, name: str, options: tuple[str, ...], code: int, message: str
) -> None:
    result = cli("import", name, "c", "-", *options, given='{"id":"a"}')
    assert result.exit_code == code
    assert message in result.stderr
    assert cli("db", "show", name).exit_code == 1


def test_a_missing_file_creates_nothing(cli: Cli, name: str, tmp_path: Path) -> None:
    command = ("import", name, "c", str(tmp_path / "nothing"), "--create", "--partition-key", "/id")
    result = cli(*command)
    assert (result.exit_code, "No such file" in result.stderr) == (1, True)
    assert cli("db", "show", name).exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--partition-key", "/other"), "exists with the partition key /pk."),
        (("--default-ttl", "5"), "its default ttl is off."),
    ],
)
def test_an_existing_container_must_have_the_same_definition(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    options: tuple[str, ...],
    message: str,
) -> None:
    command = ("import", *container_names, "-", "--create", *options)
    result = cli(*command, given='{"id":"a","pk":"p"}')
    assert result.exit_code == 1
    assert message in result.stderr
    assert stored_items(raw, container_names) == {}
