"""Health probes, HTTPS and certificates."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from perseid import __version__, certificates
from perseid.config import Settings
from perseid.errors import StartError
from perseid.server import check_settings
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.servers import Servers
from tests.wire.serving.connections import OTHER_KEY, Answer, ask


@pytest.mark.parametrize(
    ("path", "status"), [("/_perseid/health", "ok"), ("/_perseid/ready", "ready")]
)
def test_probes_need_no_signature(raw: RawClient, path: str, status: str) -> None:
    for key in (None, OTHER_KEY):
        reply = raw.request("GET", path, sign_with=key)
        assert reply.status == 200
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["status"] == status
        assert reply.json["version"] == __version__


def test_no_certificate_without_tls(raw: RawClient) -> None:
    reply = raw.request("GET", "/_perseid/certificate.pem", sign_with=None)
    assert (reply.status, reply.json["code"]) == (404, "NotFound")


# HTTPS -------------------------------------------------------------------------------------------


def trusting(certificate: bytes) -> ssl.SSLContext:
    """Verifies as a client would that trusts this certificate and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=certificate.decode())
    return context


def blind() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.fixture(scope="module")
def secure(servers: Servers) -> Settings:
    return servers(tls=True).settings


def download(secure: Settings) -> Answer:
    """The certificate as a user gets it, before there is anything to verify with."""
    connection = http.client.HTTPSConnection("127.0.0.1", secure.port, context=blind(), timeout=10)
    connection.request("GET", "/_perseid/certificate.pem")
    response = connection.getresponse()
    headers = {
        name.lower(): ", ".join(response.headers.get_all(name, [])) for name in response.headers
    }
    answer = Answer(response.status, headers, response.read())
    connection.close()
    return answer


@pytest.fixture(scope="module")
def certificate(secure: Settings) -> bytes:
    return download(secure).body


def test_certificate_for_download(secure: Settings) -> None:
    answer = download(secure)
    assert answer.status == 200
    assert answer.body.startswith(b"-----BEGIN CERTIFICATE-----")
    assert answer.headers["content-type"] == "application/x-pem-file"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_https_verifies(secure: Settings, certificate: bytes, host: str, name: str) -> None:
    context = trusting(certificate)
    connection = http.client.HTTPSConnection(host, secure.port, context=context, timeout=10)
    account = json.loads(ask(connection, "GET", "/").body)
    location = account["writableLocations"][0]
    assert location["databaseAccountEndpoint"] == f"https://{host}:{secure.port}/"
    body = json.dumps({"id": name}).encode()
    assert ask(connection, "POST", "/dbs", body).status == 201
    assert ask(connection, "DELETE", f"/dbs/{name}").status == 204
    connection.close()


def test_https_does_not_verify_without_the_certificate(secure: Settings) -> None:
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection("localhost", secure.port, context=context, timeout=10)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.connect()
    connection.close()


def test_certificate_names_this_machine_only(certificate: bytes) -> None:
    found = x509.load_pem_x509_certificate(certificate)
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "::1"}
    assert b"PRIVATE" not in certificate


def test_old_protocols_are_refused(secure: Settings) -> None:
    context = blind()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    plain = socket.create_connection(("127.0.0.1", secure.port), timeout=10)
    with plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain)


def test_plain_http_to_an_https_port(secure: Settings) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        try:
            content = plain.recv(65536)
        except ConnectionError:
            content = b""
    assert not content.startswith(b"HTTP/1.1 200")


def test_certificate_is_kept_with_the_data(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, durability="off", tls=True)
    found: list[bytes] = []
    for _ in range(2):
        with running(settings) as secure:
            found.append(download(secure).body)
    assert found[0] == found[1]
    if os.name == "posix":
        (secret,) = (path for path in tmp_path.glob("*.pem") if b"PRIVATE" in path.read_bytes())
        assert secret.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damaged", ["certificate.pem", "certificate-key.pem"])
def test_a_damaged_self_signed_certificate_is_replaced(tmp_path: Path, damaged: str) -> None:
    settings = Settings(data=tmp_path, durability="off", tls=True)
    for _ in range(2):
        with running(settings) as secure:
            assert download(secure).status == 200
        (tmp_path / damaged).write_text("nothing of the kind")


def pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate and its key."""
    made = folder / name
    made.mkdir()
    return certificates.ensure_certificate(made, "localhost")


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    cert, key = pair(tmp_path, "one")
    other = pair(tmp_path, "two")[1]
    secret = serialization.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.pem"
    locked.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"word"),
        )
    )
    (tmp_path / "empty").touch()
    for given, message in (
        ((tmp_path / "nowhere", key), f"--cert {tmp_path / 'nowhere'}: No such file"),
        ((tmp_path, key), f"--cert {tmp_path}: Is a directory"),
        ((cert, tmp_path / "nowhere"), f"--key-file {tmp_path / 'nowhere'}: No such file"),
        ((tmp_path / "empty", key), "not a certificate and its private key in PEM"),
        ((cert, cert), "not a certificate and its private key in PEM"),
        ((cert, other), "belongs to another certificate"),
        ((cert, locked), "without a passphrase"),
    ):
        settings = Settings(tls=True, cert=given[0], key_file=given[1])
        with pytest.raises(StartError) as caught:
            check_settings(settings)
        assert message in str(caught.value)
    check_settings(Settings(tls=True, cert=cert, key_file=key))
