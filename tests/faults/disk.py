"""A full disk: nothing is lost, deletes and expiry free space, and a start is possible."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from perseid.config import Settings
from tests.faults.world import Until, World
from tests.support.builders import create_container
from tests.support.processes import NotStarted, ServerProcess
from tests.support.raw import RawClient, Reply

FILL: Final = "/dbs/d/colls/fill/docs"
SIZES: Final = (200_000, 10_000, 100)  # characters of the items that fill a disk
MOST: Final = 2000
SIZE, LARGER = 32, 64  # megabytes of the disk
HEAL_SECONDS: Final = 15.0
PK: Final = '["f"]'


class SmallDisk:
    """A place that becomes full, and that can be made larger."""

    def __init__(self, folder: Path, *, is_mounted: bool) -> None:
        self.data = folder / "data"
        self._folder = folder
        self._is_mounted = is_mounted

    def restrict(self, server: ServerProcess) -> None:
        """Where nothing can be mounted, the process may not write larger files."""
        if not self._is_mounted:
            _limit(server, SIZE)

    def enlarge(self, server: ServerProcess | None = None) -> None:
        """Makes room, also if no server could start."""
        if self._is_mounted:
            options = f"remount,size={LARGER}m"
            subprocess.run(["mount", "-o", options, str(self._folder)], check=True)
        elif server is not None:
            _limit(server, LARGER)


def _limit(server: ServerProcess, megabytes: int) -> None:
    import resource

    limits = (megabytes << 20, resource.RLIM_INFINITY)
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, limits)


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A file system of its own where mounting is allowed, else a limit of the file size."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "tmpfs", str(folder)]
    is_mounted = (
        sys.platform == "linux"
        and shutil.which("mount") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )
    try:
        yield SmallDisk(folder, is_mounted=is_mounted)
    finally:
        if is_mounted:
            subprocess.run(["umount", str(folder)], check=True)


def full_disk(world: World, until: Until) -> None:
    while world.rounds == 0 or not until.is_over:
        with small_disk(world.folder / f"disk{world.rounds}") as disk:
            world.renew(Settings(data=disk.data, relaxed=True))
            _round(world, disk)


def _round(world: World, disk: SmallDisk) -> None:
    with world.server() as server:
        disk.restrict(server)
        world.furnish(server.raw)
        create_container(server.raw, "/dbs/d", "fill", defaultTtl=-1)
        load = world.load()
        load.start([server.endpoint])
        time.sleep(0.5)
        load.end()
        filled = fill(world, server.raw, "deleted")
        world.verify(server.raw, has_room=False)
        _free(world, server.raw, filled)
        _expect_room(world, server.raw, "deletes do not make room")
        fill(world, server.raw, "expired", ttl=3)
        _expect_room(world, server.raw, "expired items do not make room")
        fill(world, server.raw, "last")
        server.child.kill()
        server.child.wait()
    try:
        with world.server() as server:
            disk.restrict(server)
            world.verify(server.raw, has_room=False)
    except NotStarted as exc:
        world.findings.add("no start on a full disk", str(exc)[-500:])
    _grow(world, disk)


def _grow(world: World, disk: SmallDisk) -> None:
    """With more room everything goes on."""
    try:
        with world.server() as server:
            disk.enlarge(server)
            _expect_room(world, server.raw, "a larger disk does not help")
            world.verify(server.raw)
    except NotStarted:  # a finding already
        disk.enlarge()
        with world.server() as server:
            world.verify(server.raw)
    world.verify_file()


def fill(world: World, raw: RawClient, name: str, ttl: int | None = None) -> list[str]:
    """Creates items until there is no room, not even for a small one; their ids."""
    created: list[str] = []
    for size in SIZES:
        for _ in range(MOST):
            body: dict[str, Any] = {"id": f"{name}{len(created)}", "pk": "f", "text": "x" * size}
            reply = raw.post(FILL, body if ttl is None else body | {"ttl": ttl}, pk=PK)
            world.tally.add("fill", reply)
            if reply.status != 201:
                break
            created.append(body["id"])
        else:
            world.findings.add("the disk does not become full", f"{len(created)} items")
    return created


def _free(world: World, raw: RawClient, filled: list[str]) -> None:
    """Deletes must not need room."""
    for item_id in filled[:10]:
        reply = raw.delete(f"{FILL}/{item_id}", pk=PK)
        world.tally.add("delete", reply)
        if reply.status != 204:
            world.findings.add("delete refused on a full disk", f"{reply.status} {reply.body!r}")


def _expect_room(world: World, raw: RawClient, finding: str) -> None:
    """A small write succeeds within some seconds."""

    def write() -> Reply:
        body = {"id": "small", "pk": "f", "text": "x" * 20_000}
        return raw.post(FILL, body, pk=PK, upsert="true")

    if not _soon(lambda: write().status in (200, 201)):
        world.findings.add(finding, f"after {HEAL_SECONDS:.0f} s: {write().body[:300]!r}")


def _soon(is_done: Callable[[], bool]) -> bool:
    end = time.monotonic() + HEAL_SECONDS
    while not is_done():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True
