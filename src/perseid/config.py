"""Settings: one frozen dataclass; each field carries its help, the command line is made from it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

# The public key of every local Cosmos DB emulator. It protects nothing; it is what clients expect.
WELL_KNOWN_KEY: Final = (
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

DURABILITIES: Final = ("full", "normal", "off")
CONSISTENCY_LEVELS: Final = (
    "Strong",
    "BoundedStaleness",
    "Session",
    "ConsistentPrefix",
    "Eventual",
)


def _setting(default: Any, text: str, **extra: Any) -> Any:
    return field(default=default, metadata={"help": text, **extra})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a server can be told. Field names are flag names with dashes."""

    host: str = _setting("127.0.0.1", "Address to listen on.")
    port: int = _setting(8081, "Port to listen on.", minimum=1, maximum=65535)
    data: Path = _setting(Path("perseid-data"), "Directory that holds the database file.")
    memory: bool = _setting(False, "Keep everything in memory; nothing is left after the end.")
    store: str | None = _setting(
        None,
        "A PostgreSQL database to keep everything in, postgresql://user:password@host:port/name,"
        " which any number of servers may share. Default: a file in the data directory.",
        secret=True,
    )
    durability: str = _setting(
        "full",
        "full: an acknowledged write survives a power cut; normal: it survives a crash of the"
        " process; off: for tests.",
        choices=DURABILITIES,
    )
    key: str = _setting(
        WELL_KNOWN_KEY,
        "Primary master key, base64. Default: the key every emulator uses.",
        secret=True,
    )
    secondary_key: str | None = _setting(None, "A second master key.", secret=True)
    read_only_key: str | None = _setting(None, "A key that can only read.", secret=True)
    secondary_read_only_key: str | None = _setting(
        None, "A second key that can only read.", secret=True
    )
    no_auth: bool = _setting(False, "Accept unsigned requests.")
    allow_well_known_key: bool = _setting(
        False, "Listen beyond loopback although the key is the public one."
    )
    tls: bool = _setting(False, "Serve HTTPS; makes a self-signed certificate unless --cert.")
    cert: Path | None = _setting(None, "Certificate file (PEM) for --tls.")
    key_file: Path | None = _setting(None, "Private key file (PEM) for --cert.")
    consistency: str = _setting(
        "Session", "Default consistency level of the account.", choices=CONSISTENCY_LEVELS
    )
    init: Path | None = _setting(
        None,
        "A file, YAML or JSON, that declares databases, containers and first items; what is"
        " missing is made before the server is ready.",
    )
    enforce_throughput: bool = _setting(
        False,
        "Answer 429 when a container's or database's request units of a second are used up.",
    )
    serverless: bool = _setting(
        False, "An account without provisioned throughput: none can be asked for, none is shown."
    )
    test_clock: bool = _setting(
        False, "Let administrators freeze the clock and move it forward: for tests of expiry."
    )
    no_sweeper: bool = _setting(False, "Start with the removal of dead items paused.")
    sweep_pace: float = _setting(
        0.1,
        "The share of the time that removing dead items may take while requests arrive,"
        " above 0 and at most 1.",
    )
    expiry_guard: str | None = _setting(
        None,
        "Refuse a change of defaultTtl that would kill more than this at once, as a number of"
        " items or a percentage (500 or 10%), unless it is confirmed.",
    )
    clock_jump: int = _setting(
        3600,
        "Pause the removal of dead items when the system's clock leaps ahead by more than this"
        " many seconds, until an administrator confirms.",
        minimum=1,
    )
    query_page_seconds: int = _setting(
        5,
        "How long a query may look for the rows of one page; what it has by then is the page, and"
        " its token goes on from there. Sorting and grouping cannot stop half-way and are exempt.",
        minimum=0,
    )
    partition_limit: int = _setting(
        20 * 1024**3, "The most bytes that one logical partition may hold.", minimum=1
    )
    change_feed_retention: int = _setting(
        0,
        "Minutes for which containers without a changeFeedPolicy of their own keep all versions"
        " and deletes for the change feed; 0: they do not.",
        minimum=0,
    )
    revive_unpurged: bool = _setting(
        False,
        "Judge items by the current TTL setting alone, as the cloud service does: dead items that"
        " were not removed yet come back when the setting is relaxed.",
    )
    log_level: str = _setting(
        "warning",
        "How much to log; info logs a line for each request.",
        choices=("debug", "info", "warning", "error"),
    )

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def endpoint(self) -> str:
        """Where a client on this machine finds the server."""
        host = "localhost" if self.host in ("0.0.0.0", "::") else self.host  # noqa: S104
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"
