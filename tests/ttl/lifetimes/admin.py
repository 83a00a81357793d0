"""Calls of the TTL admin API, and containers with a known history."""

from __future__ import annotations

from typing import Any

from tests.support.raw import Reply
from tests.support.ttl_containers import Shelf, Shelves

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
        if 0 < events.count("policy") == events.count("counts"):
            return entries
    raise AssertionError("a change was never counted")


def ask(shelf: Shelf, path_and_query: str) -> Reply:
    """A GET below the container's lifetimes, with a query string, which is not signed."""
    url = f"{shelf.admin}/{path_and_query}"
    return shelf.raw.request("GET", url.partition("?")[0], raw_path=url)


def version(shelf: Shelf) -> tuple[str, str, list[str]]:
    """Moves with any write: to the container, to its items' log, to the items."""
    reply = shelf.raw.get(shelf.path)
    etags = sorted(shelf.query("SELECT VALUE c._etag FROM c"))
    return reply.json["_etag"], reply.headers["x-ms-session-token"], etags


def stored(figures: Figures) -> tuple[int, int]:
    """Items and bytes on disk, by the figures of a status."""
    return (
        figures["live"]["items"] + figures["pendingPurge"]["items"],
        figures["live"]["bytes"] + figures["pendingPurge"]["bytes"],
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
