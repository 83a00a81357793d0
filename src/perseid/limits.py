"""Sizes and times that more than one module must agree on."""

from __future__ import annotations

from typing import Final

# The largest body of a request, and the largest item without its system properties.
MAX_BODY_BYTES: Final = 2 * 1024 * 1024
# The largest response: a page of a feed or of a query, or the results of a batch.
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
# How far the date of a signed request may be from the server's time.
MAX_CLOCK_SKEW: Final = 15 * 60
