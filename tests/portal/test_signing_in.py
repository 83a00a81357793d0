"""The key: asked for once, kept for the tab, on every request; or none, if none is needed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.portal.browsing import Wire, tab
from tests.portal.scenes import NOON, enter, visit
from tests.support.running import running

OTHER_KEY = base64.b64encode(b"somebody else's key").decode()


def test_a_visitor_is_asked_for_the_key_once(fresh: Page, endpoint: str, key: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_label("Account key").fill(key)
    fresh.get_by_role("button", name="Connect").click()
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()
    fresh.reload()
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()
    assert fresh.evaluate("localStorage.length") == 0
    assert fresh.context.cookies() == []


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (OTHER_KEY, "The server does not accept this key."),
        ("not base64!", "keys are base64"),
    ],
)
def test_a_wrong_key_is_refused_with_the_reason(
    fresh: Page, endpoint: str, typed: str, said: str
) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_label("Account key").fill(typed)
    fresh.get_by_role("button", name="Connect").click()
    expect(fresh.get_by_role("alert")).to_contain_text(said)
    expect(fresh.get_by_role("alert")).not_to_contain_text("payload")
    assert fresh.evaluate("sessionStorage.length") == 0


def test_a_date_that_is_refused_is_not_blamed_on_the_key(
    chromium: Browser, endpoint: str, key: str
) -> None:
    with tab(chromium) as (page, _):
        # The page takes the server's date from health; another one makes it sign for long ago.
        page.route(
            "**/_perseid/health",
            lambda route: route.fulfill(
                body="{}", headers={"date": "Sat, 01 Jan 2000 00:00:00 GMT"}
            ),
        )
        page.goto(f"{endpoint}_explorer/")
        page.get_by_label("Account key").fill(key)
        page.get_by_role("button", name="Connect").click()
        expect(page.get_by_role("alert")).to_contain_text("not valid at the current time")
        page.unroute("**/_perseid/health")  # the clocks agree again
        page.get_by_role("button", name="Connect").click()
        expect(page.get_by_role("button", name="Server clock")).to_be_visible()


def test_a_connection_string_holds_a_key(fresh: Page, endpoint: str, key: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_label("Account key").fill(f"AccountEndpoint={endpoint};AccountKey={key};")
    fresh.keyboard.press("Enter")
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()


def test_the_emulators_key_takes_one_click(fresh: Page, endpoint: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_role("button", name="Use the emulator's key").click()
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()


def test_a_key_in_the_address_is_taken_out_of_it(fresh: Page, endpoint: str, key: str) -> None:
    enter(fresh, endpoint, key)
    assert fresh.url == f"{endpoint}_explorer/"
    assert "key" not in fresh.evaluate("JSON.stringify(history.state)")


def test_a_handed_over_key_that_is_none_asks_for_one(fresh: Page, endpoint: str) -> None:
    fresh.goto(f"{endpoint}_explorer/#key=%zz")
    expect(fresh.get_by_label("Account key")).to_be_visible()
    expect(fresh.get_by_role("alert")).to_contain_text("keys are base64")


def test_forgetting_the_key_asks_again(page: Page) -> None:
    page.get_by_role("button", name="Forget the key").click()
    expect(page.get_by_label("Account key")).to_be_focused()
    assert page.evaluate("sessionStorage.getItem('perseid.key')") is None


def test_nothing_but_files_and_health_is_asked_for_unsigned(
    fresh: Page, endpoint: str, key: str, container: str
) -> None:
    unsigned: list[str] = []

    def note(request: Request) -> None:
        path = urlsplit(request.url).path
        if not path.startswith("/_explorer/") and "authorization" not in request.headers:
            unsigned.append(path)
        assert key not in str(request.headers)

    fresh.on("request", note)
    enter(fresh, endpoint, key)
    database = container.split("/")[2]
    for view in ("items", "query", "settings", "lifetimes"):
        fresh.goto(f"{endpoint}_explorer/#/{database}/c/{view}")
        expect(fresh.get_by_role("status").first).to_be_attached()
    fresh.remove_listener("request", note)
    assert set(unsigned) <= {"/_perseid/health"}


def test_a_server_without_authorization_asks_for_no_key(chromium: Browser) -> None:
    open_server = running(Settings(memory=True, no_auth=True))
    with open_server as found, tab(chromium) as (page, wrong):
        page.goto(f"{found.endpoint}_explorer/")
        expect(page.get_by_text("no key needed")).to_be_visible()
        expect(page.get_by_role("heading", name="Nothing here yet")).to_be_visible()
        assert not wrong


def test_a_read_only_key_sees_items_and_is_told_what_it_may_not_do(chromium: Browser) -> None:
    with (
        running(Settings(memory=True, read_only_key=OTHER_KEY)) as found,
        tab(chromium) as (page, wrong),
    ):
        enter(page, found.endpoint, OTHER_KEY)
        page.get_by_role("button", name="New database").first.click()
        page.get_by_role("dialog").get_by_label("Name").fill("mine")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text("The key used can only read")
        assert not wrong


def test_a_read_only_key_is_shown_the_servers_clock(chromium: Browser) -> None:
    time = MovableClock()
    time.freeze()
    time.set(NOON)
    with (
        running(Settings(memory=True, read_only_key=OTHER_KEY), time) as found,
        tab(chromium) as (page, wrong),
    ):
        enter(page, found.endpoint, OTHER_KEY)
        page.get_by_role("button", name="Server clock 2031-05-03 12:00:00").click()
        expect(page.get_by_role("dialog")).to_contain_text("It stands still.")
        assert not wrong


def test_a_clock_that_may_not_be_asked_for_is_said_to_be_this_machines(
    chromium: Browser, endpoint: str, key: str
) -> None:
    with tab(chromium) as (page, wrong):
        page.route("**/_perseid/clock", lambda route: route.fulfill(status=403, body="{}"))
        enter(page, endpoint, key)
        page.get_by_role("button", name="Server clock").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This is this machine's clock, because this key may not ask")
        expect(dialog).not_to_contain_text("follows the system")
        assert not wrong


def test_a_server_that_is_gone_is_said_to_be_gone(chromium: Browser) -> None:
    with tab(chromium) as (page, _):
        with running(Settings(memory=True)) as found:
            enter(page, found.endpoint, found.key)
        page.get_by_role("button", name="Refresh").click()
        expect(page.get_by_text("The server does not answer").first).to_be_visible()


def test_the_clock_says_when_the_server_gives_no_answer(page: Page) -> None:
    clock = page.get_by_role("button", name="Server clock")
    expect(clock).to_have_text(re.compile(r"\d\d:\d\d:\d\d$"))
    Wire(page).cut("^/_perseid/clock$")
    expect(clock).to_have_text("no answer")
    Wire(page).restore()
    expect(clock).to_have_text(re.compile(r"\d\d:\d\d:\d\d$"))


MESSAGES: list[Any] = ["", "abc", "x" * 55, "x" * 56, "x" * 64, "x" * 200, "žluťoučký kůň"]


def test_signatures_are_the_same_without_the_browsers_help(page: Page) -> None:
    """Pages that a browser does not consider secure get no WebCrypto."""
    for key in (b"k", b"k" * 64, b"k" * 100):
        text = base64.b64encode(key).decode()
        made = page.evaluate(
            """async ([key, messages]) => {
                const { signer } = await import("./signing.js");
                const helped = await signer(key);
                const alone = await signer(key, null);
                return Promise.all(messages.map(async (m) => [await helped(m), await alone(m)]));
            }""",
            [text, MESSAGES],
        )
        for message, (helped, alone) in zip(MESSAGES, made, strict=True):
            digest = hmac.new(key, message.encode(), hashlib.sha256).digest()
            assert helped == alone == base64.b64encode(digest).decode()


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_a_key_handed_to_an_open_page_is_never_sent(
    fresh: Page, endpoint: str, key: str, is_signed_in: bool
) -> None:
    """The address is entered in a tab that shows the portal: nothing is loaded anew."""
    if is_signed_in:
        enter(fresh, endpoint, key)
    else:
        fresh.goto(f"{endpoint}_explorer/")
        expect(fresh.get_by_label("Account key")).to_be_visible()
    asked: list[str] = []
    fresh.on("request", lambda request: asked.append(request.url))
    handed = quote(key, safe="")
    with fresh.expect_request("**/dbs"):
        fresh.goto(f"{endpoint}_explorer/#key={handed}")
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()
    assert fresh.url == f"{endpoint}_explorer/"
    assert not [url for url in asked if handed in unquote(url) or handed in url or key in url]


def test_a_read_only_key_is_not_offered_to_move_the_clock(chromium: Browser) -> None:
    with (
        running(Settings(memory=True, read_only_key=OTHER_KEY), MovableClock()) as found,
        tab(chromium) as (page, wrong),
    ):
        enter(page, found.endpoint, OTHER_KEY)
        page.get_by_role("button", name="Server clock").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This key can only read it")
        expect(dialog.get_by_role("button", name="Freeze")).to_have_count(0)
        expect(dialog.get_by_role("button", name="Move forward")).to_have_count(0)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Forget the key").click()
        page.get_by_label("Account key").fill(found.key)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Server clock").click()
        expect(dialog.get_by_role("button", name="Freeze")).to_be_visible()
        assert not wrong


def test_a_refused_move_of_the_clock_is_said_in_the_panel(page: Page) -> None:
    page.get_by_role("button", name="Server clock").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Seconds to move forward").fill("1e300")
    dialog.get_by_role("button", name="Move forward").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The clock was not moved")


def test_the_focus_stays_where_the_clock_is_stopped(chromium: Browser) -> None:
    with (
        running(Settings(memory=True), MovableClock()) as found,
        tab(chromium) as (page, wrong),
    ):
        enter(page, found.endpoint, found.key)
        page.get_by_role("button", name="Server clock").click()
        page.get_by_role("button", name="Freeze").press("Enter")
        expect(page.get_by_role("button", name="Let it run")).to_be_focused()
        assert not wrong


def test_nothing_is_asked_for_after_the_key_is_forgotten(page: Page, container: str) -> None:
    _, _, database, _, name = container.split("/")
    visit(page, f"{database}/{name}/items")
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    page.get_by_role("button", name="Forget the key").click()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("history.back()")
    expect(page).not_to_have_url(re.compile("items$"))
    page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 100))")
    expect(page.get_by_label("Account key")).to_be_visible()
    assert [url for url in asked if "/_explorer/" not in url] == []
