"""A real server on a free port, in a thread of this process."""

from __future__ import annotations

from perseid.testing.embedded_server import free_port, running

__all__ = ["free_port", "running"]
