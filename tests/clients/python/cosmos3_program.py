"""Checks a server with azure-cosmos 3, the Python client of 2018 and 2019. Needs --test-clock."""

from __future__ import annotations

import sys
from typing import Any

from azure.cosmos import cosmos_client, documents

from tests.clients.python.older_checks import OlderChecks
from tests.clients.python.server import CERTIFICATE, ENDPOINT, KEY


def connect() -> Any:
    policy: Any = documents.ConnectionPolicy()
    if ENDPOINT.startswith("https:"):
        policy.SSLConfiguration = documents.SSLConfiguration()
        policy.SSLConfiguration.SSLCaCerts = CERTIFICATE
    return cosmos_client.CosmosClient(ENDPOINT, {"masterKey": KEY}, policy)


if __name__ == "__main__":
    sys.exit(OlderChecks(connect(), document="Item", collection="Container").run())
