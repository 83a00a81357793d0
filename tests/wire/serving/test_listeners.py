"""Where a server listens: HTTP and HTTPS, on both loopback addresses."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from perseid import certificates, listeners, server
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import StartError
from perseid.http import wire_limits
from perseid.listeners import connection_limit, listen_addresses, reserved
from perseid.server import Server
from tests.support.processes import environment
from tests.support.raw import RawClient, signature
from tests.support.running import free_port, running
from tests.support.sockets import PlainSocket
from tests.wire.serving.connections import Answer, ask

LOOPBACK = ("127.0.0.1", "::1")


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture(scope="module")
def both() -> Iterator[Settings]:
    """A server as `perseid serve` starts it, except for its ports."""
    with running(Settings(memory=True), as_served=True) as settings:
        yield settings


def trusted(settings: Settings) -> ssl.SSLContext:
    """A client that has downloaded the certificate over HTTP, and trusts nothing else."""
    with closing(RawClient(settings.endpoint)) as raw:
        content = raw.request("GET", "/_explorer/emulator.pem", sign_with=None).body
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=content.decode())
    return context


def connections(settings: Settings) -> Iterator[tuple[str, int, http.client.HTTPConnection]]:
    context = trusted(settings)
    for ip in LOOPBACK:
        yield "http", settings.port, http.client.HTTPConnection(ip, settings.port, timeout=60)
        secure = http.client.HTTPSConnection(ip, settings.https_port, context=context, timeout=60)
        yield "https", settings.https_port, secure


def endpoints_in(account: dict[str, Any]) -> set[str]:
    return {
        location["databaseAccountEndpoint"]
        for name in ("writableLocations", "readableLocations")
        for location in account[name]
    }


@needs_ipv6
def test_both_protocols_on_both_addresses(both: Settings) -> None:
    """Each client is told to continue with the scheme and the port that it has used."""
    seen = 0
    for scheme, port, connection in connections(both):
        with closing(connection):
            for host in ("localhost", "127.0.0.1", "[::1]"):
                sent = {"host": f"{host}:{port}"}
                account = json.loads(ask(connection, "GET", "/", headers=sent).body)
                told = host.replace("localhost", "127.0.0.1")
                assert endpoints_in(account) == {f"{scheme}://{told}:{port}/"}
                seen += 1
    assert seen == 12


def test_a_request_without_a_host_over_https(both: Settings) -> None:
    """HTTP/1.0 has none; then it is the address for HTTPS."""
    with (
        socket.create_connection(("127.0.0.1", both.https_port), timeout=60) as plain,
        trusted(both).wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        lines = [f"{name}: {value}" for name, value in signature("GET", "/").items()]
        secure.sendall("\r\n".join(["GET / HTTP/1.0", *lines, "", ""]).encode())
        content = b"".join(iter(lambda: secure.recv(65536), b""))
    assert endpoints_in(json.loads(content.partition(b"\r\n\r\n")[2])) == {both.https_endpoint}


def test_location_of_an_item_has_the_scheme_and_port_of_the_client(both: Settings) -> None:
    with closing(RawClient(both.endpoint)) as raw:
        assert raw.post("/dbs", {"id": "places"}).status == 201
        key = {"paths": ["/pk"], "kind": "Hash", "version": 2}
        assert raw.post("/dbs/places/colls", {"id": "c", "partitionKey": key}).status == 201
        item = raw.post("/dbs/places/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]')
        assert item.status == 201
    for scheme, port, connection in connections(both):
        with closing(connection):
            sent = {"x-ms-documentdb-partitionkey": '["a"]'}
            answer = ask(connection, "GET", "/dbs/places/colls/c/docs/1", headers=sent)
            location = answer.headers["content-location"]
            assert location.startswith(f"{scheme}://")
            assert f":{port}/dbs/places" in location


def test_certificate_at_the_path_of_the_emulators(both: Settings) -> None:
    with closing(RawClient(both.endpoint)) as raw:
        own = raw.request("GET", "/_perseid/certificate.pem", sign_with=None)
        same = raw.request("GET", "/_explorer/emulator.pem", sign_with=None)
        head = raw.request("HEAD", "/_explorer/emulator.pem", sign_with=None)
        other = raw.request("PUT", "/_explorer/emulator.pem", sign_with=None)
    assert (own.status, own.body) == (same.status, same.body)
    assert same.headers["content-type"] == "application/x-pem-file"
    assert same.body.startswith(b"-----BEGIN CERTIFICATE-----")
    assert b"PRIVATE" not in same.body
    assert (head.status, other.status) == (200, 405)


def test_no_certificate_at_the_path_of_the_emulators_without_https(raw: RawClient) -> None:
    reply = raw.request("GET", "/_explorer/emulator.pem", sign_with=None)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")
    assert "plain HTTP" in reply.json["message"]


def test_a_certificate_of_the_user_is_shown_as_it_is(tmp_path: Path) -> None:
    """--cert is for the port of HTTPS, too."""
    made = certificates.ensure_certificate(tmp_path, "localhost")
    settings = Settings(memory=True, cert=made.file, key_file=made.file)
    with running(settings, as_served=True) as ready, closing(RawClient(ready.endpoint)) as raw:
        reply = raw.request("GET", "/_explorer/emulator.pem", sign_with=None)
        assert reply.body.count(b"BEGIN CERTIFICATE") == 2  # all that the file has
        assert b"PRIVATE" not in reply.body


def test_browsers_are_never_told_to_use_https_only(both: Settings) -> None:
    """They would refuse every other server on localhost that has no HTTPS, for months."""
    requests = [
        ("GET", "/"), ("GET", "/nowhere"), ("GET", "/_explorer/"), ("GET", "/_explorer"),
        ("GET", "/_explorer/emulator.pem"), ("GET", "/_perseid/health"), ("PUT", "/dbs"),
        ("OPTIONS", "/"), ("GET", "/dbs"), ("POST", "/dbs"),
    ]  # fmt: skip
    for _, _, connection in connections(both):
        with closing(connection):
            answers: list[Answer] = []
            for method, path in requests:
                answers.append(ask(connection, method, path, b"" if method == "POST" else None))
                unsigned = {"authorization": ""}
                answers.append(ask(connection, method, path, headers=unsigned))
            assert {answer.status for answer in answers} >= {200, 308, 400, 401, 404, 405}
            assert not [a for a in answers if "strict-transport-security" in a.headers]


# Ports that are not available --------------------------------------------------------------------


@contextmanager
def taken(ip: str, port: int = 0) -> Iterator[int]:
    """Another program that listens."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family) as other:
        other.bind((ip, port))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("ip", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_another_program_on_one_of_the_addresses(ip: str) -> None:
    """`localhost` would lead some clients to that program."""
    with taken(ip) as port:
        settings = Settings(memory=True, port=port, https_port=0)
        with pytest.raises(StartError) as caught:
            asyncio.run(Server(settings).run())
        message = str(caught.value)
        assert f"[{ip}]:{port}" in message or f"{ip}:{port}" in message
        assert "localhost" in message
        assert "--port" in message
        assert "--host" in message
        other = next(each for each in LOOPBACK if each != ip)
        if has_ipv6():
            with reserved(Settings(memory=True, host=other, port=port, https_port=0)) as found:
                assert [address.ip for address in found] == [other]


@pytest.mark.parametrize("ip", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_another_program_on_the_port_for_https(ip: str) -> None:
    with taken(ip) as port:
        settings = Settings(memory=True, port=free_port(), https_port=port)
        with pytest.raises(StartError) as caught:
            asyncio.run(Server(settings).run())
    message = str(caught.value)
    assert f":{port} for HTTPS: " in message
    assert "choose another --https-port" in message
    assert "--https-port 0" in message
    assert " --port" not in message


def test_a_second_server_needs_a_port_of_its_own_for_https(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with taken("127.0.0.1") as port:
        monkeypatch.setattr(listeners, "DEFAULT_HTTPS_PORT", port)
        settings = Settings(memory=True, port=free_port(), https_port=port)
        with pytest.raises(StartError, match="a second server needs an --https-port of its own"):
            asyncio.run(Server(settings).run())


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_a_machine_without_ipv6(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    class OnlyIPv4(socket.socket):
        def bind(self, address: Any) -> None:
            if self.family == socket.AF_INET6:
                raise OSError(number, os.strerror(number))
            super().bind(address)

    monkeypatch.setattr(socket, "socket", OnlyIPv4)
    settings = Settings(port=free_port(), https_port=free_port())
    with reserved(settings) as found:
        assert [(each.ip, each.scheme) for each in found] == [
            ("127.0.0.1", "http"),
            ("127.0.0.1", "https"),
        ]
    with pytest.raises(StartError), reserved(Settings(host="::1", port=free_port())):
        pass


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Settings(), ["127.0.0.1:8081", "[::1]:8081", "127.0.0.1:8443", "[::1]:8443"]),
        (Settings(https_port=0), ["127.0.0.1:8081", "[::1]:8081"]),
        (Settings(tls=True), ["127.0.0.1:8081", "[::1]:8081"]),
        (Settings(host="127.0.0.1"), ["127.0.0.1:8081", "127.0.0.1:8443"]),
        (Settings(host="::1", https_port=1), ["[::1]:8081", "[::1]:1"]),
        (Settings(host="0.0.0.0", tls=True), ["0.0.0.0:8081"]),
        (Settings(host="localhost", https_port=0), ["127.0.0.1:8081"]),
    ],
)
def test_where_a_server_listens(settings: Settings, expected: list[str]) -> None:
    addresses = listen_addresses(settings)
    assert [str(address) for address in addresses] == expected
    assert settings.tls == all(address.scheme == "https" for address in addresses)


@pytest.mark.parametrize(
    ("settings", "endpoint", "https_endpoint"),
    [
        (Settings(), "http://127.0.0.1:8081/", "https://127.0.0.1:8443/"),
        (Settings(https_port=0), "http://127.0.0.1:8081/", None),
        (Settings(tls=True), "https://127.0.0.1:8081/", None),
        (Settings(host="::1"), "http://[::1]:8081/", "https://[::1]:8443/"),
        (Settings(host="0.0.0.0", https_port=9), "http://localhost:8081/", "https://localhost:9/"),
    ],
)
def test_endpoints(settings: Settings, endpoint: str, https_endpoint: str | None) -> None:
    assert (settings.endpoint, settings.https_endpoint) == (endpoint, https_endpoint)


# Limits ------------------------------------------------------------------------------------------


def test_all_listeners_together_fit_into_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, expected in ((20_000, 1024), (4096, 992), (1024, 224), (130, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert connection_limit(Settings(), 4) == expected


@needs_linux
@pytest.mark.parametrize("is_secure", [False, True])
def test_silent_connections_are_closed_on_every_port(
    monkeypatch: pytest.MonkeyPatch, is_secure: bool
) -> None:
    limits = wire_limits.WireLimits(header_seconds=0.5, pressed_seconds=0.2)
    monkeypatch.setattr(wire_limits, "LIMITS", limits)
    with (
        running(Settings(memory=True, max_connections=64), as_served=True) as settings,
        ExitStack() as opened,
    ):
        port = settings.https_port if is_secure else settings.port
        for ip in LOOPBACK[: 1 + has_ipv6()]:
            plain = opened.enter_context(socket.create_connection((ip, port), timeout=60))
            wire: socket.socket = plain
            if is_secure:
                wire = trusted(settings).wrap_socket(plain, server_hostname="localhost")
                opened.enter_context(wire)
            with suppress(ConnectionError, ssl.SSLEOFError):
                assert wire.recv(1) == b""


def test_http2_over_https(both: Settings) -> None:
    context = trusted(both)
    context.set_alpn_protocols(["h2", "http/1.1"])
    for ip in LOOPBACK[: 1 + has_ipv6()]:
        with (
            socket.create_connection((ip, both.https_port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=ip) as secure,
        ):
            assert secure.selected_alpn_protocol() == "h2"


@pytest.mark.parametrize("is_secure", [False, True])
def test_a_request_that_is_not_finished_does_not_keep_any_listener(
    monkeypatch: pytest.MonkeyPatch, is_secure: bool
) -> None:
    monkeypatch.setattr(server, "_GRACE_SECONDS", 0.2)
    with ExitStack() as opened, running(Settings(memory=True), as_served=True) as settings:
        context = trusted(settings)
        for ip in LOOPBACK[: 1 + has_ipv6()]:
            port = settings.https_port if is_secure else settings.port
            wire: socket.socket = socket.create_connection((ip, port), timeout=60)
            opened.enter_context(wire)
            if is_secure:
                wire = context.wrap_socket(wire, server_hostname="localhost")
                opened.enter_context(wire)
            lines = [f"{name}: {value}" for name, value in signature("POST", "/dbs").items()]
            head = ["POST /dbs HTTP/1.1", "host: localhost", "content-length: 9", *lines]
            wire.sendall("\r\n".join([*head, "", "{"]).encode())
        with closing(RawClient(settings.endpoint)) as raw:
            assert raw.get("/").status == 200  # after them, so that they have been noticed
    for ip in LOOPBACK[: 1 + has_ipv6()]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((ip, settings.https_port), timeout=60)


# Processes ---------------------------------------------------------------------------------------


@contextmanager
def served(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`perseid serve` and what it writes until it is ready or has ended."""
    child = subprocess.Popen(
        [sys.executable, "-m", "perseid", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | {"PERSEID_HTTPS_PORT": ""},
    )
    with child:
        try:
            assert child.stdout is not None
            said = ""
            for line in child.stdout:
                said += line
                if "Ctrl-C" in line:
                    break
            yield child, said
        finally:
            child.kill()


def test_what_a_server_prints(tmp_path: Path) -> None:
    port, https_port = free_port(), free_port()
    data = tmp_path / "the data"
    options = ("--port", str(port), "--https-port", str(https_port), "--data", str(data))
    with served(*options) as (child, said):
        for endpoint in (f"http://127.0.0.1:{port}/", f"https://127.0.0.1:{https_port}/"):
            assert f" {endpoint}\n" in said
            assert f"AccountEndpoint={endpoint};AccountKey={WELL_KNOWN_KEY};\n" in said
        assert f"perseid trust --data '{data}'" in said
        file = data / "certificate.pem"
        context = ssl.create_default_context(cafile=str(file))
        for host in ("localhost", "127.0.0.1"):
            secure = http.client.HTTPSConnection(host, https_port, context=context, timeout=60)
            with closing(secure):
                assert ask(secure, "GET", "/").status == 200
        with closing(PlainSocket(f"http://127.0.0.1:{port}/")):
            child.send_signal(signal.SIGTERM)
            assert child.wait(60) == 0


@pytest.mark.parametrize("options", [("--https-port", "0"), ("--tls",)])
def test_one_port_alone(options: tuple[str, ...]) -> None:
    port = free_port()
    with served("--memory", "--port", str(port), *options) as (_, said):
        scheme = "https" if "--tls" in options else "http"
        assert said.count("AccountEndpoint=") == 1
        assert f"AccountEndpoint={scheme}://127.0.0.1:{port}/;" in said
        assert ("perseid trust --memory" in said) == (scheme == "https")


def test_a_second_server_with_another_port() -> None:
    """Nothing is opened on the port that would be free."""
    with running(Settings(memory=True), as_served=True) as first:
        port = free_port()
        options = ("--memory", "--port", str(port), "--https-port", str(first.https_port))
        with served(*options) as (child, said):
            assert child.wait(60) == 1
        assert said.startswith("Error: cannot listen on 127.0.0.1:")
        assert said.count("\n") == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_a_certificate_that_cannot_be_stored(tmp_path: Path) -> None:
    (tmp_path / "certificate-key.pem.new").mkdir()
    with (
        pytest.raises(StartError) as caught,
        running(Settings(data=tmp_path, durability="off"), as_served=True),
    ):
        pass
    assert f"cannot store a certificate in {tmp_path}: Is a directory" in str(caught.value)
    assert "--https-port 0" in str(caught.value)
    with running(Settings(data=tmp_path, durability="off", https_port=0), as_served=True):
        pass


def test_a_stored_certificate_is_checked_without_the_library_that_creates_it(
    tmp_path: Path,
) -> None:
    """It takes a tenth of a second to load, and ten megabytes."""
    text = (
        "import sys; from pathlib import Path; from perseid import certificates;"
        f"certificates.ensure_certificate(Path({str(tmp_path)!r}), 'localhost');"
        "print('cryptography' in sys.modules)"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", text], env=environment(), capture_output=True, text=True,
            check=True,
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert said == ["True", "False"]
