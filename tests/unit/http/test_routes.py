"""Routes: the names in a path, and the link that a signature covers."""

from __future__ import annotations

import pytest

from perseid.errors import MethodNotAllowed
from perseid.http import items
from perseid.http.request import Exchange, Request
from perseid.http.routes import route

CONTAINER = "dbs/db/colls/c"


def request(method: str, path: str, query_string: str = "") -> Request:
    headers: dict[str, str] = {}
    return Request(method, path, query_string, "http", headers.get, b"", "an-activity", now=0.0)


@pytest.mark.parametrize(
    ("method", "path", "query_string", "names", "link"),
    [
        ("GET", "/", "", [], ""),
        ("GET", "/dbs/db", "", ["db"], "dbs/db"),
        ("GET", "/dbs/db/colls/", "", ["db"], "dbs/db"),
        ("POST", f"/{CONTAINER}/docs", "", ["db", "c"], CONTAINER),
        ("GET", f"/{CONTAINER}/docs/a/", "", ["db", "c", "a"], f"{CONTAINER}/docs/a"),
        ("POST", f"/{CONTAINER}/operations/partitionkeydelete", "",
         ["db", "c", "partitionkeydelete"], CONTAINER),
        ("GET", "/offers/AbCd", "", ["AbCd"], "abcd"),
        # JavaScript clients leave a `?` in an id unescaped, so the id goes on in the query string.
        ("GET", f"/{CONTAINER}/docs/a", "b%20c", ["db", "c", "a?b c"], f"{CONTAINER}/docs/a?b c"),
        ("GET", f"/{CONTAINER}/docs", "b", ["db", "c", "?b"], f"{CONTAINER}/docs/?b"),
        ("GET", "/dbs/db", "b", ["db"], "dbs/db"),
    ],
)  # fmt: skip
def test_names_and_link(
    method: str, path: str, query_string: str, names: list[str], link: str
) -> None:
    exchange = Exchange()
    assert route(request(method, path, query_string), exchange)[1] == link
    assert list(exchange.names) == names


def test_an_id_that_begins_with_a_question_mark_is_an_item() -> None:
    matched_route, _ = route(request("GET", f"/{CONTAINER}/docs", "b"), Exchange())
    assert matched_route.handler is items.read
    with pytest.raises(MethodNotAllowed):
        route(request("POST", f"/{CONTAINER}/docs", "b"), Exchange())


def test_a_request_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        request("GET", "/").now = 1.0  # type: ignore[misc]
