"""Where page builders get items from: the stores, or the server process on behalf of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from perseid.conditions import PropertyPath
from perseid.store.types import OnGroups, Search, SearchPage


class ItemSource(Protocol):
    """The items of the query's container. Each call also checks the catalog version."""

    async def search(self, search: Search, *, reads_on: bool = False) -> SearchPage:
        """`reads_on`: the items after these will most likely be read, too."""
        ...

    async def count(self, search: Search) -> int: ...

    async def count_groups(
        self, search: Search, paths: Sequence[PropertyPath], on_groups: OnGroups
    ) -> None: ...

    async def check_catalog_version(self) -> None: ...
