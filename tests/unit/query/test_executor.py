"""Running queries: sixty common ones, the rules of the language, and no unexpected errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.errors import BadRequest, QueryError, QueryProblem
from perseid.query import CallContext, compile_query, prepare, rows_of, run
from perseid.query.lexer import tokenize

NOW = 1_893_553_445.0  # 2030-01-02T03:04:05Z
CONTEXT = CallContext(NOW, lambda: 0.5)


def rows(text: str, documents: Any = (), /, *, computed: Any = (), **parameters: Any) -> list[Any]:
    named = {f"@{name}": value for name, value in parameters.items()}
    return list(run(compile_query(text, computed), documents, named, CONTEXT))


def value(expression: str, document: Any = None, /, **parameters: Any) -> Any:
    """The value of an expression over one item, or "undef" if it is undefined."""
    results = rows(f"SELECT VALUE {expression} FROM c", [document or {}], **parameters)
    assert len(results) <= 1
    return results[0] if results else "undef"


# --- the sixty queries

A: dict[str, Any] = {
    "id": "A", "pk": "p1", "type": "order", "status": "new", "name": "a phone", "price": 10,
    "qty": 2, "active": True, "tags": ["red", "blue"], "file": "a.pdf", "email": "Ann@X.org",
    "lines": [{"sku": "s1", "n": 1, "ok": True}, {"sku": "s2", "n": 4, "ok": False}],
    "addr": {"city": "Oslo", "zip": 1}, "created": "2029-12-31T00:00:00Z", "meta": None,
    "first": "Ann", "last": "Ek", "nick": "an", "code": "ABC-1", "_ts": 30,
}  # fmt: skip
B: dict[str, Any] = {
    "id": "B", "pk": "p2", "type": "order", "status": "paid", "name": "abacus", "price": 15.5,
    "qty": 0, "active": False, "tags": ["red"], "lines": [], "addr": {"city": "Bergen"},
    "created": "2029-11-01T00:00:00Z", "meta": 1, "deletedAt": 1, "ttl": -1, "file": "b.txt",
    "order": {"state": "open"}, "code": "xABC-1", "_ts": 10,
}  # fmt: skip
C: dict[str, Any] = {
    "id": "C",
    "pk": "p1",
    "type": "a",
    "price": "x",
    "name": None,
    "tags": "red",
    "_ts": 20,
}
D: dict[str, Any] = {
    "id": "D",
    "type": "b",
    "active": False,
    "price": 20,
    "lines": {"sku": "s1"},
    "ttl": 5,
}
ITEMS = [A, B, C, D]


def ids(*names: str) -> list[Any]:
    by_id = {item["id"]: item for item in ITEMS}
    return [by_id[name] for name in names]


SIXTY: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("SELECT * FROM c", {}, ITEMS),
    ("SELECT * FROM c WHERE c.id = @id", {"id": "B"}, ids("B")),
    ('SELECT * FROM c WHERE c.pk = @pk AND c.type = "order"', {"pk": "p1"}, ids("A")),
    ("SELECT c.id, c.name FROM c WHERE c.active = true", {}, [{"id": "A", "name": "a phone"}]),
    ("SELECT VALUE COUNT(1) FROM c", {}, [4]),
    ("SELECT * FROM c ORDER BY c._ts DESC", {}, ids("A", "C", "B", "D")),
    ("SELECT TOP 10 * FROM c WHERE c.type = @t ORDER BY c.created DESC", {"t": "order"},
     ids("A", "B")),
    ("SELECT * FROM c WHERE c.pk = @pk ORDER BY c.name OFFSET 1 LIMIT 10", {"pk": "p1"}, ids("A")),
    ("SELECT * FROM c WHERE c.price > 10 AND c.price <= 20", {}, ids("B", "D")),
    ('SELECT * FROM c WHERE c.status IN ("new", "paid", "sent")', {}, ids("A", "B")),
    ("SELECT * FROM c WHERE ARRAY_CONTAINS(@ids, c.id)", {"ids": ["A", "D"]}, ids("A", "D")),
    ('SELECT * FROM c WHERE ARRAY_CONTAINS(c.tags, "red")', {}, ids("A", "B")),
    ("SELECT * FROM c WHERE CONTAINS(c.name, @text, true)", {"text": "PHO"}, ids("A")),
    ('SELECT * FROM c WHERE STARTSWITH(c.name, "ab")', {}, ids("B")),
    ("SELECT * FROM c WHERE c.created >= @from AND c.created < @to",
     {"from": "2029-11-01", "to": "2029-12"}, ids("B")),
    ("SELECT * FROM c WHERE IS_DEFINED(c.deletedAt) = false", {}, ids("A", "C", "D")),
    ("SELECT * FROM c WHERE NOT IS_DEFINED(c.ttl) OR c.ttl = -1", {}, ids("A", "B", "C")),
    ("SELECT * FROM c WHERE c.meta != null", {}, ids("B")),
    ("SELECT * FROM c WHERE IS_NULL(c.meta)", {}, ids("A")),
    ('SELECT VALUE c.name FROM c WHERE c.addr.city = "Oslo"', {}, ["a phone"]),
    ("SELECT DISTINCT VALUE c.addr.city FROM c", {}, ["Oslo", "Bergen"]),
    ("SELECT c.type, COUNT(1) AS n FROM c GROUP BY c.type", {},
     [{"type": "order", "n": 2}, {"type": "a", "n": 1}, {"type": "b", "n": 1}]),
    ("SELECT c.pk, SUM(c.price) AS total, AVG(c.price) AS mean FROM c GROUP BY c.pk", {},
     [{"pk": "p1"}, {"pk": "p2", "total": 15.5, "mean": 15.5}, {"total": 20, "mean": 20}]),
    ("SELECT VALUE SUM(c.qty) FROM c WHERE c.pk = @pk", {"pk": "p1"}, [2]),
    ("SELECT VALUE MAX(c._ts) FROM c", {}, [30]),
    ("SELECT c.id, l.sku FROM c JOIN l IN c.lines WHERE l.n > 1", {}, [{"id": "A", "sku": "s2"}]),
    ("SELECT VALUE l FROM c JOIN l IN c.lines WHERE c.id = @id", {"id": "A"}, A["lines"]),
    ("SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags", {}, ["red", "blue"]),
    ("SELECT * FROM c WHERE EXISTS(SELECT VALUE l FROM l IN c.lines WHERE l.sku = @sku AND l.ok)",
     {"sku": "s1"}, ids("A")),
    ("SELECT c.id, ARRAY(SELECT VALUE l.sku FROM l IN c.lines WHERE l.ok) AS skus FROM c", {},
     [{"id": "A", "skus": ["s1"]}, *({"id": name, "skus": []} for name in "BCD")]),
    ("SELECT c.id, (SELECT VALUE COUNT(1) FROM l IN c.lines) AS lineCount FROM c", {},
     [{"id": "A", "lineCount": 2}, *({"id": name, "lineCount": 0} for name in "BCD")]),
    ("SELECT * FROM c WHERE ARRAY_LENGTH(c.lines) > 0", {}, ids("A")),
    ('SELECT * FROM c WHERE ARRAY_CONTAINS(c.lines, {"sku": @sku}, true)', {"sku": "s2"},
     ids("A")),
    ('SELECT * FROM c WHERE c.name LIKE "%phone%"', {}, ids("A")),
    ("SELECT * FROM c WHERE c.price BETWEEN @lo AND @hi", {"lo": 10, "hi": 15.5}, ids("A", "B")),
    ("SELECT * FROM c WHERE LOWER(c.email) = LOWER(@mail)", {"mail": "ANN@x.org"}, ids("A")),
    ('SELECT VALUE {"id": c.id, "total": c.price * c.qty} FROM c', {},
     [{"id": "A", "total": 20}, {"id": "B", "total": 0}, {"id": "C"}, {"id": "D"}]),
    ("SELECT c.id, c.price * 1.25 AS gross FROM c", {},
     [{"id": "A", "gross": 12.5}, {"id": "B", "gross": 19.375}, {"id": "C"},
      {"id": "D", "gross": 25}]),
    ("SELECT c.id, c.nick ?? c.name AS label FROM c", {},
     [{"id": "A", "label": "an"}, {"id": "B", "label": "abacus"}, {"id": "C", "label": None},
      {"id": "D"}]),
    ('SELECT c.id, c.qty > 0 ? "in" : "out" AS stock FROM c', {},
     [{"id": "A", "stock": "in"}, *({"id": name, "stock": "out"} for name in "BCD")]),
    ('SELECT c.id, CONCAT(c.first, " ", c.last) AS full FROM c', {},
     [{"id": "A", "full": "Ann Ek"}, {"id": "B"}, {"id": "C"}, {"id": "D"}]),
    ('SELECT * FROM c WHERE c["order"].state = "open"', {}, ids("B")),
    ("SELECT c.lines[0].sku AS firstSku FROM c", {}, [{"firstSku": "s1"}, {}, {}, {}]),
    ('SELECT * FROM c WHERE c.type = "a" OR (c.type = "b" AND NOT c.active)', {}, ids("C", "D")),
    ("SELECT * FROM c ORDER BY c.pk ASC, c.created DESC", {}, ids("D", "A", "C", "B")),
    ('SELECT * FROM c WHERE ENDSWITH(c.file, ".pdf") AND LENGTH(c.file) > 4', {}, ids("A")),
    (r'SELECT * FROM c WHERE RegexMatch(c.code, "^[A-Z]{3}-\\d+$")', {}, ids("A")),
    ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.pk FROM c)", {}, [3]),
    ('SELECT * FROM t IN c.tags WHERE STARTSWITH(t, "r")', {}, ["red", "red"]),
    ("SELECT c.id, DateTimeDiff(\"day\", c.created, GetCurrentDateTime()) AS age FROM c", {},
     [{"id": "A", "age": 2}, {"id": "B", "age": 62}, {"id": "C"}, {"id": "D"}]),
    ("SELECT SUBSTRING(c.created, 0, 7) AS month, COUNT(1) AS n FROM c "
     "GROUP BY SUBSTRING(c.created, 0, 7)", {},
     [{"month": "2029-12", "n": 1}, {"month": "2029-11", "n": 1}, {"n": 2}]),
    ("SELECT c.id, s FROM c JOIN (SELECT VALUE SUM(l.n) FROM l IN c.lines) AS s WHERE s > 3", {},
     [{"id": "A", "s": 5}]),
    ("SELECT kv.k AS prop, kv.v AS val FROM c "
     "JOIN kv IN (SELECT VALUE x FROM x IN ObjectToArray(c.addr))", {},
     [{"prop": "city", "val": "Oslo"}, {"prop": "zip", "val": 1},
      {"prop": "city", "val": "Bergen"}]),
    ("SELECT kv.k AS prop, kv.v AS val FROM c "
     "JOIN kv IN (SELECT VALUE ObjectToArray(c.addr))", {},
     [{"prop": "city", "val": "Oslo"}, {"prop": "zip", "val": 1},
      {"prop": "city", "val": "Bergen"}]),
    ("SELECT kv.k AS prop, kv.v AS val FROM c JOIN kv IN ObjectToArray(c.addr)", {},
     [{"prop": "city", "val": "Oslo"}, {"prop": "zip", "val": 1},
      {"prop": "city", "val": "Bergen"}]),
    ('SELECT VALUE root FROM root WHERE (root["type"] = "order") AND (root["price"] > 5) '
     'ORDER BY root["price"] ASC', {}, ids("A", "B")),
    ('SELECT VALUE c FROM root c WHERE ((c["type"] = "order") AND (c["qty"] = @__p_0))',
     {"__p_0": 0}, ids("B")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "parameters", "expected"), SIXTY)
def test_common_queries(text: str, parameters: dict[str, Any], expected: list[Any]) -> None:
    assert rows(text, ITEMS, **parameters) == expected


@pytest.mark.parametrize(("text", "parameters"), [(text, p) for text, p, _ in SIXTY])
def test_common_queries_over_no_items(text: str, parameters: dict[str, Any]) -> None:
    counts = text.startswith(("SELECT VALUE COUNT(", "SELECT VALUE SUM("))
    assert rows(text, [], **parameters) == ([0] if counts else [])


@pytest.mark.parametrize(("text", "parameters", "expected"), SIXTY)
def test_a_streaming_query_can_run_document_by_document(
    text: str, parameters: dict[str, Any], expected: list[Any]
) -> None:
    compiled = compile_query(text)
    named = {f"@{name}": value for name, value in parameters.items()}
    if not compiled.streaming:
        with pytest.raises(ValueError, match="single documents"):
            rows_of(compiled, A, named, CONTEXT)
        return
    one_by_one = [row for item in ITEMS for row in rows_of(compiled, item, named, CONTEXT)]
    assert one_by_one == expected
    again = prepare(compiled, named, CONTEXT)
    assert [row for item in ITEMS for row in again.rows((item,))] == expected


# --- values and operators


@pytest.mark.parametrize(("expression", "expected"), [
    # comparison
    ("undefined = undefined", "undef"), ("c.x = 1", "undef"), ("null = null", True),
    ("null <= null", True), ("null < null", False), ("1 = '1'", False), ("1 != '1'", True),
    ("true = 1", False), ("1 = 1.0", True), ("false < true", True), ("1 < '2'", "undef"),
    ("[1] < [2]", "undef"), ("'B' < 'a'", True), ("NaN = NaN", "undef"), ("NaN != 1", "undef"),
    ("[1, [2]] = [1, [2.0]]", True), ("[1, 2] = [1, '2']", False), ("[1] = [1, 2]", False),
    ("{a: 1, b: 2} = {b: 2, a: 1}", True), ("{a: 1} = {a: true}", False), ("2 >= 2", True),
    ("2 > 2.5", False), ("1 <> 2", True),
    # IN, BETWEEN
    ("1 IN (2, 1.0)", True), ("1 IN ('1', true)", False), ("c.x IN (1)", "undef"),
    ("1 IN (2, undefined)", "undef"), ("1 IN (1, undefined)", True), ("3 NOT IN (1, 2)", True),
    ("c.x NOT IN (1)", "undef"), ("'a' IN ('b', 'a')", True), ("'a' IN ('b', undefined)", "undef"),
    ("[1] IN ([2], [1])", True), ("null IN (null)", True), ("NaN IN (1)", "undef"),
    ("1 IN (NaN)", "undef"), ("NaN IN ('a')", "undef"), ("1 IN (NaN, 1)", True),
    ("2 BETWEEN 1 AND 3", True), ("'b' BETWEEN 'a' AND 'c'", True), ("0 BETWEEN 1 AND 3", False),
    ("true BETWEEN false AND true", True), ("c.x BETWEEN 1 AND 2", "undef"),
    ("2 BETWEEN 'a' AND 3", "undef"), ("9 BETWEEN 'a' AND 3", False),
    ("c.x NOT BETWEEN 1 AND 2", "undef"), ("2 NOT BETWEEN 1 AND 3", False),
    # logic
    ("true AND undefined", "undef"), ("false AND undefined", False), ("undefined AND false", False),
    ("1 AND true", "undef"), ("null AND false", False), ("true AND true AND true", True),
    ("true OR undefined", True), ("undefined OR true", True), ("false OR undefined", "undef"),
    ("0 OR false", "undef"), ("false OR false", False), ("NOT undefined", "undef"),
    ("NOT 1", "undef"), ("NOT false", True),
    ("1 ? 'a' : 'b'", "b"), ("true ? 'a' : 'b'", "a"), ("undefined ? 'a' : 'b'", "b"),
    ("null ?? 1", None), ("undefined ?? 1", 1), ("c.x ?? c.y ?? 2", 2), ("c.x ?? c.y", "undef"),
    # arithmetic
    ("7 / 2", 3.5), ("6 / 2", 3), ("1 / 0", "Infinity"), ("-1 / 0", "-Infinity"),
    ("0 / 0", "NaN"), ("-7 % 3", -1), ("7.5 % 2", 1.5), ("1 % 0", "NaN"), ("Infinity % 2", "NaN"),
    ("'a' + 'b'", "undef"), ("true + 1", "undef"), ("null * 2", "undef"), ("1 - c.x", "undef"),
    ("2 + 3 * 4", 14), ("1.5 + 1.5", 3), ("0.1 + 0.2", 0.1 + 0.2), ("-c.x", "undef"),
    ("9007199254740992 + 1", 9007199254740992), ("1e308 * 10", "Infinity"), ("+'a'", "undef"),
    ("- -3", 3), ("-true", "undef"), ("Infinity - Infinity", "NaN"),
    # bits
    ("6 & 3", 2), ("6 | 3", 7), ("6 ^ 3", 5), ("~5", -6), ("-8 >> 1", -4), ("-8 >>> 28", 15),
    ("1 << 31", -2147483648), ("1 << 33", 2), ("4294967297 & 3", 1), ("5.9 | 0", 5),
    ("-5.9 | 0", -5), ("NaN | 1", 1), ("Infinity & 1", 0), ("'a' & 1", "undef"), ("~true", "undef"),
    # strings
    ("'a' || 'b' || 'c'", "abc"), ("'a' || 1", "undef"), ("c.x || 'a'", "undef"),
    # constructors
    ("[1, undefined, c.x, 2]", [1, 2]), ("{a: undefined, b: [null]}", {"b": [None]}),
    ("{a: 1, a: 2}", {"a": 2}), ("{a: {b: 1}}.a.b", 1), ("[1, 2][1]", 2),
    ("[3e2, 1.0, 19.90]", [300, 1, 19.9]),
])  # fmt: skip
def test_expressions(expression: str, expected: Any) -> None:
    result = value(expression)
    assert (result, type(result)) == (expected, type(expected))
    # The same without constant folding: the constants of the text come from the item.
    hidden = re.sub(r"\b(true|false|null)\b", r"c.\1", expression)
    stored = {"true": True, "false": False, "null": None}
    assert value(hidden, stored) == expected


ITEM = {"a": {"b": {"c": 1}}, "l": [10, [20]], "s": "text", "n": None, "k": "s", "one": 1, "": 5}


@pytest.mark.parametrize(("path", "expected"), [
    ("c.a.b.c", 1), ("c.a.b", {"c": 1}), ("c.a.x.c", "undef"), ("c.s.x", "undef"),
    ("c.n", None), ("c.n.x", "undef"), ("c.l[0]", 10), ("c.l[1][0]", 20), ("c.l[2]", "undef"),
    ("c.l[-1]", "undef"), ("c.l[0.5]", "undef"), ("c.l[1.0 - 1]", 10), ("c.l['0']", "undef"),
    ("c[c.k]", "text"), ("c['s']", "text"), ("c['']", 5), ("c.a[0]", "undef"),
    ("c.l[c.one][0]", 20), ("c.s[0]", "undef"), ("c[@p]", "text"), ("c.l[@i]", 10),
    ("c[@missing]", "undef"), ("@o.x[0]", 7), ("@missing", "undef"),
])  # fmt: skip
def test_paths(path: str, expected: Any) -> None:
    assert value(path, ITEM, p="s", i=0, o={"x": [7]}) == expected


@pytest.mark.parametrize(("text", "pattern", "escape", "expected"), [
    ("abc", "abc", "", True), ("abc", "b", "", False), ("abc", "%b%", "", True),
    ("abc", "a%", "", True), ("abc", "%c", "", True), ("abc", "a_c", "", True),
    ("abc", "_", "", False), ("", "", "", True), ("", "%", "", True), ("", "_", "", False),
    ("abc", "%%%", "", True), ("ABC", "abc", "", False), ("a\nb", "a_b", "", True),
    ("a\nb", "%b", "", True), ("ab\n", "ab", "", False), ("ab\n", "%b", "", False),
    ("20%", "20[%]", "", True), ("201", "20[%]", "", False), ("a_c", "a[_]c", "", True),
    ("[", "[[]", "", True), ("a]", "a]", "", True), ("b", "[a-c]", "", True),
    ("d", "[a-c]", "", False), ("d", "[^a-c]", "", True), ("b", "[^a-c]", "", False),
    ("-", "[a-]", "", True), ("b", "[a-]", "", False), ("b", "[c-a]", "", False),
    ("b", "[^c-a]", "", True), ("^", "[^]", "", True), ("[]", "[]", "", True),
    ("[a", "[a", "", True), ("a_c", "a!_c", "!", True), ("abc", "a!_c", "!", False),
    ("50%", "50!%", "!", True), ("!", "!!", "!", True), ("a!", "a!", "!", True),
    ("a.c", "a.c", "", True), ("axc", "a.c", "", False), ("aXbXb", "a%b", "", True),
    ("abab", "a%ab", "", True), ("ab", "ab%ab", "", False), ("mississippi", "%is%ip%", "", True),
    ("aaaa", "a%a%a", "", True), ("aa", "a%a%a", "", False),
    ("a" * 5000, "%a" * 40 + "b", "", False),
])  # fmt: skip
def test_like(text: str, pattern: str, escape: str, expected: bool) -> None:
    clause = f" ESCAPE '{escape}'" if escape else ""
    assert value(f"c.s LIKE @p{clause}", {"s": text}, p=pattern) is expected
    assert value(f"c.s NOT LIKE @p{clause}", {"s": text}, p=pattern) is not expected


@pytest.mark.parametrize("expression", ["c.x LIKE 'a'", "'a' LIKE c.x", "1 LIKE '1'", "'1' LIKE 1"])
def test_like_is_undefined_for_other_types(expression: str) -> None:
    assert value(expression) == "undef"
    assert value(expression.replace("LIKE", "NOT LIKE")) == "undef"


# --- clauses

MIXED = [
    {"i": 0, "x": "b"}, {"i": 1, "x": 2}, {"i": 2}, {"i": 3, "x": None}, {"i": 4, "x": True},
    {"i": 5, "x": [1]}, {"i": 6, "x": {"a": 1}}, {"i": 7, "x": False}, {"i": 8, "x": "B"},
    {"i": 9, "x": 2.0}, {"i": 10, "x": 1}, {"i": 11},
]  # fmt: skip
ASCENDING = [2, 11, 3, 7, 4, 10, 1, 9, 8, 0, 5, 6]


@pytest.mark.parametrize(("order", "expected"), [
    ("c.x", ASCENDING),
    ("c.x ASC", ASCENDING),
    ("c.x DESC", ASCENDING[::-1]),
    ("c.x, c.i DESC", [11, 2, 3, 7, 4, 10, 9, 1, 8, 0, 5, 6]),
    ("c.x DESC, c.i", [6, 5, 0, 8, 1, 9, 10, 4, 7, 3, 2, 11]),
    ("IS_DEFINED(c.x), c.i", [2, 11, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10]),
    ("1", list(range(12))),
    ("1 DESC", list(range(12))[::-1]),
    ("-c.i", list(range(12))[::-1]),
])  # fmt: skip
def test_order(order: str, expected: list[int]) -> None:
    assert rows(f"SELECT VALUE c.i FROM c ORDER BY {order}", MIXED) == expected
    assert rows(f"SELECT TOP 4 c.i FROM c ORDER BY {order}", MIXED) == [
        {"i": i} for i in expected[:4]
    ]
    limited = f"SELECT c.i FROM c ORDER BY {order} OFFSET 3 LIMIT 5"
    assert rows(limited, MIXED) == [{"i": i} for i in expected[3:8]]


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_a_long_sort_with_a_limit_is_the_start_of_the_full_sort(direction: str) -> None:
    items = [{"i": i, "k": i * 7919 % 101} for i in range(10_000)]
    whole = rows(f"SELECT c.i FROM c ORDER BY c.k {direction}", items)
    assert rows(f"SELECT TOP 250 c.i FROM c ORDER BY c.k {direction}", items) == whole[:250]
    paged = rows(f"SELECT c.i FROM c ORDER BY c.k {direction} OFFSET 100 LIMIT 9", items)
    assert paged == whole[100:109]


def test_rows_without_value_do_not_count_for_limits() -> None:
    items = [{"i": 0}, {"i": 1, "x": 5}, {"i": 2}, {"i": 3, "x": 6}]
    assert rows("SELECT TOP 1 VALUE c.x FROM c ORDER BY c.i", items) == [5]
    assert rows("SELECT VALUE c.x FROM c OFFSET 1 LIMIT 1", items) == [6]


@pytest.mark.parametrize(("offset_limit", "expected"), [
    ("TOP 2 VALUE c.i FROM c", [0, 1]),
    ("TOP 0 VALUE c.i FROM c", []),
    ("VALUE c.i FROM c OFFSET 10 LIMIT 5", [10, 11]),
    ("VALUE c.i FROM c OFFSET 0 LIMIT 0", []),
    ("VALUE c.i FROM c OFFSET 50 LIMIT 1", []),
    ("TOP 2 VALUE c.i FROM c OFFSET 3 LIMIT 5", [3, 4]),
    ("TOP 9 VALUE c.i FROM c OFFSET 3 LIMIT 2", [3, 4]),
    ("TOP @two VALUE c.i FROM c OFFSET @three LIMIT @big", [3, 4]),
    ("DISTINCT TOP 2 VALUE c.x FROM c", ["b", 2]),
])  # fmt: skip
def test_offset_limit_and_top(offset_limit: str, expected: list[Any]) -> None:
    assert rows(f"SELECT {offset_limit}", MIXED, two=2.0, three=3, big=2**32 - 1) == expected


@pytest.mark.parametrize(("clause", "code"), [("TOP", "SC2060"), ("LIMIT", "SC2061")])
@pytest.mark.parametrize("count", [-1, 1.5, "1", None, True, [1], 2**32])
def test_counts_from_parameters_are_checked(clause: str, code: str, count: Any) -> None:
    text = {
        "TOP": "SELECT TOP @n * FROM c",
        "LIMIT": "SELECT * FROM c OFFSET 0 LIMIT @n",
    }[clause]
    with pytest.raises(QueryError) as caught:
        rows(text, MIXED, n=count)
    (problem,) = caught.value.problems
    assert problem.code == (code if count == 2**32 else "SC2060")
    assert text[problem.start : problem.end] == "@n"


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT DISTINCT c.x FROM c",
     [{"x": "b"}, {"x": 2}, {}, {"x": None}, {"x": True}, {"x": [1]}, {"x": {"a": 1}},
      {"x": False}, {"x": "B"}, {"x": 1}]),
    ("SELECT DISTINCT VALUE c.x FROM c",
     ["b", 2, None, True, [1], {"a": 1}, False, "B", 1]),
    ("SELECT DISTINCT VALUE {a: c.x = 2, b: 1} FROM c WHERE IS_NUMBER(c.x)",
     [{"a": True, "b": 1}, {"a": False, "b": 1}]),
    ("SELECT DISTINCT VALUE IS_DEFINED(c.x) FROM c ORDER BY c.i DESC", [False, True]),
    ("SELECT c.x, COUNT(1) AS n FROM c WHERE NOT IS_STRING(c.x) GROUP BY c.x",
     [{"x": 2, "n": 2}, {"n": 2}, {"x": None, "n": 1}, {"x": True, "n": 1}, {"x": [1], "n": 1},
      {"x": {"a": 1}, "n": 1}, {"x": False, "n": 1}, {"x": 1, "n": 1}]),
    ("SELECT VALUE c.x FROM c WHERE NOT IS_DEFINED(c.x) OR IS_NULL(c.x) GROUP BY c.x", [None]),
    ("SELECT COUNT(1) AS n, COUNT(c.x) AS d FROM c", [{"n": 12, "d": 10}]),
    ("SELECT VALUE SUM(c.i) / COUNT(1) FROM c", [5.5]),
    ("SELECT VALUE {n: COUNT(1), list: [MIN(c.i), MAX(c.i)]} FROM c", [{"n": 12, "list": [0, 11]}]),
    ("SELECT IS_NUMBER(c.x) AS k, MAX(c.i) AS m FROM c GROUP BY IS_NUMBER(c.x) ORDER BY MAX(c.i)",
     [{"k": True, "m": 10}, {"k": False, "m": 11}]),
    ("SELECT TOP 1 VALUE IS_NUMBER(c.x) FROM c GROUP BY IS_NUMBER(c.x) ORDER BY COUNT(1) DESC",
     [False]),
    ("SELECT c.a.b, COUNT(1) AS n FROM c GROUP BY c.a", [{"n": 12}]),
    ("SELECT COUNTIF(c.i > 8) AS n FROM c", [{"n": 3}]),
    ("SELECT VALUE COUNT(1) FROM c WHERE false", [0]),
    ("SELECT COUNT(1) FROM c WHERE false", [{"$1": 0}]),
    ("SELECT VALUE AVG(c.i) FROM c WHERE false", []),
    ("SELECT MAX(c.i) AS m, SUM(c.i) AS s FROM c WHERE false", [{"s": 0}]),
    ("SELECT c.x, COUNT(1) FROM c WHERE false GROUP BY c.x", []),
    ("SELECT VALUE COUNT(1) FROM c GROUP BY 1", [12]),
    ("SELECT VALUE s FROM (SELECT VALUE SUM(c.i) FROM c GROUP BY IS_NUMBER(c.x)) s", [46, 20]),
    ("SELECT VALUE MAX(g.n) FROM (SELECT IS_NUMBER(c.x) k, COUNT(1) n FROM c "
     "GROUP BY IS_NUMBER(c.x)) g", [9]),
])  # fmt: skip
def test_distinct_and_groups(text: str, expected: list[Any]) -> None:
    assert rows(text, MIXED) == expected


NESTED = [
    {"id": 1, "m": [1, 2], "n": ["a", "b", "c"], "o": {"p": [{"q": [7, 8]}, {"q": [9]}]}},
    {"id": 2, "m": [3], "n": [], "o": None},
    {"id": 3, "m": "text"},
]


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT 1", [{"$1": 1}]),
    ("SELECT VALUE 1", [1]),
    ("SELECT VALUE undefined", []),
    ("SELECT undefined", [{}]),
    ("SELECT VALUE 1 WHERE false", []),
    ("SELECT VALUE COUNT(1)", [1]),
    ("SELECT VALUE [m, n] FROM c JOIN m IN c.m JOIN n IN c.n",
     [[m, n] for m in (1, 2) for n in "abc"]),
    ("SELECT VALUE q FROM c JOIN p IN c.o.p JOIN q IN p.q", [7, 8, 9]),
    ("SELECT VALUE q FROM q IN c.o.p[0].q", [7, 8]),
    ("SELECT VALUE p FROM c.o.p", [[{"q": [7, 8]}, {"q": [9]}]]),
    ("SELECT * FROM c.o", [NESTED[0]["o"], None]),
    ("SELECT VALUE x.q FROM c.o.p[1] x", [[9]]),
    ("SELECT VALUE c FROM c IN c.m", [1, 2, 3]),
    ("SELECT VALUE z FROM c JOIN c.o AS z", [NESTED[0]["o"], None]),
    ("SELECT VALUE t FROM t IN c", []),
    ("SELECT VALUE t FROM c JOIN (SELECT VALUE m FROM m IN c.m WHERE m > 1) AS t", [2, 3]),
    ("SELECT c.id FROM c JOIN (SELECT VALUE m FROM m IN c.m)", [{"id": 1}, {"id": 1}, {"id": 2}]),
    ("SELECT VALUE x FROM c JOIN x IN (SELECT VALUE [c.id, 0])", [1, 0, 2, 0, 3, 0]),
    ("SELECT VALUE [c.id, m] FROM c JOIN m IN c.m WHERE m = (SELECT VALUE MAX(m) FROM m IN c.m)",
     [[1, 2], [2, 3]]),
    ("SELECT VALUE (SELECT m FROM m IN c.m WHERE m = 1) FROM c", [{"m": 1}]),
    ("SELECT VALUE (SELECT VALUE m FROM m IN c.m WHERE m > 1).x FROM c", []),
    ("SELECT VALUE EXISTS(SELECT VALUE undefined) FROM c WHERE c.id = 1", [False]),
    ("SELECT VALUE EXISTS(SELECT undefined) FROM c WHERE c.id = 1", [True]),
    ("SELECT VALUE ALL(SELECT VALUE m FROM m IN c.m WHERE m < 3) FROM c", [True, False, True]),
    ("SELECT VALUE ALL(SELECT VALUE m FROM m IN c.m) FROM c", [True, True, True]),
    ("SELECT VALUE FIRST(SELECT VALUE n FROM n IN c.n) FROM c", ["a"]),
    ("SELECT VALUE LAST(SELECT VALUE n FROM n IN c.n) FROM c", ["c"]),
    ("SELECT VALUE ARRAY(SELECT VALUE n FROM n IN c.n ORDER BY n DESC OFFSET 1 LIMIT 1) FROM c",
     [["b"], [], []]),
    ("SELECT VALUE ARRAY(SELECT TOP 2 VALUE n FROM n IN c.n) FROM c", [["a", "b"], [], []]),
    ("SELECT VALUE ARRAY(SELECT DISTINCT VALUE m % 2 FROM m IN c.m) FROM c", [[1, 0], [1], []]),
    ("SELECT VALUE ARRAY(SELECT m % 2 AS odd, COUNT(1) AS n FROM m IN c.m GROUP BY m % 2) FROM c",
     [[{"odd": 1, "n": 1}, {"odd": 0, "n": 1}], [{"odd": 1, "n": 1}], []]),
    ("SELECT VALUE ARRAY(SELECT VALUE c.id + m FROM m IN c.m) FROM c", [[2, 3], [5], []]),
    ("SELECT VALUE ARRAY(SELECT VALUE c.id FROM c) FROM c", [[1], [2], [3]]),
    ("SELECT c.id, ARRAY(SELECT VALUE [c.id, x] FROM x IN [1].y) AS z FROM c GROUP BY c.id", None),
    ("SELECT c.id, (SELECT VALUE c.id + 1) AS z FROM c GROUP BY c.id",
     [{"id": i, "z": i + 1} for i in (1, 2, 3)]),
    ("SELECT VALUE (SELECT VALUE COUNT(1) FROM n IN c.n) FROM c ORDER BY "
     "(SELECT VALUE COUNT(1) FROM n IN c.n) DESC", [3, 0, 0]),
    ("SELECT VALUE d.id FROM (SELECT * FROM c WHERE c.id > 1) d WHERE d.id < 3", [2]),
    ("SELECT VALUE t FROM (SELECT c.m FROM c) d JOIN t IN d.m", [1, 2, 3]),
    ("SELECT c.id FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.id DESC",
     [{"id": 3}, {"id": 2}, {"id": 1}]),
    ("SELECT VALUE [{'item': COUNT(1)}] FROM c", [[{"item": 3}]]),
    ("SELECT c._rid, [{'item': c.id}] AS orderByItems, c.id AS payload FROM c WHERE c.id = 1",
     [{"orderByItems": [{"item": 1}], "payload": 1}]),
])  # fmt: skip
def test_sources_and_subqueries(text: str, expected: list[Any] | None) -> None:
    if expected is None:
        with pytest.raises(QueryError):
            rows(text, NESTED)
    else:
        assert rows(text, NESTED) == expected


@pytest.mark.parametrize(("condition", "expected"), [
    ("c.x", [4]),
    ("1", []), ("'x'", []), ("null", []), ("undefined", []), ("true", list(range(12))),
    ("c.x != 2", [0, 3, 4, 5, 6, 7, 8, 10]),
    ("NOT (c.x = 2)", [0, 3, 4, 5, 6, 7, 8, 10]),
    ("c.x = 1 OR c.x = 'b' OR c.nope = 1", [0, 10]),
    ("c.x > 0 AND (c.x < 2 OR c.nope) AND c.i > 0", [10]),
    ("c.x = true AND c.i = 4", [4]),
    ("NOT (c.nope = 1 AND c.i = 3)", [0, 1, 2, *range(4, 12)]),
])  # fmt: skip
def test_only_true_conditions_select(condition: str, expected: list[int]) -> None:
    assert rows(f"SELECT VALUE c.i FROM c WHERE {condition}", MIXED) == expected


def test_a_scalar_subquery_has_one_row() -> None:
    with pytest.raises(BadRequest, match="The cardinality of a scalar subquery result set"):
        rows("SELECT (SELECT VALUE m FROM m IN c.m) FROM c", NESTED)


def test_results_stream() -> None:
    taken = []

    def documents() -> Any:
        for item in MIXED:
            taken.append(item)
            yield item

    compiled = compile_query("SELECT TOP 2 VALUE c.i FROM c WHERE c.i > 0")
    assert list(run(compiled, documents(), {}, CONTEXT)) == [1, 2]
    assert len(taken) == 3
    first = next(run(compile_query("SELECT DISTINCT VALUE c.x FROM c"), documents(), {}, CONTEXT))
    assert (first, len(taken)) == ("b", 4)


def test_parameters_change_without_compiling_again() -> None:
    text = "SELECT VALUE c.i FROM c WHERE UPPER(@s) = c.x OR c.x IN (@a, @b)"
    assert rows(text, MIXED, s="b") == [8]
    assert rows(text, MIXED, s="", a=2, b=None) == [1, 3, 9]
    assert rows(text, MIXED, a=[1], b={"a": 1.0}) == [5, 6]
    assert rows(text, MIXED, a="b", s=5) == [0]


def test_executions_share_no_state() -> None:
    compiled = compile_query("SELECT VALUE [@p, LOWER(@p), c.i] FROM c")
    one = run(compiled, MIXED[:2], {"@p": "A"}, CONTEXT)
    two = run(compiled, MIXED[:2], {"@p": "B"}, CONTEXT)
    mixed = [row for pair in zip(one, two, strict=True) for row in pair]
    assert mixed == [["A", "a", 0], ["B", "b", 0], ["A", "a", 1], ["B", "b", 1]]


def test_context_reaches_functions() -> None:
    assert value("[RAND(), GetCurrentTimestamp()]") == [0.5, NOW * 1000]


def test_output_is_valid_json() -> None:
    item = {"id": "1", "x": 1.0, "y": [2.0]}
    assert repr(rows("SELECT * FROM c", [item])[0]) == repr(item)
    assert repr(rows("SELECT VALUE c FROM c", [item])[0]) == repr(item)
    assert repr(rows("SELECT c.x, c.y FROM c", [item])[0]) == "{'x': 1, 'y': [2]}"
    made = "SELECT VALUE kv FROM c JOIN kv IN ObjectToArray(c)"
    assert repr(rows(made, [{"x": 1.0}])[0]) == "{'k': 'x', 'v': 1}"


# --- computed properties

COMPUTED = (
    ("low", "SELECT VALUE LOWER(c.name) FROM c"),
    ("hidden", "SELECT VALUE r.name FROM root r"),
    ("parts", "SELECT VALUE STRINGSPLIT(c.name, '-') FROM c"),
)
NAMED = [{"id": 1, "name": "B-b", "hidden": 0}, {"id": 2, "name": "A-a"}, {"id": 3}]


@pytest.mark.parametrize(("text", "expected"), [
    ("SELECT c.id, c.low FROM c", [{"id": 1, "low": "b-b"}, {"id": 2, "low": "a-a"}, {"id": 3}]),
    ("SELECT VALUE c['low'] FROM c WHERE c.low = 'a-a'", ["a-a"]),
    ("SELECT VALUE c.id FROM c ORDER BY c.low", [3, 2, 1]),
    ("SELECT VALUE c.hidden FROM c", ["B-b", "A-a"]),
    ("SELECT * FROM c", NAMED),
    ("SELECT VALUE c FROM c", NAMED),
    ("SELECT VALUE p FROM c JOIN p IN c.parts", ["B", "b", "A", "a"]),
    ("SELECT VALUE p FROM p IN c.parts", ["B", "b", "A", "a"]),
    ("SELECT VALUE c.parts[0] FROM c", ["B", "A"]),
    ("SELECT c.low, COUNT(1) AS n FROM c GROUP BY c.low",
     [{"low": "b-b", "n": 1}, {"low": "a-a", "n": 1}, {"n": 1}]),
    ("SELECT VALUE MAX(c.low) FROM c", ["b-b"]),
    ("SELECT VALUE (SELECT VALUE x.low FROM c x) FROM c", ["b-b", "a-a"]),
    ("SELECT VALUE d.low FROM (SELECT VALUE c FROM c) d", []),
    ("SELECT VALUE {a: c}.a.low FROM c", []),
])  # fmt: skip
def test_computed_properties(text: str, expected: list[Any]) -> None:
    assert rows(text, NAMED, computed=COMPUTED) == expected


def test_a_computed_property_is_not_part_of_the_item() -> None:
    with pytest.raises(QueryError) as caught:
        rows("SELECT c.low FROM c GROUP BY c.name", NAMED, computed=COMPUTED)
    assert "'c.low'" in caught.value.message


# --- robustness


def below(frames: int, act: Callable[[], Any]) -> Any:
    return act() if frames == 0 else below(frames - 1, act)


@pytest.mark.parametrize("text", [
    "SELECT VALUE " + "ABS(" * 79 + "c.x" + ")" * 79 + " FROM c",
    "SELECT VALUE " + "[" * 79 + "c.x" + "]" * 79 + " FROM c",
    "SELECT VALUE " + "{a:" * 79 + "c.x" + "}" * 79 + " FROM c",
    "SELECT VALUE " + "c[" * 79 + "c.x" + "]" * 79 + " FROM c",
    "SELECT VALUE " + "NOT " * 180 + "c.x FROM c",
    "SELECT VALUE c.x" + " + 1" * 180 + " FROM c",
    "SELECT VALUE " + "c.x AND (c.y OR (" * 90 + "c.x" + "))" * 90 + " FROM c",
    "SELECT VALUE " + "c.x ? 1 : " * 180 + "c.x FROM c",
    "SELECT VALUE c" + ".a" * 180 + " FROM c",
    "SELECT VALUE 1 FROM c WHERE "
    + "EXISTS(SELECT DISTINCT TOP 1 VALUE COUNT(1) FROM c JOIN m IN c.one WHERE " * 15
    + "true" + " GROUP BY c.id ORDER BY c.id)" * 15,
    "SELECT * FROM " + "(SELECT * FROM " * 15 + "c" + ")" * 15,
    "SELECT VALUE c.id FROM c" + "".join(f" JOIN x{i} IN c.one" for i in range(1000)),
    "SELECT VALUE " + "[" * 70 + "c.x" + "]" * 70
    + " FROM c GROUP BY " + "[" * 70 + "c.x" + "]" * 70,
    "SELECT VALUE " + "NOT " * 140 + "c.deep FROM c",
])  # fmt: skip
def test_the_deepest_queries_fit_the_stack(text: str) -> None:
    items = [{"id": 1, "m": [1, 2], "one": [1], "x": True}]
    deep = (("deep", "SELECT VALUE " + "NOT " * 35 + "c.x FROM c"),)
    assert below(300, lambda: rows(text, items, computed=deep)) is not None


def test_a_thousand_alternatives() -> None:
    text = " OR ".join(f"(c.id = @id{i} AND c.pk = @pk{i})" for i in range(1000))
    parameters = {f"{kind}{i}": i for i in range(1000) for kind in ("id", "pk")}
    items = [{"id": 5, "pk": 5}, {"id": 6, "pk": 5}, {"id": 999, "pk": 999}]
    ids_selected = rows(f"SELECT VALUE c.id FROM c WHERE ({text})", items, **parameters)
    assert ids_selected == [5, 999]


def test_a_list_of_sixteen_thousand() -> None:
    text = f"SELECT VALUE c.i FROM c WHERE c.i IN ({', '.join(map(str, range(5, 16005)))})"
    assert rows(text, MIXED) == [5, 6, 7, 8, 9, 10, 11]


WORDS = [
    "SELECT", "SELECT", "VALUE", "DISTINCT", "TOP", "FROM", "JOIN", "IN", "WHERE", "GROUP", "ORDER",
    "BY", "RANK", "ASC", "DESC", "OFFSET", "LIMIT", "AND", "OR", "NOT", "LIKE", "ESCAPE", "BETWEEN",
    "EXISTS", "ARRAY", "ALL", "FIRST", "LAST", "AS", "LEFT", "udf", "true", "null", "undefined",
    "c", "c", "c.x", "t", "d", "1", "0.5", "'a'", '"b"', "@p", "@q", "COUNT", "LOWER", "NaN", "*",
    "(", "(", ")", ")", "[", "]", "{", "}", ",", ".", ":", ";", "?", "??", "+", "-", "||", "=",
    "!=", "<", ">=", ">>>", "&", "~", "%", "$", "'", "--", "/*", "0x", "\n",
]  # fmt: skip


def only_fails_politely(text: str) -> None:
    problems: tuple[QueryProblem, ...] = ()
    try:
        orjson.dumps(rows(text, NESTED, p=1, q=[1, "a"]))
    except QueryError as refused:
        problems = refused.problems
    except BadRequest:
        pass
    assert all(0 <= one.start <= one.end <= len(text) for one in problems)


@settings(max_examples=400, deadline=None, database=None)
@given(st.lists(st.sampled_from(WORDS), max_size=30))
def test_random_words(words: list[str]) -> None:
    only_fails_politely(" ".join(words))
    only_fails_politely(f"SELECT {' '.join(words)} FROM c")
    only_fails_politely(f"SELECT VALUE c FROM c WHERE {' '.join(words)}")


@settings(max_examples=200, deadline=None, database=None)
@given(st.text(max_size=40))
def test_any_text(text: str) -> None:
    only_fails_politely(text)
    only_fails_politely(f"SELECT {text}")


@pytest.mark.parametrize("text", sorted({text for text, _, _ in SIXTY}))
def test_truncated_and_changed_queries(text: str) -> None:
    tokens = tokenize(text)[:-1]
    for at, token in enumerate(tokens):
        before, after = text[: token.start], text[token.end :]
        only_fails_politely(before + after)
        only_fails_politely(f"{before}{token.text} {token.text}{after}")
        only_fails_politely(before)
        swapped = tokens[(at * 7 + 3) % len(tokens)].text
        only_fails_politely(f"{before} {swapped} {after}")


def _terms() -> st.SearchStrategy[str]:
    leaves = st.sampled_from(
        ["c.a", "c.b", "c.a.b", "c.l[0]", "1", "2.5", "'x'", "true", "false", "null", "undefined",
         "[1, c.a]", "{k: c.b}", "@p"]
    )  # fmt: skip
    binary = ["=", "!=", "<", ">=", "+", "*", "/", "%", "&", "||", "AND", "OR", "??"]

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(inner, st.sampled_from(binary), inner).map(lambda t: f"({' '.join(t)})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} ? {t[1]} : {t[2]})"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} IN ({t[1]}, {t[2]}))"),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} BETWEEN {t[1]} AND {t[2]})"),
            inner.map(lambda t: f"(NOT {t})"),
            inner.map(lambda t: f"IS_DEFINED({t})"),
        )

    return st.recursive(leaves, grow, max_leaves=12)


_scalars = st.sampled_from([None, True, False, 0, 1, 2.5, -3, "x", "y", [1, 2], {"b": 1}])


@settings(max_examples=300, deadline=None, database=None)
@given(_terms(), st.dictionaries(st.sampled_from("abl"), _scalars), _scalars)
def test_equivalent_queries_agree(term: str, item: dict[str, Any], parameter: Any) -> None:
    """A filter agrees with the value, a parameter with a property, NOT NOT with the operand."""
    selected = rows(f"SELECT VALUE 1 FROM c WHERE {term}", [item], p=parameter)
    result = value(term, item, p=parameter)
    assert (selected == [1]) == (result is True)
    moved = {**item, "moved": parameter}
    assert value(term.replace("@p", "c.moved"), moved) == result
    twice = value(f"NOT NOT {term}", item, p=parameter)
    assert twice == (result if type(result) is bool else "undef")
    assert value(f"{term} OR true", item, p=parameter) is True
    assert value(f"{term} AND false", item, p=parameter) is False
