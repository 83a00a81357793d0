"""The portal's files as they are served: types, caching, policy, and nothing beyond them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import perseid
from perseid.http import portal_files
from tests.support.raw import RawClient

FILES = Path(perseid.__file__).parent / "portal"


def test_every_file_is_served() -> None:
    on_disk = {p.relative_to(FILES).as_posix() for p in FILES.rglob("*") if p.is_file()}
    assert set(portal_files.files()) == on_disk


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/_explorer/", "text/html; charset=utf-8"),
        ("/_explorer/index.html", "text/html; charset=utf-8"),
        ("/_explorer/app.css", "text/css; charset=utf-8"),
        ("/_explorer/views/items.js", "text/javascript; charset=utf-8"),
        ("/_explorer/meteor.svg", "image/svg+xml"),
    ],
)
def test_a_file_needs_no_key_and_is_not_sent_twice(
    raw: RawClient, path: str, content_type: str
) -> None:
    reply = raw.request("GET", path, sign_with=None)
    assert (reply.status, reply.headers["content-type"]) == (200, content_type)
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-content-type-options"] == "nosniff"
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    etag = {"if-none-match": reply.headers["etag"]}
    again = raw.request("GET", path, headers=etag, sign_with=None)
    assert (again.status, again.body) == (304, b"")
    head = raw.request("HEAD", path, sign_with=None)
    assert (head.status, head.body) == (200, b"")


def test_the_bare_address_leads_to_the_directory(raw: RawClient) -> None:
    reply = raw.request("GET", "/_explorer", sign_with=None)
    assert (reply.status, reply.headers["location"]) == (308, "/_explorer/")


@pytest.mark.parametrize(
    "path",
    [
        "/_explorer/nothing.js",
        "/_explorer/../server.py",
        "/_explorer/%2e%2e/server.py",
        "/_explorer/views/../../server.py",
        "/_explorer//etc/passwd",
        "/_explorer/views",
        "/_explorerx",
    ],
)
def test_there_is_nothing_else(raw: RawClient, path: str) -> None:
    assert raw.request("GET", path, sign_with=None, raw_path=path).status == 404


def test_files_are_only_read(raw: RawClient) -> None:
    assert raw.request("POST", "/_explorer/", {}, sign_with=None).status == 405


def test_nothing_comes_from_elsewhere() -> None:
    """No address of another host in any file but the names of XML's own vocabulary."""
    for path in FILES.rglob("*"):
        if path.is_file():
            found = re.findall(r"https?://[^\s\"'`)]+", path.read_text())
            assert [a for a in found if not a.startswith("http://www.w3.org/")] == [], path
