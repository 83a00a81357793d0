"""How long a server process keeps the purge lease of a range."""

from typing import Final

LEASE: Final = 10.0  # seconds by the database's clock
