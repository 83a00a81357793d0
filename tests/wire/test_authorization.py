"""Master keys: the published signature vectors, then every way to be right or wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from email.utils import formatdate, parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import pytest

from perseid import clock
from perseid.config import WELL_KNOWN_KEY, Settings
from perseid.errors import Forbidden, Unauthorized
from perseid.http.admin import routes as admin
from perseid.http.request import Exchange, Request
from perseid.http.signatures import SignatureVerifier
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply, sign
from tests.support.running import running
from tests.support.servers import Servers
from tests.support.stores import Stores

MISSING = "Required Header authorization is missing. Ensure a valid Authorization token is passed."
REFUSED = "The input authorization token can't serve the request."
READ_ONLY = "Insufficient permissions provided in the authorization header"
OTHER_KEY = base64.b64encode(b"another key, sixty-four bytes long".ljust(64, b".")).decode()


# The published vectors, against the guard alone --------------------------------------------------

Y2030 = "Tue, 01 Jan 2030 00:00:00 GMT"
Y1926 = "Fri, 17 Dec 1926 03:15:00 GMT"
Y2017 = "Thu, 27 Apr 2017 00:51:12 GMT"
DOCUMENTED_KEY = (
    "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw=="
)
DOCUMENTED_HEADER = (
    "type%3dmaster%26ver%3d1.0%26sig%3dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2bc%2bc%3d"
)


class Vector(NamedTuple):
    verb: str
    kind: str
    link: str  # as the path has it
    signed: str  # as the signature has it
    date: str
    signature: str


VECTORS = [
    Vector("GET", "", "", "", Y2030, "pTYhS4ox9QI3Bc8GVhbE/l3B/UQLk86E2gdybMBk1rU="),
    Vector("POST", "dbs", "", "", Y2030, "LNm/VsKZuCjcmT+6DGINeQ4at7RHRVzrcMT3AjDqKpQ="),
    Vector("POST", "docs", "dbs/MyDb/colls/MyColl", "dbs/MyDb/colls/MyColl", Y2030,
           "RIV5aWuVYF1B8BW6SfxSTYTAEnmi6U+7cu8b44HyKSY="),
    Vector("GET", "docs", "dbs/MyDb/colls/MyColl/docs/My Doc", "dbs/MyDb/colls/MyColl/docs/My Doc",
           Y2030, "9AWF/byqjilP+sTV9exahgvxZw4HyNtNvVS4SlJWKBc="),
    Vector("PUT", "offers", "offers/ZyXw", "zyxw", Y2030,
           "fsiPuPd9LZQVLGn6l7IdVjdwroTh0hL8cjkuMHp7ni4="),
    Vector("GET", "colls", "dbs/Test Database/colls/Test Collection",
           "dbs/Test Database/colls/Test Collection", Y1926,
           "cugjaA51bjCvxVi8LXg3XB+ZVKaFAZshILoJZF9nfEY="),
    Vector("PATCH", "docs", "dbs/test-db/colls/test-coll/docs/67890",
           "dbs/test-db/colls/test-coll/docs/67890", Y1926,
           "VR1ddfxKBXnoaT+b3WkhyYVc9JmGNpTnaRmyDM44398="),
    Vector("GET", "pkranges", "dbs/M4d+Xg==/colls/M4d+Xg08UVM=", "m4d+xg08uvm=", Y1926,
           "6S5ceZsl2EXWB3Jo5bJcK7zv8NxXnsxWPWD9TH3nNMo="),
]  # fmt: skip
by_link = pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v.verb} {v.link}")


def request(verb: str, headers: Mapping[str, str]) -> Request:
    return Request(
        method=verb,
        path="/",
        query_string="",
        scheme="http",
        header=headers.get,
        body=b"",
        activity_id="an-activity",
        now=0.0,
    )


def stop_clock_at(date: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: parsedate_to_datetime(date).timestamp())


@by_link
def test_vector_is_accepted(vector: Vector, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock_at(vector.date, monkeypatch)
    token = f"type=master&ver=1.0&sig={vector.signature}"
    verifier = SignatureVerifier(Settings())
    for written in (quote(token, safe=""), token):
        headers = {"authorization": written, "x-ms-date": vector.date}
        verifier.check(
            request(vector.verb, headers), Exchange(), vector.kind, vector.link, is_read=False
        )


@by_link
@pytest.mark.parametrize("part", ["verb", "kind", "link", "date", "signature", "key"])
@pytest.mark.parametrize("is_second", [False, True], ids=["at once", "after the right one"])
def test_vector_with_one_change_is_refused(
    vector: Vector, part: str, is_second: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_clock_at(vector.date, monkeypatch)
    changes: dict[str, Any] = {
        "verb": {"verb": "DELETE"},
        "kind": {"kind": f"{vector.kind}x"},
        "link": {"link": f"{vector.link}x"},
        "date": {"date": vector.date.replace("00", "01", 1).replace("15:", "16:")},
        "signature": {"signature": "A" + vector.signature[1:]},
        "key": {},
    }
    verifier = SignatureVerifier(Settings(key=OTHER_KEY if part == "key" else WELL_KNOWN_KEY))

    def check(sent: Vector) -> None:
        token = f"type=master&ver=1.0&sig={sent.signature}"
        headers = {"authorization": quote(token, safe=""), "x-ms-date": sent.date}
        verifier.check(request(sent.verb, headers), Exchange(), sent.kind, sent.link, is_read=False)

    if is_second and part != "key":
        check(vector)
        check(vector)
    with pytest.raises(Unauthorized):
        check(vector._replace(**changes[part]))


@by_link
def test_vector_is_what_the_suite_signs(vector: Vector) -> None:
    """The other wire tests rest on this."""
    header = sign(WELL_KNOWN_KEY, vector.verb, vector.kind, vector.signed, vector.date)
    assert unquote(header) == f"type=master&ver=1.0&sig={vector.signature}"


def test_vector_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock_at(Y2017, monkeypatch)
    headers = {"authorization": DOCUMENTED_HEADER, "x-ms-date": Y2017}
    SignatureVerifier(Settings(key=DOCUMENTED_KEY)).check(
        request("GET", headers), Exchange(), "dbs", "dbs/ToDoList", is_read=True
    )


@pytest.mark.parametrize(
    ("settings", "may_write"),
    [
        (Settings(), True),
        (Settings(key=OTHER_KEY, secondary_key=WELL_KNOWN_KEY), True),
        (Settings(key=OTHER_KEY, read_only_key=WELL_KNOWN_KEY), False),
        (Settings(key=OTHER_KEY, secondary_read_only_key=WELL_KNOWN_KEY), False),
    ],
    ids=["key", "secondary_key", "read_only_key", "secondary_read_only_key"],
)
def test_four_keys(settings: Settings, may_write: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_clock_at(Y2030, monkeypatch)
    token = sign(WELL_KNOWN_KEY, "POST", "dbs", "", Y2030)
    made = request("POST", {"authorization": token, "x-ms-date": Y2030})
    verifier = SignatureVerifier(settings)
    verifier.check(made, Exchange(), "dbs", "", is_read=True)
    with nullcontext() if may_write else pytest.raises(Forbidden):
        verifier.check(made, Exchange(), "dbs", "", is_read=False)


def test_a_signature_that_was_right_ends_with_its_date(monkeypatch: pytest.MonkeyPatch) -> None:
    token = sign(WELL_KNOWN_KEY, "POST", "dbs", "", Y2030)
    made = request("POST", {"authorization": token, "x-ms-date": Y2030})
    verifier = SignatureVerifier(Settings())
    now = parsedate_to_datetime(Y2030).timestamp()
    for late in (0, 900, 0):
        monkeypatch.setattr(clock, "wall", lambda late=late: now + late)
        verifier.check(made, Exchange(), "dbs", "", is_read=True)
    monkeypatch.setattr(clock, "wall", lambda: now + 901)
    with pytest.raises(Unauthorized, match=re.escape(r"It was signed as 'post\ndbs\n\n")):
        verifier.check(made, Exchange(), "dbs", "", is_read=True)


# A real server -----------------------------------------------------------------------------------


def send(
    endpoint: str, method: str, path: str, headers: Mapping[str, str], body: Any = None
) -> Reply:
    """One request with exactly these headers and the ones HTTP needs."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    content = None if body is None else json.dumps(body).encode()
    connection.request(method, quote(path, safe="/"), content, dict(headers))
    response = connection.getresponse()
    reply = Reply(
        response.status,
        {name.lower(): value for name, value in response.getheaders()},
        response.read(),
    )
    connection.close()
    return reply


def dated(seconds: float = 0) -> str:
    return formatdate(clock.wall() + seconds, usegmt=True)


def signed(verb: str, kind: str, link: str, date: str | None = None) -> dict[str, str]:
    date = dated() if date is None else date
    return {
        "authorization": sign(WELL_KNOWN_KEY, verb, kind, link, date),
        "x-ms-date": date,
    }


def assert_unauthorized(reply: Reply, fragment: str) -> None:
    assert (reply.status, reply.sub_status) == (401, 0)
    assert reply.headers["content-type"] == "application/json"
    assert set(reply.json) == {"code", "message"}
    assert reply.json["code"] == "Unauthorized"
    assert fragment in reply.json["message"]
    assert WELL_KNOWN_KEY not in reply.json["message"]


def assert_shows(reply: Reply, payload: str) -> None:
    """The string to sign, whether its line ends are shown as such or escaped."""
    assert payload in reply.json["message"].replace("\\n", "\n")


@pytest.mark.parametrize("path", ["/", "/dbs", "/offers", "/dbs/nowhere", "/dbs/a/colls/b/docs"])
@pytest.mark.parametrize("headers", [{}, {"authorization": ""}], ids=["absent", "empty"])
def test_without_authorization(endpoint: str, path: str, headers: dict[str, str]) -> None:
    reply = send(endpoint, "GET", path, {"x-ms-date": dated(), **headers})
    assert_unauthorized(reply, MISSING)


def test_unsigned_writes_change_nothing(raw: RawClient, container: str, database: str) -> None:
    for method, path, body in (
        ("POST", "/dbs", {"id": f"{database[5:]}-x"}),
        ("DELETE", database, None),
        ("DELETE", container, None),
        ("PUT", container, {"id": "c", "defaultTtl": 5}),
    ):
        assert_unauthorized(raw.request(method, path, body, sign_with=None), MISSING)
        assert_unauthorized(raw.request(method, path, body, sign_with=OTHER_KEY), REFUSED)
    assert "defaultTtl" not in raw.get(container).json
    assert raw.get(f"{database}-x").status == 404


def test_wrong_key_shows_the_string_to_sign(raw: RawClient, database: str) -> None:
    date = dated()
    headers = {
        "authorization": sign(OTHER_KEY, "GET", "dbs", database[1:], date),
        "x-ms-date": date,
    }
    reply = send(raw.endpoint, "GET", database, headers)
    assert_unauthorized(reply, REFUSED)
    assert_shows(reply, f"get\ndbs\n{database[1:]}\n{date.lower()}\n\n")


def test_the_answer_does_not_tell_whether_the_resource_exists(
    raw: RawClient, database: str
) -> None:
    for path in (database, f"{database}-nowhere"):
        reply = raw.request("GET", path, sign_with=OTHER_KEY)
        assert_unauthorized(reply, REFUSED)


@pytest.mark.parametrize(
    ("kind", "link"),
    [
        ("dbs", "dbs/{other}"),
        ("dbs", "dbs/{upper}"),
        ("dbs", ""),
        ("dbs", "/dbs/{name}"),
        ("dbs", "dbs/{name}/"),
        ("colls", "dbs/{name}"),
        ("", "dbs/{name}"),
    ],
)
def test_tampered_link(raw: RawClient, database: str, kind: str, link: str) -> None:
    name = database[5:]
    link = link.format(name=name, other=f"{name}x", upper=name.upper())
    reply = send(raw.endpoint, "GET", database, signed("GET", kind, link))
    assert_unauthorized(reply, REFUSED)


def test_signature_of_another_verb(raw: RawClient, database: str) -> None:
    reply = send(raw.endpoint, "DELETE", database, signed("GET", "dbs", database[1:]))
    assert_unauthorized(reply, REFUSED)
    assert raw.get(database).status == 200


def test_names_are_signed_unencoded_and_in_their_case(raw: RawClient, name: str) -> None:
    spaced = f"A b+c é {name}"
    assert raw.post("/dbs", {"id": spaced}).status == 201
    path = f"/dbs/{spaced}"
    good = send(raw.endpoint, "GET", path, signed("GET", "dbs", path[1:]))
    bad = send(raw.endpoint, "GET", path, signed("GET", "dbs", quote(path[1:])))
    assert good.status == 200
    assert_unauthorized(bad, REFUSED)
    assert raw.delete(path).status == 204


@pytest.mark.parametrize("minutes", [-14, 14])
def test_date_within_fifteen_minutes(endpoint: str, minutes: int) -> None:
    date = dated(minutes * 60)
    assert send(endpoint, "GET", "/", signed("GET", "", "", date)).status == 200


@pytest.mark.parametrize("seconds", [-24 * 3600, -16 * 60, 16 * 60, 24 * 3600])
def test_stale_date(endpoint: str, seconds: int) -> None:
    date = dated(seconds)
    reply = send(endpoint, "GET", "/dbs", signed("GET", "dbs", "", date))
    assert_unauthorized(reply, "The authorization token is not valid at the current time.")
    assert_shows(reply, f"get\ndbs\n\n{date.lower()}\n\n")


@pytest.mark.parametrize("date", ["yesterday", "2030-01-01T00:00:00Z", "0", "Tue, 99 Foo 2030"])
def test_date_that_is_none(endpoint: str, date: str) -> None:
    reply = send(endpoint, "GET", "/dbs", signed("GET", "dbs", "", date))
    assert reply.status == 401
    assert reply.json["code"] == "Unauthorized"


def test_no_date_at_all(endpoint: str) -> None:
    headers = signed("GET", "dbs", "", "")
    del headers["x-ms-date"]
    assert send(endpoint, "GET", "/dbs", headers).status == 401


def old_style(verb: str, kind: str, link: str, date: str) -> str:
    """Signed over the `date` header, which moves one line down."""
    text = f"{verb.lower()}\n{kind}\n{link}\n\n{date.lower()}\n"
    digest = hmac.digest(base64.b64decode(WELL_KNOWN_KEY), text.encode(), hashlib.sha256)
    return quote(f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}", safe="")


def test_date_instead_of_x_ms_date(raw: RawClient, database: str) -> None:
    date = dated()
    token = old_style("GET", "dbs", database[1:], date)
    good = send(raw.endpoint, "GET", database, {"authorization": token, "date": date})
    assert good.status == 200
    stale = dated(-16 * 60)
    token = old_style("GET", "dbs", database[1:], stale)
    bad = send(raw.endpoint, "GET", database, {"authorization": token, "date": stale})
    assert bad.status == 401


def test_x_ms_date_wins_over_date(raw: RawClient, database: str) -> None:
    headers = signed("GET", "dbs", database[1:]) | {"date": dated(-3600)}
    assert send(raw.endpoint, "GET", database, headers).status == 200
    date = dated()
    headers = {
        "authorization": old_style("GET", "dbs", database[1:], date),
        "date": date,
        "x-ms-date": date,
    }
    assert send(raw.endpoint, "GET", database, headers).status == 401


@pytest.mark.parametrize("attempt", range(8))
def test_spellings_of_the_header(endpoint: str, attempt: int) -> None:
    """Several dates, so that + and / turn up in signatures."""
    headers = signed("GET", "", "", dated(-attempt))
    upper = headers["authorization"]
    for spelling in (
        upper,
        re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), upper),
        unquote(upper),
    ):
        reply = send(endpoint, "GET", "/", headers | {"authorization": spelling})
        assert reply.status == 200, spelling


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "&&&",
        "%",
        "%zz%",
        "type=master&ver=1.0",
        "type=master&ver=1.0&sig=",
        "type=master&ver=1.0&sig=not base64",
        "type=master&ver=1.0&sig=YWJj",
        "type=resource&ver=1&sig=YWJj",
        "type=aad&ver=1.0&sig=a.b.c",
        "type=sas&ver=1.1&sig=YWJj",
        "Bearer a.b.c",
        "Basic dXNlcjpwYXNz",
        "é",
        "A" * 20_000,
    ],
)
def test_tokens_of_other_shapes(endpoint: str, token: str) -> None:
    for written in (token, quote(token, safe="")):
        headers = {"authorization": written, "x-ms-date": dated()}
        reply = send(endpoint, "GET", "/dbs", headers)
        assert reply.status == 401, written[:50]
        assert reply.json["code"] == "Unauthorized"


# Links made of rids ------------------------------------------------------------------------------


class Rids(NamedTuple):
    database: str
    container: str
    item: str
    offer: str


@pytest.fixture
def rids(raw: RawClient, container: str) -> Rids:
    item = raw.post(f"{container}/docs", {"id": "1", "pk": "a"}, pk='["a"]').json
    _, database, _, owner, *_ = item["_self"].split("/")
    text = "SELECT * FROM root r WHERE r.offerResourceId = @rid"
    offers = raw.query("/offers", text, [{"name": "@rid", "value": owner}]).json["Offers"]
    return Rids(database, owner, item["_rid"], offers[0]["_rid"])


@pytest.mark.parametrize(
    ("path", "kind", "last"),
    [
        ("/dbs/{0.database}", "dbs", "database"),
        ("/dbs/{0.database}/colls", "colls", "database"),
        ("/dbs/{0.database}/colls/{0.container}", "colls", "container"),
        ("/dbs/{0.database}/colls/{0.container}/docs", "docs", "container"),
        ("/dbs/{0.database}/colls/{0.container}/pkranges", "pkranges", "container"),
        ("/dbs/{0.database}/colls/{0.container}/docs/{0.item}", "docs", "item"),
        ("/offers/{0.offer}", "offers", "offer"),
    ],
)
@pytest.mark.parametrize("ending", ["", "/"])
def test_rid_links_are_signed_as_the_last_rid_in_lower_case(
    raw: RawClient, rids: Rids, path: str, kind: str, last: str, ending: str
) -> None:
    rid = getattr(rids, last)
    headers = signed("GET", kind, rid.lower()) | {"x-ms-documentdb-partitionkey": '["a"]'}
    reply = send(raw.endpoint, "GET", path.format(rids) + ending, headers)
    assert reply.status == 200
    wrong = signed("GET", kind, f"{rid.lower()}x")
    assert send(raw.endpoint, "GET", path.format(rids), wrong).status == 401


# Keys of other kinds -----------------------------------------------------------------------------


class Keys(NamedTuple):
    endpoint: str
    primary: str
    secondary: str
    reader: str
    second_reader: str
    offer: str


@pytest.fixture(scope="module")
def keys(stores: Stores) -> Iterator[Keys]:
    """A server with all four keys, and a container with one item."""
    made = [base64.b64encode(bytes([n]) * 64).decode() for n in range(1, 5)]
    names = ("key", "secondary_key", "read_only_key", "secondary_read_only_key")
    chosen = dict(zip(names, made, strict=True))
    with stores.place() as place, running(place.fresh(**chosen)) as found:
        client = RawClient(found.endpoint, made[0])
        assert client.post("/dbs", {"id": "d"}).status == 201
        body = {"id": "c", "partitionKey": PARTITION_KEY}
        assert client.post("/dbs/d/colls", body).status == 201
        assert client.post("/dbs/d/colls/c/docs", {"id": "1", "pk": "a"}, pk='["a"]').status == 201
        offer = client.get("/offers").json["Offers"][0]["id"]
        client.close()
        yield Keys(found.endpoint, made[0], made[1], made[2], made[3], offer)


PK = {"x-ms-documentdb-partitionkey": '["a"]'}
UPSERT = {**PK, "x-ms-documentdb-is-upsert": "True"}
QUERY = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
}
ALL = {"query": "SELECT * FROM root r"}
READS: list[tuple[str, str, Any, dict[str, str]]] = [
    ("GET", "/", None, {}),
    ("GET", "/dbs", None, {}),
    ("GET", "/dbs/d", None, {}),
    ("GET", "/dbs/d/colls", None, {}),
    ("GET", "/dbs/d/colls/c", None, {}),
    ("GET", "/dbs/d/colls/c/pkranges", None, {}),
    ("GET", "/dbs/d/colls/c/docs", None, {}),
    ("GET", "/dbs/d/colls/c/docs/1", None, PK),
    ("GET", "/offers", None, {}),
    ("GET", "/offers/{offer}", None, {}),
    ("POST", "/dbs", ALL, QUERY),
    ("POST", "/dbs/d/colls", ALL, QUERY),
    ("POST", "/dbs/d/colls/c/docs", ALL, QUERY),
    ("POST", "/offers", ALL, QUERY),
    ("GET", "/dbs/d/users", None, {}),
    ("POST", "/dbs/d/users", ALL, QUERY),
    ("GET", "/dbs/d/colls/c/sprocs", None, {}),
    ("GET", "/dbs/d/colls/c/conflicts", None, {}),
    ("GET", "/_perseid/clock", None, {}),
]
WRITES: list[tuple[str, str, Any, dict[str, str]]] = [
    ("POST", "/dbs", {"id": "new"}, {}),
    ("DELETE", "/dbs/d", None, {}),
    ("POST", "/dbs/d/colls", {"id": "new"}, {}),
    ("PUT", "/dbs/d/colls/c", {"id": "c"}, {}),
    ("DELETE", "/dbs/d/colls/c", None, {}),
    ("POST", "/dbs/d/colls/c/docs", {"id": "2", "pk": "a"}, PK),
    ("POST", "/dbs/d/colls/c/docs", {"id": "1", "pk": "a"}, UPSERT),
    ("PUT", "/dbs/d/colls/c/docs/1", {"id": "1", "pk": "a", "x": 1}, PK),
    ("DELETE", "/dbs/d/colls/c/docs/1", None, PK),
    ("PUT", "/offers/{offer}", {"content": {"offerThroughput": 500}}, {}),
    ("POST", "/dbs/d/users", {"id": "u"}, {}),
    ("POST", "/dbs/d/colls/c/sprocs", {"id": "s", "body": "x"}, {}),
    ("POST", "/dbs/d/colls/c/operations/partitionkeydelete", None, PK),
    # Reading a permission would give a token, which may be for writing.
    ("GET", "/dbs/d/users/u/permissions", None, {}),
    ("GET", "/dbs/d/users/u/permissions/p", None, {}),
    ("POST", "/dbs/d/users/u/permissions", ALL, QUERY),
]  # fmt: skip


@pytest.fixture
def anyone(keys: Keys) -> Iterator[RawClient]:
    client = RawClient(keys.endpoint, keys.primary)
    yield client
    client.close()


@pytest.mark.parametrize("which", ["primary", "secondary", "reader", "second_reader"])
@pytest.mark.parametrize(("method", "path", "body", "headers"), READS)
def test_every_key_reads(
    anyone: RawClient,
    keys: Keys,
    which: str,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
) -> None:
    path = path.format(offer=keys.offer)
    reply = anyone.request(method, path, body, headers, sign_with=getattr(keys, which))
    assert reply.status == 200


@pytest.mark.parametrize("which", ["reader", "second_reader"])
@pytest.mark.parametrize(("method", "path", "body", "headers"), WRITES)
def test_read_only_keys_do_not_write(
    anyone: RawClient,
    keys: Keys,
    which: str,
    method: str,
    path: str,
    body: Any,
    headers: dict[str, str],
) -> None:
    path = path.format(offer=keys.offer)
    before = anyone.get("/dbs/d/colls/c/docs").json
    reply = anyone.request(method, path, body, headers, sign_with=getattr(keys, which))
    assert (reply.status, reply.sub_status) == (403, 0)
    assert reply.json["code"] == "Forbidden"
    assert reply.json["message"].startswith(READ_ONLY)
    assert anyone.get("/dbs/d/colls/c/docs").json == before
    assert [found["id"] for found in anyone.get("/dbs").json["Databases"]] == ["d"]
    assert [found["id"] for found in anyone.get("/dbs/d/colls").json["DocumentCollections"]] == [
        "c"
    ]
    assert anyone.get("/offers").json["Offers"][0]["content"]["offerThroughput"] == 400


@pytest.mark.parametrize(
    "name", sorted(set(admin.ROUTES) - admin.UNSIGNED_ROUTES - admin.READ_ONLY_ROUTES)
)
def test_of_administration_read_only_keys_see_the_clock_alone(
    anyone: RawClient, keys: Keys, name: str
) -> None:
    for method in admin.ROUTES[name]:
        path = admin.PREFIX + name.replace("*/*", "d/c")
        reply = anyone.request(method, path, {}, sign_with=keys.reader)
        # The moves of the clock are not there without --test-clock.
        assert reply.status == (404 if name.startswith("clock/") else 403), path


def test_secondary_key_writes(anyone: RawClient, keys: Keys, name: str) -> None:
    made = anyone.request("POST", "/dbs", {"id": name}, sign_with=keys.secondary)
    gone = anyone.request("DELETE", f"/dbs/{name}", sign_with=keys.secondary)
    assert (made.status, gone.status) == (201, 204)


def test_the_well_known_key_is_nothing_when_another_is_set(anyone: RawClient) -> None:
    assert_unauthorized(anyone.request("GET", "/", sign_with=WELL_KNOWN_KEY), REFUSED)


def test_server_without_authorization(servers: Servers, name: str) -> None:
    with servers(no_auth=True).connect() as client:
        for key in (None, OTHER_KEY, WELL_KNOWN_KEY):
            assert client.request("GET", "/", sign_with=key).status == 200
            assert client.request("POST", "/dbs", {"id": name}, sign_with=key).status == 201
            assert client.request("DELETE", f"/dbs/{name}", sign_with=key).status == 204
        assert client.request("GET", "/dbs", headers={"authorization": "x"}).status == 200
