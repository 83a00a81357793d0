"""`perseid doctor`: finds out why a client cannot connect to a server.

The checks follow the steps of a client. Each depends on those before it, so the first check that
fails names the reason.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import socket
import ssl
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

import click

from perseid import __version__, clock
from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.connection import Reply, error_message, open_connection, split
from perseid.commands.output import plural, print_json, printable
from perseid.commands.time_text import duration_text, instant_text
from perseid.config import Settings
from perseid.limits import MAX_CLOCK_SKEW

_DEFAULT_HTTPS_PORT: Final = Settings().https_port
Verdict = Literal["ok", "warning", "failed"]
_SECONDS: Final = 5.0
_MARKS: Final = {"ok": "ok", "warning": "note", "failed": "FAILED"}


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """What was checked, with which result, and what to do about a problem."""

    name: str
    verdict: Verdict
    message: str
    hint: str = ""


class ConnectionCheckFailed(Exception):
    """A check failed, so the following checks are not made."""

    def __init__(self, name: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.check = ConnectionCheck(name, "failed", message, hint)


@dataclass(slots=True)
class Diagnosis:
    """The server to connect to, and what the checks have learned about it."""

    client: AdminClient
    target: SplitResult
    account: dict[str, Any] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.target.hostname or ""

    @property
    def port(self) -> int:
        return self.target.port or (443 if self.target.scheme == "https" else 80)

    def other_scheme(self) -> str:
        other = "http" if self.target.scheme == "https" else "https"
        return self.target._replace(scheme=other).geturl()

    def signed(self, *names: str, kind: str = "", link: str = "") -> Reply:
        with self.client.connect() as connection:
            return connection.request("GET", names, (kind, link))


def _name(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    try:
        address_infos = socket.getaddrinfo(diagnosis.host, diagnosis.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise ConnectionCheckFailed(
            "name", f"'{diagnosis.host}' has no address: {exc.strerror}",
            "Check the spelling. Inside Docker, use the name of the service instead of localhost.",
        ) from None  # fmt: skip
    addresses = list(dict.fromkeys(str(each[4][0]) for each in address_infos))
    yield ConnectionCheck("name", "ok", f"{diagnosis.host} resolves to {', '.join(addresses)}")
    reachability = {address: _try_connect(address, diagnosis.port) for address in addresses}
    if not any(is_reachable for is_reachable, _ in reachability.values()):
        reasons = ", ".join(sorted({reason for _, reason in reachability.values()}))
        raise ConnectionCheckFailed(
            "port", f"nothing listens on port {diagnosis.port} ({reasons})",
            "Start a server with `perseid serve`, or give its port in --endpoint. In a Docker"
            " container the server needs --host 0.0.0.0 and a published port.",
        )  # fmt: skip
    unreachable = [
        address for address, (is_reachable, _) in reachability.items() if not is_reachable
    ]
    if unreachable:
        reachable = next(
            address for address, (is_reachable, _) in reachability.items() if is_reachable
        )
        yield ConnectionCheck(
            "port", "warning", f"port {diagnosis.port} answers on {reachable},"
            f" not on {', '.join(unreachable)}",
            f"Clients that try {unreachable[0]} first are slow or fail: use {reachable} instead of"
            f" {diagnosis.host}.",
        )  # fmt: skip
    else:
        yield ConnectionCheck("port", "ok", f"port {diagnosis.port} accepts connections")


def _try_connect(address: str, port: int) -> tuple[bool, str]:
    try:
        with socket.create_connection((address, port), timeout=_SECONDS):
            return True, ""
    except OSError as exc:
        return False, exc.strerror or str(exc)


def _tls(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    """Server and endpoint both use HTTPS, or both HTTP; the certificate is trusted."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    speaks_tls = _handshake(diagnosis, unverified) is None
    if diagnosis.target.scheme == "http":
        if speaks_tls:
            raise ConnectionCheckFailed(
                "TLS", "this port serves HTTPS, but the endpoint starts with http:",
                f"Use {diagnosis.other_scheme()} as endpoint, or the server's port for HTTP.",
            )  # fmt: skip
        yield ConnectionCheck("TLS", "ok", "server and endpoint both use HTTP")
        return
    if not speaks_tls:
        raise ConnectionCheckFailed(
            "TLS", "this port serves HTTP, but the endpoint starts with https:",
            f"Use {diagnosis.other_scheme()} as endpoint, or the server's port for HTTPS, which it"
            f" prints when it starts: {_DEFAULT_HTTPS_PORT} unless --https-port says otherwise.",
        )  # fmt: skip
    problem = _handshake(diagnosis, ssl.create_default_context())
    if problem is None:
        yield ConnectionCheck("TLS", "ok", "HTTPS, and this system trusts the certificate")
        return
    yield ConnectionCheck(
        "TLS", "warning", f"this system does not trust the certificate: {problem}",
        "Run `perseid trust` on the machine of the server, with its --data or --memory. Or download"
        f" {diagnosis.client.endpoint.rstrip('/')}/_perseid/certificate.pem and trust it:"
        " REQUESTS_CA_BUNDLE for the Python SDK (SSL_CERT_FILE for its asynchronous client),"
        " NODE_EXTRA_CA_CERTS for JavaScript, the system's certificate store for .NET and Java.",
    )  # fmt: skip


def _handshake(diagnosis: Diagnosis, context: ssl.SSLContext) -> str | None:
    """None if the handshake succeeds, otherwise the reason."""
    try:
        with (
            socket.create_connection(
                (diagnosis.host, diagnosis.port), timeout=_SECONDS
            ) as plain_socket,
            context.wrap_socket(plain_socket, server_hostname=diagnosis.host),
        ):
            return None
    except ssl.SSLCertVerificationError as exc:
        return exc.verify_message
    except (OSError, ValueError) as exc:
        return str(exc)


def _server(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    try:
        with closing(open_connection(diagnosis.target)) as connection:
            connection.request("GET", "/_perseid/health")
            response = connection.getresponse()
            date = response.getheader("date")
            answer = json.loads(response.read())
        version = str(answer["version"])
    except TimeoutError:
        raise ConnectionCheckFailed(
            "server", "it accepts connections but does not answer",
            "The server hangs or is stopped, or another program listens there. Read its log and"
            " restart it.",
        ) from None  # fmt: skip
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        raise ConnectionCheckFailed(
            "server", "another program answers, not Perseid",
            f"Another program uses port {diagnosis.port}; start Perseid with another --port.",
        ) from None  # fmt: skip
    if version == __version__:
        yield ConnectionCheck("server", "ok", f"Perseid {version}")
    else:
        yield ConnectionCheck(
            "server", "warning", f"the server is Perseid {version}, this command {__version__}",
            "Use the same release for both: their options may differ.",
        )  # fmt: skip
    if date is not None:
        yield from _clock_skew(parsedate_to_datetime(date).timestamp() - clock.wall())


def _clock_skew(seconds: float) -> Iterator[ConnectionCheck]:
    if abs(seconds) > MAX_CLOCK_SKEW:
        side = "ahead of" if seconds > 0 else "behind"
        raise ConnectionCheckFailed(
            "clock", f"the server's clock is {duration_text(abs(seconds))} {side} this machine's",
            "The server refuses requests whose date differs by more than 15 minutes: synchronize"
            " both clocks with NTP. The usual reason is a virtual machine that was suspended.",
        )  # fmt: skip
    yield ConnectionCheck(
        "clock", "ok", f"differs by {abs(seconds):.0f} s; up to 900 s are allowed"
    )


def _key(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    reply = diagnosis.signed("")
    if reply.status == 200:
        diagnosis.account = json.loads(reply.body)
        kind = diagnosis.signed(
            "_perseid", "sweeper", kind="_perseid", link="_perseid/sweeper"
        ).status
        if kind == 403:
            yield ConnectionCheck(
                "key", "warning", "accepted, but it is read-only",
                "The server refuses writes with 403; use a primary or secondary key for them.",
            )  # fmt: skip
        else:
            yield ConnectionCheck("key", "ok", "accepted")
        return
    message = error_message(json.loads(reply.body)["message"])
    if "current time" in message:
        raise ConnectionCheckFailed(
            "clock", message,
            "Synchronize both clocks with NTP; a difference of 15 minutes is allowed.",
        )  # fmt: skip
    raise ConnectionCheckFailed(
        "key", f"refused with {reply.status}",
        "Pass a key of the server with --key or PERSEID_KEY: the --key of `perseid serve`, or the"
        " well-known emulator key if none was given. Copy the whole key, with its ==.",
    )  # fmt: skip


def _advertised_endpoint(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    """Clients send their requests to the endpoint that the account advertises."""
    advertised = diagnosis.account["writableLocations"][0]["databaseAccountEndpoint"]
    same = {diagnosis.target.netloc}
    if diagnosis.host == "localhost":  # is advertised by its address
        same.add(diagnosis.target.netloc.lower().replace("localhost", "127.0.0.1"))
    if urlsplit(advertised).netloc in same:
        yield ConnectionCheck("address", "ok", f"the server tells clients to use {advertised}")
    else:
        yield ConnectionCheck(
            "address", "warning", f"the server tells clients to use {advertised}",
            "A proxy rewrites the Host header: let the proxy pass it unchanged, or turn off"
            " endpoint discovery in the SDK.",
        )  # fmt: skip


def _proxy(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    proxy = urllib.request.getproxies().get(diagnosis.target.scheme)
    if proxy is not None and not urllib.request.proxy_bypass(diagnosis.host):
        yield ConnectionCheck(
            "proxy", "warning", f"the environment sets the {diagnosis.target.scheme} proxy {proxy}",
            f"Most SDKs use it: add {diagnosis.host} to NO_PROXY.",
        )  # fmt: skip


def _expiry_clock(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    reply = diagnosis.signed("_perseid", "clock", kind="_perseid", link="_perseid/clock")
    if reply.status != 200:
        return
    state = json.loads(reply.body)
    seconds_ahead = state["now"] - clock.wall()
    if (held_until := state.get("heldUntil")) is not None:
        yield ConnectionCheck(
            "lifetimes", "warning", f"the clock is stopped until {instant_text(held_until)}",
            "The stored data is from that time: a test clock was moved forward, or the system's"
            " clock was set back. Nothing expires before then. Start the server with --test-clock"
            " to let its clock run.",
        )  # fmt: skip
    elif state.get("frozen") or seconds_ahead > 60:
        is_frozen = state.get("frozen")
        clock_text = "is stopped" if is_frozen else f"is {duration_text(seconds_ahead)} ahead"
        yield ConnectionCheck(
            "lifetimes", "warning", f"the test clock {clock_text}, at {instant_text(state['now'])}",
            "Items expire by this clock. It never moves back.",
        )  # fmt: skip


def _sdk(diagnosis: Diagnosis) -> Iterator[ConnectionCheck]:
    """The Python SDK connects, if it is installed."""
    if (
        importlib.util.find_spec("azure") is None
        or importlib.util.find_spec("azure.cosmos") is None
    ):
        yield ConnectionCheck(
            "SDK", "warning", "azure-cosmos is not installed, so it was not tested"
        )
        return
    from azure.cosmos import CosmosClient
    from azure.cosmos import __version__ as sdk_version

    # The TLS check reports a self-signed certificate; this one finds other problems.
    options: dict[str, Any] = (
        {"connection_verify": False} if diagnosis.target.scheme == "https" else {}
    )
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            CosmosClient(
                diagnosis.client.endpoint,
                diagnosis.client.key,
                connection_timeout=_SECONDS,
                **options,
            ) as cosmos,
        ):
            databases = plural(len(list(cosmos.list_databases())), "database")
    except Exception as exc:  # any error of the SDK is a reason why it cannot connect
        raise ConnectionCheckFailed(
            "SDK", f"azure-cosmos {sdk_version} fails: {str(exc).splitlines()[0]}",
            "All other checks succeeded, so the reason is in the settings of the client.",
        ) from None  # fmt: skip
    yield ConnectionCheck("SDK", "ok", f"azure-cosmos {sdk_version} connects and lists {databases}")


CHECKS: Final[tuple[Callable[[Diagnosis], Iterator[ConnectionCheck]], ...]] = (
    _name, _tls, _server, _key, _advertised_endpoint, _proxy, _expiry_clock, _sdk,
)  # fmt: skip


def diagnose(client: AdminClient) -> list[ConnectionCheck]:
    """The results of all checks up to the first that fails."""
    diagnosis = Diagnosis(client, split(client.endpoint))
    checks: list[ConnectionCheck] = []
    try:
        for run_check in CHECKS:
            checks.extend(run_check(diagnosis))
    except ConnectionCheckFailed as failure:
        checks.append(failure.check)
    return checks


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@server_options
def doctor(client: AdminClient, *, as_json: bool) -> None:
    """Find out why a client cannot connect.

    Checks name, port, TLS, server, clock, key, advertised address and proxies, and connects with
    the Python SDK if it is installed. The exit code is 0 if a client can connect, 1 if not.

    \b
    Example:
      perseid doctor --endpoint https://localhost:8443/ --key "$COSMOS_KEY"
    """
    checks = diagnose(client)
    is_ok = all(each.verdict != "failed" for each in checks)
    if as_json:
        print_json({"ok": is_ok, "checks": [asdict(each) for each in checks]})
    else:
        for each in checks:
            click.echo(printable(f"{_MARKS[each.verdict]:<8}{each.name:<11}{each.message}"))
            if each.hint:
                click.echo(printable(f"{'':<19}{each.hint}"))
    if not is_ok:
        raise SystemExit(1)
