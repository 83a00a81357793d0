"""Several items: selected and deleted."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.portal.browser import Network
from tests.portal.items import list_items, put_item, read_item, row
from tests.support.raw import RawClient


@pytest.fixture
def five(raw: RawClient, container: str) -> str:
    for number in range(5):
        put_item(raw, container, f"i{number}")
    return container


def test_selected_items_are_deleted_after_a_confirmation(
    any_page: Page, raw: RawClient, five: str
) -> None:
    page = any_page
    list_items(page, five)
    page.get_by_label("Select i1").check()
    page.get_by_label("Select i3").click(modifiers=["Shift"])
    expect(page.get_by_text("3 items selected")).to_be_visible()
    expect(page.get_by_label("Item as JSON")).to_have_count(0)  # a click on a box opens nothing
    page.get_by_role("group", name="Selected items").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete 3 items?")
    dialog.get_by_role("button", name="Cancel").click()
    assert read_item(raw, five, "i2") is not None
    page.get_by_role("group", name="Selected items").get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete 3 items").click()
    expect(page.get_by_text("3 items deleted")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_count(2)
    assert [read_item(raw, five, f"i{n}") is None for n in range(5)] == [False, *[True] * 3, False]
    expect(page.get_by_role("group", name="Selected items")).to_be_hidden()


def test_all_items_shown_are_selected(page: Page, five: str) -> None:
    list_items(page, five)
    everything = page.get_by_label("Select all items shown")
    page.get_by_label("Select i1").check()
    assert everything.evaluate("(box) => box.indeterminate")
    everything.check()
    expect(page.get_by_text("5 items selected")).to_be_visible()
    page.get_by_role("button", name="Clear selection").click()
    expect(everything).not_to_be_checked()


def test_an_item_that_changed_meanwhile_stays_unless_the_user_insists(
    page: Page, raw: RawClient, five: str
) -> None:
    list_items(page, five)
    page.get_by_label("Select all items shown").check()
    put_item(raw, five, "i2", changed=True)
    assert raw.delete(f"{five}/docs/i4", pk='["p"]').status == 204  # counts as deleted
    Network(page).answer("/docs/i0$", 403, '{"message": "not this one"}')
    page.get_by_role("group", name="Selected items").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete 5 items").click()
    failures = page.get_by_role("dialog", name="2 items not deleted")
    expect(failures).to_contain_text(re.compile("i2 Another client has changed it"))
    expect(failures).to_contain_text("i0 not this one")
    assert read_item(raw, five, "i2")["changed"] is True
    failures.get_by_role("button", name="Delete 1 changed item").click()
    again = page.get_by_role("dialog", name="1 item not deleted")
    again.get_by_role("button", name="Close").last.click()
    expect(page.get_by_text("4 items deleted")).to_be_visible()
    assert read_item(raw, five, "i2") is None
    expect(row(page, "i0")).to_be_visible()
