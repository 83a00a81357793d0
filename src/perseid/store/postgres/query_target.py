"""The container of one query; every statement checks the catalog version as well."""

from __future__ import annotations

from typing import NamedTuple

from perseid.model import Container
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.pool import Pool
from perseid.store.postgres.schema import range_key


class QueryTarget(NamedTuple):
    pool: Pool
    catalog_version: CatalogVersion
    container: Container
    lsns: dict[str, int]  # of the ranges that were searched, at the time of the first statement

    @property
    def lsn(self) -> int | None:
        """The LSN of the only range of the container, if that was searched."""
        ranges = self.container.ranges
        if len(ranges) > 1:
            return None
        return self.lsns.get(range_key(self.container.number, ranges[0].index))

    def check_catalog_version(self, version: int) -> None:
        """StaleCatalog unless the version read with the items is the one in memory."""
        self.catalog_version.check(version, self.container)
