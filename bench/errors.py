"""What can go wrong in a benchmark; each message is one line for the person who started it."""

from __future__ import annotations


class BenchError(Exception):
    """The figures would be worthless: a server failed, or answered something else."""


class PeerUnavailable(Exception):
    """There is nothing to compare with; Perseid can still be measured alone."""
