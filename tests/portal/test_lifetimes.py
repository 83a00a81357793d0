"""The Lifetimes page: forecast, backlog, removal; live."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from perseid.clock import MovableClock
from tests.portal.browsing import Wire, answered
from tests.portal.scenes import visit
from tests.support.raw import RawClient


def figure(page: Page, name: str) -> Locator:
    return page.locator(".figures > div").filter(has_text=name).locator("dd")


def test_the_forecast_and_the_removal(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    body = raw.get(container).json | {"defaultTtl": 90}
    assert raw.put(container, body).status == 200
    for number in range(5):
        item = {"id": f"i{number}", "pk": "p", **({"ttl": -1} if number == 4 else {})}
        assert raw.post(f"{container}/docs", item, pk='["p"]').status == 201
    raw.post("/_perseid/sweeper/pause", {})
    try:
        _, _, database, _, name = container.split("/")
        visit(page, f"{database}/{name}/lifetimes")
        expect(figure(page, "Will end")).to_have_text(re.compile("^4 "))
        expect(figure(page, "Never end")).to_have_text(re.compile("^1 "))
        expect(figure(page, "Next end")).to_have_text("in 1m 30s")
        chart = page.get_by_role("group", name="Items and bytes that end")
        chart.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")  # the second minute
        expect(page.locator(".readout")).to_have_text(re.compile(r"4 items, [\d.]+ (B|KB)$"))
        page.get_by_label("Width of a bar").select_option("second")
        expect(page.locator(".readout")).to_contain_text("0 items")

        clock.advance(100)  # the page notices by itself
        expect(figure(page, "Waiting for removal")).to_have_text(re.compile("^4 "))
        expect(figure(page, "Removal lags by")).to_have_text("10 seconds")
        page.get_by_role("button", name="Remove the dead now").click()
        expect(page.get_by_text("4 items removed")).to_be_visible()
        expect(figure(page, "Waiting for removal")).to_have_text(re.compile("^0 "))
        expect(figure(page, "Removed so far")).to_have_text(re.compile("^4 "))
        expect(figure(page, "Removed per second")).to_have_text(re.compile(r"^\d"))
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
    finally:
        raw.post("/_perseid/sweeper/resume", {})


def test_with_time_to_live_off_it_says_so(page: Page, container: str) -> None:
    _, _, database, _, name = container.split("/")
    visit(page, f"{database}/{name}/lifetimes")
    expect(page.get_by_text("Time to Live is off in this container")).to_be_visible()
    expect(figure(page, "Next end")).to_have_text("–")
    expect(page.get_by_role("group", name="Items and bytes that end")).to_be_hidden()
    expect(page.get_by_label("Width of a bar")).to_be_hidden()


def test_a_link_keeps_its_focus_while_figures_come_in(page: Page, container: str) -> None:
    _, _, database, _, name = container.split("/")
    visit(page, f"{database}/{name}/lifetimes")
    link = page.get_by_role("link", name="Switch it on")
    link.focus()
    with answered(page, "GET", 200, path="/forecast"):
        pass
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(link).to_be_focused()


def test_the_page_comes_back_with_the_server(page: Page, container: str) -> None:
    _, _, database, _, name = container.split("/")
    visit(page, f"{database}/{name}/lifetimes")
    expect(figure(page, "Next end")).to_have_text("–")
    Wire(page).cut("^/_perseid/ttl/")
    expect(page.get_by_role("main")).to_contain_text("The server does not answer")
    Wire(page).restore()
    expect(figure(page, "Next end")).to_have_text("–")
