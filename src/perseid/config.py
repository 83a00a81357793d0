"""Settings of a server. The options of `perseid serve` are generated from this dataclass."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

# The public key of the Cosmos DB emulators. It protects nothing; clients use it by default.
WELL_KNOWN_KEY: Final = (
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)

DEFAULT_HTTPS_PORT: Final = 8443
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
    """All settings of a server. The flag of a field has dashes instead of underscores."""

    host: str | None = _setting(
        None, "Address to listen on. Default: 127.0.0.1 and, where it exists, ::1."
    )
    port: int = _setting(8081, "Port to listen on.", minimum=1, maximum=65535)
    https_port: int = _setting(
        DEFAULT_HTTPS_PORT,
        "Port to listen on for HTTPS, next to HTTP. 0: no HTTPS, unless --tls is given.",
        minimum=0,
        maximum=65535,
    )
    data: Path = _setting(Path("perseid-data"), "Directory that holds the database file.")
    memory: bool = _setting(False, "Keep data in memory only; it is lost on exit.")
    store: str | None = _setting(
        None,
        "PostgreSQL database for the data, postgresql://user:password@host:port/name. Several"
        " servers may share it. Default: a file in the data directory.",
        secret=True,
    )
    durability: str = _setting(
        "full",
        "full: acknowledged writes survive a power failure; normal: they survive a crash of the"
        " process; off: for tests.",
        choices=DURABILITIES,
    )
    key: str = _setting(
        WELL_KNOWN_KEY,
        "Primary master key, base64. Default: the well-known key of the emulators.",
        secret=True,
    )
    secondary_key: str | None = _setting(None, "Secondary master key.", secret=True)
    read_only_key: str | None = _setting(None, "Primary read-only key.", secret=True)
    secondary_read_only_key: str | None = _setting(None, "Secondary read-only key.", secret=True)
    no_auth: bool = _setting(False, "Accept unsigned requests.")
    allow_well_known_key: bool = _setting(
        False, "Allow other hosts than loopback with the well-known key or with --no-auth."
    )
    allowed_host: str | None = _setting(
        None,
        "Further names, separated by commas, that clients may use for a server on loopback with"
        " the well-known key or --no-auth. Pages of these hosts may write to a server with"
        " --no-auth.",
    )
    max_connections: int = _setting(
        1024, "Maximum number of open connections; further ones wait.", minimum=8
    )
    tls: bool = _setting(
        False, "Serve HTTPS instead of HTTP on --port, and do not listen on --https-port."
    )
    cert: Path | None = _setting(
        None, "Certificate file (PEM) for HTTPS. Default: a certificate that the server creates."
    )
    key_file: Path | None = _setting(None, "Private key file (PEM) for --cert.")
    consistency: str = _setting(
        "Session", "Default consistency level of the account.", choices=CONSISTENCY_LEVELS
    )
    init: Path | None = _setting(
        None,
        "YAML or JSON file with databases, containers and initial items. The server creates"
        " what is missing before it is ready.",
    )
    enforce_throughput: bool = _setting(
        False,
        "Respond with 429 when the request units of a container or database are used up.",
    )
    serverless: bool = _setting(
        False, "Serverless account: refuse provisioned throughput and do not report any."
    )
    test_clock: bool = _setting(
        False, "Allow administrators to stop the clock and move it forward, to test expiry."
    )
    no_sweeper: bool = _setting(False, "Start with the purge of expired items paused.")
    sweep_pace: float = _setting(
        0.1,
        "Share of the time that the purge of expired items may use while requests arrive, above"
        " 0 and at most 1.",
    )
    expiry_guard: str | None = _setting(
        None,
        "Refuse a change of defaultTtl that would immediately expire more than this number or"
        " percentage of items (500 or 10%), unless it is confirmed.",
    )
    clock_jump: int = _setting(
        3600,
        "Pause the purge when the system's clock jumps ahead by more than this many seconds, until"
        " an administrator confirms the change.",
        minimum=1,
    )
    query_page_seconds: int = _setting(
        5,
        "Maximum seconds to collect one page of query results. After them the page is returned"
        " with a continuation token.",
        minimum=0,
    )
    query_seconds: int = _setting(
        300,
        "Maximum seconds for a page of a query that needs all matching items: ORDER BY without an"
        " index, GROUP BY, DISTINCT and aggregates. After them the response is 408.",
        minimum=1,
    )
    query_workers: int = _setting(
        4,
        "Maximum number of worker processes for queries that take long to evaluate. They start when"
        " they are needed. 0: evaluate in threads of the server, without a limit of memory.",
        minimum=0,
        maximum=64,
    )
    query_memory: int = _setting(
        512, "Maximum megabytes of memory that a worker process may use.", minimum=64
    )
    partition_limit: int = _setting(
        20 * 1024**3, "Maximum size of a logical partition in bytes.", minimum=1
    )
    change_feed_retention: int = _setting(
        0,
        "Minutes for which containers without a changeFeedPolicy keep all versions and deletes"
        " for the change feed. 0: not at all.",
        minimum=0,
    )
    revive_unpurged: bool = _setting(
        False,
        "Apply only the current TTL setting, as the cloud service does: expired items that are not"
        " purged yet become live again when the setting is relaxed.",
    )
    relaxed: bool = _setting(
        False,
        "Answer requests that the cloud service refuses, such as ORDER BY across partitions without"
        " a plan of the client.",
    )
    log_level: str = _setting(
        "warning",
        "Log level; info logs a line for each request.",
        choices=("debug", "info", "warning", "error"),
    )

    @property
    def is_loopback(self) -> bool:
        if self.host is None or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_well_known_key(self) -> bool:
        keys = (self.key, self.secondary_key, self.read_only_key, self.secondary_read_only_key)
        return WELL_KNOWN_KEY in keys

    @property
    def has_https(self) -> bool:
        return self.tls or self.https_port != 0

    @property
    def endpoint(self) -> str:
        """The address of the server for clients on this machine."""
        return self._address("https" if self.tls else "http", self.port)

    @property
    def https_endpoint(self) -> str | None:
        """The address for HTTPS of a server that serves both; None of other servers."""
        if self.tls or self.https_port == 0:
            return None
        return self._address("https", self.https_port)

    def _address(self, scheme: str, port: int) -> str:
        host = self.host or "127.0.0.1"
        if host in ("0.0.0.0", "::"):  # noqa: S104
            host = "localhost"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
