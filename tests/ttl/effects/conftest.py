"""Fixtures for the effects of expiry; most tests run before and after the purge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import create_container, temporary_database
from tests.support.servers import RunningServer
from tests.support.ttl_containers import MaybePurge, TtlContainer, TtlContainers
from tests.ttl.effects.mixed_containers import ALL, LIVE, MixedContainers, mixed_item


@pytest.fixture
def expired(container: TtlContainer, maybe_purge: MaybePurge) -> dict[str, Any]:
    """The item `expired` as it was while it was live; `alive` is next to it."""
    stored = container.create("expired", 5)
    container.create("alive")
    container.clock.advance(5)
    maybe_purge(container)
    return stored


@pytest.fixture(scope="module", params=["unpurged", "purged"])
def mixed_containers(
    request: pytest.FixtureRequest, server: RunningServer
) -> Iterator[MixedContainers]:
    name = f"stock-{request.param}"
    with server.connect() as raw, temporary_database(raw, name) as database:
        containers = TtlContainers(raw, server.clock, database)
        found = MixedContainers(containers.make(-1, "mixed"), containers.make(-1, "clean"))
        for number in ALL:
            item = mixed_item(number)
            targets = [found.mixed, found.clean] if number in LIVE else [found.mixed]
            for container in targets:
                assert container.post(item, pk=item["pk"]).status == 201
        server.clock.advance(5)
        if request.param == "purged":
            assert found.mixed.drain() == len(ALL) - len(LIVE)
        yield found


# Several ranges, hierarchical keys --------------------------------------------------------------


@pytest.fixture
def wide(containers: TtlContainers) -> TtlContainer:
    """A container of several ranges."""
    raw, headers = containers.raw, {"throughput": "18000"}
    path = create_container(raw, containers.database, "wide", headers=headers, defaultTtl=-1)
    return TtlContainer(raw, containers.clock, path)
