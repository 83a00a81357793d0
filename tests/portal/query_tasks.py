"""Tasks of the query page, with the thirty items `row-00`, … whose `n` is their number."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from playwright.sync_api import expect

from tests.portal.portal import Portal
from tests.portal.queries import RECORD_COPY, downloaded, editor, run_query, tool
from tests.portal.test_query_completion import typed

FEW: Final = "SELECT c.id, c.pk, c.n FROM c WHERE c.n < 3"


def run_a_query_again(portal: Portal) -> None:
    """From the history."""
    page = portal.page
    run_query(page, FEW)
    expect(page.get_by_text(re.compile(r"^3 rows · "))).to_be_visible()
    editor(page).fill("SELECT 1")
    tool(page, "History").click()
    page.get_by_role("dialog").get_by_role("listitem").first.get_by_role("button").click()
    expect(editor(page)).to_have_value(FEW)


def save_a_query(portal: Portal) -> None:
    page = portal.page
    tool(page, "Save").click()
    page.get_by_label("Name", exact=True).fill("few")
    page.keyboard.press("Enter")
    portal.expect_message("Saved as")
    editor(page).fill("SELECT 1")
    tool(page, "Saved").click()
    page.get_by_role("button", name="Open few").click()
    expect(editor(page)).to_have_value(FEW)


def accept_a_suggestion(portal: Portal) -> None:
    options = typed(portal.page, "SELECT * FROM c WHERE ", "STARTSW")
    expect(options.first).to_contain_text("STARTSWITH")
    portal.page.keyboard.press("Tab")
    expect(editor(portal.page)).to_have_value("SELECT * FROM c WHERE STARTSWITH()")
    options = typed(portal.page, "SELECT * FROM c WHERE c", ".p")
    expect(options.first).to_contain_text("pk")


def enter_a_missing_parameter(portal: Portal) -> None:
    page = portal.page
    run_query(page, f"{FEW} AND c.n >= @least")
    expect(page.get_by_role("alert")).to_contain_text("@least has no value")
    page.get_by_label("@least").fill("2")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_text(re.compile(r"^1 row · "))).to_be_visible()


def draw_a_chart(portal: Portal) -> None:
    page = portal.page
    run_query(page, FEW)
    page.get_by_role("tab", name="Chart").click()
    page.get_by_role("group", name="Bar chart of n by id").focus()
    page.keyboard.press("End")
    expect(page.get_by_text("id row-02: n 2")).to_be_visible()


def download_csv(portal: Portal) -> None:
    text = downloaded(portal.page, "Download as CSV", "c.csv")
    assert text.splitlines()[:2] == ["id,pk,n", "row-00,p,0"]


def read_the_advice(portal: Portal) -> None:
    portal.page.get_by_role("tab", name="Plan").click()
    advice = portal.page.get_by_role("region", name="Advice")
    expect(advice).to_contain_text("fewer than 500 items")


def open_a_copied_link(portal: Portal) -> None:
    page = portal.page
    page.evaluate(RECORD_COPY, True)
    tool(page, "Copy link").click()
    portal.expect_message("Link copied")
    portal.open_tab("Lifetimes")
    page.goto(page.evaluate("window.copied"))
    expect(editor(page)).to_have_value(FEW)
    expect(page.get_by_text(re.compile(r"^3 rows · "))).to_be_visible()


def open_an_item_from_a_row(portal: Portal) -> None:
    page = portal.page
    page.get_by_role("tab", name="Table").click()
    page.get_by_role("link", name="row-01").click()
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile('"row-01"'))


QUERY_TASKS: Final[tuple[Callable[[Portal], None], ...]] = (
    run_a_query_again,
    save_a_query,
    accept_a_suggestion,
    enter_a_missing_parameter,
    draw_a_chart,
    download_csv,
    read_the_advice,
    open_a_copied_link,
    open_an_item_from_a_row,
)
