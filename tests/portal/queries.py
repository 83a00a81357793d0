"""The query page: example items, and how tests use the page."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, Page

from tests.support.raw import RawClient

# Records what is copied, with the clipboard of secure pages and with the one of others.
RECORD_COPY = """(hasClipboard) => {
    const writeText = async (text) => { window.copied = text; };
    const clipboard = hasClipboard ? { writeText } : undefined;
    Object.defineProperty(navigator, "clipboard", { configurable: true, value: clipboard });
    document.addEventListener("copy", (event) => { window.copied = event.target.value; });
}"""


def downloaded(page: Page, button: str, name: str) -> str:
    with page.expect_download() as result:
        page.get_by_role("button", name=button, exact=True).click()
    assert result.value.suggested_filename == name
    return result.value.path().read_text()


def create_numbered_items(raw: RawClient, container: str) -> None:
    """Thirty items in three partitions."""
    for number in range(30):
        body: dict[str, Any] = {"id": f"i{number:02d}", "pk": f"p{number % 3}", "n": number}
        if number == 7:
            body["big"] = 12345678901234567890
        create_item(raw, container, body)


def create_item(raw: RawClient, container: str, body: dict[str, Any]) -> None:
    assert raw.post(f"{container}/docs", body, pk=json.dumps([body["pk"]])).status == 201


def editor(page: Page) -> Locator:
    return page.get_by_label("Query", exact=True)


def run_query(page: Page, text: str) -> None:
    editor(page).fill(text)
    page.keyboard.press("Control+Enter")


def tool(page: Page, name: str) -> Locator:
    """A button next to Run."""
    return page.get_by_role("group", name="Queries").get_by_role("button", name=name, exact=True)
