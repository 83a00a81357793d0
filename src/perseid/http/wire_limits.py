"""Limits and deadlines of connections: what slow or greedy clients may hold, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class WireLimits:
    """docs/operations.md has the same table for users."""

    # Bodies that are being received or processed, and large responses that are not read yet.
    bytes_in_flight: int = 96 * 1024 * 1024
    header_seconds: float = 30.0  # also the longest time that a connection may be idle
    body_idle_seconds: float = 10.0  # without a byte
    body_seconds: float = 60.0
    discard_seconds: float = 5.0  # for the body of a request that is refused anyway
    discard_bytes: int = 8 * 1024 * 1024
    response_idle_seconds: float = 30.0  # without a byte that the client takes
    response_seconds: float = 300.0
    # How long clients may stall while bytes in flight or connections run out; a whole body or
    # response then has the time that is otherwise allowed for a pause.
    pressed_seconds: float = 2.0
    tick_seconds: float = 1.0  # how often deadlines are checked


LIMITS: Final = WireLimits()
