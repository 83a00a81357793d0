"""Paths of partition keys with characters that the service refuses, strictly and relaxed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import temporary_database
from tests.support.raw import RawClient
from tests.support.servers import RunningServer, Servers
from tests.wire.containers.definitions import definition, hashed, refusal

TEXT = (
    "The partition key component definition path '{}' could not be accepted, failed near position"
    " '{}'. Partition key paths must contain only valid characters and not contain a trailing slash"
    " or wildcard character."
)
# Accepted if the server is relaxed.
ODD = [("/id ds", 3), ("/a-b", 2), ("/a/b.c", 4), ("/$x", 1), ("/a/é/b c", 6)]
NEVER = [("/a/", 2), ("/", 0), ("/*", 1), ("/a/?", 3), ("/a/[]/b", 3), ("//a", 1), ("id", 0)]


@pytest.fixture(scope="session")
def server(servers: Servers) -> RunningServer:
    return servers(relaxed=False)


@pytest.fixture
def relaxed(servers: Servers, name: str) -> Iterator[tuple[RawClient, str]]:
    with servers(relaxed=True).connect() as raw, temporary_database(raw, name) as database:
        yield raw, database


@pytest.mark.parametrize(("path", "position"), ODD + NEVER)
def test_the_path_and_the_position_are_named(
    raw: RawClient, database: str, path: str, position: int
) -> None:
    message = refusal(raw.post(f"{database}/colls", definition(**hashed(path))))
    assert message.startswith(f'Message: {{"Errors":["{TEXT.format(path, position)}"]}}')
    assert raw.get(f"{database}/colls/c").status == 404


@pytest.mark.parametrize(
    ("paths", "path", "position"),
    [
        (["id", "/id2"], "id", 0),
        (["/a", "/b c", "d"], "/b c", 2),
        (["/a", "/b", "/c/"], "/c/", 2),
    ],
)
def test_the_first_of_several_bad_paths_is_named(
    raw: RawClient, database: str, paths: list[str], path: str, position: int
) -> None:
    key = hashed(*paths, kind="MultiHash")
    message = refusal(raw.post(f"{database}/colls", definition(**key)))
    assert TEXT.format(path, position) in message


@pytest.mark.parametrize("path", ["/a_1/B", "/é", '/"id ds"', "/'a-b'/c", '/"a\'/*"', "/_x"])
def test_plain_and_quoted_names_are_accepted(raw: RawClient, database: str, path: str) -> None:
    reply = raw.post(f"{database}/colls", definition(**hashed(path)))
    assert (reply.status, reply.json["partitionKey"]["paths"]) == (201, [path])


@pytest.mark.parametrize(("path", "_position"), ODD)
def test_a_relaxed_server_accepts_more(
    relaxed: tuple[RawClient, str], path: str, _position: int
) -> None:
    raw, database = relaxed
    reply = raw.post(f"{database}/colls", definition(**hashed(path)))
    assert (reply.status, reply.json["partitionKey"]["paths"]) == (201, [path])
    # The definition is read back and replaced as any other.
    assert raw.put(f"{database}/colls/c", reply.json | {"defaultTtl": 5}).status == 200


@pytest.mark.parametrize(("path", "position"), NEVER)
def test_a_relaxed_server_refuses_what_names_no_property(
    relaxed: tuple[RawClient, str], path: str, position: int
) -> None:
    raw, database = relaxed
    message = refusal(raw.post(f"{database}/colls", definition(**hashed(path))))
    assert TEXT.format(path, position) in message


def test_a_request_may_ask_for_the_relaxed_answer(raw: RawClient, database: str) -> None:
    body: dict[str, Any] = definition(**hashed("/a-b"))
    assert raw.post(f"{database}/colls", body, x_perseid_direct="true").status == 201
    path = f"{database}/colls/c"
    assert raw.put(path, body | {"defaultTtl": 5}).status == 200
    assert raw.post(f"{path}/docs", {"id": "1", "a-b": "x"}, pk='["x"]').status == 201
