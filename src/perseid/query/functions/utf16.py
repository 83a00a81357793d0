"""Text as UTF-16 code units, in which the language counts positions and lengths.

A character beyond U+FFFF is two units. `units` replaces such characters by their two surrogates, so
that `len`, slices and `find` count units; `text_of` joins the surrogates again. Both return text
without such characters, which is nearly all text, unchanged.
"""

from __future__ import annotations

import re
from typing import Final

from perseid.query.values import whole_text

_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def units(text: str) -> str:
    if text.isascii() or not _ASTRAL.search(text):
        return text
    return _ASTRAL.sub(lambda match: _surrogates(ord(match[0])), text)


def text_of(code_units: str) -> str:
    """The text of code units; a surrogate without its partner becomes U+FFFD."""
    if code_units.isascii() or not _SURROGATE.search(code_units):
        return code_units
    return whole_text(code_units)


def _surrogates(code: int) -> str:
    high, low = divmod(code - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)
