"""T-094: expired items take no room in a logical partition."""

from __future__ import annotations

from tests.support.raw import Reply
from tests.support.servers import frozen_clock, serving
from tests.support.stores import Place
from tests.support.ttl_containers import TtlContainers


def test_a_full_partition_takes_more_once_its_items_have_expired(place: Place) -> None:
    """T-094: a write that fits only because expired items no longer count is accepted."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, partition_limit=2000), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        docs = f"{TtlContainers(raw, clock, '/dbs/d').make(10).path}/docs"

        def create(id_: str, pk: str = "p") -> Reply:
            return raw.post(docs, {"id": id_, "pk": pk, "v": "x" * 600}, pk=f'["{pk}"]')

        assert [create(id_).status for id_ in "ab"] == [201, 201]
        refused = create("c")
        assert (refused.status, refused.sub_status) == (403, 1014)
        assert "Partition key reached maximum size of 20 GB" in refused.json["message"]
        # Another partition has room, and this one has for less of what it holds.
        assert create("c", "q").status == 201
        assert raw.put(f"{docs}/a", {"id": "a", "pk": "p"}, pk='["p"]').status == 200
        assert create("c").status == 201
        assert create("d").status == 403
        clock.advance(10)
        assert [create(id_).status for id_ in "de"] == [201, 201]
