"""A public class or alias has one meaning in the package; functions and modules stay short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.unit.modules import MODULES, name_of

FUNCTION_LINES: Final = 50
MODULE_LINES: Final = 450

# Modules that may be longer, and why.
LONG_MODULES: Final = {
    "query/binder.py": "one check for each kind of node",
    "query/parser.py": "one method for each rule of the grammar",
    "query/values.py": "all comparisons and conversions of values, which have to agree",
}
# Functions that may be longer, and why.
LONG_FUNCTIONS: Final[dict[tuple[str, str], str]] = {}


def public_types(module: Path) -> Iterator[str]:
    """The classes and type aliases that a module defines."""
    for node in ast.parse(module.read_text()).body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name.isupper() or not name[:1].isupper():
                    continue
            case _:
                continue
        if not name.startswith("_"):
            yield name


def is_twin(modules: list[str]) -> bool:
    """True for the same class in the SQLite and in the PostgreSQL store."""
    return {module.rpartition("/")[0] for module in modules} == {"store/sqlite", "store/postgres"}


def test_a_public_type_has_one_meaning() -> None:
    defined: dict[str, list[str]] = {}
    for module in MODULES:
        for name in public_types(module):
            defined.setdefault(name, []).append(name_of(module))
    repeated = {
        name: modules
        for name, modules in defined.items()
        if len(modules) > 1 and not is_twin(modules)
    }
    assert not repeated


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_modules_are_short(module: Path) -> None:
    lines = len(module.read_text().splitlines())
    assert (lines > MODULE_LINES) == (name_of(module) in LONG_MODULES), f"{lines} lines"


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_functions_are_short(module: Path) -> None:
    lines = {
        (name_of(module), node.name): (node.end_lineno or 0) - node.lineno + 1
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = {each: count for each, count in lines.items() if count > FUNCTION_LINES}
    listed = {each for each in LONG_FUNCTIONS if each[0] == name_of(module)}
    assert long.keys() == listed, long
