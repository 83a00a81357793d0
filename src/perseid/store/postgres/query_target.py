"""The container of one query; every statement checks the catalog version as well."""

from __future__ import annotations

from typing import NamedTuple

from perseid.model import Container
from perseid.store.postgres.catalog_version import CatalogVersion
from perseid.store.postgres.pool import Pool


class QueryTarget(NamedTuple):
    pool: Pool
    catalog_version: CatalogVersion
    container: Container

    def check_catalog_version(self, version: int) -> None:
        """StaleCatalog unless the version read with the items is the one in memory."""
        self.catalog_version.check(version, self.container)
