"""The ways of running queries that must all give the same answers.

A suite that takes the `engine` fixture runs once for each of `ENGINES`. An engine is a server with
settings of its own, thresholds of the code that are set while it runs, headers that go with each
of its queries, and something done to a container once it is filled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from perseid.query.planner import rules
from tests.support.raw import RawClient


def _nothing(raw: RawClient, path: str) -> None:
    """Leaves the container as it is."""


@dataclass(frozen=True)
class Engine:
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[RawClient, str], None] = _nothing


# Small containers are searched without indexes; here every path of a filter or an order gets one.
INDEXED: Final = Engine("indexed", constants={"perseid.store.sql.index_limits.LEAST_ITEMS": 0})
PUSHED: Final = Engine("pushed")
# The evaluator does everything: the store only reads items.
PLAIN: Final = Engine(
    "plain",
    constants={"perseid.query.planner.rules.RULES": (rules.filter_by_partition_key,)},
)

ENGINES: Final = (PUSHED, INDEXED, PLAIN)
