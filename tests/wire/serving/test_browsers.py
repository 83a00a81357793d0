"""Pages of other sites cannot write to a server without authorization, nor rebind its name."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from tests.support.servers import RunningServer, Servers
from tests.wire.serving.connections import Answer, ask

pytestmark = pytest.mark.only_on("sqlite", reason="the store is not involved")

EVIL = "http://evil.example"


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(no_auth=True)


@pytest.fixture
def listed(servers: Servers) -> Iterator[http.client.HTTPConnection]:
    """A connection to a server that knows a name and a page of its own."""
    endpoint = servers(no_auth=True, allowed_host="app.example, Proxy.example").endpoint
    with closing(http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)) as made:
        yield made


def create(connection: http.client.HTTPConnection, name: str, **headers: str) -> Answer:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return ask(connection, "POST", "/dbs", json.dumps({"id": name}).encode(), named)


def exists(connection: http.client.HTTPConnection, name: str) -> bool:
    return ask(connection, "GET", f"/dbs/{name}").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": EVIL},
        {"origin": "null"},  # a sandboxed frame, a file
        {"origin": "http://localhost:5173"},  # another program on this machine
        {"origin": EVIL, "sec_fetch_site": "cross-site", "content_type": "text/plain"},
        {"origin": EVIL, "content_type": "application/x-www-form-urlencoded"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "http://[", "sec_fetch_site": "cross-site"},
    ],
)
def test_pages_of_other_origins_cannot_write(
    connection: http.client.HTTPConnection, name: str, headers: dict[str, str]
) -> None:
    refused = create(connection, name, **headers)
    assert refused.status == 403
    assert "page of another origin" in json.loads(refused.body)["message"]
    assert not exists(connection, name)


@pytest.mark.parametrize("path", ["/_perseid/sweeper/pause", "/_perseid/ttl/drain"])
def test_pages_of_other_origins_cannot_administer(
    connection: http.client.HTTPConnection, path: str
) -> None:
    assert ask(connection, "POST", path, b"", {"origin": EVIL}).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},  # an SDK, curl
        {"origin": "http://{host}", "sec_fetch_site": "same-origin"},  # the portal
        {"origin": "http://{host}"},  # the portal in an old browser
        {"origin": "https://{host}"},  # behind a proxy that terminates TLS
        {"origin": EVIL, "sec_fetch_site": "same-origin"},  # behind a proxy that changes the host
        {"sec_fetch_site": "none"},
    ],
)
def test_others_write(
    connection: http.client.HTTPConnection, endpoint: str, name: str, headers: dict[str, str]
) -> None:
    host = urlsplit(endpoint).netloc
    sent = {key: value.replace("{host}", host) for key, value in headers.items()}
    assert create(connection, name, **sent).status == 201
    assert ask(connection, "DELETE", f"/dbs/{name}").status == 204


def test_listed_pages_write(listed: http.client.HTTPConnection, name: str) -> None:
    for number, origin in enumerate(("https://app.example", "http://APP.example:8443")):
        assert create(listed, f"{name}{number}", origin=origin).status == 201
    assert create(listed, name, origin="http://other.example").status == 403


def test_signed_writes_may_come_from_anywhere(servers: Servers, name: str) -> None:
    """Another site has no key, and with a key the page is trusted anyway."""
    host = urlsplit(servers().endpoint).netloc
    with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
        assert create(connection, name, origin=EVIL, sec_fetch_site="cross-site").status == 201
        assert ask(connection, "DELETE", f"/dbs/{name}").status == 204


# Names of the server -----------------------------------------------------------------------------

OWN = ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8081", "192.168.1.5", "app.localhost:80"]
FOREIGN = ["evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example"]


@pytest.mark.parametrize("flags", [{"no_auth": True}, {}], ids=["no-auth", "well-known key"])
def test_names_of_other_sites_are_refused(servers: Servers, flags: dict[str, bool]) -> None:
    """A name that another site points to this machine makes its pages read the responses."""
    endpoint = servers(**flags).endpoint  # type: ignore[arg-type]
    with closing(http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)) as connection:
        for path in ("/", "/dbs", "/_perseid/metrics", "/_explorer/"):
            for host in FOREIGN:
                refused = ask(connection, "GET", path, headers={"host": host})
                assert refused.status == 403
                assert "--allowed-host" in json.loads(refused.body)["message"]
            for host in [*OWN, "host.docker.internal:8081"]:
                assert ask(connection, "GET", path, headers={"host": host}).status == 200


def test_listed_names_are_accepted(listed: http.client.HTTPConnection) -> None:
    for host in ("proxy.example", "PROXY.example.:8081"):
        assert ask(listed, "GET", "/", headers={"host": host}).status == 200
    assert ask(listed, "GET", "/", headers={"host": "evil.example"}).status == 403


def test_servers_with_a_key_of_their_own_take_any_name(servers: Servers) -> None:
    endpoint = servers(key="b3duIGtleSBvZiAzMiBieXRlcyBhdCBsZWFzdC4u").endpoint
    with closing(http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)) as connection:
        health = ask(connection, "GET", "/_perseid/health", headers={"host": "a.example"})
        assert health.status == 200
