"""The official clients: one program for each, which prints a line for each check.

`make test` runs four of them over HTTP on SQLite. `make clients` sets PERSEID_CLIENTS=all: it runs
all of them, over HTTP and HTTPS, on both databases.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perseid.clock import MovableClock
from tests.clients import tools
from tests.support.running import running
from tests.support.stores import Place

IN_EVERY_TEST_RUN = (tools.python, tools.javascript, tools.java, tools.go)
WITH_MAKE_CLIENTS = (
    tools.rust,
    tools.dotnet,
    tools.dotnet2017,
    tools.pydocumentdb,
    tools.cosmos3,
    tools.cosmos30,
    tools.celery,
)
# Its result backend uses HTTPS on port 443 only, and HTTP on all others.
ONLY_HTTP = (tools.celery,)
ALL = os.environ.get("PERSEID_CLIENTS") == "all"
RUNS = [
    pytest.param(client, scheme, marks=pytest.mark.xdist_group(client.__name__))
    for client in IN_EVERY_TEST_RUN + (WITH_MAKE_CLIENTS if ALL else ())
    for scheme in ("http", "https")
    if scheme == "http" or (ALL and client not in ONLY_HTTP)
]


@pytest.mark.slow
@pytest.mark.parametrize(("client", "scheme"), RUNS)
def test_program(
    client: Callable[[Path], list[str]], scheme: str, place: Place, tmp_path: Path
) -> None:
    command = client(tmp_path)
    wanted = place.lasting(test_clock=True, relaxed=False, tls=scheme == "https")
    with running(wanted, MovableClock()) as settings:
        variables = {
            "PERSEID_ENDPOINT": settings.endpoint,
            "PERSEID_KEY": settings.key,
            "PYTHONPATH": str(tools.ROOT),
        }
        if settings.tls:
            certificate = str(settings.data / "certificate.pem")
            variables |= {"PERSEID_CERT": certificate, "NODE_EXTRA_CA_CERTS": certificate}
            if client is tools.dotnet2017:  # it has no setting of its own
                variables["SSL_CERT_FILE"] = certificate
        printed = tools.run(command, variables)
    print(printed)  # `pytest -rP` shows it
    assert printed.rstrip().endswith(" passed, 0 failed"), printed
