"""Character sets of PCRE that Python's `re` lacks, as ranges of code points."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache
from itertools import groupby
from typing import Final

Ranges = tuple[tuple[int, int], ...]


def of_chars(text: str) -> Ranges:
    """The set of the characters in `text`."""
    return tuple((ord(char), ord(char)) for char in text)


_DIGIT: Final = ((48, 57),)
_UPPER: Final = ((65, 90),)
_LOWER: Final = ((97, 122),)

# The sets of [[:name:]]; they contain ASCII characters only.
POSIX: Final[dict[str, Ranges]] = {
    "alnum": _DIGIT + _UPPER + _LOWER,
    "alpha": _UPPER + _LOWER,
    "ascii": ((0, 127),),
    "blank": of_chars("\t "),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGIT,
    "graph": ((33, 126),),
    "lower": _LOWER,
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": _UPPER,
    "word": _DIGIT + _UPPER + ((95, 95),) + _LOWER,
    "xdigit": (*_DIGIT, (65, 70), (97, 102)),
}
HORIZONTAL: Final = (*of_chars("\t \xa0\u1680\u180e\u202f\u205f\u3000"), (0x2000, 0x200A))
VERTICAL: Final = ((10, 13), (0x85, 0x85), (0x2028, 0x2029))


CATEGORIES: Final = frozenset(
    family + kind
    for family, kinds in {
        "C": "cfnos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps",
    }.items()
    for kind in ("", *kinds)
)  # fmt: skip


@lru_cache(maxsize=len(CATEGORIES))
def category(name: str) -> Ranges:
    """The characters of a Unicode general category such as `Lu`, or of a family such as `L`."""
    codes = range(sys.maxunicode + 1)
    result: list[tuple[int, int]] = []
    for inside, run in groupby(codes, lambda c: unicodedata.category(chr(c)).startswith(name)):
        first = last = next(run)
        if inside:
            for last in run:  # noqa: B007  # only the last of the run is needed
                pass
            result.append((first, last))
    return tuple(result)


def complement(ranges: Ranges) -> Ranges:
    """All characters that are not in the ranges."""
    result: list[tuple[int, int]] = []
    start = 0
    for first, last in sorted(ranges):
        if first > start:
            result.append((start, first - 1))
        start = max(start, last + 1)
    if start <= sys.maxunicode:
        result.append((start, sys.maxunicode))
    return tuple(result)


def source(ranges: Ranges) -> str:
    """The ranges as text between the brackets of a character class."""
    return "".join(
        escape(first) if first == last else f"{escape(first)}-{escape(last)}"
        for first, last in ranges
    )


def escape(code: int) -> str:
    """A character, escaped for use inside and outside of a character class."""
    return re.escape(chr(code))
