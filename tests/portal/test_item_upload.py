"""Items from files."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.portal.browser import Network
from tests.portal.items import list_items, put_item, read_item, row
from tests.support.raw import RawClient

BIG = 12345678901234567890


def choose(page: Page, *files: tuple[str, str]) -> Locator:
    page.get_by_role("button", name="Upload", exact=True).click()
    dialog = page.get_by_role("dialog", name=re.compile("^Upload items"))
    dialog.get_by_label("Files").set_input_files(
        [FilePayload(name=n, mimeType="application/json", buffer=t.encode()) for n, t in files]
    )
    return dialog


def upload(dialog: Locator) -> None:
    dialog.get_by_role("button", name="Upload").click()


@pytest.mark.parametrize(
    "text",
    [
        f'[{{"id": "a", "pk": "p", "n": {BIG}}}, {{"id": "b", "pk": "p", "_ts": 1}}]',
        f'{{"id": "a", "pk": "p", "n": {BIG}}}\n\n{{"id": "b", "pk": "p"}}\n',
    ],
    ids=["array", "lines"],
)
def test_items_of_a_file_are_created(
    any_page: Page, raw: RawClient, container: str, text: str
) -> None:
    page = any_page
    list_items(page, container)
    dialog = choose(page, ("items.json", text), ("one.json", '{"id": "one", "pk": "p"}'))
    expect(dialog).to_contain_text("3 items in 2 files, ready to upload.")
    upload(dialog)
    expect(dialog).to_contain_text("3 items created, 0 replaced, 0 refused.")
    expect(dialog.get_by_role("button", name="Upload")).to_be_disabled()
    dialog.get_by_role("button", name="Close").last.click()
    expect(row(page, "a")).to_be_visible()
    assert read_item(raw, container, "a")["n"] == BIG
    assert read_item(raw, container, "b") is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"id": "a"}\n{"id": 2}\n', "f.json, line 2: An item needs an id"),
        ('{"id": "a"}\n{"id": "b",}\n', "f.json, line 2: "),
        ('[{"id": "a"}, 7]', "f.json, index 1: An item must be a JSON object."),
        ('[\n  {"id": "a"},\n  {"id" "b"}\n]', "f.json, line 3, column 9"),
        ("null", "f.json: An item must be a JSON object."),
    ],
)
def test_a_file_with_errors_is_not_uploaded(
    page: Page, container: str, text: str, problem: str
) -> None:
    list_items(page, container)
    dialog = choose(page, ("f.json", text))
    expect(dialog.get_by_role("list", name="Problems")).to_contain_text(problem)
    expect(dialog).to_contain_text("Nothing was uploaded")
    expect(dialog.get_by_role("button", name="Upload")).to_be_disabled()


def test_existing_items_are_errors_or_overwritten(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a", n="old")
    list_items(page, container)
    text = '[{"id": "new", "pk": "p"}, {"id": "a", "pk": "p", "n": "new"}]'
    dialog = choose(page, ("f.json", text))
    upload(dialog)
    expect(dialog).to_contain_text("1 item created, 0 replaced, 1 refused.")
    expect(dialog.get_by_role("list", name="Problems")).to_contain_text("f.json, index 1: ")
    assert read_item(raw, container, "a")["n"] == "old"
    dialog.get_by_role("button", name="Close").last.click()
    dialog = choose(page, ("f.json", text))
    dialog.get_by_label("Overwrite").check()
    upload(dialog)
    expect(dialog).to_contain_text("0 items created, 2 replaced, 0 refused.")
    assert read_item(raw, container, "a")["n"] == "new"


def test_an_upload_is_stopped(page: Page, raw: RawClient, container: str) -> None:
    list_items(page, container)
    lines = [json.dumps({"id": f"i{number}", "pk": "p"}) for number in range(1200)]
    dialog = choose(page, ("many.jsonl", "\n".join(lines)))
    network = Network(page)
    network.hold("/_perseid/import/")
    upload(dialog)
    network.wait()
    dialog.get_by_role("button", name="Stop").click()
    network.restore()
    expect(dialog).to_contain_text("500 items created, 0 replaced, 0 refused. 700 items not sent.")
    assert read_item(raw, container, "i499") is not None
    assert read_item(raw, container, "i500") is None


def test_files_are_dropped_on_the_list(page: Page, raw: RawClient, container: str) -> None:
    list_items(page, container)
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    page.evaluate(
        """() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(['{"id": "dropped", "pk": "p"}'], "d.json"));
            for (const type of ["dragover", "drop"]) {
                const event = new DragEvent(type, { dataTransfer: transfer, cancelable: true });
                document.querySelector(".list").dispatchEvent(event);
            }
        }"""
    )
    dialog = page.get_by_role("dialog", name=re.compile("^Upload items"))
    expect(dialog).to_contain_text("1 item in 1 file, ready to upload.")
    upload(dialog)
    expect(dialog).to_contain_text("1 item created")
    assert read_item(raw, container, "dropped") is not None
