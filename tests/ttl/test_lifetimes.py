"""Preview, guard, undo, hold, forecast, introspection, explanation, metrics and audit."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from perseid.server import opened
from perseid.service import containers, lifetimes
from perseid.store.protocol import Note
from tests.support.raw import RawClient, Reply
from tests.support.stores import Place
from tests.ttl.conftest import ABSENT, Shelf, Shelves, assert_gone, frozen_clock, serving
from tests.ttl.test_purge import Kept, container_at, set_default, stock

Figures = dict[str, Any]


def answer(reply: Reply) -> Figures:
    assert reply.status == 200, reply
    body: Figures = reply.json
    return body


def status(shelf: Shelf) -> Figures:
    return answer(shelf.raw.get(shelf.admin))


def preview(shelf: Shelf, default_ttl: int | None) -> Figures:
    return answer(shelf.raw.post(f"{shelf.admin}/preview", {"defaultTtl": default_ttl}))


def undo(shelf: Shelf) -> Figures:
    return answer(shelf.raw.post(f"{shelf.admin}/undo", {}))


def drain(shelf: Shelf) -> int:
    purged: int = answer(shelf.raw.post(f"{shelf.admin}/drain", {}))["purged"]
    return purged


def configure(shelf: Shelf, **settings: Any) -> Figures:
    return answer(shelf.raw.put(shelf.admin, settings))


def explain(shelf: Shelf, id_: str, **more: Any) -> Figures:
    body = {"id": id_, "partitionKey": ["p"], **more}
    return answer(shelf.raw.post(f"{shelf.admin}/explain", body))


def audit(shelf: Shelf) -> list[Figures]:
    entries: list[Figures] = answer(shelf.raw.get(f"{shelf.admin}/audit"))["entries"]
    return entries


def counted(shelf: Shelf) -> list[Figures]:
    """The log once each change has been counted: that happens after its answer."""
    for _ in range(2000):
        entries = audit(shelf)
        events = [entry["event"] for entry in entries]
        if 0 < events.count("policy") == events.count("figures"):
            return entries
    raise AssertionError("a change was never counted")


def ask(shelf: Shelf, path_and_query: str) -> Reply:
    """A GET below the container's lifetimes, with a query string, which is not signed."""
    url = f"{shelf.admin}/{path_and_query}"
    return shelf.raw.request("GET", url.partition("?")[0], raw_path=url)


def forecast(shelf: Shelf, bucket: str, count: int) -> Figures:
    return answer(ask(shelf, f"forecast?bucket={bucket}&count={count}"))


def version(shelf: Shelf) -> tuple[str, str, list[str]]:
    """Moves with any write: to the container, to its items' log, to the items."""
    reply = shelf.raw.get(shelf.path)
    etags = sorted(shelf.query("SELECT VALUE c._etag FROM c"))
    return reply.json["_etag"], reply.headers["x-ms-session-token"], etags


def stored(figures: Figures) -> tuple[int, int]:
    """Items and bytes on disk, by the figures of a status."""
    return (
        figures["live"]["items"] + figures["backlog"]["items"],
        figures["live"]["bytes"] + figures["backlog"]["bytes"],
    )


def family(shelves: Shelves, default_ttl: int | None) -> Shelf:
    """Six items written while TTL was off, then TTL set; the clock ends 60 s after the first.

    i* inherit, o* have their own ttl, n0 never ends, x0 has a ttl that is none.
    """
    shelf = shelves.make()
    start = shelves.now
    shelf.create("i0")
    shelf.create("o0", 50)
    shelf.create("n0", -1)
    shelf.create("x0", "soon")
    shelf.create("i1", at=start + 40)
    shelf.create("o1", 500)
    shelves.clock.set(start + 60)
    if default_ttl is not None:
        assert shelf.set_default(default_ttl).status == 200
    return shelf


EVERYBODY = {"i0", "o0", "n0", "x0", "i1", "o1"}

# the policy in force, the one proposed, who dies at once, how many become mortal and immortal
CHANGES = [
    (100, 10, {"i0", "x0", "i1"}, 0, 0),
    (100, 30, {"i0", "x0"}, 0, 0),
    (100, 60, {"i0", "x0"}, 0, 0),  # the very second
    (100, 61, set(), 0, 0),
    (100, 100, set(), 0, 0),
    (100, 1000, set(), 0, 0),
    (100, -1, set(), 0, 3),
    (100, None, set(), 0, 4),
    (-1, 100, set(), 3, 0),
    (-1, 10, {"i0", "x0", "i1"}, 0, 0),
    (-1, 30, {"i0", "x0"}, 1, 0),
    (-1, None, set(), 0, 1),
    (None, -1, {"o0"}, 1, 0),
    (None, 30, {"i0", "x0", "o0"}, 2, 0),
    (None, 1000, {"o0"}, 4, 0),
]


# T-302: preview


@pytest.mark.parametrize(("old", "new", "dying", "mortal", "immortal"), CHANGES)
def test_preview_tells_what_the_change_then_does(
    shelves: Shelves,
    old: int | None,
    new: int | None,
    dying: set[str],
    mortal: int,
    immortal: int,
) -> None:
    shelf = family(shelves, old)
    alive, before = shelf.seen(*EVERYBODY), status(shelf)
    told = preview(shelf, new)
    assert told["asOf"] == shelves.now
    assert (told["defaultTtl"], told["proposedDefaultTtl"]) == (old, new)
    assert told["diesNow"]["items"] == len(dying)
    assert told["becomesMortal"] == mortal
    assert told["becomesImmortal"] == immortal
    assert told["backlog"] == before["backlog"]
    assert told["invalidTtl"] == 1
    assert {each["id"] for each in told["sample"]} == dying
    stamps = [explain(shelf, id_)["_ts"] for id_ in dying]
    assert told["diesNow"]["oldestTs"] == min(stamps, default=None)
    assert told["diesNow"]["newestTs"] == max(stamps, default=None)

    assert shelf.set_default(ABSENT if new is None else new).status == 200
    after = status(shelf)
    assert shelf.seen(*EVERYBODY) == alive - dying
    assert told["diesNow"]["bytes"] == before["live"]["bytes"] - after["live"]["bytes"]
    assert sum(bar["items"] for bar in told["histogram"]) == after["mortal"]["items"]
    assert sum(bar["bytes"] for bar in told["histogram"]) == after["mortal"]["bytes"]


@pytest.mark.parametrize("new", [5, -1, None])
def test_preview_changes_nothing(shelves: Shelves, new: int | None) -> None:
    shelf = family(shelves, 100)
    counted(shelf)
    before = (status(shelf), version(shelf), audit(shelf), shelf.seen(*EVERYBODY))
    preview(shelf, new)
    assert (status(shelf), version(shelf), audit(shelf), shelf.seen(*EVERYBODY)) == before


def test_preview_of_a_histogram_matches_the_deaths(shelves: Shelves) -> None:
    """Bars are (from, to]: move the clock to each end and count."""
    shelf = family(shelves, None)
    bars = preview(shelf, 200)["histogram"]
    shelf.set_default(200)
    left = shelf.counted()
    for bar in bars:
        assert bar["from"] < bar["to"]
        shelves.clock.set(bar["to"])
        left -= bar["items"]
        assert shelf.counted() == left
    assert status(shelf)["mortal"]["items"] == 0


def test_preview_ignores_those_dead_of_an_earlier_policy(shelves: Shelves) -> None:
    """Growing the default does not bring them back, so they are in no bar and die only once."""
    shelf = shelves.make(10)
    shelf.create("dead")
    shelf.clock.advance(10)
    shelf.create("alive")
    told = preview(shelf, 1000)
    assert (told["diesNow"]["items"], told["backlog"]["items"]) == (0, 1)
    assert sum(bar["items"] for bar in told["histogram"]) == 1
    shelf.set_default(1000)
    assert preview(shelf, 5)["diesNow"]["items"] == 0
    assert preview(shelf, 5)["backlog"]["items"] == 1


def test_preview_samples_a_few_of_many(shelves: Shelves) -> None:
    shelf = shelves.make(-1)
    for number in range(25):
        shelf.create(f"a{number:02}")
    shelf.clock.advance(60)
    told = preview(shelf, 60)
    assert told["diesNow"]["items"] == 25
    assert len(told["sample"]) == 10
    assert told["sample"][0].keys() == {"id", "partitionKey", "_ts", "ttl"}
    assert told["sample"][0]["partitionKey"] == ["p"]


@pytest.mark.parametrize("body", [{}, {"defaultttl": 5}])
def test_preview_needs_a_proposal(shelves: Shelves, body: Figures) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.post(f"{shelf.admin}/preview", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


@pytest.mark.parametrize("value", [0, -2, 1.5, "5", 2**31])
def test_preview_refuses_what_a_change_would_refuse(shelves: Shelves, value: Any) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.post(f"{shelf.admin}/preview", {"defaultTtl": value})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "The input defaultTtl" in reply.json["message"]


@pytest.mark.parametrize(
    ("method", "tail"),
    [
        ("GET", ""), ("PUT", ""), ("POST", "/preview"), ("GET", "/forecast"), ("POST", "/explain"),
        ("POST", "/undo"), ("POST", "/drain"), ("GET", "/audit"),
    ],
)  # fmt: skip
def test_routes_of_a_container_that_is_not_there(
    shelves: Shelves, raw: RawClient, method: str, tail: str
) -> None:
    database = shelves.database.removeprefix("/dbs/")
    body = {"defaultTtl": 5, "id": "a", "partitionKey": ["p"]} if method == "POST" else {}
    reply = raw.request(method, f"/_perseid/ttl/{database}/nobody{tail}", body)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")
    unsigned = raw.request(method, f"/_perseid/ttl/{database}/nobody{tail}", body, sign_with=None)
    assert unsigned.status == 401


# T-303: preview of one item


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl"),
    [(100, 30), (100, 300), (-1, 30), (100, -1), (-1, -1), (ABSENT, 30)],
)
def test_the_proposed_end_is_the_observed_one(
    shelves: Shelves, default_ttl: Any, item_ttl: int
) -> None:
    shelf = shelves.make(default_ttl)
    shelf.create("a")
    shelf.clock.advance(7)
    told = explain(shelf, "a", ttl=item_ttl)["proposed"]
    assert told["ttl"] == item_ttl
    assert shelf.replace("a", shelf.body("a", item_ttl)).status == 200
    if told["expiresAt"] is None:
        shelf.clock.advance(10_000)
        assert shelf.read("a").status == 200
        return
    shelf.clock.set(told["expiresAt"] - 1)
    assert shelf.read("a").status == 200
    shelf.clock.advance(1)
    assert_gone(shelf.read("a"))


@pytest.mark.parametrize("value", [0, -2, 1.5, "5", None, True, 2**31])
def test_a_proposal_must_be_a_ttl(shelves: Shelves, value: Any) -> None:
    shelf = shelves.make(100)
    shelf.create("a")
    body = {"id": "a", "partitionKey": ["p"], "ttl": value}
    reply = shelf.raw.post(f"{shelf.admin}/explain", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "The input ttl" in reply.json["message"]


# T-304: the guard


def crowd(shelves: Shelves, size: int = 4) -> Shelf:
    """So many items, 60 seconds old, immortal so far."""
    shelf = shelves.make(-1)
    for number in range(size):
        shelf.create(f"a{number}")
    shelf.clock.advance(60)
    return shelf


def change(shelf: Shelf, default_ttl: int | None, **headers: str) -> Reply:
    """Replaces the container with another defaultTtl, nothing else sent along."""
    body = shelf.definition() | {"defaultTtl": default_ttl}
    return shelf.raw.put(shelf.path, body, **headers)


@pytest.mark.parametrize(
    ("guard", "is_refused"),
    [
        ("0", True), ("3", True), ("4", False), ("500", False),
        ("0%", True), ("50%", True), ("99.9%", True), ("100%", False), (3, True), (None, False),
    ],
)  # fmt: skip
def test_the_guard_of_a_container(shelves: Shelves, guard: Any, is_refused: bool) -> None:
    """Four of four would die."""
    shelf = crowd(shelves)
    configure(shelf, guard=guard)
    told = preview(shelf, 30)
    reply = change(shelf, 30)
    if not is_refused:
        assert reply.status == 200
        assert shelf.counted() == 0
        return
    assert (reply.status, reply.json["code"]) == (412, "PreconditionFailed")
    assert reply.json["preview"] == told
    assert "would end 4 items at once" in reply.json["message"]
    assert shelf.counted() == 4
    assert shelf.definition()["defaultTtl"] == -1
    assert status(shelf)["policyChanges"] == 0
    assert not [entry for entry in audit(shelf) if entry["event"] == "policy"]


def test_a_percentage_is_of_the_living(shelves: Shelves) -> None:
    """Two would die of the four living; two more are dead already and count for nothing."""
    shelf = shelves.make(-1)
    for id_ in ("d0", "d1"):
        shelf.create(id_, 5)
    for id_ in ("a0", "a1"):
        shelf.create(id_)
    shelf.clock.advance(60)
    for id_ in ("b0", "b1"):
        shelf.create(id_)
    configure(shelf, guard="49%")
    assert change(shelf, 30).status == 412
    configure(shelf, guard="50%")
    assert change(shelf, 30).status == 200


@pytest.mark.parametrize("default_ttl", [61, 1000, -1, None])
def test_the_guard_lets_harmless_changes_pass(shelves: Shelves, default_ttl: int | None) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    assert change(shelf, default_ttl).status == 200


def test_the_guard_lets_other_replaces_pass(shelves: Shelves) -> None:
    """Only a change of defaultTtl is judged, not what time kills under the present one."""
    shelf = shelves.make(10)
    shelf.create("a")
    configure(shelf, guard="0")
    shelf.clock.advance(10)
    assert change(shelf, 10).status == 200


def test_switching_on_is_guarded_too(shelves: Shelves) -> None:
    shelf = shelves.make()
    shelf.create("a", 5)
    shelf.clock.advance(5)
    configure(shelf, guard="0")
    assert change(shelf, -1).status == 412
    assert shelf.read("a").status == 200


@pytest.mark.parametrize("source", ["preview", "refusal"])
def test_the_confirmation_token_opens_the_guard(shelves: Shelves, source: str) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    told = preview(shelf, 30) if source == "preview" else change(shelf, 30).json["preview"]
    assert change(shelf, 30, x_perseid_confirm=told["confirmationToken"]).status == 200
    assert shelf.counted() == 0


def tampered(token: str) -> str:
    return ("A" if token[0] != "A" else "B") + token[1:]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda shelf: preview(shelf, 31)["confirmationToken"],
        lambda shelf: preview(shelf, None)["confirmationToken"],
        lambda shelf: tampered(preview(shelf, 30)["confirmationToken"]),
        lambda shelf: "yes",
        lambda shelf: "",
    ],
    ids=["other value", "off", "tampered", "word", "empty"],
)
def test_another_token_does_not_open_it(shelves: Shelves, wrong: Callable[[Shelf], str]) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    reply = change(shelf, 30, x_perseid_confirm=wrong(shelf))
    assert reply.status in (400, 412)
    assert shelf.counted() == 4
    assert shelf.definition()["defaultTtl"] == -1


def test_a_token_is_for_one_container_and_one_state_of_it(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    configure(shelf, guard="0")
    other = shelves.make(-1, name="other")
    foreign = preview(other, 30)["confirmationToken"]
    assert change(shelf, 30, x_perseid_confirm=foreign).status in (400, 412)
    stale = preview(shelf, 30)["confirmationToken"]
    assert change(shelf, 1000).status == 200
    assert change(shelf, 30, x_perseid_confirm=stale).status in (400, 412)
    assert shelf.counted() == 4


@pytest.mark.parametrize("guard", ["", "-1", "ten", "10 %", "%", "1e3", "500%%", True, [], {}])
def test_guards_that_are_none(shelves: Shelves, guard: Any) -> None:
    shelf = shelves.make(-1)
    reply = shelf.raw.put(shelf.admin, {"guard": guard})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert status(shelf)["guard"] is None


def test_the_guard_is_off_by_default(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    assert status(shelf)["guard"] is None
    assert change(shelf, 1).status == 200


def test_the_guard_of_the_server(place: Place) -> None:
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, expiry_guard="2"), clock) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        shelves = Shelves(raw, clock, "/dbs/d")
        shelf = crowd(shelves)
        refusal = change(shelf, 30)
        assert refusal.status == 412
        assert refusal.json["preview"]["diesNow"]["items"] == 4
        # A container's own guard goes before the server's.
        configure(shelf, guard="4")
        assert change(shelf, 30).status == 200


def test_the_guard_stays_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"))
        configure(shelf, guard="3", purgeHoldSeconds=60)
        token = preview(shelf, 30)["confirmationToken"]
    with serving(settings, clock) as raw:
        again = replace(shelf, raw=raw)
        assert (status(again)["guard"], status(again)["purgeHoldSeconds"]) == ("3", 60)
        assert change(again, 30).status == 412
        assert change(again, 30, x_perseid_confirm=token).status == 200


# T-305: undo


@pytest.mark.parametrize(("old", "new", "dying", "mortal", "immortal"), CHANGES)
def test_undo_before_the_purge_brings_all_back(
    shelves: Shelves,
    old: int | None,
    new: int | None,
    dying: set[str],
    mortal: int,
    immortal: int,
) -> None:
    if old == new:
        return
    shelf = family(shelves, old)
    alive, before = shelf.seen(*EVERYBODY), status(shelf)
    lsn = version(shelf)[1]
    assert change(shelf, new).status == 200
    told = undo(shelf)
    assert shelf.seen(*EVERYBODY) == alive
    assert told["defaultTtl"] == old
    assert told["revived"]["items"] == len(dying)
    assert told["alreadyPurged"] == 0
    assert shelf.definition().get("defaultTtl") == old
    assert version(shelf)[1] == lsn  # no item was written
    after = status(shelf)
    for name in ("live", "mortal", "immortal", "backlog", "nextExpiry"):
        assert after[name] == before[name]


def test_undo_tells_who_is_gone_for_good(shelves: Shelves) -> None:
    """Three die at once and are removed, one dies later and is still there."""
    shelf = crowd(shelves, 3)
    shelf.create("young")
    change(shelf, 30)
    assert drain(shelf) == 3
    shelf.clock.advance(30)
    assert shelf.seen("young") == set()
    told = undo(shelf)
    assert told["revived"]["items"] == 1
    assert told["alreadyPurged"] == 3
    assert shelf.seen("a0", "a1", "a2", "young") == {"young"}


@pytest.mark.parametrize("keeping", [{}, {"changeFeedPolicy": {"retentionDuration": 60}}])
def test_undo_tells_who_was_removed_by_requests(shelves: Shelves, keeping: dict[str, Any]) -> None:
    """T-305: an id that is taken anew, a partition that is cleared; but not for those whom their
    own lifetime had ended anyway."""
    shelf = shelves.make(-1, **keeping)
    for id_ in ("again", "over", "left"):
        shelf.create(id_)
    shelf.create("ended", 5)
    for id_ in ("x", "y"):
        shelf.create(id_, pk="q")
    shelf.create("z", 5, pk="q")
    shelf.clock.advance(10)
    change(shelf, 5)
    shelf.create("again")
    assert shelf.post(shelf.body("over"), upsert="true").status == 201
    shelf.create("ended")
    path = f"{shelf.path}/operations/partitionkeydelete"
    key = {"x-ms-documentdb-partitionkey": '["q"]'}
    assert shelf.raw.request("POST", path, headers=key).status == 200
    told = undo(shelf)
    assert (told["revived"]["items"], told["alreadyPurged"]) == (1, 4)


def test_undo_counts_those_who_died_and_went_after_the_change(shelves: Shelves) -> None:
    """Nobody dies in the second of the change; two do later because of it, and are removed."""
    shelf = shelves.make(1000)
    for id_ in ("a", "b"):
        shelf.create(id_)
    change(shelf, 10)
    shelf.clock.advance(10)
    assert drain(shelf) == 2
    told = undo(shelf)
    assert told["revived"]["items"] == 0
    assert told["alreadyPurged"] == 2


def test_undo_does_not_wake_those_dead_before_the_change(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("before")
    shelf.clock.advance(10)
    shelf.create("after")
    shelf.clock.advance(5)
    change(shelf, 5)
    assert shelf.seen("before", "after") == set()
    assert undo(shelf)["revived"]["items"] == 1
    assert shelf.seen("before", "after") == {"after"}
    shelf.clock.advance(5)
    assert shelf.seen("before", "after") == set()


def test_undo_needs_an_index(shelves: Shelves) -> None:
    """T-166: off together with the index; the default comes back only after the index has."""
    shelf = shelves.make(10)
    body = shelf.definition()
    del body["defaultTtl"]
    bare = body | {"indexingPolicy": {"indexingMode": "none", "automatic": False}}
    assert shelf.raw.put(shelf.path, bare).status == 200
    reply = shelf.raw.post(f"{shelf.admin}/undo", {})
    assert reply.status == 400
    assert "Indexing mode value cannot be 'none'" in reply.json["message"]
    assert "defaultTtl" not in shelf.definition()
    assert shelf.raw.put(shelf.path, body).status == 200
    undo(shelf)
    assert shelf.definition()["defaultTtl"] == 10


def test_undo_goes_one_step(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    change(shelf, 20)
    change(shelf, 30)
    assert undo(shelf)["defaultTtl"] == 20
    reply = shelf.raw.post(f"{shelf.admin}/undo", {})
    assert (reply.status, reply.json["code"]) == (409, "Conflict")
    assert shelf.definition()["defaultTtl"] == 20
    change(shelf, 40)
    assert undo(shelf)["defaultTtl"] == 20


def test_nothing_to_undo(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    change(shelf, 10)  # the same value is no change
    reply = shelf.raw.post(f"{shelf.admin}/undo", {})
    assert (reply.status, reply.json["code"]) == (409, "Conflict")


def test_undo_gives_the_container_a_new_etag(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    change(shelf, 20)
    changed = shelf.raw.get(shelf.path).json["_etag"]
    undo(shelf)
    assert shelf.raw.get(shelf.path).json["_etag"] != changed
    stale = shelf.raw.put(shelf.path, shelf.definition(), if_match=changed)
    assert stale.status == 412


def test_undo_survives_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"), 3)
        change(shelf, 30)
    with serving(settings, clock) as raw:
        again = replace(shelf, raw=raw)
        assert undo(again)["revived"]["items"] == 3
    with serving(settings, clock) as raw:
        again = replace(shelf, raw=raw)
        assert again.counted() == 3
        assert raw.post(f"{again.admin}/undo", {}).status == 409


def test_undo_before_the_change_is_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count comes after the answer. Until then nothing is removed, so the answer is 0."""

    async def scenario() -> Figures:
        clock = frozen_clock()
        async with container_at(place.fresh(), clock, -1) as (account, container):
            long_ago = int(clock.now()) - 100
            await stock(account, container, [Kept(f"a{n}", long_ago) for n in range(3)])
            gate = asyncio.Event()
            write = account.store.change

            async def held_up(changes: Sequence[Any]) -> None:
                if any(isinstance(c, Note) and c.entry["event"] == "figures" for c in changes):
                    await gate.wait()
                await write(changes)

            monkeypatch.setattr(account.store, "change", held_up)
            await set_default(account, 50)
            undone = asyncio.create_task(
                lifetimes.undo(account, container.rid, "primary", None, clock.now())
            )
            await asyncio.wait((undone,), timeout=1)  # it may choose to wait for the count
            gate.set()
            await asyncio.gather(*account.background)
            return await undone

    told = asyncio.run(scenario())
    assert (told["revived"]["items"], told["alreadyPurged"]) == (3, 0)


def test_undo_does_not_take_the_figures_of_an_earlier_change(place: Place) -> None:
    """The server dies before a change is counted: what the last one killed is not this one's."""
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"), 3)
        change(shelf, 30)  # counts three
        assert drain(shelf) == 3
        shelf.create("young")

    async def change_and_die() -> None:
        async with opened(settings, clock) as account:
            body = {**account.catalog.container("d", "c").properties, "defaultTtl": 40}
            await containers.replace(account, "d", "c", body, if_match=None, now=clock.now())
            for counting in account.background:
                counting.cancel()
            await asyncio.gather(*account.background, return_exceptions=True)

    asyncio.run(change_and_die())
    with serving(settings, clock) as raw:
        assert undo(replace(shelf, raw=raw))["alreadyPurged"] in (0, None)


# T-306: hold


def test_hold_keeps_the_dead_on_disk(shelves: Shelves) -> None:
    shelf = shelves.make(-1)
    assert configure(shelf, purgeHoldSeconds=60)["purgeHoldSeconds"] == 60
    shelf.create("a", 10)
    start = shelves.now
    for second in (10, 11, 40, 69):
        shelf.clock.set(start + second)
        assert_gone(shelf.read("a"))  # visibility is not affected
        assert drain(shelf) == 0
        assert status(shelf)["backlog"]["items"] == 1
    shelf.clock.set(start + 70)
    assert drain(shelf) == 1
    assert status(shelf)["backlog"]["items"] == 0


@pytest.mark.parametrize(
    ("old", "new", "killed"), [(-1, 30, 4), (None, 30, 4), (1000, 30, 4), (1000, 60, 4)]
)
def test_hold_counts_from_the_change_that_killed(
    shelves: Shelves, old: int | None, new: int, killed: int
) -> None:
    shelf = crowd(shelves)
    change(shelf, old)
    configure(shelf, purgeHoldSeconds=60)
    change(shelf, new)
    assert status(shelf)["backlog"]["items"] == killed
    shelf.clock.advance(59)
    assert drain(shelf) == 0
    assert undo(shelf)["revived"]["items"] == killed
    assert shelf.counted() == killed
    change(shelf, new)
    shelf.clock.advance(60)
    assert drain(shelf) == killed


def test_hold_keeps_through_a_second_change(shelves: Shelves) -> None:
    """Switching off within the hold does not set free what the first change killed."""
    shelf = crowd(shelves)
    configure(shelf, purgeHoldSeconds=60)
    change(shelf, 30)
    shelf.clock.advance(30)
    change(shelf, None)
    shelf.clock.advance(29)
    assert drain(shelf) == 0
    shelf.clock.advance(31)
    assert drain(shelf) == 4


def test_a_hold_counts_from_the_change_however_it_is_set(shelves: Shelves) -> None:
    """Longer, shorter or set only afterwards: those whom the change killed have it in full."""
    shelf = crowd(shelves)
    shelf.clock.advance(5000)  # who was written so long ago would have died before any hold
    change(shelf, 30)
    shelf.clock.advance(10)
    configure(shelf, purgeHoldSeconds=60)
    assert drain(shelf) == 0
    shelf.clock.advance(49)
    configure(shelf, purgeHoldSeconds=1000)
    shelf.clock.advance(900)
    assert drain(shelf) == 0
    assert undo(shelf)["revived"]["items"] == 4
    change(shelf, 30)
    configure(shelf, purgeHoldSeconds=60)
    shelf.clock.advance(59)
    assert drain(shelf) == 0
    shelf.clock.advance(1)
    assert drain(shelf) == 4


def test_an_undo_leaves_the_hold_to_those_who_stay_dead(shelves: Shelves) -> None:
    """Two changes kill, the second is undone: those of the first are held as before."""
    shelf = crowd(shelves)
    shelf.clock.advance(5000)
    shelf.create("young")
    configure(shelf, purgeHoldSeconds=60)
    change(shelf, 30)
    shelf.clock.advance(5)
    change(shelf, 2)
    assert undo(shelf)["revived"]["items"] == 1
    assert drain(shelf) == 0
    assert status(shelf)["backlog"]["items"] == 4
    shelf.clock.advance(60)
    assert drain(shelf) == 4


def test_whom_an_undo_kills_is_held(shelves: Shelves) -> None:
    """Back from off to a default: whoever is too old by now has just died."""
    shelf = shelves.make(30)
    configure(shelf, purgeHoldSeconds=60)
    shelf.create("a")
    change(shelf, None)
    shelf.clock.advance(1000)
    undo(shelf)
    assert_gone(shelf.read("a"))
    shelf.clock.advance(59)
    assert drain(shelf) == 0
    shelf.clock.advance(1)
    assert drain(shelf) == 1


def test_nobody_who_was_revived_is_removed(place: Place) -> None:
    """T-122 with a hold: what could be removed before the change may be alive after it."""
    clock = frozen_clock()
    with serving(place.fresh(no_sweeper=True, revive_unpurged=True), clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = Shelves(raw, clock, "/dbs/d").make(10)
        configure(shelf, purgeHoldSeconds=60)
        shelf.create("a")
        clock.advance(100)
        change(shelf, None)
        assert shelf.seen("a") == {"a"}
        assert drain(shelf) == 0
        assert shelf.seen("a") == {"a"}


def test_hold_ends_when_it_is_lifted(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    configure(shelf, purgeHoldSeconds=1000)
    shelf.create("a")
    shelf.clock.advance(10)
    assert drain(shelf) == 0
    configure(shelf, purgeHoldSeconds=0)
    assert drain(shelf) == 1


def test_recreating_is_possible_during_the_hold(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    configure(shelf, purgeHoldSeconds=1000)
    shelf.create("a")
    shelf.clock.advance(10)
    shelf.create("a")
    figures = status(shelf)
    assert (figures["live"]["items"], figures["backlog"]["items"]) == (1, 0)


@pytest.mark.parametrize("seconds", [-1, 1.5, "60", True, None, 2**31 + 1])
def test_holds_that_are_none(shelves: Shelves, seconds: Any) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.put(shelf.admin, {"purgeHoldSeconds": seconds})
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert status(shelf)["purgeHoldSeconds"] == 0


def test_unknown_settings_are_refused(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.put(shelf.admin, {"purgeHoldSeconds": 5, "hold": 5})
    assert reply.status == 400
    assert "'hold'" in reply.json["message"]
    assert status(shelf)["purgeHoldSeconds"] == 0


def test_settings_not_named_stay(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    configure(shelf, purgeHoldSeconds=5, guard="10%")
    configure(shelf, guard="20%")
    assert status(shelf)["purgeHoldSeconds"] == 5
    change(shelf, 20)  # nor does a replace of the container touch them
    figures = status(shelf)
    assert (figures["purgeHoldSeconds"], figures["guard"]) == (5, "20%")


# T-308: forecast


def plain_history(shelf: Shelf) -> None:
    """Under 100 seconds: some inherit, some set their own, one never ends, one is dead."""
    shelf.create("dead", 5)
    shelf.create("a")
    shelf.create("forever", -1)
    shelf.clock.advance(30)
    shelf.create("b")
    shelf.create("c", 65)
    shelf.create("far", 10_000)


def grown_history(shelf: Shelf) -> None:
    """Under 10 seconds two die; then the default grows to 100, which does not bring them back."""
    shelf.set_default(10)
    for id_ in ("dead1", "dead2"):
        shelf.create(id_)
    shelf.clock.advance(10)
    shelf.set_default(100)
    plain_history(shelf)


def off_history(shelf: Shelf) -> None:
    """TTL off: the backlog stays, nobody else ever dies."""
    plain_history(shelf)
    shelf.set_default()


def interrupted_history(shelf: Shelf) -> None:
    """Off and on again: the sleeping ttls wake up."""
    plain_history(shelf)
    shelf.set_default()
    shelf.clock.advance(20)
    shelf.set_default(100)


def on_without_default_history(shelf: Shelf) -> None:
    plain_history(shelf)
    shelf.set_default(-1)


HISTORIES = [
    plain_history, grown_history, off_history, interrupted_history, on_without_default_history,
]  # fmt: skip


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize(("bucket", "count"), [("second", 40), ("minute", 3), ("day", 1)])
def test_forecast_accounts_for_everything_stored(
    shelves: Shelves, history: Callable[[Shelf], None], bucket: str, count: int
) -> None:
    shelf = shelves.make(100)
    history(shelf)
    told, figures = forecast(shelf, bucket, count), status(shelf)
    assert told["asOf"] == shelves.now
    assert len(told["buckets"]) == count
    for name, whole in zip(("items", "bytes"), stored(figures), strict=True):
        in_buckets = sum(each[name] for each in told["buckets"])
        rest = told["later"][name] + told["immortal"][name] + told["backlog"][name]
        assert in_buckets + rest == whole
        assert in_buckets + told["later"][name] == figures["mortal"][name]


@pytest.mark.parametrize("history", HISTORIES)
def test_forecast_comes_true(shelves: Shelves, history: Callable[[Shelf], None]) -> None:
    """Buckets are (from, to]: move the clock to each end and count who is left."""
    shelf = shelves.make(100)
    history(shelf)
    told = forecast(shelf, "minute", 4)
    left = shelf.counted()
    expected_from = told["asOf"]
    for bucket in told["buckets"]:
        assert (bucket["from"], bucket["to"]) == (expected_from, expected_from + 60)
        expected_from += 60
        size = status(shelf)["live"]["bytes"]
        shelves.clock.set(bucket["to"])
        left -= bucket["items"]
        assert shelf.counted() == left
        assert size - status(shelf)["live"]["bytes"] == bucket["bytes"]
    assert left == told["later"]["items"] + told["immortal"]["items"]


@pytest.mark.parametrize("history", HISTORIES)
def test_next_expiry_is_the_next_death(shelves: Shelves, history: Callable[[Shelf], None]) -> None:
    shelf = shelves.make(100)
    history(shelf)
    alive, following = shelf.counted(), status(shelf)["nextExpiry"]
    if following is None:
        shelves.clock.advance(100_000)
        assert shelf.counted() == alive
        return
    shelves.clock.set(following - 1)
    assert shelf.counted() == alive
    shelves.clock.set(following)
    assert shelf.counted() < alive


def test_forecast_of_the_second_before_death(shelves: Shelves) -> None:
    """An item that ends in exactly a bucket's width is in that bucket, not in the next."""
    shelf = shelves.make(60)
    shelf.create("a")
    shelf.create("b", 61)
    told = forecast(shelf, "minute", 2)
    assert [bucket["items"] for bucket in told["buckets"]] == [1, 1]


def test_forecast_by_default_shows_a_day_of_hours(shelves: Shelves) -> None:
    shelf = shelves.make(3600)
    shelf.create("a")
    told = answer(shelf.raw.get(f"{shelf.admin}/forecast"))
    assert told["bucketSeconds"] == 3600
    assert [bucket["items"] for bucket in told["buckets"]] == [1] + [0] * 23


def test_forecast_tells_the_time_to_drain(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    assert forecast(shelf, "hour", 1)["drainSeconds"] == 0
    shelf.create("a")
    shelf.clock.advance(10)
    told = forecast(shelf, "hour", 1)
    assert told["backlog"]["items"] == 1
    assert told["drainSeconds"] is None or told["drainSeconds"] > 0


@pytest.mark.parametrize(
    "query",
    [
        "bucket=fortnight", "bucket=", "bucket=HOUR", "count=0", "count=-1", "count=x", "count=",
        "count=1001", "count=1.5", "buckets=hour", "count=%C2%B2",
        pytest.param(f"count={'9' * 5000}", id="thousands of digits"),
    ],
)  # fmt: skip
def test_forecasts_that_are_none(shelves: Shelves, query: str) -> None:
    reply = ask(shelves.make(10), f"forecast?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


# T-309: a change is O(1); its time is measured in test_scale.py


@pytest.mark.parametrize("new", [5, 1000, -1, None])
def test_a_change_rewrites_no_item(shelves: Shelves, new: int | None) -> None:
    shelf = family(shelves, 500)
    etag, lsn, etags = version(shelf)
    change(shelf, new)
    changed_etag, changed_lsn, changed_etags = version(shelf)
    assert changed_lsn == lsn
    assert set(changed_etags) <= set(etags)
    assert changed_etag != etag


def test_preview_passes_over_the_dead_with_an_odd_ttl(shelves: Shelves) -> None:
    shelf = shelves.make(ABSENT)
    shelf.create("a", "q")
    change(shelf, 5)
    assert preview(shelf, 60)["invalidTtl"] == 1
    shelf.clock.advance(5)
    assert preview(shelf, 60)["invalidTtl"] == 0


# T-310: introspection


def lifetime_headers(reply: Reply) -> dict[str, str]:
    return {name: text for name, text in reply.headers.items() if name.startswith("x-perseid-")}


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl", "origin", "life"),
    [
        (ABSENT, ABSENT, "none", None), (ABSENT, -1, "none", None), (ABSENT, 20, "none", None),
        (-1, ABSENT, "none", None), (-1, -1, "none", None), (-1, 20, "item", 20),
        (10, ABSENT, "container", 10), (10, -1, "none", None), (10, 20, "item", 20),
    ],
)  # fmt: skip
def test_lifetime_headers(
    shelves: Shelves, default_ttl: Any, item_ttl: Any, origin: str, life: int | None
) -> None:
    shelf = shelves.make(default_ttl)
    body = shelf.body("a", item_ttl)
    wish = {"x_perseid_lifetime": "true"}

    def expected(ts: int) -> dict[str, str]:
        if life is None:
            return {"x-perseid-lifetime-origin": origin}
        return {
            "x-perseid-lifetime-origin": origin,
            "x-perseid-expires-at": str(ts + life),
            "x-perseid-remaining": str(ts + life - shelves.now),
        }

    start = shelves.now
    assert lifetime_headers(shelf.post(body, **wish)) == expected(start)
    shelf.clock.advance(3)
    assert lifetime_headers(shelf.read("a", **wish)) == expected(start)
    assert lifetime_headers(shelf.read("a")) == {}
    unchanged = shelf.read("a", if_none_match=shelf.read("a").headers["etag"], **wish)
    assert (unchanged.status, lifetime_headers(unchanged)) == (304, expected(start))
    assert shelf.read("a", **wish).body == shelf.read("a").body
    replaced = shelf.replace("a", body, **wish)
    assert lifetime_headers(replaced) == expected(start + 3)
    assert "x-perseid" not in replaced.body.decode()
    shelf.clock.advance(2)
    assert lifetime_headers(shelf.post(body, upsert="true", **wish)) == expected(start + 5)
    assert lifetime_headers(shelf.post(body, upsert="true")) == {}


def test_the_dead_show_no_lifetime(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    shelf.clock.advance(10)
    for id_ in ("a", "never"):
        reply = shelf.read(id_, x_perseid_lifetime="true")
        assert_gone(reply)
        assert lifetime_headers(reply) == {}


# T-311: explain


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl", "rule", "origin", "life"),
    [
        (ABSENT, ABSENT, "T-020", "none", None),
        (-1, ABSENT, "T-021", "none", None),
        (10, ABSENT, "T-022", "container", 10),
        (ABSENT, -1, "T-023", "none", None),
        (-1, -1, "T-024", "none", None),
        (10, -1, "T-025", "none", None),
        (ABSENT, 20, "T-026", "none", None),
        (-1, 20, "T-027", "item", 20),
        (10, 20, "T-028", "item", 20),
    ],
)
def test_explain_the_living(
    shelves: Shelves, default_ttl: Any, item_ttl: Any, rule: str, origin: str, life: int | None
) -> None:
    shelf = shelves.make(default_ttl)
    shelf.create("a", item_ttl, secret="s3cret")
    start = shelves.now
    shelf.clock.advance(4)
    told = explain(shelf, "a")
    ends = None if life is None else start + life
    assert told == {
        "id": "a",
        "partitionKey": ["p"],
        "_ts": start,
        "ttl": None if item_ttl is ABSENT else item_ttl,
        "asOf": start + 4,
        "live": True,
        "rule": rule,
        "because": "alive under the current policy and every earlier one",
        "expiresAt": ends,
        "remainingSeconds": None if ends is None else ends - start - 4,
        "origin": origin,
        "purgePlace": None,
    }


@pytest.mark.parametrize(
    ("default_ttl", "item_ttl", "rule", "because", "life"),
    [
        (10, ABSENT, "T-022", "the container's defaultTtl has ended it", 10),
        (10, 5, "T-028", "its own ttl has ended", 5),
        (10, 20, "T-028", "its own ttl has ended", 20),
        (-1, 5, "T-027", "its own ttl has ended", 5),
    ],
)
def test_explain_the_dead(
    shelves: Shelves, default_ttl: int, item_ttl: Any, rule: str, because: str, life: int
) -> None:
    shelf = shelves.make(default_ttl)
    shelf.create("a", item_ttl, secret="s3cret")
    start = shelves.now
    shelf.clock.advance(life)
    told = explain(shelf, "a")
    assert (told["live"], told["rule"], told["because"]) == (False, rule, because)
    assert told["expiresAt"] == start + life
    assert told["remainingSeconds"] is None
    assert told["purgePlace"] == 0
    assert "s3cret" not in str(told)
    assert "secret" not in told


@pytest.mark.parametrize(
    ("first", "then", "item_ttl", "rule", "because"),
    [
        (10, None, ABSENT, "T-020", "an earlier defaultTtl of the container has ended it"),
        (10, -1, ABSENT, "T-021", "an earlier defaultTtl of the container has ended it"),
        (10, 1000, ABSENT, "T-022", "an earlier defaultTtl of the container has ended it"),
        (-1, None, 10, "T-026", "its own ttl ended before time to live was switched off"),
        (100, None, 10, "T-026", "its own ttl ended before time to live was switched off"),
        (100, -1, 10, "T-027", "its own ttl has ended"),
    ],
)
def test_explain_those_dead_of_an_earlier_policy(
    shelves: Shelves, first: int, then: int | None, item_ttl: Any, rule: str, because: str
) -> None:
    """T-121: death is final, and the explanation says which clause holds."""
    shelf = shelves.make(first)
    shelf.create("a", item_ttl)
    end = shelves.now + 10
    shelf.clock.advance(10)
    change(shelf, then)
    shelf.clock.advance(1)
    told = explain(shelf, "a")
    assert (told["live"], told["rule"], told["because"]) == (False, rule, because)
    assert told["remainingSeconds"] is None
    assert told["expiresAt"] == end
    assert status(shelf)["purgeLagSeconds"] == 1


def test_an_end_is_remembered_through_changes_and_their_undo(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    end = shelves.now + 10
    shelf.clock.advance(20)
    for then in (100, -1, None):
        change(shelf, then)
        shelf.clock.advance(50)
        assert explain(shelf, "a")["expiresAt"] == end
    change(shelf, 50)
    change(shelf, None)  # by now 50 is the latest default that has ended anybody
    undo(shelf)
    assert explain(shelf, "a")["expiresAt"] == end


def test_the_place_in_the_purge_order(shelves: Shelves) -> None:
    """The order is by the second of death, whoever set it."""
    shelf = shelves.make(30)
    start = shelves.now
    ends = {"b": ABSENT, "a": 10, "c": 40, "d": 50}  # 30, 10, 40, 50
    for id_, own in ends.items():
        shelf.create(id_, own)
    shelf.create("e", at=start + 25)  # 55
    shelf.create("alive")
    shelf.clock.set(start + 54)
    assert [explain(shelf, id_)["purgePlace"] for id_ in "abcde"] == [0, 1, 2, 3, None]
    shelf.clock.set(start + 55)
    assert explain(shelf, "e")["purgePlace"] == 4


def test_the_living_have_no_place_in_the_purge_order(shelves: Shelves) -> None:
    """Those that the policy leaves alone are not removed before anybody."""
    shelf = shelves.make(-1)
    for id_, own in {"a": 10, "b": 20, "sleeping": 25, "stays": ABSENT, "marked": -1}.items():
        shelf.create(id_, own)
    shelf.clock.advance(20)
    assert [explain(shelf, id_)["purgePlace"] for id_ in "ab"] == [0, 1]
    shelf.set_default()  # off: the ttl of `sleeping` means nothing from now on
    shelf.clock.advance(20)
    assert [explain(shelf, id_)["purgePlace"] for id_ in "ab"] == [0, 1]
    shelf.set_default(35)  # who inherits is dead since its 35th second, and so is `sleeping`
    assert [explain(shelf, id_)["purgePlace"] for id_ in ("sleeping", "stays")] == [2, 3]
    shelf.set_default()
    assert explain(shelf, "stays")["purgePlace"] == 3


def test_explain_never_existed_and_purged(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    shelf.create("a")
    body = {"id": "nobody", "partitionKey": ["p"]}
    assert_gone(shelf.raw.post(f"{shelf.admin}/explain", body))
    other = {"id": "a", "partitionKey": ["q"]}
    assert_gone(shelf.raw.post(f"{shelf.admin}/explain", other))
    shelf.clock.advance(10)
    assert explain(shelf, "a")["live"] is False
    assert drain(shelf) == 1
    assert_gone(shelf.raw.post(f"{shelf.admin}/explain", body | {"id": "a"}))


@pytest.mark.parametrize(
    "body",
    [
        {}, {"id": "a"}, {"partitionKey": ["p"]}, {"id": 5, "partitionKey": ["p"]},
        {"id": "a", "partitionKey": "p"}, {"id": "a", "partitionKey": []},
        {"id": "a", "partitionKey": ["p", "q"]}, {"id": "a", "partitionKey": [{"a": 1}]},
    ],
)  # fmt: skip
def test_explanations_that_are_none(shelves: Shelves, body: Figures) -> None:
    shelf = shelves.make(10)
    reply = shelf.raw.post(f"{shelf.admin}/explain", body)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


def test_explain_keys_of_every_type(shelves: Shelves, raw: RawClient) -> None:
    shelf = shelves.make(10)
    for number, key in enumerate(("p", 5, 1.5, True, None)):
        item = {"id": f"k{number}", "pk": key}
        reply = raw.post(f"{shelf.path}/docs", item, pk=json.dumps([key]))
        assert reply.status == 201
        told = answer(raw.post(f"{shelf.admin}/explain", {"id": item["id"], "partitionKey": [key]}))
        assert told["partitionKey"] == [key]


# T-313: metrics


def measured(shelf: Shelf) -> Figures:
    """The figures of one container among those of all."""
    everything = answer(shelf.raw.get("/_perseid/metrics.json"))
    path = shelf.path.removeprefix("/")
    (found,) = [each for each in everything["containers"] if each["container"] == path]
    assert isinstance(found, dict)
    return found


def exposed(shelf: Shelf) -> dict[str, float]:
    """The same from the text, by name of the series."""
    text = shelf.raw.get("/_perseid/metrics").body.decode()
    path = re.escape(shelf.path.removeprefix("/"))
    found = re.findall(rf'^perseid_(\w+)\{{container="{path}"\}} (\S+)$', text, re.M)
    return {name: float(value) for name, value in found}


@pytest.mark.parametrize("history", HISTORIES)
def test_the_sums_of_the_metrics(shelves: Shelves, history: Callable[[Shelf], None]) -> None:
    shelf = shelves.make(100)
    history(shelf)
    for _ in range(2):
        found = measured(shelf)
        for name in ("items", "bytes"):
            assert found["mortal"][name] + found["immortal"][name] == found["live"][name]
        assert found["live"]["items"] == shelf.counted()
        assert found["expiredTotal"] - found["purgedTotal"] == found["backlog"]["items"]
        in_text = exposed(shelf)
        assert in_text["live_items"] + in_text["dead_items"] == stored(found)[0]
        assert in_text["live_bytes"] + in_text["dead_bytes"] == stored(found)[1]
        assert in_text["mortal_items"] + in_text["immortal_items"] == in_text["live_items"]
        assert in_text["expired_total"] - in_text["purged_total"] == in_text["dead_items"]
        drain(shelf)
    assert found["backlog"] == {"items": 0, "bytes": 0}
    assert found["purgedTotal"] == found["expiredTotal"]


def test_text_and_json_say_the_same(shelves: Shelves) -> None:
    shelf = shelves.make(100)
    grown_history(shelf)
    found, in_text = measured(shelf), exposed(shelf)
    assert in_text == {
        "live_items": found["live"]["items"],
        "live_bytes": found["live"]["bytes"],
        "mortal_items": found["mortal"]["items"],
        "mortal_bytes": found["mortal"]["bytes"],
        "immortal_items": found["immortal"]["items"],
        "immortal_bytes": found["immortal"]["bytes"],
        "dead_items": found["backlog"]["items"],
        "dead_bytes": found["backlog"]["bytes"],
        "expired_total": found["expiredTotal"],
        "purged_total": found["purgedTotal"],
        "purged_bytes_total": found["purgedBytes"],
        "purge_charge_total": found["purgeCharge"],
        "purge_lag_seconds": found["purgeLagSeconds"],
        "next_expiry_timestamp": found["nextExpiry"],
        "policy_changes_total": found["policyChanges"],
        "seconds_without_leftover_total": 0,
    }


def test_the_text_is_what_prometheus_reads(raw: RawClient, shelves: Shelves) -> None:
    shelves.make(10)
    reply = raw.get("/_perseid/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    declared: dict[str, str] = {}
    for line in reply.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in declared
            declared[name] = kind
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r'(\w+)(?:\{container="[^"]+"\})? (-?\d+(?:\.\d+)?)', line)
            assert match is not None, line
            assert match[1] in declared
            assert (declared[match[1]] == "counter") == match[1].endswith("_total")


def test_lag_is_the_age_of_the_oldest_dead(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    assert measured(shelf)["purgeLagSeconds"] == 0
    shelf.create("a")
    shelf.create("b", 5)
    shelf.clock.advance(5)
    assert measured(shelf)["purgeLagSeconds"] == 0  # b died this very second
    shelf.clock.advance(15)
    assert measured(shelf)["purgeLagSeconds"] == 15
    drain(shelf)
    assert measured(shelf)["purgeLagSeconds"] == 0


@pytest.mark.parametrize("then", [1000, -1, None])
def test_lag_of_those_dead_of_an_earlier_policy(shelves: Shelves, then: int | None) -> None:
    """Dead for twenty seconds, of which ten under the new policy."""
    shelf = shelves.make(10)
    shelf.create("a")
    shelf.clock.advance(20)
    change(shelf, then)
    shelf.clock.advance(10)
    assert measured(shelf)["backlog"]["items"] == 1
    assert 10 <= measured(shelf)["purgeLagSeconds"] <= 20


def test_counters_never_fall(shelves: Shelves) -> None:
    """T-139: a dead item whose place is taken has expired and is removed, as any other."""
    shelf = shelves.make(10)
    shelf.create("a")
    shelf.clock.advance(10)
    assert measured(shelf)["expiredTotal"] == 1
    shelf.create("a")
    found = measured(shelf)
    assert found["backlog"]["items"] == 0
    assert (found["expiredTotal"], found["purgedTotal"]) == (1, 1)


def test_policy_changes_are_counted(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    for value in (20, 20, 30, None, -1):
        change(shelf, value)
    assert measured(shelf)["policyChanges"] == 4


def test_requests_are_counted(raw: RawClient, shelves: Shelves) -> None:
    before = answer(raw.get("/_perseid/metrics.json"))["requests"]
    shelves.make(10)
    assert answer(raw.get("/_perseid/metrics.json"))["requests"] == before + 2


# T-315: audit


def test_audit_of_a_change(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    assert audit(shelf) == []
    assert change(shelf, 30).status == 200
    rid = shelf.raw.get(shelf.path).json["_rid"]
    policy, figures = counted(shelf)
    shared = {
        "ts": shelves.now,
        "containerRid": rid,
        "container": shelf.path.removeprefix("/"),
        "defaultTtl": {"old": -1, "new": 30},
        "caller": "primary",
    }
    line = policy["line"]
    assert policy == {"line": line, "event": "policy", **shared}
    before = status(shelf)["backlog"]
    assert figures["event"] == "figures"
    assert {name: figures[name] for name in shared} == shared
    assert figures["diedAtOnce"] == before
    assert figures["line"] > line


def test_audit_is_there_after_a_restart(place: Place) -> None:
    settings = place.lasting(no_sweeper=True)
    clock = frozen_clock()
    with serving(settings, clock) as raw:
        raw.post("/dbs", {"id": "d"})
        shelf = crowd(Shelves(raw, clock, "/dbs/d"))
        change(shelf, 30)
        counted(shelf)
        configure(shelf, guard="10%")
        undo(shelf)
        before = audit(shelf)
    assert [entry["event"] for entry in before] == ["policy", "figures", "settings", "undo"]
    with serving(settings, clock) as raw:
        assert audit(replace(shelf, raw=raw)) == before


def test_audit_of_undo_and_settings(shelves: Shelves) -> None:
    shelf = crowd(shelves)
    change(shelf, 30)
    counted(shelf)
    configure(shelf, purgeHoldSeconds=5, guard="7")
    told = undo(shelf)
    settings, undone = audit(shelf)[-2:]
    assert settings["event"] == "settings"
    assert (settings["purgeHoldSeconds"], settings["guard"]) == (5, "7")
    assert settings["caller"] == "primary"
    assert undone["event"] == "undo"
    assert undone["defaultTtl"] == {"old": 30, "new": -1}
    assert undone["revived"] == told["revived"]
    assert undone["alreadyPurged"] == told["alreadyPurged"]


def test_audit_tells_containers_apart(shelves: Shelves, raw: RawClient) -> None:
    one, other = shelves.make(10, name="one"), shelves.make(10, name="other")
    change(one, 20)
    change(other, 30)
    for shelf in (one, other):
        rid = raw.get(shelf.path).json["_rid"]
        assert {entry["containerRid"] for entry in counted(shelf)} == {rid}
    rids = {entry["containerRid"] for entry in _everything(raw)}
    assert {raw.get(shelf.path).json["_rid"] for shelf in (one, other)} <= rids


def _everything(raw: RawClient) -> list[Figures]:
    entries: list[Figures] = answer(
        raw.request("GET", "/_perseid/ttl/audit", raw_path="/_perseid/ttl/audit?limit=10000")
    )["entries"]
    return entries


def test_audit_in_pages(shelves: Shelves) -> None:
    shelf = shelves.make(10)
    for value in (20, 30, 40):
        change(shelf, value)
    counted(shelf)
    whole = audit(shelf)
    paged: list[Figures] = []
    after = 0
    while page := answer(ask(shelf, f"audit?after={after}&limit=2"))["entries"]:
        assert len(page) <= 2
        paged += page
        after = page[-1]["line"]
    assert paged == whole


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=10001", "from=1"])
def test_audits_that_are_none(shelves: Shelves, query: str) -> None:
    reply = ask(shelves.make(10), f"audit?{query}")
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("text", "living", "limit"),
    [
        ("5", 100, 5),
        ("5%", 200, 10),
        ("0.5%", 1000, 5),
        ("100%", 7, 7),
        ("25%", 116, 29),
        ("10%", 0, 0),
    ],
)
def test_guards_in_numbers(text: str, living: int, limit: float) -> None:
    assert lifetimes.parse_guard(text, living) == limit
