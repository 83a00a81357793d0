"""The animated image of the documentation can be made, and browsers show it."""

from __future__ import annotations

import base64
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.portal.expiry import PLAYS, STEPS, write_expiry

DECODE = """async (text) => {
    const data = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const decoder = new ImageDecoder({ data, type: "image/png" });
    await Promise.all([decoder.completed, decoder.tracks.ready]);
    const { frameCount, repetitionCount } = decoder.tracks.selectedTrack;
    const durations = [];
    for (let frameIndex = 0; frameIndex < frameCount; frameIndex++)
        durations.push((await decoder.decode({ frameIndex })).image.duration / 1000);
    return [durations, repetitionCount];
}"""


def test_the_image_of_an_item_that_expires(chromium: Browser, page: Page, tmp_path: Path) -> None:
    path = tmp_path / "expiry.png"
    write_expiry(chromium, path)
    image = path.read_bytes()
    assert len(image) < 400_000  # it is at the top of the README
    durations, repetitions = page.evaluate(DECODE, base64.b64encode(image).decode())
    assert durations == [shown for _, _, shown in STEPS]
    assert repetitions in (PLAYS, PLAYS - 1)  # browsers count the first play or not
