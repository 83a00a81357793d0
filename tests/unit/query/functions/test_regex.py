"""Regular expressions: the dialect, the limits, and the agreement of the two matchers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.query.functions import regex
from perseid.query.functions.regex.linear_matcher import LinearMatcher
from perseid.query.functions.regex.parser import parse
from perseid.query.values import UNDEFINED


def search(text: str, pattern: str, modifiers: str = "") -> Any:
    compiled = regex.compiled(pattern, modifiers)
    return UNDEFINED if compiled is None else compiled.search(text)


@pytest.mark.parametrize(("pattern", "hits", "misses"), [
    ("b", ["abc"], ["ac", ""]),
    ("", ["", "a"], []),
    ("^b", ["bc"], ["abc", "a\nb"]),
    ("b$", ["ab", "ab\n"], ["bc", "b\nc"]),
    (r"\Ab\z", ["b"], ["b\n", "ab"]),
    (r"\Ab\Z", ["b", "b\n"], ["b\n\n"]),
    ("a.c", ["abc", "a😀c"], ["a\nc", "ac"]),
    ("^[A-Z]{3}-\\d+$", ["ABC-12"], ["AB-12", "ABC-"]),
    ("a|b|", ["x"], []),
    ("^(a|bc)$", ["a", "bc"], ["ab", "abc"]),
    ("colou?r", ["color", "colour"], ["colouur"]),
    ("^a{2}$", ["aa"], ["a", "aaa"]),
    ("^a{2,}$", ["aa", "aaaa"], ["a"]),
    ("^a{0,2}$", ["", "aa"], ["aaa"]),
    ("^a{,2}$", ["a{,2}"], ["a", ""]),
    ("^a{x$", ["a{x"], ["a"]),
    ("a]b}", ["a]b}"], ["ab"]),
    ("a+?b", ["aab"], ["b"]),
    ("^a++ab", [], ["aab"]),
    ("^(?>a+)b", ["aab"], ["b"]),
    (r"(a)\1", ["aa"], ["ab"]),
    (r"(a)\g1b|(c)\g{2}", ["aab", "cc"], ["ac"]),
    (r"(?<l>a)\k<l>", ["aa"], ["ab"]),
    (r"(?'l'a)\k'l'|(?P<m>b)(?P=m)", ["aa", "bb"], ["ab"]),
    (r"(?<l>a)\k{l}1", ["aa1"], ["a1"]),
    ("a(?=b)", ["ab"], ["ac"]),
    ("a(?!b)", ["ac"], ["ab"]),
    ("(?<=a)b", ["ab"], ["cb"]),
    ("(?<!a)b", ["cb"], ["ab"]),
    ("^(?=.*[A-Z])(?=.*\\d).{4,}$", ["abC1"], ["abc1", "C1"]),
    (r"\bcat\b", ["a cat."], ["cats"]),
    (r"\Bcat", ["bobcat"], ["cat"]),
    (r"^\w\d\s\W\D\S$", ["a1 -x."], ["a1 bx."]),
    (r"^\h\v\R\N\H\V$", [" \n\r\nxyz"], ["\n\n\nxyz"]),
    (r"^\t\n\r\f\e\a$", ["\t\n\r\f\x1b\x07"], ["tnrfea"]),
    (r"^\x41\x{1F600}\0\cA\o{102}\x4$", ["A😀\0\x01B\x04"], ["A"]),
    (r"^\.\*\[\/\-\#$", [".*[/-#"], ["a*[/-#"]),
    (r"^\Qa.b*\E+$", ["a.b*", "a.b***"], ["axb*"]),
    (r"a\Q", ["a"], ["b"]),
    ("^[abc]$", ["b"], ["d", "[abc]"]),
    ("^[^abc]$", ["d", "\n"], ["b"]),
    ("^[]a]$", ["]", "a"], ["b"]),
    ("^[^]a]$", ["b"], ["]", "a"]),
    ("^[a-c-]$", ["b", "-"], ["d"]),
    ("^[+--]$", ["+", ",", "-"], ["."]),
    ("^[--/]$", ["-", ".", "/"], ["0"]),
    (r"^[\w-]$", ["a", "-"], ["."]),
    (r"^[a-\d]$", ["a", "-", "5"], ["b"]),
    (r"^[\d\-x&&~~||\[]$", ["5", "-", "&", "~", "|", "["], ["\\"]),
    (r"^[\b\n\x41-\x43\\]$", ["\b", "\n", "B", "\\"], ["D"]),
    ("^[[:alpha:][:digit:]_]$", ["a", "5", "_"], ["-", ":", "é"]),
    ("^[[:^alpha:]]$", ["5", "é"], ["a"]),
    ("^[[:word:]]$", ["a", "_"], ["-"]),
    ("^[[a]$", ["[", "a"], ["]"]),
    (r"^\p{Lu}\p{L}+\P{L}\pN\p{^N}$", ["Éaß-5x"], ["éaß-5x"]),
    (r"^[\p{Lu}\d]$", ["É", "5"], ["é"]),
    ("a(?#comment)b", ["ab"], ["a"]),
    ("(?i)AB", ["ab"], ["a"]),
    ("a(?i)b", ["aB"], ["Ab"]),
    ("a((?i)b|c)d", ["aBd", "aCd"], ["acD"]),
    ("(?i:a)b", ["Ab"], ["AB"]),
    ("(?i)a(?-i:b)", ["Ab"], ["AB"]),
    ("(?s).(?-s).", ["\na"], ["\n\n"]),
    ("(?x) a b # end", ["ab"], ["a b"]),
    (r"(?:^)*a", ["ba"], ["b"]),
    ("é+", ["éé"], ["e"]),
])  # fmt: skip
def test_dialect(pattern: str, hits: list[str], misses: list[str]) -> None:
    assert {text: search(text, pattern) for text in hits} == dict.fromkeys(hits, True)
    assert {text: search(text, pattern) for text in misses} == dict.fromkeys(misses, False)


@pytest.mark.parametrize(("pattern", "modifiers", "text", "result"), [
    ("^b$", "m", "a\nb\nc", True),
    ("^b$", "", "a\nb\nc", False),
    ("a.b", "s", "a\nb", True),
    ("É", "i", "é", True),
    ("[a-c]\\x44", "i", "Bd", True),
    ("(a)\\1", "i", "aA", True),
    ("a b # note\n c", "x", "abc", True),
    ("a +", "x", "aa", True),
    ("[ ]", "x", " ", True),
    ("^A.B$", "ims", "x\na\nb", True),
    ("a", "ii", "A", True),
    ("a", "g", "a", UNDEFINED),
    ("a", "I", "a", UNDEFINED),
    ("a", " ", "a", UNDEFINED),
])  # fmt: skip
def test_modifiers(pattern: str, modifiers: str, text: str, result: Any) -> None:
    assert search(text, pattern, modifiers) is result


@pytest.mark.parametrize("pattern", [
    "(", ")", "a)", "[", "[a", "*", "+a", "?", "a**", "a|*", "(?", "(?<", "(?<n", "(?P", "(?z)",
    "\\", "a{2,1}", "a{99999}", "a{1" + "0" * 5000 + "}", "[b-a]", "[\\", "[a-\\", "[[:nope:]]",
    "\\1", "(a)\\2", "\\k<x>", "(?<a>x)(?<a>y)", "\\y", "\\K", "\\G", "\\p{Xx}", "\\p{", "\\pX",
    "\\x{110000}", "(?<=a+)b", "(?R)", "(?1)", "(?(1)a|b)", "(?|a|b)", "(*FAIL)a",
    "[\\Qa\\E]", "(" * 5000 + ")" * 5000, "a" * (regex.MAX_PATTERN + 1),
    "((a{1000}){1000}){1000}", "(?i)*", "\ud800{99999}",
])  # fmt: skip
def test_invalid_and_unsupported_patterns_are_undefined(pattern: str) -> None:
    assert search("a", pattern) is UNDEFINED


@pytest.mark.parametrize(("pattern", "text", "result"), [
    (r"^(a+)+$", "a" * 5000 + "!", False),
    (r"^(a+)+$", "a" * 5000, True),
    (r"^(\w+\s?)*$", "word " * 1000 + "!", False),
    (r"(a|aa)+$", "a" * 3000 + "b", False),
    (r"(.*)*x", "y" * 3000, False),
    (r"(x+x+)+y", "x" * 3000, False),
    (r"^(a?){40}a{40}$", "a" * 40, True),
    (r"\s*\s*\s*\s*\s*x", " " * 3000, False),
    (r"^(\d{1,3}\.){3}\d{1,3}$", "192.168.0.1", True),
    (r"^([a-z]+\.)*[a-z]+@(?:[a-z]+\.)+[a-z]{2,}$", "first.last@mail.example.com", True),
    (r"^(?=(a|a)*$)a+!", "a" * 40 + "!", UNDEFINED),  # an assertion that backtracks
    (r"^(a+)+\1$", "a" * 40 + "!", UNDEFINED),  # references need backtracking
    (r"(a{0,200}){0,200}b", "a" * 3000, UNDEFINED),  # too large for the linear matcher
])  # fmt: skip
def test_no_pattern_takes_exponential_time(pattern: str, text: str, result: Any) -> None:
    assert search(text, pattern) is result


def test_long_text_is_searched_linearly() -> None:
    assert search("ab" * 50_000 + "!", "^(ab|ba)*$") is False
    assert search("日本語" * 10_000, "^(日|本|語)+$") is True


def test_the_linear_matcher_drops_transitions_and_goes_on() -> None:
    matcher = LinearMatcher(parse("^(.x|.y)*$", ""))
    text = "".join(chr(0x4E00 + i) + "xy"[i % 2] for i in range(6_000))
    assert matcher.search(text) is True
    assert matcher.search(text + "z") is False


# --- the two matchers

atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", r"\b", "^", "$", "(?=a)", "(?!b)", "(?<=a)", "()"]
)
counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}", "*?", "+?", "??"])
pattern_texts = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(inner, counts).map(lambda both: f"(?:{both[0]}){both[1]}"),
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(pattern_texts, st.text("ab\n", max_size=6))
def test_both_matchers_agree(pattern: str, text: str) -> None:
    expected = re.search(pattern, text) is not None
    node = parse(pattern, "")
    assert (re.search(node.source, text) is not None) is expected
    matcher = LinearMatcher(node)
    assert matcher.search(text) is expected
    assert matcher.search(text) is expected  # with the transitions of the first search


@settings(deadline=None)
@given(
    st.text("ab()[]{}|*+?^$\\.-,:=!<>#&~ 12kxpPQEidws", max_size=12), st.text("ab12-", max_size=5)
)
def test_any_pattern_gives_a_result(pattern: str, text: str) -> None:
    assert search(text, pattern) in (True, False, UNDEFINED)
