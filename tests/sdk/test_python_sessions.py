"""Session tokens as the synchronous Python client keeps and sends them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy

from tests.sdk.conftest import Recorder
from tests.sdk.python_helpers import OTHER_ETAG, ids_of
from tests.support.sdk import refused


def test_lsn_rises_by_one_with_each_write(container: ContainerProxy, exchanges: Recorder) -> None:
    writes: list[Callable[[], Any]] = [
        lambda: container.create_item({"id": "1", "pk": "a"}),
        lambda: container.create_item({"id": "2", "pk": "b"}),
        lambda: container.upsert_item({"id": "1", "pk": "a", "v": 2}),
        lambda: container.upsert_item({"id": "3", "pk": "a"}),
        lambda: container.replace_item("1", {"id": "1", "pk": "a", "v": 3}),
        lambda: container.replace_item("1", {"id": "1", "pk": "a", "v": 3}),
        lambda: container.delete_item("1", "a"),
    ]
    lsns = []
    for write in writes:
        write()
        lsns.append(exchanges[-1].lsn)
        assert exchanges[-1].received["x-ms-session-token"] == f"0:-1#{lsns[-1]}"
        with refused(404):
            container.read_item("absent", "a")
        container.read_item("2", "b") if len(lsns) > 1 else None
        list(container.read_all_items())
        assert exchanges[-1].lsn == lsns[-1]
    assert lsns == list(range(lsns[0], lsns[0] + len(writes)))


def test_refused_writes_leave_the_lsn(container: ContainerProxy, exchanges: Recorder) -> None:
    container.create_item({"id": "1", "pk": "a"})
    before = exchanges[-1].lsn
    with refused(409):
        container.create_item({"id": "1", "pk": "a"})
    with refused(400):
        container.create_item({"id": "", "pk": "a"})
    with refused(412):
        container.delete_item(
            "1", "a", etag=OTHER_ETAG, match_condition=MatchConditions.IfNotModified
        )
    container.read_item("1", "a")
    assert exchanges[-1].lsn == before


def test_client_keeps_and_sends_session_tokens(
    container: ContainerProxy, exchanges: Recorder
) -> None:
    rid = container.read()["_rid"]
    container.create_item({"id": "1", "pk": "a"})
    written = exchanges[-1]
    token = written.received["x-ms-session-token"]
    assert written.received["x-ms-alt-content-path"] == container.container_link
    assert written.received["x-ms-content-path"] == rid
    assert written.received["x-ms-documentdb-partitionkeyrangeid"] == "0"
    session = container.client_connection.session
    assert session
    kept = session.session_container.rid_to_session_token[rid]
    assert {part: f"{part}:{each.session_token}" for part, each in kept.items()} == {"0": token}
    container.read_item("1", "a")
    assert exchanges[-1].sent["x-ms-session-token"] == token
    list(container.read_all_items())
    assert exchanges[-1].sent["x-ms-session-token"] == token
    list(container.query_items("SELECT * FROM c", partition_key="a"))
    assert exchanges[-1].sent["x-ms-session-token"] == token


READS: dict[str, Callable[[ContainerProxy, str], Any]] = {
    "read": lambda c, token: [c.read_item("1", "a", session_token=token)],
    "feed": lambda c, token: list(c.read_all_items(session_token=token)),
    "query": lambda c, token: list(
        c.query_items("SELECT * FROM c", partition_key="a", session_token=token)
    ),
    "cross": lambda c, token: list(
        c.query_items("SELECT * FROM c", enable_cross_partition_query=True, session_token=token)
    ),
    "many": lambda c, token: c.read_items([("1", "a"), ("2", "a")], session_token=token),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_tokens_from_the_future(
    container: ContainerProxy, exchanges: Recorder, read: Callable[[ContainerProxy, str], Any]
) -> None:
    container.create_item({"id": "1", "pk": "a"})
    lsn = exchanges[-1].lsn
    exchanges.clear()
    with refused(404, 1002, "The read session is not available for the input session token."):
        read(container, f"0:-1#{lsn + 1}")
    assert {each.sub_status for each in exchanges if "/docs/" in each.path} == {1002}
    for token in (f"0:-1#{lsn}", f"0:-1#{lsn - 1}", f"0:-1#{lsn}#1=5"):
        assert ids_of(read(container, token)) == ["1"]


def test_absent_item_of_the_future(container: ContainerProxy, exchanges: Recorder) -> None:
    container.create_item({"id": "1", "pk": "a"})
    lsn = exchanges[-1].lsn
    with refused(404, 1002):
        container.read_item("absent", "a", session_token=f"0:-1#{lsn + 1}")
    with refused(404, 0):
        container.read_item("absent", "a", session_token=f"0:-1#{lsn}")
