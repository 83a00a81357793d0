"""Data that outlives its servers, what is known about it, and how it is checked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import psycopg

from perseid.config import Settings
from tests.faults.ledger import Findings, Ledger
from tests.faults.load import DOCS, Load
from tests.faults.shifted import ShiftedClock
from tests.hostile.attack import Tally
from tests.support.builders import create_container
from tests.support.processes import ServerProcess, environment, server_process
from tests.support.property_values import add_index, wrong_entries
from tests.support.raw import RawClient
from tests.support.stores import Place

CHECK_SECONDS: Final = 120.0
SAMPLE: Final = 4  # items of which the unique keys are tried
ALLOWED: Final = frozenset({503, 507})


@dataclass(frozen=True)
class Until:
    """When a fault may begin no more rounds."""

    end: float

    @classmethod
    def after(cls, seconds: float) -> Until:
        return cls(time.monotonic() + seconds)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end


class World:
    """One database, one container, and the servers that are started on it one after the other."""

    def __init__(self, place: Place, folder: Path, chance: Random) -> None:
        self._place = place
        self.settings = place.lasting()
        self.folder = folder
        self.chance = chance
        self.findings = Findings()
        self.ledger = Ledger(self.findings)
        self.tally = Tally(ALLOWED)
        self.clock = ShiftedClock(folder / "clock")
        self.rounds = 0

    def renew(self, settings: Settings | None = None) -> None:
        """Begins again with no data, here or elsewhere."""
        self.settings = settings or self._place.lasting()
        acknowledged = self.ledger.acknowledged
        self.ledger = Ledger(self.findings)
        self.ledger.acknowledged = acknowledged

    @property
    def is_file(self) -> bool:
        return self.settings.store is None

    @contextmanager
    def server(self, *options: str, settings: Settings | None = None) -> Iterator[ServerProcess]:
        """A server process that may be killed; its log is searched for tracebacks afterwards.

        It takes unsigned requests: the dates of signatures would not fit its clock.
        """
        output = self.folder / f"output-{time.monotonic_ns()}.txt"
        options = ("--no-auth", "--log-level", "error", *options)
        try:
            with server_process(
                settings or self.settings, *options, module="tests.faults.shifted", output=output
            ) as server:
                yield server
        finally:
            said = output.read_text(errors="replace")
            if "Traceback (" in said:
                self.findings.add("traceback", said[said.index("Traceback (") :][:2000])
            output.unlink()

    def furnish(self, raw: RawClient) -> None:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        unique = {"uniqueKeys": [{"paths": ["/u"]}]}
        create_container(raw, "/dbs/d", defaultTtl=-1, uniqueKeyPolicy=unique)
        if self.settings.store is not None:
            with _database(self.settings.store) as db:
                add_index(db, ["u"])

    def load(self) -> Load:
        self.rounds += 1
        return Load(self.ledger, self.tally, self.chance, run=self.rounds)

    def verify(self, raw: RawClient, *, has_room: bool = True) -> None:
        """Compares what a server shows with the ledger; no writes are under way."""
        shown = max(self.ledger.shown, _now(raw))
        listed = self._listed(raw)
        now = _now(raw)
        self.ledger.show(now)
        self.ledger.compare(listed, shown, now)
        if has_room:
            self._verify_unique_keys(raw, listed)
        if self.settings.store is not None:
            with _database(self.settings.store) as db:
                for entry in wrong_entries(db):
                    self.findings.add("property index", repr(entry))

    def _listed(self, raw: RawClient) -> dict[str, Any]:
        listed: dict[str, Any] = {}
        for item in listing(raw):
            if item["id"] in listed:
                self.findings.add("doubled", f"{item['id']} is listed twice")
            listed[item["id"]] = item
        return listed

    def _verify_unique_keys(self, raw: RawClient, listed: dict[str, Any]) -> None:
        """A value in use is taken; the value before it is free again."""
        lasting = [item for item in listed.values() if "ttl" not in item]
        for item in self.chance.sample(lasting, min(SAMPLE, len(lasting))):
            pk = json.dumps([item["pk"]])
            for value, expected in ((item["u"], 409), (f"{item['id']}-before", 201)):
                body = {"id": "try", "pk": item["pk"], "u": value}
                reply = raw.post(DOCS, body, pk=pk)
                if reply.status != expected:
                    self.findings.add("unique keys", f"{value}: {reply.status}, not {expected}")
                if reply.status == 201:
                    raw.delete(f"{DOCS}/try", pk=pk)

    def check(self, data: Path | None = None) -> bool:
        """True if `perseid check` finds no problem in the file."""
        command = [sys.executable, "-m", "perseid", "check", str(data or self.settings.data)]
        done = subprocess.run(
            [*command, "--json"],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=CHECK_SECONDS,
            check=False,
        )
        if "Traceback (" in done.stderr:
            self.findings.add("traceback of check", done.stderr[-2000:])
        return done.returncode == 0

    def verify_file(self) -> None:
        if self.is_file and not self.check():
            self.findings.add("check", "perseid check found problems after a fault")

    def verify_counters(self, raw: RawClient) -> None:
        """The number of live items that the metrics show is the number of listed ones."""
        for _ in range(50):  # an item may expire between the two looks
            before = len(list(listing(raw)))
            shown = raw.get("/_perseid/metrics.json").json["containers"][0]["live"]["items"]
            if before == shown:
                return
        self.findings.add("counters", f"{before} items are listed, {shown} counted")


def _database(dsn: str) -> psycopg.Connection[Any]:
    return psycopg.connect(dsn, autocommit=True, options="-c search_path=perseid")


def _now(raw: RawClient) -> float:
    now: float = raw.get("/_perseid/clock").json["now"]
    return now


def listing(raw: RawClient) -> Iterator[Any]:
    """The items of the container, page by page."""
    headers = {"count": "500"}
    while True:
        page = raw.get(DOCS, **headers)
        assert page.status == 200, page
        yield from page.json["Documents"]
        if "x-ms-continuation" not in page.headers:
            return
        headers["continuation"] = page.headers["x-ms-continuation"]
