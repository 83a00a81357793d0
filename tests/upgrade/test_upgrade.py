"""A present server on data that an earlier release has written."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import psycopg
import pytest
from click.testing import CliRunner

from perseid.commands.cli import main
from perseid.config import Settings
from perseid.store.postgres import migrations as postgres_migrations
from perseid.store.sql import computed_ranges
from perseid.store.sqlite import migrations
from tests.support.raw import RawClient
from tests.support.running import running
from tests.upgrade.stored import (
    DATABASE_FILE,
    NOW,
    Opened,
    Stored,
    opened,
    postgresql,
    sqlite,
)

LAYOUTS = {
    "sqlite-layout-6": sqlite,
    "sqlite-layout-8": sqlite,
    "postgres-layout-1": postgresql,
    "postgres-layout-2": postgresql,
}
WITH_COMPUTED_BOUNDS = ["sqlite-layout-8", "postgres-layout-2"]  # they store a number of ranges
# Names that the admin API gives to what is stored; the stored names may differ.
EXPIRING, NON_EXPIRING, PENDING = "expiring", "nonExpiring", "pendingPurge"
EXPIRED_AT_ONCE, RESTORED, PURGED = "expiredImmediately", "restored", "alreadyPurged"
ALL_VERSIONS, LATEST = "Full-Fidelity Feed", "Incremental Feed"
# Numbers of containers, as their tables or rows have them.
DROPPED, LOG, UNIQUE, CLEARED = 4, 9, 10, 12


def params(names: Iterable[str]) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.only_on(name.split("-")[0], reason="is its data"))
        for name in names
    ]


EACH_LAYOUT = params(LAYOUTS)


@pytest.fixture(params=EACH_LAYOUT)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with LAYOUTS[request.param](request.param, tmp_path) as copy:
        yield copy


@pytest.fixture
def server(stored: Stored) -> Iterator[Opened]:
    with opened(stored) as running_server:
        yield running_server


@pytest.fixture(scope="module", params=EACH_LAYOUT)
def reader(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """A server that tests share which change nothing."""
    folder = tmp_path_factory.mktemp("reader")
    with LAYOUTS[request.param](request.param, folder) as copy, opened(copy) as running_server:
        yield running_server


# Items


@pytest.mark.parametrize(
    ("container", "live", "expired"),
    [
        (
            "off",
            {"old-inherits", "old-own", "old-long", "old-never"}
            | {"new-inherits", "new-own", "new-never"},
            set(),
        ),
        (
            "on",
            {"old-inherits", "old-long", "old-never", "new-inherits", "new-own", "new-never"},
            {"old-own"},
        ),
        (
            "default",
            {"old-long", "old-never", "new-inherits", "new-own", "new-never"},
            {"old-inherits", "old-own"},
        ),
        ("undo", {"young", "again", "never"}, {"final", "restored", "both", "own"}),
        ("undone", {"x"}, set()),
        ("ranges", {"r0", "r1", "r2", "r3", "r4", "r5", "later"}, set()),
    ],
)
def test_live_items_are_read_and_expired_ones_are_not(
    reader: Opened, container: str, live: set[str], expired: set[str]
) -> None:
    assert reader.ids(container) == live
    if container != "ranges":  # each of its items has a partition key of its own
        assert {id_ for id_ in live if reader.read(container, id_).status == 200} == live
        assert {reader.read(container, id_).status for id_ in expired} <= {404}


def test_items_go_on_to_expire_at_their_second(server: Opened) -> None:
    assert server.read("default", "new-own").status == 200
    server.clock.set(NOW - 10 + 60)  # it was written ten seconds before the old server stopped
    assert server.read("default", "new-own").status == 404
    server.clock.set(NOW - 10 + 99)
    assert server.read("default", "new-inherits").status == 200
    server.clock.advance(1)
    assert server.read("default", "new-inherits").status == 404
    assert server.ids("default") == {"old-long", "old-never", "new-never"}


def test_an_old_etag_still_matches(server: Opened) -> None:
    etag = server.given["default_etag"]
    reply = server.read("default", "new-never")
    assert (reply.headers["etag"], reply.json["n"], reply.json["ttl"]) == (etag, 14, -1)
    body, path = {"id": "new-never", "pk": "a", "n": 15}, "/dbs/d/colls/default/docs/new-never"
    assert server.raw.put(path, body, pk='["a"]', if_match=etag).status == 200
    assert server.raw.put(path, body, pk='["a"]', if_match=etag).status == 412


def test_queries_use_old_continuations_and_indexes(reader: Opened) -> None:
    path = "/dbs/d/colls/default/docs"
    rest = reader.raw.query(
        path,
        "SELECT VALUE c.id FROM c WHERE c.n >= 3",
        continuation=reader.given["query_continuation"],
        count="-1",
    )
    assert rest.json["Documents"] == ["new-inherits", "new-own", "new-never"]
    sorted_ids = reader.raw.query(path, "SELECT VALUE c.id FROM c WHERE c.n > 3 ORDER BY c.n DESC")
    assert sorted_ids.json["Documents"] == ["new-never", "new-own", "new-inherits", "old-never"]


def test_session_tokens_and_lsns_go_on(server: Opened) -> None:
    given = server.given
    reply = server.read("default", "new-never", session=given["default_session"])
    assert (reply.status, reply.headers["lsn"]) == (200, "20")
    ahead = server.read("default", "new-never", session="0:-1#21")
    assert (ahead.status, ahead.sub_status) == (404, 1002)
    assert server.create("default", "next") == 201
    assert server.read("default", "next", session="0:-1#21").status == 200
    assert server.raw.get("/dbs/d/colls/ranges/docs", session=given["ranges_session"]).status == 200


def test_lsns_of_a_dropped_container_are_not_used_again(server: Opened) -> None:
    key = {"paths": ["/pk"], "kind": "Hash", "version": 2}
    body = {"id": "dropped", "partitionKey": key}
    assert server.raw.post("/dbs/d/colls", body).status == 201
    reply = server.raw.get("/dbs/d/colls/dropped/docs", session=server.given["dropped_session"])
    assert (reply.status, reply.headers["lsn"]) == (200, "12")


def test_unique_keys_are_enforced(server: Opened) -> None:
    assert server.create("unique", "1", email="taken@example.com") == 409
    assert server.create("unique", "2", email="for@ever") == 409
    assert server.create("unique", "3", email="free@example.com") == 201  # expired, not purged
    assert server.create("unique", "4", "big", email="h3@example.com") == 409
    assert server.create("unique", "5", "big", email="h4@example.com") == 201  # hidden
    assert server.ids("unique") == {"live", "forever", "takes", "3", "5"}


# Cleared partitions and purging


def test_a_cleared_partition_is_empty_and_purged_later(stored: Stored) -> None:
    has_hidden = stored.settings.store is None  # PostgreSQL deletes the items in the request
    counts = {CLEARED: 9, LOG: 9, UNIQUE: 11} if has_hidden else {CLEARED: 3, LOG: 3, UNIQUE: 4}
    assert {number: stored.count_items(number) for number in counts} == counts
    with opened(stored) as server:
        assert server.ids("cleared", "big") == {"c0", "c1"}
        assert {server.read("cleared", id_, "big").json["n"] for id_ in ("c0", "c1")} == {20, 21}
        assert server.read("cleared", "c2", "big").status == 404
        assert server.ids("log", "big") == {"big1"}
        assert server.ids("unique", "big") == {"takes"}
        purged = server.drain()["containers"]
        assert purged == {
            "dbs/d/colls/on": 1,
            "dbs/d/colls/default": 2,
            "dbs/d/colls/undo": 1,  # the others are on hold
            "dbs/d/colls/log": 1,
            "dbs/d/colls/unique": 1,
            "dbs/d/colls/cleared": 1,
        }
        assert server.ids("cleared") == {"c0", "c1"}
    counts = {CLEARED: 2, LOG: 2, UNIQUE: 3}
    assert {number: stored.count_items(number) for number in counts} == counts


@pytest.mark.parametrize("stored", ["postgres-layout-1"], indirect=True)
@pytest.mark.only_on("postgres", reason="SQLite drops the tables with the container")
def test_items_of_a_dropped_container_are_purged_later(stored: Stored) -> None:
    assert stored.count_items(DROPPED) == 12
    with opened(stored) as server:
        server.drain()
    assert stored.count_items(DROPPED) == 0


def test_status_counts_what_is_stored(reader: Opened) -> None:
    # container: live, expiring, pending purge, purged, changes of the policy, next expiry
    expected = {
        "off": (7, 0, 0, 0, 0, None),
        "on": (6, 2, 1, 0, 0, NOW + 50),
        "default": (5, 3, 2, 0, 0, NOW + 50),
        "undo": (3, 2, 4, 3, 3, NOW + 20),
        "log": (2, 2, 1, 2, 0, NOW + 1790),
        "unique": (3, 2, 1, 0, 0, NOW + 900),
        "ranges": (7, 7, 0, 0, 0, NOW + 900),
        "cleared": (2, 0, 1, 8, 1, None),
        "undone": (1, 1, 0, 0, 1, NOW + 480),
    }
    for container, figures in expected.items():
        status = reader.admin("GET", f"ttl/d/{container}")
        live, expiring = status["live"]["items"], status[EXPIRING]["items"]
        assert status[NON_EXPIRING]["items"] == live - expiring
        assert figures == (
            live,
            expiring,
            status[PENDING]["items"],
            status["purgedTotal"],
            status["policyChanges"],
            status["nextExpiry"],
        ), container


# Policy changes


def test_undo_restores_what_the_last_change_expired(server: Opened) -> None:
    done = server.admin("POST", "ttl/d/undo/undo", {})
    assert (done["defaultTtl"], done[RESTORED]["items"], done[PURGED]) == (1000, 2, 1)
    # `own` expired by its own ttl, `final` under the policy before.
    assert server.ids("undo") == {"young", "again", "never", "restored", "both"}
    assert server.read("undo", "again").json["new"] is True
    again = server.raw.post("/_perseid/ttl/d/undo/undo", {})
    assert again.status == 409


def test_the_age_at_which_items_expired_is_kept(server: Opened) -> None:
    """`final` expired when it was 20 seconds old, before the two last changes of the policy."""
    expired_at = NOW - 215
    for step in ("explain", "undo", "explain"):
        body = {"id": "final", "partitionKey": ["a"]} if step == "explain" else {}
        answer = server.admin("POST", f"ttl/d/undo/{step}", body)
        if step == "explain":
            assert (answer["live"], answer["expiresAt"]) == (False, expired_at)
            assert server.admin("GET", "ttl/d/undo")["purgeLagSeconds"] == 215


def test_a_purge_hold_still_holds(server: Opened) -> None:
    status = server.admin("GET", "ttl/d/undo")
    assert (status["purgeHoldSeconds"], status["guard"]) == (864_000, "50%")
    server.drain("d/undo/")
    done = server.admin("POST", "ttl/d/undo/undo", {})
    assert (done[RESTORED]["items"], done[PURGED]) == (2, 1)


def test_undo_counts_what_a_cleared_partition_has_lost(server: Opened) -> None:
    done = server.admin("POST", "ttl/d/cleared/undo", {})
    assert (done["defaultTtl"], done[RESTORED]["items"], done[PURGED]) == (-1, 1, 7)
    assert server.ids("cleared") == {"c0", "c1", "stays"}


def test_the_guard_of_the_container_still_holds(reader: Opened) -> None:
    body = reader.raw.get("/dbs/d/colls/undo").json | {"defaultTtl": 1}
    assert reader.raw.put("/dbs/d/colls/undo", body).status == 412


def test_the_audit_log_lists_old_entries(server: Opened) -> None:
    entries = server.admin("GET", "ttl/audit")["entries"]
    assert [(each["event"], each["ts"], each["container"]) for each in entries] == [
        ("policy", NOW - 265, "dbs/d/colls/undo"),
        ("counts", NOW - 265, "dbs/d/colls/undo"),
        ("policy", NOW - 210, "dbs/d/colls/undo"),
        ("counts", NOW - 210, "dbs/d/colls/undo"),
        ("settings", NOW - 210, "dbs/d/colls/undo"),
        ("policy", NOW - 70, "dbs/d/colls/cleared"),
        ("counts", NOW - 70, "dbs/d/colls/cleared"),
        ("policy", NOW - 20, "dbs/d/colls/undo"),
        ("counts", NOW - 20, "dbs/d/colls/undo"),
        ("policy", NOW - 10, "dbs/d/colls/undone"),
        ("counts", NOW - 10, "dbs/d/colls/undone"),
        ("undo", NOW - 10, "dbs/d/colls/undone"),
    ]
    lines = [each["line"] for each in entries]
    assert lines == sorted(set(lines))
    assert {each["caller"] for each in entries} == {"primary"}
    figures = [each[EXPIRED_AT_ONCE] for each in entries if each["event"] == "counts"]
    assert [(each["items"], each["bytes"]) for each in figures] == [
        (0, 0),
        (0, 0),
        (8, 1869),
        (3, 686),
        (1, 224),
    ]
    settings, undone = entries[4], entries[-1]
    assert (settings["purgeHoldSeconds"], settings["guard"]) == (864_000, "50%")
    assert undone["defaultTtl"] == {"old": 5, "new": 500}
    assert (undone["restored"], undone[PURGED]) == ({"items": 1, "bytes": 224}, 0)
    server.admin("POST", "ttl/d/undo/undo", {})
    newer = server.admin("GET", "ttl/audit")["entries"][len(entries) :]
    assert [each["event"] for each in newer] == ["undo"]


# The change feed


def operations(changes: list[Any]) -> list[tuple[str, str, bool]]:
    return [
        (
            change["metadata"]["operationType"],
            change["current"].get("id") or change["metadata"]["id"],
            change["metadata"].get("timeToLiveExpired", False),
        )
        for change in changes
    ]


def test_all_versions_go_on_from_old_positions(server: Opened) -> None:
    before = [
        ("create", "kept", False),
        ("replace", "kept", False),
        ("create", "deleted", False),
        ("delete", "deleted", False),
        ("create", "expires", False),
    ]
    after = [
        ("delete", "expires", True),
        *(("create", f"big{n}", False) for n in range(7)),
        ("delete", "big0", True),
        *(("delete", f"big{n}", False) for n in range(1, 7)),
        ("create", "big1", False),
        ("create", "waits", False),
    ]
    given = server.given
    assert operations(server.changes("log", ALL_VERSIONS, given["log_start"])[0]) == before + after
    assert operations(server.changes("log", ALL_VERSIONS, given["log_middle"])[0]) == after
    assert server.changes("log", ALL_VERSIONS, given["log_end"])[0] == []
    # Nothing that was logged with its partition is logged again when it is purged.
    server.drain()
    assert server.create("log", "new") == 201
    newest, _ = server.changes("log", ALL_VERSIONS, given["log_end"])
    assert operations(newest) == [("delete", "waits", True), ("create", "new", False)]


def test_latest_versions_go_on_from_old_positions(reader: Opened) -> None:
    changed, _ = reader.changes("log", LATEST, reader.given["log_latest_middle"])
    assert [each["id"] for each in changed] == ["big1"]
    changed, _ = reader.changes("ranges", LATEST, reader.given["ranges_latest"])
    assert [each["id"] for each in changed] == ["later"]


# Physical ranges


@pytest.mark.parametrize("reader", params(WITH_COMPUTED_BOUNDS), indirect=True)
@pytest.mark.parametrize("container", ["v1", "v2", "levels"])
def test_ranges_keep_their_bounds_and_items(reader: Opened, container: str) -> None:
    """They were computed from the number of ranges, by another formula than that of today."""
    path = f"/dbs/laid/colls/{container}"
    ranges = reader.raw.get(f"{path}/pkranges").json["PartitionKeyRanges"]
    assert " ".join(each["maxExclusive"] for each in ranges) == reader.given[f"bounds_{container}"]
    assert [each["id"] for each in ranges] == [str(n) for n in range(len(ranges))]
    assert [each["minInclusive"] for each in ranges] == [
        "",
        *(each["maxExclusive"] for each in ranges[:-1]),
    ]
    assert {tuple(each["parents"]) for each in ranges} == {()}
    counts = [reader.raw.get(f"{path}/docs", range=each["id"]).json["_count"] for each in ranges]
    assert " ".join(map(str, counts)) == reader.given[f"items_{container}"]
    for number in range(12):
        key = [f"k{number}", "b"] if container == "levels" else [f"k{number}"]
        reply = reader.raw.get(
            f"{path}/docs/i{number}",
            pk=json.dumps(key),
            session=reader.given[f"session_{container}"],
        )
        assert (reply.status, reply.json["pk"]) == (200, f"k{number}")


@pytest.mark.parametrize("stored", params(WITH_COMPUTED_BOUNDS), indirect=True)
def test_bounds_survive_a_replace_and_a_restart(stored: Stored) -> None:
    path = "/dbs/laid/colls/v2"
    with opened(stored) as server:
        body = server.raw.get(path).json | {"defaultTtl": 5000}
        assert server.raw.put(path, body).status == 200
    with opened(stored) as server:
        ranges = server.raw.get(f"{path}/pkranges").json["PartitionKeyRanges"]
        assert " ".join(each["maxExclusive"] for each in ranges) == stored.given["bounds_v2"]
        assert server.raw.get(f"{path}/docs").json["_count"] == 12


# Everything else that belongs to an account


def test_users_permissions_and_tokens(reader: Opened) -> None:
    permission = reader.raw.get("/dbs/d/users/u/permissions/p").json
    assert (permission["permissionMode"], permission["resource"]) == ("Read", "dbs/d/colls/default")
    token = reader.given["resource_token"]
    assert reader.raw.request("GET", "/dbs/d/colls/default", token=token).status == 200
    assert reader.raw.request("DELETE", "/dbs/d/colls/default", token=token).status == 403


@pytest.mark.parametrize(
    ("kind", "id_", "member", "value"),
    [
        ("sprocs", "s", "body", "function () { return 1; }"),
        ("triggers", "t", "triggerOperation", "CREATE"),
        ("udfs", "f", "body", "function (x) { return x; }"),
    ],
)
def test_stored_scripts(reader: Opened, kind: str, id_: str, member: str, value: str) -> None:
    reply = reader.raw.get(f"/dbs/d/colls/default/{kind}/{id_}")
    assert (reply.status, reply.json[member]) == (200, value)


def test_offers(reader: Opened) -> None:
    later = reader.raw.get("/dbs/laid").json.get("_rid", "none")  # has offers of its own
    offers = [
        each
        for each in reader.raw.get("/offers").json["Offers"]
        if not each["resource"].startswith(f"dbs/{later}/")
    ]
    contents = sorted(json.dumps(each["content"], sort_keys=True) for each in offers)
    assert len(contents) == 11
    assert sum("offerAutopilotSettings" in text for text in contents) == 1
    throughputs = [json.loads(text)["offerThroughput"] for text in contents]
    assert sorted(throughputs) == [400] * 10 + [20_000]


def test_seeds_that_were_deleted_stay_deleted(reader: Opened) -> None:
    reply = reader.raw.get("/dbs/start/colls/seeds/docs")
    assert [each["id"] for each in reply.json["Documents"]] == ["one"]


def test_the_clock_does_not_go_back(stored: Stored) -> None:
    with opened(stored, at=NOW - 1000) as server:
        assert server.admin("GET", "clock")["now"] == NOW
        assert server.read("default", "old-own").status == 404


def test_the_clock_alarm_is_kept_until_it_is_confirmed(stored: Stored) -> None:
    with opened(stored) as server:
        assert "4000 seconds" in server.admin("GET", "sweeper")["alarm"]
        assert server.admin("POST", "sweeper/confirm-clock", {})["alarm"] is None
    with opened(stored) as server:
        assert server.admin("GET", "sweeper")["alarm"] is None


def test_a_restart_finds_the_same_data(stored: Stored) -> None:
    """The data is brought to the present layout once."""
    for _ in range(2):
        with opened(stored) as server:
            assert server.ids("cleared") == {"c0", "c1"}
            assert server.ids("undo") == {"young", "again", "never"}
    with opened(stored) as server:
        assert server.admin("POST", "ttl/d/undo/undo", {})[RESTORED]["items"] == 2


# The file itself

on_sqlite = pytest.mark.parametrize(
    "stored", [name for name in LAYOUTS if name.startswith("sqlite")], indirect=True
)
only_sqlite = pytest.mark.only_on("sqlite", reason="is about the file")


def assert_sound(directory: Path) -> None:
    result = CliRunner().invoke(main, ["check", str(directory)])
    assert result.exit_code == 0, result.output


@on_sqlite
@only_sqlite
def test_the_directory_is_sound_before_and_after(stored: Stored) -> None:
    """`perseid check` reads directories that no present server has opened yet."""
    assert_sound(stored.settings.data)
    with opened(stored):
        assert_sound(stored.settings.data)
    assert_sound(stored.settings.data)
    with opened(stored) as server:
        server.drain()
        server.admin("POST", "ttl/d/undo/undo", {})
    assert_sound(stored.settings.data)


def shape(directory: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """The tables, indexes and views of a file with their columns, for any container's number."""
    with contextlib.closing(apsw.Connection(str(directory / DATABASE_FILE))) as db:
        objects = db.execute(
            "SELECT type, name FROM sqlite_schema WHERE name NOT LIKE '%\\_by\\_%' ESCAPE '\\'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        ).fetchall()
        return {
            (str(kind), re.sub(r"_\d+", "_N", str(name))): tuple(
                str(column[2 if kind == "index" else 1])
                for column in db.execute(
                    f"PRAGMA {'index' if kind == 'index' else 'table'}_info({name})"
                )
            )
            for kind, name in objects
        }


@on_sqlite
@only_sqlite
def test_an_old_file_gets_the_layout_of_a_new_one(stored: Stored, tmp_path: Path) -> None:
    with opened(stored):
        pass
    with running(Settings(data=tmp_path / "new", durability="off")) as settings:
        raw = RawClient(settings.endpoint)
        assert raw.post("/dbs", {"id": "d"}).status == 201
        key = {"paths": ["/pk"], "kind": "Hash", "version": 2}
        body = {"id": "c", "partitionKey": key, "changeFeedPolicy": {"retentionDuration": 60}}
        assert raw.post("/dbs/d/colls", body).status == 201
        raw.close()
    assert shape(stored.settings.data) == shape(tmp_path / "new")


@pytest.mark.parametrize(
    "stored", [name for name in LAYOUTS if name.startswith("postgres")], indirect=True
)
@pytest.mark.only_on("postgres", reason="is about its statistics")
def test_statistics_of_single_ranges_are_gone(stored: Stored) -> None:
    """They would stay as they are, and mislead the planner about newer ranges."""
    assert stored.settings.store is not None
    sql = (
        "SELECT tablename FROM pg_stats WHERE schemaname = 'perseid' AND attname = 'part'"
        " AND tablename IN ('items', 'entries', 'log') ORDER BY 1"
    )
    with psycopg.connect(stored.settings.store, autocommit=True) as db:
        db.execute("ANALYZE")
        assert db.execute(sql).fetchall() == [("entries",), ("items",), ("log",)]
        with opened(stored):
            pass
        assert db.execute(sql).fetchall() == []
        db.execute("ANALYZE")
        assert db.execute(sql).fetchall() == []


@pytest.mark.parametrize("module", [migrations, postgres_migrations, computed_ranges])
def test_migrations_use_no_present_code(module: ModuleType) -> None:
    """What an old step does must not change with the code that uses the present layout."""
    tree = ast.parse(inspect.getsource(module))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    frozen = {"perseid.store.sql.computed_ranges"}
    assert imported - frozen <= {
        "__future__", "collections.abc", "orjson", "struct", "typing", "apsw", "psycopg",
    }  # fmt: skip
