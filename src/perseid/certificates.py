"""A self-signed certificate for --tls, created once and stored in the data directory."""

from __future__ import annotations

import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from perseid import clock
from perseid.errors import StartError

CERTIFICATE_FILE: Final = "certificate.pem"
KEY_FILE: Final = "certificate-key.pem"
_LIFETIME: Final = timedelta(days=825)  # the longest that macOS trusts


def ensure_certificate(directory: Path, host: str) -> tuple[Path, Path]:
    """Certificate and key in `directory`, created if missing, unusable or about to expire."""
    certificate, key = directory / CERTIFICATE_FILE, directory / KEY_FILE
    now = datetime.fromtimestamp(clock.wall(), UTC)
    try:
        if not (certificate.exists() and key.exists() and _is_usable(certificate, key, host, now)):
            _write_certificate(certificate, key, host, now)
    except OSError as exc:
        raise StartError(f"cannot store a certificate in {directory}: {exc.strerror}") from exc
    return certificate, key


def pair_problem(certificate: Path, key: Path) -> str | None:
    """The reason why a server cannot use these two files; None if it can."""
    passphrase_requests: list[None] = []

    def passphrase() -> str:  # without it OpenSSL would prompt on the terminal
        passphrase_requests.append(None)
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, passphrase)
    except ssl.SSLError as exc:
        if passphrase_requests:
            return "the key is encrypted; use a key without a passphrase"
        if exc.reason == "KEY_VALUES_MISMATCH":
            return "the key belongs to another certificate"
        return "they are not a certificate and its private key in PEM"
    return None


def _is_usable(certificate: Path, key: Path, host: str, now: datetime) -> bool:
    if pair_problem(certificate, key) is not None:
        return False
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return False
    return loaded.not_valid_after_utc > now + timedelta(days=1) and _name(host) in names


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_certificate(certificate: Path, key: Path, host: str, now: datetime) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [
        _name(host_name) for host_name in dict.fromkeys(("localhost", "127.0.0.1", "::1", host))
    ]
    signed_certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # A certificate authority, because users install it as a trusted one.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(secret)
    certificate.write_bytes(signed_certificate.public_bytes(serialization.Encoding.PEM))
