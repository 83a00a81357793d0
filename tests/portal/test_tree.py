"""Databases and containers: made, found and deleted."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect

from perseid.config import Settings
from tests.portal.browsing import Wire, answered, tab
from tests.portal.scenes import enter, visit
from tests.support.raw import RawClient
from tests.support.running import running


def test_a_database_and_a_container_are_created_and_deleted(
    page: Page, raw: RawClient, name: str
) -> None:
    page.get_by_role("button", name="New database").first.click()
    page.get_by_role("dialog").get_by_label("Name").fill(name)
    page.get_by_role("radio", name="Manual").check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert raw.get(f"/dbs/{name}").status == 200

    page.get_by_role("button", name=f"New container in {name}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("orders")
    dialog.get_by_label("Partition key").fill("/tenant, /user")
    dialog.get_by_role("radio", name=re.compile("^On Items")).check()
    dialog.get_by_label("Seconds", exact=True).fill("90")
    dialog.get_by_text("Throughput and unique keys").click()
    dialog.get_by_label("Unique keys").fill("/email; /a, /b")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("link", name="orders").first).to_be_visible()
    expect(page).to_have_url(re.compile(f"#/{name}/orders/items$"))
    made = raw.get(f"/dbs/{name}/colls/orders").json
    assert made["partitionKey"]["paths"] == ["/tenant", "/user"]
    assert made["defaultTtl"] == 90
    keys = [each["paths"] for each in made["uniqueKeyPolicy"]["uniqueKeys"]]
    assert keys == [["/email"], ["/a", "/b"]]

    visit(page, f"{name}/orders/settings")
    page.get_by_role("button", name="Delete container").click()
    delete = page.get_by_role("button", name="Delete", exact=True)
    expect(delete).to_be_disabled()  # until the name is typed
    page.get_by_label("Type orders to confirm").fill("orders")
    delete.click()
    expect(page.get_by_role("heading", name="No containers yet")).to_be_visible()
    assert raw.get(f"/dbs/{name}/colls/orders").status == 404

    page.get_by_role("button", name="Delete database").click()
    page.get_by_label(f"Type {name} to confirm").fill(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=name)).to_have_count(0)
    assert raw.get(f"/dbs/{name}").status == 404


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no slash", "A path must begin with /, as in /no slash"),
        ("/trailing/", "Partition key paths must contain only valid characters"),
    ],
)
def test_a_refusal_stays_in_the_dialog(
    page: Page, database: str, raw: RawClient, path: str, said: str
) -> None:
    visit(page, database.removeprefix("/dbs/"))
    page.get_by_role("button", name="New container", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("c")
    dialog.get_by_label("Partition key").fill(path)
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text(said)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert raw.get(f"{database}/colls").json["_count"] == 0


def test_a_container_that_is_not_there(page: Page, database: str) -> None:
    visit(page, f"{database.removeprefix('/dbs/')}/nowhere/items")
    expect(page.get_by_role("alert")).to_contain_text("There is nothing at this address")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.get_by_role("button", name="New item")).to_be_disabled()
    page.get_by_role("link", name="To the overview").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.parametrize("view", ["foo", "toString", "foo/bar"])
def test_a_view_that_is_not_there_is_the_list_of_items(
    page: Page, container: str, view: str
) -> None:
    _, _, database, _, name = container.split("/")
    visit(page, f"{database}/{name}/{view}")
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    expect(page).to_have_url(re.compile(f"#/{database}/{name}/items$"))


@pytest.mark.parametrize("odd", ["with space", "ünï€ode", "50%", "a&b=c+d"])
def test_names_that_need_escaping(page: Page, raw: RawClient, database: str, odd: str) -> None:
    body = {"id": odd, "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
    assert raw.post(f"{database}/colls", body).status == 201
    item = {"id": odd, "pk": odd}
    path = f"{database}/colls/{odd}/docs"
    assert raw.post(path, item, pk=json.dumps([odd])).status == 201
    visit(page, database.removeprefix("/dbs/"))
    page.get_by_role("main").get_by_role("link", name=odd).click()
    page.get_by_role("row").get_by_role("link", name=odd).click()
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile(re.escape(f'"pk": "{odd}"')))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()


@pytest.mark.parametrize("odd", [".", ".."])
def test_names_that_browsers_take_for_directories(
    page: Page, raw: RawClient, database: str, odd: str
) -> None:
    """Asking for them would ask for something else, and deleting would delete that."""
    body = {"id": odd, "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
    assert raw.post(f"{database}/colls", body).status == 201
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    visit(page, f"{database.removeprefix('/dbs/')}/{odd}/settings")
    expect(page.get_by_role("alert")).to_contain_text(f"A browser cannot ask for the name “{odd}”")
    expect(page.get_by_role("button", name="Server clock")).to_be_visible()  # still signed in
    assert not [url for url in asked if url.endswith((database, f"{database}/"))]


def test_a_database_that_browsers_take_for_a_directory(chromium: Browser) -> None:
    with running(Settings(memory=True)) as found, tab(chromium) as (page, wrong):
        with closing(RawClient(found.endpoint, found.key)) as raw:
            assert raw.post("/dbs", {"id": ".."}).status == 201
        enter(page, found.endpoint, found.key)
        tree = page.get_by_role("navigation", name="Databases and containers")
        expect(tree).to_contain_text("A browser cannot ask for the name “..”")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert not wrong


def test_the_overview_keeps_the_focus_and_the_selection(page: Page, container: str) -> None:
    _, _, database, _, name = container.split("/")
    link = page.get_by_role("main").get_by_role("link", name=f"{database} / {name}")
    link.focus()
    page.get_by_text("Endpoint", exact=True).evaluate(
        "(node) => getSelection().selectAllChildren(node)"
    )
    with answered(page, "GET", 200, path="metrics.json"):
        page.evaluate("document.dispatchEvent(new Event('catalog'))")
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(link).to_be_focused()
    assert page.evaluate("String(getSelection())") == "Endpoint"


def test_the_overview_comes_back_with_the_server(page: Page, container: str) -> None:
    Wire(page).cut("^/dbs$")
    page.evaluate("document.dispatchEvent(new Event('catalog'))")
    expect(page.get_by_role("main")).to_contain_text("The server does not answer")
    Wire(page).restore()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
