"""The complete programs on the pages of the clients: each runs twice, and prints what it stored."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from perseid.config import Settings
from tests.clients import first_items, tools
from tests.support.running import running

IN_EVERY_TEST_RUN = (first_items.javascript, first_items.java, first_items.go)
WITH_MAKE_CLIENTS = (first_items.rust, first_items.dotnet)
ALL = os.environ.get("PERSEID_CLIENTS") == "all"
PRINTED = ["s1: telescope", "s1 expires after 3600 seconds", "s2 expires after 60 seconds"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "client",
    [
        pytest.param(client, marks=pytest.mark.xdist_group(client.__name__))
        for client in IN_EVERY_TEST_RUN + (WITH_MAKE_CLIENTS if ALL else ())
    ],
)
def test_first_item(client: Callable[[Path, str], list[str]], tmp_path: Path) -> None:
    with running(Settings(memory=True)) as settings:
        command = client(tmp_path, settings.endpoint)
        for _ in range(2):  # the second time, database and container exist
            assert tools.run(command).splitlines() == PRINTED
