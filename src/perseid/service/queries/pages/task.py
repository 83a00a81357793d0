"""One page to build: plain data, which can be sent to a worker process."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

from perseid.model import Container
from perseid.service.queries.budget import QueryBudget
from perseid.service.queries.requests import QueryRequest
from perseid.store.types import Search


class PageTask(NamedTuple):
    """Everything a page depends on besides the items."""

    container: Container
    request: QueryRequest
    now: float
    scope: Search
    limit: int  # rows
    position: dict[str, Any] | None  # of its first row; None: the first page
    budget: QueryBudget
    allowance: float = inf  # request units
    is_merged: bool = False  # by the client, with pages of other ranges
