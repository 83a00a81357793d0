"""The conflict feed: one region writes, so it is empty, but it is there."""

from __future__ import annotations

from tests.support.raw import RawClient


def test_feed_and_query_are_empty(raw: RawClient, container: str) -> None:
    owner = raw.get(container).json["_rid"]
    path = f"{container}/conflicts"
    for reply in (
        raw.get(path),
        raw.get(path, count="1"),
        raw.query(path, "SELECT * FROM c WHERE c.resourceType = 'document'"),
    ):
        assert reply.status == 200
        assert reply.json == {"_rid": owner, "Conflicts": [], "_count": 0}
        assert reply.headers["x-ms-item-count"] == "0"
        assert reply.headers["x-ms-alt-content-path"] == container.strip("/")
        assert "x-ms-continuation" not in reply.headers


def test_a_wrong_query_is_refused(raw: RawClient, container: str) -> None:
    assert raw.query(f"{container}/conflicts", "SELEC *").status == 400


def test_no_conflict_is_found(raw: RawClient, container: str) -> None:
    path = f"{container}/conflicts/x"
    for reply in (raw.get(path, pk='["a"]'), raw.delete(path, pk='["a"]')):
        assert (reply.status, reply.sub_status, reply.json["code"]) == (404, 0, "NotFound")


def test_missing_container(raw: RawClient, database: str) -> None:
    reply = raw.get(f"{database}/colls/missing/conflicts")
    assert (reply.status, reply.sub_status) == (404, 1003)


def test_conflicts_cannot_be_made(raw: RawClient, container: str) -> None:
    assert raw.post(f"{container}/conflicts", {"id": "x"}).status == 405
    assert raw.put(f"{container}/conflicts/x", {"id": "x"}).status == 405
