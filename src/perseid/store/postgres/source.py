"""A container's items for one request: every look at them makes sure of the metadata as well."""

from __future__ import annotations

from typing import NamedTuple

from perseid.model import Container
from perseid.store.postgres.connecting import Pool
from perseid.store.postgres.freshness import Freshness


class Source(NamedTuple):
    pool: Pool
    freshness: Freshness
    container: Container

    def confirm(self, version: int) -> None:
        """StaleCatalog unless the version, read with the items, is the one in memory."""
        self.freshness.check(version, self.container)
