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
    """The path of an installed Chromium; PERSEID_CHROMIUM overrides it."""
    named = os.environ.get("PERSEID_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A running Chromium. Its sandbox does not work for root."""
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_chromium(), args=arguments)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def tab(
    of: Browser, *, size: dict[str, int] | None = None, is_dark: bool = False, scale: float = 1
) -> Iterator[tuple[Page, list[str]]]:
    """A page with its own storage, and the list of its exceptions and console errors."""
    context = of.new_context(
        viewport=size or DESKTOP,  # type: ignore[arg-type]
        device_scale_factor=scale,
        color_scheme="dark" if is_dark else "light",
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    )
    context.set_default_timeout(60_000)
    context.add_init_script(_INTERCEPT)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        # The browser logs every error response by itself; the portal shows those.
        lambda message: (
            errors.append(message.text)
            if message.type == "error" and "Failed to load resource" not in message.text
            else None
        ),
    )
    try:
        yield page, errors
    finally:
        context.close()


@contextmanager
def answered(
    page: Page, method: str, status: int, containing: str = "", *, path: str = ""
) -> Iterator[None]:
    """Waits for the response to a request with this method and path and this text in its body.

    After it the effect of the request can be read.
    """

    def is_expected(response: Response) -> bool:
        request = response.request
        is_match = (request.method, response.status) == (method, status) and path in request.url
        return is_match and containing in (request.post_data or "")

    with page.expect_response(is_expected):
        yield


class Network:
    """Intercepts the requests of a page.

    The page itself does it: the interception of the browser misses some requests that follow
    immediately. The rules are lost when the page is reloaded.
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
        """Answers requests whose path matches, `times` times or always."""
        rule = {"does": "answer", "status": status, "body": body, "headers": headers or {}}
        self._add(path, rule | {"times": times})

    def fail(self, path: str) -> None:
        """Lets requests fail as if there were no server."""
        self._add(path, {"does": "fail"})

    def hold(self, path: str, method: str | None = None) -> None:
        """Lets requests wait for `restore`."""
        self._add(path, {"does": "hold", "method": method})

    def restore(self) -> None:
        """Removes all rules; waiting requests reach the server."""
        self._page.evaluate("network.restore()")

    def wait(self) -> None:
        """Waits until a request was intercepted."""
        # Not by `wait_for_function`, whose later tries the portal's own rules for scripts forbid.
        self._page.evaluate("network.first")

    @property
    def intercepted(self) -> list[str]:
        """The methods of the requests that were intercepted."""
        methods: list[str] = self._page.evaluate("network.intercepted")
        return methods

    def _add(self, path: str, rule: dict[str, object]) -> None:
        self._page.evaluate("rule => network.add(rule)", {"path": path} | rule)


_INTERCEPT: Final = """
const send = window.fetch;
let rules = [];
let seen;
window.network = {
    intercepted: [],
    first: new Promise((resolve) => { seen = resolve }),
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
    network.intercepted.push(method);
    seen();
    if (rule.does === "answer") return new Response(rule.body, rule);
    if (rule.does === "fail") throw new TypeError("no server");
    await new Promise((resolve, reject) => {
        rule.gate.then(resolve);
        signal?.addEventListener("abort", () => reject(signal.reason));
    });
    return send(path, options);
};
"""
