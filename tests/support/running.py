"""A real server on a free port, in a thread of this process."""

from __future__ import annotations

from perseid.embedded import free_port, running

__all__ = ["free_port", "running"]
