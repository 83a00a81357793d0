"""A server with a stopped clock that tests move, and a browser."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.portal.browser import DESKTOP, PHONE, browser, find_chromium, tab
from tests.portal.screens import create_shop, sign_in
from tests.support.raw import RawClient
from tests.support.running import running

HERE = Path(__file__).parent
expect.set_options(timeout=60_000)


@pytest.hookimpl(tryfirst=True)  # before the hook of xdist, which reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests with the browser; other workers run other tests."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group("portal"))


@pytest.fixture(scope="package")
def clock() -> MovableClock:
    clock = MovableClock()
    clock.set(math.ceil(clock.freeze()))
    return clock


@pytest.fixture(scope="package")
def settings(clock: MovableClock) -> Iterator[Settings]:
    # Strict: the portal asks for direct answers.
    with running(Settings(memory=True, relaxed=False), clock) as server:
        yield server


@pytest.fixture(scope="package")
def endpoint(settings: Settings) -> str:
    return settings.endpoint


@pytest.fixture(scope="package")
def key(settings: Settings) -> str:
    return settings.key


# Not for the session: while it runs, no other test can start an event loop in this thread.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    if find_chromium() is None:
        pytest.skip("no Chromium: install one with your package manager, or set PERSEID_CHROMIUM")
    with browser() as started:
        yield started


@pytest.fixture(scope="package")
def shared(chromium: Browser) -> Iterator[tuple[Page, list[str]]]:
    """One tab for most tests: opening a new one takes as long as a test."""
    with tab(chromium) as opened:
        yield opened


@pytest.fixture
def fresh(shared: tuple[Page, list[str]], endpoint: str) -> Iterator[Page]:
    """A tab before signing in; the test fails if the page logs an error."""
    page, errors = shared
    page.goto(f"{endpoint}_explorer/meteor.svg")
    page.evaluate("sessionStorage.clear(); localStorage.clear()")
    errors.clear()
    yield page
    assert not errors, errors


@pytest.fixture
def page(fresh: Page, endpoint: str, key: str) -> Page:
    """A tab that is signed in."""
    sign_in(fresh, endpoint, key)
    return fresh


@pytest.fixture(params=["desktop", "phone"])
def any_look(page: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The same tab on a desktop with the light theme, and on a phone with the dark one."""
    if request.param == "phone":
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        page.emulate_media(color_scheme="dark")
    yield page
    page.set_viewport_size(DESKTOP)  # type: ignore[arg-type]
    page.emulate_media(color_scheme="light")


@pytest.fixture
def any_page(any_look: Page) -> Iterator[Page]:
    """The same; the page must not be wider than the window at the end."""
    yield any_look
    assert any_look.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture(scope="module")
def shop() -> Iterator[Settings]:
    """A server with the example data of the screens."""
    time = MovableClock()
    with running(Settings(memory=True), time) as server:
        with closing(RawClient(server.endpoint, server.key)) as raw:
            create_shop(raw, time)
        yield server
