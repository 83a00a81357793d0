"""Scale & Settings: Time to Live, its preview and its guard; throughput; indexing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from perseid.clock import MovableClock
from tests.portal.browser import answered
from tests.portal.screens import path_of, visit_tab
from tests.support.raw import RawClient

LABELS = {"Off": "Off Items", "On (no default)": r"On \(no default\)", "On": "On Items"}


def choice(page: Page, label: str) -> Locator:
    return page.get_by_role("radio", name=re.compile(f"^{LABELS[label]}"))


def time_to_live(page: Page) -> Locator:
    heading = page.get_by_role("heading", name="Time to Live", exact=True)
    return page.locator("section").filter(has=heading)


def save(page: Page) -> None:
    time_to_live(page).get_by_role("button", name="Save").click()


def saved(page: Page) -> None:
    expect(page.get_by_text("Time to Live saved")).to_be_visible()


def create_items(raw: RawClient, container: str, count: int) -> None:
    for number in range(count):
        body = {"id": f"i{number}", "pk": "p"}
        assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201


def define(raw: RawClient, container: str, **changes: Any) -> None:
    assert raw.put(container, raw.get(container).json | changes).status == 200


@pytest.mark.parametrize(
    ("label", "seconds", "stored"),
    [("On (no default)", None, -1), ("On", "7776000", 7_776_000)],
)
def test_the_choice_is_stored(
    page: Page, raw: RawClient, container: str, label: str, seconds: str | None, stored: int
) -> None:
    """T-205, T-207: Off, On (no default), On n; a save keeps every other setting."""
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/secret/*"}]}
    define(raw, container, indexingPolicy=policy)
    before = raw.get(container).json
    visit_tab(page, container, "settings")
    expect(choice(page, "Off")).to_be_checked()
    choice(page, label).check()
    if seconds is not None:
        page.get_by_label("Seconds", exact=True).fill(seconds)
        expect(page.get_by_text("= 90 days")).to_be_visible()
    save(page)
    saved(page)
    expect(choice(page, label)).to_be_checked()
    after = raw.get(container).json
    assert after["defaultTtl"] == stored
    for name, value in before.items():
        assert after[name] == value or name in ("_etag", "_ts"), name

    choice(page, "Off").check()
    with answered(page, "PUT", 200):
        save(page)
    assert "defaultTtl" not in raw.get(container).json


@pytest.mark.parametrize(("default_ttl", "label"), [(-1, "On (no default)"), (300, "On")])
def test_a_change_by_another_client_is_shown_after_a_reload(
    page: Page, raw: RawClient, container: str, default_ttl: int, label: str
) -> None:
    """T-207: a change by a program has the same effect."""
    visit_tab(page, container, "settings")
    expect(choice(page, "Off")).to_be_checked()
    define(raw, container, defaultTtl=default_ttl)
    page.reload()
    expect(choice(page, label)).to_be_checked()
    if default_ttl > 0:
        expect(page.get_by_label("Seconds", exact=True)).to_have_value(str(default_ttl))


@pytest.mark.parametrize(("typed", "quoted"), [("0", "0"), ("-5", "-5"), ("1.5", "1.5"), ("x", "")])
def test_invalid_seconds_show_the_message_of_the_server(
    page: Page, raw: RawClient, container: str, typed: str, quoted: str
) -> None:
    """T-207: invalid input shows the server's message."""
    visit_tab(page, container, "settings")
    choice(page, "On").check()
    page.get_by_label("Seconds", exact=True).fill(typed)
    text = f"The input defaultTtl '{quoted}"
    expect(time_to_live(page).get_by_text(text)).to_be_visible()
    save(page)
    expect(time_to_live(page).get_by_role("alert")).to_contain_text(text)
    assert "defaultTtl" not in raw.get(container).json


def test_preview_before_a_save_and_undo_after_it(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    create_items(raw, container, 3)
    define(raw, container, defaultTtl=3600)
    assert raw.put(f"/_perseid/ttl/{path_of(container)}", {"purgeHoldSeconds": 600}).status == 200
    clock.advance(100)
    body = {"id": "young", "pk": "p"}
    assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201
    visit_tab(page, container, "settings")
    page.get_by_label("Seconds", exact=True).fill("60")
    card = time_to_live(page)
    expect(card.get_by_text("Effect of saving now")).to_be_visible()
    expect(card.locator("dd").first).to_have_text(re.compile("^3 "))
    expect(card.get_by_role("img", name="When items would expire")).to_be_visible()
    save(page)
    dialog = page.get_by_role("dialog", name="3 items will expire immediately")
    dialog.get_by_role("button", name="Cancel").click()
    assert raw.get(container).json["defaultTtl"] == 3600
    save(page)
    dialog.get_by_role("button", name="Expire 3 items").click()
    saved(page)
    assert raw.get(container).json["defaultTtl"] == 60
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.get_by_text("Undone: 3 items restored")).to_be_visible()
    expect(page.get_by_label("Seconds", exact=True)).to_have_value("3600")


def test_the_guard_requires_a_confirmation(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    create_items(raw, container, 4)
    clock.advance(100)
    visit_tab(page, container, "settings")
    page.get_by_label("Expiry guard").fill("50%")
    safety = page.locator("section").filter(has=page.get_by_role("heading", name="Safety"))
    safety.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Safety settings saved")).to_be_visible()
    choice(page, "On").check()
    page.get_by_label("Seconds", exact=True).fill("10")
    save(page)
    page.get_by_role("button", name="Expire 4 items").click()
    guard = page.get_by_role("dialog", name="The expiry guard requires a confirmation")
    expect(guard).to_contain_text(re.compile("4 items.*the guard allows 50%"))
    expect(guard).not_to_contain_text("x-perseid-confirm")  # for programs
    assert "defaultTtl" not in raw.get(container).json
    go = guard.get_by_role("button", name="Expire 4 items")
    expect(go).to_be_disabled()
    guard.get_by_role("textbox").fill("c")
    go.click()
    saved(page)
    assert raw.get(container).json["defaultTtl"] == 10
    assert raw.get(f"{container}/docs").json["_count"] == 0


def test_the_indexing_policy_is_edited_as_json(page: Page, raw: RawClient, container: str) -> None:
    define(raw, container, defaultTtl=60)
    visit_tab(page, container, "settings")
    card = page.locator("section").filter(has=page.get_by_role("heading", name="Indexing policy"))
    editor = card.get_by_label("Indexing policy as JSON")
    policy = json.loads(editor.input_value())
    editor.fill("{")
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_contain_text("Invalid JSON")
    editor.fill(json.dumps({"indexingMode": "none"}))
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_be_visible()  # impossible with Time to Live
    policy["excludedPaths"].append({"path": "/secret/*"})
    editor.fill(json.dumps(policy))
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Indexing policy saved")).to_be_visible()
    after = raw.get(container).json
    assert {"path": "/secret/*"} in after["indexingPolicy"]["excludedPaths"]
    assert after["defaultTtl"] == 60


def test_manual_and_autoscale_throughput(page: Page, raw: RawClient, container: str) -> None:
    def offer() -> dict[str, Any]:
        rid = raw.get(container).json["_rid"]
        offers = raw.get("/offers").json["Offers"]
        content: dict[str, Any] = next(o for o in offers if o["offerResourceId"] == rid)["content"]
        return content

    visit_tab(page, container, "settings")
    heading = page.get_by_role("heading", name="Throughput", exact=True)
    card = page.locator("section").filter(has=heading)
    card.get_by_label("Request units per second", exact=True).fill("700")
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_have_count(1)
    assert offer()["offerThroughput"] == 700
    card.get_by_role("radio", name="Autoscale").check()
    card.get_by_label("Maximum").fill("5000")
    with answered(
        page, "PUT", 200, '"maxThroughput":5000'
    ):  # the first request changes the mode, the second the maximum
        card.get_by_role("button", name="Save").click()
    assert offer()["offerAutopilotSettings"]["maxThroughput"] == 5000
    card.get_by_role("radio", name="Manual").check()
    card.get_by_label("Request units per second", exact=True).fill("450")
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_contain_text("increments of 100")


def card(page: Page, title: str) -> Locator:
    heading = page.get_by_role("heading", name=title, exact=True)
    return page.locator("section").filter(has=heading)


def test_a_failed_save_keeps_the_focus_on_its_button(page: Page, container: str) -> None:
    visit_tab(page, container, "settings")
    there = card(page, "Throughput")
    there.get_by_label("Request units per second", exact=True).fill("450")
    there.get_by_role("button", name="Save").press("Enter")
    expect(there.get_by_role("alert")).to_be_visible()
    expect(there.get_by_role("button", name="Save")).to_be_focused()


def excluding(path: str) -> dict[str, Any]:
    return {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": path}]}


@pytest.mark.parametrize("what", ["ttl", "guard", "throughput", "indexing"])
def test_a_click_on_a_link_does_not_lose_unsaved_settings(
    page: Page, container: str, what: str
) -> None:
    visit_tab(page, container, "settings")
    if what == "ttl":
        choice(page, "On (no default)").check()
    elif what == "guard":
        page.get_by_label("Expiry guard").fill("5%")
    elif what == "throughput":
        page.get_by_label("Request units per second", exact=True).fill("700")
    else:
        page.get_by_label("Indexing policy as JSON").fill("{}")
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(re.compile("settings$"))
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()


def test_restored_or_saved_settings_need_no_confirmation(page: Page, container: str) -> None:
    visit_tab(page, container, "settings")
    choice(page, "On (no default)").check()
    choice(page, "Off").check()
    page.get_by_label("Expiry guard").fill("5%")
    card(page, "Safety").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Safety settings saved")).to_be_visible()
    page.get_by_label("Request units per second", exact=True).fill("700")
    card(page, "Throughput").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_be_visible()
    page.get_by_role("link", name="Query").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()


def test_saving_one_card_keeps_unsaved_text_in_others(
    page: Page, raw: RawClient, container: str
) -> None:
    visit_tab(page, container, "settings")
    policy = page.get_by_label("Indexing policy as JSON")
    policy.fill(json.dumps(excluding("/secret/*")))
    page.get_by_label("Request units per second", exact=True).fill("700")
    page.get_by_label("Expiry guard").fill("5%")
    choice(page, "On (no default)").check()
    save(page)
    saved(page)
    expect(page.get_by_label("Expiry guard")).to_have_value("5%")
    expect(page.get_by_label("Request units per second", exact=True)).to_have_value("700")
    card(page, "Throughput").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_be_visible()
    expect(policy).to_have_value(re.compile("secret"))
    card(page, "Indexing policy").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Indexing policy saved")).to_be_visible()
    expect(page.get_by_label("Expiry guard")).to_have_value("5%")
    after = raw.get(container).json
    assert after["defaultTtl"] == -1
    assert {"path": "/secret/*"} in after["indexingPolicy"]["excludedPaths"]


def test_an_indexing_policy_changed_by_another_client_is_not_overwritten(
    page: Page, raw: RawClient, container: str
) -> None:
    visit_tab(page, container, "settings")
    page.get_by_label("Indexing policy as JSON").fill(json.dumps(excluding("/mine/*")))
    define(raw, container, indexingPolicy=excluding("/theirs/*"))
    there = card(page, "Indexing policy")
    there.get_by_role("button", name="Save").click()
    expect(there.get_by_role("alert")).to_contain_text("Another client has changed")
    assert {"path": "/theirs/*"} in raw.get(container).json["indexingPolicy"]["excludedPaths"]


def test_an_invalid_throughput_of_a_new_mode_can_be_corrected(
    page: Page, raw: RawClient, container: str
) -> None:
    visit_tab(page, container, "settings")
    there = card(page, "Throughput")
    there.get_by_role("radio", name="Autoscale").check()
    for value, message in (("1050", "1000"), ("0", "throughput")):
        there.get_by_label("Maximum").fill(value)
        there.get_by_role("button", name="Save").click()
        expect(there.get_by_role("alert")).to_contain_text(message)
    there.get_by_label("Maximum").fill("2000")
    there.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_be_visible()
    rid = raw.get(container).json["_rid"]
    offers = raw.get("/offers").json["Offers"]
    content = next(each for each in offers if each["offerResourceId"] == rid)["content"]
    assert content["offerAutopilotSettings"]["maxThroughput"] == 2000
