"""Pages of items that are returned as they are stored."""

from __future__ import annotations

from typing import Any

from perseid.service.queries.pages import builder
from perseid.service.queries.pages.builder import ItemPageBuilder


class CopiedPageBuilder(ItemPageBuilder):
    """The items that the store finds are the rows; nothing is evaluated."""

    async def _build(self) -> dict[str, Any] | None:
        after = self._position.get("item", 0) - 1
        while self._rows_left != 0:
            room = self._limit if self._rows_left is None else min(self._limit, self._rows_left)
            rows, has_more = await self._read(
                after, min(self._skip + room - len(self.rows), builder.CHUNK)
            )
            for row in rows:
                if self._is_exhausted():
                    return self._position_at(row.number)
                after = row.number
                self._load(row)
                if self._skip > 0:
                    self._skip -= 1
                elif not self._add(row.body):
                    return self._position_at(row.number)
                elif len(self.rows) == self._rows_left:
                    return None
            if not has_more:
                break
            if len(self.rows) >= self._limit or self._is_late():
                return self._position_after(after)
        return self._position_after(after) if self._is_full else None
