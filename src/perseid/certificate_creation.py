"""Creates the certificate of a server, and says what a stored one is for.

Clients trust a certificate authority, and some trust it for the whole system. So it may sign only
for the names of this server, and its key is never stored: it signs one certificate and is
forgotten. The server's own certificate is not an authority, because some clients refuse that.

The library takes a tenth of a second to load, so a server imports this module only if the quick
check in `certificates.py` has failed.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME: Final = timedelta(days=825)  # the longest that macOS trusts
_PEM: Final = serialization.Encoding.PEM
_NO_USAGE: Final = dict.fromkeys(
    (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    ),
    False,
)  # fmt: skip


class Authority(NamedTuple):
    """What a certificate of an authority says."""

    subject: str
    names: tuple[str, ...]  # that it may sign for; empty if there is no limit
    expires: datetime
    sha256: str
    sha1: str  # which some systems identify certificates by


def read_authority(content: bytes) -> Authority:
    """ValueError if the content is not the certificate of an authority in PEM."""
    certificate = x509.load_pem_x509_certificate(content)
    extensions = certificate.extensions
    try:
        is_authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        raise ValueError("it is not the certificate of an authority")
    names: tuple[str, ...] = ()
    if not _is_unlimited(certificate):
        limits = extensions.get_extension_for_class(x509.NameConstraints).value
        names = tuple(_plain(name) for name in limits.permitted_subtrees or ())
    return Authority(
        certificate.subject.rfc4514_string(),
        names,
        certificate.not_valid_after_utc,
        _fingerprint(certificate),
        certificate.fingerprint(hashes.SHA1()).hex().upper(),  # noqa: S303
    )


def _plain(name: x509.GeneralName) -> str:
    """A name of a constraint, where an address is a network of one address."""
    value = name.value
    if (
        isinstance(value, ipaddress.IPv4Network | ipaddress.IPv6Network)
        and value.num_addresses == 1
    ):
        value = value.network_address
    return str(value)


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def stored_problem(
    server: Path, trusted: Path, host: str, now: float, *, is_pair: bool
) -> str | None:
    """Why the stored certificate cannot be used any more; None if it can.

    `is_pair`: a server can use the file with its private key.
    """
    for certificate in _certificates(trusted)[:1]:
        if _is_unlimited(certificate):
            return (
                "it was a certificate authority for every name. Remove it from all trust stores"
                f" (subject {certificate.subject.rfc4514_string()},"
                f" SHA-256 {_fingerprint(certificate)})"
            )
    chain = _certificates(server)
    if len(chain) != 2 or not is_pair:  # the server and its authority
        return "it was damaged"
    tomorrow = datetime.fromtimestamp(now, UTC) + timedelta(days=1)
    if min(certificate.not_valid_after_utc for certificate in chain) <= tomorrow:
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


def create(server: Path, hosts: Sequence[str], wall: float) -> bytes:
    """A private key of the server, its certificate, and that of an authority without a key.

    For the hosts, and for the names of the certificate that the file `server` contains.
    """
    names = list(_names_of(server) | dict.fromkeys(map(_name, hosts)))
    now = datetime.fromtimestamp(wall, UTC)
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
    leaf = (
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
    return secret + leaf.public_bytes(_PEM) + authority.public_bytes(_PEM)


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
