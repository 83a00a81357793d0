"""The filter of the list of items: a part of the id, or a WHERE clause."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.portal.browser import answered
from tests.portal.items import edit, list_items, put_item, row
from tests.support.raw import RawClient


@pytest.fixture
def users(raw: RawClient, container: str) -> str:
    for number, user in enumerate(("ada", "bela", "ada", "chioma")):
        put_item(raw, container, f"s{number}", user=user, n=number)
    return container


def filter_by(page: Page, clause: str) -> None:
    page.get_by_label("Filter by", exact=True).select_option("where")
    page.get_by_label("WHERE clause").fill(clause)
    page.get_by_label("WHERE clause").press("Enter")


def test_a_where_clause_selects_items_and_is_kept_in_the_address(
    any_page: Page, users: str
) -> None:
    page = any_page
    list_items(page, users)
    expect(page.get_by_role("rowheader")).to_have_count(4)
    filter_by(page, "WHERE c.user = 'ada' -- hers")
    expect(page.get_by_role("rowheader")).to_have_text([re.compile("s0"), re.compile("s2")])
    expect(page).to_have_url(re.compile(r"/items\?where=c\.user"))
    page.reload()
    expect(page.get_by_label("WHERE clause")).to_have_value("c.user = 'ada' -- hers")
    expect(page.get_by_role("rowheader")).to_have_count(2)
    row(page, "s2").get_by_role("link").click()
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile('"s2"'))
    page.go_back()
    expect(page.get_by_role("rowheader")).to_have_count(2)
    filter_by(page, "")
    expect(page.get_by_role("rowheader")).to_have_count(4)
    expect(page).to_have_url(re.compile("/items$"))


@pytest.mark.parametrize(
    ("clause", "column", "selected"),
    [("c.n = = 1", 7, "="), ("'é€😀' = c.user AND AND 1", 20, "AND"), ("c.n = NOPE(1)", 7, "NOPE")],
)
def test_an_error_of_the_server_is_shown_at_the_field_with_its_position(
    page: Page, users: str, clause: str, column: int, selected: str
) -> None:
    list_items(page, users)
    filter_by(page, clause)
    error = page.get_by_role("search").get_by_role("alert")
    expect(error).to_contain_text(f"(column {column})")
    marked = page.get_by_label("WHERE clause").evaluate(
        "(input) => input.value.slice(input.selectionStart, input.selectionEnd)"
    )
    assert marked.startswith(selected)
    expect(page.get_by_role("rowheader")).to_have_count(0)
    filter_by(page, "c.n = 1")
    expect(error).to_be_hidden()
    expect(page.get_by_role("rowheader")).to_have_count(1)


def test_the_filter_by_id_switches_to_a_clause(page: Page, users: str) -> None:
    """Text is a part of the id, unless it begins with WHERE."""
    list_items(page, users)
    page.get_by_label("Filter by id").fill("S1")
    expect(page.get_by_role("rowheader")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"\?id=S1$"))
    page.get_by_label("Filter by id").fill("where c.n > 1")
    clause = page.get_by_label("WHERE clause")
    expect(clause).to_have_value("c.n > 1")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("rowheader")).to_have_count(2)
    filter_by(page, "c.n > 100")
    expect(page.get_by_text("No item meets the WHERE clause.")).to_be_visible()


def test_a_filter_does_not_lose_unsaved_text(page: Page, users: str) -> None:
    editor = edit(page, users, "s1")
    editor.fill('{"id": "s1", "pk": "p", "n": 1, "more": 2}')
    filter_by(page, "c.n < 2")
    expect(page.get_by_role("rowheader")).to_have_count(2)
    expect(editor).to_have_value(re.compile("more"))
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_refresh_does_not_move_the_selection_in_the_clause(page: Page, users: str) -> None:
    """The list is loaded again while the user edits a clause with an error."""
    list_items(page, users)
    filter_by(page, "c.n = = 1")
    error = page.get_by_role("search").get_by_role("alert")
    expect(error).to_be_visible()
    clause = page.get_by_label("WHERE clause")
    refresh = page.get_by_role("region", name="Items").get_by_role("button", name="Refresh")
    clause.evaluate("(input) => input.setSelectionRange(0, 3)")
    with answered(page, "POST", 400, path="/docs"):
        refresh.evaluate("(button) => button.click()")
    with answered(page, "POST", 400, path="/docs"):  # the first one is shown by now
        refresh.evaluate("(button) => button.click()")
    assert clause.evaluate("(input) => [input.selectionStart, input.selectionEnd]") == [0, 3]
