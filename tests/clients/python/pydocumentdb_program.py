"""Checks a server with pydocumentdb, the Python client of 2017. Needs --test-clock."""

from __future__ import annotations

import sys
from typing import Any

from pydocumentdb import (  # type: ignore[import-not-found]
    document_client,
    documents,
)

from tests.clients.python.older_checks import OlderChecks
from tests.clients.python.server import CERTIFICATE, ENDPOINT, KEY


def connect() -> Any:
    policy = documents.ConnectionPolicy()
    if ENDPOINT.startswith("https:"):
        policy.SSLConfiguration = documents.SSLConfiguration()
        policy.SSLConfiguration.SSLCaCerts = CERTIFICATE
    return document_client.DocumentClient(ENDPOINT, {"masterKey": KEY}, policy)


if __name__ == "__main__":
    sys.exit(OlderChecks(connect(), document="Document", collection="Collection").run())
