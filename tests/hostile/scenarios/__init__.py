"""The scenarios by name; one module for each theme."""

from __future__ import annotations

from typing import Final

from tests.hostile.attack import Scenario
from tests.hostile.scenarios.bodies import BODIES
from tests.hostile.scenarios.catalog import CATALOG
from tests.hostile.scenarios.fuzz import FUZZ
from tests.hostile.scenarios.http2 import HTTP2
from tests.hostile.scenarios.large import LARGE
from tests.hostile.scenarios.queries import QUERIES
from tests.hostile.scenarios.tokens import TOKENS
from tests.hostile.scenarios.writes import WRITES

SCENARIOS: Final[dict[str, Scenario]] = {
    each.name: each
    for each in (*WRITES, *BODIES, *HTTP2, *QUERIES, *LARGE, *CATALOG, *FUZZ, *TOKENS)
}
