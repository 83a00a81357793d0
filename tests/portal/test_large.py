"""Items of two megabytes: the page stays fast and saves them unchanged."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.portal.items import edit, put_item, read_item, set_default_ttl
from tests.portal.screens import visit_tab
from tests.support.raw import RawClient

NUMBERS = 200_000
MAX_SHOWN = 200_000  # characters; a text area with two million takes ten seconds


@pytest.fixture
def large(page: Page, raw: RawClient, container: str) -> Locator:
    """The editor of an item of 1.5 MB, or 2.2 MB with one line for each number."""
    put_item(raw, container, "a", numbers=list(range(NUMBERS)))
    return edit(page, container, "a")


def editor_text(editor: Locator) -> str:
    text = editor.input_value()
    assert len(text) <= MAX_SHOWN
    return text


def exchange(editor: Locator, old: str, new: str) -> None:
    """Types over one occurrence; filling in the whole text would take many seconds."""
    editor.evaluate(
        """(area, [old, text]) => {
            const at = area.value.indexOf(old);
            area.focus();
            area.setSelectionRange(at, at + old.length);
            document.execCommand("insertText", false, text);
        }""",
        [old, new],
    )


def test_a_large_item_is_edited_in_parts_and_saved_completely(
    page: Page, large: Locator, raw: RawClient, container: str
) -> None:
    first = editor_text(large)
    assert first.startswith('{\n  "id": "a"')
    expect(page.get_by_role("status").filter(has_text="of 200,006")).to_contain_text("Lines 1–")
    exchange(large, "    7,", '    "seven",')
    page.get_by_role("button", name="Next part").click()
    expect(large).not_to_have_value(re.compile("seven"))
    second = editor_text(large)
    assert second.startswith("    ")
    number = int(second.split(",", 1)[0])
    exchange(large, f"    {number},", f'    "{number}",')
    page.get_by_role("button", name="Previous part").click()
    expect(large).to_have_value(re.compile("seven"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    expected: list[Any] = list(range(NUMBERS))
    expected[7], expected[number] = "seven", str(number)
    assert read_item(raw, container, "a")["numbers"] == expected


def test_find_searches_every_part(page: Page, large: Locator) -> None:
    search = page.get_by_label("Find in the whole text")
    for text in ("150000", '"id"'):  # far below, then from the start again
        search.fill(text)
        search.press("Enter")
        chosen = "(area) => area.value.slice(area.selectionStart, area.selectionEnd)"
        assert large.evaluate(chosen) == text
        assert large.evaluate("(area) => area.value.length") <= MAX_SHOWN
        expect(search).to_be_focused()
    search.fill("nowhere")
    search.press("Enter")
    expect(page.get_by_text("Not found")).to_be_visible()


def test_an_error_in_another_part_is_shown_when_saving(page: Page, large: Locator) -> None:
    page.get_by_role("button", name="Next part").click()
    exchange(large, ",", ",,")
    page.get_by_role("button", name="Previous part").click()
    expect(large).to_have_value(re.compile('"id"'))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Invalid JSON")
    expect(large).to_have_value(re.compile(",,"))
    around = large.evaluate(
        "(area) => area.value.slice(area.selectionStart - 1, area.selectionEnd)"
    )
    assert around == ",,"


def test_setting_a_ttl_keeps_the_part_of_a_large_item(
    page: Page, large: Locator, raw: RawClient, container: str
) -> None:
    set_default_ttl(raw, container, -1)
    page.reload()
    page.get_by_role("button", name="Next part").click()
    before = editor_text(large)
    page.get_by_role("button", name="1 day", exact=True).click()
    assert editor_text(large) == before
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    assert editor_text(large) == before
    assert read_item(raw, container, "a")["ttl"] == 86_400


def test_a_conflict_of_large_items_shows_the_differences(
    page: Page, large: Locator, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a", numbers=[*range(100_000), "theirs", *range(100_000, NUMBERS)])
    exchange(large, "    7,", '    "mine",')
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("row")).to_have_count(3)
    expect(dialog.get_by_role("row", name="numbers[7]")).to_contain_text('7"mine"')
    expect(dialog.get_by_role("row", name="numbers[100000]")).to_contain_text('"theirs"(absent)')
    dialog.get_by_text("Show line by line").click()
    difference = dialog.get_by_label("Lines of the stored version are marked")
    expect(difference).to_contain_text('+     "mine",')
    expect(difference).to_contain_text("unchanged lines")
    expect(difference).to_contain_text("more stored lines")
    assert difference.locator("span").count() < 1100


@pytest.mark.parametrize("count", [3_000, 18_000])
def test_only_lines_near_the_visible_ones_are_coloured(
    page: Page, raw: RawClient, container: str, count: int
) -> None:
    """Each key press paints them again: one span for each number would take seconds."""
    put_item(raw, container, "a", numbers=list(range(count)))
    editor = edit(page, container, "a")
    coloured = page.locator(".code-backdrop span")
    expect(page.locator(".code-backdrop")).to_contain_text('"id"')
    assert coloured.count() < 500
    editor.evaluate("(area) => { area.scrollTop = area.scrollHeight / 2 }")
    expect(page.locator(".code-backdrop")).not_to_contain_text('"id"')
    # The coloured text is exactly behind the typed text.
    places = page.evaluate(
        """() => {
            const area = document.querySelector(".code-text");
            const lines = area.value.split("\\n");
            const span = [...document.querySelectorAll(".code-backdrop .code-number")][45];
            const line = lines.indexOf(`    ${span.textContent},`);
            const box = span.getBoundingClientRect();
            const height = (area.scrollHeight - 20) / lines.length;
            const top = area.getBoundingClientRect().top + 10 + line * height - area.scrollTop;
            return [box.top + box.height / 2, top + height / 2];
        }"""
    )
    assert places[0] == pytest.approx(places[1], abs=1.5)
    assert coloured.count() < 500


TEXTS = {
    "lines": "".join(f"{number}\n" for number in range(45_000)),
    "one line of surrogate pairs": "\U0001f600" * 150_001,
    "a long line between short ones": "a\n" * 10 + "b" * 250_000 + "\nc" * 10,
    "a line slightly shorter than a part": "a\n" + ("b" * 90_000 + "\n") * 5,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_parts_cover_the_whole_text(page: Page, text: str) -> None:
    parts = page.evaluate(
        """async (text) => {
            const { CodeEditor } = await import("./code-editor.js");
            const box = new CodeEditor(() => [], { label: "" });
            document.body.append(box.node);
            const [earlier, later] = box.node.querySelectorAll("button");
            box.value = text;
            const seen = [];
            const look = () => {
                seen.push(box.area.value);
                if (box.value !== text) throw new Error("not the same text");
            };
            for (look(); !later.disabled; look()) later.click();
            for (; !earlier.disabled; look()) earlier.click();
            for (let at = 0; at < text.length; at += 28_657) {
                box.mark(at, at + 1);
                const marked = box.area.value[box.area.selectionStart];
                if (marked !== text[at]) throw new Error(`at ${at}`);
            }
            box.node.remove();
            return seen;
        }""",
        text,
    )
    assert len(parts) < 20
    assert all(len(part) <= MAX_SHOWN for part in parts)
    assert parts[0] == parts[-1]
    assert all(part.encode() for part in parts)  # no surrogate pair is split


def test_large_values_in_query_rows_are_truncated(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a", text="x" * 900_000, numbers=list(range(100_000)))
    visit_tab(page, container, "query")
    page.get_by_role("button", name="Run").click()
    cell = page.get_by_role("cell", name=re.compile("^xxx"))
    expect(cell).to_have_text(re.compile("^x{1000}…$"))
    page.get_by_role("tab", name="JSON").click()
    expect(page.get_by_text(re.compile(r"The first [\d,]+ of 100,0\d\d lines"))).to_be_visible()
    assert len(page.get_by_label("Result as JSON").inner_text()) <= MAX_SHOWN


def test_an_item_of_two_megabytes_can_be_pasted(page: Page, raw: RawClient, container: str) -> None:
    body = {"id": "b", "pk": "p", "numbers": list(range(NUMBERS))}
    visit_tab(page, container, "items/new")
    editor = page.get_by_label("Item as JSON")
    editor.evaluate(
        """(area, text) => {
            area.select();
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            area.dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true }));
        }""",
        json.dumps(body, indent=2),
    )
    assert editor_text(editor).endswith("]\n}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Item b created")).to_be_visible()
    assert read_item(raw, container, "b")["numbers"] == body["numbers"]
