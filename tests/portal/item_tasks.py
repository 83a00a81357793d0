"""Tasks with the list of items and with several versions of an item."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from playwright.sync_api import expect

from tests.portal.items import row
from tests.portal.portal import Portal
from tests.portal.test_item_columns import expect_first, sort_by
from tests.portal.test_item_filter import filter_by
from tests.portal.test_item_upload import choose, upload


def filter_items(portal: Portal) -> None:
    page = portal.page
    portal.put("ada-1", user="ada")
    portal.put("bela-1", user="bela")
    portal.list_items()
    filter_by(page, "c.user = = 'ada'")
    error = page.get_by_role("search").get_by_role("alert")
    expect(error).to_contain_text("(column 10)")
    filter_by(page, "c.user = 'ada'")
    expect(error).to_be_hidden()
    expect(page.get_by_role("rowheader")).to_have_text([re.compile("ada-1")])


def sort_by_a_chosen_column(portal: Portal) -> None:
    page = portal.page
    portal.put("cheap", total=1)
    portal.put("dear", total=9)
    portal.list_items()
    expect(row(page, "dear")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    dialog.get_by_label("total").check()
    dialog.get_by_role("button", name="Show").click()
    expect(row(page, "dear")).to_contain_text("9")
    sort_by(page, "total, descending", "total", times=2)
    expect_first(page, "dear", "cheap")


def sort_by_expiry(portal: Portal) -> None:
    portal.put("next", ttl=30)
    portal.list_items()
    expect(row(portal.page, "next")).to_be_visible()
    sort_by(portal.page, "Expiry, soonest first", "Expires in")
    expect_first(portal.page, "next", "made")


def delete_two_items(portal: Portal) -> None:
    page = portal.page
    portal.list_items()
    for id_ in ("cheap", "dear"):
        page.get_by_label(f"Select {id_}").check()
    selected = page.get_by_role("group", name="Selected items")
    expect(selected).to_contain_text("2 items selected")
    selected.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 2 items").click()
    portal.expect_message("2 items deleted")
    assert portal.read("cheap") is portal.read("dear") is None


def upload_a_file(portal: Portal) -> None:
    lines = "".join(f'{{"id": "line-{number}", "pk": "p"}}\n' for number in range(3))
    dialog = choose(portal.page, ("lines.jsonl", lines))
    expect(dialog).to_contain_text("3 items in 1 file, ready to upload.")
    upload(dialog)
    expect(dialog).to_contain_text("3 items created")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row(portal.page, "line-2")).to_be_visible()


def show_the_shortcuts(portal: Portal) -> None:
    portal.page.get_by_role("button", name="Columns").focus()
    portal.page.keyboard.press("?")
    dialog = portal.page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_contain_text("Save the open item")
    portal.page.keyboard.press("Escape")


def format_an_item(portal: Portal) -> None:
    """Save is enabled by another content, not by another layout."""
    page = portal.page
    editor = portal.edit("line-0")
    save = page.get_by_role("button", name="Save")
    expect(save).to_be_disabled()
    editor.fill('{"id":"line-0","pk":"p"}')
    page.get_by_role("button", name="Format").click()
    expect(editor).to_have_value('{\n  "id": "line-0",\n  "pk": "p"\n}')
    expect(save).to_be_disabled()
    editor.fill('{"id": "line-0", "pk": "p", "n": 1}')
    expect(save).to_be_enabled()


def save_what_another_client_has_saved(portal: Portal) -> None:
    """The same values in another order and spelling: no conflict."""
    portal.page.get_by_label("Item as JSON").fill('{"n": 1.0, "pk": "p", "id": "line-0"}')
    portal.put("line-0", n=1)
    portal.page.get_by_role("button", name="Save").click()
    portal.expect_message("already saved the same content")
    expect(portal.page.get_by_role("button", name="Save")).to_be_disabled()


def keep_all_versions(portal: Portal) -> None:
    page = portal.page
    portal.open_tab("Scale & Settings")
    page.get_by_label("Keep all versions and deletes (minutes)").fill("60")
    portal.save("Change feed")
    portal.expect_message("Change feed setting saved")
    page.get_by_role("link", name="Show all versions").click()
    expect(page.get_by_role("heading", name="No changes yet")).to_be_visible()
    portal.put("versioned", n=1)
    portal.put("versioned", n=2)
    page.get_by_role("button", name="Check for changes").click()
    rows = page.get_by_role("row").filter(has_text="versioned")
    expect(rows).to_have_text([re.compile("create"), re.compile("replace")])


ITEM_TASKS: Final[tuple[Callable[[Portal], None], ...]] = (
    filter_items,
    sort_by_a_chosen_column,
    sort_by_expiry,
    delete_two_items,
    upload_a_file,
    show_the_shortcuts,
    format_an_item,
    save_what_another_client_has_saved,
)
