"""Golden files: documents, queries, and the rows the language gives, by its rules and not by runs.

A file has `documents`, further `container` properties, and any of

- `cases`: a `query` with `parameters`, and its `rows` (or how many), the `ids` of whole items, or
  the `error` with `near`, `at` and `text`. Rows come in their order if the query has ORDER BY or
  the case says `ordered`; `tied` ones only in one range, and some cases name their `ranges`.
  `plan` has the tree that explains it, by engine; `empty` are the rows without documents.
- `values`: an expression and its value, or no value for undefined.
- `texts`: an expression and how its value is written.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "golden"
_STRING: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_INNER: Final = re.compile(r"\([^()]*\)")


@dataclass(frozen=True, eq=False)
class Golden:
    """One file."""

    name: str
    documents: list[dict[str, Any]]
    container: dict[str, Any]
    cases: list[dict[str, Any]]
    values: list[list[Any]]
    texts: list[list[str]]

    def expected(self, case: dict[str, Any]) -> list[Any] | int:
        """The rows of a case, or their number."""
        if "ids" in case:
            known = {document["id"]: document for document in self.documents}
            return [known[each] for each in case["ids"]]
        rows: list[Any] | int = case["rows"]
        return rows


def load(path: Path) -> Golden:
    read = json.loads(path.read_text(encoding="utf-8"))
    return Golden(
        path.stem,
        read.get("documents", []),
        read.get("container", {}),
        read.get("cases", []),
        read.get("values", []),
        read.get("texts", []),
    )


FILES: Final = [load(path) for path in sorted(FOLDER.glob("*.json"))]


def is_ordered(case: dict[str, Any]) -> bool:
    """True when the rows have an order, which that of a subquery is not."""
    text = _STRING.sub("''", case["query"])
    while _INNER.search(text):
        text = _INNER.sub("", text)
    ordered: bool = case.get("ordered", "ORDER BY" in text.upper())
    return ordered
