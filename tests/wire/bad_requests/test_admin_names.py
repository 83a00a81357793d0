"""Names in administration routes are names, whatever they look like."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from perseid.http.admin import routes
from tests.support.builders import create_container
from tests.support.raw import RawClient
from tests.wire.bad_requests.refusals import assert_refused

NAMED = [(path, method) for path, methods in routes.ROUTES.items() for method in methods]
NAMED = [(path, method) for path, method in NAMED if "*" in path]


@pytest.fixture
def star(raw: RawClient) -> Iterator[str]:
    """A database whose name is that of every name in the table of routes."""
    assert raw.post("/dbs", {"id": "*"}).status == 201
    yield "/dbs/*"
    assert raw.delete("/dbs/*").status == 204


@pytest.mark.parametrize("name", ["*", "**", "drain", "audit", "..", "x" * 300, "9" * 5000, "\0"])
@pytest.mark.parametrize(("path", "method"), NAMED)
def test_names_that_do_not_exist(raw: RawClient, path: str, method: str, name: str) -> None:
    body = {"defaultTtl": 5, "id": "1", "partitionKey": ["a"]} if method == "POST" else {}
    if path.startswith("import"):
        body = {"id": "1", "pk": "a"}
    whole = f"/_perseid/{path.replace('*', name)}"
    reply = raw.request(method, whole, None if method == "GET" else body)
    assert_refused(reply, 404, "NotFound", 1003)


def test_a_container_called_star(raw: RawClient, star: str) -> None:
    """It is one container, not all of them."""
    create_container(raw, star, "*", defaultTtl=-1)
    assert raw.post("/_perseid/import/*/*", b'{"id": "1", "pk": "a"}').json["created"] == 1
    assert raw.get("/_perseid/ttl/*/*").json["live"]["items"] == 1
    reply = raw.post("/_perseid/ttl/*/*/drain", {})
    assert reply.json == {"purged": 0, "containers": {}}
    assert raw.get("/_perseid/ttl/*/*/audit").json == {"entries": []}


def test_draining_a_missing_container_drains_nothing(raw: RawClient, container: str) -> None:
    database = quote(container.split("/")[2])
    for names in ("*/*", f"{database}/*", "*/c", "/", f"{database}/"):
        reply = raw.post(f"/_perseid/ttl/{names}/drain", {})
        assert reply.status == 404
