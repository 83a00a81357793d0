"""axe-core finds no serious problem on any page of the portal, nor in its dialogs."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from perseid.config import Settings
from tests.portal.browser import DESKTOP, PHONE, tab
from tests.portal.dialogs import DIALOGS
from tests.portal.screens import SCREENS, return_to_overview, sign_in
from tests.support.accessibility import add_axe, violations
from tests.support.running import running


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_page_has_an_accessibility_problem(
    shop: Settings, chromium: Browser, size: dict[str, int]
) -> None:
    """In light and dark colours. Nothing but colours depends on them."""
    problems: list[str] = []
    with tab(chromium, size=size) as (page, errors):
        add_axe(page)
        for shown in (SCREENS, DIALOGS):
            sign_in(page, shop.endpoint, shop.key)
            for screen in shown:
                return_to_overview(page)
                screen(page)
                problems += violations(page, f"{screen.__name__}, light")
                page.emulate_media(color_scheme="dark")
                problems += violations(page, f"{screen.__name__}, dark", runOnly=["color-contrast"])
                page.emulate_media(color_scheme="light")
                page.keyboard.press("Escape")
        assert not errors
    assert not problems, "\n".join(problems)


def test_the_first_page_of_an_empty_server_has_no_accessibility_problem(
    chromium: Browser,
) -> None:
    with running(Settings(memory=True)) as server, tab(chromium) as (page, _):
        add_axe(page)
        sign_in(page, server.endpoint, server.key)
        expect(page.get_by_role("heading", name="No databases")).to_be_visible()
        assert violations(page, "empty") == []
