"""The change feed on the wire: modes, starting points, scopes, positions, pages, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY, create_container
from tests.support.change_feed import ALL_VERSIONS, LATEST, operations_of
from tests.support.figures import physical_ranges
from tests.support.operations import codes, create, patch, upsert
from tests.support.raw import RawClient, Reply
from tests.support.servers import serving
from tests.support.stores import Place

OUTSIDE = "You must read the change feed from within the retention period."
FOUR_RANGES = "40000"


class Box:
    """A container and the ways to read its changes."""

    def __init__(self, raw: RawClient, path: str) -> None:
        self.raw = raw
        self.path = path
        self.docs = f"{path}/docs"
        # Numbers go on from those of containers that were dropped before.
        self.base = min(int(part["_lsn"]) for part in physical_ranges(self.raw, self.path))

    def lsn(self, count: int) -> int:
        """The number of a range's transaction, counted from one."""
        return self.base + count

    def etag(self, count: int) -> str:
        return f'"{self.lsn(count)}"'

    def put(self, id_: str, pk: str = "a", **rest: Any) -> dict[str, Any]:
        body = {"id": id_, "pk": pk, **rest}
        reply = self.raw.post(self.docs, body, pk=json.dumps([pk]), upsert="true")
        assert reply.status in (200, 201), reply
        stored: dict[str, Any] = reply.json
        return stored

    def delete(self, id_: str, pk: str = "a") -> None:
        assert self.raw.delete(f"{self.docs}/{id_}", pk=json.dumps([pk])).status == 204

    def get(self, headers: dict[str, str], etag: str | None = None, **more: str) -> Reply:
        sent = headers | {name.replace("_", "-"): value for name, value in more.items()}
        if etag is not None:
            sent["If-None-Match"] = etag
        reply = self.raw.request("GET", self.docs, headers=sent)
        if reply.status in (200, 304):
            assert reply.headers["etag"]
            assert "x-ms-continuation" not in reply.headers
            assert float(reply.headers["x-ms-request-charge"]) >= 1
        if reply.status == 200:
            documents = reply.json["Documents"]
            assert reply.json["_count"] == len(documents) > 0
            assert reply.headers["x-ms-item-count"] == str(len(documents))
        if reply.status == 304:
            assert reply.body == b""
        return reply

    def now(self, headers: dict[str, str] = LATEST, **more: str) -> str:
        """The etag of this moment."""
        reply = self.get(headers, "*", **more)
        assert reply.status == 304
        return reply.headers["etag"]

    def drain(
        self, headers: dict[str, str] = LATEST, etag: str | None = None, **more: str
    ) -> tuple[list[Any], str]:
        """Everything up to the 304, and its etag."""
        found: list[Any] = []
        while (reply := self.get(headers, etag, **more)).status == 200:
            found += reply.json["Documents"]
            etag = reply.headers["etag"]
        assert reply.status == 304, reply
        return found, reply.headers["etag"]

    def ids(self, etag: str | None = None, **more: str) -> list[str]:
        return [document["id"] for document in self.drain(LATEST, etag, **more)[0]]


def make_box(raw: RawClient, database: str, name: str = "c", **rest: Any) -> Box:
    throughput = rest.pop("throughput", None)
    key = rest.pop("key", PARTITION_KEY)
    headers = {"throughput": throughput} if throughput else {}
    path = create_container(raw, database, name, headers=headers, partitionKey=key, **rest)
    return Box(raw, path)


@pytest.fixture
def box(raw: RawClient, database: str) -> Box:
    """One range, latest versions only."""
    return make_box(raw, database)


@pytest.fixture
def all_versions(raw: RawClient, database: str) -> Box:
    """One range that keeps all versions for ten minutes."""
    return make_box(raw, database, "kept", changeFeedPolicy={"retentionDuration": 10})


@pytest.fixture
def wide(raw: RawClient, database: str) -> Box:
    """Four ranges."""
    return make_box(
        raw, database, "wide", throughput=FOUR_RANGES, changeFeedPolicy={"retentionDuration": 10}
    )


def fields(documents: list[Any], *names: str) -> list[Any]:
    return [tuple(document.get(name) for name in names) for document in documents]


# Latest versions


def test_items_in_the_order_of_their_last_writes(box: Box) -> None:
    for id_ in ("one", "two", "three"):
        box.put(id_)
    stored = box.put("one", v=2)
    documents, etag = box.drain()
    assert fields(documents, "id", "v", "_lsn") == [
        ("two", None, box.lsn(2)),
        ("three", None, box.lsn(3)),
        ("one", 2, box.lsn(4)),
    ]
    assert documents[-1] == stored | {"_lsn": box.lsn(4)}
    assert etag == box.etag(4)


def test_items_of_a_batch_in_the_order_of_its_operations(box: Box) -> None:
    """Whatever their lifetimes, and whether they are new."""
    box.put("old")
    start = box.now()
    operations = [create("c", ttl=9), upsert("a"), create("b", ttl=-1), upsert("old", ttl=5)]
    operations.append(patch("a", {"op": "set", "path": "/n", "value": 1}))
    reply = box.raw.batch(box.path, operations, pk='["a"]')
    assert codes(reply) == [201, 201, 201, 200, 200]
    shown = box.get(LATEST, start).json["Documents"]
    assert [document["id"] for document in shown] == ["c", "b", "old", "a"]


def test_an_empty_container_has_nothing_and_a_position(box: Box) -> None:
    reply = box.get(LATEST)
    assert (reply.status, reply.headers["etag"]) == (304, box.etag(0))


def test_records_with_metadata(box: Box, frozen: MovableClock) -> None:
    """Latest versions in the format of all versions, which the processors of some clients read."""
    versioned = LATEST | {"x-ms-cosmos-changefeed-wire-format-version": "2021-09-15"}
    assert box.get(versioned).status == 304
    first = box.put("x", n=1)
    frozen.advance(5)
    second = box.put("y", n=2)
    records, etag = box.drain(versioned, x_ms_max_item_count="1")
    assert records == [
        {
            "current": stored | {"_lsn": box.lsn(count)},
            "metadata": {"lsn": box.lsn(count), "crts": stored["_ts"]},
        }
        for count, stored in ((1, first), (2, second))
    ]
    assert etag == box.etag(2)
    assert box.get(versioned, etag).status == 304
    # other versions of the format, and none, give items as they are
    for headers in (LATEST, versioned | {"x-ms-cosmos-changefeed-wire-format-version": "1"}):
        assert [record["id"] for record in box.drain(headers)[0]] == ["x", "y"]


def test_from_now(box: Box) -> None:
    box.put("before")
    etag = box.now()
    assert box.ids(etag) == []
    box.put("after")
    assert box.ids(etag) == ["after"]


@pytest.mark.parametrize("form", ['"{}"', "{}"])
def test_etags_come_back_with_quotes_or_without(box: Box, form: str) -> None:
    box.put("one")
    box.put("two")
    assert box.ids(form.format(box.lsn(1))) == ["two"]


def test_deleted_items_vanish(box: Box) -> None:
    box.put("one")
    box.put("two")
    box.delete("one")
    documents, etag = box.drain()
    assert fields(documents, "id") == [("two",)]
    assert etag == box.etag(3)  # the delete is behind the reader as well


def test_the_position_moves_past_what_is_not_shown(box: Box) -> None:
    box.put("one", pk="a")
    box.put("two", pk="b")
    reply = box.get(LATEST, None, x_ms_documentdb_partitionkey='["c"]')
    assert (reply.status, reply.headers["etag"]) == (304, box.etag(2))


@pytest.mark.parametrize("count", ["1", "2", "3", "100", "-1"])
def test_pages(box: Box, count: str) -> None:
    expected = [f"i{number}" for number in range(7)]
    for id_ in expected:
        box.put(id_)
    first = box.get(LATEST, None, x_ms_max_item_count=count)
    assert first.json["_count"] == (7 if count in ("100", "-1") else int(count))
    assert box.ids(None, x_ms_max_item_count=count) == expected


def test_a_point_in_time(box: Box, clock: MovableClock) -> None:
    box.put("old")
    clock.advance(100)
    since = int(box.put("at")["_ts"])
    clock.advance(1)
    box.put("later")
    for moment, expected in (
        (since - 1, ["at", "later"]),
        (since, ["at", "later"]),
        (since + 1, ["later"]),
        (since + 1000, []),
        (0, ["old", "at", "later"]),
    ):
        header = formatdate(moment, usegmt=True)
        assert box.ids(None, if_modified_since=header) == expected, moment


def test_an_etag_wins_over_a_time_that_is_sent_again(box: Box, clock: MovableClock) -> None:
    since = formatdate(int(clock.now()), usegmt=True)
    box.put("one")
    etag = box.get(LATEST, None, if_modified_since=since).headers["etag"]
    box.put("two")
    assert box.ids(etag, if_modified_since=since) == ["two"]


def test_an_item_that_carries_an_lsn_of_its_own(box: Box) -> None:
    """Copied from another feed: the feed shows its own number, the item keeps what was sent."""
    box.put("copy", _lsn=777, v="é")
    (document,), _ = box.drain()
    assert document["_lsn"] == box.lsn(1)
    reply = box.get(LATEST)
    assert reply.body.count(b'"_lsn"') == 1
    read = box.raw.get(f"{box.docs}/copy", pk='["a"]')
    assert read.json["_lsn"] == 777


def test_numbers_and_escapes_come_as_they_were_sent(box: Box) -> None:
    body = b'{"id":"x","pk":"a","n":1.50,"e":1E2,"s":"\\u005flsn"}'
    assert box.raw.post(box.docs, body, pk='["a"]').status == 201
    text = box.get(LATEST).body
    assert b'"n":1.50,"e":1E2,"s":"\\u005flsn"' in text


def test_an_item_fed_back_is_accepted(box: Box) -> None:
    box.put("x", v=1)
    (document,), _ = box.drain()
    reply = box.raw.put(f"{box.docs}/x", document | {"v": 2}, pk='["a"]')
    assert reply.status == 200
    (document,), _ = box.drain()
    assert (document["v"], document["_lsn"]) == (2, box.lsn(2))


# Scopes

SCOPE_KEYS = [f"k{number}" for number in range(12)]


def put_each_key(box: Box) -> None:
    for pk in SCOPE_KEYS:
        box.put("x", pk=pk)


@pytest.mark.parametrize("mode", [LATEST, ALL_VERSIONS], ids=["latest", "all"])
@pytest.mark.parametrize("which", ["box", "wide"])
def test_scopes(which: str, mode: dict[str, str], raw: RawClient, database: str) -> None:
    throughput = FOUR_RANGES if which == "wide" else None
    box = make_box(raw, database, throughput=throughput, changeFeedPolicy={"retentionDuration": 10})
    start = box.etag(0)
    put_each_key(box)

    def keys(**scope: str) -> list[str]:
        found, _ = box.drain(mode, start, x_ms_max_item_count="1", **scope)
        return [each["current"]["pk"] if mode is ALL_VERSIONS else each["pk"] for each in found]

    assert sorted(keys()) == sorted(SCOPE_KEYS)  # the whole container
    for pk in SCOPE_KEYS:
        assert keys(x_ms_documentdb_partitionkey=json.dumps([pk])) == [pk]
    by_range = {
        part["id"]: keys(x_ms_documentdb_partitionkeyrangeid=part["id"])
        for part in physical_ranges(box.raw, box.path)
    }
    assert sorted(pk for found in by_range.values() for pk in found) == sorted(SCOPE_KEYS)
    for part in physical_ranges(box.raw, box.path):
        low, high = part["minInclusive"], part["maxExclusive"]
        interval = {"x_ms_read_key_type": "EffectivePartitionKeyRange"}
        found = keys(**interval, x_ms_start_epk=low, x_ms_end_epk=high)
        assert found == by_range[part["id"]]
    half = "20" + "0" * 30
    below, above = (
        keys(x_ms_read_key_type="EffectivePartitionKeyRange", x_ms_start_epk=low, x_ms_end_epk=high)
        for low, high in (("", half), (half, "FF"))
    )
    assert sorted(below + above) == sorted(SCOPE_KEYS)
    assert below
    assert above


@pytest.mark.parametrize("mode", [LATEST, ALL_VERSIONS], ids=["latest", "all"])
def test_a_key_and_a_range_give_what_is_in_both(wide: Box, mode: dict[str, str]) -> None:
    """A client that reads each range for a key must not get its items once for each range."""
    start = wide.etag(0)
    put_each_key(wide)
    for pk in SCOPE_KEYS:
        key = {"x_ms_documentdb_partitionkey": json.dumps([pk])}
        found = {
            part["id"]: wide.drain(
                mode, start, **key, x_ms_documentdb_partitionkeyrangeid=part["id"]
            )[0]
            for part in physical_ranges(wide.raw, wide.path)
        }
        assert sorted(map(len, found.values())) == [0] * (len(found) - 1) + [1]
        for range_id, changes in found.items():
            scope = {"pk": json.dumps([pk]), "range": range_id}
            feed = wide.raw.get(wide.docs, **scope)
            rows = wide.raw.query(wide.docs, "SELECT * FROM c", **scope)
            for reply in (feed, rows):
                assert reply.status == 200, reply
                assert [each["pk"] for each in reply.json["Documents"]] == [pk] * len(changes)
                assert "x-ms-continuation" not in reply.headers


@pytest.mark.parametrize("throughput", [None, FOUR_RANGES])
def test_hierarchical_prefixes(raw: RawClient, database: str, throughput: str | None) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    box = make_box(
        raw, database, key=key, throughput=throughput, changeFeedPolicy={"retentionDuration": 10}
    )
    for a in ("x", "y", "z"):
        for b in range(4):
            reply = raw.post(box.docs, {"id": f"{a}{b}", "a": a, "b": b}, pk=json.dumps([a, b]))
            assert reply.status == 201
    for a in ("x", "y", "z"):
        prefix = {"x_ms_documentdb_partitionkey": json.dumps([a])}
        expected = [f"{a}{b}" for b in range(4)]
        assert sorted(box.ids(None, **prefix)) == expected
        changes, _ = box.drain(ALL_VERSIONS, box.etag(0), **prefix)
        assert sorted(change["current"]["id"] for change in changes) == expected
    assert box.ids(None, x_ms_documentdb_partitionkey='["y",2]') == ["y2"]
    assert len(box.ids(None, x_ms_documentdb_partitionkey="[]")) == 12


def test_the_whole_of_several_ranges_goes_on_from_its_etag(wide: Box) -> None:
    put_each_key(wide)
    documents, etag = wide.drain(LATEST, None, x_ms_max_item_count="2")
    assert sorted(fields(documents, "pk")) == sorted((pk,) for pk in SCOPE_KEYS)
    assert wide.ids(etag) == []
    for pk in SCOPE_KEYS[:5]:
        wide.put("y", pk=pk)
    documents, _ = wide.drain(LATEST, etag)
    assert sorted(fields(documents, "id", "pk")) == [("y", pk) for pk in SCOPE_KEYS[:5]]


def test_a_busy_range_does_not_hide_the_others(wide: Box) -> None:
    put_each_key(wide)
    reply = wide.get(LATEST, None, x_ms_max_item_count="1")
    busy = reply.json["Documents"][0]["pk"]
    seen = {busy}
    for turn in range(30):
        wide.put(f"more{turn}", pk=busy)
        reply = wide.get(LATEST, reply.headers["etag"], x_ms_max_item_count="1")
        seen.add(reply.json["Documents"][0]["pk"])
    assert seen == set(SCOPE_KEYS)


def test_a_plain_number_serves_several_ranges(wide: Box) -> None:
    """As clients use it that have read one range and go on with the whole container."""
    put_each_key(wide)
    lsns = [int(part["_lsn"]) for part in physical_ranges(wide.raw, wide.path)]
    assert min(lsns) > wide.lsn(0)
    for count in range(max(lsns) - wide.base):
        found, _ = wide.drain(LATEST, wide.etag(count))
        assert len(found) == sum(max(lsn - wide.lsn(count), 0) for lsn in lsns)
    assert wide.get(LATEST, f'"{max(lsns) + 1}"').status == 400


# All versions and deletes


def test_every_version_and_delete(all_versions: Box, frozen: MovableClock) -> None:
    etag = all_versions.now(ALL_VERSIONS)
    first = all_versions.put("x", v=1)
    second = all_versions.put("x", v=2)
    frozen.advance(3)
    all_versions.delete("x")
    changes, etag = all_versions.drain(ALL_VERSIONS, etag)
    now = int(frozen.now())
    assert changes == [
        {
            "current": first | {"_lsn": all_versions.lsn(1)},
            "metadata": {
                "operationType": "create",
                "lsn": all_versions.lsn(1),
                "crts": first["_ts"],
            },
        },
        {
            "current": second | {"_lsn": all_versions.lsn(2)},
            "metadata": {
                "operationType": "replace",
                "lsn": all_versions.lsn(2),
                "crts": second["_ts"],
                "previousImageLSN": all_versions.lsn(1),
            },
        },
        {
            "current": {},
            "metadata": {
                "operationType": "delete",
                "lsn": all_versions.lsn(3),
                "crts": pytest.approx(now, abs=1),
                "previousImageLSN": all_versions.lsn(2),
                "timeToLiveExpired": False,
                "id": "x",
                "partitionKey": {"pk": "a"},
            },
            "previous": second,
        },
    ]
    assert etag == all_versions.etag(3)


def test_a_replace_may_change_the_id(all_versions: Box) -> None:
    all_versions.put("x")
    assert (
        all_versions.raw.put(f"{all_versions.docs}/x", {"id": "y", "pk": "a"}, pk='["a"]').status
        == 200
    )
    changes, _ = all_versions.drain(ALL_VERSIONS, all_versions.etag(0))
    assert operations_of(changes) == [("create", "x"), ("replace", "y")]
    assert all_versions.ids() == ["y"]


@pytest.mark.parametrize(
    ("paths", "body", "header", "shown"),
    [
        (["/pk"], {"pk": 7}, [7], {"pk": 7}),
        (["/pk"], {"pk": None}, [None], {"pk": None}),
        (["/pk"], {}, [{}], {}),
        (["/a/b"], {"a": {"b": True}}, [True], {"a/b": True}),
        (["/a", "/b"], {"a": "x", "b": 1.5}, ["x", 1.5], {"a": "x", "b": 1.5}),
    ],
)
def test_deletes_name_the_key(
    raw: RawClient, database: str, paths: list[str], body: Any, header: Any, shown: Any
) -> None:
    kind = "Hash" if len(paths) == 1 else "MultiHash"
    box = make_box(
        raw,
        database,
        key={"paths": paths, "kind": kind, "version": 2},
        changeFeedPolicy={"retentionDuration": 10},
    )
    pk = json.dumps(header)
    assert raw.post(box.docs, {"id": "x", **body}, pk=pk).status == 201
    assert raw.delete(f"{box.docs}/x", pk=pk).status == 204
    (_, deleted), _ = box.drain(ALL_VERSIONS, box.etag(0))
    assert deleted["metadata"]["partitionKey"] == shown


def test_both_modes_share_their_positions(all_versions: Box) -> None:
    all_versions.put("x")
    etag = all_versions.drain()[1]
    all_versions.put("x", v=2)
    all_versions.delete("x")
    assert operations_of(all_versions.drain(ALL_VERSIONS, etag)[0]) == [
        ("replace", "x"),
        ("delete", "x"),
    ]


def test_the_wire_format_may_be_left_out(all_versions: Box) -> None:
    all_versions.put("x")
    assert operations_of(
        all_versions.drain({"A-IM": "full-fidelity feed"}, all_versions.etag(0))[0]
    ) == [("create", "x")]


def test_retention(all_versions: Box, clock: MovableClock) -> None:
    """Exact to the second, whether the old records have been removed or not."""
    start = all_versions.now(ALL_VERSIONS)
    all_versions.put("x")
    middle = all_versions.now(ALL_VERSIONS)
    clock.advance(580)  # it runs on meanwhile
    assert operations_of(all_versions.drain(ALL_VERSIONS, start)[0]) == [("create", "x")]
    clock.advance(21)
    reply = all_versions.get(ALL_VERSIONS, start)
    assert reply.status == 400
    assert OUTSIDE in reply.json["message"]
    # Behind the lost change nothing is missing.
    assert all_versions.drain(ALL_VERSIONS, middle)[0] == []
    all_versions.put("y")
    assert operations_of(all_versions.drain(ALL_VERSIONS, middle)[0]) == [("create", "y")]
    assert all_versions.ids() == ["x", "y"]  # latest versions know no retention


@pytest.mark.parametrize(
    "headers",
    [{}, {"if_modified_since": "Tue, 01 Jan 2030 00:00:00 GMT"}],
    ids=["beginning", "time"],
)
def test_all_versions_start_now_or_from_a_position(
    all_versions: Box, headers: dict[str, str]
) -> None:
    reply = all_versions.get(ALL_VERSIONS, None, **headers)
    assert reply.status == 400
    assert OUTSIDE in reply.json["message"]


@pytest.mark.parametrize("policy", [{}, {"changeFeedPolicy": {"retentionDuration": 0}}])
def test_all_versions_must_be_enabled(raw: RawClient, database: str, policy: Any) -> None:
    box = make_box(raw, database, **policy)
    for etag in (None, "*", '"0"'):
        reply = box.get(ALL_VERSIONS, etag)
        assert reply.status == 400
        assert "All Versions and Deletes" in reply.json["message"]
        assert "must be enabled" in reply.json["message"]


def replace_policy(box: Box, **policy: Any) -> None:
    body = {k: v for k, v in box.raw.get(box.path).json.items() if not k.startswith("_")}
    body.pop("changeFeedPolicy", None)
    assert box.raw.put(box.path, body | policy).status == 200


def test_switching_on_keeps_what_comes_then(box: Box) -> None:
    box.put("before")
    before = box.etag(0)
    replace_policy(box, changeFeedPolicy={"retentionDuration": 5})
    etag = box.now(ALL_VERSIONS)
    box.put("after")
    assert operations_of(box.drain(ALL_VERSIONS, etag)[0]) == [("create", "after")]
    reply = box.get(ALL_VERSIONS, before)
    assert reply.status == 400
    assert OUTSIDE in reply.json["message"]


def test_switching_off_and_on_again_leaves_no_gap_unseen(all_versions: Box) -> None:
    etag = all_versions.now(ALL_VERSIONS)
    all_versions.put("x")
    replace_policy(all_versions)
    assert all_versions.get(ALL_VERSIONS, etag).status == 400
    all_versions.put("unseen")
    replace_policy(all_versions, changeFeedPolicy={"retentionDuration": 10})
    reply = all_versions.get(ALL_VERSIONS, etag)
    assert reply.status == 400
    assert OUTSIDE in reply.json["message"]
    now = all_versions.now(ALL_VERSIONS)
    all_versions.put("y")
    assert operations_of(all_versions.drain(ALL_VERSIONS, now)[0]) == [("create", "y")]


def test_a_longer_retention_brings_back_nothing_that_was_lost(
    all_versions: Box, clock: MovableClock
) -> None:
    start = all_versions.now(ALL_VERSIONS)
    all_versions.put("x")
    middle = all_versions.now(ALL_VERSIONS)
    clock.advance(540)
    all_versions.put("y")
    replace_policy(all_versions, changeFeedPolicy={"retentionDuration": 1})
    assert all_versions.get(ALL_VERSIONS, start).status == 400
    replace_policy(all_versions, changeFeedPolicy={"retentionDuration": 100})
    assert all_versions.get(ALL_VERSIONS, start).status == 400
    assert operations_of(all_versions.drain(ALL_VERSIONS, middle)[0]) == [("create", "y")]
    clock.advance(5990)
    assert operations_of(all_versions.drain(ALL_VERSIONS, middle)[0]) == [("create", "y")]
    clock.advance(15)
    assert all_versions.get(ALL_VERSIONS, middle).status == 400


# Refusals


@pytest.mark.parametrize(
    ("mode", "etag", "more", "text"),
    [
        ({"A-IM": "Whole Feed"}, None, {}, "A-IM must be"),
        (
            ALL_VERSIONS | {"x-ms-cosmos-changefeed-wire-format-version": "1999"},
            "*",
            {},
            "2021-09-15",
        ),
        (LATEST, '"12x"', {}, "malformed"),
        (LATEST, '"', {}, "malformed"),
        (LATEST, "W/12", {}, "malformed"),
        (LATEST, '"-1"', {}, "malformed"),
        (LATEST, '"99999999"', {}, "ahead"),
        (LATEST, '"999999999999999999"', {}, "ahead"),
        (LATEST, '"9999999999999999999999"', {}, "malformed"),
        (ALL_VERSIONS, '"99999999"', {}, "ahead"),
        (LATEST, None, {"if_modified_since": "yesterday"}, "If-Modified-Since must be"),
        (LATEST, None, {"x_ms_max_item_count": "0"}, "x-ms-max-item-count"),
        (LATEST, None, {"x_ms_max_item_count": "many"}, "x-ms-max-item-count"),
        (
            LATEST,
            None,
            {"x_ms_read_key_type": "EffectivePartitionKeyRange", "x_ms_start_epk": "XY"},
            "hexadecimal",
        ),
    ],
)
def test_refusals(
    all_versions: Box, mode: dict[str, str], etag: str | None, more: dict[str, str], text: str
) -> None:
    all_versions.put("x")
    reply = all_versions.get(mode, etag, **more)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest"), reply
    assert text in reply.json["message"]


def test_a_range_that_is_none(box: Box) -> None:
    reply = box.get(LATEST, None, x_ms_documentdb_partitionkeyrangeid="9")
    assert (reply.status, reply.sub_status) == (410, 1002)


def test_a_sealed_position_cannot_be_changed_or_moved(
    raw: RawClient, database: str, wide: Box
) -> None:
    put_each_key(wide)
    etag = wide.drain()[1]
    for at in (1, len(etag) // 2, len(etag) - 2):
        flipped = etag[:at] + ("A" if etag[at] != "A" else "B") + etag[at + 1 :]
        assert wide.get(LATEST, flipped).status == 400
    other = make_box(raw, database, "other", throughput=FOUR_RANGES)
    assert other.get(LATEST, etag).status == 400
    assert wide.get(LATEST, etag.strip('"')).status == 304


def test_a_session_from_the_future(box: Box) -> None:
    reply = box.get(LATEST, None, x_ms_session_token="0:-1#99999999")
    assert (reply.status, reply.sub_status) == (404, 1002)


def test_without_the_header_it_is_a_list(box: Box) -> None:
    box.put("x")
    reply = box.raw.request("GET", box.docs, headers={"If-None-Match": '"1"'})
    assert reply.status == 200
    assert "etag" not in reply.headers
    assert "_lsn" not in reply.json["Documents"][0]


def test_what_a_page_costs(box: Box) -> None:
    for number in range(5):
        box.put(f"i{number}", text="x" * 400)
    reply = box.get(LATEST)
    assert reply.headers["x-ms-request-charge"] == "5"
    strong = box.get(LATEST, reply.headers["etag"])
    assert strong.headers["x-ms-request-charge"] == "1"


# Restart


@pytest.mark.parametrize("throughput", [None, FOUR_RANGES])
def test_positions_survive_a_restart(place: Place, throughput: str | None) -> None:
    settings = place.lasting()
    with serving(settings) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        box = make_box(
            raw, "/dbs/d", throughput=throughput, changeFeedPolicy={"retentionDuration": 10}
        )
        start = box.now(ALL_VERSIONS)
        put_each_key(box)
        first = box.get(LATEST, None, x_ms_max_item_count="2")
        seen = fields(first.json["Documents"], "pk")
        all_first = box.get(ALL_VERSIONS, start, x_ms_max_item_count="2")
        told_first = operations_of(all_first.json["Documents"])
    with serving(settings) as raw:
        box = Box(raw, "/dbs/d/colls/c")
        rest, _ = box.drain(LATEST, first.headers["etag"])
        assert sorted(seen + fields(rest, "pk")) == sorted((pk,) for pk in SCOPE_KEYS)
        changes, _ = box.drain(ALL_VERSIONS, all_first.headers["etag"])
        assert len(told_first) + len(changes) == len(SCOPE_KEYS)


def test_a_default_for_all_containers(place: Place) -> None:
    """The server's own setting, switched on and off between runs."""
    off = place.lasting()
    on = replace(off, change_feed_retention=10)
    with serving(off) as raw:
        assert "continuousBackupEnabled" not in raw.get("/").json
        assert raw.post("/dbs", {"id": "d"}).status == 201
        box = make_box(raw, "/dbs/d")
        make_box(raw, "/dbs/d", "never", changeFeedPolicy={"retentionDuration": 0})
        box.put("before")
        assert box.get(ALL_VERSIONS, "*").status == 400
    with serving(on) as raw:
        assert raw.get("/").json["continuousBackupEnabled"] is True
        box = Box(raw, "/dbs/d/colls/c")
        etag = box.now(ALL_VERSIONS)
        box.put("x")
        assert operations_of(box.drain(ALL_VERSIONS, etag)[0]) == [("create", "x")]
        assert box.get(ALL_VERSIONS, '"0"').status == 400
        assert Box(raw, "/dbs/d/colls/never").get(ALL_VERSIONS, "*").status == 400
        assert "changeFeedPolicy" not in raw.get(box.path).json
    with serving(off) as raw:
        box = Box(raw, "/dbs/d/colls/c")
        assert box.get(ALL_VERSIONS, etag).status == 400
        box.put("unseen")
    with serving(on) as raw:
        reply = Box(raw, "/dbs/d/colls/c").get(ALL_VERSIONS, etag)
        assert reply.status == 400
        assert OUTSIDE in reply.json["message"]
