"""Text as the sequence of UTF-16 code units that the language counts in.

A character beyond U+FFFF is two units. `units` spells such characters as their two halves, so
that `len`, slices and `find` count units; `text_of` puts the halves together again. Text without
such characters, nearly all there is, passes through both untouched.
"""

from __future__ import annotations

import re
from typing import Final

from perseid.query.values import whole_text

_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_HALF: Final = re.compile("[\ud800-\udfff]")


def units(text: str) -> str:
    if text.isascii() or not _ASTRAL.search(text):
        return text
    return _ASTRAL.sub(lambda found: _halves(ord(found[0])), text)


def text_of(spelt: str) -> str:
    """The text of some units; a half whose other half was cut off becomes U+FFFD."""
    return spelt if spelt.isascii() or not _HALF.search(spelt) else whole_text(spelt)


def _halves(code: int) -> str:
    high, low = divmod(code - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)
