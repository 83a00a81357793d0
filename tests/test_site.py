"""The documentation builds as a site: strictly, with pages that load nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.portal.browser import DESKTOP, PHONE, browser, find_chromium, tab
from tests.support.accessibility import add_axe, violations
from tests.support.pages import DOCS, PAGES, ROOT

pytestmark = pytest.mark.xdist_group("site")  # one worker builds it
# What a browser loads by itself; it follows `a` only if its user does.
LOADED: Final = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "link": "href", "object": "data",
    "script": "src", "source": "src", "track": "src", "video": "src",
}  # fmt: skip
IN_STYLES: Final = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s]+)""")


class Page(HTMLParser):
    """What a page of the site loads, where its links lead, and the names in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()
        self.classes: set[str] = set()
        self._open: list[str] = []
        self.text_of_paragraphs = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._open.append(tag)
        if tag in LOADED and LOADED[tag] in values:
            self.loaded.append(values[LOADED[tag]])
        self.loaded += IN_STYLES.findall(values.get("style", ""))
        self.loaded += [part.split()[0] for part in values.get("srcset", "").split(",") if part]
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.names |= {values[name] for name in ("id", "name") if name in values}
        self.classes |= set(values.get("class", "").split())

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            self.loaded += IN_STYLES.findall(data)
        if "p" in self._open and "code" not in self._open:
            self.text_of_paragraphs += data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the site; the build fails on each warning."""
    pytest.importorskip("mkdocs", reason="MkDocs is not installed: run `make install`")
    directory = tmp_path_factory.mktemp("documentation") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def is_elsewhere(address: str) -> bool:
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https")


def navigation() -> Iterator[str]:
    """The pages in the navigation."""
    entries: list[Any] = [yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]]
    while entries:
        match entries.pop():
            case str() as page:
                yield page
            case dict() as titled:
                entries += titled.values()
            case several:
                entries += several


def test_every_page_is_in_the_navigation_once() -> None:
    """Without MkDocs, so that a page that was added is noticed everywhere."""
    listed = list(navigation())
    assert len(listed) == len(set(listed))
    assert {str(page.relative_to(DOCS)) for page in PAGES if DOCS in page.parents} <= set(listed)


def test_every_page_of_the_repository_is_a_page_of_the_site(site: Path) -> None:
    outside = {"start", "changelog", "contributing", "security", "tests", "example"}
    inside = {str(page.relative_to(DOCS).with_suffix("")) for page in PAGES if DOCS in page.parents}
    built = {str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")}
    assert built == outside | inside | {"404"}


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert page.loaded, path
        assert [address for address in page.loaded if is_elsewhere(address)] == [], path
        # Scripts of the theme would load more for these.
        assert not {"mermaid", "md-source"} & page.classes, path


def test_styles_load_nothing_from_elsewhere(site: Path) -> None:
    styles = list(site.rglob("*.css"))
    assert styles
    for style in styles:
        loaded = IN_STYLES.findall(style.read_text())
        assert [address for address in loaded if is_elsewhere(address)] == [], style


def test_links_of_the_site_lead_to_a_file_and_a_name(pages: dict[Path, Page], site: Path) -> None:
    for path, page in pages.items():
        for link in {*page.links, *page.loaded}:
            if is_elsewhere(link) or link.startswith("data:"):
                continue
            parts = urlsplit(link)
            base = site if parts.path.startswith("/") else path.parent
            file = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            assert file.is_file(), f"{path}: {link}"
            if parts.fragment and file in pages:
                assert unquote(parts.fragment) in pages[file].names, f"{path}: {link}"


def test_links_to_other_sites_are_listed(pages: dict[Path, Page], site: Path) -> None:
    listed = set((site.parent / "external-links.txt").read_text().splitlines())
    assert listed
    assert all(is_elsewhere(link) for link in listed)
    linked = {link for page in pages.values() for link in page.links if is_elsewhere(link)}
    # The theme names itself at the foot of each page.
    assert {link for link in linked - listed if "material" not in link} == set()


def test_markdown_is_read_like_on_github(pages: dict[Path, Page]) -> None:
    """No mark of a list, table, fence or heading is left in a paragraph."""
    for path, page in pages.items():
        marks = re.findall(r"(?:^|\n) *(?:[-*] |\d+\. |\||```|#+ ).*", page.text_of_paragraphs)
        assert marks == [], path


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_browser_needs_no_other_site(address: str) -> None:
    """It shows pages, searches, turns the page and becomes dark."""
    if find_chromium() is None:
        pytest.skip("no Chromium: install one with your package manager, or set PERSEID_CHROMIUM")
    with browser() as started, tab(started) as (page, errors):
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        for name in ("architecture.html", "portal.html", "start.html"):
            page.goto(f"{address}{name}")
        page.locator(".md-footer__link--next").click()
        page.wait_for_url("**/recipes.html")
        page.get_by_title("Switch to light colours").click()
        page.get_by_title("Switch to dark colours").click()
        page.locator("body[data-md-color-scheme=slate]").wait_for()
        page.locator(".md-search__input").click()
        page.keyboard.type("clock jump")  # the theme listens to keys
        page.locator(".md-search-result__link").first.wait_for()
        assert requested
        assert [url for url in requested if not url.startswith((address, "data:", "blob:"))] == []
        assert errors == []


# Only a script of the theme could mend this one: it wraps the tables when the page is shown.
OF_THE_THEME: Final = ("scrollable-region-focusable",)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_have_no_serious_accessibility_problem(address: str, size: dict[str, int]) -> None:
    """In light and dark colours. Nothing but colours depends on them."""
    if find_chromium() is None:
        pytest.skip("no Chromium: install one with your package manager, or set PERSEID_CHROMIUM")
    rules = {name: {"enabled": False} for name in OF_THE_THEME}
    problems: list[str] = []
    with browser() as started, tab(started, size=size) as (page, _):
        add_axe(page)
        for name in ("start.html", "portal.html", "clients/python.html"):
            page.goto(f"{address}{name}")
            page.locator("body[data-md-color-scheme=default]").wait_for()
            problems += violations(page, name, rules=rules)
            page.emulate_media(color_scheme="dark")
            page.locator("body[data-md-color-scheme=slate]").wait_for()
            problems += violations(page, f"{name}, dark", runOnly=["color-contrast"])
            page.emulate_media(color_scheme="light")
    serious = [each for each in problems if re.search("^[^:]+: (serious|critical): ", each)]
    assert not serious, "\n".join(serious)
