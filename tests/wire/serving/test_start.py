"""Settings and environments in which the server refuses to start."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import StartError
from perseid.listeners import reserved
from perseid.server import Server, check_settings
from tests.support.raw import RawClient
from tests.support.running import free_port, running
from tests.wire.serving.connections import OTHER_KEY


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.test"])
@pytest.mark.parametrize("unsafe", [Settings(), Settings(key=OTHER_KEY, no_auth=True)])
def test_unsafe_beyond_loopback(host: str, unsafe: Settings) -> None:
    settings = dataclasses.replace(unsafe, host=host)
    with pytest.raises(StartError) as caught:
        check_settings(settings)
    assert host in str(caught.value)
    assert "--allow-well-known-key" in str(caught.value)
    with pytest.raises(StartError):
        Server(settings)
    check_settings(dataclasses.replace(settings, allow_well_known_key=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_is_safe(host: str) -> None:
    check_settings(Settings(host=host))
    check_settings(Settings(host=host, no_auth=True))


def test_own_key_beyond_loopback() -> None:
    check_settings(Settings(host="0.0.0.0", key=OTHER_KEY))


@pytest.mark.parametrize(
    "settings",
    [
        Settings(host="0.0.0.0", key=OTHER_KEY, secondary_key=WELL_KNOWN_KEY),
        Settings(host="0.0.0.0", key=OTHER_KEY, read_only_key=WELL_KNOWN_KEY),
        Settings(host="0.0.0.0", key=OTHER_KEY, secondary_read_only_key=WELL_KNOWN_KEY),
    ],
)
def test_the_well_known_key_in_any_place(settings: Settings) -> None:
    with pytest.raises(StartError):
        check_settings(settings)


@pytest.mark.parametrize(
    "name", ["key", "secondary_key", "read_only_key", "secondary_read_only_key"]
)
def test_short_keys_beyond_loopback(name: str) -> None:
    """They could be guessed from one signed request."""
    for size, is_short in ((1, True), (31, True), (32, False)):
        keys: dict[str, Any] = {
            "key": OTHER_KEY,
            name: base64.b64encode(bytes(range(size))).decode(),
        }
        own = dataclasses.replace(Settings(), **keys)
        check_settings(own)
        public = dataclasses.replace(own, host="0.0.0.0")
        if not is_short:
            check_settings(public)
            continue
        with pytest.raises(StartError) as caught:
            check_settings(public)
        assert f"--{name.replace('_', '-')} has {size} byte" in str(caught.value)
        assert "openssl rand -base64 48" in str(caught.value)
        assert keys[name] not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        (Settings(key="not base64!"), "--key"),
        (Settings(secondary_key="%"), "--secondary-key"),
        (Settings(read_only_key="x"), "--read-only-key"),
        (Settings(secondary_read_only_key="==="), "--secondary-read-only-key"),
        (Settings(key=""), "--key"),
        (Settings(cert=Path("c.pem"), tls=True), "--key-file"),
        (Settings(key_file=Path("k.pem"), tls=True), "--cert"),
        (Settings(cert=Path("c.pem"), key_file=Path("k.pem"), https_port=0), "--https-port 0"),
        (Settings(tls=True, https_port=9443), "--https-port"),
        (Settings(port=8443), "--https-port"),
        (Settings(memory=True, data=Path("kept")), "--data"),
    ],
)
def test_settings_that_make_no_sense(settings: Settings, flag: str) -> None:
    with pytest.raises(StartError) as caught:
        check_settings(settings)
    assert flag in str(caught.value)


def test_second_server_on_the_same_data(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, durability="off")
    with running(settings) as first:
        with pytest.raises(StartError) as caught, running(settings):
            pass
        assert str(tmp_path) in str(caught.value)
        assert "in use by another perseid server" in str(caught.value)
        assert str(os.getpid()) in str(caught.value)
        assert "--data" in str(caught.value)
        client = RawClient(first.endpoint)
        assert client.get("/").status == 200
        client.close()
    with running(settings):
        pass


def test_port_in_use(settings: Settings) -> None:
    second = Server(Settings(memory=True, port=settings.port, https_port=0))
    with pytest.raises(StartError) as caught:
        asyncio.run(second.run())
    assert f"{settings.host}:{settings.port}" in str(caught.value)
    assert "--port" in str(caught.value)


def test_port_of_another_process() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StartError):
            asyncio.run(Server(Settings(memory=True, port=port, https_port=0)).run())


def test_a_port_that_another_server_is_about_to_take() -> None:
    """Both would listen, since the listener shares its port, and each get some of the requests."""
    settings = Settings(memory=True, port=free_port(), https_port=0)
    with reserved(settings), pytest.raises(StartError, match="choose another --port"):
        asyncio.run(Server(settings).run())


def test_unknown_host() -> None:
    settings = Settings(memory=True, host="no-such-host.invalid", key=OTHER_KEY, port=free_port())
    with pytest.raises(StartError) as caught:
        asyncio.run(Server(settings).run())
    assert "no-such-host.invalid" in str(caught.value)


def test_address_of_another_machine() -> None:
    settings = Settings(memory=True, host="192.0.2.1", key=OTHER_KEY, port=free_port())
    with pytest.raises(StartError, match="does not have this address; choose another --host"):
        asyncio.run(Server(settings).run())


def test_a_port_that_is_not_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ones are, and for whom, depends on the system: no process is using this one."""

    class Guarded(socket.socket):
        def bind(self, address: Any) -> None:
            raise PermissionError(errno.EACCES, f"not for you: {address}")

    monkeypatch.setattr(socket, "socket", Guarded)
    for settings, message in (
        (Settings(memory=True, port=80), ":80: permission denied;.* another --port"),
        (Settings(memory=True, port=80, tls=True), ":80: permission denied;.* another --port"),
    ):
        with pytest.raises(StartError, match=message), reserved(settings):
            pass


def test_data_directory_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("not a directory")
    with pytest.raises(StartError) as caught, running(Settings(data=path)):
        pass
    assert str(path) in str(caught.value)
