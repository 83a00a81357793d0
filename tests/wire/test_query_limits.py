"""Queries that would never end: they are stopped, and no other request waits for them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from perseid.query import compile_query, evaluate_row_independent, work_limit
from perseid.query.functions import regex
from perseid.query.planner import bound_values
from perseid.service.items import patch_evaluator
from perseid.service.queries import budget, metadata
from perseid.service.queries.pages import builder
from tests.support.builders import create_container, temporary_database
from tests.support.raw import RawClient, Reply
from tests.support.servers import RunningServer, serving
from tests.support.stores import Place
from tests.support.waiting import TooSlow, repeat_if_slow, until

SIZE: Final = 1500  # to the third power, no one waits for
TRIPLE: Final = "FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a"
ELEMENTS: Final = "FROM x IN c.a JOIN y IN c.a JOIN z IN c.a"
GIVEN: Final = " ".join(f"JOIN {name} IN (SELECT VALUE @a)" for name in "xyz")
DOCS: Final = "/dbs/q/colls/c/docs"


@pytest.fixture
def endpoint(server: RunningServer) -> Iterator[str]:
    with server.connect() as raw, temporary_database(raw, "q") as database:
        create_container(raw, database)
        item = {"id": "1", "pk": "p", "a": list(range(SIZE)), "s": "s" * 10_000}
        assert raw.post(DOCS, item, pk='["p"]').status == 201
        yield server.endpoint


@pytest.fixture
def raw(endpoint: str) -> Iterator[RawClient]:
    with closing(RawClient(endpoint)) as client:
        yield client


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT VALUE 1 {TRIPLE} WHERE x + y + z < 0",
        f"SELECT VALUE COUNT(1) {TRIPLE}",
        f"SELECT VALUE COUNT(1) FROM c {GIVEN}",
        f"SELECT VALUE COUNT(c.s) {TRIPLE} WHERE x < y + 0",
        f"SELECT VALUE x {TRIPLE} ORDER BY x",
        f"SELECT DISTINCT VALUE x {TRIPLE}",
        f"SELECT VALUE (SELECT VALUE COUNT(1) {ELEMENTS}) FROM c",
        f"SELECT VALUE ARRAY(SELECT VALUE x {ELEMENTS}) FROM c",
        f"SELECT * FROM c WHERE EXISTS(SELECT 1 {ELEMENTS} WHERE x + y + z < 0)",
        "SELECT VALUE COUNT(1) FROM (SELECT VALUE @a) AS a JOIN x IN a JOIN y IN a JOIN z IN a",
        "SELECT VALUE (SELECT VALUE COUNT(1) FROM (SELECT VALUE @a) AS a"
        " JOIN x IN a JOIN y IN a JOIN z IN a)",
    ],
)
def test_rows_of_one_item_have_a_time_limit(
    raw: RawClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(budget, "ITEM_SECONDS", 0.1)
    parameters = [{"name": "@a", "value": list(range(SIZE))}]
    reply = raw.query(DOCS, text, parameters)
    assert reply.status == 400, reply
    assert "take too long" in reply.json["message"]


def rows_and_pages(raw: RawClient, text: str) -> tuple[list[Any], int]:
    """All rows of a query, and how many pages they came in."""
    found: list[Any] = []
    pages, token = 0, ""
    while token or not pages:
        more = {"continuation": token} if token else {}
        reply = raw.query(DOCS, text, count="1000", **more)
        found += reply.json["Documents"]
        token = reply.headers.get("x-ms-continuation", "")
        pages += 1
    return found, pages


def test_a_page_with_rows_ends_in_time_and_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the time finds it over, so a page ends at the first look after its first row."""
    monkeypatch.setattr(work_limit, "STEPS", 50)
    with serving(place.fresh(query_page_seconds=0)) as raw:
        raw.post("/dbs", {"id": "q"})
        raw.post("/dbs/q/colls", {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
        raw.post(DOCS, {"id": "1", "pk": "p", "a": list(range(20))}, pk='["p"]')
        text = "SELECT VALUE [x, y] FROM c JOIN x IN c.a JOIN y IN c.a WHERE (x + y) % 7 = 0"
        found, pages = rows_and_pages(raw, text)
    assert found == [[x, y] for x in range(20) for y in range(20) if (x + y) % 7 == 0]
    assert pages > 3


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT VALUE 1 {TRIPLE} WHERE x + y + z < 0",
        f"SELECT VALUE COUNT(1) FROM c {GIVEN}",
        f"SELECT VALUE COUNT(1) FROM c {GIVEN} WHERE c.pk = 'p'",
    ],
)
def test_others_are_served_meanwhile(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    given = [{"name": "@a", "value": list(range(SIZE))}]

    def attempt(factor: int) -> None:
        monkeypatch.setattr(budget, "ITEM_SECONDS", 0.5 * factor)
        assert query_while_others_read(endpoint, text, given).status == 400

    repeat_if_slow(attempt)


def query_while_others_read(endpoint: str, text: str, given: Any = ()) -> Reply:
    """The reply to a query; TooSlow if other requests were hardly answered meanwhile."""
    with closing(RawClient(endpoint)) as busy, closing(RawClient(endpoint)) as other:
        replies: list[Reply] = []
        served = 0
        asking = threading.Thread(target=lambda: replies.append(busy.query(DOCS, text, [*given])))
        asking.start()
        while asking.is_alive():
            assert other.get(f"{DOCS}/1", pk='["p"]').status == 200
            served += 1
            asking.join(0.01)
    if served <= 3:
        raise TooSlow(f"{served} requests were answered meanwhile")
    return replies[0]


# Each text of the array takes a part of a millisecond.
TEXTS: Final = " OR ".join(f"ToString(c.a) = '{number}'" for number in range(1500))
PATTERNS: Final = " OR ".join(f"c.s LIKE '%_{'s' * 100}{number}%'" for number in range(500))


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM c WHERE {TEXTS}",
        f"SELECT VALUE COUNTIF({TEXTS}) FROM c",
        f"SELECT * FROM c WHERE {PATTERNS}",
        f"SELECT * FROM c WHERE {' OR '.join(['c.a = c.b'] * 3000)}",
    ],
    ids=["functions", "counted", "like", "equality"],
)
def test_functions_have_the_time_limit_of_an_item_and_others_are_served(
    endpoint: str, raw: RawClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(budget, "ITEM_SECONDS", 0.2)
    item = {"id": "2", "pk": "p", "a": list(range(SIZE)), "b": [-1, *range(1, SIZE)]}
    assert raw.post(DOCS, item | {"s": "s" * 10_000}, pk='["p"]').status == 201
    reply = repeat_if_slow(lambda _: query_while_others_read(endpoint, text))
    assert reply.status == 400
    assert "take too long" in reply.json["message"]


def test_what_a_filter_makes_of_parameters_has_a_time_limit(
    raw: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is worked out once for all items, and before one is looked at."""
    monkeypatch.setattr(bound_values, "_BINDING_SECONDS", 0.05)
    text = f"SELECT * FROM c WHERE @a IN ({', '.join(['@b'] * 2000)})"
    given = {"@a": list(range(SIZE)), "@b": list(range(1, SIZE))}
    reply = raw.query(DOCS, text, [{"name": name, "value": given[name]} for name in given])
    assert reply.status == 400, reply
    assert "take too long" in reply.json["message"]


@pytest.mark.parametrize("row_independent", ["@a = @a AND c.pk = 'p'", "NOW() > '2' AND @a = @a"])
def test_others_are_served_while_a_filter_works_with_long_parameters(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, row_independent: str
) -> None:
    """The parameters are compared only when another request has been served meanwhile."""
    served = threading.Event()
    begun = threading.Event()

    def patiently(*arguments: Any) -> dict[Any, Any]:
        begun.set()
        assert served.wait(60)
        return evaluate_row_independent(*arguments)

    monkeypatch.setattr("perseid.query.planner.bound_values.evaluate_row_independent", patiently)
    with closing(RawClient(endpoint)) as busy, closing(RawClient(endpoint)) as other:
        replies: list[Any] = []
        text = f"SELECT VALUE c.id FROM c WHERE {row_independent}"
        given = [{"name": "@a", "value": list(range(SIZE))}]
        asking = threading.Thread(target=lambda: replies.append(busy.query(DOCS, text, given)))
        asking.start()
        assert begun.wait(60)
        assert other.get(f"{DOCS}/1", pk='["p"]').status == 200
        served.set()
        asking.join()
    assert replies[0].json["Documents"] == ["1"]


def test_a_page_ends_in_time_whatever_functions_do(place: Place) -> None:
    """Each look at the time finds it over: every page has one item."""
    with serving(place.fresh(query_page_seconds=0)) as raw:
        raw.post("/dbs", {"id": "q"})
        raw.post("/dbs/q/colls", {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
        for number in range(6):
            raw.post(DOCS, {"id": str(number), "pk": "p"}, pk='["p"]')
        text = "SELECT VALUE c.id FROM c WHERE RegexMatch(c.id, '[1-4]') OFFSET 1 LIMIT 9"
        found, pages = rows_and_pages(raw, text)
    assert found == ["2", "3", "4"]
    assert pages == 6


def test_nothing_takes_long_before_a_query_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody waits for a query to be compiled, however much its constants would be."""
    monkeypatch.setattr(regex, "MAX_PATTERN", None)  # no query gets as far as to compare with it
    compile_query("SELECT RegexMatch(REPLICATE('a', 10000), '(a|b|ab)*c') AS found")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE c.id FROM c WHERE LENGTH(c.s) > 1",
        "SELECT VALUE c.id FROM c ORDER BY c.id, c.s",
        "SELECT VALUE MAKELIST(c) FROM c",
        "SELECT VALUE COUNT(1) FROM (SELECT VALUE MAKELIST(c) FROM c)",
    ],
)
def test_a_query_that_is_done_keeps_nothing(raw: RawClient, text: str) -> None:
    """Its items would fill the memory until the garbage collector looks for cycles."""

    def is_left() -> bool:
        return any(isinstance(each, builder.PageBuilder) for each in gc.get_objects())

    gc.freeze()  # leaves out every object that existed before
    gc.disable()
    try:
        assert raw.query(DOCS, text).status == 200
        until(lambda: not is_left())  # its thread may not have got that far
    finally:
        gc.enable()


def test_queries_over_metadata_have_a_time_limit(
    raw: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_METADATA_SECONDS", 0.1)
    text = "SELECT VALUE 1 FROM d JOIN a IN (SELECT VALUE @a) JOIN b IN (SELECT VALUE @a)" + (
        " JOIN e IN (SELECT VALUE @a)"
    )
    reply = raw.query("/dbs", text, [{"name": "@a", "value": list(range(SIZE))}])
    assert reply.status == 400
    assert "take too long" in reply.json["message"]


def test_conditions_of_patches_have_a_time_limit(
    raw: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patch_evaluator, "CONDITION_SECONDS", 0.1)
    body = {
        "operations": [{"op": "set", "path": "/n", "value": 1}],
        "condition": f"FROM c WHERE EXISTS(SELECT 1 {ELEMENTS} WHERE x + y + z < 0)",
    }
    reply = raw.patch(f"{DOCS}/1", body, pk='["p"]')
    assert reply.status == 400
    assert "n" not in raw.get(f"{DOCS}/1", pk='["p"]').json


@pytest.mark.parametrize(
    "text",
    [
        "SELECT VALUE MAKELIST(c.s) FROM c JOIN x IN c.a JOIN y IN (SELECT VALUE [1, 2])",
        "SELECT VALUE ARRAY(SELECT VALUE c.s FROM x IN c.a JOIN y IN (SELECT VALUE [1, 2])) FROM c",
        f"SELECT VALUE [{', '.join(['c.s'] * 2000)}] FROM c",
        f"SELECT DISTINCT VALUE [{', '.join(['c.s'] * 2000)}] FROM c",
        "SELECT VALUE x40 FROM c JOIN (SELECT VALUE [c.s]) AS x0"
        + "".join(f" JOIN (SELECT VALUE [x{n}, x{n}]) AS x{n + 1}" for n in range(40)),
    ],
)
def test_a_row_is_no_longer_than_a_response(raw: RawClient, text: str) -> None:
    reply = raw.query(DOCS, text)
    assert reply.status == 400, reply
    assert "longer than 16 MB" in reply.json["message"]


def test_a_pattern_of_like_has_a_limit(raw: RawClient) -> None:
    """Beyond it the answer is undefined, as with regular expressions."""
    text = "SELECT VALUE s LIKE @p FROM (SELECT VALUE REPLACE(@s, 'a', @s)) AS s"
    for text_length, blanks, expected in ((1000, 200, [True]), (3000, 200_000, [])):
        parameters = [
            {"name": "@s", "value": "a" * text_length},
            {"name": "@p", "value": f"%{'_' * blanks}a%"},
        ]
        reply = raw.query(DOCS, text, parameters)
        assert reply.json["Documents"] == expected


def test_a_filter_may_have_more_values_than_a_database_takes(raw: RawClient) -> None:
    """No statement binds 70,000 values; what the store does not check, the evaluator does."""
    some = f"c.id IN ({'2,' * 400}'1')"
    found = raw.query(DOCS, f"SELECT VALUE c.id FROM c WHERE {' AND '.join([some] * 175)}")
    assert (found.status, found.json["Documents"]) == (200, ["1"])
    none = f"c.id NOT IN ({'2,' * 400}'1')"
    found = raw.query(DOCS, f"SELECT VALUE c.id FROM c WHERE {' OR '.join([none] * 175)}")
    assert (found.status, found.json["Documents"]) == (200, [])


def test_parameters_have_a_limit_of_values(raw: RawClient) -> None:
    """Decoding them cannot be interrupted, and others would wait."""
    ids = [{"a": number} for number in range(100_000)]
    text = "SELECT VALUE ARRAY_LENGTH(@ids) FROM c"
    reply = raw.query(DOCS, text, parameters=[{"name": "@ids", "value": ids}])
    assert reply.status == 413
    assert "at most about 200,000 values" in reply.json["message"]
    few = [{"name": "@ids", "value": ids[:50_000]}]
    assert raw.query(DOCS, text, parameters=few).status == 200


def test_a_row_has_no_more_levels_than_can_be_written(raw: RawClient) -> None:
    joins = "".join(f" JOIN (SELECT VALUE [x{n}]) AS x{n + 1}" for n in range(300))
    for levels, status in ((240, 200), (300, 400)):
        text = f"SELECT VALUE x{levels} FROM c JOIN c.id AS x0{joins}"
        reply = raw.query(DOCS, text)
        assert reply.status == status, reply


@pytest.mark.parametrize("function", ["StringToArray", "StringToObject"])
def test_text_with_more_levels_than_an_item_is_undefined(raw: RawClient, function: str) -> None:
    for levels, count in ((100, 1), (128, 1), (129, 0), (300, 0), (1000, 0), (100_000, 0)):
        text = "[" * levels + "]" * levels
        if function == "StringToObject":
            text = '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)
        parameters = [{"name": "@p", "value": text}]
        for select in (f"VALUE {function}(@p)", f"DISTINCT VALUE {function}(@p)"):
            reply = raw.query(DOCS, f"SELECT {select} FROM c", parameters)
            assert reply.status == 200, reply
            assert reply.json["_count"] == count, levels


@pytest.mark.parametrize("double", ["{0} || {0}", "CONCAT({0}, {0})", "ARRAY_CONCAT({0}, {0})"])
def test_values_do_not_grow_out_of_memory(raw: RawClient, double: str) -> None:
    """One that doubles with every JOIN is undefined at last, and there is no row."""
    joins = [f"JOIN (SELECT VALUE {double.format(f'x{n}')}) AS x{n + 1}" for n in range(45)]
    first = "c.a" if "ARRAY" in double else "c.s"
    text = f"SELECT VALUE 1 FROM c JOIN (SELECT VALUE {first}) AS x0 {' '.join(joins)}"
    assert raw.query(DOCS, text).json["Documents"] == []
