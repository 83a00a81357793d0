"""`perseid check` finds problems of the data, `perseid doctor` problems of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from perseid.clock import MovableClock
from perseid.commands import serve
from perseid.config import Settings
from perseid.errors import StartError
from perseid.partition import canonical
from perseid.server import opened
from perseid.service.items import imports
from perseid.service.resources import containers, databases
from perseid.store.sqlite.clearing import MAX_IMMEDIATE_REMOVALS
from perseid.store.sqlite.snapshot import Snapshot, snapshot
from perseid.store.types import Resource
from perseid.ttl import NOTHING_EXPIRED
from tests.support.builders import PARTITION_KEY
from tests.support.cli import decoded, invoke, printed
from tests.support.raw import RawClient
from tests.support.running import free_port, running

OTHER_KEY = "b3RoZXIga2V5"
FILE = "perseid.sqlite3"


# check


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with two containers, one with unique keys and two ranges."""
    path = tmp_path_factory.mktemp("sound") / "data"
    with running(Settings(data=path, durability="off")) as settings:
        create_both_containers(RawClient(settings.endpoint, settings.key))
    return path


def create_both_containers(raw: RawClient) -> None:
    assert raw.post("/dbs", {"id": "d"}).status == 201
    key = PARTITION_KEY
    unique = {"uniqueKeys": [{"paths": ["/mail"]}]}
    plain = {"id": "plain", "partitionKey": key, "defaultTtl": 3600}
    keyed = {"id": "keyed", "partitionKey": key, "uniqueKeyPolicy": unique}
    assert raw.post("/dbs/d/colls", plain).status == 201
    assert raw.post("/dbs/d/colls", keyed, throughput="12000").status == 201
    for container in ("plain", "keyed"):
        for number in range(20):
            item: dict[str, Any] = {
                "id": f"i{number}",
                "pk": f"p{number % 5}",
                "mail": f"m{number}",
            }
            item |= {"ttl": 50} if number % 2 else {}
            path = f"/dbs/d/colls/{container}/docs"
            assert raw.post(path, item, pk=json.dumps([item["pk"]])).status == 201
    raw.close()


@pytest.fixture
def data_copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "data"))


def check(path: Path, *options: str) -> Any:
    return invoke("", "check", str(path), *options)


def test_sound_data(data_copy: Path) -> None:
    before = sorted(each.name for each in data_copy.iterdir())
    text = printed(check(data_copy))
    assert "items: 40 checked, no problems" in text
    assert "unique keys: 20 checked, no problems" in text
    assert "counters of physical ranges: 3 checked, no problems" in text
    found = decoded(check(data_copy, "--json"))
    assert found["ok"]
    assert len(found["checks"]) == 6
    assert len(decoded(check(data_copy, "--quick", "--json"))["checks"]) == 3
    assert sorted(each.name for each in data_copy.iterdir()) == before


def test_data_in_use(tmp_path: Path) -> None:
    """A server may go on: the check looks at one state."""
    with running(Settings(data=tmp_path / "data")) as settings:
        create_both_containers(RawClient(settings.endpoint, settings.key))
        assert "items: 40 checked, no problems" in printed(check(tmp_path / "data"))


def test_data_in_use_whose_log_is_empty(data_copy: Path) -> None:
    """What is written meanwhile goes into the log and, with time, into the file."""
    with contextlib.closing(apsw.Connection(str(data_copy / FILE))) as server:
        server.execute("CREATE TABLE large (a)")
        server.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        assert (data_copy / f"{FILE}-wal").stat().st_size == 0
        with snapshot(data_copy / FILE) as found:
            found.resources()
            server.execute("INSERT INTO large SELECT randomblob(1000000)")
            server.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            assert found.damage(is_quick=False) == []


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_server_that_starts_during_the_check(
    data_copy: Path, is_seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of reading the file without its log is discarded."""
    looked = []
    look = Snapshot.resources

    with contextlib.closing(apsw.Connection(str(data_copy / FILE))) as server:

        def start(found: Snapshot) -> list[Resource]:
            looked.append(found)
            if len(looked) == 1:
                server.execute("UPDATE positions SET items = items + 1")
                server.execute("UPDATE positions SET items = items - 1")
                if is_seen:
                    raise apsw.CorruptError("pages of two states")
            return look(found)

        monkeypatch.setattr(Snapshot, "resources", start)
        assert "items: 40 checked, no problems" in printed(check(data_copy))
    assert len(looked) == 2


@pytest.mark.parametrize(
    ("damage", "finding", "problem"),
    [
        ("UPDATE positions SET items = items + 1", "counters", "says 21 items, it has 20"),
        ("UPDATE positions SET bytes = bytes - 1", "counters", "bytes, it has"),
        ("UPDATE positions SET lsn = 1", "counters", "its LSN 1 is below an item's LSN"),
        ("DELETE FROM positions", "counters", "has no counters"),
        ("INSERT INTO positions VALUES (999,0,0,0,0,0,0,0)", "counters", "belong to no range"),
        ("UPDATE {items} SET id = 'other' WHERE id = 'i3'", "items", "id is 'i3' in its body"),
        ("UPDATE {items} SET ts = 5 WHERE id = 'i3'", "items", "_ts is"),
        ("UPDATE {items} SET etag = 'x' WHERE id = 'i3'", "items", "_etag is"),
        ("UPDATE {items} SET pk = x'00' WHERE id = 'i3'", "items", "partition key is"),
        ("UPDATE {items} SET epk = x'00' WHERE id = 'i3'", "items", "hash of the partition key is"),
        ("UPDATE {items} SET ttl = NULL WHERE id = 'i3'", "items", "ttl is 50"),
        ("UPDATE {items} SET number = number + 1 WHERE id = 'i19'", "items", "_rid is"),
        (
            "UPDATE {items} SET id = CAST(x'ff' AS TEXT) WHERE id = 'i3'",
            "items",
            "docs/?: its checksum does not match",
        ),
        ("UPDATE {items} SET body = x'ff' WHERE id = 'i3'", "items", "i3: the body cannot be read"),
        # {"id": "\xff"}, which is no text, and a body that is no object
        ("UPDATE {items} SET body = x'5c27696417ff' WHERE id = 'i3'", "items", "i3: the body"),
        ("UPDATE {items} SET body = jsonb('7') WHERE id = 'i3'", "items", "i3: the body"),
        ("UPDATE {keyed} SET body = x'ff' WHERE id = 'i3'", "items", "i3: the body cannot be read"),
        ("DELETE FROM {unique} WHERE {first}", "unique", "entries do not match its values"),
        ("INSERT INTO {unique} VALUES (x'01', 1)", "unique", "of item 1, which does not exist"),
        ("DELETE FROM resources WHERE kind = 'database'", "databases", "has an owner that does"),
        ("DELETE FROM resources WHERE id = 'plain'", "databases", "belongs to no container"),
        ("DROP TABLE {unique}", "databases", "container 'keyed' has no table unique_"),
    ],
)  # fmt: skip
def test_problems_are_reported(data_copy: Path, damage: str, finding: str, problem: str) -> None:
    db = apsw.Connection(str(data_copy / FILE))
    number = "SELECT json_extract(state, '$.number') FROM resources WHERE id = ?"
    plain, keyed = (db.execute(number, (name,)).get for name in ("plain", "keyed"))
    first = f"entry = (SELECT MIN(entry) FROM unique_{keyed})"
    tables = {"items": f"items_{plain}", "keyed": f"items_{keyed}", "unique": f"unique_{keyed}"}
    db.execute(damage.format(**tables, first=first))
    db.close()
    result = check(data_copy, "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert not report["ok"]
    (wrong,) = (each for each in report["checks"] if each["wrong"])
    assert wrong["name"].startswith(finding)
    assert any(problem in each for each in wrong["problems"]), wrong
    people = check(data_copy)
    assert people.exit_code == 1
    assert problem in people.stdout


DAMAGED = "the definition of {} is damaged"
PLAIN, KEYED = DAMAGED.format("container 'plain'"), DAMAGED.format("container 'keyed'")


@pytest.mark.parametrize(
    ("name", "state", "problem"),
    [
        ("plain", "'{\"number'", PLAIN),
        ("plain", "'[1]'", PLAIN),
        ("plain", "'\"text\"'", PLAIN),
        ("plain", "'null'", PLAIN),
        ("plain", "'{\"a\": 1}'", PLAIN),
        ("plain", "json_remove(state, '$.final_cutoffs')", PLAIN),
        ("plain", "json_remove(state, '$.number')", PLAIN),
        ("plain", "json_set(state, '$.number', 'x')", PLAIN),
        ("plain", "json_set(state, '$.number', json('[null]'))", PLAIN),
        ("plain", "json_set(state, '$.ranges', 0)", PLAIN),
        ("plain", "json_set(state, '$.ranges', 4611686018427387904)", PLAIN),
        ("plain", "json_set(state, '$.ranges', 'x')", PLAIN),
        ("plain", "json_set(state, '$.properties', 5)", PLAIN),
        ("keyed", "json_set(state, '$.properties.uniqueKeyPolicy', 'x')", KEYED),
        ("d", "'{}'", DAMAGED.format("database 'd'")),
        ("offer", "json_set(state, '$.resource_rid', json('{}'))", "the definition of offer"),
        ("offer", "'[]'", "the definition of offer"),
    ],
)
def test_damaged_definitions_are_problems(
    data_copy: Path, name: str, state: str, problem: str
) -> None:
    with contextlib.closing(apsw.Connection(str(data_copy / FILE))) as db:
        db.execute(f"UPDATE resources SET state = {state} WHERE id = ? OR kind = ?", (name, name))
        assert db.changes() > 0
    result = check(data_copy, "--json")
    assert result.exit_code == 1, result.exception
    wrong = [each for each in json.loads(result.stdout)["checks"] if each["wrong"]]
    assert [each["name"] for each in wrong] == ["databases, containers and other resources"]
    assert problem in wrong[0]["problems"][0]
    assert problem in check(data_copy).stdout
    with pytest.raises(StartError), running(Settings(data=data_copy)):
        pytest.fail("a server has started with damaged definitions")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("number = -1", "its number is -1"),
        ("number = 1 << 60", "its number is"),
        ("pk = 'text'", "its pk is 'text'"),
        ("epk = 7", "its epk is 7"),
        ("ts = 'soon'", "its ts is 'soon'"),
        ("ttl = 'soon'", "its ttl is 'soon'"),
        ("lsn = 'late'", "its lsn is 'late'"),
        ("size = 1.5", "its size is 1.5"),
        ("id = x'00'", "id is 'i3' in its body"),
        ("id = CAST(x'ff' AS TEXT)", "id is 'i3' in its body"),
    ],
)
def test_damaged_columns_are_problems(data_copy: Path, change: str, problem: str) -> None:
    with contextlib.closing(apsw.Connection(str(data_copy / FILE))) as db:
        number = "SELECT json_extract(state, '$.number') FROM resources WHERE id = 'keyed'"
        db.execute(f"UPDATE items_{db.execute(number).get} SET {change} WHERE id = 'i3'")
    result = check(data_copy, "--json")
    assert result.exit_code == 1, result.exception
    problems = [text for each in json.loads(result.stdout)["checks"] for text in each["problems"]]
    assert any(problem in text for text in problems), problems


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DROP TABLE resources", "cannot be read as a database"),
    ],
)
def test_damage_that_prevents_all_checks(data_copy: Path, damage: str, message: str) -> None:
    db = apsw.Connection(str(data_copy / FILE))
    number = "SELECT json_extract(state, '$.number') FROM resources WHERE id = 'plain'"
    db.execute(damage.format(items=f"items_{db.execute(number).get}"))
    db.close()
    result = check(data_copy)
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data with a change log, in which an item was written and another one deleted."""
    path = tmp_path_factory.mktemp("logged")
    with running(Settings(data=path)) as settings:
        raw = RawClient(settings.endpoint, settings.key)
        assert raw.post("/dbs", {"id": "d"}).status == 201
        key = PARTITION_KEY
        policy = {"retentionDuration": 60}
        container = {"id": "c", "partitionKey": key, "changeFeedPolicy": policy}
        assert raw.post("/dbs/d/colls", container).status == 201
        for name in ("there", "gone"):
            item = {"id": name, "pk": "p"}
            assert raw.post("/dbs/d/colls/c/docs", item, pk='["p"]').status == 201
        assert raw.delete("/dbs/d/colls/c/docs/gone", pk='["p"]').status == 204
        raw.close()
    return path


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (None, None),
        ("DELETE FROM {log} WHERE id = 'there'", "the last write of 'there' is not in the log"),
        ("UPDATE {log} SET lsn = 2 WHERE id = 'there'", "the last write of 'there' is not in"),
        ("UPDATE {log} SET body = x'7b22ff' WHERE id = 'there'", "version of 'there' cannot be"),
        ("UPDATE {log} SET body = '{{}}' WHERE kind = 'delete'", "version of 'gone' cannot be"),
        (
            "INSERT INTO {log} SELECT NULL, range, 3, ts, 'delete', lsn, pk, id, epk, body"
            " FROM {log} WHERE id = 'there'",
            "'there' is there, and gone according to the log",
        ),
        ("UPDATE {log} SET lsn = 4 WHERE kind = 'delete'", "a change of 'gone' is logged before"),
        ("UPDATE change_logs SET floor = 2", "a change of 'there' is logged before"),
    ],
)
def test_a_log_that_contradicts_the_items(
    logged: Path, tmp_path: Path, damage: str | None, problem: str | None
) -> None:
    data_copy = Path(shutil.copytree(logged, tmp_path / "data"))
    if damage is None or problem is None:
        assert "change logs: 3 checked, no problems" in printed(check(data_copy))
        return
    db = apsw.Connection(str(data_copy / FILE))
    number = "SELECT json_extract(state, '$.number') FROM resources WHERE id = 'c'"
    db.execute(damage.format(log=f"changes_{db.execute(number).get}"))
    db.close()
    result = check(data_copy, "--json")
    assert result.exit_code == 1
    (wrong,) = (each for each in json.loads(result.stdout)["checks"] if each["wrong"])
    assert wrong["name"] == "change logs"
    assert any(problem in each for each in wrong["problems"]), wrong


def test_a_damaged_file(data_copy: Path) -> None:
    path = data_copy / FILE
    content = bytearray(path.read_bytes())
    for page in range(8, len(content) // 4096, 3):
        content[page * 4096 : page * 4096 + 100] = b"\xa5" * 100
    path.write_bytes(content)
    result = check(data_copy)
    assert result.exit_code == 1
    assert "wrong" in result.stdout or "cannot be read" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no database at"),
        (b"something else, long enough to look at" * 200, "cannot be read as a database"),
        (b"", "holds nothing of perseid"),
    ],
)
def test_directories_without_data(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / FILE).write_bytes(content)
    result = check(tmp_path)
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_path_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).touch()
    assert f"The file {Path('data', FILE)} holds nothing" in check(Path("data")).stderr


# doctor


def checks(endpoint: str, *options: str, key: str | None = None) -> tuple[int, dict[str, Any]]:
    result = invoke(endpoint, "doctor", "--json", *options, key=key)
    report = json.loads(result.stdout)
    assert report["ok"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in report["checks"]}


def test_all_checks_succeed(endpoint: str) -> None:
    code, found = checks(endpoint)
    assert code == 0
    found.pop("lifetimes", None)  # a word of warning, if another test has moved the clock
    assert [*found] == ["name", "port", "TLS", "server", "clock", "key", "address", "SDK"]
    assert all(check["verdict"] == "ok" for check in found.values()), found
    assert "connects and lists" in found["SDK"]["message"]
    text = printed(invoke(endpoint, "doctor"))
    assert text.startswith("ok      name ")


def test_the_address_that_localhost_stands_for(endpoint: str) -> None:
    _, found = checks(endpoint.replace("127.0.0.1", "localhost"))
    assert found["address"]["verdict"] == "ok"
    assert endpoint in found["address"]["message"]


@pytest.fixture(scope="module")
def with_tls() -> Iterator[Settings]:
    settings = Settings(memory=True, tls=True, test_clock=True, read_only_key=OTHER_KEY)
    with running(settings) as found:
        yield found


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_certificate_of_its_own(with_tls: Settings) -> None:
    code, found = checks(with_tls.endpoint)
    assert code == 0
    assert found["TLS"]["verdict"] == "warning"
    assert "`perseid trust`" in found["TLS"]["hint"]
    assert "/_perseid/certificate.pem" in found["TLS"]["hint"]
    assert "REQUESTS_CA_BUNDLE" in found["TLS"]["hint"]  # as docs/operations.md says
    assert found["SDK"]["verdict"] == "ok"


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_key_that_can_only_read(with_tls: Settings) -> None:
    code, found = checks(with_tls.endpoint, key=OTHER_KEY)
    assert (code, found["key"]["verdict"]) == (0, "warning")


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_clock_that_was_moved(with_tls: Settings) -> None:
    printed(invoke(with_tls.endpoint, "clock", "advance", "3h"))
    _, found = checks(with_tls.endpoint)
    assert "is 3h" in found["lifetimes"]["message"] or "2h 59m" in found["lifetimes"]["message"]


def test_a_clock_that_is_held(tmp_path: Path) -> None:
    """Data that a test clock has left an hour ahead, served without one."""
    settings = Settings(data=tmp_path / "data", durability="off")
    with running(replace(settings, test_clock=True)) as ahead:
        printed(invoke(ahead.endpoint, "clock", "advance", "1h"))
    with running(settings) as range_contents:
        _, found = checks(range_contents.endpoint)
        text = printed(invoke(range_contents.endpoint, "clock", "show"))
    assert "the clock is stopped until" in found["lifetimes"]["message"]
    assert "with --test-clock to let its clock run" in found["lifetimes"]["hint"]
    assert "stopped until the system's clock reaches this time, cannot be moved" in text


def test_a_server_says_that_its_clock_is_held() -> None:
    output = serve._banner(Settings(memory=True), 2_000_000_000.5)
    assert "The stored data is from 2033-05-18 03:33:20Z (2000000000), later than" in output
    assert "--test-clock" in output
    assert "WARNING" not in serve._banner(Settings(memory=True), None)


def test_http_where_https_is_spoken(with_tls: Settings) -> None:
    code, found = checks(with_tls.endpoint.replace("https", "http"))
    assert (code, [*found][-1]) == (1, "TLS")
    assert f"Use {with_tls.endpoint} as endpoint" in found["TLS"]["hint"]


def test_https_where_http_is_spoken(endpoint: str) -> None:
    code, found = checks(endpoint.replace("http", "https"))
    assert (code, found["TLS"]["verdict"]) == (1, "failed")
    assert f"Use {endpoint} as endpoint" in found["TLS"]["hint"]
    assert "8443" in found["TLS"]["hint"]


def test_a_wrong_key(endpoint: str) -> None:
    code, found = checks(endpoint, key=OTHER_KEY)
    assert (code, [*found][-1]) == (1, "key")
    assert "--key" in found["key"]["hint"]
    bad = invoke(endpoint, "doctor", key="no base64")
    assert (bad.exit_code, "must be base64" in bad.stderr) == (2, True)


def test_an_sdk_that_is_not_here(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    text = invoke(endpoint, "doctor").stdout
    assert "note    SDK        azure-cosmos is not installed, so it was not tested" in text


def test_nothing_listens() -> None:
    code, found = checks(f"http://127.0.0.1:{free_port()}/")
    assert (code, [*found]) == (1, ["name", "port"])
    assert "perseid serve" in found["port"]["hint"]


def test_a_name_without_an_address() -> None:
    code, found = checks("http://nowhere.invalid:8081/")
    assert (code, [*found]) == (1, ["name"])


def test_another_program_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)

        def greet() -> None:
            for _ in range(4):
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(10)
                    connection.sendall(b"SSH-2.0-strange\r\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        code, found = checks(f"http://127.0.0.1:{server.getsockname()[1]}/")
    assert (code, [*found][-1]) == (1, "server")
    assert "not Perseid" in found["server"]["message"]


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perseid.commands.doctor._SECONDS", 0.1)
    monkeypatch.setattr("perseid.commands.connection._CONNECT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, found = checks(f"http://127.0.0.1:{silent.getsockname()[1]}/")
    assert (code, [*found][-1]) == (1, "server")
    assert "does not answer" in found["server"]["message"]


def test_a_clock_that_is_off(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from perseid import clock

    real = clock.wall
    monkeypatch.setattr("perseid.commands.doctor.clock.wall", lambda: real() - 3600)
    code, found = checks(endpoint)
    assert (code, [*found][-1]) == (1, "clock")
    assert "ahead of this machine's" in found["clock"]["message"]


def test_a_proxy_in_the_environment(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    _, found = checks(endpoint)
    assert "NO_PROXY" in found["proxy"]["hint"]


def test_a_log_of_ids_that_one_transaction_gives_away_and_takes_again(tmp_path: Path) -> None:
    """In a batch that deletes and creates it, or because the earlier item had expired."""
    clock = MovableClock()
    docs, key = "/dbs/d/colls/c/docs", PARTITION_KEY
    with running(Settings(data=tmp_path), clock) as settings:
        raw = RawClient(settings.endpoint, settings.key)
        assert raw.post("/_perseid/sweeper/pause", {}).status == 200
        assert raw.post("/dbs", {"id": "d"}).status == 201
        container = {"id": "c", "partitionKey": key, "defaultTtl": 50}
        policy = {"changeFeedPolicy": {"retentionDuration": 60}}
        assert raw.post("/dbs/d/colls", container | policy).status == 201
        for name in ("a", "b"):
            assert raw.post(docs, {"id": name, "pk": "p"}, pk='["p"]').status == 201
        clock.advance(100)
        assert raw.post(docs, {"id": "a", "pk": "p"}, pk='["p"]').status == 201
        assert raw.post(docs, {"id": "c", "pk": "p"}, pk='["p"]').status == 201
        assert raw.put(f"{docs}/c", {"id": "b", "pk": "p"}, pk='["p"]').status == 200
        again = [
            {"operationType": "Delete", "id": "a"},
            {"operationType": "Create", "resourceBody": {"id": "a", "pk": "p"}},
        ]
        assert raw.batch("/dbs/d/colls/c", again, pk='["p"]').status == 200
        raw.close()
    assert "change logs: 9 checked, no problems" in printed(check(tmp_path))


def test_unique_values_of_a_partition_that_is_being_removed(tmp_path: Path) -> None:
    """They are free at once, although the items that had them are removed in steps."""
    lines = [
        b'{"id":"%d","pk":"p","u":%d}' % (number, number)
        for number in range(MAX_IMMEDIATE_REMOVALS + 1)
    ]

    async def scenario() -> None:  # without a sweeper
        async with opened(Settings(data=tmp_path)) as account:
            now = account.clock.now()
            await databases.create(account, {"id": "d"}, None, now)
            key = PARTITION_KEY
            unique = {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/u"]}]}}
            body = {"id": "c", "partitionKey": key} | unique
            container = await containers.create(account, "d", body, None, now)
            stored = await imports.import_items(
                account, container, b"\n".join(lines), imports.ImportOptions(), now
            )
            assert stored.created == MAX_IMMEDIATE_REMOVALS + 1
            await account.stores.items.clear_partition(
                container, 0, canonical(("p",)), NOTHING_EXPIRED
            )
            other = b'{"id":"x","pk":"p","u":7}'
            again = await imports.import_items(
                account, container, other, imports.ImportOptions(), now
            )
            assert again.created == 1

    asyncio.run(scenario())
    text = printed(check(tmp_path))
    assert f"items: {MAX_IMMEDIATE_REMOVALS + 2:,} checked, no problems" in text
    assert f"unique keys: {MAX_IMMEDIATE_REMOVALS + 1:,} checked, no problems" in text
