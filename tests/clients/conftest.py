"""Rust and .NET take minutes to compile, so only `make clients` runs their programs."""

from __future__ import annotations

import os

import pytest

ONLY_WITH_MAKE_CLIENTS = ("test_rust", "test_dotnet")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("PERSEID_CLIENTS") == "all":
        return
    is_left_out = [
        getattr(item, "originalname", "") in ONLY_WITH_MAKE_CLIENTS and "clients" in item.path.parts
        for item in items
    ]
    left_out = [item for item, is_out in zip(items, is_left_out, strict=True) if is_out]
    items[:] = [item for item, is_out in zip(items, is_left_out, strict=True) if not is_out]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
