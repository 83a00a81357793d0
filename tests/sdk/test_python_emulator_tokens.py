"""The official Python clients with a token instead of a key, over TLS on `localhost`.

They refuse to send a token without TLS, and ask their credential for the scope of the host name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey, aio

from perseid.config import Settings
from tests.support.running import running
from tests.support.sdk import refused
from tests.wire.test_emulator_tokens import OTHER_KEY, OWN_KEY, READ_ONLY_KEY, token_of

# They do not verify certificates of this machine.
pytestmark = pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")


class Credential:
    """Issues a token as the credential for emulators does, and keeps the scopes it is asked for."""

    def __init__(self, key: str) -> None:
        self._token = AccessToken(token_of(key), int(time.time()) + 3600)
        self.scopes: list[str] = []

    def get_token(self, *scopes: str, **_options: Any) -> AccessToken:
        self.scopes += scopes
        return self._token


class AsyncCredential(Credential):
    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:  # type: ignore[override]
        return super().get_token(*scopes, **options)

    async def close(self) -> None: ...

    async def __aenter__(self) -> AsyncCredential:
        return self

    async def __aexit__(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def secure() -> Iterator[Settings]:
    settings = Settings(memory=True, tls=True, key=OWN_KEY, read_only_key=READ_ONLY_KEY)
    with running(settings) as found:
        yield found


@pytest.fixture(scope="module")
def url(secure: Settings) -> str:
    return f"https://localhost:{secure.port}/"


def test_synchronous(url: str, name: str) -> None:
    credential = Credential(OWN_KEY)
    with CosmosClient(url, credential=credential) as client:
        container = client.create_database(name).create_container("c", PartitionKey("/pk"))
        container.create_item({"id": "1", "pk": "a"})
        assert container.read_item("1", "a")["id"] == "1"
        assert [
            each["id"] for each in container.query_items("SELECT * FROM c", partition_key="a")
        ] == ["1"]
        assert [
            each["id"] for each in container.query_items_change_feed(start_time="Beginning")
        ] == ["1"]
        container.delete_item("1", "a")
        client.delete_database(name)
    assert set(credential.scopes) == {"https://localhost/.default"}


def test_asynchronous(url: str, name: str) -> None:
    async def use() -> None:
        async with aio.CosmosClient(url, credential=AsyncCredential(OWN_KEY)) as client:
            database = await client.create_database(name)
            container = await database.create_container("c", PartitionKey("/pk"))
            await container.create_item({"id": "1", "pk": "a"})
            assert (await container.read_item("1", "a"))["id"] == "1"
            await client.delete_database(name)

    asyncio.run(use())


def test_a_key_that_can_only_read(url: str, name: str) -> None:
    with CosmosClient(url, credential=Credential(READ_ONLY_KEY)) as client:
        list(client.list_databases())
        with refused(403):
            client.create_database(name)


def test_a_key_of_another_account(url: str) -> None:
    with refused(401), CosmosClient(url, credential=Credential(OTHER_KEY)) as client:
        list(client.list_databases())
