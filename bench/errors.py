"""Errors of a benchmark; each message is one line for the user."""

from __future__ import annotations


class BenchError(Exception):
    """The figures would be meaningless: a server failed or gave a wrong answer."""


class PeerUnavailable(Exception):
    """There is no server to compare with; Perseid can still be measured."""
