"""Fixtures for bad requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.raw import RawClient
from tests.support.servers import Servers
from tests.wire.bad_requests.refusals import Bodies


@pytest.fixture(scope="module")
def open_server(servers: Servers) -> Iterator[RawClient]:
    """A server without authorization, so that random requests get past it."""
    with servers(no_auth=True).connect() as client:
        yield client


# Bodies ------------------------------------------------------------------------------------------


@pytest.fixture
def offer(raw: RawClient, container: str) -> str:
    """The path of a container's offer."""
    rid = raw.get(container).json["_rid"]
    text = f"SELECT * FROM root r WHERE r.offerResourceId = '{rid}'"
    found = raw.query("/offers", text).json["Offers"][0]["id"]
    return f"/offers/{found}"


@pytest.fixture
def bodies(raw: RawClient, container: str, offer: str) -> Bodies:
    return Bodies(raw, container, offer)
