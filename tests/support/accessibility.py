"""axe-core in a page of the browser: it finds what keeps people from using the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

from tests.support.node import node_modules

MANIFEST: Final = Path(__file__).parent / "axe" / "package.json"


def add_axe(page: Page) -> None:
    """Adds axe-core to each page that this tab opens, also to pages that allow no other scripts.

    Without npm the test is skipped.
    """
    packages = node_modules(MANIFEST, "axe", "the accessibility test")
    page.add_init_script(path=packages / "axe-core" / "axe.min.js")


def violations(page: Page, look: str, **options: Any) -> list[str]:
    """The problems that axe-core finds on a page, one line for each element."""
    problems: list[dict[str, Any]] = page.evaluate(
        "async (options) => (await axe.run(document, options)).violations",
        {"resultTypes": ["violations"], **options},
    )
    return [
        f"{look}: {rule['impact']}: {rule['id']}: {node['html'][:150]}: {node['failureSummary']}"
        for rule in problems
        for node in rule["nodes"]
    ]
