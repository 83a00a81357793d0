"""PCRE text to nodes: recursive descent over the syntax the two dialects share, and a bit more.

Modifiers are resolved here: a dot knows its lines, a letter its case, and the white space that
`x` ignores is gone. What has no counterpart in Python (recursion, conditions, verbs, `\\K`) and
what is no pattern at all raise `PatternError`.
"""

from __future__ import annotations

import re
from typing import Final

from perseid.query.functions.regex import charsets
from perseid.query.functions.regex.nodes import (
    Char,
    Choice,
    Concatenation,
    Edge,
    Lookaround,
    Loop,
    Opaque,
    PatternNode,
)

MODIFIERS: Final = frozenset("imsx")
MAX_COUNT: Final = 65535  # PCRE's own limit for {n,m}


class PatternError(ValueError):
    """The text is not a pattern that can be matched here."""


_QUANTIFIER: Final = re.compile(r"(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})([?+]?)", re.ASCII)
_SIMPLE_COUNTS: Final[dict[str, tuple[int, int | None]]] = {
    "*": (0, None),
    "+": (1, None),
    "?": (0, 1),
}
_NAME: Final = r"(?P<name>[A-Za-z_]\w*)"
_NAMED_GROUP: Final = re.compile(rf"\?P?<{_NAME}>|\?'(?P<quoted>[A-Za-z_]\w*)'", re.ASCII)
_NAMED_REFERENCE: Final = re.compile(r"\?P=(\w+)\)", re.ASCII)
_MODIFIER_GROUP: Final = re.compile(r"\?([imsx]*)(?:-([imsx]+))?([:)])")
_COMMENT: Final = re.compile(r"\?#[^)]*\)")
_BRANCHED: Final = {
    "?:": "(?:",
    "?=": "(?=",
    "?!": "(?!",
    "?<=": "(?<=",
    "?<!": "(?<!",
    "?>": "(?>",
}
_IGNORED: Final = re.compile(r"(?:\s|#[^\n]*(?:\n|$))*")

_CODE: Final = re.compile(
    r"x\{([0-9a-fA-F]{1,6})\}|x([0-9a-fA-F]{0,2})|o\{([0-7]{1,7})\}|(0[0-7]{0,2})|c([ -~])"
)
_BACK_REFERENCE: Final = re.compile(
    r"([1-9]\d?)|g([1-9]\d?)|g\{(\w+)\}|k<(\w+)>|k\{(\w+)\}|k'(\w+)'", re.ASCII
)
_PROPERTY: Final = re.compile(r"([pP])(?:\{(\^?)([A-Za-z]{1,2})\}|([A-Z]))")
_POSIX: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_QUOTED: Final = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_CONTROLS: Final = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_SHARED_SETS: Final = frozenset("dDwWsS")
_OWN_SETS: Final = {
    "h": charsets.HORIZONTAL,
    "H": charsets.complement(charsets.HORIZONTAL),
    "v": charsets.VERTICAL,
    "V": charsets.complement(charsets.VERTICAL),
    "N": charsets.complement(charsets.of_chars("\n")),
}
_EDGES: Final = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)"}


def parse(pattern: str, modifiers: str) -> PatternNode:
    """The nodes of `pattern` read with `modifiers`, letters of `MODIFIERS` in any number."""
    parser = _PatternParser(pattern, frozenset(modifiers))
    node = parser.choice()
    if not parser.at_end():
        raise PatternError("a closing bracket without its opening one")
    return node


class _PatternParser:
    def __init__(self, text: str, modifiers: frozenset[str]) -> None:
        self._text = text
        self._at = 0
        self._modifiers = modifiers

    # --- the text

    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._next()
        if not char:
            raise PatternError("the pattern ends too early")
        self._at += 1
        return char

    def _skip(self, expected: str) -> bool:
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _match(self, form: re.Pattern[str]) -> re.Match[str] | None:
        matched = form.match(self._text, self._at)
        if matched:
            self._at = matched.end()
        return matched

    def _skip_ignored(self) -> None:
        if "x" in self._modifiers:
            self._match(_IGNORED)

    # --- structure

    def choice(self) -> PatternNode:
        branches = [self._chain()]
        while self._skip("|"):
            branches.append(self._chain())
        if len(branches) == 1:
            return branches[0]
        return Choice("|".join(branch.source for branch in branches), tuple(branches))

    def _chain(self) -> PatternNode:
        parts: list[PatternNode] = []
        self._skip_ignored()
        while self._next() not in ("", "|", ")"):
            units = self._units()
            self._skip_ignored()
            if units:  # a quantifier belongs to the last character of quoted text
                units[-1] = self._quantified(units[-1])
                self._skip_ignored()
            parts += units
        return Concatenation("".join(part.source for part in parts), tuple(parts))

    def _units(self) -> list[PatternNode]:
        """One unit, or all of quoted text, or nothing for comments and modifiers."""
        quoted = self._match(_QUOTED)
        if quoted:
            return [self._literal(ord(char)) for char in quoted[1]]
        unit = self._unit()
        return [] if unit is None else [unit]

    def _quantified(self, node: PatternNode) -> PatternNode:
        matched = self._match(_QUANTIFIER)
        if matched is None:
            return node
        low, high = _counts(matched)
        body = node if isinstance(node, Char) else _group(node)
        source = f"{body.source}{matched[0]}"
        loop = Loop(source, node, low, high)
        return Opaque(source, loop) if matched[5] == "+" else loop

    def _unit(self) -> PatternNode | None:
        char = self._take()
        match char:
            case "(":
                return self._parenthesis()
            case "[":
                return Char(self._cased(self._char_class()))
            case "\\":
                return self._escape()
            case ".":
                return Char("(?s:.)" if "s" in self._modifiers else ".")
            case "^":
                return Edge("(?m:^)" if "m" in self._modifiers else "^")
            case "$":
                return Edge("(?m:$)" if "m" in self._modifiers else "$")
            case "*" | "+" | "?":
                raise PatternError("nothing to repeat")
            case _:
                return self._literal(ord(char))

    def _literal(self, code: int) -> PatternNode:
        return Char(self._cased(charsets.escape(code)))

    def _cased(self, source: str) -> str:
        return f"(?i:{source})" if "i" in self._modifiers else source

    # --- parentheses

    def _parenthesis(self) -> PatternNode | None:
        if self._next() == "*":
            raise PatternError("verbs are not supported")
        if self._match(_COMMENT):
            return None
        for opening, source in _BRANCHED.items():
            if self._skip(opening):
                return self._enclosed(source)
        named = self._match(_NAMED_GROUP)
        if named:
            return self._enclosed(f"(?P<{named['name'] or named['quoted']}>")
        reference = self._match(_NAMED_REFERENCE)
        if reference:
            return Opaque(self._cased(f"(?P={reference[1]})"))
        modified = self._match(_MODIFIER_GROUP)
        if modified:
            return self._modifier_group(modified)
        if self._next() == "?":
            raise PatternError("a kind of group that is not supported")
        return self._enclosed("(")

    def _enclosed(self, opening: str) -> PatternNode:
        # Modifiers that a group switches on inside itself end with it.
        before = self._modifiers
        body = self.choice()
        self._modifiers = before
        if not self._skip(")"):
            raise PatternError("a bracket that is not closed")
        source = f"{opening}{body.source})"
        if opening in ("(?=", "(?!", "(?<=", "(?<!"):
            return Lookaround(source, body)
        return Opaque(source, body) if opening == "(?>" else Concatenation(source, (body,))

    def _modifier_group(self, matched: re.Match[str]) -> PatternNode | None:
        before = self._modifiers
        self._modifiers = (before | set(matched[1])) - set(matched[2] or "")
        if matched[3] == ")":  # to the end of the group around it
            return None
        node = self._enclosed("(?:")
        self._modifiers = before
        return node

    # --- escapes and character classes

    def _escape(self) -> PatternNode:
        reference = self._match(_BACK_REFERENCE)
        if reference:
            return self._back_reference(reference[reference.lastindex or 0])
        edge = _EDGES.get(self._next())
        if edge:
            self._take()
            return Edge(edge)
        if self._skip("R"):
            return _group(Choice(rf"\r\n|{_LINE_END.source}", (_CRLF, _LINE_END)))
        matched = self._set_escape()
        if matched is not None:
            return Char(self._cased(f"[{matched}]"))
        return self._literal(self._code_escape())

    def _back_reference(self, name: str) -> PatternNode:
        # Within a group of its own, so that a digit that follows stays a digit.
        source = rf"(?:\{name})" if name.isdigit() else f"(?P={name})"
        return Opaque(self._cased(source))

    def _set_escape(self) -> str | None:
        """A set of characters such as `\\d`, as it stands between brackets."""
        matched = self._match(_PROPERTY)
        if matched:
            name = matched[3] or matched[4]
            if name not in charsets.CATEGORIES:
                raise PatternError("no such property")
            return _set_source(charsets.category(name), (matched[1] == "P") != bool(matched[2]))
        char = self._next()
        if char and char in _SHARED_SETS:
            return f"\\{self._take()}"
        return charsets.source(_OWN_SETS[self._take()]) if char in _OWN_SETS else None

    def _code_escape(self) -> int:
        """The code point that an escape such as `\\n` or `\\x41` stands for."""
        matched = self._match(_CODE)
        if matched is None:
            char = self._take()
            if char in _CONTROLS:
                return _CONTROLS[char]
            if char.isascii() and char.isalnum():
                raise PatternError("no such escape")
            return ord(char)
        long_hex, hex_, long_octal, octal, control = matched.groups()
        if control is not None:
            return ord(control.upper()) ^ 64
        digits = long_octal or octal
        code = int(digits, 8) if digits else int(long_hex or hex_ or "0", 16)
        if code > 0x10FFFF:
            raise PatternError("no such character")
        return code

    def _char_class(self) -> str:
        negated = self._skip("^")
        parts: list[str] = []
        if self._next() == "]":  # in front, it is one of the characters
            parts.append(self._class_range(ord(self._take())))
        while not self._skip("]"):
            parts.append(self._class_item())
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _class_item(self) -> str:
        posix = self._match(_POSIX)
        if posix:
            if posix[2] not in charsets.POSIX:
                raise PatternError("no such class")
            return _set_source(charsets.POSIX[posix[2]], bool(posix[1]))
        char = self._take()
        if char != "\\":
            return self._class_range(ord(char))
        if self._skip("b"):
            return self._class_range(8)
        if self._next() and self._next() in "QE":
            raise PatternError("quoting in a class is not supported")
        matched = self._set_escape()
        return self._class_range(self._code_escape()) if matched is None else matched

    def _class_range(self, first: int) -> str:
        """A single character, or the range that begins with it."""
        follows = self._text[self._at : self._at + 2]
        if len(follows) < 2 or follows[0] != "-" or follows[1] in "][":
            return charsets.escape(first)
        start = self._at
        self._at += 1
        if self._skip("\\"):
            if self._next() and self._next() in "dDwWsShHvVNpP":
                self._at = start  # the hyphen between a character and a set is a hyphen
                return charsets.escape(first)
            last = 8 if self._skip("b") else self._code_escape()
        else:
            last = ord(self._take())
        if last < first:
            raise PatternError("a range out of order")
        return charsets.source(((first, last),))


def _counts(matched: re.Match[str]) -> tuple[int, int | None]:
    if matched[1]:
        return _SIMPLE_COUNTS[matched[1]]
    low = int(matched[2])
    high = low if not matched[3] else int(matched[4]) if matched[4] else None
    if max(low, high or 0) > MAX_COUNT or (high is not None and high < low):
        raise PatternError("counts that are too large or out of order")
    return low, high


def _group(node: PatternNode) -> PatternNode:
    return Concatenation(f"(?:{node.source})", (node,))


def _set_source(ranges: charsets.Ranges, negated: bool) -> str:
    return charsets.source(charsets.complement(ranges) if negated else ranges)


_LINE_END: Final = Char(f"[{charsets.source(charsets.VERTICAL)}]")
_CRLF: Final = Concatenation(r"\r\n", (Char(r"\r"), Char(r"\n")))
