"""The editor of an item: create, change, save, delete."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from perseid.clock import MovableClock
from tests.portal.browser import Network, answered
from tests.portal.items import edit, list_items, put_item, read_item, row, set_default_ttl
from tests.portal.screens import visit, visit_tab
from tests.support.raw import RawClient


def test_a_new_item_with_a_ttl(page: Page, raw: RawClient, container: str) -> None:
    set_default_ttl(raw, container, 3600)
    list_items(page, container)
    page.get_by_role("button", name="New item").first.click()
    editor = page.get_by_label("Item as JSON")
    expect(editor).to_have_value(re.compile('"pk": ""'))
    editor.fill('{"id": "made", "pk": "p", "big": 12345678901234567890}')
    page.get_by_role("button", name="1 min", exact=True).click()
    expect(page.get_by_text("After saving: expires in 1 minute")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="made")).to_be_visible()
    expect(row(page, "made")).to_contain_text("1m 00s")
    assert read_item(raw, container, "made")["ttl"] == 60
    assert read_item(raw, container, "made")["big"] == 12345678901234567890
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile("12345678901234567890"))


def test_an_item_with_a_changed_id_is_shown_under_the_new_id(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "old")
    list_items(page, container)
    row(page, "old").get_by_role("link").click()
    editor = page.get_by_label("Item as JSON")
    editor.fill('{"id": "fresh", "pk": "p"}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="fresh")).to_be_visible()
    expect(page).to_have_url(re.compile("/fresh$"))
    expect(row(page, "fresh").get_by_role("link")).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("Delete item fresh?")
    page.keyboard.press("Escape")
    page.reload()
    expect(editor).to_have_value(re.compile('"id": "fresh"'))
    page.go_back()
    expect(page).to_have_url(re.compile("/items$"))
    expect(row(page, "fresh")).to_be_visible()


def test_back_from_a_new_item_leads_to_the_list(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "a")
    list_items(page, container)
    page.get_by_role("button", name="New item").click()
    page.get_by_label("Item as JSON").fill('{"id": "made", "pk": "p"}')
    page.get_by_role("button", name="Save").click()
    expect(row(page, "made").get_by_role("link")).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(page).to_have_url(re.compile("/items$"))
    expect(page.get_by_label("Item as JSON")).to_be_hidden()


def test_adding_a_ttl_is_an_update(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    """T-209: the editor adds `ttl` and saves; `_ts` is updated."""
    set_default_ttl(raw, container, 3600)
    before = put_item(raw, container, "a", note="kept")
    clock.advance(5)
    edit(page, container, "a")
    page.get_by_role("button", name="1 day").click()
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved")).to_be_visible()
    after = read_item(raw, container, "a")
    assert (after["ttl"], after["note"]) == (86_400, "kept")
    assert after["_ts"] == before["_ts"] + 5
    expect(page.get_by_role("region", name="Lifetime")).to_contain_text(
        "Its own ttl applies: it expires 1 day"
    )
    page.get_by_role("button", name="Container's default").click()
    page.get_by_role("button", name="Save").click()
    expect(row(page, "a")).to_contain_text("container")
    assert "ttl" not in read_item(raw, container, "a")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ('{"id": "a", "pk": "p", "ttl": 0}', "The input ttl '0' is invalid"),
        ('{"id": "a", "pk": "other"}', "Partition key provided"),
        ('{"id": "a", "pk": "p",}', "Invalid JSON"),
        ("[]", "object"),
    ],
)
def test_an_item_that_cannot_be_saved_shows_the_reason(
    page: Page, raw: RawClient, container: str, typed: str, message: str
) -> None:
    set_default_ttl(raw, container, 3600)
    stored = put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill(typed)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text(message)
    assert read_item(raw, container, "a") == stored


@pytest.mark.parametrize("choice", ["Use the stored version", "Overwrite"])
def test_a_conflict_shows_both_versions_and_asks(
    page: Page, raw: RawClient, container: str, choice: str
) -> None:
    put_item(raw, container, "a", name="before")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "name": "mine"}')
    put_item(raw, container, "a", name="theirs")
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog", name="Another client has changed this item")
    expect(dialog.get_by_role("row", name="name")).to_have_text(re.compile('name"theirs""mine"'))
    expect(dialog.get_by_role("row")).to_have_count(2)
    dialog.get_by_text("Show line by line").click()
    expect(dialog).to_contain_text('-   "name": "theirs"')
    expect(dialog).to_contain_text('+   "name": "mine"')
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert read_item(raw, container, "a")["name"] == "theirs"  # unchanged until the user decides
    page.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name=choice).click()
    expect(dialog).to_have_count(0)
    kept = "theirs" if choice == "Use the stored version" else "mine"
    expect(editor).to_have_value(re.compile(kept))
    if choice != "Use the stored version":
        expect(page.get_by_text("Saved")).to_be_visible()
    assert read_item(raw, container, "a")["name"] == kept


def test_an_item_that_expired_in_the_editor_can_be_saved_as_new(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default_ttl(raw, container, 60)
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "again": true}')
    clock.advance(60)
    page.get_by_role("button", name="Save").click()
    with answered(page, "POST", 201):
        page.get_by_role("button", name="Save as new").click()
    expect(row(page, "a")).to_contain_text("1m 00s")
    assert read_item(raw, container, "a")["again"] is True


def test_text_that_cannot_be_saved_as_new_is_kept(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default_ttl(raw, container, 60)
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    typed = '{"id": "taken", "pk": "p", "much": "work"}'
    editor.fill(typed)
    clock.advance(60)
    put_item(raw, container, "taken")
    page.get_by_role("button", name="Save").click()
    with answered(page, "POST", 409):
        page.get_by_role("button", name="Save as new").click()
    expect(page.get_by_role("alert")).to_contain_text("already exists")
    assert editor.input_value() == typed


@pytest.mark.parametrize("id_", [".", ".."])
def test_ids_that_browsers_treat_as_directories(
    page: Page, raw: RawClient, container: str, id_: str
) -> None:
    put_item(raw, container, id_, name="before")
    list_items(page, container)
    row(page, id_).get_by_role("link").click()
    editor = page.get_by_label("Item as JSON")
    expect(editor).to_have_value(re.compile("before"))
    editor.fill(json.dumps({"id": id_, "pk": "p", "name": "after"}))
    with answered(page, "PUT", 200):
        page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No items")).to_be_visible()


def test_an_item_is_deleted_after_a_confirmation(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a")
    edit(page, container, "a")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Cancel").click()
    assert read_item(raw, container, "a") is not None
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    assert read_item(raw, container, "a") is None


def test_a_click_on_a_link_does_not_lose_changes(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill("{}")
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Cancel").click()
    expect(editor).to_have_value("{}")
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()


def test_a_rejected_key_does_not_lose_unsaved_text(
    page: Page, raw: RawClient, container: str, key: str
) -> None:
    put_item(raw, container, "a")
    put_item(raw, container, "b")
    editor = edit(page, container, "a")
    typed = '{"id": "a", "pk": "p", "much": "work"}'
    editor.fill(typed)
    Network(page).answer("^/dbs/", 401)
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog.get_by_label("Account key")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(editor).to_have_value(typed)
    page.get_by_role("button", name="Save").click()  # not signed in: asks again
    Network(page).restore()
    dialog.get_by_label("Account key").fill(key)
    dialog.get_by_role("button", name="Sign in").click()
    expect(dialog).to_have_count(0)
    expect(editor).to_have_value(typed)
    expect(row(page, "b")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    assert read_item(raw, container, "a")["much"] == "work"


def test_after_discarding_a_rejected_key_must_be_replaced(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a")
    edit(page, container, "a").fill("{}")
    Network(page).answer("^/dbs/", 401)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog", name="Sign in again")).to_be_visible()
    page.keyboard.press("Escape")
    Network(page).restore()
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_label("Account key")).to_be_visible()


def test_signing_out_asks_about_unsaved_text(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill("{}")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Cancel").click()
    expect(editor).to_have_value("{}")
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_label("Account key")).to_be_visible()


def test_the_server_explains_an_item(page: Page, raw: RawClient, container: str) -> None:
    set_default_ttl(raw, container, 60)
    put_item(raw, container, "a")
    edit(page, container, "a")
    page.get_by_text("System properties").click()
    page.get_by_role("button", name="Explain expiry").click()
    expect(page.get_by_role("dialog")).to_contain_text("T-022")


def test_the_editor_shows_that_time_to_live_is_off(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a", ttl=5)
    edit(page, container, "a")
    expect(page.get_by_role("region", name="Lifetime")).to_contain_text("never expires")
    page.get_by_role("link", name="Turn it on").click()
    expect(page.get_by_role("heading", name="Time to Live")).to_be_visible()


def test_a_ttl_that_will_be_rejected_is_marked_while_typing(
    page: Page, raw: RawClient, container: str
) -> None:
    set_default_ttl(raw, container, 3600)
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    effect = page.get_by_role("region", name="Lifetime").get_by_role("status")
    editor.fill('{"id": "a", "pk": "p", "ttl": 0}')
    expect(effect).to_contain_text("The server will reject this ttl")
    editor.fill('{"id": "a", "pk": "p", "ttl": 60}')
    expect(effect).to_have_text("After saving: expires in 1 minute (TTL source: item).")


def test_saving_twice_quickly_is_no_conflict(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "n": 1}')
    network = Network(page)
    network.hold("/docs/a$", "PUT")
    page.keyboard.press("Control+s")
    network.wait()
    page.keyboard.press("Control+s")
    with answered(page, "PUT", 200):
        network.restore()
    expect(page.get_by_text("Saved")).to_have_count(1)
    list_items(page, container)
    expect(row(page, "a")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert network.intercepted == ["PUT"]
    assert read_item(raw, container, "a")["n"] == 1


def test_typing_continues_while_an_item_is_saved(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "n": 1}')
    network = Network(page)
    network.hold("/docs/a$", "PUT")
    page.keyboard.press("Control+s")
    network.wait()
    editor.press("ArrowLeft")
    page.keyboard.type("2")
    with answered(page, "PUT", 200):
        network.restore()
    expect(page.get_by_text("Saved")).to_be_visible()
    expect(editor).to_be_focused()
    expect(editor).to_have_value('{"id": "a", "pk": "p", "n": 12}')
    assert read_item(raw, container, "a")["n"] == 1
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved")).to_have_count(2)
    assert read_item(raw, container, "a")["n"] == 12


def test_a_partition_key_of_many_digits_is_shown_exactly(
    page: Page, raw: RawClient, container: str
) -> None:
    key = 9007199254740993  # a browser's number would be ...992
    made = raw.post(f"{container}/docs", {"id": "a", "pk": key}, pk=f"[{key}]")
    assert made.status == 201
    list_items(page, container)
    expect(row(page, "a")).to_contain_text(str(key))
    row(page, "a").get_by_role("link").click()
    expect(page.get_by_role("region", name="Item", exact=True)).to_contain_text(str(key))
    editor = page.get_by_label("Item as JSON")
    editor.fill(f'{{"id": "a", "pk": {key}, "n": 1}}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    page.get_by_text("System properties").click()
    page.get_by_role("button", name="Explain expiry").click()
    expect(page.get_by_role("dialog")).to_contain_text("live")


def test_an_open_item_whose_lifetime_was_extended_is_not_shown_as_expired(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default_ttl(raw, container, 60)
    put_item(raw, container, "a")
    edit(page, container, "a")
    set_default_ttl(raw, container, 3600)
    clock.advance(61)
    lifetime = page.get_by_role("region", name="Lifetime")
    expect(lifetime).to_contain_text("58m 59s")
    expect(lifetime).not_to_contain_text("Expired at")


def test_a_confirmation_does_not_change_the_history(
    page: Page, raw: RawClient, container: str
) -> None:
    put_item(raw, container, "a")
    visit_tab(page, container, "query")
    list_items(page, container)
    editor = edit(page, container, "a")
    editor.fill("{}")
    discard = page.get_by_role("button", name="Discard changes")
    for _ in range(2):  # asking adds no entries to the history
        page.get_by_role("link", name="Lifetimes").click()
        page.get_by_role("button", name="Cancel").click()
        expect(discard).to_have_count(0)
        page.evaluate("history.back()")
        expect(discard).to_be_visible()
        page.keyboard.press("Escape")
        expect(editor).to_have_value("{}")
        expect(page).to_have_url(re.compile("/a$"))
    page.evaluate("history.back()")
    discard.click()
    expect(page).to_have_url(re.compile("/items$"))
    expect(editor).to_have_count(0)
    page.evaluate("history.back()")
    expect(page).to_have_url(re.compile("/query$"))
    page.evaluate("history.go(2)")
    expect(editor).to_have_value(re.compile('"id": "a"'))


def test_a_throttled_request_is_retried(page: Page, raw: RawClient, container: str) -> None:
    put_item(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "n": 1}')
    network = Network(page)
    network.answer("/docs/a$", 429, headers={"x-ms-retry-after-ms": "5"}, times=2)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    assert network.intercepted == ["PUT", "PUT"]
    assert read_item(raw, container, "a")["n"] == 1


@pytest.mark.parametrize(
    ("paths", "blank"),
    [
        (["/__proto__/x"], '{"id":"i","__proto__":{"x":""}}'),
        (["/a/constructor/prototype/y"], '{"id":"i","a":{"constructor":{"prototype":{"y":""}}}}'),
        (["/toString"], '{"id":"i","toString":""}'),
        (["/a/b", "/a/c", "/id"], '{"id":"i","a":{"b":"","c":""}}'),
        (["/id/x/y"], '{"id":"i"}'),
        (["/a", "/a/b"], '{"id":"i","a":""}'),
    ],
)
def test_a_key_path_of_any_names_makes_an_empty_item(
    page: Page, paths: list[str], blank: str
) -> None:
    made, leaked = page.evaluate(
        """async (paths) => {
            const made = (await import("./partition-key.js")).emptyItem("i", { paths });
            return [JSON.stringify(made), ["x", "y"].filter((name) => name in {})];
        }""",
        paths,
    )
    assert (made, leaked) == (blank, [])


def test_an_item_whose_key_is_named_proto(page: Page, raw: RawClient, database: str) -> None:
    body = {"id": "c", "partitionKey": {"paths": ["/__proto__/x"], "kind": "Hash"}}
    assert raw.post(f"{database}/colls", body).status == 201
    visit(page, f"{database.removeprefix('/dbs/')}/c/items/new")
    editor = page.get_by_label("Item as JSON")
    expect(editor).to_have_value(re.compile('"__proto__": {\\s+"x": ""'))
    editor.fill('{"id": "a", "__proto__": {"x": "k"}}')
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Item a created")).to_be_visible()
    expect(row(page, "a")).to_contain_text("k")
    assert raw.get(f"{database}/colls/c/docs/a", pk='["k"]').json["__proto__"] == {"x": "k"}
