"""Damaged, missing and empty database files."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from perseid.config import Settings
from perseid.store.sqlite.files import DATABASE_FILE
from tests.faults.load import DOCS
from tests.faults.world import Until, World, listing
from tests.support.processes import NotStarted
from tests.support.raw import RawClient
from tests.support.waiting import until as wait_until

LOG_FILE: Final = f"{DATABASE_FILE}-wal"


def flipped_bits(world: World, until: Until) -> None:
    """One bit of a copy is flipped: no item is served with other content, and check reports it."""
    stored = _stored_items(world)
    image = (world.settings.data / DATABASE_FILE).read_bytes()
    while world.rounds == 0 or not until.is_over:
        world.rounds += 1
        is_text = world.chance.random() < 0.5
        place = _place_in_text(world, image, stored) if is_text else _anywhere(world, image)
        bit = 1 << world.chance.randrange(8)
        with _copy(world) as data:
            with (data / DATABASE_FILE).open("r+b") as file:
                file.seek(place)
                file.write(bytes([image[place] ^ bit]))
            what = f"bit {bit} of byte {place}{' in an item' if is_text else ''}"
            is_sound = world.check(data)
            # The text may also be left over from an earlier version, where nothing reads it.
            if _is_noticed(world, data, stored, what) and is_sound:
                world.findings.add("damage not reported", what)


def _stored_items(world: World) -> dict[str, Any]:
    """Fills the file, stops the server, and returns what it had shown."""
    with world.server() as server:
        world.furnish(server.raw)
        load = world.load()
        load.start([server.endpoint])
        time.sleep(1.5)
        wait_until(lambda: world.ledger.acknowledged > 100)  # on a busy machine that takes longer
        load.end()
        for item in list(listing(server.raw)):
            if "ttl" in item:
                server.raw.delete(f"{DOCS}/{item['id']}", pk=json.dumps([item["pk"]]))
        stored = {item["id"]: item for item in listing(server.raw)}
        server.child.send_signal(signal.SIGTERM)
        server.child.wait()
    world.rounds = 0
    return stored


def _anywhere(world: World, image: bytes) -> int:
    return world.chance.randrange(100, len(image))  # the header has a test of its own


def _place_in_text(world: World, image: bytes, stored: dict[str, Any]) -> int:
    """Somewhere in the text of an item that is stored on one page."""
    for item in world.chance.sample(list(stored.values()), len(stored)):
        text = item["text"].encode()
        start = image.find(text)
        if start > 0:
            return start + world.chance.randrange(len(text))
    raise AssertionError("no text of an item is in the file")


@contextmanager
def _copy(world: World) -> Iterator[Path]:
    """A copy of the data directory without its lock."""
    data = world.folder / "copy"
    shutil.copytree(world.settings.data, data, ignore=shutil.ignore_patterns("*.lock"))
    try:
        yield data
    finally:
        shutil.rmtree(data)


def _is_noticed(world: World, data: Path, stored: dict[str, Any], what: str) -> bool:
    """Reads every item; True if one is refused or absent, or has other content."""
    try:
        with world.server("--no-sweeper", settings=Settings(data=data, relaxed=True)) as server:
            wrong = [_read(world, server.raw, item, what) for item in stored.values()]
            return any(wrong)
    except NotStarted:  # with a reason: tracebacks are found elsewhere
        return False


def _read(world: World, raw: RawClient, item: dict[str, Any], what: str) -> bool:
    reply = raw.get(f"{DOCS}/{item['id']}", pk=json.dumps([item["pk"]]))
    world.tally.add(f"read after {what}", reply)
    if reply.status != 200:
        return True
    try:
        found = reply.json
    except ValueError:
        found = reply.body
    if found != item:
        world.findings.add("wrong content", f"{what}: {item['id']} is {str(found)[:300]}")
        return True
    return False


def missing_file(world: World, until: Until) -> None:
    """Without its database file, or with an empty one, no server starts and the log stays."""
    with world.server() as server:
        world.furnish(server.raw)
    while world.rounds == 0 or not until.is_over:
        with world.server() as server:
            world.verify(server.raw)
            load = world.load()
            load.start([server.endpoint])
            time.sleep(0.5)
            server.child.kill()
            server.child.wait()
            load.end()
        for is_empty in (False, True):
            with _copy(world) as data:
                _start_without(world, data, is_empty=is_empty)
    with world.server() as server:
        world.verify(server.raw)
    world.verify_file()


def _start_without(world: World, data: Path, *, is_empty: bool) -> None:
    path, log = data / DATABASE_FILE, data / LOG_FILE
    kept, logged = path.read_bytes(), log.read_bytes()
    path.unlink()
    if is_empty:
        path.touch()
    what = "an empty" if is_empty else "a missing"
    try:
        with world.server(settings=Settings(data=data, relaxed=True)):
            world.findings.add(f"started on {what} file", f"next to a log of {len(logged)} bytes")
    except NotStarted as exc:
        if len(str(exc).split()) < 5:
            world.findings.add("no reason given", str(exc))
    if not log.exists() or log.read_bytes() != logged:
        world.findings.add(f"log destroyed next to {what} file", f"of {len(logged)} bytes")
        return
    path.write_bytes(kept)  # what the message advises: put it back
    with world.server("--no-sweeper", settings=Settings(data=data, relaxed=True)) as server:
        world.verify(server.raw)
