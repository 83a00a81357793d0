"""What makes an editor pleasant: format, changes by value, messages, shortcuts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.portal.items import edit, list_items, put_item, read_item
from tests.portal.screens import path_of, visit_tab
from tests.support.raw import RawClient

BIG = 12345678901234567890


def test_format_keeps_numbers_and_white_space_is_no_change(
    any_page: Page, raw: RawClient, container: str
) -> None:
    """Save compares the text without the white space between tokens: reindenting is no change."""
    page = any_page
    put_item(raw, container, "a", n=1)
    editor = edit(page, container, "a")
    save = page.get_by_role("button", name="Save")
    expect(save).to_be_disabled()
    editor.fill('{"id":"a","pk":"p",\n\n"n":1}')
    expect(save).to_be_disabled()
    page.get_by_role("button", name="Format").click()
    expect(editor).to_have_value('{\n  "id": "a",\n  "pk": "p",\n  "n": 1\n}')
    editor.fill('{"id":"a","pk":"p","n":1.0}')  # another text: the stored text changes
    expect(save).to_be_enabled()
    editor.fill(f'{{"id":"a","pk":"p","n":{BIG}}}')
    page.get_by_role("button", name="Format").click()
    save.click()
    expect(save).to_be_disabled()
    assert read_item(raw, container, "a")["n"] == BIG
    editor.fill('{"id": "a"')
    expect(save).to_be_enabled()
    expect(page.get_by_role("button", name="Format")).to_be_disabled()
    page.get_by_role("button", name=re.compile("Back to the list|Close")).first.click()
    page.get_by_role("button", name="Discard changes").click()


def test_an_editor_wraps_on_a_phone_and_its_colours_match(
    any_page: Page, raw: RawClient, container: str
) -> None:
    page = any_page
    put_item(raw, container, "a", text="word " * 200, word="x" * 300)
    editor = edit(page, container, "a")
    is_phone = page.evaluate("innerWidth < 500")
    is_scrolling = editor.evaluate("(area) => area.scrollWidth > area.clientWidth + 1")
    assert is_scrolling is not is_phone
    heights = editor.evaluate(
        """(area) => {
            const shown = document.querySelector(".code-coloured");
            const style = getComputedStyle(area);
            const padding = parseFloat(style.paddingTop) + parseFloat(style.paddingBottom);
            return [area.scrollHeight - padding, shown.scrollHeight];
        }"""
    )
    assert not is_phone or abs(heights[0] - heights[1]) < 2
    border, caret = editor.evaluate(
        "(area) => [getComputedStyle(area.parentElement).borderTopWidth,"
        " getComputedStyle(area).caretColor]"
    )
    assert border != "0px"
    assert caret not in ("transparent", "rgba(0, 0, 0, 0)")


@pytest.mark.parametrize(
    ("stored", "mine", "expected"),
    [
        ('{"a":1,"b":[1,2]}', '{ "b": [1.0, 20e-1], "a": 1e0 }', []),
        (f'{{"a":{BIG}}}', f'{{"a":{BIG + 1}}}', [["a", str(BIG), str(BIG + 1)]]),
        ('{"a":{"b":{"c d":1}}}', '{"a":{"b":{}}}', [['a.b["c d"]', "1", None]]),
        ('{"a":[1,2,3]}', '{"a":[0,1,2,3]}', [["a[0]", None, "0"]]),
        ('{"a":"\\u00e9"}', '{"a":"é"}', []),
        ('{"a":null}', "{}", [["a", "null", None]]),
        ('{"a":0}', '{"a":-0.0e5}', []),
        ('{"a":[]}', '{"a":{}}', [["a", "[]", "{}"]]),
    ],
)
def test_versions_are_compared_by_value(
    page: Page, stored: str, mine: str, expected: list[Any]
) -> None:
    listed = page.evaluate(
        """async ([stored, mine]) => {
            const { differences } = await import("./json-differences.js");
            return differences(stored, mine).map(({ path, a, b }) => [path, a ?? null, b ?? null]);
        }""",
        [stored, mine],
    )
    assert listed == expected


def test_a_conflict_with_equal_content_is_no_conflict(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a", n=1)
    editor = edit(page, container, "a")
    editor.fill('{"pk": "p", "id": "a", "n": 2.0}')
    put_item(raw, container, "a", n=2)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("already saved the same content")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Save")).to_be_disabled()


def test_messages_cover_nothing_and_are_dismissed_with_the_keyboard(
    any_page: Page, raw: RawClient, container: str
) -> None:
    page = any_page
    put_item(raw, container, "a")
    edit(page, container, "a")
    for _ in range(3):
        page.evaluate('import("./dialogs.js").then(({ toast }) => toast("hello ".repeat(9)))')
    messages = page.get_by_role("status").filter(has_text="hello")
    expect(messages.get_by_role("button", name="Dismiss")).to_have_count(3)
    top = page.locator("#toasts").bounding_box()
    app = page.locator("#app").bounding_box()
    assert top
    assert app
    assert app["y"] + app["height"] <= top["y"] + 1
    assert top["y"] + top["height"] <= page.evaluate("innerHeight") + 1
    dismiss = messages.get_by_role("button", name="Dismiss")
    dismiss.first.focus()
    page.keyboard.press("Escape")
    expect(dismiss).to_have_count(2)
    dismiss.first.press("Enter")
    expect(dismiss).to_have_count(1)


def test_shortcuts_are_listed(any_page: Page, raw: RawClient, container: str) -> None:
    page = any_page
    put_item(raw, container, "a")
    list_items(page, container)
    expect(page.get_by_role("rowheader")).to_have_count(1)
    page.keyboard.press("/")
    expect(page.get_by_label("Filter by id")).to_be_focused()
    page.keyboard.type("?")
    expect(page.get_by_label("Filter by id")).to_have_value("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Columns").focus()
    page.keyboard.press("?")
    expect(dialog).to_contain_text("Ctrl + SSave the open item")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_settings_are_saved_only_after_a_change(page: Page, container: str) -> None:
    visit_tab(page, container, "settings")
    saves = page.get_by_role("button", name="Save")
    expect(saves).to_have_count(5)
    for save in saves.all():
        expect(save).to_be_disabled()
    guard = page.get_by_label("Expiry guard")
    card = page.locator("section").filter(has=guard).get_by_role("button", name="Save")
    guard.fill("10%")
    expect(card).to_be_enabled()
    guard.fill("")
    expect(card).to_be_disabled()
    policy = page.get_by_label("Indexing policy as JSON")
    policy_save = page.locator("section").filter(has=policy).get_by_role("button", name="Save")
    policy.fill(policy.input_value().replace("\n", ""))
    expect(policy_save).to_be_disabled()
    policy.fill("{}")
    expect(policy_save).to_be_enabled()
    page.get_by_role("button", name="Reset").click()
    expect(policy_save).to_be_disabled()


@pytest.mark.parametrize("is_later", [False, True])
def test_the_last_navigation_wins_over_a_confirmed_one(
    page: Page, container: str, is_later: bool
) -> None:
    """Also if it comes before the confirmed one is complete. The page logs no error."""
    visit_tab(page, container, "settings")
    page.get_by_label("Expiry guard").fill("10%")
    page.get_by_role("link", name="Query").click()
    expect(page.get_by_role("button", name="Discard changes")).to_be_visible()
    page.evaluate(
        """([hash, isLater]) => {
            const dialog = document.querySelector("dialog");
            const go = () => { location.hash = hash };
            if (isLater) dialog.addEventListener("close", go);
            dialog.querySelector("[type=submit]").click();
            if (!isLater) go();
        }""",
        [f"#/{path_of(container)}/lifetimes", is_later],
    )
    purge = page.get_by_role("button", name="Purge now")
    expect(purge).to_be_visible()
    page.get_by_role("link", name="Scale & Settings").click()
    expect(page.get_by_label("Expiry guard")).to_have_value("")
    page.go_back()
    expect(purge).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
