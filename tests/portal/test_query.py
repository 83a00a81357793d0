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
from tests.portal.screens import path_of, visit_tab
from tests.support.raw import RawClient


@pytest.fixture
def query_page(page: Page, raw: RawClient, container: str) -> Page:
    """The query page of a container with thirty items in three partitions."""
    for number in range(30):
        body = {"id": f"i{number:02d}", "pk": f"p{number % 3}", "n": number}
        if number == 7:
            body["big"] = 12345678901234567890
        assert raw.post(f"{container}/docs", body, pk=json.dumps([body["pk"]])).status == 201
    visit_tab(page, container, "query")
    return page


def run_query(page: Page, text: str) -> None:
    page.get_by_label("Query", exact=True).fill(text)
    page.keyboard.press("Control+Enter")


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
    query_page.get_by_label("Parameters").fill('{"@least": 20}')
    query_page.get_by_label("Partition key").fill('"p1"')
    run_query(query_page, "SELECT VALUE c.id FROM c WHERE c.n >= @least")
    expect(query_page.get_by_role("cell")).to_have_text(["i22", "i25", "i28"])
    query_page.get_by_label("Parameters").fill("{")
    run_query(query_page, "SELECT 1")
    expect(query_page.get_by_role("alert")).to_contain_text("The parameters must be JSON")


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
    expect(query_page.get_by_role("table", name="Metrics of each page")).to_contain_text("RU")


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
    query_page.get_by_label("Parameters").fill(f'{{"@n": {big}, "list": [1, {big}]}}')
    query_page.get_by_label("Partition key").fill(str(big))
    run_query(query_page, "SELECT c.id, c.n FROM c WHERE c.n = @n AND ARRAY_CONTAINS(@list, c.n)")
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
    query_page.get_by_label("Parameters").press("Escape")
    expect(query_page.get_by_label("Parameters")).to_be_hidden()
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
        query_page.get_by_role("button", name="Copy").click()
        expect(query_page.get_by_text("2 rows copied").last).to_be_visible()
        assert json.loads(query_page.evaluate("window.copied")) == rows
    query_page.get_by_role("tab", name="Plan").click()
    expect(query_page.get_by_role("button", name="Copy")).to_be_hidden()


# Records what is copied, with the clipboard of secure pages and with the one of others.
RECORD_COPY = """(hasClipboard) => {
    const writeText = async (text) => { window.copied = text; };
    const clipboard = hasClipboard ? { writeText } : undefined;
    Object.defineProperty(navigator, "clipboard", { configurable: true, value: clipboard });
    document.addEventListener("copy", (event) => { window.copied = event.target.value; });
}"""


def downloaded(page: Page, button: str, name: str) -> str:
    with page.expect_download() as result:
        page.get_by_role("button", name=button, exact=True).click()
    assert result.value.suggested_filename == name
    return result.value.path().read_text()


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
