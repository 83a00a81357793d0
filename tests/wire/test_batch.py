"""Transactional batches over the wire: all or nothing, in order, one LSN."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from perseid import charges
from perseid.service.items import batches
from tests.support.operations import (
    BROKEN,
    codes,
    create,
    delete,
    increase,
    item,
    lsn,
    patch,
    read,
    replace,
    stored_items,
    upsert,
)
from tests.support.raw import RawClient, Reply
from tests.support.replies import without_system

KEY = '["a"]'
SERVER_THREAD = "perseid"
STALE = '"00000000-0000-0000-0000-000000000000"'
LARGE = "x" * (1024 * 1024 + 900 * 1024)


def send_batch(raw: RawClient, container: str, *operations: Any, **headers: str) -> Reply:
    headers.setdefault("pk", KEY)
    return raw.batch(container, list(operations), atomic=True, **headers)


# Success -----------------------------------------------------------------------------------------


def test_all_six_kinds(raw: RawClient, container: str) -> None:
    send_batch(raw, container, create("old"), create("gone"))
    before = lsn(raw, container)
    reply = send_batch(
        raw,
        container,
        create("new", n=1),
        upsert("other", n=1),
        upsert("old", n=1),
        replace("old", n=2),
        increase("old"),
        read("old"),
        delete("gone"),
    )
    assert reply.status == 200
    assert codes(reply) == [201, 201, 200, 200, 200, 200, 204]
    bodies = [without_system(entry["resourceBody"]) for entry in reply.json[:-1]]
    assert [body.get("n") for body in bodies] == [1, 1, 1, 2, 3, 3]
    assert set(reply.json[-1]) == {"statusCode", "requestCharge"}
    for entry in reply.json[:-1]:
        assert entry["eTag"] == entry["resourceBody"]["_etag"]
        assert set(entry) == {"statusCode", "requestCharge", "eTag", "resourceBody"}
    found = stored_items(raw, container)
    assert set(found) == {"old", "new", "other"}
    assert found["old"] == reply.json[4]["resourceBody"] == reply.json[5]["resourceBody"]
    assert len({document["_rid"] for document in found.values()}) == 3
    written = [entry["eTag"] for entry in reply.json[:5]]
    assert len(set(written)) == 5
    # one transaction: one LSN, one moment
    assert lsn(raw, container) == int(reply.headers["lsn"]) == before + 1
    assert reply.headers["x-ms-session-token"] == f"0:-1#{before + 1}"
    assert len({document["_ts"] for document in found.values()}) == 1
    assert {
        raw.get(f"{container}/docs/{id_}", pk=KEY).headers["x-ms-item-lsn"] for id_ in found
    } == {str(before + 1)}


def test_each_operation_sees_those_before_it(raw: RawClient, container: str) -> None:
    reply = send_batch(
        raw,
        container,
        create("1", n=1),
        increase("1"),
        read("1"),
        replace("1", "2", n=5),
        create("1", n=7),
        increase("2"),
        delete("1"),
        upsert("1", n=9),
        delete("1"),
        create("1", n=10),
        read("2"),
    )
    assert codes(reply) == [201, 200, 200, 200, 201, 200, 204, 201, 204, 201, 200]
    assert {id_: document["n"] for id_, document in stored_items(raw, container).items()} == {
        "1": 10,
        "2": 6,
    }
    rids = [entry.get("resourceBody", {}).get("_rid") for entry in reply.json]
    assert rids[0] == rids[3] == rids[5]  # replaced and renamed, still the same item
    assert len({rids[0], rids[4], rids[7], rids[9]}) == 4


def test_a_hundred_operations_in_the_order_of_creation(raw: RawClient, container: str) -> None:
    names = [f"{number:03d}" for number in range(100)]
    reply = send_batch(raw, container, *(create(name) for name in reversed(names)))
    assert (reply.status, len(reply.json)) == (200, 100)
    assert list(stored_items(raw, container)) == names[::-1]


def test_charges_add_up(raw: RawClient, container: str) -> None:
    reply = send_batch(raw, container, create("1", x=1), increase("1"), read("1"), delete("1"))
    charges = [entry["requestCharge"] for entry in reply.json]
    assert charges == [5.4, 10.6, 1.0, 5.6]
    assert float(reply.headers["x-ms-request-charge"]) == round(sum(charges), 2)


def test_texts_stay_as_they_were_sent(raw: RawClient, container: str) -> None:
    body = b'{"id":"1","z":1.0,"pk":"a","big":9223372036854775807,"e":1e2,"a":[-0.0]}'
    sent = b'[{"operationType":"Create","resourceBody":' + body + b"}]"
    reply = raw.batch(container, sent, pk=KEY)
    assert reply.status == 200
    assert body[:-1] + b"," in reply.body
    assert raw.get(f"{container}/docs/1", pk=KEY).body.startswith(body[:-1])


def test_without_bodies(raw: RawClient, container: str) -> None:
    reply = send_batch(
        raw, container, create("1"), increase("1"), read("1"), delete("1"), prefer="return=minimal"
    )
    assert codes(reply) == [201, 200, 200, 204]
    assert ["resourceBody" in entry for entry in reply.json] == [False, False, True, False]
    assert all(entry["eTag"] for entry in reply.json[:3])


def test_atomic_is_what_a_batch_is_unless_it_says_otherwise(raw: RawClient, container: str) -> None:
    sent = {"x-ms-cosmos-is-batch-request": "true", "x-ms-documentdb-partitionkey": KEY}
    reply = raw.request("POST", f"{container}/docs", [create("1"), create("1")], sent)
    assert (reply.status, codes(reply)) == (207, [424, 409])
    assert stored_items(raw, container) == {}


def test_reads_alone_move_nothing(raw: RawClient, container: str) -> None:
    send_batch(raw, container, create("1"))
    before = lsn(raw, container)
    reply = send_batch(raw, container, read("1"), read("1"))
    assert (reply.status, codes(reply)) == (200, [200, 200])
    assert int(reply.headers["lsn"]) == lsn(raw, container) == before


def test_the_change_feed_shows_what_a_batch_left(raw: RawClient, container: str) -> None:
    send_batch(
        raw, container, create("1", n=1), create("2"), increase("1"), delete("2"), create("3")
    )
    send_batch(raw, container, create("4"), delete("no"))
    reply = raw.get(f"{container}/docs", a_im="Incremental feed")
    assert [found["id"] for found in reply.json["Documents"]] == ["1", "3"]
    assert len({found["_lsn"] for found in reply.json["Documents"]}) == 1


# Preconditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [replace, delete, increase, upsert])
def test_if_match(raw: RawClient, container: str, kind: Any) -> None:
    made = send_batch(raw, container, create("1"), create("2")).json
    etag = made[0]["eTag"]
    reply = send_batch(raw, container, delete("2"), kind("1") | {"ifMatch": STALE})
    assert (reply.status, codes(reply)) == (207, [424, 412])
    assert set(stored_items(raw, container)) == {"1", "2"}
    assert send_batch(raw, container, kind("1") | {"ifMatch": etag}).status == 200


def test_an_etag_made_in_the_batch_is_not_the_old_one(raw: RawClient, container: str) -> None:
    etag = send_batch(raw, container, create("1")).json[0]["eTag"]
    reply = send_batch(raw, container, increase("1"), replace("1") | {"ifMatch": etag})
    assert codes(reply) == [424, 412]


def test_if_none_match_star_on_upsert(raw: RawClient, container: str) -> None:
    once = upsert("1") | {"ifNoneMatch": "*"}
    assert codes(send_batch(raw, container, once)) == [201]
    assert codes(send_batch(raw, container, once)) == [412]


@pytest.mark.parametrize("header", ["ifNoneMatch", "ifMatch"])
def test_a_read_of_a_known_version_is_no_failure(
    raw: RawClient, container: str, header: str
) -> None:
    """Both headers give 304 as in the service, which answers 207 then and does the rest."""
    etag = send_batch(raw, container, create("1")).json[0]["eTag"]
    reply = send_batch(raw, container, create("2"), read("1") | {header: etag})
    assert (reply.status, codes(reply)) == (207, [201, 304])
    assert "resourceBody" not in reply.json[1]
    assert set(stored_items(raw, container)) == {"1", "2"}
    assert codes(send_batch(raw, container, read("1") | {header: STALE})) == [200]


def test_patch_conditions(raw: RawClient, container: str) -> None:
    add = {"op": "incr", "path": "/n", "value": 1}
    reply = send_batch(
        raw,
        container,
        create("1", n=1),
        patch("1", add, condition="from c where c.n = 1"),
        patch("1", add, condition="from c where c.n = 1"),
    )
    assert (reply.status, codes(reply)) == (207, [424, 424, 412])
    assert stored_items(raw, container) == {}


def test_a_patch_may_be_a_bare_array(raw: RawClient, container: str) -> None:
    bare = {
        "operationType": "Patch",
        "id": "1",
        "resourceBody": [{"op": "set", "path": "/n", "value": 4}],
    }
    reply = send_batch(raw, container, create("1"), bare)
    assert reply.json[1]["resourceBody"]["n"] == 4


def test_many_patches_are_charged_without_blocking_other_requests(
    raw: RawClient, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With large items that takes seconds, in which no other request would be answered."""
    threads = set()
    price = charges.changed_terms

    def noted(*given: Any) -> int:
        threads.add(threading.current_thread().name)
        return price(*given)

    monkeypatch.setattr(charges, "changed_terms", noted)
    reply = send_batch(raw, container, create("1", n=1, x="x" * 4000), *[increase("1")] * 9)
    assert codes(reply) == [201] + [200] * 9
    assert threads
    assert SERVER_THREAD not in threads


# Failure -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(("broken", "status", "sub_status"), BROKEN, ids=range(len(BROKEN)))
def test_one_failure_undoes_everything(
    raw: RawClient, container: str, broken: Any, status: int, sub_status: int, position: int
) -> None:
    send_batch(raw, container, create("there", n=1), create("other", n=1))
    before, at = stored_items(raw, container), lsn(raw, container)
    operations = [replace("other", n=2), create("fresh")]
    operations.insert(position, broken)
    reply = send_batch(raw, container, *operations)
    assert reply.status == 207
    expected = [424, 424, 424]
    expected[position] = status
    assert codes(reply) == expected
    failed = reply.json[position]
    assert failed["subStatusCode"] == sub_status
    assert failed["message"]
    assert float(reply.headers["x-ms-request-charge"]) == failed["requestCharge"] > 0
    assert all("resourceBody" not in entry for entry in reply.json)
    assert stored_items(raw, container) == before
    assert lsn(raw, container) == at == int(reply.headers["lsn"])


def test_the_first_failure_counts(raw: RawClient, container: str) -> None:
    reply = send_batch(
        raw, container, create("1"), delete("no"), create("1"), {"operationType": "?"}
    )
    assert codes(reply) == [424, 404, 424, 424]


BAD = [
    (b"", "empty"),
    (b"{", "not valid JSON"),
    (b"\x81\x02\x03", "not valid HybridRow"),
    (b"null", "array of operations"),
    (b"{}", "array of operations"),
    (b'{"operationType":"Read","id":"1"}', "array of operations"),
    (b"[]", "Batch request has no operations."),
    (b'[{"operationType":"Read","id":"1","id":"2"}]', "twice"),
    (b"[" + b'{"operationType":"Read","id":"1"},' * 100 + b"{}]", "more operations than what is"),
    (b"[" * 200 + b"]" * 200, "deeper"),
]


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize(("body", "why"), BAD, ids=range(len(BAD)))
def test_a_batch_that_is_none(
    raw: RawClient, container: str, body: bytes, why: str, atomic: bool
) -> None:
    reply = raw.batch(container, body, atomic=atomic, pk=KEY)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert why in reply.json["message"]


@pytest.mark.parametrize("atomic", [True, False])
def test_more_than_two_megabytes(raw: RawClient, container: str, atomic: bool) -> None:
    body = json.dumps([create("1", x="x" * 2**20), create("2", x="x" * 2**20)]).encode()
    reply = raw.batch(container, body, atomic=atomic, pk=KEY)
    assert (reply.status, reply.json["code"]) == (413, "RequestEntityTooLarge")
    assert stored_items(raw, container) == {}


def test_a_batch_that_takes_too_long(
    raw: RawClient, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other writes wait for it."""
    monkeypatch.setattr(batches, "_LONGEST_SECONDS", 0.0)
    reply = send_batch(raw, container, create("1"), create("2"))
    assert (reply.status, codes(reply)) == (207, [408, 424])
    assert "nothing was done" in reply.json[0]["message"]
    assert stored_items(raw, container) == {}


def test_an_answer_of_more_than_four_megabytes(raw: RawClient, container: str) -> None:
    for id_ in ("1", "2"):
        assert send_batch(raw, container, create(id_, x=LARGE)).status == 200
    reply = send_batch(raw, container, create("3"), read("1"), read("2"), read("1"))
    assert (reply.status, codes(reply)) == (207, [424, 424, 424, 413])
    assert reply.json[3]["subStatusCode"] == 3402
    assert set(stored_items(raw, container)) <= {"1", "2"}
    assert send_batch(raw, container, read("1"), read("2")).status == 200


def test_the_key_must_be_there_and_whole(raw: RawClient, database: str) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    assert raw.post(f"{database}/colls", {"id": "h", "partitionKey": key}).status == 201
    container = f"{database}/colls/h"
    operation = {"operationType": "Create", "resourceBody": {"id": "1", "a": "x", "b": "y"}}
    reply = raw.batch(container, [operation])
    assert reply.status == 400
    assert "PartitionKey value must be supplied" in reply.json["message"]
    reply = raw.batch(container, [operation], pk='["x"]')
    assert (reply.status, reply.sub_status) == (400, 1001)
    assert reply.json["message"].startswith("Partition key provided either doesn't correspond")
    reply = raw.batch(container, [operation], pk='["x","z"]')
    assert (reply.status, codes(reply)) == (207, [400])
    assert codes(raw.batch(container, [operation], pk='["x","y"]')) == [201]
    assert codes(raw.batch(container, [read("1")], pk='["x","y"]')) == [200]


def test_a_stale_container_or_session(raw: RawClient, container: str) -> None:
    reply = send_batch(
        raw, container, create("1"), x_ms_cosmos_intended_collection_rid="AAAAAAAAAAA="
    )
    assert (reply.status, reply.sub_status) == (400, 1024)
    reply = send_batch(raw, container, read("1"), session="0:-1#999999999")
    assert (reply.status, reply.sub_status) == (404, 1002)
    reply = send_batch(raw, f"{container}-no", create("1"))
    assert (reply.status, reply.sub_status) == (404, 1003)


def test_only_items_come_in_batches(raw: RawClient, database: str) -> None:
    sent = {"x-ms-cosmos-is-batch-request": "true"}
    assert raw.request("POST", f"{database}/colls", [], sent).status == 405


# Unique keys -------------------------------------------------------------------------------------


def test_unique_values_are_taken_and_given_within_a_batch(raw: RawClient, unique_mail: str) -> None:
    send_batch(raw, unique_mail, create("1", mail="x"), create("2", mail="y"))
    reply = send_batch(
        raw,
        unique_mail,
        replace("1", mail="z"),
        replace("2", mail="x"),
        replace("1", mail="y"),
        delete("2"),
        create("3", mail="x"),
        patch("1", {"op": "set", "path": "/mail", "value": "w"}),
        create("4", mail="y"),
    )
    assert codes(reply) == [200, 200, 200, 204, 201, 200, 201]
    assert {id_: found["mail"] for id_, found in stored_items(raw, unique_mail).items()} == {
        "1": "w",
        "3": "x",
        "4": "y",
    }
    for mail, status in (("w", 409), ("x", 409), ("y", 409), ("z", 201)):
        assert raw.post(f"{unique_mail}/docs", item("5", mail=mail), pk=KEY).status == status


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([create("3", mail="x")], [409]),
        ([create("3", mail="z"), create("4", mail="z")], [424, 409]),
        ([create("3", mail="z"), replace("1", mail="z")], [424, 409]),
        ([delete("1"), create("3", mail="x"), create("4", mail="x")], [424, 424, 409]),
        ([increase("1"), patch("1", {"op": "set", "path": "/mail", "value": "y"})], [424, 409]),
        # the holder is known to the store only: the failure behind it must not come first
        ([create("3", mail="y"), create("1", mail="q")], [409, 424]),
        ([create("3", mail="q"), create("4", mail="y"), delete("no")], [424, 409, 424]),
    ],
)
def test_unique_values_that_are_taken(
    raw: RawClient, unique_mail: str, operations: list[Any], expected: list[int]
) -> None:
    send_batch(raw, unique_mail, create("1", mail="x"), create("2", mail="y"))
    before = stored_items(raw, unique_mail)
    assert codes(send_batch(raw, unique_mail, *operations)) == expected
    assert stored_items(raw, unique_mail) == before
    assert raw.post(f"{unique_mail}/docs", item("9", mail="free"), pk=KEY).status == 201
