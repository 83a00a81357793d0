"""Fixtures for connections."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest


@pytest.fixture
def connection(endpoint: str) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    yield made
    made.close()
