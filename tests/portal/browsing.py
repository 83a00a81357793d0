"""A system Chromium, driven by Playwright; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, Page, Response, Route, sync_playwright

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DESKTOP: Final = {"width": 1280, "height": 800}
PHONE: Final = {"width": 390, "height": 844}


def find_chromium() -> str | None:
    """The path of an installed Chromium; PERSEID_CHROMIUM names another one."""
    named = os.environ.get("PERSEID_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A running Chromium. Its sandbox needs a user who is not root."""
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def tab(
    of: Browser, *, size: dict[str, int] | None = None, is_dark: bool = False
) -> Iterator[tuple[Page, list[str]]]:
    """A page with storage of its own, and what went wrong in it: exceptions and console errors."""
    context = of.new_context(
        viewport=size or DESKTOP,  # type: ignore[arg-type]
        color_scheme="dark" if is_dark else "light",
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        # The browser reports each answer of 400 and above by itself; the portal shows those.
        lambda message: (
            wrong.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    try:
        yield page, wrong
    finally:
        context.close()


@contextmanager
def answered(
    page: Page, method: str, status: int, holding: str = "", *, path: str = ""
) -> Iterator[None]:
    """Ends when the server has answered such a request, whose body holds this text.

    What it did can be read from then on.
    """

    def is_wanted(response: Response) -> bool:
        asked = response.request
        is_meant = (asked.method, response.status) == (method, status) and path in asked.url
        return is_meant and holding in (asked.post_data or "")

    with page.expect_response(is_wanted):
        yield


@contextmanager
def delayed(page: Page, method: str, pattern: str, meanwhile: Callable[[], None]) -> Iterator[None]:
    """Does something while the first such request is on its way; ends when it was answered."""
    sent: list[str] = []

    def hold(route: Route) -> None:
        if route.request.method == method:
            sent.append(route.request.url)
            if len(sent) == 1:
                meanwhile()
        route.continue_()

    page.route(pattern, hold)
    with answered(page, method, 200):
        yield
    page.unroute(pattern, hold)
    assert len(sent) == 1
