"""The certificate of a server: where it is stored, whether it can be used, when it is created.

Most starts find a stored certificate, and need only the standard library to check it.
"""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from perseid import clock, private_files
from perseid.config import Settings
from perseid.errors import StartError

log = logging.getLogger(__name__)

TRUSTED_FILE: Final = "certificate.pem"
SERVER_FILE: Final = "certificate-key.pem"
_OWN_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_DAY: Final = 86_400
_HANDSHAKE_STEPS: Final = 4
_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\s*", re.DOTALL
)


class ServerCertificate(NamedTuple):
    """What a server needs, and what clients trust."""

    file: Path  # the server's certificate and the authority's; of our own also the private key
    key: Path
    trusted: bytes  # what clients trust, in PEM


def certificates_in(content: bytes) -> list[bytes]:
    """The certificates of a PEM file, which may contain the private key, too."""
    return _CERTIFICATE.findall(content)


def certificate_directory(settings: Settings) -> Path:
    """Where the server of these settings stores the certificate that it creates.

    RuntimeError if that is in the home directory of a user who has none.
    """
    return settings.data if has_data_directory(settings) else private_files.user_path()


def has_data_directory(settings: Settings) -> bool:
    """False for servers that store nothing, or everything in a database elsewhere."""
    if settings.memory:
        return False
    return settings.store is None or settings.data != Settings().data


@contextlib.contextmanager
def server_certificate(settings: Settings) -> Iterator[ServerCertificate | None]:
    """The certificate of the server with these settings; None if it does not use HTTPS.

    The files are needed until the listeners have started.
    """
    if not settings.has_https:
        yield None
    elif settings.cert is not None and settings.key_file is not None:
        trusted = b"".join(certificates_in(settings.cert.read_bytes()))
        yield ServerCertificate(settings.cert, settings.key_file, trusted)
    else:
        host = settings.host or _OWN_NAMES[0]
        if has_data_directory(settings):
            yield _certificate_with_data(settings, host)
        elif (of_user := _user_certificate(host)) is not None:
            yield of_user
        else:
            level = logging.WARNING if settings.tls else logging.INFO
            log.log(
                level,
                "the certificate cannot be stored; clients must trust a new one after each start",
            )
            with TemporaryDirectory(prefix="perseid-certificate-") as directory:
                yield ensure_certificate(Path(directory), host)


def _certificate_with_data(settings: Settings, host: str) -> ServerCertificate:
    if settings.store is None:  # the server holds the directory
        return ensure_certificate(settings.data, host)
    try:
        private_files.make_directory(settings.data)
        with private_files.locked(settings.data):
            return ensure_certificate(settings.data, host)
    except OSError as exc:
        raise _not_stored(settings.data, exc) from exc


def _user_certificate(host: str) -> ServerCertificate | None:
    """The certificate of servers without a data directory, one for each user of the system.

    So trust need not be renewed with each start. None if the user has no directory of their own.
    """
    directory = private_files.user_directory()
    if directory is None:
        return None
    try:
        with private_files.locked(directory):
            return ensure_certificate(directory, host)
    except (OSError, StartError) as exc:
        log.warning("%s cannot be used: %s", directory, exc)
        return None


def ensure_certificate(directory: Path, host: str) -> ServerCertificate:
    """The certificate in `directory`, created if missing, unusable or about to expire."""
    server, trusted = directory / SERVER_FILE, directory / TRUSTED_FILE
    now = clock.wall()
    try:
        if not _is_usable(server, trusted, host, now):
            _renew(server, trusted, host, now)
        private_files.restrict_file(server)
        return ServerCertificate(server, server, trusted.read_bytes())
    except OSError as exc:
        raise _not_stored(directory, exc) from exc


def _not_stored(directory: Path, exc: OSError) -> StartError:
    return StartError(
        f"cannot store a certificate in {directory}: {exc.strerror}; make it writable, give a"
        " certificate with --cert and --key-file, or turn HTTPS off with --https-port 0"
    )


def _renew(server: Path, trusted: Path, host: str, now: float) -> None:
    """Creates what is missing or cannot be used any more."""
    from perseid import certificate_creation  # imported here because it is slow

    is_pair = server.exists() and pair_problem(server, server) is None
    problem = certificate_creation.stored_problem(server, trusted, host, now, is_pair=is_pair)
    if problem is not None:
        content = certificate_creation.create(server, (*_OWN_NAMES, host), now)
        private_files.replace_file(server, content)
        if trusted.exists():
            log.warning("%s was replaced: %s. Clients must trust the new one.", trusted, problem)
    authority = certificates_in(server.read_bytes())[-1]
    if not trusted.exists() or trusted.read_bytes() != authority:
        private_files.replace_file(trusted, authority)


def _is_usable(server: Path, trusted: Path, host: str, now: float) -> bool:
    """True if clients that trust the stored authority can connect to `host` for another day.

    A client and a server in this process shake hands: that checks key, names, constraints and dates
    as clients check them, and takes two milliseconds.
    """
    try:
        chain, authority = certificates_in(server.read_bytes()), trusted.read_bytes()
        if len(chain) != 2 or chain[1] != authority:  # the server and its authority
            return False
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(server, password="")
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.load_verify_locations(cadata=authority.decode())
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
        sides = client, serving.wrap_bio(to_server, to_client, server_side=True)
        for side in sides * _HANDSHAKE_STEPS:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
        expires = str((client.getpeercert() or {})["notAfter"])
        return ssl.cert_time_to_seconds(expires) > now + _DAY
    except (OSError, ValueError, KeyError):  # also of TLS and of text
        return False


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
