"""`perseid import` and `perseid export` against a running server: whole, exact, resumable."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perseid.clock import MovableClock
from perseid.commands.data_client import feed_page
from perseid.config import Settings
from tests.support.builders import create_container, temporary_database
from tests.support.cli import Cli, decoded, invoke, printed
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.servers import RunningServer, Servers
from tests.unit.commands.conftest import START

SMALL_PAGE = "perseid.commands.export_items._PAGE"


@pytest.fixture(scope="module")
def server(frozen_server: RunningServer) -> RunningServer:
    return frozen_server


@pytest.fixture
def container_names(raw: RawClient, database: str) -> tuple[str, str]:
    """A container whose items live a minute."""
    return new_container(raw, database, "c", defaultTtl=60)


def new_container(raw: RawClient, database: str, name: str, **properties: Any) -> tuple[str, str]:
    """Creates a container; returns the names of its database and of itself."""
    create_container(raw, database, name, **properties)
    return database.removeprefix("/dbs/"), name


def new_items(count: int) -> list[dict[str, Any]]:
    return [{"id": f"i{n}", "pk": f"p{n % 7}", "n": n} for n in range(count)]


def write_lines(path: Path, documents: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in documents))
    return path


def stored_items(raw: RawClient, container_names: tuple[str, str]) -> dict[str, dict[str, Any]]:
    """All items of a container by id."""
    path = "/dbs/{}/colls/{}/docs".format(*container_names)
    reply = raw.query(path, "SELECT * FROM c", count="-1")
    assert reply.status == 200
    assert "x-ms-continuation" not in reply.headers
    return {each["id"]: each for each in reply.json["Documents"]}


# Import


@pytest.mark.parametrize("form", ["lines", "array", "lines.gz", "array.gz"])
def test_import_reads_every_form(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path, form: str
) -> None:
    documents = new_items(700)
    text = (
        "".join(json.dumps(each) + "\n" for each in documents)
        if form.startswith("lines")
        else json.dumps(documents, indent=1)
    ).encode()
    path = tmp_path / "items"
    path.write_bytes(gzip.compress(text) if form.endswith("gz") else text)
    found = decoded(cli("import", *container_names, str(path), "--json"))
    assert found == {
        "complete": True, "items": 700, "earlierItems": 0, "created": 700, "replaced": 0,
        "skipped": 0, "expired": 0, "rejected": 0, "rejectedLines": [],
    }  # fmt: skip
    found_items = stored_items(raw, container_names)
    assert {id_: each["n"] for id_, each in found_items.items()} == {
        each["id"]: each["n"] for each in documents
    }
    assert list(tmp_path.iterdir()) == [path]


def test_import_from_standard_input(
    cli: Cli, raw: RawClient, container_names: tuple[str, str]
) -> None:
    text = '{"id":"a","pk":"p"}\n\n{"id":"b","pk":"p"}\n'
    assert "created  2" in printed(cli("import", *container_names, "-", given=text))
    assert set(stored_items(raw, container_names)) == {"a", "b"}


@pytest.mark.parametrize("form", [bytes, gzip.compress])
def test_import_from_a_pipe(
    cli: Cli,
    raw: RawClient,
    container_names: tuple[str, str],
    tmp_path: Path,
    form: Callable[[bytes], bytes],
) -> None:
    """As `perseid import shop orders <(zcat items.gz)` has one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = form(b'{"id":"a","pk":"p"}\n{"id":"b","pk":"p"}\n')
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert decoded(cli("import", *container_names, str(pipe), "--json"))["created"] == 2
    writer.join()
    assert stored_items(raw, container_names).keys() == {"a", "b"}
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_a_checkpoint_that_cannot_be_written(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path
) -> None:
    """That is said before anything has been stored."""
    path = write_lines(tmp_path / "items", new_items(3))
    for command in ("import", "export"):
        result = cli(
            command, *container_names, str(path), "--checkpoint", str(tmp_path / "no" / "where")
        )
        assert result.exit_code == 1
        assert "Choose another file with --checkpoint" in result.stderr
        assert stored_items(raw, container_names) == {}
        assert [each.name for each in tmp_path.iterdir()] == ["items"]


def test_the_last_of_several_with_one_id_stays(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path
) -> None:
    documents = [{"id": f"i{n % 50}", "pk": "p", "n": n} for n in range(3000)]
    path = write_lines(tmp_path / "items", documents)
    found = decoded(cli("import", *container_names, str(path), "--json", "--connections", "8"))
    assert (found["created"], found["replaced"]) == (50, 2950)
    assert {each["n"] for each in stored_items(raw, container_names).values()} == set(
        range(2950, 3000)
    )


def test_rejected_items_are_reported(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "items"
    large = json.dumps({"id": "large", "pk": "p", "text": "x" * 2 * 1024 * 1024})
    path.write_text(f'{{"id":"a","pk":"p"}}\n{{"id":"b","ttl":0}}\n{large}\n{{"id":"half\n')
    result = cli("import", *container_names, str(path))
    assert result.exit_code == 1
    assert "rejected  3" in result.stdout
    output = result.stderr.splitlines()
    assert output[0].startswith(f"{path}, line 2 (b): The input ttl '0' is invalid")
    assert output[1] == f"{path}, line 3 (large): An item can have at most 2 MB."
    assert output[2].startswith(f"{path}, line 4: The request body is not valid JSON")
    assert re.search(r" at column \d+\.$", output[2])
    assert "line 1" not in output[2]
    assert set(stored_items(raw, container_names)) == {"a"}


def test_an_invalid_ttl_is_rejected_while_ttl_is_off(
    servers: Servers, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "items"
    path.write_text('{"id":"a","pk":"p"}\n\n{"id":"b","ttl":-10}\n')
    server = servers(relaxed=False)
    with server.connect() as raw, temporary_database(raw, name) as database:
        create_container(raw, database)
        result = invoke(server.endpoint, "import", name, "c", str(path))
        assert result.exit_code == 1
        assert result.stderr.startswith(f"{path}, line 3 (b): The input ttl '-10' is invalid")


def test_too_many_rejected_items_stop_the_import(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "items", [{"no": n} for n in range(5000)])
    result = cli("import", *container_names, str(path), "--max-errors", "10", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert not found["complete"]
    assert 10 < found["rejected"] < 5000
    assert "--max-errors" in result.stderr


@pytest.mark.parametrize("existing", ["replace", "skip", "fail"])
def test_items_that_are_there(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path, existing: str
) -> None:
    path = write_lines(tmp_path / "items", new_items(3))
    printed(cli("import", *container_names, str(path)))
    changed = [each | {"n": -1} for each in new_items(4)]
    result = cli(
        "import",
        *container_names,
        str(write_lines(path, changed)),
        "--existing",
        existing,
        "--json",
    )
    found = json.loads(result.stdout)
    assert found["created"] == 1
    counted = {"replace": "replaced", "skip": "skipped", "fail": "rejected"}[existing]
    assert found[counted] == 3
    assert result.exit_code == (1 if existing == "fail" else 0)


def test_ages(
    cli: Cli, raw: RawClient, clock: MovableClock, container_names: tuple[str, str], tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "items", new_items(3))
    now = int(clock.now())
    printed(cli("import", *container_names, str(path), "--age", "59s"))
    assert {each["_ts"] for each in stored_items(raw, container_names).values()} == {now - 59}
    assert (
        decoded(cli("import", *container_names, str(path), "--age", "1m", "--json"))["expired"] == 3
    )
    clock.advance(1)
    assert stored_items(raw, container_names) == {}
    both = cli("import", *container_names, str(path), "--age", "1", "--lifetimes", "keep")
    assert both.exit_code == 2
    assert "not both" in both.stderr


# Export


def test_export_and_import_are_inverse(
    cli: Cli, raw: RawClient, clock: MovableClock, database: str, container_names: tuple[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    """T-227: only live items, with ttl; with --lifetimes keep a copy expires with the original."""
    path = "/dbs/{}/colls/{}/docs".format(*container_names)
    texts = [
        b'{"id":"a","pk":"p","n":1.50e1,"s":"\\u00e9"}',
        b'{"id":"b","pk":"p","ttl":-1}',
        b'{"id":"short","pk":"p","ttl":5}',
        b'{"id":"d","pk":"p","_note":"mine"}',
    ]
    for text in texts:
        assert (
            raw.request("POST", path, text, {"x-ms-documentdb-partitionkey": '["p"]'}).status == 201
        )
    written = int(clock.now())
    clock.advance(5)
    out = tmp_path / "items.jsonl"
    assert decoded(cli("export", *container_names, str(out), "--json"))["items"] == 3
    stamp = f',"_ts":{written}}}'.encode()
    assert out.read_bytes().splitlines() == [
        text[:-1] + stamp for text in texts if b"short" not in text
    ]
    other = new_container(raw, database, "copy", defaultTtl=60)
    printed(cli("import", *other, str(out), "--lifetimes", "keep"))
    assert {each["_ts"] for each in stored_items(raw, other).values()} == {written}
    restarted = new_container(raw, database, "again", defaultTtl=60)
    printed(cli("import", *restarted, str(out)))
    clock.advance(55)
    assert set(stored_items(raw, container_names)) == set(stored_items(raw, other)) == {"b"}
    assert set(stored_items(raw, restarted)) == {"a", "b", "d"}
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("system", ["ts", "all", "none"])
def test_the_largest_item_comes_back(
    cli: Cli,
    raw: RawClient,
    database: str,
    container_names: tuple[str, str],
    tmp_path: Path,
    system: str,
) -> None:
    item = {"id": "a", "pk": "p", "text": ""}
    item["text"] = "x" * (2 * 1024 * 1024 - len(json.dumps(item)))
    created = raw.post("/dbs/{}/colls/{}/docs".format(*container_names), item, pk='["p"]')
    assert created.status == 201
    out = tmp_path / "items"
    printed(cli("export", *container_names, str(out), "--system", system))
    other = new_container(raw, database, "copy")
    printed(cli("import", *other, str(out)))
    assert stored_items(raw, other)["a"]["text"] == item["text"]


@pytest.mark.parametrize(
    ("name", "options", "is_array"),
    [
        ("o.json", (), True),
        ("o.json.gz", (), True),
        ("o.jsonl.gz", (), False),
        ("o", ("--format", "array"), True),
        ("o.json", ("--format", "lines", "--gzip"), False),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 250])
def test_export_writes_every_form(
    cli: Cli, raw: RawClient, container_names: tuple[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, name: str, options: tuple[str, ...], is_array: bool,
    count: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(SMALL_PAGE, 100)
    printed(cli("import", *container_names, str(write_lines(tmp_path / "in", new_items(count)))))
    out = tmp_path / name
    printed(cli("export", *container_names, str(out), *options, "--system", "none"))
    content = out.read_bytes()
    if name.endswith(".gz") or "--gzip" in options:
        content = gzip.decompress(content)
    found = json.loads(content) if is_array else [json.loads(line) for line in content.splitlines()]
    assert sorted(found, key=lambda each: each["n"]) == new_items(count)


def test_export_to_standard_output(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path
) -> None:
    printed(cli("import", *container_names, str(write_lines(tmp_path / "in", new_items(3)))))
    lines = printed(cli("export", *container_names, "--system", "all")).splitlines()
    assert {json.loads(line)["id"] for line in lines} == {"i0", "i1", "i2"}
    assert set(json.loads(lines[0])) >= {"_rid", "_self", "_etag", "_attachments", "_ts"}


@pytest.fixture
def scarce() -> Iterator[tuple[str, MovableClock]]:
    """A server that enforces throughput, with 500 items in `d/c`, and a stopped clock."""
    clock = MovableClock()
    clock.set(math.ceil(clock.freeze()))
    settings = Settings(memory=True, no_sweeper=True, enforce_throughput=True)
    with running(settings, clock) as found, closing(RawClient(found.endpoint)) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        new_container(raw, "/dbs/d", "c")
        lines = b"\n".join(json.dumps(item).encode() for item in new_items(500))
        assert raw.request("POST", "/_perseid/import/d/c", lines).status == 200
        yield found.endpoint, clock


WAIT = "perseid.commands.connection._wait"


def test_commands_wait_after_429(
    scarce: tuple[str, MovableClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 RU/s, and each item costs one: no export and no query is complete within a second."""
    endpoint, clock = scarce
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    monkeypatch.setattr(WAIT, wait)
    lines = printed(invoke(endpoint, "export", "d", "c", "-")).splitlines()
    assert [json.loads(line)["id"] for line in lines] == [item["id"] for item in new_items(500)]
    assert waits == [1.0]
    found = decoded(invoke(endpoint, "query", "d", "c", "SELECT * FROM c", "--json"))
    assert len(found["items"]) == 500
    assert len(waits) > 1


def test_commands_stop_waiting_after_thirty_seconds(
    scarce: tuple[str, MovableClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(WAIT, waits.append)
    result = invoke(scarce[0], "export", "d", "c", "-")
    assert result.exit_code == 1
    assert "Request rate is large" in result.stderr
    assert 20 < sum(waits) <= 30


def interrupt_at_third_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred items each; as Ctrl-C does."""
    real, calls = feed_page, []

    def failing(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(SMALL_PAGE, 100)
    monkeypatch.setattr("perseid.commands.export_items.feed_page", failing)


def test_export_continues_after_an_interruption(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was written partly is written again."""
    printed(cli("import", *container_names, str(write_lines(tmp_path / "in", new_items(350)))))
    interrupt_at_third_page(monkeypatch)
    out = tmp_path / "out.json.gz"
    assert cli("export", *container_names, str(out)).exit_code == 130
    assert not out.exists()
    part = tmp_path / "out.json.gz.part"
    with part.open("ab") as file:
        file.write(b"half a page")
    found = decoded(cli("export", *container_names, str(out), "--json"))
    assert (found["items"], found["earlierItems"]) == (350, 200)
    content = json.loads(gzip.decompress(out.read_bytes()))
    assert sorted(each["n"] for each in content) == list(range(350))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in", "out.json.gz"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("import", "nowhere", "c", "-"), 1, "There is no container nowhere/c; see `perseid"),
        (("export", "nowhere", "c"), 1, "There is no container nowhere/c; see `perseid"),
        (("import", "nowhere", "c", "/nothing/here"), 1, "There is no container nowhere/c"),
        (("import", "d", "c", "-", "--age", "soon"), 2, "'soon' is not a duration"),
        (("import", "d", "c"), 2, "Missing argument 'FILE'"),
        (("export", "d", "c", "--format", "xml"), 2, "'xml' is not one of"),
        (("export", "d", "c", "--json"), 2, "give a FILE, or omit --json"),
    ],
)
def test_failures(cli: Cli, arguments: tuple[str, ...], code: int, message: str) -> None:
    result = cli(*arguments)
    assert result.exit_code == code
    assert message in result.stderr


def test_files_that_cannot_be_used(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path
) -> None:
    missing = cli("import", *container_names, str(tmp_path / "nothing"))
    assert (missing.exit_code, "No such file" in missing.stderr) == (1, True)
    nowhere = cli("export", *container_names, str(tmp_path / "no" / "where"))
    assert (nowhere.exit_code, "there is no folder" in nowhere.stderr) == (1, True)
    cut = tmp_path / "cut.json"
    cut.write_text('[{"id":"a","pk":"p"},{"id"')
    result = cli("import", *container_names, str(cut))
    assert result.exit_code == 1
    assert "line 1: item 2 is not valid JSON or is cut off" in result.stderr


def test_export_replaces_files_only(
    cli: Cli, container_names: tuple[str, str], tmp_path: Path
) -> None:
    printed(cli("import", *container_names, "-", given='{"id":"a","pk":"p"}'))
    folder = cli("export", *container_names, str(tmp_path))
    assert (folder.exit_code, "is a directory" in folder.stderr) == (2, True)
    state = cli("export", *container_names, str(tmp_path / "out"), "--checkpoint", str(tmp_path))
    assert (state.exit_code, "is a directory" in state.stderr) == (2, True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    state = cli("export", *container_names, str(tmp_path / "out"), "--checkpoint", str(pipe))
    assert (state.exit_code, "is not a file" in state.stderr) == (2, True)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert cli("export", *container_names, str(pipe), "--system", "none").exit_code == 0
    assert reader.communicate()[0] == b'{"id":"a","pk":"p"}\n'
    assert pipe.is_fifo()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    assert cli("export", *container_names, str(link), "--system", "none").exit_code == 0
    assert link.is_symlink()
    assert (tmp_path / "real").read_bytes() == b'{"id":"a","pk":"p"}\n'
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "pipe", "real"]


def test_system_errors_become_messages(
    cli: Cli, endpoint: str, container_names: tuple[str, str]
) -> None:
    printed(cli("import", *container_names, "-", given='{"id":"a","pk":"p"}'))
    for arguments in (
        ("--help",),
        ("clock", "show"),
        ("query", *container_names, "SELECT 1"),
        ("export", *container_names),
    ):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "perseid", *arguments],
                env=os.environ | {"PERSEID_ENDPOINT": endpoint},
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 1
        assert "Error: No space left on device." in done.stderr
        assert "Traceback" not in done.stderr


# Checkpoints


def test_a_checkpoint_belongs_to_its_file_and_container(
    cli: Cli, raw: RawClient, database: str, container_names: tuple[str, str], tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "items", new_items(10))
    other = new_container(raw, database, "other")
    broken = tmp_path / "broken.json"
    broken.write_text('[{"id":"a","pk":"p"},')
    assert cli("import", *container_names, str(broken)).exit_code == 1
    mark = tmp_path / "broken.json.import-state"
    assert json.loads(mark.read_text())["state"]["done"] == 1
    elsewhere = cli("import", *other, str(broken))
    assert "was written by a run with another container" in elsewhere.stderr
    changed = cli("import", *container_names, str(path), "--checkpoint", str(mark))
    assert "was written by a run with another file" in changed.stderr
    assert (
        decoded(
            cli(
                "import",
                *container_names,
                str(path),
                "--checkpoint",
                str(mark),
                "--restart",
                "--json",
            )
        )["created"]
        == 10
    )
    assert not mark.exists()
    mark.write_text("{")
    garbled = cli("import", *container_names, str(broken))
    assert "start over with --restart" in garbled.stderr


def test_a_checkpoint_does_not_belong_to_a_server_that_began_with_nothing(tmp_path: Path) -> None:
    """The container has the same name and the same rid, and none of the items."""
    broken = tmp_path / "broken.json"
    broken.write_text('[{"id":"a","pk":"p"},{"id":"b","pk":"p"},')
    for year in (0, 1):
        clock = MovableClock()
        clock.freeze()
        clock.set(START + year * 31_536_000)
        with (
            running(Settings(memory=True), clock) as fresh,
            closing(RawClient(fresh.endpoint)) as raw,
        ):
            assert raw.post("/dbs", {"id": "d"}).status == 201
            there = new_container(raw, "/dbs/d", "c")
            result = invoke(fresh.endpoint, "import", *there, str(broken))
            assert result.exit_code == 1
            if year == 0:
                assert len(stored_items(raw, there)) == 2
                assert "item 3 is not valid JSON" in result.stderr
                continue
            assert "was written by a run with another container" in result.stderr
            assert "--restart" in result.stderr
            invoke(fresh.endpoint, "import", *there, str(broken), "--restart")
            assert len(stored_items(raw, there)) == 2


def test_a_checkpoint_is_not_ahead_of_a_restored_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after the backup is missing; going on would leave it out."""
    settings = Settings(data=tmp_path / "data", durability="off")
    broken, written = tmp_path / "broken.json", tmp_path / "written"
    broken.write_text(f"{json.dumps(new_items(350))[:-1]},")
    with running(settings) as first, closing(RawClient(first.endpoint)) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        container_names = new_container(raw, "/dbs/d", "c")
    shutil.copytree(settings.data, tmp_path / "older")
    commands = ("import", *container_names, str(broken)), ("export", *container_names, str(written))
    interrupt_at_third_page(monkeypatch)
    with running(settings) as first:
        assert [invoke(first.endpoint, *each).exit_code for each in commands] == [1, 130]
    with running(Settings(data=tmp_path / "older", durability="off")) as restored:
        for each in commands:
            result = invoke(restored.endpoint, *each)
            assert result.exit_code == 1
            assert "a backup was restored since" in result.stderr
        assert "item 351" in invoke(restored.endpoint, *commands[0], "--restart").stderr
        found = decoded(invoke(restored.endpoint, *commands[1], "--restart", "--json"))
        assert found["items"] == 350


def test_a_reader_that_has_seen_enough_ends_an_export(
    endpoint: str, cli: Cli, container_names: tuple[str, str], tmp_path: Path
) -> None:
    """Without a word, and without a change to how this process takes closed connections."""
    cli("import", *container_names, str(write_lines(tmp_path / "items", new_items(3000))))
    with subprocess.Popen(
        [sys.executable, "-m", "perseid", "export", *container_names],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b'"id"' in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) != 0
    before = signal.getsignal(signal.SIGPIPE) if hasattr(signal, "SIGPIPE") else None
    assert cli("export", *container_names).exit_code == 0
    assert not hasattr(signal, "SIGPIPE") or signal.getsignal(signal.SIGPIPE) is before


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_a_progress_bar_on_a_terminal(
    endpoint: str, container_names: tuple[str, str], tmp_path: Path
) -> None:
    import pty

    path = write_lines(tmp_path / "items", new_items(2000))
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "perseid", "import", *container_names, str(path)],
        env=os.environ | {"PERSEID_ENDPOINT": endpoint, "TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=slave,
    )
    os.close(slave)
    output = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        output += chunk
    os.close(master)
    assert process.wait(60) == 0
    assert process.stdout is not None
    process.stdout.close()
    assert b"importing" in output
    assert b"100%" in output
    assert b"2,000 items" in output
    assert b"/s" in output
