"""All versions and deletes in the change feed page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from perseid.clock import MovableClock
from tests.portal.items import put_item, set_default_ttl
from tests.portal.screens import visit_tab
from tests.support.raw import RawClient
from tests.support.ttl_containers import drain


def test_every_version_delete_and_expiry(
    any_page: Page, raw: RawClient, container: str, clock: MovableClock
) -> None:
    page = any_page
    definition = raw.get(container).json | {"changeFeedPolicy": {"retentionDuration": 60}}
    assert raw.put(container, definition).status == 200
    set_default_ttl(raw, container, -1)
    visit_tab(page, container, "changes")
    page.get_by_label("Versions", exact=True).select_option("all")
    expect(page.get_by_role("heading", name="No changes yet")).to_be_visible()
    put_item(raw, container, "a", n=1)
    put_item(raw, container, "a", n=2)
    assert raw.delete(f"{container}/docs/a", pk='["p"]').status == 204
    put_item(raw, container, "b", ttl=5)
    clock.advance(5)
    _, _, database, _, name = container.split("/")
    drain(raw, f"/_perseid/ttl/{database}/{name}")
    page.get_by_role("button", name="Check for changes").click()
    rows = page.get_by_role("row")
    expect(rows).to_have_count(6)
    expect(rows.nth(1)).to_contain_text(re.compile(r"create.*a.*p.*\{.*1\}.*\(new\)"))
    expect(rows.nth(2)).to_contain_text(re.compile(r"replace.*a.*p.*\{.*2\}.*LSN"))
    expect(rows.nth(3)).to_contain_text(re.compile(r"delete.*a.*p.*\{.*2\}"))
    expect(rows.nth(5)).to_contain_text(re.compile(r"delete \(TTL expired\).*b.*p"))
    rows.nth(3).get_by_role("button").click()
    expect(page.get_by_role("dialog").get_by_label("Item as JSON")).to_contain_text('"n": 2')


def test_a_container_without_versions_shows_how_to_enable_them(
    page: Page, raw: RawClient, container: str
) -> None:
    visit_tab(page, container, "changes?versions=all")
    expect(page.get_by_role("heading", name="All versions are not kept")).to_be_visible()
    page.get_by_role("link", name="Open the settings").click()
    minutes = page.get_by_label("Keep all versions and deletes (minutes)")
    card = page.locator("section").filter(has=minutes)
    expect(card.get_by_role("button", name="Save")).to_be_disabled()
    minutes.fill("30")
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Change feed setting saved")).to_be_visible()
    assert raw.get(container).json["changeFeedPolicy"]["retentionDuration"] == 30
    page.get_by_role("link", name="Show all versions").click()
    expect(page.get_by_role("heading", name="No changes yet")).to_be_visible()
    put_item(raw, container, "a")
    page.get_by_label("Start of the feed").select_option("beginning")
    expect(
        page.get_by_role("row", name="create").or_(
            page.get_by_role("heading", name="Not all changes are kept")
        )
    ).to_be_visible()
