"""Every page of the portal with example data, for the tests and for the documentation.

`python -m tests.portal.screens docs/images` regenerates the images of the documentation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from playwright.sync_api import Page, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.store.sql import index_limits
from tests.portal.browser import DESKTOP, PHONE, browser, tab
from tests.support.raw import RawClient
from tests.support.running import running

NOON: Final = 1_935_576_000  # 2031-05-03 12:00 UTC, the time on the images
_NAMES: Final = ("ada", "bela", "chioma", "dmitri", "eirini", "farid", "grete", "hiro")


def create_shop(raw: RawClient, clock: MovableClock) -> None:
    """Creates a shop whose items expire at different times after NOON."""
    clock.freeze()
    clock.set(NOON - 3450)
    _create(raw, "/dbs", {"id": "shop"})
    _create(raw, "/dbs", {"id": "telemetry"}, throughput="1000")
    _container(raw, "shop", "orders", "/customerId", 7_776_000)
    _container(raw, "shop", "carts", "/user", -1, changeFeedPolicy={"retentionDuration": 120})
    _container(raw, "shop", "products", "/sku", None)
    _container(raw, "shop", "sessions", "/user", 3600)
    for number in range(40):
        clock.advance(85)
        user = _NAMES[number % len(_NAMES)]
        body: dict[str, Any] = {
            "id": f"session-{number:03d}",
            "user": user,
            "device": ("phone", "laptop", "tablet")[number % 3],
            "pages": number * 7 % 23,
        }
        if number % 5 == 4:
            body["ttl"] = 86_400 if number % 2 else 5400
        if number % 13 == 12:
            body["ttl"] = -1
        _item(raw, "shop/sessions", body, user)
    _fill_carts(raw, clock)
    clock.set(NOON - 20)
    body = {"id": "otp-4711", "user": "ada", "device": "phone", "code": 4711, "ttl": 45}
    _item(raw, "shop/sessions", body, "ada")
    for number in range(3):
        order = {"id": f"SO{number:02d}", "customerId": f"CO{number}", "total": 12.5 * number}
        _item(raw, "shop/orders", order, f"CO{number}")
    clock.set(NOON)


def _create(raw: RawClient, path: str, body: Any, **headers: str) -> None:
    assert raw.post(path, body, **headers).status == 201


def _fill_carts(raw: RawClient, clock: MovableClock) -> None:
    """Items with several versions; one is deleted."""
    for count in range(4):
        for user in ("ada", "bela", "hiro")[: 4 - count]:
            clock.advance(2)
            cart = {"id": f"cart-{user}", "user": user, "books": count + 1}
            headers = {"pk": json.dumps([user]), "upsert": "true"}
            assert raw.post("/dbs/shop/colls/carts/docs", cart, **headers).status in (200, 201)
    clock.advance(2)
    path = "/dbs/shop/colls/carts/docs/cart-bela"
    assert raw.delete(path, pk='["bela"]').status == 204


def _container(
    raw: RawClient, database: str, name: str, path: str, ttl: int | None, **rest: Any
) -> None:
    body: dict[str, Any] = {"id": name, "partitionKey": {"paths": [path], "kind": "Hash"}, **rest}
    if ttl is not None:
        body["defaultTtl"] = ttl
    _create(raw, f"/dbs/{database}/colls", body)


def _item(raw: RawClient, container: str, body: Any, key: str) -> None:
    database, name = container.split("/")
    _create(raw, f"/dbs/{database}/colls/{name}/docs", body, pk=json.dumps([key]))


# Each function starts after signing in and opens one page of the portal.


def overview(page: Page) -> None:
    expect(page.get_by_role("row", name="shop / sessions")).to_be_visible()


def database(page: Page) -> None:
    visit(page, "telemetry")
    expect(page.get_by_role("heading", name="Shared throughput")).to_be_visible()


def items(page: Page) -> None:
    visit(page, "shop/sessions/items")
    expect(page.get_by_role("row", name="session-039")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    for name in ("device", "pages"):
        page.get_by_role("dialog").get_by_label(name, exact=True).check()
    page.get_by_role("button", name="Show").click()
    page.get_by_role("button", name="Expires in").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("otp-4711")  # the soonest


def item(page: Page) -> None:
    visit(page, f"shop/sessions/items/{quote(json.dumps(['ada']), safe='')}/otp-4711")
    expect(page.get_by_label("Item as JSON")).to_be_visible()


def query(page: Page) -> None:
    visit(page, "shop/sessions/query")
    page.get_by_label("Query", exact=True).fill(
        "SELECT c.id, c.user, c.device, c.pages\nFROM c\nWHERE c.pages > 12\nORDER BY c.pages DESC"
    )
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("table")).to_be_visible()


def plan(page: Page) -> None:
    visit(page, "shop/sessions/query")
    page.get_by_label("Query", exact=True).fill(
        "SELECT c.id, c.user, c.pages\nFROM c\nWHERE UPPER(c.device) = 'PHONE'"
    )
    page.get_by_role("button", name="Run").click()
    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_text("Metrics of each page")).to_be_visible()
    expect(page.get_by_text("Loading the plan")).to_have_count(0)


def chart(page: Page) -> None:
    visit(page, "shop/sessions/query")
    page.get_by_label("Query", exact=True).fill(
        "SELECT c.user, COUNT(1) AS sessions, SUM(c.pages) AS pages\nFROM c\nGROUP BY c.user"
    )
    page.get_by_role("button", name="Run").click()
    page.get_by_role("tab", name="Chart").click()
    page.get_by_role("group", name="Bar chart of pages by user").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("user bela: pages")).to_be_visible()


def changes(page: Page) -> None:
    visit(page, "shop/sessions/changes")
    expect(page.get_by_role("row", name="otp-4711")).to_be_visible()


def versions(page: Page) -> None:
    visit(page, "shop/carts/changes?versions=all")
    page.get_by_label("Start of the feed").select_option("beginning")
    expect(page.get_by_role("row", name="delete")).to_be_visible()


def settings(page: Page) -> None:
    visit(page, "shop/sessions/settings")
    page.get_by_label("Seconds", exact=True).fill("1800")
    expect(page.get_by_text("Effect of saving now")).to_be_visible()


def lifetimes(page: Page) -> None:
    visit(page, "shop/sessions/lifetimes")
    page.get_by_label("Bar width").select_option("minute")
    expect(page.get_by_role("group", name="Items and bytes that expire")).to_be_visible()


def clock(page: Page) -> None:
    items(page)
    page.get_by_role("button", name="Server clock").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def conflict(page: Page) -> None:
    """Another client saves the item that is open here."""
    item(page)
    page.get_by_label("Item as JSON").fill(
        '{\n  "id": "otp-4711",\n  "user": "ada",\n  "device": "watch",\n  "ttl": 45\n}'
    )
    page.evaluate(
        """async () => {
            const api = await import("./api.js");
            const path = [...api.container("shop", "sessions"), "docs", "otp-4711"];
            const key = { "x-ms-documentdb-partitionkey": '["ada"]' };
            const { json } = await api.call("GET", path, { headers: key });
            await api.call("PUT", path, { headers: key, body: { ...json, code: 815 } });
        }"""
    )
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog")).to_contain_text("Another client has changed this item")


def new_container(page: Page) -> None:
    page.get_by_role("heading", name="Overview").wait_for()
    visit(page, "shop")
    page.get_by_role("button", name="New container", exact=True).click()
    page.get_by_role("dialog").get_by_label("Name").fill("receipts")
    page.get_by_role("dialog").get_by_role("radio").nth(2).check()


def connect(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Account key")).to_be_visible()


SCREENS: Final[tuple[Callable[[Page], None], ...]] = (
    overview,
    database,
    items,
    item,
    query,
    plan,
    chart,
    changes,
    versions,
    settings,
    lifetimes,
    clock,
    new_container,
    conflict,
    connect,
)


def visit(page: Page, path: str) -> None:
    page.evaluate("hash => { location.hash = hash }", f"#/{path}")


def return_to_overview(page: Page) -> None:
    """Opens the first page again; unsaved text of the previous one is discarded."""
    menu = page.get_by_role("button", name="Databases", exact=True, expanded=True)
    if menu.is_visible():
        menu.click()
    visit(page, "")
    overview_head = page.get_by_role("heading", name="Overview")
    discard = page.get_by_role("button", name="Discard changes")
    expect(overview_head.or_(discard)).to_be_visible()
    if discard.is_visible():
        discard.click()
    expect(overview_head).to_be_visible()


def path_of(container: str) -> str:
    """The path of a container in the portal, from /dbs/…/colls/…."""
    _, _, database, _, name = container.split("/")
    return f"{database}/{name}"


def visit_tab(page: Page, container: str, tab: str) -> None:
    visit(page, f"{path_of(container)}/{tab}")


def sign_in(page: Page, endpoint: str, key: str) -> None:
    """Signs in as `perseid portal` does: with the key in the address."""
    page.goto(f"{endpoint}_explorer/#key={quote(key, safe='')}")
    expect(page.get_by_role("button", name="Server clock")).to_be_visible()


def main(target: Path) -> None:
    from tests.portal.expiry import write_expiry  # it uses this module

    target.mkdir(parents=True, exist_ok=True)
    # The plan shows an index; by default such a small container would be scanned.
    setattr(index_limits, "LEAST_ITEMS", 20)  # noqa: B010
    time = MovableClock()
    with running(Settings(memory=True), time) as server, browser() as started:
        with closing(RawClient(server.endpoint, server.key)) as raw:
            create_shop(raw, time)
        looks = [("", DESKTOP, False), ("-phone", PHONE, False), ("-dark", DESKTOP, True)]
        for suffix, size, is_dark in looks:
            for screen in SCREENS:
                if is_dark and screen not in (items, lifetimes):
                    continue
                with tab(started, size=size, is_dark=is_dark) as (page, errors):
                    sign_in(page, server.endpoint, server.key)
                    screen(page)
                    page.screenshot(
                        path=target / f"portal-{screen.__name__.replace('_', '-')}{suffix}.png"
                    )
                    assert not errors, errors
        write_expiry(started, target / "portal-expiry.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
