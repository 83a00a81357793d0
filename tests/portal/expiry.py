"""The animated image of an item that expires, from the real portal with a movable clock.

It is an animated PNG: a PNG whose further frames are chunks that other programs ignore.
"""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect

from perseid.clock import MovableClock
from perseid.config import Settings
from tests.portal.browser import tab
from tests.portal.screens import NOON, sign_in, visit
from tests.support.raw import RawClient
from tests.support.running import running

SIZE: Final = {"width": 900, "height": 372}
SCALE: Final = 1.5  # for screens with a high resolution
ITEM: Final = "otp-4711"
TTL: Final = 30
STEPS: Final = (  # the remaining lifetime, what the strip of steps says, and for how long, in ms
    ("3s", "3 s", 1000),
    ("2s", "2 s", 1000),
    ("1s", "1 s", 1000),
    (None, "expired", 2000),
)
PLAYS: Final = 3  # then the last frame stays
_COUNT: Final = "SELECT VALUE COUNT(1) FROM c"
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PAGE: Final = """
<style>
  body { margin: 0; background: #fff; font: 15px/1.4 system-ui, "DejaVu Sans", sans-serif; }
  main { width: 900px; border: 2px solid #c6cbd5; border-radius: 10px; overflow: hidden; }
  img { display: block; width: 900px; }
  p { display: flex; gap: 10px; align-items: center; margin: 0; padding: 10px 16px;
    border-bottom: 1px solid #e1e4ea; }
  code { font: 14px ui-monospace, "DejaVu Sans Mono", monospace; }
  i { flex: 1; }
  span { padding: 1px 12px; border-radius: 12px; border: 1px solid #e1e4ea; color: #5d6675; }
  .now { background: #5a5ad6; border-color: #5a5ad6; color: #fff; }
  .now.last { background: #b3261e; border-color: #b3261e; }
</style>
<main><p>Time left of <code>otp-4711</code><i></i>STRIP<i></i><code>QUERY</code> → <b>COUNT</b></p>
<img src="data:image/png;base64,IMAGE"></main>
"""


def write_expiry(started: Browser, path: Path) -> None:
    time = MovableClock()
    with (
        running(Settings(memory=True, relaxed=True), time) as server,
        closing(RawClient(server.endpoint, server.key)) as raw,
        tab(started, size=SIZE, scale=SCALE) as (page, errors),
        tab(started, size=SIZE, scale=SCALE) as (frame, _),
    ):
        _create_items(raw, time)
        sign_in(page, server.endpoint, server.key)
        visit(page, "shop/sessions/items")
        page.get_by_role("button", name="Expires in").click()
        frames = [
            (_composed(frame, page.screenshot(), step, _count(raw)), STEPS[step][2])
            for step in _steps(page, time)
        ]
        assert not errors, errors
    path.write_bytes(animated(frames, PLAYS))


def _create_items(raw: RawClient, time: MovableClock) -> None:
    time.freeze()
    time.set(NOON - 2000)
    key = {"paths": ["/user"], "kind": "Hash"}
    body: dict[str, Any] = {"id": "sessions", "partitionKey": key, "defaultTtl": 3600}
    assert raw.post("/dbs", {"id": "shop"}).status == 201
    assert raw.post("/dbs/shop/colls", body).status == 201
    for id_, user, own, later in (
        ("session-ada", "ada", {}, 900),
        ("session-bela", "bela", {"ttl": 5400}, 1100),
        (ITEM, "ada", {"ttl": TTL}, 0),
    ):
        item = {"id": id_, "user": user, **own}
        reply = raw.post("/dbs/shop/colls/sessions/docs", item, pk=f'["{user}"]')
        assert reply.status == 201
        time.advance(later)
    time.advance(TTL - 3)


def _steps(page: Page, time: MovableClock) -> Iterator[int]:
    """The number of each step, when the page shows it."""
    row = page.get_by_role("row", name=ITEM)
    for number, (remaining, _, _) in enumerate(STEPS):
        if remaining is None:
            expect(row).to_have_count(0)
            expect(page.get_by_text("2 items", exact=True)).to_be_visible()
        else:
            expect(row).to_contain_text(remaining)
        yield number
        time.advance(1)


def _count(raw: RawClient) -> str:
    reply = raw.query("/dbs/shop/colls/sessions/docs", _COUNT)
    return str(reply.json["Documents"][0])


def _composed(page: Page, image: bytes, step: int, count: str) -> bytes:
    """A frame: the portal below a strip of steps, of which the current one is marked."""
    strip = "".join(
        f'<span class="{"now" if number == step else ""} '
        f'{"last" if remaining is None else ""}">{html.escape(label)}</span>'
        for number, (remaining, label, _) in enumerate(STEPS)
    )
    text = _PAGE.replace("STRIP", strip).replace("QUERY", html.escape(_COUNT))
    text = text.replace("COUNT</b>", f"{count}</b>")
    page.set_content(text.replace("IMAGE", base64.b64encode(image).decode()))
    return page.locator("main").screenshot()


def animated(frames: list[tuple[bytes, int]], plays: int) -> bytes:
    """An animated PNG from PNG images of one size and form; each is shown for some milliseconds."""
    header = next(_chunks(frames[0][0], b"IHDR"))
    assert all(next(_chunks(image, b"IHDR")) == header for image, _ in frames)
    parts = [_chunk(b"IHDR", header), _chunk(b"acTL", struct.pack(">II", len(frames), plays))]
    sequence = 0
    for number, (image, shown) in enumerate(frames):
        control = struct.pack(">I8s8xHHBB", sequence, header[:8], shown, 1000, 0, 0)
        parts.append(_chunk(b"fcTL", control))
        sequence += 1
        content = b"".join(_chunks(image, b"IDAT"))
        if number == 0:  # what programs show that know no animation
            parts.append(_chunk(b"IDAT", content))
            continue
        parts.append(_chunk(b"fdAT", struct.pack(">I", sequence) + content))
        sequence += 1
    return b"".join([_SIGNATURE, *parts, _chunk(b"IEND", b"")])


def _chunks(image: bytes, kind: bytes) -> Iterator[bytes]:
    """The contents of the chunks of one kind."""
    position = len(_SIGNATURE)
    while position < len(image):
        length, found = struct.unpack_from(">I4s", image, position)
        if found == kind:
            yield image[position + 8 : position + 8 + length]
        position += length + 12


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
