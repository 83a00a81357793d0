"""Imports go one way: http, service, store; pure modules are leaves; drivers stay in the store."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.unit.modules import MODULES, PACKAGE, name_of

# Pure modules. Everything may import them; they import only what stands here.
LEAVES: Final[dict[str, set[str]]] = {
    "charges": {"documents", "errors", "paths"},
    "clock": set(),
    "conditions": set(),
    "config": set(),
    "documents": {"errors", "limits"},
    "durations": set(),
    "errors": set(),
    "ids": {"errors"},
    "index_paths": {"charges", "conditions", "documents", "model"},
    "limits": set(),
    "model": {"charges", "partition", "ttl"},
    "partition": {"errors", "limits", "paths"},
    "paths": {"errors"},
    "physical_ranges": {"partition"},
    "private_files": set(),
    "query": {"conditions", "documents", "errors", "limits"},
    "shared_timer": set(),
    "ttl": {"errors"},
}
# What each package or module may import of Perseid, apart from itself and leaves.
ABOVE_LEAVES: Final[dict[str, set[str]]] = {
    "__init__": set(),
    "__main__": {"commands"},
    "certificate_creation": set(),
    "certificates": {"certificate_creation"},
    "commands": {
        "certificate_creation",
        "certificates",
        "http.signatures",
        "listeners",
        "server",
        "service",
        "store",
    },
    "http": {"service"},
    "listeners": {"certificates", "http"},
    "portal": set(),  # files that http serves, no Python
    "server": {"certificates", "http", "listeners", "service", "start_file", "store"},
    "service": {"store.protocol", "store.types", "workers"},
    "start_file": {"service"},
    "store": set(),
    "testing": {"commands", "http", "listeners", "server"},
    "workers": set(),
}
NOT_FOR: Final = {"store": {"query"}}  # a leaf that the store has no use for: it gets conditions

# Imports that break a rule today. Each one goes with the change that removes it.
EXCEPTIONS: Final = {
    ("start_file/declarations.py", "store.types"),
}
DRIVERS: Final = {"apsw", "psycopg", "sqlite3"}
DATABASES: Final = ("sqlite", "apsw", "postgres", "psycopg", "citus")


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            if node.module == "perseid":
                yield from (f"perseid.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def layer_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def forbidden_imports(module: Path) -> Iterator[str]:
    layer = layer_of(module)
    allowed = LEAVES.get(layer)
    if allowed is None:
        allowed = ABOVE_LEAVES[layer] | LEAVES.keys() - NOT_FOR.get(layer, set())
    for name in imported(module):
        target = name.removeprefix("perseid.")
        head = target.split(".")[0]
        if name == target or head in (layer, "__version__"):
            continue
        if not any(target == each or target.startswith(f"{each}.") for each in allowed):
            yield target


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_imports_point_downwards(module: Path) -> None:
    forbidden = {(name_of(module), target) for target in forbidden_imports(module)}
    assert forbidden == {each for each in EXCEPTIONS if each[0] == name_of(module)}


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_drivers_stay_in_the_store(module: Path) -> None:
    if layer_of(module) != "store":
        assert not DRIVERS & {name.split(".")[0] for name in imported(module)}


@pytest.mark.parametrize("module", sorted((PACKAGE / "http").rglob("*.py")), ids=name_of)
def test_http_calls_the_service_and_not_the_stores(module: Path) -> None:
    uses = [
        f"{name_of(module)}:{node.lineno}"
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("store", "stores")
    ]
    assert not uses


@pytest.mark.parametrize("layer", ["http", "query", "service"])
def test_code_above_the_store_names_no_database(layer: str) -> None:
    for module in (PACKAGE / layer).rglob("*.py"):
        text = module.read_text().lower()
        assert not [word for word in DATABASES if word in text], f"{module} names a database"


def test_only_the_clock_reads_wall_time() -> None:
    for module in MODULES:
        if module.name == "clock.py":
            continue
        text = module.read_text()
        for call in ("time.time(", "time.time_ns(", "datetime.now(", "datetime.utcnow("):
            assert call not in text, f"{module} reads {call})"
