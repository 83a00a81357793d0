"""Dialogs of the portal that are on no image; each function starts like those of `screens.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from playwright.sync_api import Page, expect

from tests.portal.browser import Network
from tests.portal.queries import run_query, tool
from tests.portal.screens import (
    conflict,
    item,
    items,
    lifetimes,
    query,
    settings,
    versions,
    visit,
)
from tests.portal.test_item_filter import filter_by
from tests.portal.test_item_upload import choose
from tests.portal.test_query_completion import typed


def new_database(page: Page) -> None:
    open_menu(page)
    page.get_by_role("button", name="New database").first.click()
    page.get_by_role("dialog").get_by_role("radio", name="Autoscale").check()


def new_container_details(page: Page) -> None:
    visit(page, "shop")
    page.get_by_role("button", name="New container", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Throughput and unique keys").click()
    dialog.get_by_label("Name").fill("receipts")
    dialog.get_by_label("Partition key").fill("no slash")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_be_visible()


def delete_database(page: Page) -> None:
    visit(page, "telemetry")
    page.get_by_role("button", name="Delete database").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def delete_container(page: Page) -> None:
    visit(page, "shop/sessions/settings")
    page.get_by_role("button", name="Delete container").click()
    page.get_by_label("Type sessions to confirm").fill("sessions")


def delete_item(page: Page) -> None:
    item(page)
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def expire_items(page: Page) -> None:
    settings(page)
    page.get_by_label("Seconds", exact=True).fill("60")
    page.locator("section").filter(
        has=page.get_by_role("heading", name="Time to Live", exact=True)
    ).get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_contain_text("expire immediately")


def leave_unsaved(page: Page) -> None:
    settings(page)
    page.get_by_role("link", name="Query").click()
    expect(page.get_by_role("button", name="Discard changes")).to_be_visible()


def explain_expiry(page: Page) -> None:
    item(page)
    page.get_by_text("System properties").click()
    page.get_by_role("button", name="Explain expiry").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def chart_bar(page: Page) -> None:
    lifetimes(page)
    page.get_by_text("Show as a table").click()
    page.get_by_role("group", name="Items and bytes that expire").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("1 item")


def server_failure(page: Page) -> None:
    """A page of which the server sends nothing."""
    Network(page).fail("^/_perseid/ttl/")
    visit(page, "shop/sessions/lifetimes")
    expect(page.get_by_role("main")).to_contain_text("The server does not respond")
    Network(page).restore()


def filtered_items(page: Page) -> None:
    items(page)
    filter_by(page, "c.pages > 12")
    expect(page.get_by_role("rowheader").first).to_contain_text("session-")
    expect(page.get_by_role("row", name="otp-4711")).to_have_count(0)


def filter_error(page: Page) -> None:
    visit(page, "shop/sessions/items")
    filter_by(page, "c.pages = = 12")
    expect(page.get_by_role("search").get_by_role("alert")).to_be_visible()


def selected_items(page: Page) -> None:
    visit(page, "shop/sessions/items")
    for id_ in ("session-004", "session-007"):
        page.get_by_label(f"Select {id_}").check()
    expect(page.get_by_text("2 items selected")).to_be_visible()


def columns(page: Page) -> None:
    visit(page, "shop/sessions/items")
    expect(page.get_by_role("row", name="session-039")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    expect(page.get_by_role("dialog", name="Columns")).to_be_visible()


def upload_problems(page: Page) -> None:
    visit(page, "shop/sessions/items")
    text = '{"id": "a", "user": "ada"}\n{"id": 2}\n{"id": "c",}\n'
    expect(choose(page, ("f.jsonl", text)).get_by_role("list", name="Problems")).to_be_visible()


def shortcuts(page: Page) -> None:
    page.get_by_role("heading", name="Overview").wait_for()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def suggestions(page: Page) -> None:
    visit(page, "shop/sessions/query")
    expect(typed(page, "SELECT * FROM c WHERE c", ".").first).to_be_visible()
    page.keyboard.press("ArrowDown")


def missing_parameter(page: Page) -> None:
    visit(page, "shop/sessions/query")
    run_query(page, "SELECT * FROM c WHERE c.user = @user AND c.pages > @pages")
    expect(page.get_by_role("alert")).to_contain_text("no value")


def line_chart(page: Page) -> None:
    visit(page, "shop/sessions/query")
    run_query(page, "SELECT c._ts, c.pages FROM c")
    page.get_by_role("tab", name="Chart").click()
    page.get_by_role("group", name="Line chart").focus()
    page.keyboard.press("End")
    expect(page.locator(".dot.selected")).to_have_count(1)


def query_history(page: Page) -> None:
    query(page)
    expect(page.get_by_text("rows · ")).to_be_visible()
    tool(page, "History").click()
    expect(page.get_by_role("dialog").get_by_role("listitem").first).to_be_visible()


def saved_queries(page: Page) -> None:
    query(page)
    tool(page, "Save").click()
    page.get_by_label("Name", exact=True).fill("many pages")
    page.keyboard.press("Enter")
    overwrite = page.get_by_role("button", name="Overwrite")
    expect(overwrite.or_(page.get_by_text("Saved as"))).to_be_visible()
    if overwrite.is_visible():  # saved before, on another page of this browser
        overwrite.click()
    tool(page, "Saved").click()
    expect(page.get_by_role("button", name="Open many pages")).to_be_visible()


def version(page: Page) -> None:
    """A deleted version as JSON."""
    versions(page)
    page.get_by_role("row", name="delete").get_by_role("button").first.click()
    expect(page.get_by_role("dialog").get_by_label("Item as JSON")).to_be_visible()


def conflict_lines(page: Page) -> None:
    conflict(page)
    page.get_by_role("dialog").locator("summary").click()


def sign_in_again(page: Page) -> None:
    item(page)
    page.get_by_label("Item as JSON").fill("{}")
    Network(page).answer("^/dbs/", 401)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog", name="Sign in again")).to_be_visible()
    Network(page).restore()


def open_menu(page: Page) -> None:
    """Opens the tree, which is always visible except on a phone."""
    menu = page.get_by_role("button", name="Databases", exact=True)
    expect(page.get_by_role("button", name="Server clock")).to_be_visible()
    if menu.is_visible():
        menu.click()
    expect(page.get_by_role("navigation", name="Databases and containers")).to_be_visible()


DIALOGS: Final[tuple[Callable[[Page], None], ...]] = (
    new_database,
    new_container_details,
    delete_database,
    delete_container,
    delete_item,
    expire_items,
    leave_unsaved,
    explain_expiry,
    chart_bar,
    server_failure,
    filtered_items,
    filter_error,
    selected_items,
    columns,
    upload_problems,
    shortcuts,
    suggestions,
    missing_parameter,
    line_chart,
    query_history,
    saved_queries,
    version,
    conflict_lines,
    open_menu,
    sign_in_again,  # last: the key is lost
)
