"""Writers that keep a ledger, and a client that watches the clock."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from random import Random
from typing import Any, Final

from tests.faults.ledger import ABSENT, Entry, Ledger, content
from tests.hostile.attack import Tally
from tests.support.raw import RawClient, Reply

DOCS: Final = "/dbs/d/colls/c/docs"
WRITERS: Final = 4
ITEMS: Final = 25  # of one writer, at the same time
TTLS: Final = (None, None, 1, 2, 5, 600)
LEFT_ALONE: Final = 0.15  # share of the writes that create an item for its ttl to end
SHORT_TTLS: Final = (1, 2, 3)
ANSWER_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 0.02
# Nothing was changed if a write gets one of these.
REFUSED: Final = frozenset({400, 403, 404, 408, 409, 412, 413, 429, 449, 507})


class Load:
    """Writers on one server, or each on another one of several."""

    def __init__(self, ledger: Ledger, tally: Tally, chance: Random, *, run: int) -> None:
        self.ledger = ledger
        self.tally = tally
        self.slowest = 0.0  # seconds until an answer
        self._seeds = [chance.random() for _ in range(WRITERS)]
        self._run = run  # so that ids of two runs differ where one is in doubt
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, endpoints: Sequence[str]) -> None:
        """Starts the writers; they go on when a server is gone, until `end`."""
        for number in range(WRITERS):
            endpoint = endpoints[number % len(endpoints)]
            self._begin(self._write, number, endpoint)
        self._begin(self._watch, endpoints[0])

    def _begin(self, work: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        self._threads.append(thread)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(ANSWER_SECONDS + 10)

    def _watch(self, endpoint: str) -> None:
        """Asks for the time: what was shown once is the past for ever."""
        with closing(RawClient(endpoint, timeout=ANSWER_SECONDS)) as raw:
            while not self._ended.wait(WATCH_SECONDS):
                try:
                    reply = raw.get("/_perseid/clock")
                except (OSError, http.client.HTTPException):
                    continue
                if reply.status == 200:
                    self.ledger.show(reply.json["now"])

    def _write(self, number: int, endpoint: str) -> None:
        chance = Random(self._seeds[number])
        pk = f"w{number}"
        serial = 0
        entries: list[Entry] = []
        with closing(RawClient(endpoint, timeout=ANSWER_SECONDS)) as raw:
            while not self._ended.is_set():
                entries = [each for each in entries if each.is_certain]
                while len(entries) < ITEMS:
                    serial += 1
                    entries.append(self.ledger.entry(f"{pk}-{self._run}-{serial}", pk))
                if chance.random() < LEFT_ALONE:
                    serial += 1
                    entry = self.ledger.entry(f"{pk}-{self._run}-{serial}", pk)
                    self._write_one(raw, "create", entry, chance.choice(SHORT_TTLS))
                else:
                    self._change_one(raw, chance, chance.choice(entries))

    def _change_one(self, raw: RawClient, chance: Random, entry: Entry) -> None:
        ttl = chance.choice(TTLS)
        kinds = ("replace", "patch", "delete", "upsert") if entry.exists else ("create", "upsert")
        kind = chance.choice(kinds)
        if kind == "patch":
            ttl = None if entry.expires_at is None else 600
        self._write_one(raw, kind, entry, ttl)

    def _write_one(self, raw: RawClient, kind: str, entry: Entry, ttl: int | None) -> None:
        number = entry.begin(ttl=ttl, is_delete=kind == "delete")
        started = time.monotonic()
        try:
            reply = _send(raw, kind, entry, number, ttl)
        except TimeoutError:
            self.tally.add_hang(f"{kind} {entry.id}")
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
            return
        self.slowest = max(self.slowest, time.monotonic() - started)
        self.tally.add(kind, reply)
        self._note(raw, entry, number, reply)

    def _note(self, raw: RawClient, entry: Entry, number: int, reply: Reply) -> None:
        if reply.status in (200, 201):
            body = reply.json
            ttl = body.get("ttl")
            entry.acknowledge(number, None if ttl is None else body["_ts"] + ttl)
            self.ledger.count()
        elif reply.status == 204:
            entry.acknowledge(ABSENT)
            self.ledger.count()
        elif reply.status == 404 and entry.exists:
            self._note_absent(raw, entry, number)
        elif reply.status in REFUSED:
            entry.refuse(number)

    def _note_absent(self, raw: RawClient, entry: Entry, number: int) -> None:
        """The item is not there; that is right if it has expired."""
        entry.refuse(number)
        try:
            now = raw.get("/_perseid/clock").json["now"]
        except (OSError, http.client.HTTPException, KeyError):
            return
        if entry.expires_at is None or entry.expires_at > now:
            self.ledger.findings.add("lost", f"{entry} is absent at {now}")
        entry.acknowledge(ABSENT)


def _send(raw: RawClient, kind: str, entry: Entry, number: int, ttl: int | None) -> Reply:
    pk = json.dumps([entry.pk])
    path = f"{DOCS}/{entry.id}"
    body = content(entry, number, ttl)
    match kind:
        case "delete":
            return raw.delete(path, pk=pk)
        case "replace":
            return raw.put(path, body, pk=pk)
        case "patch":
            return raw.patch(path, _change(body), pk=pk)
        case "upsert":
            return raw.post(DOCS, body, pk=pk, upsert="true")
    return raw.post(DOCS, body, pk=pk)


def _change(body: dict[str, Any]) -> dict[str, Any]:
    """A patch that makes the item to `body`; the number is increased, so that twice shows."""
    sets = [
        {"op": "set", "path": f"/{name}", "value": body[name]}
        for name in ("u", "text", "ttl")
        if name in body
    ]
    return {"operations": [{"op": "incr", "path": "/n", "value": 1}, *sets]}
