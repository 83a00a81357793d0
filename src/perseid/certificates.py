"""Certificates for --tls without --cert, created once and stored.

Clients trust a certificate authority, and some trust it for the whole system. So it may sign only
for the names of this server, and its key is never stored: it signs one certificate and is
forgotten. The server's own certificate is not an authority, because some clients refuse that.
"""

from __future__ import annotations

import ipaddress
import logging
import secrets
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from perseid import clock, private_files
from perseid.errors import StartError

log = logging.getLogger(__name__)

TRUSTED_FILE: Final = "certificate.pem"
SERVER_FILE: Final = "certificate-key.pem"
_LIFETIME: Final = timedelta(days=825)  # the longest that macOS trusts
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_PEM: Final = serialization.Encoding.PEM
_NO_USAGE: Final = dict.fromkeys(
    (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    ),
    False,
)  # fmt: skip


class ServerCertificate(NamedTuple):
    """What a server needs, in one file so that it is always consistent; what clients trust."""

    file: Path  # the private key, the server's certificate, and the authority's
    trusted: bytes  # the authority's certificate


def ensure_certificate(directory: Path, host: str) -> ServerCertificate:
    """The certificate in `directory`, created if missing, unusable or about to expire."""
    server, trusted = directory / SERVER_FILE, directory / TRUSTED_FILE
    now = datetime.fromtimestamp(clock.wall(), UTC)
    try:
        if (problem := _problem(server, trusted, host, now)) is not None:
            names = _names_of(server) | dict.fromkeys(map(_name, (*_OWN_NAMES, host)))
            private_files.replace_file(server, _make(list(names), now))
            if trusted.exists():
                log.warning(
                    "%s was replaced: %s. Clients must trust the new one.", trusted, problem
                )
        private_files.restrict_file(server)
        authority = _certificates(server)[-1].public_bytes(_PEM)
        if not trusted.exists() or trusted.read_bytes() != authority:
            private_files.replace_file(trusted, authority)
    except OSError as exc:
        raise StartError(f"cannot store a certificate in {directory}: {exc.strerror}") from exc
    return ServerCertificate(server, authority)


def user_certificate(host: str, fallback: Path) -> ServerCertificate:
    """The certificate of servers without a data directory, one for each user of the system.

    So trust need not be renewed with each start. If the user has no directory of their own, the
    certificate is stored in `fallback`.
    """
    directory = private_files.user_directory()
    if directory is not None:
        try:
            with private_files.locked(directory):
                return ensure_certificate(directory, host)
        except (OSError, StartError) as exc:
            log.warning("%s cannot be used: %s", directory, exc)
    log.warning("the certificate cannot be stored; clients must trust a new one after each start")
    return ensure_certificate(fallback, host)


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


def _problem(server: Path, trusted: Path, host: str, now: datetime) -> str | None:
    """Why the stored certificate cannot be used any more; None if it can."""
    for certificate in _certificates(trusted)[:1]:
        if _is_unlimited(certificate):
            fingerprint = certificate.fingerprint(hashes.SHA256()).hex(":").upper()
            return (
                "it was a certificate authority for every name. Remove it from all trust stores"
                f" (subject {certificate.subject.rfc4514_string()}, SHA-256 {fingerprint})"
            )
    chain = _certificates(server)
    if len(chain) != 2 or pair_problem(server, server) is not None:  # the server and its authority
        return "it was damaged"
    if min(certificate.not_valid_after_utc for certificate in chain) <= now + timedelta(days=1):
        return "it was about to expire"
    return None if _name(host) in _names_of(server) else f"it was not for {host}"


def _is_unlimited(certificate: x509.Certificate) -> bool:
    """True for certificates of early releases, which could sign for every name."""
    extensions = certificate.extensions
    try:
        if not extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        extensions.get_extension_for_class(x509.NameConstraints)
    except x509.ExtensionNotFound:
        return True
    return False


def _certificates(file: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return []


def _names_of(server: Path) -> dict[x509.GeneralName, None]:
    """The names of the stored certificate. They stay: other servers of this user may need them."""
    for certificate in _certificates(server)[:1]:
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except (ValueError, x509.ExtensionNotFound):
            break
        return dict.fromkeys(names.value)
    return {}


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _constraint(name: x509.GeneralName) -> x509.GeneralName:
    """The name as a constraint, where an address is a network of one address."""
    address = name.value
    if not isinstance(address, ipaddress.IPv4Address | ipaddress.IPv6Address):
        return name
    return x509.IPAddress(ipaddress.ip_network(address.packed))


def _make(names: list[x509.GeneralName], now: datetime) -> bytes:
    """The private key of the server, its certificate, and that of an authority without a key."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    # A name of its own: some clients confuse authorities that have the same.
    authority_name = _subject(f"Perseid {secrets.token_hex(4)}")
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
        .add_extension(x509.NameConstraints([*map(_constraint, names)], None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _builder(_subject("localhost"), authority_name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    secret = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return secret + server.public_bytes(_PEM) + authority.public_bytes(_PEM)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*purposes: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{**_NO_USAGE, **dict.fromkeys(purposes, True)})


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )
