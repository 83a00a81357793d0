"""The Lifetimes page: forecast and purge, refreshed automatically."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from perseid.clock import MovableClock
from tests.portal.browser import Network, answered
from tests.portal.screens import visit_tab
from tests.support.raw import RawClient


def figure(page: Page, name: str) -> Locator:
    label = page.locator("dt", has_text=re.compile(f"^{name}$"))
    return page.locator(".figures > div").filter(has=label).locator("dd")


def test_the_forecast_and_the_purge(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    body = raw.get(container).json | {"defaultTtl": 90}
    assert raw.put(container, body).status == 200
    for number in range(5):
        item = {"id": f"i{number}", "pk": "p", **({"ttl": -1} if number == 4 else {})}
        assert raw.post(f"{container}/docs", item, pk='["p"]').status == 201
    raw.post("/_perseid/sweeper/pause", {})
    try:
        visit_tab(page, container, "lifetimes")
        expect(figure(page, "Expiring")).to_have_text(re.compile("^4 "))
        expect(figure(page, "Non-expiring")).to_have_text(re.compile("^1 "))
        expect(figure(page, "Next expiry")).to_have_text("in 1m 30s")
        chart = page.get_by_role("group", name="Items and bytes that expire")
        chart.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")  # the second minute
        expect(page.locator(".readout")).to_have_text(re.compile(r"4 items, [\d.]+ (B|KB)$"))
        page.get_by_label("Bar width").select_option("second")
        expect(page.locator(".readout")).to_contain_text("0 items")

        clock.advance(100)  # the page refreshes itself
        expect(figure(page, "Pending purge")).to_have_text(re.compile("^4 "))
        expect(figure(page, "Purge lag")).to_have_text("10 s")
        page.get_by_role("button", name="Purge now").click()
        expect(page.get_by_text("4 items purged")).to_be_visible()
        expect(figure(page, "Pending purge")).to_have_text(re.compile("^0 "))
        expect(figure(page, "Purged in total")).to_have_text(re.compile("^4 "))
        expect(figure(page, "Purged per second")).to_have_text(re.compile(r"^\d"))
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
    finally:
        raw.post("/_perseid/sweeper/resume", {})


def test_the_page_shows_that_time_to_live_is_off(page: Page, container: str) -> None:
    visit_tab(page, container, "lifetimes")
    expect(page.get_by_text("Time to Live is off in this container")).to_be_visible()
    expect(figure(page, "Next expiry")).to_have_text("–")
    expect(page.get_by_role("group", name="Items and bytes that expire")).to_be_hidden()
    expect(page.get_by_label("Bar width")).to_be_hidden()


def test_a_link_keeps_its_focus_during_a_refresh(page: Page, container: str) -> None:
    visit_tab(page, container, "lifetimes")
    link = page.get_by_role("link", name="Turn it on")
    link.focus()
    with answered(page, "GET", 200, path="/forecast"):
        pass
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(link).to_be_focused()


def test_the_page_recovers_when_the_server_is_back(page: Page, container: str) -> None:
    visit_tab(page, container, "lifetimes")
    expect(figure(page, "Next expiry")).to_have_text("–")
    Network(page).fail("^/_perseid/ttl/")
    expect(page.get_by_role("main")).to_contain_text("The server does not respond")
    Network(page).restore()
    expect(figure(page, "Next expiry")).to_have_text("–")


def test_a_clock_jump_pauses_the_purge_until_it_is_confirmed(page: Page, container: str) -> None:
    sweeper = {"paused": False, "alarm": "the clock jumped", "pace": 0.1}
    Network(page).answer("^/_perseid/sweeper$", 200, json.dumps(sweeper))
    visit_tab(page, container, "lifetimes")
    expect(page.get_by_text("Paused: the system clock jumped forward.")).to_be_visible()
    with page.expect_request("**/_perseid/sweeper/confirm-clock"):
        page.get_by_role("button", name="Confirm clock change").click()


def test_a_clock_jump_is_rejected(page: Page, container: str) -> None:
    sweeper = {"paused": False, "alarm": "the clock jumped", "pace": 0.1}
    Network(page).answer("^/_perseid/sweeper$", 200, json.dumps(sweeper))
    visit_tab(page, container, "lifetimes")
    with page.expect_request("**/_perseid/sweeper/reject-clock"):
        page.get_by_role("button", name="Reject clock change").click()
    expect(page.get_by_text("There is no clock jump to reject.")).to_be_visible()  # in the server


@pytest.mark.parametrize("decision", ["Confirm", "Reject"])
def test_the_clock_panel_offers_the_decision(page: Page, container: str, decision: str) -> None:
    state = {"now": 1_800_000_000, "movable": False, "heldUntil": None, "alarm": "it jumped"}
    Network(page).answer("^/_perseid/clock$", 200, json.dumps(state))
    visit_tab(page, container, "lifetimes")
    page.get_by_role("button", name="Server clock").click()
    panel = page.get_by_role("dialog")
    expect(panel).to_contain_text("The system clock jumped ahead")
    with page.expect_request(f"**/_perseid/sweeper/{decision.lower()}-clock"):
        panel.get_by_role("button", name=f"{decision} clock change").click()
