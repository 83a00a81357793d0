"""Unknown routes, wrong methods and broken paths."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.raw import RawClient
from tests.wire.bad_requests.refusals import assert_refused


def content_for(method: str) -> Any:
    """A body for the methods that have one."""
    return {} if method in ("POST", "PUT", "PATCH") else None


# Routes and methods ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/dbss",
        "/DBS",
        "/dbs/d/collections",
        "/dbs/d/colls/c/items",
        "/dbs/d/colls/c/docs/1/attachments",
        "/dbs/d/docs",
        "/colls",
        "/colls/c",
        "/docs",
        "/dbs/d/colls/c/docs/1/2/3",
        "///dbs",
        "/dbs//colls//docs//x",
        "/index.html",
        "/favicon.ico",
        "/_perseid/nowhere",
        "/_perseid/health/more",
        "/.env",
        "/x" * 500,
    ],
)
def test_unknown_routes(raw: RawClient, method: str, path: str) -> None:
    reply = raw.request(method, path, content_for(method))
    assert_refused(reply, 404, "NotFound")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/", "POST PUT PATCH DELETE OPTIONS BREW"),
        ("/dbs", "PUT PATCH DELETE OPTIONS BREW"),
        ("{database}", "POST PUT PATCH OPTIONS"),
        ("{database}/colls", "PUT PATCH DELETE OPTIONS"),
        ("{database}/colls/c", "POST PATCH OPTIONS"),
        ("{database}/colls/c/docs", "PUT PATCH DELETE OPTIONS"),
        ("{database}/colls/c/docs/1", "POST OPTIONS"),
        ("{database}/colls/c/pkranges", "POST PUT PATCH DELETE OPTIONS"),
        ("/offers", "POST PUT PATCH DELETE OPTIONS"),
        ("/offers/xxxx", "POST PATCH DELETE OPTIONS"),
        ("/_perseid/health", "POST PUT DELETE"),
        ("/_perseid/ready", "POST PUT DELETE"),
    ],
)
def test_wrong_methods(raw: RawClient, container: str, path: str, methods: str) -> None:
    path = path.format(database=container.removesuffix("/colls/c"))
    for method in methods.split():
        for ending in ("", "/"):
            if path == "/" and ending:
                continue
            reply = raw.request(method, path + ending, content_for(method))
            assert_refused(reply, 405, "MethodNotAllowed")


def test_upserts_of_databases(raw: RawClient, name: str) -> None:
    for path in ("/dbs", "/offers"):
        reply = raw.post(path, {"id": name}, upsert="true")
        assert reply.status in (400, 405)
    assert raw.get(f"/dbs/{name}").status == 404


def test_head_has_no_body(raw: RawClient) -> None:
    for path in ("/", "/dbs", "/nowhere"):
        reply = raw.request("HEAD", path)
        assert 400 <= reply.status < 500
        assert reply.body == b""


# Paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/dbs/%", "/dbs/%2", "/dbs/%zz", "/dbs/a%", "/dbs/%ff", "/dbs/%c3%28", "/dbs/%ed%a0%80", "/%"],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_broken_percent_encoding(open_server: RawClient, path: str, method: str) -> None:
    reply = open_server.request(method, path, raw_path=path)
    assert reply.status in (400, 404)
    assert list(reply.json) == ["code", "message"]
    assert open_server.get("/").status == 200


def test_names_with_encoded_slashes(raw: RawClient, database: str) -> None:
    """A slash in a name is no way into another path."""
    name = database[5:]
    for path in (f"/dbs%2F{name}", f"/dbs/{name}%2Fcolls", f"/%2Fdbs/{name}"):
        assert raw.request("DELETE", path, raw_path=path).status in (400, 401, 404, 405)
    assert raw.get(database).status == 200
