"""Which state of the metadata this front end works from, and whether that is still the latest.

Each front end keeps the metadata in memory. A counter in the database moves with every change of
it, and with every move of the clock; each statement about items reads the counter as well. If it
is not the one that the copy in memory belongs to, nothing is done and the copy is read again.
"""

from __future__ import annotations

from typing import Final

from perseid.errors import OwnerNotFound, StaleCatalog
from perseid.model import Container

# For statements that look at items. One of several in a row reads it last, or under the lock on
# the range: it only grows, so what came before is not older than that.
VERSION_SQL: Final = "(SELECT version FROM shared)"


class CatalogVersion:
    """The version that the metadata in memory has, and which reading of it that is.

    Containers carry the number of their reading: one that a request took from an earlier reading
    is stale, although the version is up to date by now.
    """

    __slots__ = ("catalog_generation", "changed_etags", "dropped", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.catalog_generation = 0
        # By number: the etags of containers that were changed through this front end since.
        self.changed_etags: dict[int, str] = {}
        self.dropped: set[int] = set()  # and those that were dropped

    def adopt(self, version: int) -> None:
        """The metadata was read again, as of this version."""
        if version != self.version:
            self.version = version
            self.catalog_generation += 1
            self.changed_etags.clear()
            self.dropped.clear()

    def check(self, version: int, container: Container) -> None:
        """StaleCatalog if the request must start again with the metadata as it is now."""
        if version != self.version or container.catalog_generation != self.catalog_generation:
            raise StaleCatalog
        if container.number in self.dropped:
            raise OwnerNotFound

    def check_write(self, container: Container) -> None:
        """The same of a write whose turn has come after a change of its container."""
        if self.changed_etags.get(container.number, container.etag) != container.etag:
            raise StaleCatalog
