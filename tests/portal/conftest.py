"""A server whose clock stands still until a test moves it, and a browser to look at it with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.portal.browsing import browser, find_chromium, tab
from tests.portal.scenes import enter
from tests.support.running import running

HERE = Path(__file__).parent
expect.set_options(timeout=15_000)


@pytest.hookimpl(tryfirst=True)  # xdist looks for its marks in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has the browser; the others do something else meanwhile."""
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
    with running(Settings(memory=True), clock) as found:
        yield found


@pytest.fixture(scope="package")
def endpoint(settings: Settings) -> str:
    return settings.endpoint


@pytest.fixture(scope="package")
def key(settings: Settings) -> str:
    return settings.key


# Not for the session: as long as it runs no other test can start an event loop in this thread.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    if find_chromium() is None:
        pytest.skip("no Chromium: install one with your package manager, or set PERSEID_CHROMIUM")
    with browser() as started:
        yield started


@pytest.fixture(scope="package")
def shared(chromium: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A new tab takes as long as a test; most can do with one that was wiped."""
    with tab(chromium) as opened:
        yield opened


@pytest.fixture
def fresh(shared: tuple[Page, list[str]], endpoint: str) -> Iterator[Page]:
    """A tab that nobody has signed in to; nothing may go wrong in it unseen."""
    page, wrong = shared
    page.goto(f"{endpoint}_explorer/meteor.svg")
    page.evaluate("sessionStorage.clear()")
    wrong.clear()
    yield page
    assert not wrong, wrong


@pytest.fixture
def page(fresh: Page, endpoint: str, key: str) -> Page:
    """A tab that is signed in."""
    enter(fresh, endpoint, key)
    return fresh
