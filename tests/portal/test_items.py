"""Items: the list that counts down, and the editor."""

from __future__ import annotations

import json
import re
from contextlib import closing
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from perseid import ttl
from perseid.clock import MovableClock, SystemClock, wall
from perseid.config import Settings
from perseid.errors import BadRequest
from perseid.ttl import Policy
from tests.portal.browsing import Wire, answered, tab
from tests.portal.scenes import enter, visit
from tests.support.raw import RawClient
from tests.support.running import running


def put(raw: RawClient, container: str, id_: str, **rest: Any) -> dict[str, Any]:
    reply = raw.post(f"{container}/docs", {"id": id_, "pk": "p", **rest}, pk='["p"]', upsert="true")
    assert reply.status in (200, 201), reply
    stored: dict[str, Any] = reply.json
    return stored


def read(raw: RawClient, container: str, id_: str) -> Any:
    reply = raw.get(f"{container}/docs/{id_}", pk='["p"]')
    return reply.json if reply.status == 200 else None


def set_default(raw: RawClient, container: str, default_ttl: int) -> None:
    body = raw.get(container).json | {"defaultTtl": default_ttl}
    assert raw.put(container, body).status == 200


def list_items(page: Page, container: str) -> None:
    visit(page, f"{place(container)}/items")


def edit(page: Page, container: str, id_: str) -> Locator:
    visit(page, f"{place(container)}/items/{quote(json.dumps(['p']), safe='')}/{id_}")
    editor = page.get_by_label("Item as JSON")
    expect(editor).to_be_visible()
    return editor


def place(container: str) -> str:
    _, _, database, _, name = container.split("/")
    return f"{database}/{name}"


def row(page: Page, id_: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=id_, exact=True))


def test_each_row_says_when_the_item_ends_and_why(
    page: Page, raw: RawClient, container: str
) -> None:
    set_default(raw, container, 3600)
    put(raw, container, "inherits")
    put(raw, container, "own", ttl=90)
    put(raw, container, "stays", ttl=-1)
    list_items(page, container)
    expect(row(page, "inherits")).to_contain_text(re.compile("1h 00m.*container"))
    expect(row(page, "own")).to_contain_text(re.compile("1m 30s.*item"))
    expect(row(page, "stays")).to_contain_text(re.compile("never.*never"))


def test_an_item_dies_on_the_screen(page: Page, raw: RawClient, container: str) -> None:
    """The panel moves the test clock; the countdown follows, and at its end the row goes."""
    set_default(raw, container, -1)
    put(raw, container, "mayfly", ttl=30)
    put(raw, container, "oak")
    list_items(page, container)
    expect(row(page, "mayfly")).to_contain_text("30s")
    page.get_by_role("button", name="Server clock").click()
    page.get_by_role("button", name="+ 10 s").click()
    expect(row_behind(page, "mayfly")).to_contain_text("20s")
    page.get_by_label("Seconds to move forward").fill("19")
    page.get_by_role("button", name="Move forward").click()
    expect(row_behind(page, "mayfly")).to_contain_text("1s")
    assert read(raw, container, "mayfly") is not None
    page.get_by_label("Seconds to move forward").fill("1")
    page.get_by_role("button", name="Move forward").click()
    expect(row_behind(page, "mayfly")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(row(page, "oak")).to_be_visible()
    assert read(raw, container, "mayfly") is None


def row_behind(page: Page, id_: str) -> Locator:
    """A row under a dialog, where roles do not reach."""
    return page.locator("tr").filter(has=page.locator(f"a:text-is('{id_}')"))


def test_a_clock_that_somebody_else_moves_is_noticed(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default(raw, container, 100)
    put(raw, container, "mayfly")
    list_items(page, container)
    expect(row(page, "mayfly")).to_contain_text("1m 40s")
    clock.advance(60)
    expect(row(page, "mayfly")).to_contain_text("40s")
    clock.advance(40)
    expect(row(page, "mayfly")).to_have_count(0)
    expect(page.get_by_role("heading", name="No items")).to_be_visible()


def test_an_item_that_was_given_more_time_stays(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default(raw, container, 50)
    put(raw, container, "cat")
    list_items(page, container)
    expect(row(page, "cat")).to_contain_text("50s")
    clock.advance(40)
    put(raw, container, "cat")  # elsewhere, while the page is open
    clock.advance(15)
    expect(row(page, "cat")).to_contain_text("35s")


def test_a_running_clock_counts_down(page: Page, raw: RawClient, container: str) -> None:
    set_default(raw, container, 100)
    put(raw, container, "mayfly")
    list_items(page, container)
    page.get_by_role("button", name="Server clock").click()
    page.get_by_role("button", name="Let it run").click()
    expect(row_behind(page, "mayfly")).to_contain_text(re.compile("1m 3[0-8]s"))
    page.get_by_role("button", name="Freeze").click()
    expect(page.get_by_role("button", name="Let it run")).to_be_visible()


def test_a_clock_that_is_held_stands_still(chromium: Browser) -> None:
    """The data has seen a later time than the system shows."""
    time = SystemClock()
    time.advance_to_at_least(wall() + 3600)
    with running(Settings(memory=True), time) as found, tab(chromium) as (page, _):
        page.goto(f"{found.endpoint}_explorer/#key={quote(found.key, safe='')}")
        page.get_by_role("button", name="Server clock").click()
        held = "It stands still until the system's clock gets there"
        expect(page.get_by_text(held)).to_be_visible()


def test_a_server_whose_clock_is_behind_is_not_asked_all_the_time(chromium: Browser) -> None:
    """The page does not get to know the server's clock: by its own, the item is long gone."""
    time = MovableClock(lambda: wall() - 3600)
    time.freeze()
    with (
        running(Settings(memory=True), time) as found,
        closing(RawClient(found.endpoint, found.key)) as raw,
        tab(chromium) as (page, wrong),
    ):
        assert raw.post("/dbs", {"id": "d"}).status == 201
        key = {"paths": ["/pk"], "kind": "Hash"}
        body = {"id": "c", "partitionKey": key, "defaultTtl": 60}
        assert raw.post("/dbs/d/colls", body).status == 201
        put(raw, "/dbs/d/colls/c", "late")
        page.route("**/_perseid/clock", lambda route: route.abort())
        enter(page, found.endpoint, found.key)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        visit(page, "d/c/items")
        expect(row(page, "late")).to_contain_text("gone")
        page.evaluate(
            """async () => {
                const { clock } = await import("./clock.js");
                for (let ticks = 0; ticks < 4; ticks++)
                    await new Promise((go) => clock.addEventListener("tick", go, { once: true }));
            }"""
        )
        assert 2 <= len([url for url in asked if url.endswith("/docs")]) <= 4
        expect(row(page, "late")).to_be_visible()  # the server has it still
        assert not wrong


def test_pages_and_the_filter(page: Page, raw: RawClient, container: str) -> None:
    for number in range(103):
        put(raw, container, f"i{number:03d}")
    list_items(page, container)
    expect(page.get_by_text("100 items shown")).to_be_visible()
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_text("103 items")).to_be_visible()
    expect(page.get_by_role("button", name="Load more")).to_be_hidden()
    page.get_by_label("Filter by id").fill("I05")
    expect(page.get_by_text("10 items")).to_be_visible()
    page.get_by_label("Filter by id").fill("nothing")
    expect(page.get_by_role("heading", name="No item matches")).to_be_visible()


def test_a_new_item_with_a_ttl(page: Page, raw: RawClient, container: str) -> None:
    set_default(raw, container, 3600)
    list_items(page, container)
    page.get_by_role("button", name="New item").first.click()
    editor = page.get_by_label("Item as JSON")
    expect(editor).to_have_value(re.compile('"pk": ""'))
    editor.fill('{"id": "made", "pk": "p", "big": 12345678901234567890}')
    page.get_by_role("button", name="1 min", exact=True).click()
    expect(page.get_by_text("After saving: ends 1 minute later")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="made")).to_be_visible()
    expect(row(page, "made")).to_contain_text("1m 00s")
    assert read(raw, container, "made")["ttl"] == 60
    assert read(raw, container, "made")["big"] == 12345678901234567890
    expect(page.get_by_label("Item as JSON")).to_have_value(re.compile("12345678901234567890"))


def test_an_item_that_was_given_another_id_is_called_by_it(
    page: Page, raw: RawClient, container: str
) -> None:
    put(raw, container, "old")
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


def test_from_a_new_item_the_way_back_leads_to_the_list(
    page: Page, raw: RawClient, container: str
) -> None:
    put(raw, container, "a")
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
    """T-209: the editor adds `ttl` and saves; `_ts` is renewed."""
    set_default(raw, container, 3600)
    before = put(raw, container, "a", note="kept")
    clock.advance(5)
    edit(page, container, "a")
    page.get_by_role("button", name="1 day").click()
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved")).to_be_visible()
    after = read(raw, container, "a")
    assert (after["ttl"], after["note"]) == (86_400, "kept")
    assert after["_ts"] == before["_ts"] + 5
    expect(page.get_by_role("region", name="Lifetime")).to_contain_text("Its own ttl ends it 1 day")
    page.get_by_role("button", name="Container's default").click()
    page.get_by_role("button", name="Save").click()
    expect(row(page, "a")).to_contain_text("container")
    assert "ttl" not in read(raw, container, "a")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ('{"id": "a", "pk": "p", "ttl": 0}', "The input ttl '0' is invalid"),
        ('{"id": "a", "pk": "other"}', "Partition key provided"),
        ('{"id": "a", "pk": "p",}', "This is not JSON"),
        ("[]", "object"),
    ],
)
def test_what_cannot_be_saved_is_said(
    page: Page, raw: RawClient, container: str, typed: str, said: str
) -> None:
    set_default(raw, container, 3600)
    stored = put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill(typed)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text(said)
    assert read(raw, container, "a") == stored


@pytest.mark.parametrize("choice", ["Take theirs", "Save mine over it"])
def test_a_conflict_shows_both_and_has_two_ways_out(
    page: Page, raw: RawClient, container: str, choice: str
) -> None:
    put(raw, container, "a", name="before")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "name": "mine"}')
    put(raw, container, "a", name="theirs")
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog", name="Somebody has changed this item")
    expect(dialog).to_contain_text('-   "name": "theirs"')
    expect(dialog).to_contain_text('"name": "mine"')
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert read(raw, container, "a")["name"] == "theirs"  # nothing happens by itself
    page.get_by_role("button", name="Save").click()
    dialog.get_by_role("button", name=choice).click()
    expect(dialog).to_have_count(0)
    kept = "theirs" if choice == "Take theirs" else "mine"
    expect(editor).to_have_value(re.compile(kept))
    if choice != "Take theirs":
        expect(page.get_by_text("Saved")).to_be_visible()
    assert read(raw, container, "a")["name"] == kept


def test_an_item_that_ended_under_the_editor_can_be_saved_as_new(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default(raw, container, 60)
    put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "again": true}')
    clock.advance(60)
    page.get_by_role("button", name="Save").click()
    with answered(page, "POST", 201):
        page.get_by_role("button", name="Save as new").click()
    expect(row(page, "a")).to_contain_text("1m 00s")
    assert read(raw, container, "a")["again"] is True


def test_what_cannot_be_saved_as_new_is_not_lost(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default(raw, container, 60)
    put(raw, container, "a")
    editor = edit(page, container, "a")
    typed = '{"id": "taken", "pk": "p", "much": "work"}'
    editor.fill(typed)
    clock.advance(60)
    put(raw, container, "taken")
    page.get_by_role("button", name="Save").click()
    with answered(page, "POST", 409):
        page.get_by_role("button", name="Save as new").click()
    expect(page.get_by_role("alert")).to_contain_text("already exists")
    assert editor.input_value() == typed


@pytest.mark.parametrize("id_", [".", ".."])
def test_ids_that_browsers_take_for_directories(
    page: Page, raw: RawClient, container: str, id_: str
) -> None:
    put(raw, container, id_, name="before")
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


def test_an_item_is_deleted_after_a_question(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    edit(page, container, "a")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Cancel").click()
    assert read(raw, container, "a") is not None
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    assert read(raw, container, "a") is None


def test_changes_are_not_lost_by_a_click(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill("{}")
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Cancel").click()
    expect(editor).to_have_value("{}")
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_role("button", name="Run")).to_be_visible()


def test_a_key_that_is_refused_costs_no_text(
    page: Page, raw: RawClient, container: str, key: str
) -> None:
    put(raw, container, "a")
    put(raw, container, "b")
    editor = edit(page, container, "a")
    typed = '{"id": "a", "pk": "p", "much": "work"}'
    editor.fill(typed)
    Wire(page).answer("^/dbs/", 401)
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog.get_by_label("Account key")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(editor).to_have_value(typed)
    page.get_by_role("button", name="Save").click()  # still nobody: asks again
    Wire(page).restore()
    dialog.get_by_label("Account key").fill(key)
    dialog.get_by_role("button", name="Connect").click()
    expect(dialog).to_have_count(0)
    expect(editor).to_have_value(typed)
    expect(row(page, "b")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    assert read(raw, container, "a")["much"] == "work"


def test_who_gives_no_other_key_is_asked_again_after_discarding(
    page: Page, raw: RawClient, container: str
) -> None:
    put(raw, container, "a")
    edit(page, container, "a").fill("{}")
    Wire(page).answer("^/dbs/", 401)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog", name="Sign in again")).to_be_visible()
    page.keyboard.press("Escape")
    Wire(page).restore()
    page.get_by_role("link", name="Query").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_label("Account key")).to_be_visible()


def test_the_key_is_not_forgotten_over_unsaved_text(
    page: Page, raw: RawClient, container: str
) -> None:
    put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill("{}")
    page.get_by_role("button", name="Forget the key").click()
    page.get_by_role("button", name="Cancel").click()
    expect(editor).to_have_value("{}")
    page.get_by_role("button", name="Forget the key").click()
    page.get_by_role("button", name="Discard changes").click()
    expect(page.get_by_label("Account key")).to_be_visible()


def test_the_server_explains_an_item(page: Page, raw: RawClient, container: str) -> None:
    set_default(raw, container, 60)
    put(raw, container, "a")
    edit(page, container, "a")
    page.get_by_text("System properties").click()
    page.get_by_role("button", name="Ask the server").click()
    expect(page.get_by_role("dialog")).to_contain_text("T-022")


def test_while_time_to_live_is_off_the_editor_says_so(
    page: Page, raw: RawClient, container: str
) -> None:
    put(raw, container, "a", ttl=5)
    edit(page, container, "a")
    expect(page.get_by_role("region", name="Lifetime")).to_contain_text("never ends")
    page.get_by_role("link", name="Switch it on").click()
    expect(page.get_by_role("heading", name="Time to Live")).to_be_visible()


# Values that items have at `ttl`, sensible or not.
TTLS: list[Any] = [
    None, True, -1, 0, 1, 20, 60.0, 1.5, -2, 2_147_483_647, 2_147_483_648, "20", [], {}, "absent",
]  # fmt: skip


def test_the_countdown_follows_the_servers_rule(page: Page) -> None:
    """lifetime.js says when an item ends as ttl.py does, for every cell of the matrix."""
    cases = []
    for default_ttl, value in product((None, -1, 10), TTLS):
        document: dict[str, Any] = {"_ts": 1000}
        if value != "absent":
            document["ttl"] = value
        # Stored while the setting was off, so an invalid value is there and counts as absent.
        own = ttl.stored_item_ttl(document, Policy(None))
        cases.append((document, default_ttl, ttl.expires_at(1000, own, Policy(default_ttl))))
    found = page.evaluate(
        """async (cases) => {
            const { lifetime } = await import("./lifetime.js");
            return cases.map(([item, defaultTtl]) => lifetime(item, defaultTtl).ends);
        }""",
        [[document, default_ttl] for document, default_ttl, _ in cases],
    )
    assert found == [end for _, _, end in cases]


def test_the_editor_foresees_which_ttl_is_refused(page: Page) -> None:
    """lifetime.js refuses what ttl.py refuses."""
    documents = [{} if value == "absent" else {"ttl": value} for value in TTLS]
    cases = list(product(documents, (None, -1, 10)))
    found = page.evaluate(
        """async (cases) => {
            const { isTtlTaken } = await import("./lifetime.js");
            return cases.map(([item, defaultTtl]) => isTtlTaken(item, defaultTtl));
        }""",
        cases,
    )
    assert found == [is_stored(document, default_ttl) for document, default_ttl in cases]


def is_stored(document: dict[str, Any], default_ttl: int | None) -> bool:
    try:
        ttl.stored_item_ttl(document, Policy(default_ttl))
    except BadRequest:
        return False
    return True


def test_a_ttl_that_will_be_refused_is_told_from_others_while_typing(
    page: Page, raw: RawClient, container: str
) -> None:
    set_default(raw, container, 3600)
    put(raw, container, "a")
    editor = edit(page, container, "a")
    effect = page.get_by_role("region", name="Lifetime").get_by_role("status")
    editor.fill('{"id": "a", "pk": "p", "ttl": 0}')
    expect(effect).to_contain_text("The server will refuse this ttl")
    editor.fill('{"id": "a", "pk": "p", "ttl": 60}')
    expect(effect).to_have_text("After saving: ends 1 minute later, because of its own ttl.")


def test_what_is_still_there_is_not_called_gone(page: Page, raw: RawClient, container: str) -> None:
    """A page of the server's ends at four megabytes, long before the rows on the screen do."""
    for number in range(6):
        put(raw, container, f"i{number}", text="x" * 1_500_000)
    list_items(page, container)
    for shown in (4, 6):
        page.get_by_role("button", name="Load more").click()
        expect(page.get_by_role("rowheader")).to_have_count(shown)
    put(raw, container, "seventh")
    with answered(page, "GET", 200, path="/docs"):
        page.get_by_role("button", name="Refresh").last.click()
    expect(row(page, "seventh")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_count(7)
    expect(page.locator(".leaving")).to_have_count(0)


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
    put(raw, container, "last")
    page.get_by_role("button", name="Refresh").last.click()
    expect(page.get_by_text("1,100 items shown")).to_be_visible()
    expect(page.locator(".leaving")).to_have_count(0)
    page.get_by_role("button", name="Load more").click()
    expect(page.get_by_text(re.compile("^1,101 items$"))).to_be_visible()


def test_saving_twice_in_a_hurry_is_no_conflict(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "n": 1}')
    wire = Wire(page)
    wire.hold("/docs/a$", "PUT")
    page.keyboard.press("Control+s")
    wire.wait()
    page.keyboard.press("Control+s")
    with answered(page, "PUT", 200):
        wire.restore()
    expect(page.get_by_text("Saved")).to_have_count(1)
    list_items(page, container)
    expect(row(page, "a")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert wire.met == ["PUT"]
    assert read(raw, container, "a")["n"] == 1


def test_typing_goes_on_while_an_item_is_saved(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "n": 1}')
    wire = Wire(page)
    wire.hold("/docs/a$", "PUT")
    page.keyboard.press("Control+s")
    wire.wait()
    editor.press("ArrowLeft")
    page.keyboard.type("2")
    with answered(page, "PUT", 200):
        wire.restore()
    expect(page.get_by_text("Saved")).to_be_visible()
    expect(editor).to_be_focused()
    expect(editor).to_have_value('{"id": "a", "pk": "p", "n": 12}')
    assert read(raw, container, "a")["n"] == 1
    page.keyboard.press("Control+s")
    expect(page.get_by_text("Saved")).to_have_count(2)
    assert read(raw, container, "a")["n"] == 12


def test_a_partition_key_of_many_digits_is_shown_as_it_is(
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
    page.get_by_role("button", name="Ask the server").click()
    expect(page.get_by_role("dialog")).to_contain_text("alive")


def test_the_focus_comes_back_from_the_editor(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    put(raw, container, "b")
    list_items(page, container)
    row(page, "b").get_by_role("link").press("Enter")
    expect(page.get_by_label("Item as JSON")).to_be_visible()
    page.get_by_role("region", name="Item", exact=True).get_by_role("button", name="Close").press(
        "Enter"
    )
    expect(row(page, "b").get_by_role("link")).to_be_focused()
    page.get_by_role("link", name="Query").press("Enter")
    expect(page.get_by_role("link", name="Query")).to_be_focused()


def test_an_open_item_that_was_given_more_time_is_not_called_gone(
    page: Page, raw: RawClient, clock: MovableClock, container: str
) -> None:
    set_default(raw, container, 60)
    put(raw, container, "a")
    edit(page, container, "a")
    set_default(raw, container, 3600)
    clock.advance(61)
    lifetime = page.get_by_role("region", name="Lifetime")
    expect(lifetime).to_contain_text("58m 59s")
    expect(lifetime).not_to_contain_text("Ended at")


def test_the_way_back_survives_a_question(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    visit(page, f"{place(container)}/query")
    list_items(page, container)
    editor = edit(page, container, "a")
    editor.fill("{}")
    discard = page.get_by_role("button", name="Discard changes")
    for _ in range(2):  # neither the way on nor the way back grows by asking
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


def test_a_busy_container_is_asked_again(page: Page, raw: RawClient, container: str) -> None:
    put(raw, container, "a")
    editor = edit(page, container, "a")
    editor.fill('{"id": "a", "pk": "p", "n": 1}')
    wire = Wire(page)
    wire.answer("/docs/a$", 429, headers={"x-ms-retry-after-ms": "5"}, times=2)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    assert wire.met == ["PUT", "PUT"]
    assert read(raw, container, "a")["n"] == 1


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
def test_a_key_path_of_any_names_makes_a_blank_item(
    page: Page, paths: list[str], blank: str
) -> None:
    made, leaked = page.evaluate(
        """async (paths) => {
            const made = (await import("./keys.js")).blank("i", { paths });
            return [JSON.stringify(made), ["x", "y"].filter((name) => name in {})];
        }""",
        paths,
    )
    assert (made, leaked) == (blank, [])


def test_an_item_whose_key_is_called_proto(page: Page, raw: RawClient, database: str) -> None:
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
