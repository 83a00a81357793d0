"""String functions. Positions and lengths are counted in UTF-16 code units, from 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from perseid.query.functions.builtin import ARRAY, BOOL, INTEGER, MAYBE, STRING, Builtin
from perseid.query.functions.logic import Truth, conjunction, disjunction
from perseid.query.functions.utf16 import text_of, units
from perseid.query.values import LONGEST_TEXT, UNDEFINED

MAX_REPLICATED: Final = 10_000
MAX_BUILT: Final = LONGEST_TEXT  # limits the memory of CONCAT, REPLACE, STRINGJOIN


# --- tests


def contains(text: str, part: str, ignore_case: bool = False) -> bool:
    return _folded(part) in _folded(text) if ignore_case else part in text


def starts_with(text: str, part: str, ignore_case: bool = False) -> bool:
    if ignore_case:
        return _folded(text).startswith(_folded(part))
    return text.startswith(part)


def ends_with(text: str, part: str, ignore_case: bool = False) -> bool:
    if ignore_case:
        return _folded(text).endswith(_folded(part))
    return text.endswith(part)


def string_equals(a: str, b: str, ignore_case: bool = False) -> bool:
    return _folded(a) == _folded(b) if ignore_case else a == b


def contains_all_ci(text: str, *parts: Any) -> Truth:
    return conjunction(_contains_each(text, parts, ignore_case=True))


def contains_all_cs(text: str, *parts: Any) -> Truth:
    return conjunction(_contains_each(text, parts, ignore_case=False))


def contains_any_ci(text: str, *parts: Any) -> Truth:
    return disjunction(_contains_each(text, parts, ignore_case=True))


def contains_any_cs(text: str, *parts: Any) -> Truth:
    return disjunction(_contains_each(text, parts, ignore_case=False))


def regex_match(text: str, pattern: str, modifiers: str = "") -> Truth:
    # Imported here because few queries need it, and every start of a server would wait for it.
    from perseid.query.functions import regex

    compiled = regex.compiled(pattern, modifiers)
    return UNDEFINED if compiled is None else compiled.search(text)


def _contains_each(text: str, parts: tuple[Any, ...], *, ignore_case: bool) -> list[Truth]:
    if ignore_case:  # fold the text once, not for each part
        text = _folded(text)
        parts = tuple([_folded(part) if type(part) is str else part for part in parts])
    return [part in text if type(part) is str else UNDEFINED for part in parts]


# --- positions and parts


def length(text: str) -> int:
    return len(units(text))


def index_of(text: str, part: str, start: int = 0) -> int:
    code_units = units(text)
    return code_units.find(units(part), start) if 0 <= start <= len(code_units) else -1


def last_index_of(text: str, part: str, start: int | None = None) -> int:
    """The last position of `part` that ends at or before position `start`."""
    code_units = units(text)
    if start is None:
        return code_units.rfind(units(part))
    return code_units.rfind(units(part), 0, min(start + 1, len(code_units))) if start >= 0 else -1


def left(text: str, count: int) -> str:
    return text_of(units(text)[: max(count, 0)])


def right(text: str, count: int) -> str:
    code_units = units(text)
    return text_of(code_units[max(len(code_units) - max(count, 0), 0) :])


def substring(text: str, start: int, count: int | None = None) -> str:
    code_units = units(text)
    if start < 0:
        return ""
    return text_of(
        code_units[start:] if count is None else code_units[start : start + max(count, 0)]
    )


def substring_before(text: str, mark: str) -> str:
    return text[: max(text.find(mark), 0)]


def substring_after(text: str, mark: str) -> str:
    return _after(text, mark, text.find(mark))


def last_substring_before(text: str, mark: str) -> str:
    return text[: max(text.rfind(mark), 0)]


def last_substring_after(text: str, mark: str) -> str:
    return _after(text, mark, text.rfind(mark))


def _after(text: str, mark: str, position: int) -> str:
    return text[position + len(mark) :] if position >= 0 else ""


# --- new strings


def concatenate(*texts: str) -> Any:
    return "".join(texts) if sum(map(len, texts)) <= MAX_BUILT else UNDEFINED


def lower(text: str) -> str:
    return text.lower() if text.isascii() else _map_each(text, str.lower)


def upper(text: str) -> str:
    return text.upper() if text.isascii() else _map_each(text, str.upper)


def trim(text: str, chars: str | None = None) -> str:
    return text.strip(chars)


def trim_left(text: str, chars: str | None = None) -> str:
    return text.lstrip(chars)


def trim_right(text: str, chars: str | None = None) -> str:
    return text.rstrip(chars)


def replace(text: str, old: str, new: str) -> Any:
    if not old:
        return UNDEFINED
    growth = len(new) - len(old)
    if growth > 0 and len(text) + text.count(old) * growth > MAX_BUILT:
        return UNDEFINED
    return text.replace(old, new)


def replicate(text: str, count: int) -> Any:
    if count < 0 or count * length(text) > MAX_REPLICATED:
        return UNDEFINED
    return text * count if text else ""  # Python rejects "" times a very large count


def reverse(text: str) -> str:
    """Reverses characters, not code units, so that surrogate pairs stay intact."""
    return text[::-1]


def string_join(texts: list[Any], separator: str) -> Any:
    if not all(type(text) is str for text in texts):
        return UNDEFINED
    if sum(map(len, texts)) + len(separator) * len(texts) > MAX_BUILT:
        return UNDEFINED
    return separator.join(texts)


def string_split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else [text]


def _folded(text: str) -> str:
    """The text for comparisons that ignore case."""
    return text.lower() if text.isascii() else _map_each(text, str.casefold)


def _map_each(text: str, change: Callable[[str], str]) -> str:
    """Maps single characters, as an invariant culture does: no "ß" to "SS", no final sigma."""
    changed = map(change, text)
    return "".join(new if len(new) == 1 else old for old, new in zip(text, changed, strict=True))


FUNCTIONS: Final = (
    Builtin("CONCAT", (STRING, STRING), concatenate, rest=STRING),
    Builtin("CONTAINS", (STRING, STRING), contains, optional=(BOOL,)),
    Builtin("CONTAINS_ALL_CI", (STRING, MAYBE), contains_all_ci, rest=MAYBE,
            aliases=("ContainsAllCi",)),
    Builtin("CONTAINS_ALL_CS", (STRING, MAYBE), contains_all_cs, rest=MAYBE,
            aliases=("ContainsAllCs",)),
    Builtin("CONTAINS_ANY_CI", (STRING, MAYBE), contains_any_ci, rest=MAYBE,
            aliases=("ContainsAnyCi",)),
    Builtin("CONTAINS_ANY_CS", (STRING, MAYBE), contains_any_cs, rest=MAYBE,
            aliases=("ContainsAnyCs",)),
    Builtin("ENDSWITH", (STRING, STRING), ends_with, optional=(BOOL,)),
    Builtin("INDEX_OF", (STRING, STRING), index_of, optional=(INTEGER,)),
    Builtin("LASTINDEXOF", (STRING, STRING), last_index_of, optional=(INTEGER,)),
    Builtin("LastSubstringAfter", (STRING, STRING), last_substring_after),
    Builtin("LastSubstringBefore", (STRING, STRING), last_substring_before),
    Builtin("LEFT", (STRING, INTEGER), left),
    Builtin("LENGTH", (STRING,), length),
    Builtin("LOWER", (STRING,), lower),
    Builtin("LTRIM", (STRING,), trim_left, optional=(STRING,)),
    Builtin("RegexMatch", (STRING, STRING), regex_match, optional=(STRING,), expensive=True),
    Builtin("REPLACE", (STRING, STRING, STRING), replace, expensive=True),
    Builtin("REPLICATE", (STRING, INTEGER), replicate, expensive=True),
    Builtin("REVERSE", (STRING,), reverse),
    Builtin("RIGHT", (STRING, INTEGER), right),
    Builtin("RTRIM", (STRING,), trim_right, optional=(STRING,)),
    Builtin("STARTSWITH", (STRING, STRING), starts_with, optional=(BOOL,)),
    Builtin("STRINGEQUALS", (STRING, STRING), string_equals, optional=(BOOL,)),
    Builtin("STRINGJOIN", (ARRAY, STRING), string_join, expensive=True),
    Builtin("STRINGSPLIT", (STRING, STRING), string_split),
    Builtin("SUBSTRING", (STRING, INTEGER), substring, optional=(INTEGER,)),
    Builtin("SubstringAfter", (STRING, STRING), substring_after),
    Builtin("SubstringBefore", (STRING, STRING), substring_before),
    Builtin("TRIM", (STRING,), trim, optional=(STRING,)),
    Builtin("UPPER", (STRING,), upper),
)  # fmt: skip
