"""The items of a query's container as the stores have them: see `ItemSource`."""

from __future__ import annotations

from collections.abc import Sequence

from perseid.conditions import PropertyPath
from perseid.service.operation import Operation, check_catalog_version
from perseid.store.types import OnGroups, Search, SearchPage


class StoreSource:
    """Reads with the operation of the request."""

    def __init__(self, op: Operation) -> None:
        self._op = op

    async def search(self, search: Search, *, reads_on: bool = False) -> SearchPage:  # noqa: ARG002  # see `ItemSource`
        return await self._op.stores.queries.search(self._op.container, search)

    async def count(self, search: Search) -> int:
        account, container = self._op.account, self._op.container
        if search.where is None and _is_unrestricted(search):
            return (await account.usage(container, search.cutoff, search.range_index)).items
        counts: list[int] = []
        await self._op.stores.queries.count_groups(
            container, search, (), lambda groups: counts.extend(group.items for group in groups)
        )
        return sum(counts)

    async def count_groups(
        self, search: Search, paths: Sequence[PropertyPath], on_groups: OnGroups
    ) -> None:
        await self._op.stores.queries.count_groups(self._op.container, search, paths, on_groups)

    async def check_catalog_version(self) -> None:
        await check_catalog_version(self._op)


def _is_unrestricted(search: Search) -> bool:
    """True for all items of a container or of one of its ranges."""
    return search.pk_prefix is None and search.epk_min is None and search.epk_max is None
