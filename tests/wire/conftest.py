"""Fixtures of the HTTP tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.sockets import PlainSocket


@pytest.fixture
def wire(endpoint: str) -> Iterator[PlainSocket]:
    """A plain socket to the server of the test."""
    with closing(PlainSocket(endpoint)) as connection:
        yield connection
