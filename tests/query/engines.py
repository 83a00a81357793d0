"""The ways of running queries that must all give the same answers.

A suite that takes the `engine` fixture runs once for each of `ENGINES`. An engine is a server with
settings of its own, headers that go with each of its queries, and something done to a container
once it is filled: enough to force an index, or to forbid one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.raw import RawClient


def _nothing(raw: RawClient, path: str) -> None:
    """Leaves the container as it is."""


@dataclass(frozen=True)
class Engine:
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[RawClient, str], None] = _nothing


ENGINES: Final = (Engine("default"),)
