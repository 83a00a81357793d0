"""`perseid trust`: what it would run on each system, and what it installs and removes."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest

from perseid import certificates
from perseid.certificate_creation import read_authority
from perseid.commands import trust_stores
from perseid.commands.trust_stores import (
    DirectoryStore,
    LocalCertificate,
    TrustPlan,
    hints,
    plan,
)
from tests.support.cli import invoke, printed
from tests.wire.serving.test_tls import unlimited_authority

NOWHERE = "http://127.0.0.1:1/"  # this command never connects


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "the data"
    directory.mkdir()
    certificates.ensure_certificate(directory, "localhost")
    return directory


@pytest.fixture
def certificate(data: Path) -> LocalCertificate:
    path = data / "certificate.pem"
    return LocalCertificate(path, path.read_bytes(), read_authority(path.read_bytes()))


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """A trust store whose tool notes each call."""
    directory, calls = tmp_path / "store", tmp_path / "calls"
    directory.mkdir()
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    tool.chmod(0o755)
    return DirectoryStore(
        directory, ".crt", (str(tool), "add"), (str(tool), "remove"), tmp_path / "bundle"
    )


@pytest.fixture
def system(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> DirectoryStore:
    """The command uses this store and no JDK."""

    def planned(certificate: LocalCertificate, *, is_removal: bool) -> TrustPlan:
        return plan(
            certificate,
            is_removal=is_removal,
            platform="linux",
            stores=[store],
            find=lambda _: None,
        )

    monkeypatch.setattr(trust_stores, "plan", planned)
    return store


def calls(store: DirectoryStore) -> list[str]:
    file = store.directory.parent / "calls"
    return file.read_text().split() if file.exists() else []


def test_install_and_remove(system: DirectoryStore, data: Path) -> None:
    said = printed(invoke(NOWHERE, "trust", "--data", str(data), "--yes"))
    (file,) = system.directory.iterdir()
    assert file.read_bytes() == (data / "certificate.pem").read_bytes()
    assert b"PRIVATE" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o644
    assert calls(system) == ["add"]
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(file.read_text())).hexdigest()
    assert digest.upper() in said.replace(":", "")
    assert "Signs for    localhost, 127.0.0.1, ::1" in said
    other = system.directory / "other.crt"
    other.touch()
    printed(invoke(NOWHERE, "trust", "--data", str(data), "--remove", "--yes"))
    assert [*system.directory.iterdir()] == [other]
    assert calls(system) == ["add", "remove"]
    said = printed(invoke(NOWHERE, "trust", "--data", str(data), "--remove", "--yes"))
    assert "not installed" in said
    assert calls(system) == ["add", "remove"]


def test_a_renewed_certificate_replaces_the_one_before(system: DirectoryStore, data: Path) -> None:
    printed(invoke(NOWHERE, "trust", "--data", str(data), "--yes"))
    (before,) = [file.read_bytes() for file in system.directory.iterdir()]
    certificates.ensure_certificate(data, "other.test")
    printed(invoke(NOWHERE, "trust", "--data", str(data), "--yes"))
    (after,) = [file.read_bytes() for file in system.directory.iterdir()]
    assert after == (data / "certificate.pem").read_bytes() != before
    assert calls(system) == ["add", "remove", "add"]  # the tools would not notice the change


def test_it_asks_first(system: DirectoryStore, data: Path) -> None:
    for answer in ("n\n", ""):
        result = invoke(NOWHERE, "trust", "--data", str(data), given=answer)
        assert result.exit_code == 1
        assert "Continue? [y/N]" in result.output
        assert not [*system.directory.iterdir()]
    printed(invoke(NOWHERE, "trust", "--data", str(data), given="y\n"))
    assert [*system.directory.iterdir()]


def test_print_changes_nothing(system: DirectoryStore, data: Path) -> None:
    said = printed(invoke(NOWHERE, "trust", "--data", str(data), "--print"))
    assert f"install -m 644 '{data}/certificate.pem' {system.directory}/perseid-" in said
    assert not [*system.directory.iterdir()]
    assert not calls(system)
    for text in ("NODE_EXTRA_CA_CERTS='", "REQUESTS_CA_BUNDLE=", "connection_verify="):
        assert text in said


def test_without_root_it_prints_what_to_run(
    system: DirectoryStore, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DirectoryStore, "is_writable", lambda _: False)
    result = invoke(NOWHERE, "trust", "--data", str(data), "--yes")
    assert result.exit_code == 1
    assert f"  sudo install -m 644 '{data}/certificate.pem' {system.directory}/" in result.output
    assert f"  sudo {system.after_adding[0]} add\n" in result.output
    assert "needs root" in result.stderr
    assert not [*system.directory.iterdir()]


def test_a_tool_that_fails(system: DirectoryStore, data: Path) -> None:
    Path(system.after_adding[0]).write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
    result = invoke(NOWHERE, "trust", "--data", str(data), "--yes")
    assert result.exit_code == 1
    assert "add failed: no room" in result.stderr


def test_the_certificate_of_servers_in_memory(
    system: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without options: the data directory if it has one, else that of --memory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    missing = invoke(NOWHERE, "trust", "--memory")
    assert missing.exit_code == 1
    assert "`perseid serve --memory`" in missing.stderr
    of_user, own = tmp_path / "state" / "perseid", tmp_path / "perseid-data"
    for directory in (of_user, own):
        directory.mkdir(parents=True)
        certificates.ensure_certificate(directory, "localhost")
        said = printed(invoke(NOWHERE, "trust", "--print"))
        assert f"Certificate  {directory}/certificate.pem\n" in said
    said = printed(invoke(NOWHERE, "trust", "--memory", "--print"))
    assert f"Certificate  {of_user}/certificate.pem\n" in said
    assert system.directory.exists()


def test_what_is_not_installed(system: DirectoryStore, data: Path, tmp_path: Path) -> None:
    both = invoke(NOWHERE, "trust", "--memory", "--data", str(data))
    assert (both.exit_code, "mutually exclusive" in both.stderr) == (2, True)
    absent = invoke(NOWHERE, "trust", "--data", str(tmp_path / "nowhere"), "--yes")
    assert absent.exit_code == 1
    assert "does not exist" in absent.stderr
    file = data / "certificate.pem"
    leaf = certificates.certificates_in((data / "certificate-key.pem").read_bytes())[0]
    good = file.read_bytes()
    for content, message in (
        (b"nothing", "does not contain one certificate"),
        (good + good, "does not contain one certificate"),
        (leaf, "does not contain one certificate"),
        (unlimited_authority()[0], "could sign for every name"),
    ):
        file.write_bytes(content)
        result = invoke(NOWHERE, "trust", "--data", str(data), "--yes")
        assert result.exit_code == 1
        assert message in result.stderr
    assert not [*system.directory.iterdir()]


def test_only_the_certificate_of_a_file_is_installed(system: DirectoryStore, data: Path) -> None:
    """Even if a private key is next to it in the file."""
    file = data / "certificate.pem"
    key = (data / "certificate-key.pem").read_bytes().partition(b"-----BEGIN CERT")[0]
    file.write_bytes(key + file.read_bytes())
    assert b"PRIVATE" in file.read_bytes()
    printed(invoke(NOWHERE, "trust", "--data", str(data), "--yes"))
    (installed,) = system.directory.iterdir()
    assert b"PRIVATE" not in installed.read_bytes()


def words(trust_plan: TrustPlan) -> list[str]:
    return [" ".join(step.command) for step in trust_plan.steps]


def test_macos_and_windows(certificate: LocalCertificate) -> None:
    sha1 = certificate.authority.sha1
    for platform, added, removed in (
        ("darwin", "security add-trusted-cert -r trustRoot", f"delete-certificate -Z {sha1}"),
        ("win32", "certutil -user -addstore Root", f"certutil -user -delstore Root {sha1}"),
    ):
        adding = plan(certificate, is_removal=False, platform=platform)
        assert not adding.needs_root
        assert added in words(adding)[0]
        assert str(certificate.path) in words(adding)[0]
        removing = plan(certificate, is_removal=True, platform=platform)
        assert removed in words(removing)[0]
        told = dict(hints(certificate, adding, platform))
        assert "keytool -importcert" in told["Java"]
        assert told[".NET"] == "reads the store of the system"


def keytool(tmp_path: Path, known: str = "") -> str:
    """A program that lists one alias."""
    tool = tmp_path / "keytool"
    tool.write_text(f'#!/bin/sh\nfor last; do :; done\ntest "$last" = "{known}"\n')
    tool.chmod(0o755)
    return str(tool)


def test_java(certificate: LocalCertificate, store: DirectoryStore, tmp_path: Path) -> None:
    """A hook of Debian installs it for Java, too, but does not remove it."""
    hook = tmp_path / "hook"
    for alias in (certificate.name, f"debian:{certificate.name}.pem"):
        for has_hook in (False, True):
            for is_removal in (False, True):
                hook.unlink(missing_ok=True)
                if has_hook:
                    hook.touch()
                found = words(
                    plan(
                        certificate,
                        is_removal=is_removal,
                        platform="linux",
                        stores=[store],
                        find={"keytool": keytool(tmp_path, alias)}.get,
                        java_hook=hook,
                    )
                )
                deleted = [text for text in found if " -delete " in text]
                imported = [text for text in found if " -importcert " in text]
                assert [text.rpartition(" ")[2] for text in deleted] == [alias]
                assert len(imported) == (not is_removal and not has_hook)


def test_a_system_without_a_trust_store(certificate: LocalCertificate, tmp_path: Path) -> None:
    nothing = plan(certificate, is_removal=False, platform="linux", stores=[], find=lambda _: None)
    assert nothing.steps == []
    told = dict(hints(certificate, nothing, "linux"))
    assert told[".NET"].startswith("export SSL_CERT_FILE=")
    assert told["Java"].startswith("keytool -importcert ")
    assert told["Node.js"] == f"export NODE_EXTRA_CA_CERTS='{certificate.path}'"
    assert str(tmp_path) in told["Python"]
