"""The list of items with its countdowns."""

from __future__ import annotations

import json
import re
from contextlib import closing
from urllib.parse import quote

from playwright.sync_api import Browser, Locator, Page, expect

from perseid.clock import MovableClock, SystemClock, wall
from perseid.config import Settings
from tests.portal.browser import Network, answered, tab
from tests.portal.items import list_items, put_item, read_item, row, set_default_ttl
from tests.portal.screens import sign_in, visit
from tests.support.raw import RawClient
from tests.support.running import running


def test_each_row_shows_expiry_and_ttl_source(page: Page, raw: RawClient, container: str) -> None:
    set_default_ttl(raw, container, 3600)
    put_item(raw, container, "inherits")
    put_item(raw, container, "own", ttl=90)
    put_item(raw, container, "stays", ttl=-1)
    list_items(page, container)
    expect(row(page, "inherits")).to_contain_text(re.compile("1h 00m.*container"))
    expect(row(page, "own")).to_contain_text(re.compile("1m 30s.*item"))
    expect(row(page, "stays")).to_contain_text(re.compile("never.*none"))


def test_an_item_expires_on_the_screen(page: Page, raw: RawClient, container: str) -> None:
    """The clock panel moves the clock; the countdown follows, and the expired row disappears."""
    set_default_ttl(raw, container, -1)
    put_item(raw, container, "mayfly", ttl=30)
    put_item(raw, container, "oak")
    list_items(page, container)
    expect(row(page, "mayfly")).to_contain_text("30s")
    page.get_by_role("button", name="Server clock").click()
    page.get_by_role("button", name="+ 10 s").click()
    expect(row_under_dialog(page, "mayfly")).to_contain_text("20s")
    page.get_by_label("Seconds to move forward").fill("19")
    page.get_by_role("button", name="Move forward").click()
    expect(row_under_dialog(page, "mayfly")).to_contain_text("1s")
    assert read_item(raw, container, "mayfly") is not None
    page.get_by_label("Seconds to move forward").fill("1")
    page.get_by_role("button", name="Move forward").click()
    expect(row_under_dialog(page, "mayfly")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(row(page, "oak")).to_be_visible()
    assert read_item(raw, container, "mayfly") is None


def row_under_dialog(page: Page, id_: str) -> Locator:
    """A row under a dialog, which cannot be located by its role."""
    return page.locator("tr").filter(has=page.locator(f"a:text-is('{id_}')"))


def test_the_list_follows_a_clock_moved_by_another_client(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default_ttl(raw, container, 100)
    put_item(raw, container, "mayfly")
    list_items(page, container)
    expect(row(page, "mayfly")).to_contain_text("1m 40s")
    clock.advance(60)
    expect(row(page, "mayfly")).to_contain_text("40s")
    clock.advance(40)
    expect(row(page, "mayfly")).to_have_count(0)
    expect(page.get_by_role("heading", name="No items")).to_be_visible()


def test_an_item_whose_lifetime_was_extended_stays(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default_ttl(raw, container, 50)
    put_item(raw, container, "cat")
    list_items(page, container)
    expect(row(page, "cat")).to_contain_text("50s")
    clock.advance(40)
    put_item(raw, container, "cat")  # by another client, while the page is open
    clock.advance(15)
    expect(row(page, "cat")).to_contain_text("35s")


def test_a_running_clock_counts_down(page: Page, raw: RawClient, container: str) -> None:
    set_default_ttl(raw, container, 100)
    put_item(raw, container, "mayfly")
    list_items(page, container)
    page.get_by_role("button", name="Server clock").click()
    page.get_by_role("button", name="Resume").click()
    expect(row_under_dialog(page, "mayfly")).to_contain_text(re.compile("1m 3[0-8]s"))
    page.get_by_role("button", name="Freeze").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()


def test_a_clock_that_is_held_is_shown_as_stopped(chromium: Browser) -> None:
    """The data was already used at a later time than the system clock shows."""
    time = SystemClock()
    time.advance_to_at_least(wall() + 3600)
    with running(Settings(memory=True), time) as server, tab(chromium) as (page, _):
        page.goto(f"{server.endpoint}_explorer/#key={quote(server.key, safe='')}")
        page.get_by_role("button", name="Server clock").click()
        held = "The clock is frozen until the system clock reaches this time"
        expect(page.get_by_text(held)).to_be_visible()


def test_a_server_whose_clock_is_behind_is_not_polled_constantly(chromium: Browser) -> None:
    """The page cannot read the server's clock; by its own clock the item has expired."""
    time = MovableClock(lambda: wall() - 3600)
    time.freeze()
    with (
        running(Settings(memory=True), time) as server,
        closing(RawClient(server.endpoint, server.key)) as raw,
        tab(chromium) as (page, errors),
    ):
        assert raw.post("/dbs", {"id": "d"}).status == 201
        key = {"paths": ["/pk"], "kind": "Hash"}
        body = {"id": "c", "partitionKey": key, "defaultTtl": 60}
        assert raw.post("/dbs/d/colls", body).status == 201
        put_item(raw, "/dbs/d/colls/c", "late")
        page.route("**/_perseid/clock", lambda route: route.abort())
        sign_in(page, server.endpoint, server.key)
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        visit(page, "d/c/items")
        expect(row(page, "late")).to_contain_text("expired")
        page.evaluate(
            """async () => {
                const { clock } = await import("./clock.js");
                for (let ticks = 0; ticks < 4; ticks++)
                    await new Promise((go) => clock.addEventListener("tick", go, { once: true }));
            }"""
        )
        assert 2 <= len([url for url in requested if url.endswith("/docs")]) <= 4
        expect(row(page, "late")).to_be_visible()  # it still exists on the server
        assert not errors


def test_pages_and_the_filter(page: Page, raw: RawClient, container: str) -> None:
    for number in range(103):
        put_item(raw, container, f"i{number:03d}")
    list_items(page, container)
    expect(page.get_by_text("100 items shown")).to_be_visible()
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_text("103 items")).to_be_visible()
    expect(page.get_by_role("button", name="Load more")).to_be_hidden()
    page.get_by_label("Filter by id").fill("I05")
    expect(page.get_by_text("10 items")).to_be_visible()
    page.get_by_label("Filter by id").fill("nothing")
    expect(page.get_by_role("heading", name="No matching items")).to_be_visible()


def test_an_empty_page_is_not_the_end(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "here")
    list_items(page, container)
    start = json.dumps({"token": None, "range": {"min": "", "max": "FF"}})
    empty = json.dumps({"Documents": [], "_count": 0})
    network = Network(page)
    network.answer("/docs$", 200, empty, headers={"x-ms-continuation": start}, times=2)
    page.get_by_label("Filter by id").fill("her")
    network.wait()
    expect(row(page, "here")).to_be_visible()
    expect(page.get_by_text("1 item", exact=True)).to_be_visible()


def test_rows_of_several_pages_stay_after_a_refresh(
    page: Page, raw: RawClient, container: str
) -> None:
    """A response is limited to four megabytes; the rows on the screen need several."""
    for number in range(6):
        put_item(raw, container, f"i{number}", text="x" * 1_500_000)
    list_items(page, container)
    for shown in (4, 6):
        page.get_by_role("button", name="Load more").click()
        expect(page.get_by_role("rowheader")).to_have_count(shown)
    put_item(raw, container, "seventh")
    with answered(page, "GET", 200, path="/docs"):
        page.get_by_role("button", name="Refresh").last.click()
    expect(row(page, "seventh")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_count(7)
    expect(page.locator(".removed")).to_have_count(0)


def test_more_than_a_thousand_rows_stay(page: Page, raw: RawClient, container: str) -> None:
    for start in range(0, 1100, 100):
        operations = [
            {
                "operationType": "Create",
                "partitionKey": '["p"]',
                "resourceBody": {"id": f"i{start + number:04d}", "pk": "p"},
            }
            for number in range(100)
        ]
        assert raw.batch(container, operations, pk='["p"]').status == 200
    list_items(page, container)
    for shown in range(200, 1200, 100):
        page.get_by_role("button", name="Load more").click()
        expect(page.get_by_text(re.compile(f"^{shown:,} items"))).to_be_visible()
    put_item(raw, container, "last")
    page.get_by_role("button", name="Refresh").last.click()
    expect(page.get_by_text("1,100 items shown")).to_be_visible()
    expect(page.locator(".removed")).to_have_count(0)
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_text(re.compile("^1,101 items$"))).to_be_visible()


def test_the_focus_returns_from_the_editor(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "a")
    put_item(raw, container, "b")
    list_items(page, container)
    row(page, "b").get_by_role("link").press("Enter")
    expect(page.get_by_label("Item as JSON")).to_be_visible()
    page.get_by_role("region", name="Item", exact=True).get_by_role("button", name="Close").press(
        "Enter"
    )
    expect(row(page, "b").get_by_role("link")).to_be_focused()
    page.get_by_role("link", name="Query").press("Enter")
    expect(page.get_by_role("link", name="Query")).to_be_focused()
