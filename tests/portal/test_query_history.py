"""The history of a container's queries, saved queries, and links to a query."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.portal.queries import (
    RECORD_COPY,
    create_numbered_items,
    editor,
    run_query,
    tool,
)
from tests.portal.screens import visit_tab
from tests.support.raw import RawClient

NO_STORAGE = """() => { Storage.prototype.setItem = () => { throw new DOMException("full") } }"""


@pytest.fixture
def query_page(any_look: Page, raw: RawClient, container: str) -> Page:
    create_numbered_items(raw, container)
    visit_tab(any_look, container, "query")
    return any_look


def run(page: Page, text: str) -> None:
    """Runs a query and waits for its rows."""
    run_query(page, text)
    expect(page.get_by_role("button", name="Run")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^\d+ rows?( so far)? · "))).to_be_visible()


def test_the_history_lists_each_query_once_newest_first(query_page: Page) -> None:
    for text in ("SELECT VALUE 1", "SELECT VALUE c.n FROM c WHERE c.n < 3", "SELECT VALUE 1"):
        run(query_page, text)
    run_query(query_page, "SELECT nonsense FROM")  # what fails is not listed
    expect(query_page.get_by_role("alert")).to_be_visible()
    tool(query_page, "History").click()
    entries = query_page.get_by_role("dialog").get_by_role("listitem")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text(re.compile(r"SELECT VALUE 1.*1 row · \d+\.\d\d RU"))
    expect(entries.last).to_contain_text("3 rows")
    entries.last.get_by_role("button").click()
    expect(editor(query_page)).to_have_value("SELECT VALUE c.n FROM c WHERE c.n < 3")
    query_page.reload()  # it is kept
    tool(query_page, "History").click()
    expect(entries).to_have_count(2)
    query_page.get_by_role("button", name="Clear history").click()
    query_page.get_by_role("dialog").last.get_by_role("button", name="Clear history").click()
    expect(query_page.get_by_role("dialog")).to_have_count(0)
    tool(query_page, "History").click()
    expect(query_page.get_by_role("dialog")).to_contain_text("No queries yet")
    query_page.keyboard.press("Escape")


def test_the_history_is_limited(page: Page, container: str) -> None:
    visit_tab(page, container, "query")
    counts = page.evaluate(
        """async () => {
            const { QueryHistory } = await import("./query-history.js");
            const history = new QueryHistory({ database: "x", container: "limited" });
            for (let n = 0; n < 60; n++) history.add({ query: `SELECT ${n}`, parameters: {} });
            history.add({ query: "x".repeat(30000), parameters: {} });
            const { entries } = history;
            history.clear();
            return [entries.length, entries[0].query, history.entries.length];
        }"""
    )
    assert counts == [50, "SELECT 59", 0]


def test_queries_are_saved_renamed_overwritten_and_deleted(query_page: Page) -> None:
    def save(text: str, name: str) -> None:
        editor(query_page).fill(text)
        tool(query_page, "Save").click()
        query_page.get_by_label("Name", exact=True).fill(name)
        query_page.get_by_role("dialog").get_by_role("button", name="Save").click()

    dialogs = query_page.get_by_role("dialog")
    save("SELECT 1", "first")
    expect(dialogs).to_have_count(0)
    save("SELECT 2", "second")
    expect(dialogs).to_have_count(0)
    save("SELECT 3", "first")
    expect(dialogs.last).to_contain_text("already saved as first")
    dialogs.last.get_by_role("button", name="Overwrite").click()
    expect(dialogs).to_have_count(0)
    tool(query_page, "Saved").click()
    expect(dialogs.get_by_role("listitem")).to_have_count(2)
    dialogs.get_by_role("button", name="Rename second").click()
    query_page.get_by_label("Name", exact=True).fill("last")
    query_page.keyboard.press("Enter")
    expect(dialogs).to_have_count(1)
    dialogs.get_by_role("button", name="Delete last").click()
    dialogs.last.get_by_role("button", name="Delete", exact=True).click()
    expect(dialogs.get_by_role("listitem")).to_have_count(1)
    dialogs.get_by_role("button", name="Open first").click()
    expect(editor(query_page)).to_have_value("SELECT 3")


def test_without_storage_the_page_still_works(query_page: Page) -> None:
    query_page.evaluate(NO_STORAGE)
    run(query_page, "SELECT VALUE c.n FROM c WHERE c.n < 3")
    expect(query_page.get_by_text(re.compile(r"^3 rows"))).to_be_visible()
    tool(query_page, "Save").click()
    query_page.get_by_label("Name", exact=True).fill("kept")
    query_page.keyboard.press("Enter")
    expect(query_page.get_by_text("The browser does not store it")).to_be_visible()
    tool(query_page, "Saved").click()
    expect(query_page.get_by_role("button", name="Open kept")).to_be_visible()
    query_page.keyboard.press("Escape")
    query_page.get_by_role("link", name="Items", exact=True).click()
    expect(query_page.get_by_role("button", name="New item")).to_be_visible()


def test_a_link_opens_and_runs_the_query(query_page: Page, key: str) -> None:
    big = 9007199254740993
    query_page.get_by_text("Options").click()
    query_page.get_by_label("Partition key").fill('"p1"')
    query_page.get_by_label("Page size").select_option("25")
    query_page.keyboard.press("Escape")
    text = "SELECT VALUE c.id\nFROM c -- 100 % of / them?\nWHERE c.n < @n AND @s != '#'"
    editor(query_page).fill(text)
    query_page.get_by_label("@n").fill(str(big))
    query_page.get_by_label("@s").fill("a/b")
    query_page.evaluate(RECORD_COPY, True)
    tool(query_page, "Copy link").click()
    expect(query_page.get_by_text("Link copied")).to_be_visible()
    address = query_page.evaluate("window.copied")
    assert key not in address
    assert "key=" not in address
    query_page.goto("about:blank")
    query_page.goto(address)
    expect(editor(query_page)).to_have_value(text)
    expect(query_page.get_by_label("@n")).to_have_value(str(big))
    expect(query_page.get_by_label("@s")).to_have_value('"a/b"')
    expect(query_page.get_by_text(re.compile(r"^10 rows"))).to_be_visible()
    assert query_page.get_by_label("Page size").input_value() == "25"
    editor(query_page).fill("SELECT 1")  # the address is no longer that of the page
    expect(editor(query_page)).to_have_value("SELECT 1")
    assert query_page.evaluate("location.hash").endswith("/query")
    query_page.evaluate("address => { location.href = address }", address)
    expect(editor(query_page)).to_have_value(text)


def test_a_query_that_is_too_long_gets_no_link(page: Page, container: str) -> None:
    visit_tab(page, container, "query")
    editor(page).fill("SELECT " + json.dumps("x" * 9000))
    tool(page, "Copy link").click()
    expect(page.get_by_role("alert")).to_contain_text("The link would have 9,")


def test_a_damaged_link_fills_in_what_it_can(page: Page, container: str) -> None:
    for number, rest in enumerate(("%7Bnot", "[]", "%7B%22a%22:1%7D")):
        visit_tab(page, container, f"query/SELECT%20{number}/{rest}")
        expect(editor(page)).to_have_value(f"SELECT {number}")
        expect(page.get_by_text(re.compile(r"^1 row"))).to_be_visible()
