"""Signing in: the key is requested once, kept for the tab, and signs every request."""

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
from tests.portal.browser import Network, tab
from tests.portal.screens import NOON, path_of, sign_in, visit_tab
from tests.support.running import running

OTHER_KEY = base64.b64encode(b"another key").decode()


def test_a_visitor_is_asked_for_the_key_once(fresh: Page, endpoint: str, key: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_label("Account key").fill(key)
    fresh.get_by_role("button", name="Sign in").click()
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()
    fresh.reload()
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()
    assert fresh.evaluate("localStorage.length") == 0
    assert fresh.context.cookies() == []


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (OTHER_KEY, "The server does not accept this key."),
        ("not base64!", "a key is base64 text"),
    ],
)
def test_a_wrong_key_shows_the_reason(fresh: Page, endpoint: str, typed: str, message: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_label("Account key").fill(typed)
    fresh.get_by_role("button", name="Sign in").click()
    expect(fresh.get_by_role("alert")).to_contain_text(message)
    expect(fresh.get_by_role("alert")).not_to_contain_text("payload")
    assert fresh.evaluate("sessionStorage.length") == 0


def test_a_rejected_date_is_not_reported_as_a_wrong_key(
    chromium: Browser, endpoint: str, key: str
) -> None:
    with tab(chromium) as (page, _):
        # The page reads the server's date from health; a wrong one makes it sign with an old date.
        page.route(
            "**/_perseid/health",
            lambda route: route.fulfill(
                body="{}", headers={"date": "Sat, 01 Jan 2000 00:00:00 GMT"}
            ),
        )
        page.goto(f"{endpoint}_explorer/")
        page.get_by_label("Account key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("not valid at the current time")
        page.unroute("**/_perseid/health")  # the clocks agree again
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("button", name="Server clock")).to_be_visible()


def test_a_connection_string_is_accepted_as_key(fresh: Page, endpoint: str, key: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_label("Account key").fill(f"AccountEndpoint={endpoint};AccountKey={key};")
    fresh.keyboard.press("Enter")
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()


def test_the_emulators_key_takes_one_click(fresh: Page, endpoint: str) -> None:
    fresh.goto(f"{endpoint}_explorer/")
    fresh.get_by_role("button", name="Use the emulator key").click()
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()


def test_a_key_in_the_address_is_removed_from_it(fresh: Page, endpoint: str, key: str) -> None:
    sign_in(fresh, endpoint, key)
    assert fresh.url == f"{endpoint}_explorer/"
    assert "key" not in fresh.evaluate("JSON.stringify(history.state)")


def test_an_invalid_key_in_the_address_shows_the_sign_in_page(fresh: Page, endpoint: str) -> None:
    fresh.goto(f"{endpoint}_explorer/#key=%zz")
    expect(fresh.get_by_label("Account key")).to_be_visible()
    expect(fresh.get_by_role("alert")).to_contain_text("a key is base64 text")


def test_signing_out_shows_the_sign_in_page(page: Page) -> None:
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Account key")).to_be_focused()
    assert page.evaluate("sessionStorage.getItem('perseid.key')") is None


def test_only_files_and_health_are_requested_unsigned(
    fresh: Page, endpoint: str, key: str, container: str
) -> None:
    unsigned: list[str] = []

    def record(request: Request) -> None:
        path = urlsplit(request.url).path
        if not path.startswith("/_explorer/") and "authorization" not in request.headers:
            unsigned.append(path)
        assert key not in str(request.headers)

    fresh.on("request", record)
    sign_in(fresh, endpoint, key)
    for view in ("items", "query", "settings", "lifetimes"):
        fresh.goto(f"{endpoint}_explorer/#/{path_of(container)}/{view}")
        expect(fresh.get_by_role("status").first).to_be_attached()
    fresh.remove_listener("request", record)
    assert set(unsigned) <= {"/_perseid/health"}


def test_a_server_without_authorization_asks_for_no_key(chromium: Browser) -> None:
    open_server = running(Settings(memory=True, no_auth=True))
    with open_server as server, tab(chromium) as (page, errors):
        page.goto(f"{server.endpoint}_explorer/")
        expect(page.get_by_text("no key needed")).to_be_visible()
        expect(page.get_by_role("heading", name="No databases")).to_be_visible()
        assert not errors


def test_a_read_only_key_shows_why_a_write_is_rejected(chromium: Browser) -> None:
    with (
        running(Settings(memory=True, read_only_key=OTHER_KEY)) as server,
        tab(chromium) as (page, errors),
    ):
        sign_in(page, server.endpoint, OTHER_KEY)
        page.get_by_role("button", name="New database").first.click()
        page.get_by_role("dialog").get_by_label("Name").fill("mine")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text("The key used can only read")
        assert not errors


def test_a_read_only_key_is_shown_the_servers_clock(chromium: Browser) -> None:
    time = MovableClock()
    time.freeze()
    time.set(NOON)
    with (
        running(Settings(memory=True, read_only_key=OTHER_KEY), time) as server,
        tab(chromium) as (page, errors),
    ):
        sign_in(page, server.endpoint, OTHER_KEY)
        page.get_by_role("button", name="Server clock 2031-05-03 12:00:00").click()
        expect(page.get_by_role("dialog")).to_contain_text("The clock is frozen.")
        assert not errors


def test_without_access_to_the_server_clock_the_local_clock_is_shown(
    chromium: Browser, endpoint: str, key: str
) -> None:
    with tab(chromium) as (page, errors):
        page.route("**/_perseid/clock", lambda route: route.fulfill(status=403, body="{}"))
        sign_in(page, endpoint, key)
        page.get_by_role("button", name="Server clock").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This is the clock of this computer: this key may not read")
        expect(dialog).not_to_contain_text("follows the system clock")
        assert not errors


def test_a_stopped_server_is_reported(chromium: Browser) -> None:
    with tab(chromium) as (page, _):
        with running(Settings(memory=True)) as server:
            sign_in(page, server.endpoint, server.key)
        page.get_by_role("button", name="Refresh").click()
        expect(page.get_by_text("The server does not respond").first).to_be_visible()


def test_the_clock_shows_when_the_server_does_not_respond(page: Page) -> None:
    clock = page.get_by_role("button", name="Server clock")
    expect(clock).to_have_text(re.compile(r"\d\d:\d\d:\d\d$"))
    Network(page).fail("^/_perseid/clock$")
    expect(clock).to_have_text("no response")
    Network(page).restore()
    expect(clock).to_have_text(re.compile(r"\d\d:\d\d:\d\d$"))


MESSAGES: list[Any] = ["", "abc", "x" * 55, "x" * 56, "x" * 64, "x" * 200, "žluťoučký kůň"]


def test_signatures_are_equal_with_and_without_webcrypto(page: Page) -> None:
    """Browsers offer WebCrypto to secure pages only."""
    for key in (b"k", b"k" * 64, b"k" * 100):
        text = base64.b64encode(key).decode()
        made = page.evaluate(
            """async ([key, messages]) => {
                const { signer } = await import("./signature.js");
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
def test_a_key_in_the_address_of_an_open_page_is_never_sent(
    fresh: Page, endpoint: str, key: str, is_signed_in: bool
) -> None:
    """The address is entered in a tab that shows the portal already: no file is loaded again."""
    if is_signed_in:
        sign_in(fresh, endpoint, key)
    else:
        fresh.goto(f"{endpoint}_explorer/")
        expect(fresh.get_by_label("Account key")).to_be_visible()
    requested: list[str] = []
    fresh.on("request", lambda request: requested.append(request.url))
    handed = quote(key, safe="")
    with fresh.expect_request("**/dbs"):
        fresh.goto(f"{endpoint}_explorer/#key={handed}")
    expect(fresh.get_by_role("button", name="Server clock")).to_be_visible()
    assert fresh.url == f"{endpoint}_explorer/"
    assert not [url for url in requested if handed in unquote(url) or handed in url or key in url]


def test_a_read_only_key_cannot_move_the_clock(chromium: Browser) -> None:
    with (
        running(Settings(memory=True, read_only_key=OTHER_KEY), MovableClock()) as server,
        tab(chromium) as (page, errors),
    ):
        sign_in(page, server.endpoint, OTHER_KEY)
        page.get_by_role("button", name="Server clock").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("This key can only read the clock")
        expect(dialog.get_by_role("button", name="Freeze")).to_have_count(0)
        expect(dialog.get_by_role("button", name="Move forward")).to_have_count(0)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Account key").fill(server.key)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Server clock").click()
        expect(dialog.get_by_role("button", name="Freeze")).to_be_visible()
        assert not errors


def test_a_rejected_move_of_the_clock_is_shown_in_the_panel(page: Page) -> None:
    page.get_by_role("button", name="Server clock").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Seconds to move forward").fill("1e300")
    dialog.get_by_role("button", name="Move forward").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The clock was not moved")


def test_freezing_the_clock_keeps_the_focus(chromium: Browser) -> None:
    with (
        running(Settings(memory=True), MovableClock()) as server,
        tab(chromium) as (page, errors),
    ):
        sign_in(page, server.endpoint, server.key)
        page.get_by_role("button", name="Server clock").click()
        page.get_by_role("button", name="Freeze").press("Enter")
        expect(page.get_by_role("button", name="Resume")).to_be_focused()
        assert not errors


def test_nothing_is_requested_after_signing_out(page: Page, container: str) -> None:
    visit_tab(page, container, "items")
    expect(page.get_by_role("heading", name="No items")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.evaluate("history.back()")
    expect(page).not_to_have_url(re.compile("items$"))
    page.evaluate("() => new Promise((resolve) => setTimeout(resolve, 100))")
    expect(page.get_by_label("Account key")).to_be_visible()
    assert [url for url in requested if "/_explorer/" not in url] == []
