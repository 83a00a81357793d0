"""Texts that are no queries, made from queries in every way of breaking one; always the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from perseid.query import lexer
from perseid.query.functions import AGGREGATES, BUILTINS
from tests.query.golden import FILES

Tokens = list[lexer.Token]
SEED: Final = 4

# Queries that are right; each breaker takes them in turn.
VALID: Final = [
    case["query"].rstrip(" ;")
    for golden in FILES
    for case in golden.cases
    if ("rows" in case or "ids" in case) and "--" not in case["query"]
] + [f"SELECT VALUE {value[0]}" for golden in FILES for value in golden.values[::7]]

_BRACKETS: Final = frozenset("()[]{}")
# After one of these something has to follow.
_HUNGRY: Final = frozenset({
    "SELECT", "FROM", "WHERE", "BY", "TOP", "VALUE", "DISTINCT", "JOIN", "IN", "LIKE", "BETWEEN",
    "AND", "OR", "NOT", "AS", "OFFSET", "LIMIT", "GROUP", "ORDER", "(", "[", ",", ".", "=", "!=",
    "<", ">", "<=", ">=", "+", "-", "/", "%", "||", "??", "?", "&", "|", "^", "~", "<<", ">>",
})  # fmt: skip
_UNREPEATABLE: Final = frozenset(
    (
        ",",
        ".",
        "=",
        "!=",
        "<",
        ">",
        "<=",
        "AND",
        "OR",
        "BY",
        "FROM",
        "WHERE",
        "LIKE",
        "BETWEEN",
        "??",
    )
)
_STRAY: Final = ("#", "$", "`", "!", "\\", "@", "§", "\x00", "\x7f", "€", "'", '"', "/*")
_BAD_NUMBERS: Final = ("1x", "0x", "1e", "1.2.3", "0xg", "12abc", "1e+", "9_9", "1..2")
_BAD_STRINGS: Final = (
    "'\\q'", "'\\u12'", "'\\uD800'", "'\\uDC00x'", "'a\nb'", "'a\tb'", "'\\x41'", "'", "'\\'",
    '"\\"',
    "'it''s'",
)  # fmt: skip
_ENDINGS: Final = (
    "HAVING 1 = 1", "UNION SELECT 1", "LIMIT 5", "SELECT 1", ")", "]", "}", "FROM", "WHERE",
    "; SELECT 1",
    "ORDER BY", "GROUP BY", "OFFSET 1", "OFFSET -1 LIMIT 1", "= 1 = ", "AND", "?", "5", "'x'",
    "@p", ":",
    "WITH (x)", "FOR UPDATE", "JOIN", "TOP 1", "DISTINCT", "* ",
)  # fmt: skip
_BEGINNINGS: Final = (
    "EXPLAIN", "WITH x AS", "(", "[", "FROM c", "VALUE", "TOP 5", "1", "''", "--", "@p", "NOT",
    ";", ",",
)  # fmt: skip


def _without(text: str, token: lexer.Token) -> str:
    return f"{text[: token.start]} {text[token.end :]}"


def _with(text: str, token: lexer.Token, new: str) -> str:
    return f"{text[: token.start]}{new}{text[token.end :]}"


def _is_keyword(tokens: Tokens, at: int) -> bool:
    """False for a property of that name."""
    return at == 0 or tokens[at - 1].kind != "."


def lost_brackets(text: str, tokens: Tokens) -> Iterator[str]:
    yield from (_without(text, token) for token in tokens if token.kind in _BRACKETS)


def added_brackets(text: str, tokens: Tokens) -> Iterator[str]:
    for number, token in enumerate(tokens):
        yield f"{text[: token.start]} {'()[]{}'[number % 6]} {text[token.start :]}"


def cut_short(text: str, tokens: Tokens) -> Iterator[str]:
    for at, token in enumerate(tokens):
        if token.kind in _HUNGRY and _is_keyword(tokens, at):
            yield text[: token.end]


def stray_characters(text: str, tokens: Tokens) -> Iterator[str]:
    for number, token in enumerate(tokens):
        yield f"{text[: token.start]} {_STRAY[number % len(_STRAY)]} {text[token.start :]}"


def bad_numbers(text: str, tokens: Tokens) -> Iterator[str]:
    numbers = [token for token in tokens if token.kind == lexer.NUMBER]
    yield from (_with(text, token, bad) for token in numbers for bad in _BAD_NUMBERS)


def bad_strings(text: str, tokens: Tokens) -> Iterator[str]:
    strings = [token for token in tokens if token.kind == lexer.STRING]
    yield from (_with(text, token, bad) for token in strings for bad in _BAD_STRINGS)


def unknown_functions(text: str, tokens: Tokens) -> Iterator[str]:
    for token, new in _calls(tokens):
        yield _with(text, token, new)


def _calls(tokens: Tokens) -> Iterator[tuple[lexer.Token, str]]:
    known = BUILTINS.keys() | AGGREGATES.keys()
    for at, token in enumerate(tokens[:-1]):
        if tokens[at + 1].kind == "(" and token.text.upper() in known:
            yield token, f"{token.text}_"


def wrong_arity(text: str, tokens: Tokens) -> Iterator[str]:
    for at, token in enumerate(tokens[:-1]):
        builtin = BUILTINS.get(token.text.upper())
        if builtin is None or tokens[at + 1].kind != "(":
            continue
        start = tokens[at + 1].end
        if builtin.max_args is not None:
            extra = "1, " * (builtin.max_args + 1)
            yield f"{text[:start]}{extra if builtin.min_args else extra + '1'}{text[start:]}"
        elif tokens[at + 2].kind != ")":
            yield f"{text[: token.start]}{token.text}() + {text[token.start :]}"


def unknown_names(text: str, tokens: Tokens) -> Iterator[str]:
    depth = 0
    for at, token in enumerate(tokens[:-1]):
        depth += (token.kind in ("(", "[", "{")) - (token.kind in (")", "]", "}"))
        if token.kind == "FROM" and depth == 0 and _is_keyword(tokens, at):
            return
        if (
            token.kind == lexer.IDENTIFIER
            and tokens[at + 1].kind == "."
            and _is_keyword(tokens, at)
            and any(each.kind == "FROM" for each in tokens)
        ):
            yield _with(text, token, "unknown")


def repeated_tokens(text: str, tokens: Tokens) -> Iterator[str]:
    for at, token in enumerate(tokens):
        if token.kind in _UNREPEATABLE and _is_keyword(tokens, at):
            yield _with(text, token, f"{token.text} {token.text}")


def lost_keywords(text: str, tokens: Tokens) -> Iterator[str]:
    for at, token in enumerate(tokens):
        if (at == 0 or token.kind in ("BY", "LIMIT")) and _is_keyword(tokens, at):
            yield _without(text, token)


def endings(text: str, tokens: Tokens) -> Iterator[str]:
    yield from (f"{text} {ending}" for ending in _ENDINGS)


def beginnings(text: str, tokens: Tokens) -> Iterator[str]:
    yield from (f"{beginning} {text}" for beginning in _BEGINNINGS)


def swapped_clauses(text: str, tokens: Tokens) -> Iterator[str]:
    """The part from FROM or a later clause on in front of what was before it."""
    for at, token in enumerate(tokens):
        if at and token.kind in ("FROM", "WHERE", "ORDER", "GROUP", "OFFSET"):
            yield f"{text[token.start :]} {text[: token.start]}"


Breaker = Callable[[str, Tokens], Iterator[str]]
BREAKERS: Final[dict[Breaker, int]] = {
    lost_brackets: 250, added_brackets: 250, cut_short: 300, stray_characters: 250,
    bad_numbers: 200,
    bad_strings: 200, unknown_functions: 150, wrong_arity: 150, unknown_names: 150,
    repeated_tokens: 250, lost_keywords: 150, endings: 300, beginnings: 150, swapped_clauses: 100,
}  # fmt: skip


def corpus(breaker: Breaker, most: int) -> list[str]:
    """Up to so many different texts, from queries of all files."""
    chance = random.Random(SEED)
    found: dict[str, None] = {}
    for text in VALID:
        found |= dict.fromkeys(breaker(text, lexer.tokenize(text)[:-1]))
    return chance.sample(list(found), min(most, len(found)))


def mutations(count: int) -> list[str]:
    """Texts with a few tokens deleted, repeated, swapped or taken from elsewhere.

    Most are broken; the compiler knows which.
    """
    chance = random.Random(SEED)
    spellings = [token.text for text in VALID for token in lexer.tokenize(text)[:-1]]
    found = []
    for _ in range(count):
        words = [token.text for token in lexer.tokenize(chance.choice(VALID))[:-1]]
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            _mutate(words, chance, spellings)
        found.append(" ".join(words))
    return found


def _mutate(words: list[str], chance: random.Random, spellings: list[str]) -> None:
    at = chance.randrange(len(words)) if words else 0
    match chance.choice(("delete", "insert", "swap", "replace", "repeat")):
        case "delete" if words:
            del words[at]
        case "insert":
            words.insert(at, chance.choice(spellings))
        case "swap" if len(words) > 1:
            other = chance.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        case "replace" if words:
            words[at] = chance.choice(spellings)
        case "repeat" if words:
            words.insert(at, words[at])


# Texts that would take long, or go deep, if a stage were careless. All are refused.
HEAVY: Final[dict[str, Callable[[], Any]]] = {
    "open comments": lambda: "SELECT 1 " + "/* " * 25_000,
    "open comment": lambda: "SELECT 1 /* " + "x" * 100_000,
    "open string": lambda: "SELECT '" + "x" * 100_000,
    "escapes": lambda: "SELECT '" + "\\\\" * 50_000,
    "parentheses": lambda: "SELECT " + "(" * 100_000,
    "closed too often": lambda: "SELECT 1" + ")" * 100_000,
    "deep arrays": lambda: "SELECT " + "[" * 50_000 + "]" * 50_000,
    "deep objects": lambda: "SELECT " + "{a:" * 25_000 + "1" + "}" * 25_000,
    "deep calls": lambda: "SELECT " + "ABS(" * 12_500 + "1" + ")" * 12_500,
    "deep queries": lambda: "SELECT " + "(SELECT " * 5_000 + "1" + ")" * 5_000,
    "deep joins": lambda: "SELECT 1 FROM c JOIN x IN " + "(SELECT VALUE 1 FROM y IN " * 2_500,
    "signs": lambda: "SELECT " + "~ " * 50_000 + "1 1",
    "negations": lambda: "SELECT " + "NOT " * 25_000 + "true true",
    "conditionals": lambda: "SELECT " + "true ? 1 : " * 10_000 + "2",
    "conditionals in the middle": lambda: "SELECT " + "true ? " * 12_500 + "1",
    "indices": lambda: "SELECT c" + "[0]" * 25_000 + " FROM c",
    "properties": lambda: "SELECT c" + ".a" * 50_000 + " FROM c",
    "sums": lambda: "SELECT " + "1 + " * 25_000 + "1",
    "comparisons": lambda: "SELECT " + "1 = " * 25_000 + "1",
    "commas": lambda: "SELECT " + "," * 100_000,
    "digits": lambda: "SELECT " + "9" * 100_000 + "x",
    "hexadecimal digits": lambda: "SELECT 0x" + "f" * 100_000 + "x",
    "names": lambda: "SELECT " + "a" * 100_000,
    "too long": lambda: "SELECT 1" + " " * (512 * 1024),
    "many terms and a wrong one": lambda: "SELECT " + "1 AND " * 15_000 + "zz",
    "many items and a wrong one": lambda: "SELECT VALUE 1 IN (" + "1, " * 25_000 + "zz)",
    "many sources": lambda: "SELECT VALUE 1 FROM c " + "JOIN x IN c.t " * 5_000,
}
