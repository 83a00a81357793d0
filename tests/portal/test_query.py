"""The query editor: rows, pages, figures, and what is wrong with a query."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from playwright.sync_api import Page, expect

from perseid.commands.cli import main
from perseid.config import Settings
from perseid.store.sqlite import indexes
from tests.portal.browsing import Wire
from tests.portal.scenes import visit
from tests.support.raw import RawClient


@pytest.fixture
def asked(page: Page, raw: RawClient, container: str) -> Page:
    """The query page of a container with thirty items in three partitions."""
    for number in range(30):
        body = {"id": f"i{number:02d}", "pk": f"p{number % 3}", "n": number}
        if number == 7:
            body["big"] = 12345678901234567890
        assert raw.post(f"{container}/docs", body, pk=json.dumps([body["pk"]])).status == 201
    _, _, database, _, name = container.split("/")
    visit(page, f"{database}/{name}/query")
    return page


def ask(page: Page, text: str) -> None:
    page.get_by_label("Query", exact=True).fill(text)
    page.keyboard.press("Control+Enter")


def test_rows_as_a_table_and_as_json(asked: Page) -> None:
    ask(asked, "SELECT c.id, c.n, c.big FROM c WHERE c.n IN (7, 8) ORDER BY c.n")
    expect(asked.get_by_role("row")).to_have_count(3)  # a heading and two rows
    expect(asked.get_by_role("row", name="i07 7 12345678901234567890")).to_be_visible()
    expect(asked.get_by_text(re.compile(r"2 rows · \d+\.\d\d RU"))).to_be_visible()
    asked.get_by_role("tab", name="Table").focus()
    asked.keyboard.press("ArrowRight")
    shown = asked.get_by_label("Result as JSON").inner_text()
    assert json.loads(shown) == [
        {"id": "i07", "n": 7, "big": 12345678901234567890},
        {"id": "i08", "n": 8},
    ]


def test_values_without_properties(asked: Page) -> None:
    ask(asked, "SELECT VALUE COUNT(1) FROM c")
    expect(asked.get_by_role("columnheader", name="value")).to_be_visible()
    expect(asked.get_by_role("cell", name="30")).to_be_visible()


def test_no_rows(asked: Page) -> None:
    ask(asked, "SELECT * FROM c WHERE c.n > 1000")
    expect(asked.get_by_role("heading", name="No rows")).to_be_visible()


def test_a_page_without_rows_need_not_be_the_last(asked: Page) -> None:
    """As one is that has used up its time."""
    empty = json.dumps({"Documents": [], "_count": 0})
    Wire(asked).answer("/docs$", 200, empty, headers={"x-ms-continuation": "more"})
    ask(asked, "SELECT * FROM c WHERE c.n > 28")
    expect(asked.get_by_role("heading", name="No rows so far")).to_be_visible()
    expect(asked.get_by_text("nothing fits it")).to_have_count(0)
    expect(asked.get_by_role("button", name="Load more")).to_be_visible()


def test_pages_are_loaded_one_by_one(asked: Page) -> None:
    asked.get_by_text("Options").click()
    asked.get_by_label("Page size").select_option("25")
    ask(asked, "SELECT * FROM c ORDER BY c.n")
    expect(asked.get_by_role("row")).to_have_count(26)
    expect(asked.get_by_text("25 rows so far")).to_be_visible()
    asked.get_by_role("button", name="Load more").click()
    expect(asked.get_by_role("row")).to_have_count(31)
    expect(asked.get_by_role("button", name="Load more")).to_be_hidden()


def test_more_rows_leave_the_reader_where_they_were(asked: Page) -> None:
    asked.get_by_text("Options").click()
    asked.get_by_label("Page size").select_option("25")
    ask(asked, "SELECT * FROM c ORDER BY c.n")
    expect(asked.get_by_role("row")).to_have_count(26)
    asked.locator(".result").evaluate("(node) => { node.scrollTop = 200 }")
    asked.get_by_role("button", name="Load more").press("Enter")
    expect(asked.get_by_role("row")).to_have_count(31)
    assert asked.locator(".result").evaluate("(node) => node.scrollTop") == 200
    expect(asked.get_by_role("tabpanel")).to_be_focused()


def test_parameters_and_a_partition(asked: Page) -> None:
    asked.get_by_text("Options").click()
    asked.get_by_label("Parameters").fill('{"@least": 20}')
    asked.get_by_label("Partition key").fill('"p1"')
    ask(asked, "SELECT VALUE c.id FROM c WHERE c.n >= @least")
    expect(asked.get_by_role("cell")).to_have_text(["i22", "i25", "i28"])
    asked.get_by_label("Parameters").fill("{")
    ask(asked, "SELECT 1")
    expect(asked.get_by_role("alert")).to_contain_text("The parameters must be JSON")


def test_an_error_shows_its_place(asked: Page) -> None:
    ask(asked, "SELECT *\nFRM c")
    expect(asked.get_by_role("alert")).to_contain_text("Line 2, column")
    chosen = asked.evaluate("document.activeElement.selectionStart")
    assert chosen >= len("SELECT *\n")


@pytest.mark.parametrize(
    ("least", "index", "looked"),
    [(20, "/n/?", "10"), (1000, "none", "30")],  # small containers are scanned
)
def test_the_plan_the_index_and_the_metrics(
    asked: Page, monkeypatch: pytest.MonkeyPatch, least: int, index: str, looked: str
) -> None:
    monkeypatch.setattr(indexes, "LEAST_ITEMS", least)
    ask(asked, "SELECT * FROM c WHERE c.n < 10")
    asked.get_by_role("tab", name="Plan").click()
    expect(asked.get_by_role("definition")).to_have_text([index, looked, "10"])
    expect(asked.get_by_label("Plan", exact=True)).to_contain_text("c.n < 10")
    expect(asked.get_by_role("table", name="Metrics of each page")).to_contain_text("RU")


def test_the_text_survives_a_look_elsewhere(asked: Page) -> None:
    asked.get_by_label("Query", exact=True).fill("SELECT 42")
    asked.get_by_role("link", name="Items").click()
    asked.get_by_role("link", name="Query").click()
    expect(asked.get_by_label("Query", exact=True)).to_have_value("SELECT 42")


JSON_TEXTS = [
    '{"a":1.0,"b":[1e400,-0,12345678901234567890],"c":{},"d":[],"e":"{\\"x\\": [1]}","2":1,"1":2}',
    "[]",
    '"plain"',
    '[{"a":[[]]},null,true]',
]


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_json_is_laid_out_without_being_read(page: Page, text: str) -> None:
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
def test_the_place_of_a_mistake_is_found_where_browsers_do_not_say(
    page: Page, good: str, bad: str
) -> None:
    """They do for short texts only."""
    long = "[" + "1,\n" * 5000
    found = page.evaluate(
        "async (text) => (await import('./json.js')).flaw(text)", f"{long}{good}{bad}"
    )
    assert found["why"]
    if found["why"].startswith("Unexpected token"):
        assert found["at"] == len(long) + len(good)
    assert found["line"] == 5001


def test_running_twice_in_a_hurry_gives_the_rows_once(asked: Page) -> None:
    ask(asked, "SELECT VALUE c.n FROM c WHERE c.n < 5")
    asked.keyboard.press("Control+Enter")
    asked.keyboard.press("Control+Enter")
    expect(asked.get_by_text(re.compile(r"^5 rows · "))).to_be_visible()
    expect(asked.get_by_role("row")).to_have_count(6)


def test_an_error_behind_characters_of_two_units_shows_its_place(asked: Page) -> None:
    ask(asked, "SELECT '\U0001f600\U0001f600' AS x, FROM c")
    expect(asked.get_by_role("alert")).to_contain_text("Line 1, column 19")
    chosen = asked.get_by_label("Query", exact=True).evaluate(
        "(area) => area.value.slice(area.selectionStart, area.selectionEnd)"
    )
    assert chosen == "FROM"


def test_numbers_of_many_digits_are_asked_for_as_typed(
    asked: Page, raw: RawClient, container: str
) -> None:
    big = 9007199254740993  # a browser's number would be ...992
    body = {"id": "big", "pk": big, "n": big}
    assert raw.post(f"{container}/docs", body, pk=f"[{big}]").status == 201
    asked.get_by_text("Options").click()
    asked.get_by_label("Parameters").fill(f'{{"@n": {big}, "list": [1, {big}]}}')
    asked.get_by_label("Partition key").fill(str(big))
    ask(asked, "SELECT c.id, c.n FROM c WHERE c.n = @n AND ARRAY_CONTAINS(@list, c.n)")
    expect(asked.get_by_role("row", name=f"big {big}")).to_be_visible()
    asked.get_by_text("Options").click()
    asked.get_by_role("tab", name="Plan").click()
    expect(asked.get_by_text("Rows on the first page")).to_be_visible()


def test_what_was_asked_for_is_shown_whatever_its_name(asked: Page) -> None:
    ask(asked, "SELECT c._etag, c.n AS _n FROM c WHERE c.n = 3")
    expect(asked.get_by_role("columnheader", name="_etag")).to_be_visible()
    expect(asked.get_by_role("columnheader", name="_n")).to_be_visible()
    ask(asked, "SELECT * FROM c WHERE c.n = 3")
    expect(asked.get_by_role("columnheader", name="_ts")).to_be_visible()
    expect(asked.get_by_role("columnheader", name="_etag")).to_have_count(0)


def test_columns_that_do_not_fit_are_said_to_be_missing(asked: Page) -> None:
    listed = ", ".join(f"{number} AS p{number:02d}" for number in range(45))
    ask(asked, f"SELECT {listed} FROM c WHERE c.n = 3")
    expect(asked.get_by_role("columnheader")).to_have_count(40)
    expect(asked.get_by_text("5 more properties")).to_be_visible()


def test_escape_closes_the_options(asked: Page) -> None:
    asked.get_by_text("Options").click()
    asked.get_by_label("Parameters").press("Escape")
    expect(asked.get_by_label("Parameters")).to_be_hidden()
    expect(asked.get_by_text("Options")).to_be_focused()


def test_a_query_that_takes_long_can_be_stopped(asked: Page) -> None:
    Wire(asked).hold("/docs$")
    ask(asked, "SELECT VALUE c.n FROM c WHERE c.n < 5")
    asked.get_by_role("button", name="Stop").click()
    expect(asked.get_by_text("Stopped")).to_be_visible()
    Wire(asked).restore()
    asked.get_by_role("button", name="Run").click()
    expect(asked.get_by_text(re.compile(r"^5 rows · "))).to_be_visible()


def test_rows_are_taken_as_files_and_to_the_clipboard(
    asked: Page, raw: RawClient, container: str
) -> None:
    ask(asked, "SELECT c.id, c.big FROM c WHERE c.n IN (7, 8) ORDER BY c.n")
    rows = [{"id": "i07", "big": 12345678901234567890}, {"id": "i08"}]
    assert json.loads(downloaded(asked, "JSON file", "c.json")) == rows
    assert [
        json.loads(line) for line in downloaded(asked, "Lines file", "c.jsonl").splitlines()
    ] == rows
    for has_clipboard in (True, False):
        asked.evaluate(TAP, has_clipboard)
        asked.get_by_role("button", name="Copy").click()
        expect(asked.get_by_text("2 rows copied").last).to_be_visible()
        assert json.loads(asked.evaluate("window.taken")) == rows
    asked.get_by_role("tab", name="Plan").click()
    expect(asked.get_by_role("button", name="Copy")).to_be_hidden()


# What reaches the clipboard, with the way for safe origins and with the one for others.
TAP = """(hasClipboard) => {
    const writeText = async (text) => { window.taken = text; };
    const clipboard = hasClipboard ? { writeText } : undefined;
    Object.defineProperty(navigator, "clipboard", { configurable: true, value: clipboard });
    document.addEventListener("copy", (event) => { window.taken = event.target.value; });
}"""


def downloaded(page: Page, button: str, name: str) -> str:
    with page.expect_download() as found:
        page.get_by_role("button", name=button).click()
    assert found.value.suggested_filename == name
    return found.value.path().read_text()


def test_lines_of_whole_items_are_those_of_an_export(
    asked: Page, settings: Settings, container: str
) -> None:
    ask(asked, "SELECT * FROM c")
    expect(asked.get_by_text(re.compile(r"^30 rows · "))).to_be_visible()
    _, _, database, _, name = container.split("/")
    arguments = ["export", database, name, "--endpoint", settings.endpoint, "--key", settings.key]
    exported = CliRunner().invoke(main, arguments)
    assert exported.exit_code == 0, exported.output
    assert downloaded(asked, "Lines file", "c.jsonl") == exported.stdout


def test_letters_are_letters_wherever_they_are_shown(
    asked: Page, raw: RawClient, container: str
) -> None:
    body = {"id": "odd", "pk": "p", "nested": {"naïve": ["日本", "a b", 1.50]}}
    assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201  # as \\u escapes
    ask(asked, "SELECT c.nested FROM c WHERE c.id = 'odd'")
    expect(asked.get_by_role("cell")).to_have_text(re.compile(r'{"naïve":\["日本","a b",1.50?\]}'))
    _, _, database, _, name = container.split("/")
    visit(asked, f"{database}/{name}/changes")
    expect(asked.get_by_role("row", name="odd")).to_contain_text('"日本","a b"')
