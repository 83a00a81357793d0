"""The version of the metadata in memory, and the check that it is still the latest.

Each server process keeps the metadata in memory. A counter in the database is incremented by every
change of the metadata or the clock; each statement about items reads the counter as well. If it
differs from the version in memory, the request is not executed and the metadata is read again.
"""

from __future__ import annotations

from typing import Final

from perseid.errors import OwnerNotFound, StaleCatalog
from perseid.model import Container

# For statements about items. Of several statements, the last one reads it, or one that holds the
# lock on the range: the counter only grows, so the earlier ones saw no newer state.
VERSION_SQL: Final = "(SELECT version FROM shared)"


class CatalogVersion:
    """The version of the metadata in memory, and the number of its reading.

    Containers carry the number of their reading: one from an earlier reading is stale, although the
    version is current by now.
    """

    __slots__ = ("catalog_generation", "changed_etags", "dropped", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.catalog_generation = 0
        # By number: the etags of containers that this process has changed since.
        self.changed_etags: dict[int, str] = {}
        self.dropped: set[int] = set()  # containers that it has dropped

    def adopt(self, version: int) -> None:
        """The metadata was read again, as of this version."""
        if version != self.version:
            self.version = version
            self.catalog_generation += 1
            self.changed_etags.clear()
            self.dropped.clear()

    def check(self, version: int, container: Container) -> None:
        """StaleCatalog if the request must be retried with the current metadata."""
        if version != self.version or container.catalog_generation != self.catalog_generation:
            raise StaleCatalog
        if container.number in self.dropped:
            raise OwnerNotFound

    def check_write(self, container: Container) -> None:
        """StaleCatalog if the container was changed before the write got its turn."""
        if self.changed_etags.get(container.number, container.etag) != container.etag:
            raise StaleCatalog
