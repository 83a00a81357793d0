"""Pages of queries while items come and go: nothing twice, nothing left out, tokens that last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pytest

from perseid.clock import MovableClock
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.servers import serving
from tests.support.stores import Place

MORE_SIZES: Final = pytest.mark.only_on("sqlite", reason="two sizes show what the store does")
SESSION_TOKEN: Final = "x-ms-session-token"
LIFETIME: Final = 100_000  # of items that expire when a test says so
MIXED: Final = [None, True, False, 2, 1.5, "b", "a", [1], {"a": 1}, "", -3, "é"]
COMPOSITE: Final = [
    [{"path": "/g", "order": first}, {"path": "/n", "order": second}]
    for first, second in (("ascending", "descending"), ("ascending", "ascending"))
]


def item(n: int, **rest: Any) -> dict[str, Any]:
    """An item whose other properties follow from its number; some have no `v`."""
    body = {"id": f"i{n}", "pk": f"k{n % 3}", "n": n, "g": n % 4, "tags": [n * 10, n * 10 + 1]}
    return body | ({"v": MIXED[n % 12]} if n % 5 else {}) | rest


@dataclass
class Box:
    """A container and what has been in it."""

    raw: RawClient
    path: str
    ever: dict[int, dict[str, Any]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)

    def create(self, body: dict[str, Any]) -> None:
        reply = self.raw.post(f"{self.path}/docs", body, pk=json.dumps([body["pk"]]))
        assert reply.status == 201, reply
        self.ever[body["n"]] = body

    def fill(self, bodies: Iterable[dict[str, Any]]) -> None:
        """Creates them one after the other, in one request."""
        created = {body["n"]: body for body in bodies}
        operations = [
            {
                "operationType": "Create",
                "partitionKey": json.dumps([body["pk"]]),
                "resourceBody": body,
            }
            for body in created.values()
        ]
        reply = self.raw.batch(self.path, operations, atomic=False, range="0")
        assert [result["statusCode"] for result in reply.json] == [201] * len(created), reply
        self.ever |= created

    def delete(self, n: int) -> None:
        path = f"{self.path}/docs/{self.ever[n]['id']}"
        assert self.raw.delete(path, pk=json.dumps([self.ever[n]["pk"]])).status == 204
        self.gone.add(n)

    def steady(self) -> list[dict[str, Any]]:
        """Items that were there from the first page to the last."""
        return [body for n, body in self.ever.items() if n not in self.gone | self.late]

    def page(self, text: str, size: int, token: str | None) -> Reply:
        headers = {"count": str(size)} | ({} if token is None else {"continuation": token})
        reply = self.raw.query(f"{self.path}/docs", text, **headers)
        assert reply.status == 200, reply
        rows = reply.json["Documents"]
        assert reply.json["_count"] == len(rows) <= size
        assert len(reply.headers.get("x-ms-continuation", "")) <= 1024
        return reply

    def pages(self, text: str, size: int, between: Callable[[int], None] | None = None) -> Any:
        """All pages; `between` is told the number of each page that is followed by another."""
        pages, token = [], None
        while True:
            reply = self.page(text, size, token)
            pages.append(reply.json["Documents"])
            token = reply.headers.get("x-ms-continuation")
            if token is None:
                return pages
            assert pages[-1], "a page with nothing on it, and others behind"
            if between is not None:
                between(len(pages))


@pytest.fixture
def box(raw: RawClient, database: str) -> Box:
    return make_box(raw, database)


def make_box(raw: RawClient, database: str) -> Box:
    body = {
        "id": "c",
        "partitionKey": PARTITION_KEY,
        "defaultTtl": -1,
        "indexingPolicy": {"includedPaths": [{"path": "/*"}], "compositeIndexes": COMPOSITE},
    }
    assert raw.post(f"{database}/colls", body).status == 201
    return Box(raw, f"{database}/colls/c")


# What happens between pages ---------------------------------------------------------------------


class Event(NamedTuple):
    """Items that expire and are deleted after the first page, and whether each page brings more."""

    name: str
    expiring: frozenset[int] = frozenset()
    deleted: frozenset[int] = frozenset()
    creates: bool = False


EVENTS: Final = [
    Event("nothing"),
    Event("few expiries", expiring=frozenset({0, 1, 5})),
    Event("many expiries", expiring=frozenset({0, 1, 2, 3, 4, 8, 9, 10})),
    Event("all expire", expiring=frozenset(range(12))),
    Event("deletions", deleted=frozenset({0, 2, 4, 6, 11})),
    Event("creations", creates=True),
    Event("all of it", frozenset({1, 5, 10}), frozenset({0, 4, 11}), creates=True),
]


class Shape(NamedTuple):
    """A query, the rows an item gives it, and by what they must be sorted."""

    text: str
    rows: Callable[[dict[str, Any]], list[Any]]
    is_set: bool = False
    order: Callable[[Any], Any] | None = None


def ids(body: dict[str, Any]) -> list[Any]:
    return [body["id"]]


def numbers(body: dict[str, Any]) -> list[Any]:
    return [body["n"]]


def groups(body: dict[str, Any]) -> list[Any]:
    return [body["g"]]


def tags(body: dict[str, Any]) -> list[Any]:
    return list(body["tags"])


def pairs(body: dict[str, Any]) -> list[Any]:
    return [[body["g"], body["n"]]]


SHAPES: Final = [
    Shape("SELECT VALUE c.id FROM c", ids),
    Shape("SELECT VALUE c.n FROM c WHERE c.n >= 0", numbers),
    Shape("SELECT VALUE t FROM c JOIN t IN c.tags", tags),
    Shape("SELECT VALUE s.id FROM (SELECT c.id FROM c) s", ids),
    Shape("SELECT VALUE c.n FROM c ORDER BY c.n", numbers, order=lambda n: n),
    Shape("SELECT VALUE c.n FROM c ORDER BY c.n DESC", numbers, order=lambda n: -n),
    Shape("SELECT VALUE c.n FROM c ORDER BY c.g", numbers, order=lambda n: n % 4),
    Shape("SELECT VALUE c.n FROM c ORDER BY c.g DESC", numbers, order=lambda n: -(n % 4)),
    Shape("SELECT VALUE c.n FROM c ORDER BY c.pk", numbers, order=lambda n: n % 3),
    Shape("SELECT VALUE c.id FROM c ORDER BY c.v", ids),
    Shape("SELECT VALUE c.id FROM c ORDER BY c.v DESC", ids),
    Shape("SELECT VALUE c.id FROM c ORDER BY c.nothing", ids),
    Shape(
        "SELECT VALUE [c.g, c.n] FROM c ORDER BY c.g ASC, c.n DESC",
        pairs,
        order=lambda pair: (pair[0], -pair[1]),
    ),
    Shape("SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.n", tags, order=lambda t: t // 10),
    Shape("SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.g DESC", tags),
    Shape("SELECT DISTINCT VALUE c.g FROM c", groups, is_set=True),
    Shape("SELECT DISTINCT VALUE c.n FROM c", numbers, is_set=True),
    Shape("SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags", tags, is_set=True),
    Shape(
        "SELECT DISTINCT VALUE c.g FROM c ORDER BY c.g DESC",
        groups,
        is_set=True,
        order=lambda g: -g,
    ),
    Shape("SELECT VALUE c.g FROM c GROUP BY c.g", groups, is_set=True),
    Shape("SELECT VALUE [c.g, c.n] FROM c GROUP BY c.g, c.n", pairs, is_set=True),
    Shape("SELECT VALUE s.g FROM (SELECT DISTINCT c.g FROM c) s", groups, is_set=True),
    Shape("SELECT VALUE s FROM (SELECT VALUE c.n FROM c ORDER BY c.n) s", numbers),
    Shape("SELECT VALUE s FROM (SELECT TOP 99 VALUE c.g FROM c) s", groups),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
@pytest.mark.parametrize("size", [1, 5, pytest.param(2, marks=MORE_SIZES)])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.text)
def test_nothing_twice_and_nothing_left_out(
    box: Box, clock: MovableClock, shape: Shape, size: int, event: Event
) -> None:
    box.fill(item(n, ttl=LIFETIME) if n in event.expiring else item(n) for n in range(12))

    def between(page: int) -> None:
        if page == 1:
            for n in event.deleted:
                box.delete(n)
            if event.expiring:
                clock.advance(LIFETIME)
                box.gone |= event.expiring
        if event.creates and page <= 6:
            n = (-1) ** page * (12 + page)  # before and behind all others
            box.create(item(n))
            box.late.add(n)

    pages = box.pages(shape.text, size, between)
    rows = [row for page in pages for row in page]
    seen = Counter(json.dumps(row) for row in rows)
    ever, steady = (
        Counter(json.dumps(row) for body in bodies for row in shape.rows(body))
        for bodies in (box.ever.values(), box.steady())
    )
    if shape.is_set:
        assert max(seen.values()) == 1
        ever, steady = Counter(set(ever)), Counter(set(steady))
    assert steady <= seen <= ever
    if shape.order is not None:
        places = [shape.order(row) for row in rows]
        assert places == sorted(places)
    if not event.creates and not event.expiring | event.deleted:
        assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)


# Windows ----------------------------------------------------------------------------------------

WINDOWS: Final = [
    ("SELECT TOP 7 VALUE c.n FROM c", 0, 7),
    ("SELECT TOP 7 VALUE c.n FROM c ORDER BY c.n", 0, 7),
    ("SELECT VALUE c.n FROM c OFFSET 2 LIMIT 7", 2, 7),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 7", 2, 7),
    ("SELECT DISTINCT VALUE c.n FROM c OFFSET 2 LIMIT 7", 2, 7),
    ("SELECT DISTINCT TOP 7 VALUE c.n FROM c ORDER BY c.n", 0, 7),
    ("SELECT VALUE c.n FROM c GROUP BY c.n OFFSET 2 LIMIT 7", 2, 7),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 9 LIMIT 7", 9, 7),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 20 LIMIT 7", 20, 7),
    ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 0", 2, 0),
    ("SELECT TOP 0 VALUE c.n FROM c", 0, 0),
    ("SELECT TOP 1000 VALUE c.n FROM c ORDER BY c.n", 0, 1000),
]


@pytest.mark.parametrize("is_changing", [False, True])
@pytest.mark.parametrize(
    "size", [2, 7, *(pytest.param(size, marks=MORE_SIZES) for size in (1, 3, 100))]
)
@pytest.mark.parametrize(("text", "offset", "limit"), WINDOWS)
def test_windows(
    box: Box, text: str, offset: int, limit: int, size: int, is_changing: bool
) -> None:
    """The offset is used up by the first page; the limit counts over all pages."""
    box.fill(item(n) for n in range(12))
    expected = list(range(12))[offset : offset + limit]
    if not is_changing:
        pages = box.pages(text, size)
        assert [row for page in pages for row in page] == expected
        has_empty_end = len(expected) < limit and len(expected) % size == 0
        assert len(pages) == max(1, -(-len(expected) // size) + bool(expected and has_empty_end))
        return

    def between(page: int) -> None:
        if page == 1:
            for n in (0, offset, 11):
                if n not in box.gone:
                    box.delete(n)

    rows = [row for page in box.pages(text, size, between) for row in page]
    left = [n for n in range(12) if n in expected[:size] or n not in box.gone]
    assert rows == left[left.index(expected[0]) :][:limit] if expected else rows == []


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT DISTINCT TOP 2 VALUE c.n FROM c", [9, 1]),
        ("SELECT DISTINCT VALUE c.n FROM c OFFSET 1 LIMIT 2", [1, 5]),
        ("SELECT VALUE c.n FROM c GROUP BY c.n OFFSET 0 LIMIT 2", [9, 1]),
        ("SELECT TOP 2 VALUE c.n FROM c GROUP BY c.n ORDER BY COUNT(1) DESC", [3, 5]),
        ("SELECT TOP 2 VALUE d FROM (SELECT VALUE c.n FROM c ORDER BY c.n DESC) AS d", [9, 5]),
        ("SELECT DISTINCT TOP 2 VALUE c.n FROM c ORDER BY c.same DESC", [3, 5]),
        ("SELECT DISTINCT TOP 2 c.same, c.n FROM c ORDER BY c.same DESC", [[1, 3], [1, 5]]),
    ],
)
def test_the_size_of_pages_does_not_choose_the_rows(
    box: Box, text: str, rows: list[Any], size: int
) -> None:
    """Creation decides where the query does not, backwards if the first key descends."""
    box.fill(item(n, same=1) for n in (9, 1, 5, 3))
    found = [row for page in box.pages(text, size) for row in page]
    shown = [[*row.values()] if isinstance(row, dict) else row for row in found]
    assert sorted(shown) == sorted(rows)


# Tokens -----------------------------------------------------------------------------------------

SORTED: Final = "SELECT VALUE c.n FROM c ORDER BY c.g DESC"
TEXTS: Final = [
    "SELECT VALUE c.n FROM c",
    SORTED,
    "SELECT TOP 9 VALUE c.n FROM c ORDER BY c.n",
    "SELECT DISTINCT VALUE c.n FROM c",
    "SELECT VALUE c.n FROM c GROUP BY c.n",
    "SELECT VALUE t FROM c JOIN t IN c.tags",
]


def test_tokens_survive_a_restart(place: Place) -> None:
    """With a change before the server goes down."""
    settings = place.lasting()
    first: dict[str, Reply] = {}
    whole: dict[str, list[Any]] = {}
    with serving(settings) as raw:
        assert raw.post("/dbs", {"id": "d"}).status == 201
        box = make_box(raw, "/dbs/d")
        box.fill(item(n) for n in range(12))
        for text in TEXTS:
            first[text] = box.page(text, 4, None)
            (whole[text],) = box.pages(text, 100)
        box.delete(0)
    with serving(settings) as raw:
        box.raw = raw
        for text in TEXTS:
            rows, token = first[text].json["Documents"], first[text].headers["x-ms-continuation"]
            while token:
                reply = box.page(text, 4, token)
                rows += reply.json["Documents"]
                token = reply.headers.get("x-ms-continuation", "")
            gone = {0, 1} if "JOIN" in text else {0}
            assert [row for row in rows if row not in gone] == [
                row for row in whole[text] if row not in gone
            ]


@pytest.mark.parametrize("text", TEXTS)
def test_only_the_token_of_the_query_goes(box: Box, text: str) -> None:
    box.fill(item(n) for n in range(12))
    token = box.page(text, 2, None).headers["x-ms-continuation"]
    middle = len(token) // 2
    other = "A" if token[middle] != "A" else "B"
    tampered = token[:middle] + other + token[middle + 1 :]
    docs = f"{box.path}/docs"
    for sent, bad in ((text, tampered), (text, token[:-4]), (text, "x"), (f"{text} ", token)):
        assert box.raw.query(docs, sent, count="2", continuation=bad).status == 400
    parameters = [{"name": "@p", "value": 1}]
    reply = box.raw.query(docs, text, parameters, count="2", continuation=token)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    feed = box.raw.get(docs, continuation=token)
    assert (feed.status, feed.json["code"]) == (400, "BadRequest")
    assert box.page(text, 2, token).status == 200


# Keys too long for a token, by a number; and how many start alike.
LONG_KEYS: Final[dict[str, tuple[Callable[[int], Any], int]]] = {
    "different at once": (lambda n: f"{n:02}" + "x" * 3000, 1),
    "different far behind": (lambda n: "x" * 3000 + f"{n:02}", 9),
    "groups of three": (lambda n: f"{n // 3:02}" + "é" * 3000 + f"{n:02}", 3),
    "two thirds of them long": (lambda n: f"{n:02}" if n < 3 else "y" * 2000 + f"{n:02}", 6),
    "control characters": (lambda n: "\1" * 2000 + f"{n:02}", 9),
    "arrays": (lambda n: [*range(500), n], 9),
    "objects": (lambda n: {"a": "x" * 3000, "b": n}, 9),
}
LONG_QUERIES: Final = [
    "SELECT c.n FROM c ORDER BY c.key",
    "SELECT c.n FROM c ORDER BY c.key DESC",
    "SELECT c.n, c.key FROM c GROUP BY c.n, c.key",
    "SELECT DISTINCT c.key, c.n FROM c",
    "SELECT DISTINCT c.key, c.n FROM c ORDER BY c.key DESC",
]


@pytest.mark.parametrize(
    "size", [1, 4, *(pytest.param(size, marks=MORE_SIZES) for size in (2, 3, 6, 100))]
)
@pytest.mark.parametrize("text", LONG_QUERIES)
@pytest.mark.parametrize("kind", LONG_KEYS)
def test_long_keys(box: Box, kind: str, text: str, size: int) -> None:
    """Each row once although the item a token points at is gone; tokens stay below 1 KiB.

    The order is exact as long as those that start alike fit into a page.
    """
    make, alike = LONG_KEYS[kind]
    box.fill(item(n, key=make(8 - n)) for n in range(9))
    rows: list[int] = []
    token = None
    while True:
        reply = box.page(text, size, token)
        rows += [row["n"] for row in reply.json["Documents"]]
        token = reply.headers.get("x-ms-continuation")
        if token is None:
            break
        box.delete(rows[-1])
    assert sorted(rows) == list(range(9))
    if "ORDER BY" in text and alike <= size:
        assert rows == sorted(rows, reverse="DESC" not in text)


def test_the_first_few_by_long_keys_are_the_right_ones(box: Box) -> None:
    box.fill(item(n, key="x" * 3000 + str(8 - n)) for n in range(9))
    for size in (3, 100):
        assert box.pages("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.key", size) == [[8, 7, 6]]
        assert box.pages("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.key DESC", size) == [[0, 1, 2]]


# Texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "SELECT * FROM c", "SELECT VALUE c FROM c", "SELECT * FROM c ORDER BY c.n",
    "SELECT TOP 1 * FROM c", "SELECT TOP 1 VALUE c FROM c ORDER BY c.n DESC",
    "SELECT DISTINCT * FROM c", "SELECT VALUE c FROM c JOIN t IN c.tags",
])  # fmt: skip
def test_whole_items_come_as_they_were_sent(box: Box, text: str) -> None:
    sent = rb'{"id":"a","pk":"p","n":1.0,"m":1e2,"big":12345678901234567890123,"tags":["\u00e9"]'
    stored = box.raw.post(f"{box.path}/docs", sent + b"}", pk='["p"]')
    assert stored.status == 201
    assert stored.body.startswith(sent)
    reply = box.raw.query(f"{box.path}/docs", text)
    assert reply.status == 200
    assert b'"Documents":[' + stored.body + b"]" in reply.body


def test_a_page_holds_four_megabytes(box: Box) -> None:
    for n in range(7):
        box.create(item(n, text="x" * 1_500_000))
    for text in ("SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT DISTINCT * FROM c"):
        pages = box.pages(text, 100)
        assert sorted(row["n"] for page in pages for row in page) == list(range(7))
        assert [len(page) for page in pages] == [2, 2, 2, 1]


def test_aggregates_are_one_page(box: Box) -> None:
    box.fill(item(n) for n in range(5))
    assert box.pages("SELECT VALUE SUM(c.n) FROM c", 1) == [[10]]
    assert box.pages("SELECT COUNT(1) AS k, MAX(c.n) AS m FROM c", 1) == [[{"k": 5, "m": 4}]]
    assert box.pages("SELECT VALUE 1", 1) == [[1]]


def test_results_that_fit_keep_the_order_of_their_items(box: Box) -> None:
    for n in (5, 3, 7, 1):
        box.create(item(n, pk="p"))
    empty: list[list[int]] = [[]]
    for text, end in (
        ("SELECT DISTINCT VALUE c.n FROM c", empty),
        ("SELECT VALUE c.n FROM c GROUP BY c.n", empty[:0]),
    ):
        assert box.pages(text, 5) == [[5, 3, 7, 1]]
        assert box.pages(text, 4) == [[5, 3, 7, 1], *end]
        assert box.pages(text, 2) == [[1, 3], [5, 7], *end]


def test_many_chunks(box: Box) -> None:
    """More items than are evaluated at a time."""
    count = 1200
    for n in range(count):
        box.create(item(n, pk="p"))
    pages = box.pages("SELECT VALUE c.n FROM c ORDER BY c.n DESC", 500)
    assert [len(page) for page in pages] == [500, 500, 200]
    assert [row for page in pages for row in page] == list(reversed(range(count)))
    assert box.pages("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", 100) == [[0, 1, 2]]
    assert box.pages("SELECT VALUE COUNT(1) FROM c", 100) == [[count]]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM c WHERE c.n >= 0",
        "SELECT TOP 5 * FROM c ORDER BY c.n",
        "SELECT c.n FROM c",
        "SELECT VALUE COUNT(1) FROM c",
    ],
)
def test_a_session_token_is_that_of_the_items(raw: RawClient, container: str, query: str) -> None:
    """Neither behind the last write nor ahead of the page; a token of the future is refused."""
    for n in range(3):
        token = raw.post(f"{container}/docs", item(n, pk="k"), pk='["k"]').headers[SESSION_TOKEN]
        page = raw.query(f"{container}/docs", query)
        assert (page.status, page.headers[SESSION_TOKEN]) == (200, token)
        again = raw.query(f"{container}/docs", query, **{SESSION_TOKEN: token})
        assert (again.status, again.headers[SESSION_TOKEN]) == (200, token)
    future = f"0:-1#{int(token.partition('#')[2]) + 1}"
    refused = raw.query(f"{container}/docs", query, **{SESSION_TOKEN: future})
    assert (refused.status, refused.headers["x-ms-substatus"]) == (404, "1002")
