"""Rows of a query as links to items and as CSV, and why a query is slow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect

from perseid.commands.cli import main
from perseid.config import Settings
from perseid.store.sql import index_limits
from tests.portal.browser import answered
from tests.portal.queries import RECORD_COPY, create_item, downloaded, run_query
from tests.portal.screens import path_of, visit_tab
from tests.support.raw import RawClient

BIG = 9007199254740993
ITEMS: list[dict[str, Any]] = [
    {"id": "a b", "pk": "p", "n": 1, "other": "x", "text": "=1+1", "list": [1, {"a": BIG}]},
    {"id": "x", "pk": BIG, "n": BIG, "text": 'say "hi",\nthere', "quoted": "12", "empty": ""},
    {"id": "12", "pk": "q", "n": 2.50, "text": " blank", "null": None, "flag": True},
]


@pytest.fixture
def query_page(any_look: Page, raw: RawClient, container: str) -> Page:
    for item in ITEMS:
        create_item(raw, container, item)
    visit_tab(any_look, container, "query")
    return any_look


LINKS = [
    ("SELECT * FROM c", ["a b", "x", "12"]),
    ("SELECT VALUE c FROM c", ["a b", "x", "12"]),
    ("SELECT c.id, c.pk FROM c", ["a b", "x", "12"]),
    ("SELECT TOP 1 r.n, r['pk'], r.id FROM root r", ["a b"]),
    ("SELECT c.id, c.n FROM c", []),  # the key is unknown
    ("SELECT c.other AS id, c.pk FROM c", []),
    ("SELECT c.id, c.other AS pk FROM c", []),
    ("SELECT c.id, UPPER(c.pk) AS pk FROM c", []),
    ("SELECT VALUE {id: c.id, pk: c.other} FROM c", []),
    ("SELECT l.id, c.pk FROM c JOIN l IN c.list", []),
    ("SELECT VALUE c.id FROM c", []),
]


def test_rows_that_are_items_link_to_them(page: Page, raw: RawClient, container: str) -> None:
    for item in ITEMS:
        create_item(raw, container, item)
    visit_tab(page, container, "query")
    shown = {}
    for query, _ in LINKS:
        with answered(page, "POST", 200, query[:20], path="/docs"):
            run_query(page, query)
        expect(page.get_by_role("button", name="Run")).to_be_visible()
        expect(page.get_by_text(re.compile(r"^\d rows? · "))).to_be_visible()
        shown[query] = page.locator(".result a").all_inner_texts()
    assert shown == dict(LINKS)


def test_a_link_opens_the_item(query_page: Page) -> None:
    run_query(query_page, "SELECT c.pk, c.id FROM c WHERE c.id = 'x'")
    query_page.get_by_role("link", name="x", exact=True).click()
    expect(query_page.get_by_label("Item as JSON")).to_have_value(re.compile(f'"n": {BIG}'))
    query_page.go_back()
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Partition key").fill('"p"')  # the key of all rows
    query_page.keyboard.press("Escape")
    run_query(query_page, "SELECT c.id FROM c")
    query_page.get_by_role("link", name="a b").click()
    expect(query_page.get_by_label("Item as JSON")).to_have_value(re.compile('"text": "=1'))


def test_csv_equals_an_export(query_page: Page, settings: Settings, container: str) -> None:
    run_query(query_page, "SELECT * FROM c")
    expect(query_page.get_by_text(re.compile(r"^3 rows"))).to_be_visible()
    names = path_of(container).split("/")
    server = ["--endpoint", settings.endpoint, "--key", settings.key]
    exported = CliRunner().invoke(main, ["export", *names, "--format", "csv", *server])
    assert exported.exit_code == 0, exported.output
    assert downloaded(query_page, "Download as CSV", "c.csv") == exported.stdout
    query_page.evaluate(RECORD_COPY, True)
    query_page.get_by_role("button", name="Copy as CSV").click()
    expect(query_page.get_by_text("3 rows copied")).to_be_visible()
    assert query_page.evaluate("window.copied") == exported.stdout


def test_csv_of_values(page: Page) -> None:
    text = page.evaluate(
        "async (rows) => (await import('./csv.js')).csvText(rows)",
        ["12345678901234567890", '"a,b"', '{"_ts": 1, "id": "7", "x": {"y": [1.0, "é"]}}', "null"],
    )
    assert text == (
        'value,id,x,_ts\n12345678901234567890,,,\n"a,b",,,\n,7,"{""y"":[1.0,""é""]}",1\nnull,,,\n'
    )


POLICY = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}]}


ADVICE = [
    ("/n/?", "SELECT * FROM c WHERE c.n = 1", "The indexing policy excludes /n"),
    ("/no/?", "SELECT * FROM c WHERE c.n = 1", "The index on /n finds the items"),
    ("/no/?", "SELECT * FROM c WHERE CONTAINS(c.text, 'a')", "No term of WHERE can use an index"),
    ("/no/?", "SELECT * FROM c WHERE CONTAINS(c.text, 'a')", "key (c.pk) in Options helps"),
    ("/no/?", "SELECT * FROM c WHERE ROUND(c.n) = 1", "cannot check ROUND(c.n) = 1"),
    ("/no/?", "SELECT * FROM c WHERE ROUND(c.n) = 1", "instead of ROUND(c.total / 100) = 2"),
    ("/no/?", "SELECT * FROM c WHERE LOWER(c.text) = 'a'", "for example c.textLower"),
    ("/no/?", "SELECT VALUE COUNT(1) FROM c", "counts the items by itself"),
    ("/no/?", "SELECT * FROM c WHERE c.pk = 'p'", "reads one partition"),
    ("/no/?", "SELECT * FROM c", "The query has no WHERE"),
    ("/no/?", "SELECT * FROM c ORDER BY c.n", "in the right order"),
]


def test_the_plan_says_what_to_do(
    query_page: Page, raw: RawClient, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = query_page.get_by_role("region", name="Advice")
    run_query(query_page, "SELECT * FROM c WHERE c.n = 1")
    query_page.get_by_role("tab", name="Plan").click()
    expect(shown).to_contain_text("fewer than 500 items")
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 2)
    for excluded, query, advice in ADVICE:
        body = raw.get(container).json
        body["indexingPolicy"] = POLICY | {"excludedPaths": [{"path": excluded}]}
        assert raw.put(container, body).status == 200
        run_query(query_page, query)
        expect(shown).to_contain_text(advice)


NUMBERS, TEXTS = "ROUND(c.total / 100) = 2", "LEFT(c.code, 3) = 'abc'"
REMEDIES = [
    (["LOWER(c.email) = @x"], ["for example c.emailLower", "c.email = … finds only this exact"]),
    (["'a' = upper( r[\"e mail\"].home )"], ['for example r["e mail"].homeLower']),
    (["STRINGEQUALS('c.no', c['e mail'], true)"], ['for example c["e mailLower"]']),
    (["STARTSWITH(c.email, 'a', @ignore)"], ["STARTSWITH(c.emailLower, …)"]),
    (["STARTSWITH(LOWER(c.email), 'a')"], ["STARTSWITH(c.email, …) finds only this exact"]),
    (["CONTAINS(c.email, 'a', true)"], ["c.emailLower", "no index serves CONTAINS or ENDSWITH"]),
    (["ENDSWITH(c.email, 'a', false)"], ["Leave out the argument false"]),
    (["LOWER(c.names[0]) = 'a'"], ["Store a lower-case copy of the property"]),
    (["FLOOR(c.n) = 1"], [NUMBERS]),
    (["c.n + 1 = 3"], [NUMBERS]),
    (["SUBSTRING(c.text, 0, 2) = 'LOWER(c.no)'"], [TEXTS]),
    (["LENGTH(c.text) = 2"], ["store the computed value in the item"]),
    (["LOWER(c.a) = 'a'", "ROUND(c.b) = 2"], ["c.aLower", NUMBERS]),
]


def test_the_remedy_fits_the_terms(page: Page) -> None:
    texts = page.evaluate(
        """async (all) => {
            const { advice } = await import("./views/query-advice.js");
            const plan = { access: "scan", obstacle: "terms", candidates: [], examined: 40000,
                returned: 1, index: null, tree: "Scan  all items" };
            return all.map((evaluated) => advice({ ...plan, evaluated }, {}, null).textContent);
        }""",
        [terms for terms, _ in REMEDIES],
    )
    every = {part for _, parts in REMEDIES for part in parts}
    shown = [
        (terms, [part for part in every if part in text])
        for (terms, _), text in zip(REMEDIES, texts, strict=True)
    ]
    for (terms, parts), (_, contained) in zip(REMEDIES, shown, strict=True):
        assert set(parts) <= set(contained), terms
        assert (NUMBERS in contained) == (NUMBERS in parts), terms
        assert (TEXTS in contained) == (TEXTS in parts), terms
    assert not any("partition key" in text for text in texts)  # its path is unknown


def test_a_slow_query_is_called_slow(query_page: Page, container: str) -> None:
    """With the response of a large container."""
    plan = """async (route) => {
        const { advice } = await import("./views/query-advice.js");
        const plan = { access: "scan", obstacle: "policy", candidates: ["/n/?"], evaluated: [],
            examined: 40000, returned: 12, index: null, tree: "Scan  all items" };
        document.querySelector("[role=tabpanel]").append(advice(plan, route));
    }"""
    database, name = path_of(container).split("/")
    query_page.evaluate(plan, {"database": database, "container": name})
    shown = query_page.get_by_role("region", name="Advice")
    expect(shown).to_contain_text("Slow: 40,000 items examined for 12 rows")
    shown.get_by_role("link", name="indexing policy").click()
    expect(query_page.get_by_role("heading", name="Indexing policy")).to_be_visible()
