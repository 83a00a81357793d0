"""The change feed of a container, page by page."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.portal.browser import answered
from tests.portal.items import put_item
from tests.portal.screens import visit, visit_tab
from tests.support.raw import RawClient


def test_changes_from_the_beginning_and_later_changes(
    page: Page, raw: RawClient, container: str
) -> None:
    for number in range(130):
        put_item(raw, container, f"i{number:03d}", n=number)
    visit_tab(page, container, "changes")
    expect(page.get_by_role("row")).to_have_count(101)
    expect(page.get_by_role("row").nth(1)).to_contain_text(re.compile(r"i000.*p.*{.*n.*0"))
    page.get_by_role("button", name="Load more").press("Enter")
    expect(page.get_by_role("row")).to_have_count(131)
    expect(page.get_by_text("130 changes")).to_be_visible()
    expect(page.get_by_role("button", name="Load more")).to_be_focused()
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_text("No more changes")).to_be_visible()
    put_item(raw, container, "i007", n="again")
    page.get_by_role("button", name="Check for changes").click()
    expect(page.get_by_role("row").last).to_contain_text(re.compile("i007.*again"))
    page.get_by_role("row").last.get_by_role("link").click()
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile("again"))


def test_changes_from_now_on(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "before")
    visit_tab(page, container, "changes")
    expect(page.get_by_role("row", name="before")).to_be_visible()
    with answered(page, "GET", 304, path="/docs"):
        page.get_by_label("Start of the feed").select_option("now")
    expect(page.get_by_role("heading", name="No changes yet")).to_be_visible()
    put_item(raw, container, "after", big=12345678901234567890)
    page.get_by_role("button", name="Check for changes").click()
    expect(page.get_by_role("row", name="after")).to_contain_text("12345678901234567890")
    expect(page.get_by_role("row")).to_have_count(2)


def test_an_empty_container_and_a_deleted_one(page: Page, raw: RawClient, container: str) -> None:
    visit_tab(page, container, "changes")
    expect(page.get_by_role("heading", name="No changes")).to_be_visible()
    assert raw.delete(container).status == 204
    page.get_by_role("button", name="Check for changes").click()
    expect(page.get_by_role("alert")).to_contain_text("Not found")


@pytest.mark.parametrize("throughput", ["400", "18000"])
def test_hierarchical_keys_in_one_range_and_several(
    page: Page, raw: RawClient, database: str, throughput: str
) -> None:
    key = {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2}
    made = raw.post(f"{database}/colls", {"id": "h", "partitionKey": key}, throughput=throughput)
    assert made.status == 201
    for number in range(12):
        body = {"id": f"i{number}", "a": f"tenant {number}", "b": number}
        pk = json.dumps([body["a"], number])
        assert raw.post(f"{database}/colls/h/docs", body, pk=pk).status == 201
    visit(page, f"{database.removeprefix('/dbs/')}/h/changes")
    more = page.get_by_role("button", name=re.compile("Load more|Check for changes"))
    expect(more).to_be_visible()
    while more.inner_text() == "Load more":
        with page.expect_response("**/docs"):
            more.click()
        expect(more).to_be_enabled()
    expect(page.get_by_text("12 changes")).to_be_visible()
    expect(page.get_by_role("row", name="tenant 11 / 11")).to_be_visible()
    page.get_by_role("link", name="i11").click()
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile("tenant 11"))
