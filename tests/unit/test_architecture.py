"""Imports go one way: http, service, store; pure modules are leaves; drivers stay in store."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PACKAGE = SOURCE / "perseid"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each layer may import of Perseid, besides itself. Leaves are open to everyone.
LEAVES = {
    "charges", "clock", "conditions", "config", "documents", "durations", "errors", "ids",
    "index_paths", "model", "partition", "query", "ttl",
}  # fmt: skip
ALLOWED = {
    "store": LEAVES - {"query"},
    "service": LEAVES | {"store.protocol", "store.types"},
    "http": LEAVES | {"service", "store.protocol", "store.types"},
    "query": {"conditions", "errors"},
    "conditions": set(),
    "errors": set(),
    "clock": set(),
    "config": set(),
    "partition": {"errors"},
    "ids": {"errors"},
    "ttl": {"errors"},
    "documents": {"errors"},
    "durations": set(),
    "charges": {"partition", "errors"},
    "model": {"charges", "partition", "ttl"},
    "index_paths": {"charges", "conditions", "model"},
}
DRIVERS = {"apsw", "psycopg", "sqlite3"}


def imported(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            yield node.module or ""
            if node.module == "perseid":
                yield from (f"perseid.{alias.name}" for alias in node.names)


def layer_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_imports_point_downwards(module: Path) -> None:
    layer = layer_of(module)
    allowed = ALLOWED.get(layer)
    if allowed is None:
        return  # the composition: cli, server and the like may import everything
    for name in imported(module):
        if not name.startswith("perseid."):
            continue
        target = name.removeprefix("perseid.")
        head = target.split(".")[0]
        if head in (layer, "__version__"):
            continue
        assert (
            head in allowed
            or target in allowed
            or any(target.startswith(f"{each}.") for each in allowed)
        ), f"{layer} must not import {name}"


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(PACKAGE)))
def test_drivers_stay_in_the_store(module: Path) -> None:
    if layer_of(module) != "store":
        assert not DRIVERS & {name.split(".")[0] for name in imported(module)}


@pytest.mark.parametrize("layer", ["http", "query", "service"])
def test_nobody_above_the_store_asks_which_one_it_is(layer: str) -> None:
    for module in (PACKAGE / layer).rglob("*.py"):
        text = module.read_text().lower()
        # The names of databases, drivers and of the modules and classes made for one of them.
        for word in ("sqlite", "apsw", "postgres", "psycopg", "citus"):
            assert word not in text, f"{module} knows {word}"
        for name in imported(module):
            if name.startswith("perseid.store"):
                allowed = ("perseid.store.protocol", "perseid.store.types")
                assert name in allowed, f"{module} imports {name}"


def test_only_the_clock_reads_wall_time() -> None:
    for module in MODULES:
        if module.name == "clock.py":
            continue
        text = module.read_text()
        for call in ("time.time(", "time.time_ns(", "datetime.now(", "datetime.utcnow("):
            assert call not in text, f"{module} reads {call})"
