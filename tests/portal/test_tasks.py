"""Every task of the portal, with the pointer and the keyboard, at each width and in each theme.

A task that is added to TASKS runs in all four looks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.portal.browser import DESKTOP, PHONE, answered, tab
from tests.portal.dialogs import open_menu
from tests.portal.item_tasks import ITEM_TASKS, keep_all_versions
from tests.portal.items import row
from tests.portal.portal import Portal
from tests.portal.query_tasks import QUERY_TASKS
from tests.portal.test_layout import TOO_WIDE
from tests.support.raw import RawClient

# The tasks, in the order in which they run. Each makes the items it needs.


def sign_in_with_the_key(portal: Portal) -> None:
    page = portal.page
    page.goto(f"{portal.settings.endpoint}_explorer/")
    page.get_by_label("Account key").fill(portal.settings.key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Server clock")).to_be_visible()


def create_a_database(portal: Portal) -> None:
    page = portal.page
    open_menu(page)
    page.get_by_role("button", name="New database").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(portal.database)
    dialog.get_by_role("radio", name="Manual").check()
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=portal.database)).to_be_visible()
    portal.expect_message(f"Database {portal.database} created")
    assert portal.raw.get(f"/dbs/{portal.database}").status == 200


def create_a_container(portal: Portal) -> None:
    page = portal.page
    page.get_by_role("main").get_by_role("button", name="New container").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("c")
    dialog.get_by_label("Partition key").fill("/pk")
    dialog.get_by_role("radio", name=re.compile("^On Items")).check()
    dialog.get_by_label("Seconds", exact=True).fill("3600")
    dialog.get_by_text("Throughput and unique keys").click()
    dialog.get_by_role("radio", name="Manual").check()
    dialog.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile(f"#/{portal.database}/c/items$"))
    portal.expect_message("Container c created")
    assert portal.definition()["defaultTtl"] == 3600


def create_an_item(portal: Portal) -> None:
    page = portal.page
    page.get_by_role("button", name="New item").first.click()
    page.get_by_label("Item as JSON").fill('{"id": "made", "pk": "p"}')
    page.get_by_role("button", name="1 min", exact=True).click()
    expect(page.get_by_text("After saving: expires in 1 minute")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="made")).to_be_visible()
    portal.expect_message("Item made created")
    assert portal.read("made")["ttl"] == 60


def change_an_item(portal: Portal) -> None:
    portal.put("changed", n=1)
    editor = portal.edit("changed")
    editor.fill('{"id": "changed", "pk": "p", "n": 2}')
    portal.page.keyboard.press("Control+s")
    portal.expect_message("Saved")
    assert portal.read("changed")["n"] == 2


def resolve_a_conflict(portal: Portal) -> None:
    portal.put("disputed", name="before")
    portal.edit("disputed").fill('{"id": "disputed", "pk": "p", "name": "mine"}')
    portal.put("disputed", name="theirs")
    portal.page.get_by_role("button", name="Save").click()
    dialog = portal.page.get_by_role("dialog", name="Another client has changed this item")
    expect(dialog.get_by_role("row", name="name")).to_contain_text(re.compile("theirs.*mine"))
    dialog.get_by_role("button", name="Overwrite").click()
    portal.expect_message("Saved")
    assert portal.read("disputed")["name"] == "mine"


def delete_an_item(portal: Portal) -> None:
    portal.put("unwanted")
    portal.edit("unwanted")
    portal.page.get_by_role("button", name="Delete").click()
    portal.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row(portal.page, "changed")).to_be_visible()
    expect(row(portal.page, "unwanted")).to_have_count(0)
    assert portal.read("unwanted") is None


def let_an_item_expire(portal: Portal) -> None:
    page = portal.page
    portal.put("brief", ttl=10)
    portal.list_items()
    expect(row(page, "brief")).to_contain_text("10s")
    page.get_by_role("button", name="Server clock").click()
    dialog = page.get_by_role("dialog", name="Server clock")
    dialog.get_by_label("Seconds to move forward").fill("9")
    dialog.get_by_role("button", name="Move forward").click()
    expect(page.locator("tr").filter(has_text="brief")).to_contain_text("1s")
    dialog.get_by_label("Seconds to move forward").fill("1")
    dialog.get_by_role("button", name="Move forward").click()
    expect(page.locator("tr").filter(has_text="brief")).to_have_count(0)
    dialog.get_by_role("button", name="Resume").click()
    dialog.get_by_role("button", name="Freeze").click()
    expect(dialog.get_by_role("button", name="Resume")).to_be_visible()
    page.keyboard.press("Escape")
    assert portal.read("brief") is None


def change_the_ttl_and_undo_it(portal: Portal) -> None:
    page = portal.page
    portal.open_tab("Scale & Settings")
    page.get_by_label("Purge hold (seconds)").fill("600")
    portal.save("Safety")
    portal.expect_message("Safety settings saved")
    portal.put("old")
    portal.clock.advance(100)
    page.get_by_label("Seconds", exact=True).fill("60")
    effect = portal.card("Time to Live").locator("dd").first
    expect(effect).to_have_text(re.compile("^[1-9]"))
    portal.save("Time to Live")
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Expire ")).click()
    portal.expect_message("Time to Live saved")
    assert portal.read("old") is None
    portal.card("Time to Live").get_by_role("button", name="Undo the last change").click()
    portal.expect_message("restored")
    assert portal.definition()["defaultTtl"] == 3600
    assert portal.read("old") is not None


def confirm_what_the_guard_stops(portal: Portal) -> None:
    page = portal.page
    portal.open_tab("Scale & Settings")
    page.get_by_label("Expiry guard").fill("0")
    portal.save("Safety")
    portal.expect_message("Safety settings saved")
    portal.put("guarded")
    portal.clock.advance(50)
    page.get_by_label("Seconds", exact=True).fill("20")
    portal.save("Time to Live")
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Expire ")).click()
    guard = page.get_by_role("dialog", name="The expiry guard requires a confirmation")
    guard.get_by_role("textbox").fill("c")
    guard.get_by_role("button", name=re.compile("^Expire ")).click()
    portal.expect_message("Time to Live saved")
    assert portal.read("guarded") is None
    page.get_by_role("radio", name=re.compile("^On .no default")).check()
    portal.save("Time to Live")
    portal.expect_message("Time to Live saved")
    assert portal.definition()["defaultTtl"] == -1


def change_the_throughput(portal: Portal) -> None:
    portal.open_tab("Scale & Settings")
    there = portal.card("Throughput")
    there.get_by_role("radio", name="Autoscale").check()
    there.get_by_label("Maximum").fill("2000")
    with answered(portal.page, "PUT", 200, '"maxThroughput":2000'):
        portal.save("Throughput")
    portal.expect_message("Throughput saved")


def change_the_indexing_policy(portal: Portal) -> None:
    portal.open_tab("Scale & Settings")
    policy = {"includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/secret/*"}]}
    portal.page.get_by_label("Indexing policy as JSON").fill(json.dumps(policy))
    portal.save("Indexing policy")
    portal.expect_message("Indexing policy saved")
    assert {"path": "/secret/*"} in portal.definition()["indexingPolicy"]["excludedPaths"]


def query_and_export(portal: Portal) -> None:
    page = portal.page
    for number in range(30):
        portal.put(f"row-{number:02}", n=number)
    portal.open_tab("Query")
    page.get_by_text("Options").click()
    page.get_by_label("Page size").select_option("25")
    page.get_by_text("Options").click()
    query = "SELECT c.id, c.n FROM c WHERE c.n >= @least ORDER BY c.n"
    page.get_by_label("Query", exact=True).fill(query)
    page.get_by_label("@least").fill("0")
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("row", name="row-24 24")).to_be_visible()
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_role("row", name="row-29 29")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as JSON Lines").click()
    lines = download.value.path().read_text().splitlines()
    assert json.loads(lines[29]) == {"id": "row-29", "n": 29}
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as JSON", exact=True).click()
    assert len(json.loads(download.value.path().read_text())) == 30
    page.get_by_role("tab", name="JSON").click()
    expect(page.get_by_label("Result as JSON")).to_contain_text("row-29")
    page.get_by_role("tab", name="Plan").click()
    expect(page.get_by_role("table", name="Metrics of each page")).to_contain_text("RU")


def follow_the_changes(portal: Portal) -> None:
    page = portal.page
    portal.open_tab("Changes")
    with answered(page, "GET", 304, path="/docs"):
        page.get_by_label("Start of the feed").select_option("now")
    portal.put("news")
    page.get_by_role("button", name="Check for changes").click()
    page.get_by_role("row", name="news").get_by_role("link").click()
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile('"news"'))


def watch_lifetimes_and_purge(portal: Portal) -> None:
    page = portal.page
    portal.put("soon", ttl=30)
    portal.open_tab("Lifetimes")
    chart = page.get_by_role("group", name="Items and bytes that expire")
    page.get_by_label("Bar width").select_option("minute")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".readout")).to_contain_text("1 item")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    page.get_by_role("button", name="Purge now").click()
    portal.expect_message("purged")


def delete_the_container(portal: Portal) -> None:
    page = portal.page
    portal.open_tab("Scale & Settings")
    page.get_by_role("button", name="Delete container").click()
    page.get_by_label("Type c to confirm").fill("c")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="No containers yet")).to_be_visible()
    assert portal.raw.get(portal.container).status == 404


def delete_the_database(portal: Portal) -> None:
    page = portal.page
    page.get_by_role("button", name="Delete database").click()
    page.get_by_label(f"Type {portal.database} to confirm").fill(portal.database)
    page.keyboard.press("Enter")
    portal.expect_message(f"{portal.database} deleted")
    assert portal.raw.get(f"/dbs/{portal.database}").status == 404


def sign_out(portal: Portal) -> None:
    portal.page.get_by_role("button", name="Sign out").click()
    expect(portal.page.get_by_label("Account key")).to_be_visible()


TASKS: Final[tuple[Callable[[Portal], None], ...]] = (
    sign_in_with_the_key,
    create_a_database,
    create_a_container,
    create_an_item,
    change_an_item,
    resolve_a_conflict,
    delete_an_item,
    *ITEM_TASKS,
    let_an_item_expire,
    change_the_ttl_and_undo_it,
    confirm_what_the_guard_stops,
    change_the_throughput,
    change_the_indexing_policy,
    query_and_export,
    *QUERY_TASKS,
    follow_the_changes,
    keep_all_versions,
    watch_lifetimes_and_purge,
    delete_the_container,
    delete_the_database,
    sign_out,
)


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_task(
    chromium: Browser,
    settings: Settings,
    raw: RawClient,
    clock: MovableClock,
    name: str,
    size: dict[str, int],
    is_dark: bool,
) -> None:
    with tab(chromium, size=size, is_dark=is_dark) as (page, errors):
        for task in TASKS:
            task(Portal(page, raw, clock, settings, name))
            assert page.evaluate(TOO_WIDE) == [], task.__name__
            assert not errors, task.__name__
