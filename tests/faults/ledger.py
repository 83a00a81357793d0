"""What a client knows about the items it has written, and what it must find after a fault.

Each item is a number that only grows. After an acknowledged write there is one number that it may
have; after a write without an answer there are two, until a look shows which one it is.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

ABSENT: Final = 0  # the number of an item that does not exist


class Findings:
    """Counts of what must not happen, with an example of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def add(self, finding: str, example: str) -> None:
        with self._lock:
            self.counts[finding] += 1
            self.examples.setdefault(finding, example)


@dataclass
class Entry:
    """One item; a single writer changes it."""

    id: str
    pk: str
    highest: int = ABSENT  # number of the last write that was sent
    allowed: set[int] = field(default_factory=lambda: {ABSENT})
    expires_at: float | None = None  # of what was acknowledged last
    may_expire: bool = False  # if one of the allowed numbers was written with a ttl

    @property
    def is_certain(self) -> bool:
        return len(self.allowed) == 1

    @property
    def exists(self) -> bool:
        return self.allowed != {ABSENT}

    def begin(self, *, ttl: int | None = None, is_delete: bool = False) -> int:
        """A write is sent: from now on both states are possible. The number it writes."""
        number = ABSENT if is_delete else self.highest + 1
        self.highest = max(self.highest, number)
        self.allowed = self.allowed | {number}
        self.may_expire = self.may_expire or ttl is not None
        return number

    def acknowledge(self, number: int, expires_at: float | None = None) -> None:
        self.allowed = {number}
        self.expires_at = expires_at
        self.may_expire = expires_at is not None

    def refuse(self, number: int) -> None:
        """The write was refused and has changed nothing."""
        self.allowed = (self.allowed - {number}) or {ABSENT}


def content(entry: Entry, number: int, ttl: int | None) -> dict[str, Any]:
    """The body of an item with this number."""
    text = text_of(entry.id, number)
    body = {"id": entry.id, "pk": entry.pk, "n": number, "u": f"{entry.id}-{number}", "text": text}
    return body if ttl is None else body | {"ttl": ttl}


def text_of(item_id: str, number: int) -> str:
    return hashlib.sha256(f"{item_id} {number}".encode()).hexdigest() * (1 + number % 20)


class Ledger:
    """All items of a container, and the latest time that a server has shown."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.entries: dict[str, Entry] = {}
        self.shown = 0.0
        self.acknowledged = 0
        self._lock = threading.Lock()

    def entry(self, item_id: str, pk: str) -> Entry:
        with self._lock:
            return self.entries.setdefault(item_id, Entry(item_id, pk))

    def count(self) -> None:
        with self._lock:
            self.acknowledged += 1

    def show(self, now: float) -> None:
        with self._lock:
            self.shown = max(self.shown, now)

    @property
    def doubtful(self) -> int:
        return sum(not each.is_certain for each in self.entries.values())

    def compare(self, listed: Mapping[str, Any], shown: float, now: float) -> None:
        """Checks the items that a server lists: `shown` before it was asked, `now` after it."""
        for item_id in listed.keys() - self.entries.keys():
            self.findings.add("unknown", item_id)
        for entry in self.entries.values():
            found = listed.get(entry.id)
            if found is None:
                self._compare_absent(entry, now)
            else:
                self._compare_found(entry, found, shown)

    def _compare_absent(self, entry: Entry, now: float) -> None:
        has_expired = entry.expires_at is not None and entry.expires_at <= now
        is_unknown = not entry.is_certain and entry.may_expire
        if ABSENT not in entry.allowed and not has_expired and not is_unknown:
            self.findings.add("lost", f"{entry} is absent at {now}")
        entry.acknowledge(ABSENT)

    def _compare_found(self, entry: Entry, found: Any, shown: float) -> None:
        number, ttl = found["n"], found.get("ttl")
        expires_at = None if ttl is None else found["_ts"] + ttl
        what = f"{entry}, found number {number} that expires at {expires_at}"
        if expires_at is not None and expires_at <= shown:
            self.findings.add("expired seen", f"{what}, after {shown} was shown")
        elif not entry.exists:
            self.findings.add("returned", what)
        elif number not in entry.allowed:
            self.findings.add("doubled" if number > max(entry.allowed) else "lost", what)
        if found["text"] != text_of(entry.id, number):
            self.findings.add("wrong content", what)
        entry.highest = max(entry.highest, number)
        entry.acknowledge(number, expires_at)
