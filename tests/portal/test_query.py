"""The query page: rows, pages, metrics and errors."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect

from perseid.commands.cli import main
from perseid.config import Settings
from perseid.store.sql import index_limits
from tests.portal.browser import Network
from tests.portal.queries import RECORD_COPY, create_numbered_items, downloaded, run_query
from tests.portal.screens import path_of, visit_tab
from tests.support.raw import RawClient


@pytest.fixture
def query_page(page: Page, raw: RawClient, container: str) -> Page:
    """The query page of a container with thirty items in three partitions."""
    create_numbered_items(raw, container)
    visit_tab(page, container, "query")
    return page


def test_rows_as_a_table_and_as_json(query_page: Page) -> None:
    run_query(query_page, "SELECT c.id, c.n, c.big FROM c WHERE c.n IN (7, 8) ORDER BY c.n")
    expect(query_page.get_by_role("row")).to_have_count(3)  # a heading and two rows
    expect(query_page.get_by_role("row", name="i07 7 12345678901234567890")).to_be_visible()
    expect(query_page.get_by_text(re.compile(r"2 rows · \d+\.\d\d RU"))).to_be_visible()
    query_page.get_by_role("tab", name="Table").focus()
    query_page.keyboard.press("ArrowRight")
    shown = query_page.get_by_label("Result as JSON").inner_text()
    assert json.loads(shown) == [
        {"id": "i07", "n": 7, "big": 12345678901234567890},
        {"id": "i08", "n": 8},
    ]


def test_values_without_properties(query_page: Page) -> None:
    run_query(query_page, "SELECT VALUE COUNT(1) FROM c")
    expect(query_page.get_by_role("columnheader", name="value")).to_be_visible()
    expect(query_page.get_by_role("cell", name="30")).to_be_visible()


def test_no_rows(query_page: Page) -> None:
    run_query(query_page, "SELECT * FROM c WHERE c.n > 1000")
    expect(query_page.get_by_role("heading", name="No rows")).to_be_visible()


def test_a_page_without_rows_may_have_a_next_page(query_page: Page) -> None:
    """For example after its time limit."""
    empty = json.dumps({"Documents": [], "_count": 0})
    Network(query_page).answer("/docs$", 200, empty, headers={"x-ms-continuation": "more"})
    run_query(query_page, "SELECT * FROM c WHERE c.n > 28")
    expect(query_page.get_by_role("heading", name="No rows so far")).to_be_visible()
    expect(query_page.get_by_text("no item matches it")).to_have_count(0)
    expect(query_page.get_by_role("button", name="Load more")).to_be_visible()


def test_pages_are_loaded_one_by_one(query_page: Page) -> None:
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Page size").select_option("25")
    run_query(query_page, "SELECT * FROM c ORDER BY c.n")
    expect(query_page.get_by_role("row")).to_have_count(26)
    expect(query_page.get_by_text("25 rows so far")).to_be_visible()
    query_page.get_by_role("button", name="Load more").click()
    expect(query_page.get_by_role("row")).to_have_count(31)
    expect(query_page.get_by_role("button", name="Load more")).to_be_hidden()


def test_loading_more_rows_keeps_the_scroll_position(query_page: Page) -> None:
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Page size").select_option("25")
    run_query(query_page, "SELECT * FROM c ORDER BY c.n")
    expect(query_page.get_by_role("row")).to_have_count(26)
    query_page.locator(".result").evaluate("(node) => { node.scrollTop = 200 }")
    query_page.get_by_role("button", name="Load more").press("Enter")
    expect(query_page.get_by_role("row")).to_have_count(31)
    assert query_page.locator(".result").evaluate("(node) => node.scrollTop") == 200
    expect(query_page.get_by_role("tabpanel")).to_be_focused()


def test_parameters_and_a_partition(query_page: Page) -> None:
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Partition key").fill('"p1"')
    query_page.get_by_label("Query", exact=True).fill(
        "SELECT VALUE c.id FROM c WHERE c.n >= @least"
    )
    query_page.get_by_label("@least").fill("20")
    query_page.keyboard.press("Control+Enter")
    expect(query_page.get_by_role("cell")).to_have_text(["i22", "i25", "i28"])


def test_a_partition_key_may_be_plain_text(query_page: Page) -> None:
    query_page.get_by_text("Options").click()
    key = query_page.get_by_label("Partition key")
    expect(key).to_have_accessible_description(re.compile(r"c\.pk"))
    expect(key).to_have_attribute("placeholder", "value of c.pk")
    key.fill("p1")
    run_query(query_page, "SELECT VALUE COUNT(1) FROM c")
    expect(query_page.get_by_role("cell")).to_have_text("10")
    query_page.reload()  # the page keeps it as JSON
    query_page.get_by_text("Options").click()
    expect(key).to_have_value('"p1"')


def test_the_closed_options_show_what_is_set(query_page: Page) -> None:
    summary = query_page.locator(".options > summary")
    expect(summary).to_have_text("Options")
    summary.click()
    query_page.get_by_label("Partition key").fill("p1")
    expect(summary).to_have_text('Options · partition key "p1"')
    query_page.get_by_label("Page size").select_option("25")
    query_page.get_by_label("Partition key").fill("[1, ")
    expect(summary).to_have_text("Options · partition key not valid · 25 rows per page")
    query_page.get_by_label("Partition key").fill("")
    query_page.keyboard.press("Escape")
    expect(summary).to_have_text("Options · 25 rows per page")


def test_the_options_fit_on_the_page(any_look: Page, container: str) -> None:
    visit_tab(any_look, container, "query")
    summary = any_look.locator(".options > summary")
    for key in ("", "a", "a" * 100):
        summary.click()
        any_look.get_by_label("Partition key").fill(key)
        any_look.keyboard.press("Escape")
        summary.click()
        box = any_look.locator(".options-body").bounding_box()
        size = any_look.viewport_size
        assert box
        assert size
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size["width"]
        any_look.keyboard.press("Escape")


def test_a_query_that_is_not_sent_leaves_no_older_result(query_page: Page) -> None:
    alert = query_page.get_by_role("alert")
    run_query(query_page, "SELECT VALUE c.n FROM c WHERE c.n < 5")
    expect(query_page.get_by_role("cell")).to_have_count(5)
    run_query(query_page, "SELECT VALUE c.n FROM c WHERE c.n < @most")
    expect(alert).to_contain_text("@most has no value")
    expect(query_page.get_by_role("cell")).to_have_count(0)
    expect(query_page.get_by_role("tab")).to_have_count(0)
    expect(query_page.get_by_text("5 rows")).to_have_count(0)
    query_page.get_by_label("@most").fill("3")
    query_page.keyboard.press("Control+Enter")
    expect(query_page.get_by_role("cell")).to_have_count(3)
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Partition key").fill('"p')
    query_page.keyboard.press("Escape")
    query_page.get_by_role("button", name="Run").click()
    expect(alert).to_contain_text("The partition key is not valid JSON")
    expect(alert).to_contain_text("put it in double quotes")
    expect(query_page.get_by_label("Partition key")).to_be_focused()  # in the box that was closed
    expect(query_page.get_by_role("cell")).to_have_count(0)


def test_an_error_shows_its_position(query_page: Page) -> None:
    run_query(query_page, "SELECT *\nFRM c")
    expect(query_page.get_by_role("alert")).to_contain_text("Line 2, column")
    chosen = query_page.evaluate("document.activeElement.selectionStart")
    assert chosen >= len("SELECT *\n")


@pytest.mark.parametrize(
    ("least", "index", "examined"),
    [(20, "/n/?", "10"), (1000, "none", "30")],  # small containers are scanned
)
def test_the_plan_the_index_and_the_metrics(
    query_page: Page, monkeypatch: pytest.MonkeyPatch, least: int, index: str, examined: str
) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", least)
    run_query(query_page, "SELECT * FROM c WHERE c.n < 10")
    query_page.get_by_role("tab", name="Plan").click()
    expect(query_page.get_by_role("definition")).to_have_text([index, examined, "10"])
    expect(query_page.get_by_label("Plan", exact=True)).to_contain_text("c.n < 10")
    metrics = query_page.get_by_role("table", name="Metrics of each page")
    expect(metrics).to_contain_text("RU")
    expect(metrics).to_contain_text("Items from the database")
    expect(metrics).not_to_contain_text("loaded")


@pytest.mark.parametrize(("milliseconds", "count"), [(900, 1), (3, 0)])
def test_a_run_that_created_the_index_is_explained(
    query_page: Page, monkeypatch: pytest.MonkeyPatch, milliseconds: int, count: int
) -> None:
    monkeypatch.setattr(index_limits, "LEAST_ITEMS", 20)
    metrics = {"x-ms-documentdb-query-metrics": f"totalExecutionTimeInMs={milliseconds}.00"}
    rows = json.dumps({"Documents": [{"n": 1}], "_count": 1})
    Network(query_page).answer("/docs$", 200, rows, headers=metrics)
    run_query(query_page, "SELECT c.n FROM c WHERE c.n = 1")
    query_page.get_by_role("tab", name="Plan").click()
    expect(query_page.get_by_role("definition")).to_have_text(["/n/?", "1", "1"])
    shown = query_page.get_by_text(re.compile(r"took 900 ms .* creates it; the next ones are"))
    expect(shown).to_have_count(count)


def test_the_text_is_kept_when_the_tab_changes(query_page: Page) -> None:
    query_page.get_by_label("Query", exact=True).fill("SELECT 42")
    query_page.get_by_role("link", name="Items").click()
    query_page.get_by_role("link", name="Query").click()
    expect(query_page.get_by_label("Query", exact=True)).to_have_value("SELECT 42")


JSON_TEXTS = [
    '{"a":1.0,"b":[1e400,-0,12345678901234567890],"c":{},"d":[],"e":"{\\"x\\": [1]}","2":1,"1":2}',
    "[]",
    '"plain"',
    '[{"a":[[]]},null,true]',
]


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_json_is_formatted_without_parsing_numbers(page: Page, text: str) -> None:
    laid_out = page.evaluate(
        "async (text) => (await import('./json.js')).pretty(text)",
        text,
    )
    assert json.loads(laid_out, parse_float=str, parse_int=str) == json.loads(
        text, parse_float=str, parse_int=str
    )
    assert re.sub(r"\s", "", laid_out) == re.sub(r"\s", "", text)


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('{"a": [1, 2,', ", 3]}"),
        ('{"a": 1, ', "}"),
        ('{"a": [1, ', "]}"),
        ('{"a" ', "1}"),
        ('{"a": ', ":}"),
        ('{"a": {"b": [], "c": {}} ', "]"),
        ('[{"a": 1} ', "}]"),
        ("{} ", "{}"),
        ("", "nothing"),
        ('{"a": ', '"not closed}'),
        ('{"a": ', '"\\x"}'),
        ('{"a": "b"', ""),
    ],
)
def test_the_position_of_an_error_in_long_json(page: Page, good: str, bad: str) -> None:
    """Browsers report it for short texts only."""
    long = "[" + "1,\n" * 5000
    result = page.evaluate(
        "async (text) => (await import('./json.js')).jsonError(text)", f"{long}{good}{bad}"
    )
    assert result["reason"]
    if result["reason"].startswith("Unexpected token"):
        assert result["at"] == len(long) + len(good)
    assert result["line"] == 5001


def test_running_twice_quickly_shows_the_rows_once(query_page: Page) -> None:
    run_query(query_page, "SELECT VALUE c.n FROM c WHERE c.n < 5")
    query_page.keyboard.press("Control+Enter")
    query_page.keyboard.press("Control+Enter")
    expect(query_page.get_by_text(re.compile(r"^5 rows · "))).to_be_visible()
    expect(query_page.get_by_role("row")).to_have_count(6)


def test_an_error_after_surrogate_pairs_shows_its_position(query_page: Page) -> None:
    run_query(query_page, "SELECT '\U0001f600\U0001f600' AS x, FROM c")
    expect(query_page.get_by_role("alert")).to_contain_text("Line 1, column 19")
    chosen = query_page.get_by_label("Query", exact=True).evaluate(
        "(area) => area.value.slice(area.selectionStart, area.selectionEnd)"
    )
    assert chosen == "FROM"


def test_numbers_of_many_digits_are_sent_as_typed(
    query_page: Page, raw: RawClient, container: str
) -> None:
    big = 9007199254740993  # a browser's number would be ...992
    body = {"id": "big", "pk": big, "n": big}
    assert raw.post(f"{container}/docs", body, pk=f"[{big}]").status == 201
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Partition key").fill(str(big))
    query_page.get_by_label("Query", exact=True).fill(
        "SELECT c.id, c.n FROM c WHERE c.n = @n AND ARRAY_CONTAINS(@list, c.n)"
    )
    query_page.get_by_label("@n").fill(str(big))
    query_page.get_by_label("@list").fill(f"[1, {big}]")
    query_page.keyboard.press("Control+Enter")
    expect(query_page.get_by_role("row", name=f"big {big}")).to_be_visible()
    query_page.get_by_text("Options").click()
    query_page.get_by_role("tab", name="Plan").click()
    expect(query_page.get_by_text("Rows on the first page")).to_be_visible()


def test_selected_system_properties_are_shown(query_page: Page) -> None:
    run_query(query_page, "SELECT c._etag, c.n AS _n FROM c WHERE c.n = 3")
    expect(query_page.get_by_role("columnheader", name="_etag")).to_be_visible()
    expect(query_page.get_by_role("columnheader", name="_n")).to_be_visible()
    run_query(query_page, "SELECT * FROM c WHERE c.n = 3")
    expect(query_page.get_by_role("columnheader", name="_ts")).to_be_visible()
    expect(query_page.get_by_role("columnheader", name="_etag")).to_have_count(0)


def test_the_number_of_omitted_columns_is_shown(query_page: Page) -> None:
    listed = ", ".join(f"{number} AS p{number:02d}" for number in range(45))
    run_query(query_page, f"SELECT {listed} FROM c WHERE c.n = 3")
    expect(query_page.get_by_role("columnheader")).to_have_count(40)
    expect(query_page.get_by_text("5 more properties")).to_be_visible()


def test_escape_closes_the_options(query_page: Page) -> None:
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Partition key").press("Escape")
    expect(query_page.get_by_label("Partition key")).to_be_hidden()
    expect(query_page.get_by_text("Options")).to_be_focused()


def test_a_long_query_can_be_stopped(query_page: Page) -> None:
    Network(query_page).hold("/docs$")
    run_query(query_page, "SELECT VALUE c.n FROM c WHERE c.n < 5")
    query_page.get_by_role("button", name="Stop").click()
    expect(query_page.get_by_text("Stopped")).to_be_visible()
    Network(query_page).restore()
    query_page.get_by_role("button", name="Run").click()
    expect(query_page.get_by_text(re.compile(r"^5 rows · "))).to_be_visible()


def test_rows_are_downloaded_and_copied(query_page: Page, raw: RawClient, container: str) -> None:
    run_query(query_page, "SELECT c.id, c.big FROM c WHERE c.n IN (7, 8) ORDER BY c.n")
    rows = [{"id": "i07", "big": 12345678901234567890}, {"id": "i08"}]
    assert json.loads(downloaded(query_page, "Download as JSON", "c.json")) == rows
    assert [
        json.loads(line)
        for line in downloaded(query_page, "Download as JSON Lines", "c.jsonl").splitlines()
    ] == rows
    for has_clipboard in (True, False):
        query_page.evaluate(RECORD_COPY, has_clipboard)
        query_page.get_by_role("button", name="Copy", exact=True).click()
        expect(query_page.get_by_text("2 rows copied").last).to_be_visible()
        assert json.loads(query_page.evaluate("window.copied")) == rows
    query_page.get_by_role("tab", name="Plan").click()
    expect(query_page.get_by_role("button", name="Copy", exact=True)).to_be_hidden()


def test_downloaded_json_lines_equal_an_export(
    query_page: Page, settings: Settings, container: str
) -> None:
    run_query(query_page, "SELECT * FROM c")
    expect(query_page.get_by_text(re.compile(r"^30 rows · "))).to_be_visible()
    arguments = [
        "export",
        *path_of(container).split("/"),
        "--endpoint",
        settings.endpoint,
        "--key",
        settings.key,
    ]
    exported = CliRunner().invoke(main, arguments)
    assert exported.exit_code == 0, exported.output
    assert downloaded(query_page, "Download as JSON Lines", "c.jsonl") == exported.stdout


def test_non_ascii_characters_are_shown_unescaped(
    query_page: Page, raw: RawClient, container: str
) -> None:
    body = {"id": "odd", "pk": "p", "nested": {"naïve": ["日本", "a b", 1.50]}}
    assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201  # as \\u escapes
    run_query(query_page, "SELECT c.nested FROM c WHERE c.id = 'odd'")
    expect(query_page.get_by_role("cell")).to_have_text(
        re.compile(r'{"naïve":\["日本","a b",1.50?\]}')
    )
    visit_tab(query_page, container, "changes")
    expect(query_page.get_by_role("row", name="odd")).to_contain_text('"日本","a b"')
