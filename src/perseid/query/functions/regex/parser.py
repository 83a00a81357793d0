"""Parses PCRE patterns into nodes whose source is in the syntax of Python's `re`.

Modifiers are resolved here: they become part of the source of each dot, boundary and letter; white
space that `x` ignores is dropped. Invalid patterns raise `PatternError`, and so does what Python
cannot express: recursion, conditions, verbs and `\\K`.
"""

from __future__ import annotations

import re
from typing import Final

from perseid.query.functions.regex import charsets
from perseid.query.functions.regex.nodes import (
    Boundary,
    Char,
    Choice,
    Concatenation,
    Lookaround,
    Loop,
    Opaque,
    PatternNode,
)

MODIFIERS: Final = frozenset("imsx")
MAX_REPEATS: Final = 65535  # the limit of PCRE for {n,m}


class PatternError(ValueError):
    """The pattern is invalid or unsupported."""


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
_BOUNDARIES: Final = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z", "Z": r"(?=\n?\Z)"}


def parse(pattern: str, modifiers: str) -> PatternNode:
    """The nodes of `pattern`; `modifiers` are letters of `MODIFIERS`."""
    parser = _PatternParser(pattern, frozenset(modifiers))
    node = parser.choice()
    if not parser.at_end():
        raise PatternError("unbalanced closing parenthesis")
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
            raise PatternError("unexpected end of the pattern")
        self._at += 1
        return char

    def _skip(self, expected: str) -> bool:
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def _match(self, form: re.Pattern[str]) -> re.Match[str] | None:
        match = form.match(self._text, self._at)
        if match:
            self._at = match.end()
        return match

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
        """The next unit, all units of quoted text, or none for comments and modifiers."""
        quoted = self._match(_QUOTED)
        if quoted:
            return [self._literal(ord(char)) for char in quoted[1]]
        unit = self._unit()
        return [] if unit is None else [unit]

    def _quantified(self, node: PatternNode) -> PatternNode:
        match = self._match(_QUANTIFIER)
        if match is None:
            return node
        low, high = _counts(match)
        body = node if isinstance(node, Char) else _group(node)
        source = f"{body.source}{match[0]}"
        loop = Loop(source, node, low, high)
        return Opaque(source, loop) if match[5] == "+" else loop

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
                return Boundary("(?m:^)" if "m" in self._modifiers else "^")
            case "$":
                return Boundary("(?m:$)" if "m" in self._modifiers else "$")
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
            raise PatternError("this kind of group is not supported")
        return self._enclosed("(")

    def _enclosed(self, opening: str) -> PatternNode:
        # Modifiers that are set inside a group end with it.
        before = self._modifiers
        body = self.choice()
        self._modifiers = before
        if not self._skip(")"):
            raise PatternError("missing closing parenthesis")
        source = f"{opening}{body.source})"
        if opening in ("(?=", "(?!", "(?<=", "(?<!"):
            return Lookaround(source, body)
        return Opaque(source, body) if opening == "(?>" else Concatenation(source, (body,))

    def _modifier_group(self, match: re.Match[str]) -> PatternNode | None:
        before = self._modifiers
        self._modifiers = (before | set(match[1])) - set(match[2] or "")
        if match[3] == ")":  # they apply until the enclosing group ends
            return None
        node = self._enclosed("(?:")
        self._modifiers = before
        return node

    # --- escapes and character classes

    def _escape(self) -> PatternNode:
        reference = self._match(_BACK_REFERENCE)
        if reference:
            return self._back_reference(reference[reference.lastindex or 0])
        boundary = _BOUNDARIES.get(self._next())
        if boundary:
            self._take()
            return Boundary(boundary)
        if self._skip("R"):
            return _group(Choice(rf"\r\n|{_LINE_END.source}", (_CRLF, _LINE_END)))
        char_set = self._set_escape()
        if char_set is not None:
            return Char(self._cased(f"[{char_set}]"))
        return self._literal(self._code_escape())

    def _back_reference(self, name: str) -> PatternNode:
        # In a group of its own, so that a following digit is not read as part of the number.
        source = rf"(?:\{name})" if name.isdigit() else f"(?P={name})"
        return Opaque(self._cased(source))

    def _set_escape(self) -> str | None:
        """A character set such as `\\d`, as text between brackets, or None."""
        match = self._match(_PROPERTY)
        if match:
            name = match[3] or match[4]
            if name not in charsets.CATEGORIES:
                raise PatternError("unknown character property")
            return _set_source(charsets.category(name), (match[1] == "P") != bool(match[2]))
        char = self._next()
        if char and char in _SHARED_SETS:
            return f"\\{self._take()}"
        return charsets.source(_OWN_SETS[self._take()]) if char in _OWN_SETS else None

    def _code_escape(self) -> int:
        """The code point that an escape such as `\\n` or `\\x41` stands for."""
        match = self._match(_CODE)
        if match is None:
            char = self._take()
            if char in _CONTROLS:
                return _CONTROLS[char]
            if char.isascii() and char.isalnum():
                raise PatternError("unknown escape")
            return ord(char)
        long_hex, hex_, long_octal, octal, control = match.groups()
        if control is not None:
            return ord(control.upper()) ^ 64
        digits = long_octal or octal
        code = int(digits, 8) if digits else int(long_hex or hex_ or "0", 16)
        if code > 0x10FFFF:
            raise PatternError("code point out of range")
        return code

    def _char_class(self) -> str:
        negated = self._skip("^")
        parts: list[str] = []
        if self._next() == "]":  # the first one is a member of the class
            parts.append(self._class_range(ord(self._take())))
        while not self._skip("]"):
            parts.append(self._class_item())
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def _class_item(self) -> str:
        posix = self._match(_POSIX)
        if posix:
            if posix[2] not in charsets.POSIX:
                raise PatternError("unknown character class")
            return _set_source(charsets.POSIX[posix[2]], bool(posix[1]))
        char = self._take()
        if char != "\\":
            return self._class_range(ord(char))
        if self._skip("b"):
            return self._class_range(8)
        if self._next() and self._next() in "QE":
            raise PatternError("quoting in a class is not supported")
        char_set = self._set_escape()
        return self._class_range(self._code_escape()) if char_set is None else char_set

    def _class_range(self, first: int) -> str:
        """A single character, or the range that begins with it."""
        follows = self._text[self._at : self._at + 2]
        if len(follows) < 2 or follows[0] != "-" or follows[1] in "][":
            return charsets.escape(first)
        start = self._at
        self._at += 1
        if self._skip("\\"):
            if self._next() and self._next() in "dDwWsShHvVNpP":
                self._at = start  # before a set, the hyphen is a literal
                return charsets.escape(first)
            last = 8 if self._skip("b") else self._code_escape()
        else:
            last = ord(self._take())
        if last < first:
            raise PatternError("character range out of order")
        return charsets.source(((first, last),))


def _counts(match: re.Match[str]) -> tuple[int, int | None]:
    if match[1]:
        return _SIMPLE_COUNTS[match[1]]
    low = int(match[2])
    high = low if not match[3] else int(match[4]) if match[4] else None
    if max(low, high or 0) > MAX_REPEATS or (high is not None and high < low):
        raise PatternError("repeat counts too large or out of order")
    return low, high


def _group(node: PatternNode) -> PatternNode:
    return Concatenation(f"(?:{node.source})", (node,))


def _set_source(ranges: charsets.Ranges, negated: bool) -> str:
    return charsets.source(charsets.complement(ranges) if negated else ranges)


_LINE_END: Final = Char(f"[{charsets.source(charsets.VERTICAL)}]")
_CRLF: Final = Concatenation(r"\r\n", (Char(r"\r"), Char(r"\n")))
