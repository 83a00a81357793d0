"""Calls of the TTL admin API, and containers with a known history."""

from __future__ import annotations

from typing import Any

from tests.support.raw import Reply
from tests.support.ttl_containers import TtlContainer, TtlContainers
from tests.support.waiting import until

Figures = dict[str, Any]


def body_of(reply: Reply) -> Figures:
    assert reply.status == 200, reply
    body: Figures = reply.json
    return body


def status(container: TtlContainer) -> Figures:
    return body_of(container.raw.get(container.admin))


def preview(container: TtlContainer, default_ttl: int | None) -> Figures:
    return body_of(container.raw.post(f"{container.admin}/preview", {"defaultTtl": default_ttl}))


def undo(container: TtlContainer) -> Figures:
    return body_of(container.raw.post(f"{container.admin}/undo", {}))


def configure(container: TtlContainer, **settings: Any) -> Figures:
    return body_of(container.raw.put(container.admin, settings))


def explain(container: TtlContainer, id_: str, **more: Any) -> Figures:
    body = {"id": id_, "partitionKey": ["p"], **more}
    return body_of(container.raw.post(f"{container.admin}/explain", body))


def audit(container: TtlContainer) -> list[Figures]:
    entries: list[Figures] = body_of(container.raw.get(f"{container.admin}/audit"))["entries"]
    return entries


def audit_with_counts(container: TtlContainer) -> list[Figures]:
    """The log once each change has been counted: that happens after its answer."""

    def is_counted() -> bool:
        events = [entry["event"] for entry in audit(container)]
        return 0 < events.count("policy") == events.count("counts")

    until(is_counted)
    return audit(container)


def ask(container: TtlContainer, path_and_query: str) -> Reply:
    """A GET below the container's lifetimes, with a query string, which is not signed."""
    url = f"{container.admin}/{path_and_query}"
    return container.raw.request("GET", url.partition("?")[0], raw_path=url)


def version(container: TtlContainer) -> tuple[str, str, list[str]]:
    """Moves with any write: to the container, to its items' log, to the items."""
    reply = container.raw.get(container.path)
    etags = sorted(container.query("SELECT VALUE c._etag FROM c"))
    return reply.json["_etag"], reply.headers["x-ms-session-token"], etags


def on_disk(figures: Figures) -> tuple[int, int]:
    """Items and bytes on disk, by the figures of a status."""
    return (
        figures["live"]["items"] + figures["pendingPurge"]["items"],
        figures["live"]["bytes"] + figures["pendingPurge"]["bytes"],
    )


def family(containers: TtlContainers, default_ttl: int | None) -> TtlContainer:
    """Six items written while TTL was off, then TTL set; the clock ends 60 s after the first.

    i* inherit, o* have their own ttl, n0 never ends, x0 has a ttl that is none.
    """
    container = containers.make()
    start = containers.now
    container.create("i0")
    container.create("o0", 50)
    container.create("n0", -1)
    # Only a relaxed answer, or an earlier release, stores it.
    assert container.post(container.body("x0", "soon"), x_perseid_direct="true").status == 201
    container.create("i1", at=start + 40)
    container.create("o1", 500)
    containers.clock.set(start + 60)
    if default_ttl is not None:
        assert container.set_default(default_ttl).status == 200
    return container


EVERYBODY = {"i0", "o0", "n0", "x0", "i1", "o1"}

# the policy in force, the one proposed, what expires now, how many gain and lose an expiry
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


def crowd(containers: TtlContainers, size: int = 4) -> TtlContainer:
    """So many items, 60 seconds old, non-expiring so far."""
    container = containers.make(-1)
    for number in range(size):
        container.create(f"a{number}")
    container.clock.advance(60)
    return container


def change(container: TtlContainer, default_ttl: int | None, **headers: str) -> Reply:
    """Replaces the container with another defaultTtl, nothing else sent along."""
    body = container.definition() | {"defaultTtl": default_ttl}
    return container.raw.put(container.path, body, **headers)


# T-308: forecast


def plain_history(container: TtlContainer) -> None:
    """Under 100 seconds: some inherit, some set their own, one never expires, one is expired."""
    container.create("expired", 5)
    container.create("a")
    container.create("forever", -1)
    container.clock.advance(30)
    container.create("b")
    container.create("c", 65)
    container.create("far", 10_000)


def grown_history(container: TtlContainer) -> None:
    """Under 10 seconds two expire; then the default grows to 100, which does not restore them."""
    container.set_default(10)
    for id_ in ("expired1", "expired2"):
        container.create(id_)
    container.clock.advance(10)
    container.set_default(100)
    plain_history(container)


def off_history(container: TtlContainer) -> None:
    """TTL off: the backlog stays, no other item ever expires."""
    plain_history(container)
    container.set_default()


def interrupted_history(container: TtlContainer) -> None:
    """Off and on again: the sleeping ttls wake up."""
    plain_history(container)
    container.set_default()
    container.clock.advance(20)
    container.set_default(100)


def on_without_default_history(container: TtlContainer) -> None:
    plain_history(container)
    container.set_default(-1)


HISTORIES = [
    plain_history, grown_history, off_history, interrupted_history, on_without_default_history,
]  # fmt: skip
