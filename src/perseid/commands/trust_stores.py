"""Where systems keep the certificates that they trust, and what changes them.

Nothing here reads a private key or uses the network. What is installed has a name that depends on
the place of the certificate, so a renewed one replaces the one before, and `--remove` removes
exactly what was installed.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from perseid.certificate_creation import Authority

_FILE_MODE: Final = 0o644  # every program of the machine reads it
_JAVA_PASSWORD: Final = "changeit"  # of every JDK  # noqa: S105
# With it, `update-ca-certificates` also maintains the trust store of Java.
_JAVA_HOOK: Final = Path("/etc/ca-certificates/update.d/jks-keystore")


class LocalCertificate(NamedTuple):
    """A certificate in a file of this machine."""

    path: Path
    content: bytes
    authority: Authority

    @property
    def name(self) -> str:
        """What it is called in a trust store."""
        return f"perseid-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:8]}"


class TrustStep(NamedTuple):
    """A command; or, with `content`, a file that is written to the last word of the command."""

    command: tuple[str, ...]
    content: bytes | None = None

    def run(self) -> None:
        """ClickException if it fails."""
        if self.content is not None:
            path = Path(self.command[-1])
            path.write_bytes(
                self.content
            )  # not a copy: the file may have changed since it was read
            path.chmod(_FILE_MODE)
            return
        done = subprocess.run(self.command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip()
            raise click.ClickException(f"{shlex.join(self.command)} failed: {output}")


class DirectoryStore(NamedTuple):
    """A directory of certificates, and the commands that apply a change to it."""

    directory: Path
    suffix: str
    after_adding: tuple[str, ...]
    after_removing: tuple[str, ...]
    bundle: Path  # a file with all certificates that the system then trusts

    def exists(self) -> bool:
        return self.directory.is_dir() and shutil.which(self.after_adding[0]) is not None

    def is_writable(self) -> bool:
        return os.access(self.directory, os.W_OK)

    def file(self, certificate: LocalCertificate) -> Path:
        return self.directory / f"{certificate.name}{self.suffix}"


DIRECTORY_STORES: Final = (
    DirectoryStore(  # Debian, Ubuntu, Alpine
        Path("/usr/local/share/ca-certificates"),
        ".crt",
        ("update-ca-certificates",),
        ("update-ca-certificates", "--fresh"),
        Path("/etc/ssl/certs/ca-certificates.crt"),
    ),
    DirectoryStore(  # Fedora, RHEL
        Path("/etc/pki/ca-trust/source/anchors"),
        ".pem",
        ("update-ca-trust", "extract"),
        ("update-ca-trust", "extract"),
        Path("/etc/pki/tls/certs/ca-bundle.crt"),
    ),
)


class TrustPlan(NamedTuple):
    """What is run, and what people have to do themselves."""

    steps: list[TrustStep]
    needs_root: bool
    bundle: Path | None = None  # with all certificates that the system trusts
    has_java: bool = False  # Java reads what is installed


def plan(
    certificate: LocalCertificate,
    *,
    is_removal: bool,
    platform: str = sys.platform,
    stores: Sequence[DirectoryStore] = DIRECTORY_STORES,
    find: Callable[[str], str | None] = shutil.which,
    java_hook: Path = _JAVA_HOOK,
) -> TrustPlan:
    """How to install the certificate on this system, or to remove it."""
    if platform == "darwin":
        return TrustPlan(_macos_steps(certificate, is_removal), needs_root=False)
    if platform == "win32":
        return TrustPlan(_windows_steps(certificate, is_removal), needs_root=False)
    store = next((each for each in stores if each.exists()), None)
    keytool = find("keytool")
    # What has the name is removed first: the tools do not notice that a certificate has changed.
    steps = _removal_steps(certificate, store, keytool)
    if not is_removal:
        if store is not None:
            steps += _directory_steps(certificate, store)
        if keytool is not None and (store is None or not java_hook.exists()):
            steps.append(_java_step(certificate, keytool))
    is_writable = store.is_writable() if store is not None else os.geteuid() == 0
    return TrustPlan(steps, not is_writable, store and store.bundle, keytool is not None)


def _directory_steps(certificate: LocalCertificate, store: DirectoryStore) -> list[TrustStep]:
    file = str(store.file(certificate))
    copy = ("install", "-m", f"{_FILE_MODE:o}", str(certificate.path), file)
    return [TrustStep(copy, certificate.content), TrustStep(store.after_adding)]


def _removal_steps(
    certificate: LocalCertificate, store: DirectoryStore | None, keytool: str | None
) -> list[TrustStep]:
    steps = []
    if store is not None and (file := store.file(certificate)).exists():
        steps += [TrustStep(("rm", str(file))), TrustStep(store.after_removing)]
    if keytool is not None:
        # Debian installs it under a name of its own, and does not remove it again.
        for alias in (certificate.name, f"debian:{certificate.name}.pem"):
            entry = _java_entry(alias)
            listing = keytool, "-list", *entry
            listed = subprocess.run(listing, capture_output=True, check=False)  # noqa: S603
            if listed.returncode == 0:
                steps.append(TrustStep((keytool, "-delete", *entry)))
    return steps


def _java_step(certificate: LocalCertificate, keytool: str) -> TrustStep:
    """Adds it to the trust store of the JDK in the path."""
    entry = _java_entry(certificate.name)
    file = str(certificate.path)
    return TrustStep((keytool, "-importcert", "-noprompt", *entry, "-file", file))


def _java_entry(alias: str) -> tuple[str, ...]:
    return "-cacerts", "-storepass", _JAVA_PASSWORD, "-alias", alias


def _macos_steps(certificate: LocalCertificate, is_removal: bool) -> list[TrustStep]:
    """In the keychain of the user, who is asked for a password."""
    keychain = str(Path.home() / "Library/Keychains/login.keychain-db")
    if is_removal:
        sha1 = certificate.authority.sha1
        return [TrustStep(("security", "delete-certificate", "-Z", sha1, "-t", keychain))]
    file = str(certificate.path)
    return [TrustStep(("security", "add-trusted-cert", "-r", "trustRoot", "-k", keychain, file))]


def _windows_steps(certificate: LocalCertificate, is_removal: bool) -> list[TrustStep]:
    """In the store of the user, who is asked to confirm it."""
    if is_removal:
        return [TrustStep(("certutil", "-user", "-delstore", "Root", certificate.authority.sha1))]
    return [TrustStep(("certutil", "-user", "-addstore", "Root", str(certificate.path)))]


def hints(
    certificate: LocalCertificate, trust_plan: TrustPlan, platform: str = sys.platform
) -> list[tuple[str, str]]:
    """What programs need that do not read the trust store of the system, by their language."""
    file = shlex.quote(str(certificate.path))
    bundle = trust_plan.bundle
    setting = "set" if platform == "win32" else "export"
    python = f"connection_verify={str(certificate.path)!r} of CosmosClient"
    if bundle is not None:
        python = f"{setting} REQUESTS_CA_BUNDLE={bundle} SSL_CERT_FILE={bundle}, or {python}"
    else:
        python += f", or {setting} REQUESTS_CA_BUNDLE={file} (then it trusts nothing else)"
    python += "; azure-cosmos does not check certificates on localhost"
    dotnet = "reads the store of the system"
    if bundle is None and platform not in ("darwin", "win32"):
        dotnet = f"{setting} SSL_CERT_FILE={file} (then it trusts nothing else)"
    java = "the JDK in the path trusts it"
    if not trust_plan.has_java:
        java = shlex.join(_java_step(certificate, "keytool").command)
    return [
        ("Python", python),
        ("Node.js", f"{setting} NODE_EXTRA_CA_CERTS={file}"),
        ("Java", java),
        (".NET", dotnet),
    ]
