"""Pages of groups and of distinct values, which are known once all items are read."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any, Final

import orjson

from perseid.conditions import PropertyPath
from perseid.model import Row
from perseid.query import Collector
from perseid.query.positions import RowSelection, is_in_order
from perseid.service.queries.evaluation import LongEvaluation
from perseid.service.queries.pages import builder
from perseid.service.queries.pages.builder import FEW_ROWS
from perseid.service.queries.pages.keyed import KeyedPageBuilder
from perseid.store.types import GroupCount

_GROUPS: Final = 100  # that are evaluated at a time


class CollectedPageBuilder(KeyedPageBuilder):
    """Each page collects the whole result and returns a part of it."""

    _fed_groups = 0  # counted by the store

    async def _build(self) -> dict[str, Any] | None:
        collector = self._execution.collector()
        paths = self._plan.group_paths
        if paths is not None:
            await self._count_groups(collector, paths)
        elif self._plan.compiled.bound.sources:
            last, has_more, size = -1, True, builder.CHUNK
            while has_more:
                rows, has_more = await self._read(last, size, reads_on=True)
                await self._evaluate(self._is_small(rows), self._feed, collector, rows)
                last = rows[-1].number if rows else last
                size = self._next_chunk(size)
        self._restart_item_deadline(max(collector.size, 1))
        return await self._evaluate(collector.size <= FEW_ROWS, self._fill_page, collector)

    async def _count_groups(self, collector: Collector, paths: tuple[PropertyPath, ...]) -> None:
        """Feeds each combination of values once, with the number of its items."""
        if paths:
            await self._timed(
                self._source.count_groups(
                    self._search, paths, partial(self._feed_groups, collector)
                )
            )
        else:
            count = await self._timed(self._source.count(self._search))
            await self._evaluate(True, self._feed_batch, collector, [GroupCount(count, {})])

    def _feed_groups(self, collector: Collector, groups: Iterable[GroupCount]) -> None:
        """Called on another thread, while the time counts as loading."""
        remaining = iter(groups)
        while batch := [*islice(remaining, _GROUPS)]:
            self._fed_groups += len(batch)
            if self._fed_groups > self._evaluator.most_groups:
                raise LongEvaluation
            started = time.perf_counter()
            self._evaluator.run_here(self._feed_batch, collector, batch)
            seconds = time.perf_counter() - started
            self.times.evaluating += seconds
            self.times.loading -= seconds

    def _feed_batch(self, collector: Collector, groups: Iterable[GroupCount]) -> None:
        for count, document in groups:
            self.counted += count
            self._restart_item_deadline()
            collector.feed(document, None, count)

    def _feed(self, collector: Collector, items: list[Row]) -> None:
        for item in items:
            self._restart_item_deadline()
            if collector.feed(orjson.loads(item.body), item if self._gives_items else None):
                self.loaded.append(item.size)

    def _fill_page(self, collector: Collector) -> dict[str, Any] | None:
        """The whole result in its own order if that fits into a page, else a page in key order.

        OFFSET and LIMIT count rows in the order of the whole result in both cases, so that the
        result does not depend on the size of pages.
        """
        rows = collector.finish()
        self._skip = 0
        # If the keys are in that order too, the first page has skipped the rows of OFFSET.
        if self._after is None or not is_in_order(rows):
            del rows[: self._offset]
        if self._after is not None:
            rows = [row for row in rows if self._after.is_before(row.key, row.tie)]
        if self._rows_left is not None:
            del rows[self._rows_left :]
        if self._after is None:
            if len(rows) <= self._limit and all(self._add(self._text(row)) for row in rows):
                # These rows are not in the order of keys, so none of them is a position.
                return {"end": True} if self._is_full else None
            self._clear()
        for by_tie in self._tie_passes():
            selection = RowSelection(self._after, self._rows_needed, by_tie=by_tie)
            for row in rows:
                if selection.accepts(row.key, row.tie):
                    selection.add(row)
            is_done, next_position = self._finish_page(selection, by_tie)
            if is_done:
                break
        return next_position
