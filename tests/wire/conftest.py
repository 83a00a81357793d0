"""Fixtures of the HTTP tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.builders import create_container
from tests.support.raw import RawClient
from tests.support.sockets import PlainSocket


@pytest.fixture
def wire(endpoint: str) -> Iterator[PlainSocket]:
    """A plain socket to the server of the test."""
    with closing(PlainSocket(endpoint)) as connection:
        yield connection


@pytest.fixture
def unique_mail(raw: RawClient, database: str) -> str:
    """The path of a container where /mail is unique in each logical partition."""
    policy = {"uniqueKeys": [{"paths": ["/mail"]}]}
    return create_container(raw, database, "u", uniqueKeyPolicy=policy)
