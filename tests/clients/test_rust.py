"""The official Rust client against the server: one program, which prints a line for each check.

`cargo` compiles it, which takes minutes the first time, so `make clients` runs it. CARGO_TARGET_DIR
says where to keep what is compiled; PERSEID_RUST_PROGRAM names a program that is compiled already.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from perseid.clock import MovableClock
from tests.clients.tools import skip_unless_asked_for
from tests.support.raw import EMULATOR_KEY
from tests.support.running import running
from tests.support.stores import Place

PROJECT = Path(__file__).parent / "rust"
SECONDS = 1800
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("rust")]


def command(place: Path) -> list[str]:
    given = os.environ.get("PERSEID_RUST_PROGRAM")
    if given:
        return [given]
    skip_unless_asked_for("cargo")
    target = os.environ.get("CARGO_TARGET_DIR", str(place))
    return ["cargo", "run", "--manifest-path", str(PROJECT / "Cargo.toml"),
            "--target-dir", target]  # fmt: skip


@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_rust(tmp_path_factory: pytest.TempPathFactory, place: Place, *, tls: bool) -> None:
    settings = place.lasting(test_clock=True, relaxed=False, tls=tls)
    with running(settings, MovableClock()) as ready:
        variables = {
            "PERSEID_ENDPOINT": ready.endpoint.replace("127.0.0.1", "localhost"),
            "PERSEID_KEY": EMULATOR_KEY,
        }
        if tls:
            variables["PERSEID_CERT"] = str(settings.data / "certificate.pem")
        done = subprocess.run(
            command(tmp_path_factory.getbasetemp() / "rust"),
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    assert done.stdout.rstrip().endswith(" passed, 0 failed"), done.stdout
