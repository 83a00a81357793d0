"""Items of the partition "p", and their pages."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect

from tests.portal.screens import visit_tab
from tests.support.raw import RawClient


def put_item(raw: RawClient, container: str, id_: str, **rest: Any) -> dict[str, Any]:
    reply = raw.post(f"{container}/docs", {"id": id_, "pk": "p", **rest}, pk='["p"]', upsert="true")
    assert reply.status in (200, 201), reply
    stored: dict[str, Any] = reply.json
    return stored


def read_item(raw: RawClient, container: str, id_: str) -> Any:
    reply = raw.get(f"{container}/docs/{id_}", pk='["p"]')
    return reply.json if reply.status == 200 else None


def set_default_ttl(raw: RawClient, container: str, default_ttl: int) -> None:
    body = raw.get(container).json | {"defaultTtl": default_ttl}
    assert raw.put(container, body).status == 200


def list_items(page: Page, container: str) -> None:
    visit_tab(page, container, "items")


def edit(page: Page, container: str, id_: str) -> Locator:
    visit_tab(page, container, f"items/{quote(json.dumps(['p']), safe='')}/{id_}")
    editor = page.get_by_label("Item as JSON")
    expect(editor).to_be_visible()
    return editor


def row(page: Page, id_: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=id_, exact=True))
