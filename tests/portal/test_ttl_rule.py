"""The portal and the server apply the same TTL rule."""

from __future__ import annotations

from itertools import product
from typing import Any

from playwright.sync_api import Page

from perseid import ttl
from perseid.errors import BadRequest
from perseid.ttl import Policy

# Valid and invalid values of `ttl`.
TTLS: list[Any] = [
    None, True, -1, 0, 1, 20, 60.0, 1.5, -2, 2_147_483_647, 2_147_483_648, "20", [], {}, "absent",
]  # fmt: skip


def test_the_countdown_uses_the_rule_of_the_server(page: Page) -> None:
    """ttl.js and ttl.py compute the same expiry for all combinations."""
    cases = []
    for default_ttl, value in product((None, -1, 10), TTLS):
        document: dict[str, Any] = {"_ts": 1000}
        if value != "absent":
            document["ttl"] = value
        # Stored while the setting was off, so an invalid value exists and counts as absent.
        own = ttl.stored_item_ttl(document, Policy(None), is_lenient=True)
        cases.append((document, default_ttl, ttl.expires_at(1000, own, Policy(default_ttl))))
    result = page.evaluate(
        """async (cases) => {
            const { expiryOf } = await import("./ttl.js");
            return cases.map(([item, defaultTtl]) => expiryOf(item, defaultTtl).expiresAt);
        }""",
        [[document, default_ttl] for document, default_ttl, _ in cases],
    )
    assert result == [end for _, _, end in cases]


def test_the_editor_predicts_which_ttl_is_rejected(page: Page) -> None:
    """ttl.js and ttl.py reject the same values; the portal asks for relaxed answers."""
    documents = [{} if value == "absent" else {"ttl": value} for value in TTLS]
    cases = list(product(documents, (None, -1, 10)))
    result = page.evaluate(
        """async (cases) => {
            const { isTtlAccepted } = await import("./ttl.js");
            return cases.map(([item, defaultTtl]) => isTtlAccepted(item, defaultTtl));
        }""",
        cases,
    )
    assert result == [is_stored(document, default_ttl) for document, default_ttl in cases]


def is_stored(document: dict[str, Any], default_ttl: int | None) -> bool:
    try:
        ttl.stored_item_ttl(document, Policy(default_ttl), is_lenient=True)
    except BadRequest:
        return False
    return True
