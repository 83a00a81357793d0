"""A system Chromium, driven by Playwright; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, Page, Response, sync_playwright

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
    context.add_init_script(_WIRE)
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


class Wire:
    """What a page sends, where a test stands between it and its server.

    It is done in the page: a browser that is told to intercept lets some requests slip through
    that follow at once. What is said here ends with the page.
    """

    def __init__(self, page: Page) -> None:
        self._page = page

    def answer(
        self,
        path: str,
        status: int,
        body: str = "{}",
        *,
        headers: dict[str, str] | None = None,
        times: int | None = None,
    ) -> None:
        """Answers requests for paths that match, so many times or always."""
        rule = {"does": "answer", "status": status, "body": body, "headers": headers or {}}
        self._add(path, rule | {"times": times})

    def cut(self, path: str) -> None:
        """Requests find no server."""
        self._add(path, {"does": "cut"})

    def hold(self, path: str, method: str | None = None) -> None:
        """Requests wait until all is restored."""
        self._add(path, {"does": "hold", "method": method})

    def restore(self) -> None:
        """Requests reach the server again, also those that were held."""
        self._page.evaluate("wire.restore()")

    def wait(self) -> None:
        """Until a request has met one of these."""
        self._page.wait_for_function("wire.met.length > 0")

    @property
    def met(self) -> list[str]:
        """The methods of those that have."""
        found: list[str] = self._page.evaluate("wire.met")
        return found

    def _add(self, path: str, rule: dict[str, object]) -> None:
        self._page.evaluate("rule => wire.add(rule)", {"path": path} | rule)


_WIRE: Final = """
const send = window.fetch;
let rules = [];
window.wire = {
    met: [],
    add(rule) {
        rule.gate = new Promise((resolve) => { rule.open = resolve });
        rules.push(rule);
    },
    restore() {
        for (const rule of rules) rule.open();
        rules = [];
    },
};
window.fetch = async (path, options = {}) => {
    const { method = "GET", signal } = options;
    const { pathname } = new URL(path, location.href);
    const rule = rules.find((each) => new RegExp(each.path).test(pathname)
        && (each.method ?? method) === method && each.times !== 0);
    if (!rule) return send(path, options);
    if (rule.times) rule.times -= 1;
    wire.met.push(method);
    if (rule.does === "answer") return new Response(rule.body, rule);
    if (rule.does === "cut") throw new TypeError("no server");
    await new Promise((resolve, reject) => {
        rule.gate.then(resolve);
        signal?.addEventListener("abort", () => reject(signal.reason));
    });
    return send(path, options);
};
"""
