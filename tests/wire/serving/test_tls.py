"""Health probes, HTTPS and certificates."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import ssl
import stat
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from perseid import __version__, certificates
from perseid.config import Settings
from perseid.errors import StartError
from perseid.server import check_settings
from tests.support.raw import RawClient
from tests.support.running import running
from tests.support.servers import Servers
from tests.wire.serving.connections import OTHER_KEY, Answer, ask

Extension = TypeVar("Extension", bound=x509.ExtensionType)


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
    connection = http.client.HTTPSConnection("127.0.0.1", secure.port, context=blind(), timeout=60)
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
    connection = http.client.HTTPSConnection(host, secure.port, context=context, timeout=60)
    account = json.loads(ask(connection, "GET", "/").body)
    location = account["writableLocations"][0]
    assert location["databaseAccountEndpoint"] == f"https://127.0.0.1:{secure.port}/"
    body = json.dumps({"id": name}).encode()
    assert ask(connection, "POST", "/dbs", body).status == 201
    assert ask(connection, "DELETE", f"/dbs/{name}").status == 204
    connection.close()


def test_https_does_not_verify_without_the_certificate(secure: Settings) -> None:
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection("localhost", secure.port, context=context, timeout=60)
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.connect()
    connection.close()


def extension(certificate: x509.Certificate, kind: type[Extension]) -> Extension:
    return certificate.extensions.get_extension_for_class(kind).value


def names_in(names: Iterable[x509.GeneralName]) -> set[str]:
    return {str(name.value) for name in names}


def test_the_trusted_certificate_signs_for_this_machine_only(certificate: bytes) -> None:
    """People trust it for their whole system, so it must be worth nothing to anybody else."""
    (authority,) = x509.load_pem_x509_certificates(certificate)
    assert extension(authority, x509.BasicConstraints) == x509.BasicConstraints(True, 0)
    assert authority.extensions.get_extension_for_class(x509.NameConstraints).critical
    limits = extension(authority, x509.NameConstraints)
    assert limits.excluded_subtrees is None
    assert names_in(limits.permitted_subtrees or ()) == {"localhost", "127.0.0.1/32", "::1/128"}
    assert b"PRIVATE" not in certificate


def test_the_server_shows_a_certificate_that_is_no_authority(secure: Settings) -> None:
    """Clients with rustls refuse an authority as the server's own certificate."""
    text = ssl.get_server_certificate(("127.0.0.1", secure.port))
    leaf = x509.load_pem_x509_certificate(text.encode())
    assert extension(leaf, x509.BasicConstraints) == x509.BasicConstraints(False, None)
    usage = extension(leaf, x509.KeyUsage)
    assert usage.digital_signature
    assert not usage.key_cert_sign
    assert list(extension(leaf, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.SERVER_AUTH]
    names = extension(leaf, x509.SubjectAlternativeName)
    assert names_in(names) == {"localhost", "127.0.0.1", "::1"}


def test_strict_verification(secure: Settings, certificate: bytes) -> None:
    """As Python 3.13 and later verify by default."""
    context = trusting(certificate)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    plain = socket.create_connection(("127.0.0.1", secure.port), timeout=60)
    with plain, context.wrap_socket(plain, server_hostname="localhost") as wrapped:
        assert wrapped.version() == "TLSv1.3"


def test_old_protocols_are_refused(secure: Settings) -> None:
    context = blind()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    plain = socket.create_connection(("127.0.0.1", secure.port), timeout=60)
    with plain, pytest.raises((ssl.SSLError, ConnectionError)):
        context.wrap_socket(plain)


def test_plain_http_to_an_https_port(secure: Settings) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), timeout=60) as plain:
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
        secret = tmp_path / "certificate-key.pem"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        secret.chmod(0o644)  # as it may have come with a copy of the data
    assert found[0] == found[1] == (tmp_path / "certificate.pem").read_bytes()


def test_each_user_has_one_certificate_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that trust need not be renewed after each start."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found: set[bytes] = set()
    for host in ("127.0.0.1", "localhost"):
        with running(Settings(memory=True, tls=True, host=host)) as secure:
            found.add(download(secure).body)
    assert len(found) == 1
    directory = tmp_path / "state" / "perseid"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {
        "certificate.pem": 0o600,
        "certificate-key.pem": 0o600,
    }


def test_a_user_without_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with running(Settings(memory=True, tls=True)) as secure:
        assert download(secure).status == 200
    assert "must trust a new one after each start" in caplog.text


def test_other_hosts_join_the_names(tmp_path: Path) -> None:
    """Servers of one user that listen on different hosts do not replace each other's for ever."""
    certificates.ensure_certificate(tmp_path, "a.test")
    both = certificates.ensure_certificate(tmp_path, "192.0.2.1")
    assert certificates.ensure_certificate(tmp_path, "a.test") == both
    (authority,) = x509.load_pem_x509_certificates(both.trusted)
    limits = extension(authority, x509.NameConstraints).permitted_subtrees or ()
    own = {"localhost", "127.0.0.1/32", "::1/128"}
    assert names_in(limits) == own | {"a.test", "192.0.2.1/32"}


def unlimited_authority() -> tuple[bytes, bytes]:
    """A certificate and its key, as early releases made them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=825))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), secret


def test_an_authority_without_limits_is_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, key = unlimited_authority()
    (tmp_path / "certificate.pem").write_bytes(old)
    (tmp_path / "certificate-key.pem").write_bytes(key)
    with running(Settings(data=tmp_path, durability="off", tls=True, host="localhost")) as secure:
        new = download(secure).body
        plain = socket.create_connection(("127.0.0.1", secure.port), timeout=60)
        with plain, trusting(new).wrap_socket(plain, server_hostname="localhost"):
            pass
    assert new != old
    assert key not in (tmp_path / "certificate-key.pem").read_bytes()
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(old.decode())).hexdigest()
    message = next(text for text in caplog.messages if "was replaced" in text)
    assert "Remove it from all trust stores" in message
    assert fingerprint.upper() in message.replace(":", "")
    caplog.clear()
    certificates.ensure_certificate(tmp_path, "localhost")
    assert not caplog.messages


def test_a_certificate_file_with_a_key_shows_no_key(tmp_path: Path) -> None:
    """Other programs want both in one file."""
    file = tmp_path / "both.pem"
    file.write_bytes(b"".join(path.read_bytes() for path in certificate_pair(tmp_path, "one")))
    settings = Settings(memory=True, tls=True, cert=file, key_file=file)
    with running(settings) as secure:
        content = download(secure).body
    assert content == (tmp_path / "one.pem").read_bytes()
    assert b"PRIVATE" not in content


@pytest.mark.parametrize("damaged", ["certificate.pem", "certificate-key.pem"])
def test_a_damaged_self_signed_certificate_is_replaced(tmp_path: Path, damaged: str) -> None:
    settings = Settings(data=tmp_path, durability="off", tls=True)
    for _ in range(2):
        with running(settings) as secure:
            assert download(secure).status == 200
        (tmp_path / damaged).write_text("nothing of the kind")


def certificate_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate and its key."""
    paths = folder / f"{name}.pem", folder / f"{name}-key.pem"
    for path, content in zip(paths, unlimited_authority(), strict=True):
        path.write_bytes(content)
        path.chmod(0o600)
    return paths


def test_certificates_that_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = certificate_pair(tmp_path, "one")
    other = certificate_pair(tmp_path, "two")[1]
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
    caplog.clear()
    check_settings(Settings(tls=True, cert=cert, key_file=key))
    assert not caplog.messages
    key.chmod(0o644)
    check_settings(Settings(tls=True, cert=cert, key_file=key))
    assert f"chmod 600 {key}" in caplog.text
