"""Tokens of Entra as emulators accept them: the token carries a key of the account."""

from __future__ import annotations

import base64
import http.client
import json
import logging
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from perseid.clock import MovableClock
from perseid.config import WELL_KNOWN_KEY, Settings
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.running import running
from tests.support.servers import RunningServer, Servers

OWN_KEY = base64.b64encode(b"a key of our own, which is long enough").decode()
OTHER_KEY = base64.b64encode(b"a key of no account, but long enough").decode()
READ_ONLY_KEY = base64.b64encode(b"only for reading, but 32 bytes and more").decode()


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(key=OWN_KEY, read_only_key=READ_ONLY_KEY)


def part(value: Any) -> str:
    """One part of a token: JSON or text, base64url without padding."""
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    body = {
        "aud": "https://localhost.localhost", "iss": "https://sts.fake-issuer.net/1",
        "iat": now, "nbf": now, "exp": now + 3600, "scp": "user_impersonation", "groups": [],
        "oid": "00000000-0000-0000-0000-000000000001", "tid": "EmulatorFederation",
    }  # fmt: skip
    return {name: value for name, value in (body | changes).items() if value is not None}


def token_of(key: str = OWN_KEY, **changes: Any) -> str:
    header = {"typ": "JWT", "alg": "RS256", "x5t": "CosmosEmulatorPrimaryMaster", "kid": "1"}
    return f"{part(header)}.{part(claims(**changes))}.{part(key.encode())}"


def authorization(token: str) -> dict[str, str]:
    return {"authorization": f"type=aad&ver=1.0&sig={token}"}


def send(
    raw: RawClient, token: str, method: str = "GET", path: str = "/", body: Any = None
) -> Reply:
    return raw.request(method, path, body, authorization(token), sign_with=None)


@pytest.mark.parametrize("is_encoded", [False, True], ids=["as it is", "percent-encoded"])
def test_a_token_is_as_good_as_its_key(raw: RawClient, name: str, is_encoded: bool) -> None:
    header = f"type=aad&ver=1.0&sig={token_of()}"
    sent = {"authorization": quote(header, safe="") if is_encoded else header}

    def ask(method: str, path: str, body: Any = None, **more: str) -> Reply:
        return raw.request(method, path, body, sent | more, sign_with=None)

    container, pk = f"/dbs/{name}/colls/c", {"x-ms-documentdb-partitionkey": '["a"]'}
    query = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "true"}
    definition = {"id": "c", "partitionKey": PARTITION_KEY}
    replies = [
        ask("GET", "/"),
        ask("POST", "/dbs", {"id": name}),
        ask("POST", f"/dbs/{name}/colls", definition),
        ask("GET", container),
        ask("GET", f"{container}/pkranges"),
        ask("POST", f"{container}/docs", {"id": "1", "pk": "a"}, **pk),
        ask("GET", f"{container}/docs/1", **pk),
        ask("POST", f"{container}/docs", {"query": "SELECT * FROM c"}, **pk, **query),
        ask("GET", f"{container}/docs", **{"a-im": "Incremental Feed"}),
        ask("DELETE", f"{container}/docs/1", **pk),
        ask("GET", "/_perseid/clock"),
        ask("DELETE", f"/dbs/{name}"),
    ]
    assert [reply.status for reply in replies] == [
        200, 201, 201, 200, 200, 201, 200, 200, 200, 204, 200, 204,
    ]  # fmt: skip


def test_no_date_is_needed(endpoint: str) -> None:
    address = urlsplit(endpoint).netloc
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        connection.request("GET", "/dbs", headers=authorization(token_of()))
        assert connection.getresponse().status == 200


def test_a_read_only_key(raw: RawClient, database: str) -> None:
    token = token_of(READ_ONLY_KEY)
    assert send(raw, token, path=database).status == 200
    for method, path, body in (("POST", "/dbs", {"id": "no"}), ("DELETE", database, None)):
        reply = send(raw, token, method, path, body)
        assert (reply.status, reply.json["code"]) == (403, "Forbidden")
    assert raw.get(database).status == 200


NOW = int(time.time())
GOOD = part({"typ": "JWT", "alg": "RS256"})
REFUSED = {
    "key of another account": token_of(OTHER_KEY),
    "well-known key of an account with another": token_of(WELL_KNOWN_KEY),
    "bytes of the key": f"{GOOD}.{part(claims())}.{part(base64.b64decode(OWN_KEY))}",
    "part of the key": token_of(OWN_KEY[:-4]),
    "no key": f"{GOOD}.{part(claims())}.",
    "two parts": f"{GOOD}.{part(claims())}",
    "four parts": f"{token_of()}.{GOOD}",
    "nothing": "",
    "padding": f"{token_of()}=",
    "no base64": f"{GOOD}.{part(claims())}.%%%",
    "not ASCII": f"{GOOD}.{part(claims())}.é",
    "header that is no JSON": f"{part(b'x')}.{part(claims())}.{part(OWN_KEY.encode())}",
    "claims that are no object": f"{GOOD}.{part([1])}.{part(OWN_KEY.encode())}",
    "expired": token_of(exp=NOW - 1),
    "expires now": token_of(exp=NOW),
    "no expiry": token_of(exp=None),
    "expiry that is no number": token_of(exp=str(NOW + 3600)),
    "expiry that is a boolean": token_of(exp=True),
    "not valid yet": token_of(nbf=NOW + 3600),
    "start that is no number": token_of(nbf="0"),
    "too long": token_of(groups=["x" * 20_000]),
}  # fmt: skip


@pytest.mark.parametrize("token", REFUSED.values(), ids=REFUSED)
def test_tokens_that_are_refused(raw: RawClient, name: str, token: str) -> None:
    sent = {"authorization": quote(f"type=aad&ver=1.0&sig={token}", safe="")}
    for method, path, body in (("GET", "/", None), ("POST", "/dbs", {"id": name})):
        reply = raw.request(method, path, body, sent, sign_with=None)
        assert (reply.status, reply.json["code"]) == (401, "Unauthorized")
        assert OWN_KEY not in reply.json["message"]
        assert not token or token not in reply.json["message"]
    assert raw.get(f"/dbs/{name}").status == 404


@pytest.mark.parametrize(
    "changes",
    [
        {"nbf": NOW + 60},  # clocks differ
        {"nbf": None},
        {"exp": NOW + 3600.5},
        {"aud": "https://else", "iss": "anyone", "tid": "any", "oid": None, "scp": None},
    ],
)
def test_claims_that_do_not_matter(raw: RawClient, changes: dict[str, Any]) -> None:
    assert send(raw, token_of(**changes)).status == 200


def test_other_versions_are_refused(raw: RawClient) -> None:
    sent = {"authorization": f"type=aad&ver=2.0&sig={token_of()}"}
    assert raw.request("GET", "/", headers=sent, sign_with=None).status == 401


def test_a_moved_clock_expires_no_token(raw: RawClient, clock: MovableClock) -> None:
    """Clients issue tokens by their own clock, as they date signatures."""
    token = token_of()
    clock.advance(7200)
    assert send(raw, token).status == 200


def test_neither_token_nor_key_is_logged(raw: RawClient, caplog: pytest.LogCaptureFixture) -> None:
    good, bad = token_of(), token_of(OTHER_KEY)
    with caplog.at_level(logging.DEBUG):
        send(raw, good)
        send(raw, bad)
    assert "GET" in caplog.text
    for secret in (good, bad, OWN_KEY, part(OWN_KEY.encode()), OTHER_KEY):
        assert secret not in caplog.text


# Where a token is accepted ----------------------------------------------------------------------

EVERYWHERE = "0.0.0.0"


def status_at(settings: Settings, token: str, **headers: str) -> int:
    """The status of GET / with the token; certificates are not what this is about."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection: http.client.HTTPConnection = (
        http.client.HTTPSConnection("127.0.0.1", settings.port, context=context, timeout=60)
        if settings.tls
        else http.client.HTTPConnection("127.0.0.1", settings.port, timeout=60)
    )
    sent = authorization(token) | {name.replace("_", "-"): text for name, text in headers.items()}
    with closing(connection):
        connection.request("GET", "/", headers=sent)
        return connection.getresponse().status


def test_loopback_with_the_well_known_key() -> None:
    with running(Settings(memory=True)) as settings:
        assert status_at(settings, token_of(WELL_KNOWN_KEY)) == 200


@pytest.fixture(scope="module")
def public() -> Iterator[Settings]:
    with running(Settings(memory=True, host=EVERYWHERE, key=OWN_KEY)) as settings:
        yield settings


def test_other_addresses_without_tls(public: Settings) -> None:
    """The token is the key: it must not cross a network in the open."""
    assert status_at(public, token_of()) == 401
    assert status_at(public, token_of(), x_forwarded_proto="https") == 401


def test_other_addresses_with_a_port_for_https() -> None:
    """What counts is the port that the request has used."""
    public = Settings(memory=True, host=EVERYWHERE, key=OWN_KEY)
    with running(public, as_served=True) as settings:
        assert status_at(settings, token_of()) == 401
        secure = replace(settings, port=settings.https_port, https_port=0, tls=True)
        assert status_at(secure, token_of()) == 200


def test_other_addresses_with_tls() -> None:
    both = Settings(
        memory=True, host=EVERYWHERE, tls=True,
        key=OWN_KEY, secondary_key=WELL_KNOWN_KEY, allow_well_known_key=True,
    )  # fmt: skip
    with running(both) as settings:
        assert status_at(settings, token_of()) == 200
        # Everyone can make a token of the well-known key.
        assert status_at(settings, token_of(WELL_KNOWN_KEY)) == 401
