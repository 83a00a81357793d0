"""The tree of databases and containers, and the overview."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Page, expect

from perseid.config import Settings
from tests.portal.browser import Network, answered, tab
from tests.portal.screens import path_of, sign_in, visit, visit_tab
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
    ("path", "message"),
    [
        ("no slash", "A path must begin with /, for example /no slash"),
        ("/trailing/", "Partition key paths must contain only valid characters"),
    ],
)
def test_an_error_is_shown_in_the_dialog(
    page: Page, database: str, raw: RawClient, path: str, message: str
) -> None:
    visit(page, database.removeprefix("/dbs/"))
    page.get_by_role("button", name="New container", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("c")
    dialog.get_by_label("Partition key").fill(path)
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_contain_text(message)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert raw.get(f"{database}/colls").json["_count"] == 0


def test_a_container_that_does_not_exist(page: Page, database: str) -> None:
    visit(page, f"{database.removeprefix('/dbs/')}/nowhere/items")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.get_by_role("button", name="New item")).to_be_disabled()
    page.get_by_role("link", name="Go to the overview").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


@pytest.mark.parametrize("view", ["foo", "toString", "foo/bar"])
def test_an_unknown_tab_shows_the_list_of_items(page: Page, container: str, view: str) -> None:
    visit_tab(page, container, view)
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    expect(page).to_have_url(re.compile(f"#/{path_of(container)}/items$"))


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
    page.get_by_label("Item as JSON").fill(json.dumps(item | {"n": 1}))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()


@pytest.mark.parametrize("odd", [".", ".."])
def test_names_that_browsers_treat_as_directories(
    page: Page, raw: RawClient, database: str, odd: str
) -> None:
    """A request for such a name would address, and delete, another resource."""
    body = {"id": odd, "partitionKey": {"paths": ["/pk"], "kind": "Hash"}}
    assert raw.post(f"{database}/colls", body).status == 201
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    visit(page, f"{database.removeprefix('/dbs/')}/{odd}/settings")
    expect(page.get_by_role("alert")).to_contain_text(
        f"A browser cannot send requests for the name “{odd}”"
    )
    expect(page.get_by_role("button", name="Server clock")).to_be_visible()  # still signed in
    assert not [url for url in requested if url.endswith((database, f"{database}/"))]


def test_a_database_name_that_browsers_treat_as_directory(chromium: Browser) -> None:
    with running(Settings(memory=True)) as server, tab(chromium) as (page, errors):
        with closing(RawClient(server.endpoint, server.key)) as raw:
            assert raw.post("/dbs", {"id": ".."}).status == 201
        sign_in(page, server.endpoint, server.key)
        tree = page.get_by_role("navigation", name="Databases and containers")
        expect(tree).to_contain_text("A browser cannot send requests for the name “..”")
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert not errors


def test_the_overview_keeps_the_focus_and_the_selection(page: Page, container: str) -> None:
    name = path_of(container).replace("/", " / ")
    link = page.get_by_role("main").get_by_role("link", name=name)
    link.focus()
    page.get_by_text("Endpoint", exact=True).evaluate(
        "(node) => getSelection().selectAllChildren(node)"
    )
    with answered(page, "GET", 200, path="metrics.json"):
        page.evaluate("document.dispatchEvent(new Event('catalog'))")
    page.evaluate("() => new Promise(requestAnimationFrame)")
    expect(link).to_be_focused()
    assert page.evaluate("String(getSelection())") == "Endpoint"


def test_the_overview_recovers_when_the_server_is_back(page: Page, container: str) -> None:
    Network(page).fail("^/dbs$")
    page.evaluate("document.dispatchEvent(new Event('catalog'))")
    expect(page.get_by_role("main")).to_contain_text("The server does not respond")
    Network(page).restore()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
