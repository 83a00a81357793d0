"""Columns of the list of items, and the order of the whole container by any of them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from perseid.clock import MovableClock
from tests.portal.items import list_items, put_item, row, set_default_ttl
from tests.support.raw import RawClient

BIG = 12345678901234567890


def sort_by(page: Page, label: str, column: str, *, times: int = 1) -> None:
    """By the head of a column, or where columns have no room by the list of orders."""
    choice = page.get_by_label("Sort by")
    if choice.is_visible():
        choice.select_option(label=label)
    else:
        for _ in range(times):
            page.get_by_role("columnheader").get_by_role("button", name=column).click()


def ids(page: Page) -> list[str]:
    return [text.split("\n")[0] for text in page.get_by_role("rowheader").all_inner_texts()]


def expect_first(page: Page, *expected: str) -> None:
    for number, id_ in enumerate(expected):
        expect(page.get_by_role("rowheader").nth(number)).to_contain_text(id_)


def test_columns_are_chosen_and_remembered(any_page: Page, raw: RawClient, container: str) -> None:
    page = any_page
    put_item(raw, container, "a", total=BIG, address={"city": "Oslo"}, tags=["x", {"y": 1.50}])
    put_item(raw, container, "b", total=2)
    list_items(page, container)
    expect(row(page, "a")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    dialog = page.get_by_role("dialog", name="Columns")
    dialog.get_by_label("total").check()
    dialog.get_by_label("address.city").check()
    dialog.get_by_label("TTL source").uncheck()
    dialog.get_by_label("Add a property").fill("tags[1].y")
    dialog.get_by_role("button", name="Show").click()
    expect(row(page, "a")).to_contain_text(re.compile(f"{BIG}.*Oslo.*1.5"))
    page.reload()
    expect(row(page, "a")).to_contain_text(re.compile(f"{BIG}.*Oslo"))
    expect(page.get_by_role("columnheader", name="TTL source")).to_have_count(0)
    sort_by(page, "total, descending", "total", times=2)
    expect_first(page, "a", "b")
    expect(page).to_have_url(re.compile("order=total"))


def test_an_order_is_one_of_the_whole_container(
    any_page: Page, raw: RawClient, container: str
) -> None:
    """Not of the hundred items that are loaded first."""
    page = any_page
    operations = [
        {
            "operationType": "Create",
            "partitionKey": '["p"]',
            "resourceBody": {"id": f"i{number:03d}", "pk": "p"},
        }
        for number in range(100)
    ]
    assert raw.batch(container, operations, pk='["p"]').status == 200
    put_item(raw, container, "z-last")
    list_items(page, container)
    expect(page.get_by_text("100 items shown")).to_have_count(1)
    expect(row(page, "z-last")).to_have_count(0)
    sort_by(page, "Id, descending", "Id", times=2)
    expect_first(page, "z-last", "i099", "i098")
    page.reload()
    expect_first(page, "z-last", "i099")


def test_the_order_by_expiry_is_soonest_first_over_all_items(
    any_page: Page, raw: RawClient, container: str, clock: MovableClock
) -> None:
    page = any_page
    set_default_ttl(raw, container, 500)
    operations = [
        {
            "operationType": "Create",
            "partitionKey": '["p"]',
            "resourceBody": {"id": f"i{number:03d}", "pk": "p"},
        }
        for number in range(100)
    ]
    assert raw.batch(container, operations, pk='["p"]').status == 200
    put_item(raw, container, "never", ttl=-1)
    put_item(raw, container, "late", ttl=10_000)
    put_item(raw, container, "soon", ttl=90)
    list_items(page, container)
    expect(page.get_by_role("rowheader")).to_have_count(100)
    sort_by(page, "Expiry, soonest first", "Expires in")
    expect_first(page, "soon", "i0")
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_role("rowheader")).to_have_count(103)
    assert ids(page)[-2:] == ["late", "never"]
    clock.advance(90)
    expect(row(page, "soon")).to_have_count(0)


def test_the_order_by_expiry_is_not_available_with_a_filter(
    page: Page, raw: RawClient, container: str
) -> None:
    set_default_ttl(raw, container, 500)
    put_item(raw, container, "a")
    put_item(raw, container, "soon", ttl=90)
    list_items(page, container)
    sort_by(page, "Expiry, soonest first", "Expires in")
    expect_first(page, "soon", "a")
    page.get_by_label("Filter by id").fill("o")
    expect(page.get_by_role("rowheader")).to_have_count(1)
    expect(page.get_by_role("button", name="Expires in")).to_be_disabled()
    expect(page.get_by_text("Sorting by expiry is for all items")).to_be_visible()
    page.get_by_label("Filter by id").fill("")
    expect(page.get_by_role("button", name="Expires in")).to_be_enabled()


@pytest.mark.parametrize("default_ttl", [-1, None])
def test_items_that_never_expire_come_last(
    page: Page, raw: RawClient, container: str, default_ttl: int | None
) -> None:
    """Without a default, and with Time to Live off: one list of all items in both cases."""
    if default_ttl is not None:
        set_default_ttl(raw, container, default_ttl)
    put_item(raw, container, "none")
    put_item(raw, container, "never", ttl=-1)
    put_item(raw, container, "own", ttl=90)
    list_items(page, container)
    sort_by(page, "Expiry, soonest first", "Expires in")
    expect(page.get_by_role("rowheader")).to_have_count(3)
    if default_ttl is not None:
        expect_first(page, "own", "none", "never")


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("a", ["a"]), ("a.b", ["a", "b"]), ("c.a.b", ["a", "b"]), ("/a/b", ["a", "b"]),
        ('a["b c"][0]', ["a", "b c", 0]), ("tags[1].y", ["tags", 1, "y"]),
    ],
)  # fmt: skip
def test_paths_of_columns(page: Page, typed: str, names: list[str | int]) -> None:
    read, again = page.evaluate(
        """async (typed) => {
            const { parsePath, pathText } = await import("./views/item-columns.js");
            const names = parsePath(typed);
            return [names, parsePath(pathText(names))];
        }""",
        typed,
    )
    assert read == again == names
