"""Every store through its protocol: decisions, unique entries, scans, metadata."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perseid.config import Settings
from perseid.errors import Conflict, ServiceUnavailable
from perseid.model import Container, Row, StorageUsage, item_number
from perseid.service.catalog import build_container
from perseid.store.protocol import Stores
from perseid.store.types import (
    Decision,
    Put,
    PutResource,
    Remove,
    RemoveResource,
    Search,
    StaleResource,
    View,
)
from perseid.ttl import NOTHING_EXPIRED, Cutoff
from tests.support.rows import (
    DATABASE,
    Run,
    container_resource,
    ids_in,
    insert,
    key,
    reserving,
    resource,
    row,
    scanned,
)
from tests.support.stores import open_store

# Decisions --------------------------------------------------------------------------------------


def test_a_put_row_is_read_as_it_was(store: Stores, container: Container, run: Run[Any]) -> None:
    wanted = row(
        1, "é\x01", pk=b"\x00\xff\x08", epk=b"", ts=2**40, ttl=-1, terms=0, size=12345,
        body='{"é":"\\u00e9😀","z":1.0,"a":[1e2,-0.0,18446744073709551615,{}]}'.encode(),
    )  # fmt: skip
    run(store.items.write(container, 0, [wanted.key], lambda view: Decision([Put(wanted)], None)))
    assert run(store.items.read(container, 0, wanted.key)) == (wanted, 1)
    assert run(store.items.read_number(container, wanted.number)) == wanted
    assert run(scanned(store, container, Search())) == [wanted]
    assert run(store.items.read(container, 0, key("other"))) == (None, 1)
    assert run(store.items.read_number(container, wanted.number + 1)) is None


def test_a_decision_sees_the_rows_it_asked_for(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    (there,) = run(insert(store, container, "1"))
    seen: list[View] = []

    def decide(view: View) -> Decision[str]:
        seen.append(view)
        return Decision([], "told")

    keys = [key("1"), key("2"), key("1", b"\x08b\xff")]
    assert run(store.items.write(container, 0, keys, decide)) == "told"
    (view,) = seen
    assert view.rows == {keys[0]: there, keys[1]: None, keys[2]: None}
    assert view.unique_key_owners == {}
    assert view.lsn == 2


def test_the_lsn_moves_with_changes_only(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    def refuse(view: View) -> Decision[None]:
        raise Conflict("no")

    (first,) = run(insert(store, container, "1"))
    run(store.items.write(container, 0, [], lambda view: Decision([], None)))
    with pytest.raises(Conflict, match="no"):
        run(store.items.write(container, 0, [], refuse))
    second = run(insert(store, container, "2", "3"))
    gone = run(
        store.items.write(container, 0, [], lambda view: Decision([Remove(first)], view.lsn))
    )
    assert [first.lsn, second[0].lsn, second[1].lsn, gone] == [1, 2, 2, 3]
    assert run(store.items.lsns(container)) == (3, 0)


def test_ranges_and_containers_count_alone(
    store: Stores, container: Container, unique_container: Container, run: Run[Any]
) -> None:
    for part, item_id in ((0, "1"), (1, "2"), (1, "3"), (1, "4")):
        run(insert(store, container, item_id, part=part))
    run(insert(store, unique_container, "1"))
    assert run(store.items.lsns(container)) == (1, 3)
    assert run(store.items.lsns(unique_container)) == (1, 0)
    assert run(store.items.read(container, 1, key("2"))) == (row(1, "2", part=1), 3)


def test_replace_and_remove(store: Stores, container: Container, run: Run[Any]) -> None:
    (old,) = run(insert(store, container, "1"))
    new = old._replace(id="2", ts=200, ttl=5, lsn=2, etag='"x"', size=9, terms=0, body=b'{"a":1}')
    run(store.items.write(container, 0, [old.key], lambda view: Decision([Put(new, old)], None)))
    assert run(scanned(store, container, Search())) == [new]
    assert run(store.items.read(container, 0, old.key)) == (None, 2)
    run(store.items.write(container, 0, [new.key], lambda view: Decision([Remove(new)], None)))
    assert run(scanned(store, container, Search())) == []
    assert run(store.items.read(container, 0, new.key)) == (None, 3)


def test_all_changes_of_a_decision_or_none(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    (old,) = run(insert(store, container, "1"))

    def decide(view: View) -> Decision[None]:
        clash = row(view.lsn, "1", position=1)  # the key of an item that is there
        return Decision([Put(row(view.lsn, "2")), Put(clash)], None)

    with pytest.raises(ServiceUnavailable):
        run(store.items.write(container, 0, [], decide))
    assert run(scanned(store, container, Search())) == [old]
    assert run(store.items.lsns(container)) == (1, 0)


# Unique entries ---------------------------------------------------------------------------------


def test_a_claim_is_asked_for_twice(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    """First without holders, then with the holder of each entry claimed."""
    seen: list[dict[bytes, Row | None]] = []
    first = run(store.items.write(unique_container, 0, [], reserving("1", b"x", b"y", seen=seen)))
    assert seen == [{}, {b"x": None, b"y": None}]
    seen.clear()
    with pytest.raises(Conflict):
        run(store.items.write(unique_container, 0, [], reserving("2", b"z", b"y", seen=seen)))
    assert seen == [{}, {b"z": None, b"y": first}]


def test_a_decision_without_claims_is_asked_once(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    seen: list[dict[bytes, Row | None]] = []
    run(store.items.write(unique_container, 0, [], reserving("1", seen=seen)))
    assert seen == [{}]


def test_a_second_thought_may_claim_more(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    seen: list[dict[bytes, Row | None]] = []

    def decide(view: View) -> Decision[None]:
        seen.append(dict(view.unique_key_owners))
        entries = (b"x", b"y") if b"x" in view.unique_key_owners else (b"x",)
        return Decision([Put(row(view.lsn, "1"), None, entries)], None)

    run(store.items.write(unique_container, 0, [], decide))
    assert seen == [{}, {b"x": None}, {b"x": None, b"y": None}]


@pytest.mark.parametrize("is_heavy", [False, True])
def test_a_refusal_learns_who_holds_what_it_relies_on(
    store: Stores, unique_container: Container, run: Run[Any], is_heavy: bool
) -> None:
    """It writes nothing, and is asked again all the same; in the thread it is as on the loop."""
    holder = run(store.items.write(unique_container, 0, [], reserving("1", b"x")))
    seen: list[dict[bytes, Row | None]] = []

    def decide(view: View) -> Decision[str]:
        seen.append(dict(view.unique_key_owners))
        return Decision((), "refused", (b"x", b"y"))

    told = run(store.items.write(unique_container, 0, [], decide, is_heavy=is_heavy))
    assert told == "refused"
    assert seen == [{}, {b"x": holder, b"y": None}]
    assert run(store.items.lsns(unique_container))[0] == holder.lsn


def test_changes_of_one_item_are_applied_in_order(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    def decide(view: View) -> Decision[Row]:
        made = row(view.lsn, "1")
        renamed = made._replace(id="2")
        again = row(view.lsn, "1", position=1)
        changes: list[Put | Remove] = [
            Put(made, None, (b"x",)),
            Put(renamed, made, (b"y",)),
            Put(again, None, (b"x",)),
            Remove(renamed),
        ]
        return Decision(changes, again)

    left = run(store.items.write(unique_container, 0, [], decide, is_heavy=True))
    assert run(scanned(store, unique_container, Search())) == [left]
    assert run(store.items.lsns(unique_container))[0] == left.lsn
    with pytest.raises(Conflict):
        run(store.items.write(unique_container, 0, [], reserving("3", b"x")))
    run(store.items.write(unique_container, 0, [], reserving("3", b"y")))


def test_entries_are_freed_by_replace_and_remove(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    def claim(item_id: str, *entries: bytes) -> Row:
        made: Row = run(store.items.write(unique_container, 0, [], reserving(item_id, *entries)))
        return made

    first = claim("1", b"x", b"y")
    changed = first._replace(lsn=2)
    put = Put(changed, first, (b"y", b"z"))
    run(store.items.write(unique_container, 0, [], lambda view: Decision([put], None)))
    second = claim("2", b"x")
    for entry in (b"x", b"y", b"z"):
        with pytest.raises(Conflict):
            claim("3", entry)
    both = Decision([Remove(changed), Remove(second)], None)
    run(store.items.write(unique_container, 0, [], lambda view: both))
    claim("3", b"x", b"y", b"z")


def test_an_expired_owner_is_removed_in_the_same_transaction(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    expired: Row = run(store.items.write(unique_container, 0, [], reserving("1", b"x")))

    def decide(view: View) -> Decision[Row]:
        made = row(view.lsn, "2", position=1)
        holder = view.unique_key_owners.get(b"x")
        swept = [] if holder is None else [Remove(holder, expired=True)]
        return Decision([*swept, Put(made, None, (b"x",))], made)

    heir = run(store.items.write(unique_container, 0, [], decide))
    assert run(scanned(store, unique_container, Search())) == [heir]
    assert run(store.items.read_number(unique_container, expired.number)) is None


def test_two_holders_cannot_be(store: Stores, unique_container: Container, run: Run[Any]) -> None:
    """Even a decision that does not look is stopped, and undone as a whole."""
    run(store.items.write(unique_container, 0, [], reserving("1", b"x")))
    with pytest.raises(ServiceUnavailable):
        run(
            store.items.write(
                unique_container,
                0,
                [],
                lambda view: Decision([Put(row(view.lsn, "2"), None, (b"x",))], None),
            )
        )
    assert run(ids_in(store, unique_container)) == ["1"]


def test_claims_of_a_failed_job_are_free(
    store: Stores, unique_container: Container, run: Run[Any]
) -> None:
    def clash(view: View) -> Decision[None]:
        puts = [Put(row(view.lsn, "2"), None, (b"y",)), Put(row(view.lsn, "1", position=1))]
        return Decision(puts, None)

    run(store.items.write(unique_container, 0, [], reserving("1", b"x")))
    with pytest.raises(ServiceUnavailable):
        run(store.items.write(unique_container, 0, [], clash))
    run(store.items.write(unique_container, 0, [], reserving("3", b"y")))


# Scans ------------------------------------------------------------------------------------------


@pytest.fixture
def filled(store: Stores, container: Container, run: Run[Any]) -> Container:
    """Ten items: a0 to a5 in range 0, b0 to b3 in range 1, with hashes 00, 10, 20 …"""
    for number in range(6):
        pk = b"\x08a\xff" if number < 4 else b"\x08ab\xff"
        run(insert(store, container, f"a{number}", pk=pk, epk=bytes([number << 4]), ts=number * 10))
    for number in range(4):
        ttl = [None, -1, 5, 50][number]
        epk = bytes([0x60 + (number << 4)])
        pk = b"\x08b\xff\x08%d\xff" % number
        run(insert(store, container, f"b{number}", part=1, pk=pk, epk=epk, ts=100, ttl=ttl))
    return container


A, B = [f"a{number}" for number in range(6)], [f"b{number}" for number in range(4)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, A + B),
        ({"limit": 3}, A[:3]),
        ({"limit": 8}, A + B[:2]),
        ({"range_index": 0}, A),
        ({"range_index": 1}, B),
        ({"range_index": 1, "limit": 1}, B[:1]),
        ({"after": item_number(0, 3, 0)}, A[3:] + B),
        ({"after": item_number(0, 3, 0) - 1}, A[2:] + B),
        ({"after": item_number(0, 6, 0)}, B),
        ({"after": item_number(0, 3, 0), "range_index": 1}, B),
        ({"after": item_number(1, 4, 0)}, []),
        ({"pk_prefix": b"\x08a\xff"}, A[:4]),
        ({"pk_prefix": b"\x08ab\xff"}, A[4:]),
        ({"pk_prefix": b"\x08a"}, []),
        ({"pk_prefix": b"\x08a\xff", "after": item_number(0, 2, 0)}, A[2:4]),
        ({"pk_prefix": b"\x08a\xff", "range_index": 1}, []),
        ({"pk_prefix": b"\x08b\xff", "is_prefix": True}, B),
        ({"pk_prefix": b"\x08b\xff\x082\xff", "is_prefix": True}, B[2:3]),
        ({"pk_prefix": b"", "is_prefix": True}, A + B),
        ({"pk_prefix": b"\x08b\xff"}, []),
        ({"epk_min": b"\x20"}, A[2:] + B),
        ({"epk_max": b"\x20"}, A[:2]),
        ({"epk_min": b"\x20", "epk_max": b"\x70"}, A[2:] + B[:1]),
        ({"epk_min": b"\x20", "epk_max": b"\x20"}, []),
        ({"epk_min": b"\x1f\xff", "epk_max": b"\x20\x00"}, A[2:3]),
        ({"epk_min": b"\x20", "epk_max": b"\x70", "range_index": 1}, B[:1]),
        ({"cutoff": NOTHING_EXPIRED}, A + B),
        ({"cutoff": Cutoff(inherited=20, own=0)}, A[3:] + B),
        ({"cutoff": Cutoff(inherited=-(2**62), own=104)}, A + B),
        ({"cutoff": Cutoff(inherited=-(2**62), own=105)}, [*A, B[0], B[1], B[3]]),
        ({"cutoff": Cutoff(inherited=100, own=200)}, [B[1]]),
        ({"cutoff": Cutoff(inherited=20, own=0), "limit": 2}, A[3:5]),
        ({"cutoff": Cutoff(inherited=100, own=200), "range_index": 0}, []),
    ],
)
def test_scan(
    store: Stores,
    filled: Container,
    run: Run[Any],
    options: dict[str, Any],
    expected: list[str],
) -> None:
    assert run(ids_in(store, filled, **options)) == expected


@pytest.mark.parametrize(
    ("max_bytes", "count"),
    [(0, 1), (1, 1), (99, 1), (100, 1), (199, 1), (200, 2), (299, 2), (300, 3), (1000, 5)],
)
def test_scan_stops_before_too_many_bytes(
    store: Stores, container: Container, run: Run[Any], max_bytes: int, count: int
) -> None:
    """But never with nothing, or no reader would get past a large item."""
    body = b'{"v":"' + b"x" * 92 + b'"}'
    for number in range(5):
        run(insert(store, container, str(number), body=body))
    assert len(body) == 100
    assert len(run(scanned(store, container, Search(max_bytes=max_bytes)))) == count


def test_scans_run_side_by_side(store: Stores, filled: Container, run: Run[Any]) -> None:
    async def work() -> list[list[str]]:
        return await asyncio.gather(*[ids_in(store, filled) for _ in range(20)])

    assert run(work()) == [A + B] * 20


@pytest.mark.parametrize(
    ("part", "cutoff", "living", "expired"),
    [
        (0, NOTHING_EXPIRED, 6, 0),
        (1, NOTHING_EXPIRED, 4, 0),
        (0, Cutoff(inherited=20, own=0), 3, 3),
        (1, Cutoff(inherited=20, own=105), 3, 1),
        (1, Cutoff(inherited=100, own=200), 1, 3),
        (0, Cutoff(inherited=2**40, own=2**40), 0, 6),
    ],
)
def test_usage(
    store: Stores,
    filled: Container,
    run: Run[Any],
    part: int,
    cutoff: Cutoff,
    living: int,
    expired: int,
) -> None:
    size = len(row(1, "a0").body)
    expected = StorageUsage(living, living * size, expired, expired * size)
    assert run(store.items.usage(filled, part, cutoff)) == expected


def test_usage_follows_every_change(
    store: Stores, container: Container, run: Run[Any], home: Settings
) -> None:
    """Kept as a counter: inserts, updates, removals, failures, and over a restart."""

    def used() -> tuple[int, ...]:
        found: StorageUsage = run(store.items.usage(container, 0, NOTHING_EXPIRED))
        return found[:4]

    first, second = run(insert(store, container, "1", "2", body=b'{"v":1}'))
    assert used() == (2, 14, 0, 0)
    larger = Put(first._replace(lsn=2, body=b'{"v":123}', size=9), first)
    run(store.items.write(container, 0, [], lambda view: Decision([larger], None)))
    assert used() == (2, 16, 0, 0)
    with pytest.raises(ServiceUnavailable):
        run(insert(store, container, "3", "2", body=b'{"v":1}'))
    assert used() == (2, 16, 0, 0)
    run(store.items.write(container, 0, [], lambda view: Decision([Remove(second)], None)))
    assert used() == (1, 9, 0, 0)
    run(store.close())
    reopened = run(open_store(home))
    assert run(reopened.items.usage(container, 0, NOTHING_EXPIRED))[:4] == (1, 9, 0, 0)
    run(reopened.close())


# Metadata ---------------------------------------------------------------------------------------


def test_meta(store: Stores, run: Run[Any]) -> None:
    assert run(store.values.get("a")) is None
    for value in ("1", "", "é\n"):
        run(store.values.put("a", value))
        assert run(store.values.get("a")) == value
    assert run(store.values.get("b")) is None


def test_numbers_are_given_once(store: Stores, run: Run[Any]) -> None:
    async def take(series: str, count: int) -> list[int]:
        return await asyncio.gather(*[store.metadata.next_number(series) for _ in range(count)])

    assert sorted(run(take("x", 50))) == list(range(1, 51))
    assert run(take("y", 1)) == [1]
    assert run(take("x", 1)) == [51]


def test_resources_in_order_of_creation(store: Stores, run: Run[Any]) -> None:
    b, a, c = resource("b"), resource("a"), resource("c")
    run(store.metadata.change([PutResource(b), PutResource(a)]))
    run(store.metadata.change([PutResource(c)]))
    changed = a._replace(etag='"2"', id="new", ts=9, state={})
    run(store.metadata.change([PutResource(changed, replaces='"1"')]))
    assert run(store.metadata.resources()) == [b, changed, c]
    run(store.metadata.change([RemoveResource(b)]))
    assert run(store.metadata.resources()) == [changed, c]


@pytest.mark.parametrize(
    "wrong",
    [
        PutResource(resource("a")),  # the rid is taken
        PutResource(resource("z", name="a")),  # the id is taken
        PutResource(resource("a", etag='"2"'), replaces='"0"'),
        PutResource(resource("none", etag='"2"'), replaces='"1"'),
        RemoveResource(resource("none")),
    ],
)
def test_a_stale_change_undoes_the_whole(
    store: Stores, run: Run[Any], wrong: PutResource | RemoveResource
) -> None:
    run(store.metadata.change([PutResource(resource("a"))]))
    with pytest.raises(StaleResource):
        run(
            store.metadata.change(
                [
                    PutResource(resource("b")),
                    PutResource(container_resource(9)),
                    wrong,
                    PutResource(resource("c")),
                ]
            )
        )
    assert run(store.metadata.resources()) == [resource("a")]
    run(store.metadata.change([PutResource(container_resource(9))]))  # its tables are not there yet


def test_same_id_under_another_parent_or_kind(store: Stores, run: Run[Any]) -> None:
    made = [
        resource("1", name="x"),
        resource("2", name="x", kind="user"),
        resource("3", name="x")._replace(parent="1"),
    ]
    run(store.metadata.change([PutResource(each) for each in made]))
    assert run(store.metadata.resources()) == made


def test_removing_a_container_removes_its_items(
    store: Stores, container: Container, unique_container: Container, run: Run[Any]
) -> None:
    run(insert(store, container, "1"))
    run(insert(store, unique_container, "1"))
    run(store.metadata.change([RemoveResource(container_resource(7))]))
    assert run(store.items.lsns(unique_container)) == (1, 0)
    assert run(ids_in(store, unique_container)) == ["1"]


def test_lsns_go_on_from_dropped_containers(
    store: Stores, container: Container, run: Run[Any]
) -> None:
    """So that no session token of an old container lies ahead of a new one."""
    for item_id in "123":
        run(insert(store, container, item_id, part=1))
    run(store.metadata.change([RemoveResource(container_resource(7))]))
    made = container_resource(9)
    run(store.metadata.change([PutResource(made)]))
    heir = build_container(made, DATABASE)
    assert run(scanned(store, heir, Search())) == []
    assert min(run(store.items.lsns(heir))) >= 3
    (first,) = run(insert(store, heir, "1"))
    assert first.lsn > 3


def test_everything_survives_reopening(home: Settings, run: Run[Any]) -> None:
    store = run(open_store(home))
    made = container_resource(8, unique=True)
    container = build_container(made, DATABASE)
    run(store.metadata.change([PutResource(made), PutResource(resource("a"))]))
    run(store.values.put("a", "1"))
    run(store.metadata.next_number("x"))
    rows = [
        run(store.items.write(container, 0, [], reserving(each, each.encode()))) for each in "123"
    ]
    before = run(store.metadata.resources())
    run(store.close())

    store = run(open_store(home))
    assert run(store.metadata.resources()) == before
    assert run(store.values.get("a")) == "1"
    assert run(store.metadata.next_number("x")) == 2
    assert run(store.items.lsns(container)) == (3, 0)
    assert run(scanned(store, container, Search())) == rows
    with pytest.raises(Conflict):
        run(store.items.write(container, 0, [], reserving("4", b"1")))
    (fourth,) = run(insert(store, container, "4"))
    assert fourth.lsn == 4
    run(store.close())
