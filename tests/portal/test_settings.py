"""Scale & Settings: Time to Live, its preview and its guard; throughput; indexing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from perseid.clock import MovableClock
from tests.portal.browsing import answered
from tests.portal.scenes import visit
from tests.support.raw import RawClient

LABELS = {"Off": "Off Items", "On (no default)": r"On \(no default\)", "On": "On Items"}


def place(container: str) -> str:
    _, _, database, _, name = container.split("/")
    return f"{database}/{name}/settings"


def choice(page: Page, label: str) -> Locator:
    return page.get_by_role("radio", name=re.compile(f"^{LABELS[label]}"))


def time_to_live(page: Page) -> Locator:
    heading = page.get_by_role("heading", name="Time to Live", exact=True)
    return page.locator("section").filter(has=heading)


def save(page: Page) -> None:
    time_to_live(page).get_by_role("button", name="Save").click()


def saved(page: Page) -> None:
    expect(page.get_by_text("Time to Live saved")).to_be_visible()


def stock(raw: RawClient, container: str, count: int) -> None:
    for number in range(count):
        body = {"id": f"i{number}", "pk": "p"}
        assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201


def define(raw: RawClient, container: str, **changes: Any) -> None:
    assert raw.put(container, raw.get(container).json | changes).status == 200


@pytest.mark.parametrize(
    ("label", "seconds", "stored"),
    [("On (no default)", None, -1), ("On", "7776000", 7_776_000)],
)
def test_the_choice_is_what_is_stored(
    page: Page, raw: RawClient, container: str, label: str, seconds: str | None, stored: int
) -> None:
    """T-205, T-207: Off, On (no default), On n; a save keeps every other setting."""
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/secret/*"}]}
    define(raw, container, indexingPolicy=policy)
    before = raw.get(container).json
    visit(page, place(container))
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
def test_a_change_by_program_is_seen_after_a_reload(
    page: Page, raw: RawClient, container: str, default_ttl: int, label: str
) -> None:
    """T-207: setting it by program and in the page is the same."""
    visit(page, place(container))
    expect(choice(page, "Off")).to_be_checked()
    define(raw, container, defaultTtl=default_ttl)
    page.reload()
    expect(choice(page, label)).to_be_checked()
    if default_ttl > 0:
        expect(page.get_by_label("Seconds", exact=True)).to_have_value(str(default_ttl))


@pytest.mark.parametrize(("typed", "quoted"), [("0", "0"), ("-5", "-5"), ("1.5", "1.5"), ("x", "")])
def test_bad_seconds_get_the_servers_words(
    page: Page, raw: RawClient, container: str, typed: str, quoted: str
) -> None:
    """T-207: invalid input shows the server's message."""
    visit(page, place(container))
    choice(page, "On").check()
    page.get_by_label("Seconds", exact=True).fill(typed)
    text = f"The input defaultTtl '{quoted}"
    expect(time_to_live(page).get_by_text(text)).to_be_visible()
    save(page)
    expect(time_to_live(page).get_by_role("alert")).to_contain_text(text)
    assert "defaultTtl" not in raw.get(container).json


def test_the_preview_comes_before_the_save_and_undo_after_it(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    stock(raw, container, 3)
    define(raw, container, defaultTtl=3600)
    assert (
        raw.put(f"/_perseid/ttl{container_path(container)}", {"purgeHoldSeconds": 600}).status
        == 200
    )
    clock.advance(100)
    body = {"id": "young", "pk": "p"}
    assert raw.post(f"{container}/docs", body, pk='["p"]').status == 201
    visit(page, place(container))
    page.get_by_label("Seconds", exact=True).fill("60")
    card = time_to_live(page)
    expect(card.get_by_text("If you save this now")).to_be_visible()
    expect(card.locator("dd").first).to_have_text(re.compile("^3 "))
    expect(card.get_by_role("img", name="Who would end when")).to_be_visible()
    save(page)
    dialog = page.get_by_role("dialog", name="3 items will end at once")
    dialog.get_by_role("button", name="Cancel").click()
    assert raw.get(container).json["defaultTtl"] == 3600
    save(page)
    dialog.get_by_role("button", name="End 3 items").click()
    saved(page)
    assert raw.get(container).json["defaultTtl"] == 60
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.get_by_text("Undone: 3 items live again")).to_be_visible()
    expect(page.get_by_label("Seconds", exact=True)).to_have_value("3600")


def container_path(container: str) -> str:
    _, _, database, _, name = container.split("/")
    return f"/{database}/{name}"


def test_the_guard_asks_for_a_confirmation(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    stock(raw, container, 4)
    clock.advance(100)
    visit(page, place(container))
    page.get_by_label("Guard against mass expiry").fill("50%")
    safety = page.locator("section").filter(has=page.get_by_role("heading", name="Safety"))
    safety.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Safety settings saved")).to_be_visible()
    choice(page, "On").check()
    page.get_by_label("Seconds", exact=True).fill("10")
    save(page)
    page.get_by_role("button", name="End 4 items").click()
    guard = page.get_by_role("dialog", name="The guard asks for a confirmation")
    expect(guard).to_contain_text("would expire 4 items immediately; the guard allows 50%")
    assert "defaultTtl" not in raw.get(container).json
    go = guard.get_by_role("button", name="End 4 items")
    expect(go).to_be_disabled()
    guard.get_by_role("textbox").fill("c")
    go.click()
    saved(page)
    assert raw.get(container).json["defaultTtl"] == 10
    assert raw.get(f"{container}/docs").json["_count"] == 0


def test_the_indexing_policy_is_edited_as_json(page: Page, raw: RawClient, container: str) -> None:
    define(raw, container, defaultTtl=60)
    visit(page, place(container))
    card = page.locator("section").filter(has=page.get_by_role("heading", name="Indexing policy"))
    editor = card.get_by_label("Indexing policy as JSON")
    policy = json.loads(editor.input_value())
    editor.fill("{")
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_contain_text("This is not JSON")
    editor.fill(json.dumps({"indexingMode": "none"}))
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_be_visible()  # not with Time to Live
    policy["excludedPaths"].append({"path": "/secret/*"})
    editor.fill(json.dumps(policy))
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Indexing policy saved")).to_be_visible()
    after = raw.get(container).json
    assert {"path": "/secret/*"} in after["indexingPolicy"]["excludedPaths"]
    assert after["defaultTtl"] == 60


def test_throughput_by_hand_and_by_itself(page: Page, raw: RawClient, container: str) -> None:
    def offer() -> dict[str, Any]:
        rid = raw.get(container).json["_rid"]
        offers = raw.get("/offers").json["Offers"]
        content: dict[str, Any] = next(o for o in offers if o["offerResourceId"] == rid)["content"]
        return content

    visit(page, place(container))
    heading = page.get_by_role("heading", name="Throughput", exact=True)
    card = page.locator("section").filter(has=heading)
    card.get_by_label("Request units per second", exact=True).fill("700")
    card.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_have_count(1)
    assert offer()["offerThroughput"] == 700
    card.get_by_role("radio", name="Autoscale").check()
    card.get_by_label("At most").fill("5000")
    with answered(page, "PUT", 200, "5000"):  # the first makes it autoscale, the second says how
        card.get_by_role("button", name="Save").click()
    assert offer()["offerAutopilotSettings"]["maxThroughput"] == 5000
    card.get_by_role("radio", name="Manual").check()
    card.get_by_label("Request units per second", exact=True).fill("450")
    card.get_by_role("button", name="Save").click()
    expect(card.get_by_role("alert")).to_contain_text("increments of 100")


def card(page: Page, title: str) -> Locator:
    heading = page.get_by_role("heading", name=title, exact=True)
    return page.locator("section").filter(has=heading)


def test_the_focus_stays_on_a_button_that_was_refused(page: Page, container: str) -> None:
    visit(page, place(container))
    there = card(page, "Throughput")
    there.get_by_label("Request units per second", exact=True).fill("450")
    there.get_by_role("button", name="Save").press("Enter")
    expect(there.get_by_role("alert")).to_be_visible()
    expect(there.get_by_role("button", name="Save")).to_be_focused()


def excluding(path: str) -> dict[str, Any]:
    return {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": path}]}


@pytest.mark.parametrize("what", ["ttl", "guard", "throughput", "indexing"])
def test_unsaved_settings_are_not_lost_by_a_click(page: Page, container: str, what: str) -> None:
    visit(page, place(container))
    if what == "ttl":
        choice(page, "On (no default)").check()
    elif what == "guard":
        page.get_by_label("Guard against mass expiry").fill("5%")
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


def test_settings_that_were_changed_back_or_saved_can_be_left(page: Page, container: str) -> None:
    visit(page, place(container))
    choice(page, "On (no default)").check()
    choice(page, "Off").check()
    page.get_by_label("Guard against mass expiry").fill("5%")
    card(page, "Safety").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Safety settings saved")).to_be_visible()
    page.get_by_label("Request units per second", exact=True).fill("700")
    card(page, "Throughput").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_be_visible()
    page.get_by_role("link", name="Query").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()


def test_saving_one_setting_keeps_what_is_typed_in_another(
    page: Page, raw: RawClient, container: str
) -> None:
    visit(page, place(container))
    policy = page.get_by_label("Indexing policy as JSON")
    policy.fill(json.dumps(excluding("/secret/*")))
    page.get_by_label("Request units per second", exact=True).fill("700")
    page.get_by_label("Guard against mass expiry").fill("5%")
    choice(page, "On (no default)").check()
    save(page)
    saved(page)
    expect(page.get_by_label("Guard against mass expiry")).to_have_value("5%")
    expect(page.get_by_label("Request units per second", exact=True)).to_have_value("700")
    card(page, "Throughput").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_be_visible()
    expect(policy).to_have_value(re.compile("secret"))
    card(page, "Indexing policy").get_by_role("button", name="Save").click()
    expect(page.get_by_text("Indexing policy saved")).to_be_visible()
    expect(page.get_by_label("Guard against mass expiry")).to_have_value("5%")
    after = raw.get(container).json
    assert after["defaultTtl"] == -1
    assert {"path": "/secret/*"} in after["indexingPolicy"]["excludedPaths"]


def test_an_indexing_policy_that_somebody_else_changed_is_not_overwritten(
    page: Page, raw: RawClient, container: str
) -> None:
    visit(page, place(container))
    page.get_by_label("Indexing policy as JSON").fill(json.dumps(excluding("/mine/*")))
    define(raw, container, indexingPolicy=excluding("/theirs/*"))
    there = card(page, "Indexing policy")
    there.get_by_role("button", name="Save").click()
    expect(there.get_by_role("alert")).to_contain_text("Somebody else has changed")
    assert {"path": "/theirs/*"} in raw.get(container).json["indexingPolicy"]["excludedPaths"]


def test_a_wrong_figure_for_another_mode_can_be_corrected(
    page: Page, raw: RawClient, container: str
) -> None:
    visit(page, place(container))
    there = card(page, "Throughput")
    there.get_by_role("radio", name="Autoscale").check()
    for figure, said in (("1050", "1000"), ("0", "throughput")):
        there.get_by_label("At most").fill(figure)
        there.get_by_role("button", name="Save").click()
        expect(there.get_by_role("alert")).to_contain_text(said)
    there.get_by_label("At most").fill("2000")
    there.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Throughput saved")).to_be_visible()
    rid = raw.get(container).json["_rid"]
    offers = raw.get("/offers").json["Offers"]
    content = next(each for each in offers if each["offerResourceId"] == rid)["content"]
    assert content["offerAutopilotSettings"]["maxThroughput"] == 2000
