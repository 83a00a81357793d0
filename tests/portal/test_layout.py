"""Every page at every width: it fits, has labels for screen readers, works with the keyboard."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect

from perseid.config import Settings
from tests.portal.browser import DESKTOP, PHONE, tab
from tests.portal.screens import (
    SCREENS,
    items,
    return_to_overview,
    sign_in,
    visit,
)
from tests.support.raw import RawClient

NAMELESS = """() => [...document.querySelectorAll("button, a, input, select, textarea")]
    .filter((node) => node.checkVisibility())
    .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim()
        || node.labels?.length))
    .map((node) => node.outerHTML)"""
TOO_WIDE = """() => [...document.querySelectorAll("body *")]
    .filter((node) => node.checkVisibility())
    .filter((node) => !node.closest(".table-wrap, .code, .tree, pre, svg, .skip"))
    .filter((node) => node.getBoundingClientRect().right > innerWidth + 1)
    .map((node) => node.outerHTML.slice(0, 120))"""
CUT_OFF = """(node) => {
    const [cell, shown] = [node.closest("th"), document.createRange()];
    shown.selectNodeContents(node);
    return Math.max(0, shown.getBoundingClientRect().right - cell.getBoundingClientRect().right);
}"""
CONTRASTS = """() => {
    const light = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map((c) => c / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
        for (; node; node = node.parentElement) {
            const color = getComputedStyle(node).backgroundColor;
            if (!/, 0\\)$|transparent/.test(color)) return color;
        }
        return "rgb(255, 255, 255)";
    };
    return [...document.querySelectorAll("main *, .topbar *, .tree *")]
        .filter((node) => node.checkVisibility() && !node.disabled)
        .filter((node) => !node.closest("svg, .code-text"))
        .filter((node) => [...node.childNodes].some((c) => c.nodeType === 3 && c.data.trim()))
        .map((node) => {
            const [a, b] = [light(getComputedStyle(node).color), light(ground(node))];
            const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            return [contrast, node.outerHTML.slice(0, 100)];
        })
        .filter(([contrast]) => contrast < 4.5);
}"""


@pytest.mark.parametrize("look", ["desktop", "phone", "dark"])
def test_every_page_fits_and_is_readable(shop: Settings, chromium: Browser, look: str) -> None:
    size = PHONE if look == "phone" else DESKTOP
    with tab(chromium, size=size, is_dark=look == "dark") as (page, errors):
        sign_in(page, shop.endpoint, shop.key)
        for screen in SCREENS:
            return_to_overview(page)
            screen(page)
            for check in (NAMELESS, TOO_WIDE, CONTRASTS):
                assert page.evaluate(check) == [], (screen.__name__, look)
            page.keyboard.press("Escape")
        assert not errors


def test_figures_next_to_a_long_name_are_visible(shop: Settings, chromium: Browser) -> None:
    name = "n" * 250
    with closing(RawClient(shop.endpoint, shop.key)) as raw:
        key = {"paths": ["/pk"], "kind": "Hash"}
        made = raw.post("/dbs/telemetry/colls", {"id": name, "partitionKey": key})
        assert made.status == 201
        with tab(chromium) as (page, _):
            sign_in(page, shop.endpoint, shop.key)
            expect(page.get_by_role("columnheader", name="Pending purge")).to_be_in_viewport()
            figures = page.get_by_role("row", name="shop / sessions").locator(".num")
            boxes = [figure.bounding_box() for figure in figures.all()]
            assert all(box and box["height"] < 45 for box in boxes)  # each on one line
        assert raw.delete(f"/dbs/telemetry/colls/{name}").status == 204


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_longest_names_fit_on_the_page_of_a_database(
    shop: Settings, chromium: Browser, size: dict[str, int]
) -> None:
    name = "d" * 255
    key = {"paths": ["/customer/identifier/of/the/tenant/" + "x" * 30], "kind": "Hash"}
    with (
        closing(RawClient(shop.endpoint, shop.key)) as raw,
        tab(chromium, size=size) as (page, errors),
    ):
        assert raw.post("/dbs", {"id": name}).status == 201
        body = {"id": "c" * 255, "partitionKey": key, "defaultTtl": 3600}
        assert raw.post(f"/dbs/{name}/colls", body).status == 201
        sign_in(page, shop.endpoint, shop.key)
        visit(page, name)
        expect(page.get_by_text("1 hour")).to_be_in_viewport(ratio=1)
        assert page.evaluate(TOO_WIDE) == []
        assert not errors
        assert raw.delete(f"/dbs/{name}").status == 204


def test_equal_ids_in_two_partitions_are_distinguishable_on_a_phone(
    shop: Settings, chromium: Browser
) -> None:
    with (
        closing(RawClient(shop.endpoint, shop.key)) as raw,
        tab(chromium, size=PHONE) as (page, _),
    ):
        for sku in ("ada", "bela"):
            path, pk = "/dbs/shop/colls/products/docs", json.dumps([sku])
            assert raw.post(path, {"id": "book", "sku": sku}, pk=pk).status == 201
        sign_in(page, shop.endpoint, shop.key)
        visit(page, "shop/products/items")
        rows = page.get_by_role("rowheader")
        expect(rows).to_have_count(2)
        assert sorted(rows.all_inner_texts()) == ["book\nada", "book\nbela"]


@pytest.mark.parametrize("width", [768, 1060, 1061])
def test_ids_are_readable_on_a_tablet_and_in_half_a_window(
    shop: Settings, chromium: Browser, width: int
) -> None:
    with tab(chromium, size={"width": width, "height": 800}) as (page, _):
        sign_in(page, shop.endpoint, shop.key)
        visit(page, "shop/sessions/items")
        link = page.get_by_role("link", name="session-039")
        assert page.evaluate(CUT_OFF, link.element_handle()) == 0
        link.click()
        expect(page.get_by_label("Item as JSON")).to_be_in_viewport(ratio=1)
        if link.is_visible():
            assert page.evaluate(CUT_OFF, link.element_handle()) == 0
        else:
            page.get_by_role("button", name="Back to the list").click()
            expect(link).to_be_visible()


def test_the_drawer_on_a_phone(shop: Settings, chromium: Browser) -> None:
    with tab(chromium, size=PHONE) as (page, errors):
        sign_in(page, shop.endpoint, shop.key)
        menu = page.get_by_role("button", name="Databases")
        menu.click()
        page.get_by_role("button", name="Containers of shop").click()
        page.get_by_role("link", name="sessions", exact=True).click()
        expect(page.get_by_role("link", name="otp-4711")).to_be_visible()
        expect(page.get_by_role("navigation", name="Databases and containers")).to_have_count(0)
        menu.click()
        page.keyboard.press("Escape")
        expect(menu).to_be_focused()
        page.get_by_role("link", name="otp-4711").click()
        page.get_by_role("button", name="Back to the list").click()
        expect(page.get_by_role("link", name="otp-4711")).to_be_visible()
        assert not errors


def test_an_item_is_opened_and_saved_with_the_keyboard(shop: Settings, chromium: Browser) -> None:
    with tab(chromium) as (page, errors):
        sign_in(page, shop.endpoint, shop.key)
        items(page)
        press_until(page, "Tab", "otp-4711")
        page.keyboard.press("Enter")
        editor = page.get_by_label("Item as JSON")
        expect(editor).to_be_visible()
        press_until(page, "Tab", "Item as JSON")
        page.keyboard.press("Control+s")
        expect(page.get_by_text("No changes to save")).to_be_visible()
        page.keyboard.press("Control+End")
        page.keyboard.press("ArrowLeft")
        page.keyboard.type(', "n": 1')
        page.keyboard.press("Control+s")
        expect(page.get_by_text("Saved")).to_be_visible()
        assert not errors


def press_until(page: Page, key: str, name: str) -> None:
    """Presses a key until an element of that name has the focus, which must always be visible."""
    for _ in range(120):
        page.keyboard.press(key)
        focused, style = page.evaluate(
            """() => {
                const node = document.activeElement;
                const marked = node.matches("textarea") ? node.parentElement : node;
                const name = node.getAttribute("aria-label") || node.textContent;
                return [name, getComputedStyle(marked).outlineStyle];
            }"""
        )
        assert style != "none", f"no visible focus on {focused}"
        if focused == name:
            return
    pytest.fail(f"{name} is not reached with {key}")
