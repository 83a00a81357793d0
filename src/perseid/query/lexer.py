"""Splits query text into tokens with their positions.

Owns the spelling of keywords, numbers, strings and comments, and rejects text that is not a token.
The parser decides which token may follow which.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple, NoReturn

from perseid.errors import QueryError, QueryProblem
from perseid.query.values import INT64_MAX

# Token kinds. The kind of a keyword is its upper-case name, the kind of a symbol is the symbol.
IDENTIFIER: Final = "identifier"
NUMBER: Final = "number"
STRING: Final = "string"
PARAMETER: Final = "parameter"
END: Final = "end"

MAX_QUERY_CHARACTERS: Final = 512 * 1024

# ALL, FIRST and LAST are not listed: they may be used as names, and the parser recognizes them.
KEYWORDS: Final = frozenset({
    "AND", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "DESC", "DISTINCT", "ESCAPE", "EXISTS", "FALSE",
    "FROM", "GROUP", "IN", "JOIN", "LEFT", "LIKE", "LIMIT", "NOT", "NULL", "OFFSET", "OR", "ORDER",
    "RANK", "RIGHT", "SELECT", "TOP", "TRUE", "UDF", "UNDEFINED", "VALUE", "WHERE",
})  # fmt: skip


class Token(NamedTuple):
    """A token at a place in the text; `value` is the decoded number, string or name."""

    kind: str
    text: str
    value: Any
    start: int
    end: int


_TOKEN: Final = re.compile(
    r"""
    (?P<blank> [ \t\r\n]+ | --[^\r\n]* | /\*.*?\*/ )
  | (?P<word> [^\W\d]\w* )
  | (?P<symbol> >>> | << | >> | <= | >= | <> | != | \|\| | \?\?
              | \.(?![0-9]) | /(?!\*) | [()\[\]{},:;?+\-*%&|^~<>=] )
  | (?P<number> 0[xX][0-9A-Fa-f]+ | (?: [0-9]+\.?[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
  | (?P<parameter> @\w+ )
  | (?P<string> "[^"\\\x00-\x1f]* (?: \\. [^"\\\x00-\x1f]* )* "
              | '[^'\\\x00-\x1f]* (?: \\. [^'\\\x00-\x1f]* )* ' )
    """,
    re.VERBOSE | re.DOTALL,
)
# Stands for the resume filter in a rewritten sorted query. Clients replace it by a condition to
# continue after a row; if they do not, it is true.
FILTER_PLACEHOLDER: Final = "{documentdb-formattableorderbyquery-filter}"
_WORD_REST: Final = re.compile(r"\w*")
_BROKEN_STRING: Final = re.compile(r"[^\x00-\x1f]*")

_ESCAPE: Final = re.compile(
    r"\\(?:u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})"
    r"|u([0-9A-Fa-f]{4})|(.))",
    re.DOTALL,
)
_SIMPLE_ESCAPES: Final = {
    "'": "'", '"': '"', "\\": "\\", "/": "/",
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, followed by one of kind `END`."""
    if len(text) > MAX_QUERY_CHARACTERS:
        reject(
            "SC3020",
            f"The SQL query text exceeded the maximum limit of {MAX_QUERY_CHARACTERS} characters.",
            0,
            len(text),
        )
    tokens: list[Token] = []
    position, size = 0, len(text)
    while position < size:
        match = _TOKEN.match(text, position)
        if match is None:
            _reject_character(text, position)
        start, position = position, match.end()
        group = match.lastgroup
        if group == "blank":
            continue
        if group == "symbol" and text.startswith(FILTER_PLACEHOLDER, start):
            position = start + len(FILTER_PLACEHOLDER)
            tokens.append(Token("TRUE", FILTER_PLACEHOLDER, True, start, position))
            continue
        assert group is not None  # noqa: S101  # every alternative of the pattern is named
        tokens.append(_READERS[group](text, match[0], start, position))
    tokens.append(Token(END, "", None, size, size))
    return tokens


def reject(code: str, message: str, start: int, end: int) -> NoReturn:
    """Raises QueryError with one problem at one place."""
    raise QueryError([QueryProblem(code, message, start, end)])


def _read_word(_text: str, word: str, start: int, end: int) -> Token:
    # Only ASCII words can be keywords: `upper` turns a dotless i into a plain I.
    upper = word.upper() if word.isascii() else word
    return Token(upper if upper in KEYWORDS else IDENTIFIER, word, word, start, end)


def _read_symbol(_text: str, symbol: str, start: int, end: int) -> Token:
    return Token(symbol, symbol, symbol, start, end)


def _read_parameter(_text: str, name: str, start: int, end: int) -> Token:
    return Token(PARAMETER, name, name, start, end)


def _read_number(text: str, digits: str, start: int, end: int) -> Token:
    rest = _WORD_REST.match(text, end)
    if rest is not None and rest[0]:
        token = digits + rest[0]
        reject("SC1011", f"Syntax error, invalid numeric value token '{token}'.", start, rest.end())
    return Token(NUMBER, digits, _number(digits), start, end)


def _number(digits: str) -> int | float:
    """The exact integer if 64 bits hold it, otherwise the nearest double."""
    if digits[:2] in ("0x", "0X"):
        whole = int(digits, 16)
        try:
            return whole if whole <= INT64_MAX else float(whole)
        except OverflowError:
            return math.inf
    # `int` takes quadratic time and refuses long text, so it gets none longer than 64 bits need.
    if digits.isdigit() and len(significant := digits.lstrip("0")) < 20:
        whole = int(significant or "0")
        return whole if whole <= INT64_MAX else float(whole)
    return float(digits)


def _read_string(_text: str, quoted: str, start: int, end: int) -> Token:
    content = quoted[1:-1]
    if "\\" not in content:
        return Token(STRING, quoted, content, start, end)

    def unescape(match: re.Match[str]) -> str:
        high, low, unit, letter = match.groups()
        if high:
            pair = ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00)
            return chr(0x10000 + pair)
        if unit and not 0xD800 <= int(unit, 16) <= 0xDFFF:
            return chr(int(unit, 16))
        if letter in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[letter]
        # Half a surrogate pair is rejected too: UTF-8 responses cannot contain it.
        _reject_string(quoted, start)

    return Token(STRING, quoted, _ESCAPE.sub(unescape, content), start, end)


_READERS: Final = {
    "word": _read_word,
    "symbol": _read_symbol,
    "number": _read_number,
    "parameter": _read_parameter,
    "string": _read_string,
}


def _reject_character(text: str, position: int) -> NoReturn:
    character = text[position]
    if character in "'\"":
        broken = _BROKEN_STRING.match(text, position)
        _reject_string(broken[0] if broken else character, position)
    # The text from here to the end was searched for the end of the comment; stop at the first.
    token = "/*" if text.startswith("/*", position) else character
    reject("SC1010", f"Syntax error, invalid token '{token}'.", position, position + len(token))


def _reject_string(token: str, start: int) -> NoReturn:
    reject(
        "SC1012",
        f"Syntax error, invalid string literal token '{token}'.",
        start,
        start + len(token),
    )
