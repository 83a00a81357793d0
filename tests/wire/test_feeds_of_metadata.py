"""Lists of databases, containers and offers: envelopes, pages, and tokens that lead on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.support.builders import PARTITION_KEY, create_container
from tests.support.raw import RawClient, Reply
from tests.support.replies import assert_bad_request
from tests.support.running import running
from tests.support.stores import Place, Stores

NAMES = ["d", "b", "a", "g", "c", "f", "e"]  # in order of creation


class Feed(NamedTuple):
    path: str
    plural: str


DATABASES = Feed("/dbs", "Databases")
CONTAINERS = Feed("/dbs/d/colls", "DocumentCollections")
OFFERS = Feed("/offers", "Offers")
FEEDS = pytest.mark.parametrize("feed", [DATABASES, CONTAINERS, OFFERS], ids=lambda f: f.plural)


def started(stores: Stores) -> Iterator[RawClient]:
    """A server with seven databases and seven containers in the first."""
    with stores.place() as place, running(place.fresh()) as settings:
        client = RawClient(settings.endpoint)
        create_databases_and_containers(client)
        yield client
        client.close()


shelf = pytest.fixture(scope="module", name="shelf")(started)  # to read from
own = pytest.fixture(name="own")(started)  # to change


def create_databases_and_containers(client: RawClient) -> None:
    for name in NAMES:
        assert client.post("/dbs", {"id": name}).status == 201
    for name in NAMES:
        create_container(client, "/dbs/d", name)


def ids_in_feed(reply: Reply, feed: Feed) -> list[str]:
    return [found["id"] for found in reply.json[feed.plural]]


def all_pages(
    ask: Callable[[dict[str, str]], Reply], count: str | None, most: int = 20
) -> Iterator[Reply]:
    """Every page, as long as the server says there is another."""
    headers = {} if count is None else {"x-ms-max-item-count": count}
    for _ in range(most):
        reply = ask(headers)
        assert reply.status == 200, reply.body
        yield reply
        token = reply.headers.get("x-ms-continuation")
        if token is None:
            return
        assert token.isascii()
        assert 0 < len(token) <= 1024
        headers = headers | {"x-ms-continuation": token}
    raise AssertionError("the feed has no end")


def listing(client: RawClient, feed: Feed) -> Callable[[dict[str, str]], Reply]:
    return lambda headers: client.request("GET", feed.path, headers=headers)


def querying(client: RawClient, feed: Feed, text: str) -> Callable[[dict[str, str]], Reply]:
    fixed = {"x-ms-documentdb-isquery": "True"}
    return lambda headers: client.request("POST", feed.path, {"query": text}, fixed | headers)


# Envelopes ---------------------------------------------------------------------------------------


def test_empty_account(place: Place) -> None:
    with running(place.fresh()) as settings:
        client = RawClient(settings.endpoint)
        for path, plural in (DATABASES, OFFERS):
            reply = client.get(path)
            assert (reply.status, reply.json) == (200, {"_rid": "", plural: [], "_count": 0})
            assert reply.headers["x-ms-item-count"] == "0"
            assert "x-ms-continuation" not in reply.headers
        client.close()


def test_empty_database(raw: RawClient, database: str) -> None:
    rid = raw.get(database).json["_rid"]
    reply = raw.get(f"{database}/colls")
    assert reply.json == {"_rid": rid, "DocumentCollections": [], "_count": 0}


@FEEDS
def test_envelope(shelf: RawClient, feed: Feed) -> None:
    reply = shelf.get(feed.path)
    assert list(reply.json) == ["_rid", feed.plural, "_count"]
    owner = shelf.get("/dbs/d").json["_rid"] if feed is CONTAINERS else ""
    assert reply.json["_rid"] == owner
    assert reply.json["_count"] == len(reply.json[feed.plural]) == 7
    assert reply.headers["x-ms-item-count"] == "7"
    assert reply.headers["content-type"] == "application/json"
    assert float(reply.headers["x-ms-request-charge"]) == 1


def test_members_are_whole_and_in_order_of_creation(shelf: RawClient) -> None:
    databases = [shelf.get(f"/dbs/{name}").json for name in NAMES]
    containers = [shelf.get(f"/dbs/d/colls/{name}").json for name in NAMES]
    assert shelf.get("/dbs").json["Databases"] == databases
    assert shelf.get("/dbs/d/colls").json["DocumentCollections"] == containers
    offers = shelf.get("/offers").json["Offers"]
    assert [offer["resource"] for offer in offers] == [found["_self"] for found in containers]
    assert [shelf.get(f"/offers/{offer['id']}").json for offer in offers] == offers


def test_databases_do_not_show_each_other_s_containers(shelf: RawClient) -> None:
    assert shelf.get("/dbs/a/colls").json["DocumentCollections"] == []


# Pages -------------------------------------------------------------------------------------------


@FEEDS
@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        ("1", [1] * 7),
        ("2", [2, 2, 2, 1]),
        ("3", [3, 3, 1]),
        ("6", [6, 1]),
        ("7", [7]),
        ("8", [7]),
        ("1000", [7]),
        ("-1", [7]),
        (None, [7]),
    ],
)
def test_pages(shelf: RawClient, feed: Feed, count: str | None, sizes: list[int]) -> None:
    whole = shelf.get(feed.path).json[feed.plural]
    found = list(all_pages(listing(shelf, feed), count))
    assert [reply.json["_count"] for reply in found] == sizes
    assert [reply.headers["x-ms-item-count"] for reply in found] == [str(n) for n in sizes]
    assert [member for reply in found for member in reply.json[feed.plural]] == whole
    # clients would take an etag for a continuation
    assert not any("etag" in reply.headers for reply in found)


@FEEDS
@pytest.mark.parametrize("count", ["1", "3", None])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM root r",
        "SELECT * FROM root r ORDER BY r.id",
        "SELECT * FROM root r ORDER BY r.id DESC",
        "SELECT r.id FROM root r",
        "SELECT r._rid FROM root r",
        "SELECT VALUE r.id FROM root r",
        "SELECT VALUE r._ts >= 0 FROM root r",
        "SELECT VALUE null FROM root r",
        "SELECT VALUE [r.id] FROM root r",
        "SELECT VALUE {'_rid': 'same'} FROM root r",
    ],
)
def test_pages_of_queries(shelf: RawClient, feed: Feed, count: str | None, text: str) -> None:
    ask = querying(shelf, feed, text)
    whole = ask({}).json[feed.plural]
    assert len(whole) == 7
    found = list(all_pages(ask, count))
    assert [member for reply in found for member in reply.json[feed.plural]] == whole
    assert len(found) == (1 if count is None else -(-7 // int(count)))
    assert not any("etag" in reply.headers for reply in found)


def test_order_of_a_query(shelf: RawClient) -> None:
    reply = querying(shelf, DATABASES, "SELECT VALUE r.id FROM r ORDER BY r.id")({})
    assert reply.json["Databases"] == sorted(NAMES)


def test_javascript_asks_for_short_tokens(shelf: RawClient) -> None:
    headers = {
        "x-ms-documentdb-responsecontinuationtokenlimitinkb": "1",
        "x-ms-documentdb-query-enablecrosspartition": "true",
        "x-ms-max-item-count": "2",
    }
    reply = shelf.request("GET", "/dbs", headers=headers)
    assert len(reply.headers["x-ms-continuation"]) <= 1024


# Changes between pages ---------------------------------------------------------------------------


def after(client: RawClient, first: Reply) -> list[str]:
    """The names on all pages of /dbs behind the first."""
    token = first.headers["x-ms-continuation"]
    names: list[str] = []

    def ask(headers: dict[str, str]) -> Reply:
        return client.request("GET", "/dbs", headers={"x-ms-continuation": token} | headers)

    for reply in all_pages(ask, "2"):
        names += ids_in_feed(reply, DATABASES)
    return names


@pytest.mark.parametrize(
    "gone",
    [["d"], ["b"], ["a"], ["d", "b"], ["b", "a"], ["d", "b", "a"]],
    ids="".join,
)
def test_deleting_what_was_shown_hides_nothing(own: RawClient, gone: list[str]) -> None:
    first = own.get("/dbs", count="3")
    assert ids_in_feed(first, DATABASES) == ["d", "b", "a"]
    for name in gone:
        assert own.delete(f"/dbs/{name}").status == 204
    assert after(own, first) == ["g", "c", "f", "e"]


@pytest.mark.parametrize("gone", [["g"], ["c"], ["e"], ["g", "c", "f", "e"]], ids="".join)
def test_deleting_what_was_not_shown(own: RawClient, gone: list[str]) -> None:
    first = own.get("/dbs", count="3")
    for name in gone:
        assert own.delete(f"/dbs/{name}").status == 204
    assert after(own, first) == [name for name in "gcfe" if name not in gone]


def test_what_is_new_comes_last(own: RawClient) -> None:
    first = own.get("/dbs", count="3")
    assert own.post("/dbs", {"id": "A"}).status == 201
    assert after(own, first) == ["g", "c", "f", "e", "A"]


def test_a_name_taken_again_is_new(own: RawClient) -> None:
    first = own.get("/dbs", count="3")
    assert own.delete("/dbs/a").status == 204
    assert own.post("/dbs", {"id": "a"}).status == 201
    assert after(own, first) == ["g", "c", "f", "e", "a"]


def test_replaced_containers_keep_their_place(own: RawClient) -> None:
    assert (
        own.put(
            "/dbs/d/colls/d", {"id": "d", "partitionKey": PARTITION_KEY, "defaultTtl": 5}
        ).status
        == 200
    )
    assert ids_in_feed(own.get("/dbs/d/colls"), CONTAINERS) == NAMES


def test_tokens_survive_a_restart(place: Place) -> None:
    settings = place.lasting()
    with running(settings) as found:
        client = RawClient(found.endpoint)
        create_databases_and_containers(client)
        client.put("/dbs/d/colls/d", {"id": "d", "partitionKey": PARTITION_KEY, "defaultTtl": 5})
        first = client.get("/dbs", count="3")
        client.close()
    with running(settings) as found:
        client = RawClient(found.endpoint)
        assert after(client, first) == ["g", "c", "f", "e"]
        assert ids_in_feed(client.get("/dbs/d/colls"), CONTAINERS) == NAMES
        client.close()


# Tokens that lead nowhere ------------------------------------------------------------------------


def flipped(token: str, position: int) -> str:
    letter = "A" if token[position] != "A" else "B"
    return token[:position] + letter + token[position + 1 :]


@FEEDS
def test_tampered_tokens(shelf: RawClient, feed: Feed) -> None:
    token = shelf.get(feed.path, count="2").headers["x-ms-continuation"]
    changed: list[Any] = [flipped(token, n) for n in range(0, len(token.rstrip("=")) - 1, 5)]
    changed += [token[4:], token[:-4], token + token, token.swapcase(), f"{token}A", f"x{token}"]
    for bad in changed:
        assert_bad_request(shelf.request("GET", feed.path, headers={"x-ms-continuation": bad}))


@pytest.mark.parametrize(
    "token",
    ["x", "0", "null", "{}", '{"f":"Databases"}', "a" * 1000, "====", "_-_-", "%", "é", "+RID:~AA"],
)
def test_tokens_from_elsewhere(shelf: RawClient, token: str) -> None:
    for path in ("/dbs", "/dbs/d/colls", "/offers"):
        assert_bad_request(shelf.request("GET", path, headers={"x-ms-continuation": token}))


def test_tokens_of_other_feeds(own: RawClient) -> None:
    for name in ("x", "y", "z"):
        body = {"id": name, "partitionKey": PARTITION_KEY}
        assert own.post("/dbs/b/colls", body).status == 201
        item = {"id": name, "pk": "a"}
        assert own.post("/dbs/b/colls/x/docs", item, pk='["a"]').status == 201
    paths = ("/dbs", "/dbs/d/colls", "/dbs/b/colls", "/offers", "/dbs/b/colls/x/docs")
    tokens = {path: own.get(path, count="1").headers["x-ms-continuation"] for path in paths}
    for path in paths:
        for source, token in tokens.items():
            reply = own.request("GET", path, headers={"x-ms-continuation": token})
            if path == source:
                assert reply.status == 200
            else:
                assert_bad_request(reply)


def test_tokens_of_other_servers(place: Place, shelf: RawClient) -> None:
    with running(place.fresh()) as settings:
        other = RawClient(settings.endpoint)
        create_databases_and_containers(other)
        token = other.get("/dbs", count="2").headers["x-ms-continuation"]
        other.close()
    assert_bad_request(shelf.request("GET", "/dbs", headers={"x-ms-continuation": token}))


def test_tokens_of_a_database_that_was_made_again(own: RawClient) -> None:
    token = own.get("/dbs/d/colls", count="2").headers["x-ms-continuation"]
    assert own.delete("/dbs/d").status == 204
    assert own.post("/dbs", {"id": "d"}).status == 201
    assert_bad_request(own.request("GET", "/dbs/d/colls", headers={"x-ms-continuation": token}))


def test_tokens_of_another_query(shelf: RawClient) -> None:
    first = querying(shelf, DATABASES, "SELECT * FROM root r ORDER BY r.id")
    token = first({"x-ms-max-item-count": "2"}).headers["x-ms-continuation"]
    other = querying(shelf, DATABASES, "SELECT * FROM root r ORDER BY r.id DESC")
    assert_bad_request(other({"x-ms-continuation": token}))
