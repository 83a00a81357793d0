"""What the tasks of `test_tasks.py` work with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Locator, Page, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.portal.items import put_item, read_item, row
from tests.support.raw import RawClient


@dataclass(frozen=True)
class Portal:
    """A tab, and the container `c` with the key /pk that its first tasks create."""

    page: Page
    raw: RawClient
    clock: MovableClock
    settings: Settings
    database: str

    @property
    def container(self) -> str:
        return f"/dbs/{self.database}/colls/c"

    def definition(self) -> dict[str, Any]:
        reply = self.raw.get(self.container)
        assert reply.status == 200
        body: dict[str, Any] = reply.json
        return body

    def put(self, id_: str, **rest: Any) -> dict[str, Any]:
        return put_item(self.raw, self.container, id_, **rest)

    def read(self, id_: str) -> Any:
        return read_item(self.raw, self.container, id_)

    def open_tab(self, name: str) -> None:
        self.page.get_by_role("navigation", name="Container", exact=True).get_by_role(
            "link", name=name
        ).click()

    def list_items(self) -> None:
        """Opens another tab first: the list that is open already refreshes itself only slowly."""
        self.open_tab("Lifetimes")
        self.open_tab("Items")

    def edit(self, id_: str) -> Locator:
        self.list_items()
        row(self.page, id_).get_by_role("link").click()
        editor = self.page.get_by_label("Item as JSON")
        expect(editor).to_have_value(re.compile(f'"{id_}"'))
        return editor

    def card(self, title: str) -> Locator:
        heading = self.page.get_by_role("heading", name=title, exact=True)
        return self.page.locator("section").filter(has=heading)

    def save(self, title: str) -> None:
        self.card(title).get_by_role("button", name="Save").click()

    def expect_message(self, text: str) -> None:
        """Waits for a message and removes it, so that the next one can be recognised."""
        toast = self.page.locator(".toast").filter(has_text=text)
        expect(toast).to_be_visible()
        toast.get_by_role("button", name="Dismiss").click()
