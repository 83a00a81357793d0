"""A server on a disk that becomes full: deletes and the purge go on, and make room."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from perseid.config import Settings
from perseid.store.sqlite.files import DATABASE_FILE
from tests.store.sqlite.small_disk import SmallDisk, small_disk
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import frozen_clock
from tests.support.ttl_containers import drain
from tests.support.waiting import until

pytestmark = [
    pytest.mark.only_on("sqlite", reason="about files and the one writer"),
    pytest.mark.skipif(sys.platform == "win32", reason="wraps the files of Unix"),
]

DOCS: Final = "/dbs/d/colls/c/docs"
SIZE: Final = 4 * 1024 * 1024
TEXT: Final = "x" * 30_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "data", SIZE) as made:
        yield made


def create(client: RawClient, id_: str, **rest: object) -> Reply:
    return client.post(DOCS, {"id": id_, "pk": "p", "text": TEXT, **rest}, pk='["p"]')


def remove(client: RawClient, id_: str) -> int:
    return client.delete(f"{DOCS}/{id_}", pk='["p"]').status


def fill(client: RawClient, disk: SmallDisk, **rest: object) -> list[str]:
    """Creates containers, and items until there is no room; the ids."""
    client.post("/dbs", {"id": "d"})
    for name in ("c", "other"):
        client.post("/dbs/d/colls", {"id": name, "partitionKey": PARTITION_KEY, "defaultTtl": -1})
    ids: list[str] = []
    while (reply := create(client, str(len(ids)), **rest)).status == 201:
        ids.append(str(len(ids)))
    assert reply.status == 507
    assert "disk" in reply.json["message"]
    assert len(ids) > 50
    disk.fill()
    return ids


def goes_on(attempt: Callable[[], Reply]) -> bool:
    """True once it succeeds; the sweeper looks for room every second."""
    until(lambda: attempt().status == 201)
    return True


def check_usable_except_for_growth(client: RawClient, ids: list[str]) -> None:
    assert client.get(f"{DOCS}/{ids[-1]}", pk='["p"]').json["text"] == TEXT
    counted = client.query(DOCS, "SELECT VALUE COUNT(1) FROM c WHERE c.text > 'a'")
    assert counted.json["Documents"] == [len(ids)]
    assert create(client, "refused").status == 507
    assert client.put(f"{DOCS}/{ids[0]}", {"id": ids[0], "pk": "p"}, pk='["p"]').status == 507
    definition = {"id": "more", "partitionKey": PARTITION_KEY}
    assert client.post("/dbs/d/colls", definition).status == 507


def test_deletes_make_room(disk: SmallDisk) -> None:
    with running(Settings(data=disk.folder, no_sweeper=True, relaxed=True)) as settings:
        client = RawClient(settings.endpoint)
        ids = fill(client, disk)
        check_usable_except_for_growth(client, ids)
        for id_ in ids[:20]:
            assert remove(client, id_) == 204
        assert client.delete("/dbs/d/colls/other").status == 204
        assert goes_on(lambda: create(client, "again"))
        assert client.get(f"{DOCS}/{ids[20]}", pk='["p"]').status == 200
        client.close()


def test_a_container_makes_room(disk: SmallDisk) -> None:
    with running(Settings(data=disk.folder)) as settings:
        client = RawClient(settings.endpoint)
        fill(client, disk)
        assert client.delete("/dbs/d/colls/c").status == 204
        definition = {"id": "c", "partitionKey": PARTITION_KEY}
        assert goes_on(lambda: client.post("/dbs/d/colls", definition))
        client.close()


def test_expiry_makes_room(disk: SmallDisk) -> None:
    clock = frozen_clock()
    with running(Settings(data=disk.folder, no_sweeper=True, relaxed=True), clock) as settings:
        client = RawClient(settings.endpoint)
        ids = fill(client, disk, ttl=10)
        clock.advance(10)
        assert drain(client) == len(ids)
        assert goes_on(lambda: create(client, "again"))
        client.close()


def test_the_sweeper_makes_room(disk: SmallDisk) -> None:
    clock = frozen_clock()
    with running(Settings(data=disk.folder), clock) as settings:
        client = RawClient(settings.endpoint)
        fill(client, disk, ttl=10)
        clock.advance(10)
        assert goes_on(lambda: create(client, "again"))
        client.close()


def test_room_that_others_make_is_used(disk: SmallDisk) -> None:
    with running(Settings(data=disk.folder, no_sweeper=True, relaxed=True)) as settings:
        client = RawClient(settings.endpoint)
        fill(client, disk)
        disk.size *= 2
        assert goes_on(lambda: create(client, "again"))
        client.close()


@pytest.mark.parametrize("has_reserve", [True, False])
def test_a_start_on_a_full_disk(
    disk: SmallDisk, caplog: pytest.LogCaptureFixture, has_reserve: bool
) -> None:
    settings = Settings(data=disk.folder, no_sweeper=True, relaxed=True)
    with running(settings) as started:
        client = RawClient(started.endpoint)
        ids = fill(client, disk)
        client.close()
    if not has_reserve:
        (disk.folder / f"{DATABASE_FILE}-reserve").unlink()
    disk.fill()
    caplog.clear()
    with running(settings) as started:
        client = RawClient(started.endpoint)
        check_usable_except_for_growth(client, ids)
        assert "is full" in caplog.text
        assert remove(client, ids[0]) == (204 if has_reserve else 507)
        disk.size *= 2
        assert goes_on(lambda: create(client, "again"))
        assert remove(client, ids[1]) == 204
        client.close()


def test_the_reserve_is_taken_again(disk: SmallDisk) -> None:
    """It is there before the disk is full, and after."""
    reserve = disk.folder / f"{DATABASE_FILE}-reserve"
    with running(Settings(data=disk.folder)) as settings:
        client = RawClient(settings.endpoint)
        assert reserve.stat().st_size == SIZE // 8
        ids = fill(client, disk)
        assert 0 < reserve.stat().st_size <= SIZE // 8
        disk.size *= 2
        assert goes_on(lambda: create(client, "again"))
        assert reserve.stat().st_size == SIZE // 8
        assert remove(client, ids[0]) == 204
        client.close()
    assert reserve.stat().st_size == SIZE // 8
