"""Delete by partition key: all items of one logical partition, and no others, at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from perseid import charges
from perseid.config import Settings
from tests.support.builders import PARTITION_KEY, create_container
from tests.support.figures import physical_ranges, resource_usage
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import serving
from tests.support.stores import Place

KEY = '["a"]'
LARGE = 1200  # more than the server removes in one transaction


def create_each(raw: RawClient, container: str, *bodies: dict[str, Any]) -> list[Reply]:
    replies = [raw.post(f"{container}/docs", body) for body in bodies]
    assert [reply.status for reply in replies] == [201] * len(bodies), replies
    return replies


def create_many(settings: Settings, container: str, count: int, key: str = "a") -> None:
    """Many items under one key, through several connections."""

    def some(first: int) -> None:
        with closing(RawClient(settings.endpoint, settings.key)) as raw:
            for number in range(first, count, 8):
                create_each(
                    raw, container, {"id": f"{number}", "pk": key, "n": number, "u": number}
                )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(some, range(8)))


def listed_ids(raw: RawClient, container: str) -> list[str]:
    """By feed and by query, which must agree."""
    listed = [each["id"] for each in raw.get(f"{container}/docs", count="-1").json["Documents"]]
    queried = raw.query(f"{container}/docs", "SELECT VALUE c.id FROM c", count="-1")
    assert queried.json["Documents"] == listed
    counted = raw.query(f"{container}/docs", "SELECT VALUE COUNT(1) FROM c")
    assert counted.json["Documents"] == [len(listed)]
    return listed


def test_removes_the_partition_and_nothing_else(raw: RawClient, container: str) -> None:
    create_each(raw, container, *({"id": f"{n}", "pk": "a"} for n in range(3)))
    create_each(raw, container, {"id": "0", "pk": "b"}, {"id": "none"}, {"id": "null", "pk": None})
    before = raw.get(f"{container}/docs")
    reply = raw.clear_partition(container, KEY)
    assert (reply.status, reply.body) == (200, b"")
    assert listed_ids(raw, container) == ["0", "none", "null"]
    assert raw.get(f"{container}/docs/1", pk='["a"]').status == 404
    assert resource_usage(raw, container)["documentsCount"] == 3
    assert int(reply.headers["lsn"]) == int(before.headers["lsn"]) + 1
    assert reply.headers["x-ms-session-token"] == f"0:-1#{reply.headers['lsn']}"
    assert reply.headers["x-ms-alt-content-path"] == container.strip("/")
    assert reply.headers["x-ms-documentdb-partitionkeyrangeid"] == "0"


@pytest.mark.parametrize(
    ("pk", "left"),
    [("[{}]", ["null", "one", "true"]), ("[null]", ["none", "one", "true"]),
     ("[1]", ["none", "null", "true"]), ("[true]", ["none", "null", "one"])],
)  # fmt: skip
def test_keys_of_every_type(raw: RawClient, container: str, pk: str, left: list[str]) -> None:
    create_each(raw, container, {"id": "none"}, {"id": "null", "pk": None}, {"id": "one", "pk": 1})
    create_each(raw, container, {"id": "true", "pk": True})
    assert raw.clear_partition(container, pk).status == 200
    assert sorted(listed_ids(raw, container)) == left


def test_an_unknown_key_changes_nothing(raw: RawClient, container: str) -> None:
    create_each(raw, container, {"id": "1", "pk": "a"})
    lsn = raw.get(f"{container}/docs").headers["lsn"]
    reply = raw.clear_partition(container, '["never"]')
    assert (reply.status, reply.headers["lsn"]) == (200, lsn)
    assert reply.headers["x-ms-request-charge"] == "1"
    assert listed_ids(raw, container) == ["1"]


def test_charge_is_that_of_deleting_each(raw: RawClient, container: str) -> None:
    bodies: list[dict[str, Any]] = [
        {"id": "1", "pk": "a"},
        {"id": "2", "pk": "a", "text": "x" * 5000, "more": [1, 2]},
    ]
    create_each(raw, container, *bodies)
    single = [{**body, "pk": "b"} for body in bodies]
    create_each(raw, container, *single)
    alone = [raw.delete(f"{container}/docs/{body['id']}", pk='["b"]') for body in bodies]
    total = sum(float(reply.headers["x-ms-request-charge"]) for reply in alone)
    charged = raw.clear_partition(container, KEY).headers["x-ms-request-charge"]
    assert charged == charges.text(total)


@pytest.mark.parametrize(
    ("pk", "sub_status"),
    [(None, 0), ("", 0), ("a", 0), ("{}", 0), ("[[1]]", 0), ("[]", 1001), ('["a","b"]', 1001)],
)
def test_bad_keys(raw: RawClient, container: str, pk: str | None, sub_status: int) -> None:
    create_each(raw, container, {"id": "1", "pk": "a"})
    path = f"{container}/operations/partitionkeydelete"
    sent = {} if pk is None else {"x-ms-documentdb-partitionkey": pk}
    reply = raw.request("POST", path, headers=sent)
    assert (reply.status, reply.sub_status) == (400, sub_status)
    assert listed_ids(raw, container) == ["1"]


def test_hierarchical_keys_must_be_complete(raw: RawClient, database: str) -> None:
    definition = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    raw.post(f"{database}/colls", {"id": "t", "partitionKey": definition})
    tree = f"{database}/colls/t"
    create_each(raw, tree, {"id": "1", "a": "x", "b": "y"}, {"id": "2", "a": "x", "b": "z"})
    create_each(raw, tree, {"id": "3", "a": "x"})
    prefix = raw.clear_partition(tree, '["x"]')
    assert (prefix.status, prefix.sub_status) == (400, 1001)
    assert raw.clear_partition(tree, '["x","y"]').status == 200
    assert listed_ids(raw, tree) == ["2", "3"]
    assert raw.clear_partition(tree, '["x",{}]').status == 200
    assert listed_ids(raw, tree) == ["2"]


def test_only_this_operation_is_known(raw: RawClient, container: str) -> None:
    assert raw.post(f"{container}/operations/other", {}).status == 404
    assert raw.get(f"{container}/operations/partitionkeydelete").status == 405
    missing = raw.clear_partition(f"{container}-missing", KEY)
    assert (missing.status, missing.sub_status) == (404, 1003)
    stale = raw.clear_partition(
        container, KEY, **{"x-ms-cosmos-intended-collection-rid": "AAAAAA=="}
    )
    assert (stale.status, stale.sub_status) == (400, 1024)


def test_other_ranges_do_not_move(raw: RawClient, database: str) -> None:
    body = {"id": "wide", "partitionKey": PARTITION_KEY}
    raw.post(f"{database}/colls", body, throughput="18000")
    wide = f"{database}/colls/wide"
    replies = create_each(raw, wide, *({"id": "i", "pk": f"k{n}"} for n in range(20)))
    tokens = {reply.headers["x-ms-session-token"].partition(":")[0] for reply in replies}
    assert len(tokens) > 1
    before = physical_ranges(raw, wide)
    own = raw.clear_partition(wide, '["k7"]').headers["x-ms-documentdb-partitionkeyrangeid"]
    after = physical_ranges(raw, wide)
    moved = [
        new["id"] for old, new in zip(before, after, strict=True) if old["_lsn"] != new["_lsn"]
    ]
    assert moved == [own]
    assert len(listed_ids(raw, wide)) == 19


@pytest.fixture
def unique(raw: RawClient, database: str) -> str:
    """A container whose items have a unique `u` in their partition."""
    policy = {"uniqueKeys": [{"paths": ["/u"]}]}
    return create_container(raw, database, "unique", uniqueKeyPolicy=policy)


@pytest.mark.parametrize("count", [5, LARGE])
def test_ids_and_unique_keys_are_free_at_once(
    raw: RawClient, settings: Settings, unique: str, count: int
) -> None:
    """Whether the items are removed in one go or hidden first."""
    create_many(settings, unique, count)
    assert raw.clear_partition(unique, KEY).status == 200
    assert listed_ids(raw, unique) == []
    usage = resource_usage(raw, unique)
    assert (usage["documentsCount"], usage["documentsSize"]) == (0, 0)
    create_each(raw, unique, {"id": "0", "pk": "a", "u": 1}, {"id": "other", "pk": "a", "u": 2})
    taken = raw.post(f"{unique}/docs", {"id": "third", "pk": "a", "u": 2})
    assert taken.status == 409
    replaced = raw.put(f"{unique}/docs/other", {"id": "3", "pk": "a", "u": 3}, pk='["a"]')
    assert replaced.status == 200
    assert listed_ids(raw, unique) == ["0", "3"]
    assert raw.post("/_perseid/ttl/drain", {}).status == 200  # what was hidden is removed now
    assert listed_ids(raw, unique) == ["0", "3"]
    assert resource_usage(raw, unique)["documentsCount"] == 2
    assert raw.post(f"{unique}/docs", {"id": "third", "pk": "a", "u": 3}).status == 409


def test_a_large_partition_clears_as_a_small_one_does(
    raw: RawClient, settings: Settings, container: str
) -> None:
    create_many(settings, container, LARGE)
    create_each(raw, container, {"id": "kept", "pk": "b"})
    (stored,) = raw.query(
        f"{container}/docs", "SELECT * FROM c WHERE c.id = '7' AND c.pk = 'a'"
    ).json["Documents"]
    lsn = int(raw.get(f"{container}/docs").headers["lsn"])
    page = raw.get(f"{container}/docs", count="100")
    reply = raw.clear_partition(container, KEY)
    assert (reply.status, int(reply.headers["lsn"])) == (200, lsn + 1)
    # Each item is small and has three index terms.
    assert reply.headers["x-ms-request-charge"] == charges.text(LARGE * charges.delete(500, 3))
    assert listed_ids(raw, container) == ["kept"]
    assert raw.get(f"{container}/docs/7", pk='["a"]').status == 404
    assert raw.get(f"/{stored['_self']}", pk='["a"]').status == 404
    following = raw.get(
        f"{container}/docs", count="100", continuation=page.headers["x-ms-continuation"]
    )
    assert [each["id"] for each in following.json["Documents"]] == ["kept"]
    # Once more, with some that came since.
    create_each(raw, container, {"id": "7", "pk": "a"})
    assert raw.get(f"{container}/docs/7", pk='["a"]').status == 200
    assert raw.clear_partition(container, KEY).status == 200
    assert listed_ids(raw, container) == ["kept"]
    assert int(raw.clear_partition(container, KEY).headers["lsn"]) == lsn + 3


def test_a_container_with_a_cleared_partition_can_be_deleted(
    raw: RawClient, settings: Settings, container: str
) -> None:
    create_many(settings, container, LARGE)
    assert raw.clear_partition(container, KEY).status == 200
    assert raw.delete(container).status == 204
    assert raw.post("/_perseid/ttl/drain", {}).status == 200
    body = {"id": "c", "partitionKey": PARTITION_KEY}
    assert raw.post(container.removesuffix("/c"), body).status == 201
    create_each(raw, container, {"id": "7", "pk": "a"})
    assert listed_ids(raw, container) == ["7"]


def indexed_answers(raw: RawClient, container: str) -> list[Any]:
    """To queries that go through indexes: by value, in order, counted, grouped."""
    return [
        raw.query(f"{container}/docs", text).json["Documents"]
        for text in (
            "SELECT VALUE c.id FROM c WHERE c.n = 7",
            "SELECT TOP 10 VALUE c.id FROM c WHERE c.n >= 0 ORDER BY c.n DESC",
            "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 0",
            "SELECT c.u, COUNT(1) AS times FROM c WHERE c.n < 20 GROUP BY c.u",
        )
    ]


def test_a_cleared_partition_stays_cleared_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    container = "/dbs/d/colls/c"
    with running(settings) as found, closing(RawClient(found.endpoint, found.key)) as raw:
        raw.post("/dbs", {"id": "d"})
        raw.post("/dbs/d/colls", {"id": "c", "partitionKey": PARTITION_KEY})
        create_many(found, container, LARGE)
        create_each(raw, container, {"id": "kept", "pk": "b"})
        full = indexed_answers(raw, container)
        assert full[0] == ["7"]
        assert len(full[1]) == 10
        assert full[2] == [LARGE]
        assert raw.clear_partition(container, KEY).status == 200
        # They lie on disk, and in the indexes over properties that were just made.
        assert indexed_answers(raw, container) == [[], [], [0], []]
        create_each(raw, container, {"id": "7", "pk": "a"})
    for _ in range(2):
        with serving(settings) as raw:
            assert listed_ids(raw, container) == ["kept", "7"]
            assert resource_usage(raw, container)["documentsCount"] == 2
            raw.post("/_perseid/ttl/drain", {})
            assert listed_ids(raw, container) == ["kept", "7"]
            assert resource_usage(raw, container)["documentsCount"] == 2


def test_others_go_on_while_a_large_partition_is_cleared(
    raw: RawClient, settings: Settings, container: str
) -> None:
    """No page ever shows a part of it."""
    create_many(settings, container, LARGE)

    def watch(_: int) -> set[int]:
        with closing(RawClient(settings.endpoint, settings.key)) as client:
            return {
                client.get(f"{container}/docs", pk='["a"]', count="2000").json["_count"]
                for _ in range(40)
            }

    def write(worker: int) -> None:
        with closing(RawClient(settings.endpoint, settings.key)) as client:
            for turn in range(20):
                create_each(client, container, {"id": f"w{worker}-{turn}", "pk": "b"})

    with ThreadPoolExecutor(4) as pool:
        watchers = [pool.submit(watch, number) for number in range(2)]
        writers = [pool.submit(write, number) for number in range(2)]
        assert raw.clear_partition(container, KEY).status == 200
        for writer in writers:
            writer.result()
        for watcher in watchers:
            assert watcher.result() <= {LARGE, 0}
    assert len(listed_ids(raw, container)) == 40
