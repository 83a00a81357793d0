"""Regular expressions of RegexMatch: the PCRE dialect, in time that no client can make excessive.

Patterns come from clients, and a backtracking matcher such as Python's `re` needs exponential time
for some of them: `^(a+)+$` on fifty letters `a` and a `!` would take years. So `parser` translates
PCRE into nodes, and `pattern` estimates the worst case: if it is short, `re` searches the text,
otherwise `linear_matcher`, whose time is proportional to the text. `charsets` has the character
classes that `re` lacks. A search beyond the limits of `pattern` is undefined.
"""

from perseid.query.functions.regex.pattern import MAX_PATTERN, Pattern, compiled

__all__ = ["MAX_PATTERN", "Pattern", "compiled"]
