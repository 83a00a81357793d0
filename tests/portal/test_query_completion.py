"""Suggestions while a query is typed, and the fields of its parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from perseid.query.functions import AGGREGATES, BUILTINS
from perseid.query.lexer import KEYWORDS
from tests.portal.browser import Network
from tests.portal.queries import create_item, editor, run_query
from tests.portal.screens import visit_tab
from tests.support.raw import RawClient

DOCS = Path(__file__).parents[2] / "docs" / "query.md"
ITEM: dict[str, Any] = {
    "id": "i1", "pk": "p", "name": "Ada", "number": 7, "odd name": 1, "order": 2,
    "home": {"city": "Oslo"}, "tags": [{"label": "a"}, {"colour": "b"}],
}  # fmt: skip


@pytest.fixture
def query_page(any_look: Page, raw: RawClient, container: str) -> Page:
    create_item(raw, container, ITEM)
    visit_tab(any_look, container, "query")
    expect(editor(any_look)).to_be_visible()
    return any_look


def typed(page: Page, text: str, then: str = "") -> Locator:
    """Puts the caret after `text` and types `then`; the options of the list."""
    editor(page).fill(text)
    editor(page).press("End")
    page.keyboard.type(then)
    return page.get_by_role("listbox", name="Suggestions").get_by_role("option")


def test_the_list_of_functions_is_that_of_the_server(page: Page) -> None:
    listed = page.evaluate("async () => (await import('./query-functions.js')).FUNCTIONS")
    assert {name.upper() for name, _, _ in listed} == {*BUILTINS, *AGGREGATES}
    tables = DOCS.read_text().split("## Functions")[1]
    rows = re.findall(r"^\| `(\w+)\((.*?)\)` \| (.*?) \|", tables, re.MULTILINE)
    assert [tuple(row) for row in listed] == [
        (name, arguments, text.replace("`", "")) for name, arguments, text in rows
    ]
    words = page.evaluate("async () => (await import('./query-language.js')).KEYWORDS")
    assert set(words) == KEYWORDS


def test_properties_after_an_alias(query_page: Page) -> None:
    options = typed(query_page, "SELECT * FROM c WHERE c", ".")
    expect(options.first).to_be_visible()  # after some items were read
    expect(options.filter(has_text="name").first).to_contain_text("string")
    query_page.keyboard.type("nu")
    expect(options).to_have_text([re.compile("^number")])
    area = editor(query_page)
    expect(area).to_have_attribute("aria-activedescendant", re.compile(".+"))
    query_page.keyboard.press("Tab")
    expect(area).to_have_value("SELECT * FROM c WHERE c.number")
    expect(area).to_be_focused()
    expect(options).to_have_count(0)
    query_page.keyboard.press("Control+z")
    expect(area).to_have_value("SELECT * FROM c WHERE c.nu")
    query_page.keyboard.press("Tab")  # the list is closed: Tab leaves the editor
    expect(area).not_to_be_focused()


SUGGESTED = [
    ("SELECT * FROM c WHERE c.home.", ["city"]),
    ("SELECT * FROM c WHERE c.tags.", ["[0]"]),
    ("SELECT * FROM c WHERE c.tags[0].", ["label", "colour"]),
    ("SELECT * FROM c JOIN t IN c.tags WHERE t.", ["label", "colour"]),
    ('SELECT * FROM c WHERE c["home"].', ["city"]),
    ("SELECT * FROM things AS it WHERE it.home.", ["city"]),
    ("SELECT c.home.", ["city"]),
    ("SELECT * FROM c WHERE x.", []),
    ("SELECT * FROM c WHERE c.name = 'c.", []),
    ("SELECT * FROM c -- c.", []),
    ("SELECT * FROM c /* STARTSW", []),
    ("SELECT * FROM c WHERE @co", []),
    ("SELECT * FROM c WHERE c.n > 12", []),
    ("SELECT * FROM c WHERE STARTSWI", ["STARTSWITH"]),
    ("SELECT * FROM customer WHERE custo", ["customer"]),
    ("SELECT * FROM c ORDE", ["ORDER"]),
    ("SELECT * FROM c", []),
    ("SELECT * FROM c JOIN c", []),
    ("SELECT * FROM customer JOIN t IN c", ["customer"]),
]


def test_what_is_suggested(page: Page) -> None:
    result = page.evaluate(
        """async ([texts, item]) => {
            const { PropertyPaths } = await import("./property-paths.js");
            const { suggestionsAt } = await import("./completion.js");
            const paths = new PropertyPaths();
            paths.add(item);
            const at = (text) => suggestionsAt(text, text.length, paths)?.list ?? [];
            return texts.map((text) => at(text).map(({ name }) => name));
        }""",
        [[text for text, _ in SUGGESTED], ITEM],
    )
    assert dict(zip([text for text, _ in SUGGESTED], result, strict=True)) == dict(SUGGESTED)


def test_names_that_need_brackets_get_them(query_page: Page) -> None:
    for name, expected in (("odd", '["odd name"]'), ("ord", '["order"]')):
        options = typed(query_page, "SELECT * FROM c WHERE c", f".{name}")
        expect(options.first).to_be_visible()
        options.first.click()
        expect(editor(query_page)).to_have_value(f"SELECT * FROM c WHERE c{expected}")
        expect(editor(query_page)).to_be_focused()


def test_functions_and_keys(query_page: Page) -> None:
    area = editor(query_page)
    options = typed(query_page, "SELECT VALUE ", "array_")
    expect(options.first).to_contain_text("ARRAY_AVG(a)mean of an array of numbers")
    query_page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    query_page.keyboard.press("ArrowUp")
    query_page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    query_page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    query_page.keyboard.press("Control+Space")
    expect(options.first).to_be_visible()
    query_page.keyboard.press("Enter")
    query_page.keyboard.type("[4]")
    expect(area).to_have_value("SELECT VALUE ARRAY_AVG([4])")
    options = typed(query_page, "SELECT * FROM ", "c")  # typed completely: Enter is a new line
    query_page.keyboard.press("Enter")
    expect(area).to_have_value("SELECT * FROM c\n")
    box = query_page.get_by_role("listbox")
    expect(box).to_have_count(0)


def test_the_list_fits_on_the_page(query_page: Page) -> None:
    options = typed(query_page, "SELECT * FROM c WHERE c.name = 'some longer text' AND ", "ST")
    expect(options.first).to_be_visible()
    fits = "node => node.getBoundingClientRect().right <= innerWidth"
    assert query_page.get_by_role("listbox").evaluate(fits)
    query_page.keyboard.press("Control+Enter")  # runs, and closes the list
    expect(options).to_have_count(0)


def test_missing_and_unused_parameters(query_page: Page) -> None:
    network = Network(query_page)
    network.hold("/docs$")
    text = "SELECT VALUE c.name FROM c WHERE c.number = @n AND c.id = @id -- @no '@no'"
    run_query(query_page, text)
    alert = query_page.get_by_role("alert")
    expect(alert).to_contain_text("@n, @id have no value")
    expect(query_page.get_by_label("@n", exact=True)).to_be_focused()
    assert network.intercepted == []
    network.restore()
    parameters = query_page.get_by_role("group", name="Parameters")
    expect(parameters.get_by_role("textbox")).to_have_count(2)
    query_page.get_by_label("@n", exact=True).fill("7")
    query_page.get_by_label("@id").fill('"i1')
    query_page.keyboard.press("Control+Enter")
    expect(alert).to_contain_text("The value of @id is not valid JSON")
    query_page.get_by_label("@id").fill("i1")  # other text is a string
    expect(parameters).to_contain_text("string")
    query_page.keyboard.press("Control+Enter")
    expect(query_page.get_by_role("cell", name="Ada")).to_be_visible()
    run_query(query_page, "SELECT VALUE c.pk FROM c WHERE c.number = @n")
    expect(parameters).to_contain_text("The query does not use @id: it is not sent.")
    expect(query_page.get_by_role("cell", name="p", exact=True)).to_be_visible()
