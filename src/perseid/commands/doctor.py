"""`perseid doctor`: follows the way a client takes to a server and says where it ends, and why.

One step rests on the other, so the first one that fails is the answer.
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
from perseid.commands.clock import duration_text, instant_text
from perseid.commands.connection import Reply, error_message, open_connection, split
from perseid.commands.output import plural, print_json, printable
from perseid.limits import MAX_CLOCK_SKEW

Verdict = Literal["ok", "warning", "failed"]
_SECONDS: Final = 5.0
_MARKS: Final = {"ok": "ok", "warning": "note", "failed": "FAILED"}


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was looked at, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    found: str
    hint: str = ""


class CheckFailed(Exception):
    """The way ends here; carries the step that failed."""

    def __init__(self, name: str, found: str, hint: str) -> None:
        super().__init__(found)
        self.step = CheckResult(name, "failed", found, hint)


@dataclass(slots=True)
class Diagnosis:
    """A way to a server, as far as it has been followed."""

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


def _name(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    try:
        found = socket.getaddrinfo(diagnosis.host, diagnosis.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise CheckFailed(
            "name", f"'{diagnosis.host}' has no address: {exc.strerror}",
            "Check the spelling; inside Docker the host is the service's name, not localhost.",
        ) from None  # fmt: skip
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    yield CheckResult("name", "ok", f"{diagnosis.host} is {', '.join(addresses)}")
    reachability = {address: _try_connect(address, diagnosis.port) for address in addresses}
    if not any(is_reachable for is_reachable, _ in reachability.values()):
        reasons = ", ".join(sorted({reason for _, reason in reachability.values()}))
        raise CheckFailed(
            "port", f"nothing listens on port {diagnosis.port} ({reasons})",
            "Start a server with `perseid serve`, or give its port in --endpoint. In a container"
            " it needs --host 0.0.0.0 and a published port.",
        )  # fmt: skip
    unreachable = [
        address for address, (is_reachable, _) in reachability.items() if not is_reachable
    ]
    if unreachable:
        good = next(address for address, (is_reachable, _) in reachability.items() if is_reachable)
        yield CheckResult(
            "port", "warning", f"port {diagnosis.port} answers on {good},"
            f" not on {', '.join(unreachable)}",
            f"Clients that try {unreachable[0]} first are slow or fail: use {good} instead of"
            f" {diagnosis.host}.",
        )  # fmt: skip
    else:
        yield CheckResult("port", "ok", f"port {diagnosis.port} accepts connections")


def _try_connect(address: str, port: int) -> tuple[bool, str]:
    try:
        with socket.create_connection((address, port), timeout=_SECONDS):
            return True, ""
    except OSError as exc:
        return False, exc.strerror or str(exc)


def _tls(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    """Whether both sides speak HTTPS, or neither does; and whether the certificate is trusted."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    speaks_tls = _handshake(diagnosis, unverified) is None
    if diagnosis.target.scheme == "http":
        if speaks_tls:
            raise CheckFailed(
                "TLS", "the server speaks HTTPS, the endpoint says http",
                f"Use {diagnosis.other_scheme()} as endpoint, or start the server without --tls.",
            )  # fmt: skip
        yield CheckResult("TLS", "ok", "plain HTTP on both sides")
        return
    if not speaks_tls:
        raise CheckFailed(
            "TLS", "the server speaks plain HTTP, the endpoint says https",
            f"Use {diagnosis.other_scheme()} as endpoint, or start the server with --tls.",
        )  # fmt: skip
    problem = _handshake(diagnosis, ssl.create_default_context())
    if problem is None:
        yield CheckResult("TLS", "ok", "HTTPS with a certificate that this system trusts")
        return
    yield CheckResult(
        "TLS", "warning", f"this system does not trust the certificate: {problem}",
        f"Save {diagnosis.client.endpoint.rstrip('/')}/_perseid/certificate.pem and trust it:"
        " REQUESTS_CA_BUNDLE for the Python SDK (SSL_CERT_FILE for its asynchronous client),"
        " NODE_EXTRA_CA_CERTS for JavaScript, the system's store for .NET and Java.",
    )  # fmt: skip


def _handshake(diagnosis: Diagnosis, context: ssl.SSLContext) -> str | None:
    """None if it succeeds, else why not."""
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


def _server(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    try:
        with closing(open_connection(diagnosis.target)) as connection:
            connection.request("GET", "/_perseid/health")
            response = connection.getresponse()
            date = response.getheader("date")
            answer = json.loads(response.read())
        version = str(answer["version"])
    except TimeoutError:
        raise CheckFailed(
            "server", "it takes connections and does not answer",
            "It hangs, is stopped, or is another program; look at its log, and start it again.",
        ) from None  # fmt: skip
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        raise CheckFailed(
            "server", "something answers, but it is not Perseid",
            f"Another program uses port {diagnosis.port}; start Perseid with another --port.",
        ) from None  # fmt: skip
    if version == __version__:
        yield CheckResult("server", "ok", f"Perseid {version}")
    else:
        yield CheckResult(
            "server", "warning", f"Perseid {version}, this command is {__version__}",
            "Use the same release on both sides: they may know different options.",
        )  # fmt: skip
    if date is not None:
        yield from _clock_skew(parsedate_to_datetime(date).timestamp() - clock.wall())


def _clock_skew(seconds: float) -> Iterator[CheckResult]:
    if abs(seconds) > MAX_CLOCK_SKEW:
        side = "ahead of" if seconds > 0 else "behind"
        raise CheckFailed(
            "clock", f"the server's clock is {duration_text(abs(seconds))} {side} this machine's",
            "Requests dated more than 15 minutes off are refused: set both clocks by NTP."
            " A virtual machine that slept is the usual reason.",
        )  # fmt: skip
    yield CheckResult("clock", "ok", f"{abs(seconds):.0f} s apart, 900 s are allowed")


def _key(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    reply = diagnosis.signed("")
    if reply.status == 200:
        diagnosis.account = json.loads(reply.body)
        kind = diagnosis.signed(
            "_perseid", "sweeper", kind="_perseid", link="_perseid/sweeper"
        ).status
        if kind == 403:
            yield CheckResult(
                "key", "warning", "accepted, but it can only read",
                "Writes are refused with 403; use a primary or secondary key for them.",
            )  # fmt: skip
        else:
            yield CheckResult("key", "ok", "accepted")
        return
    message = error_message(json.loads(reply.body)["message"])
    if "current time" in message:
        raise CheckFailed("clock", message, "Set both clocks by NTP; 15 minutes are allowed.")
    raise CheckFailed(
        "key", f"refused with {reply.status}",
        "Give a key of the server with --key or PERSEID_KEY: the one after --key of"
        " `perseid serve`, else the well-known emulator key. Copy it whole, with its ==.",
    )  # fmt: skip


def _advertised_endpoint(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    """Clients go on with the endpoint that the account tells them."""
    advertised = diagnosis.account["writableLocations"][0]["databaseAccountEndpoint"]
    if urlsplit(advertised).netloc == diagnosis.target.netloc:
        yield CheckResult("address", "ok", f"clients are told to go on with {advertised}")
    else:
        yield CheckResult(
            "address", "warning", f"clients are told to go on with {advertised}",
            "A proxy in between rewrites the Host header; let it pass, or switch endpoint"
            " discovery off in the SDK.",
        )  # fmt: skip


def _proxy(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    proxy = urllib.request.getproxies().get(diagnosis.target.scheme)
    if proxy is not None and not urllib.request.proxy_bypass(diagnosis.host):
        yield CheckResult(
            "proxy", "warning", f"the environment sends {diagnosis.target.scheme} through {proxy}",
            f"Most SDKs obey that: add {diagnosis.host} to NO_PROXY.",
        )  # fmt: skip


def _expiry_clock(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    reply = diagnosis.signed("_perseid", "clock", kind="_perseid", link="_perseid/clock")
    if reply.status != 200:
        return
    found = json.loads(reply.body)
    ahead = found["now"] - clock.wall()
    if (held_until := found.get("heldUntil")) is not None:
        yield CheckResult(
            "lifetimes", "warning", f"the clock is held until {instant_text(held_until)}",
            "This data has seen that time: a test clock was moved, or the system's clock set back."
            " Nothing dies before then; with --test-clock time runs on from there.",
        )  # fmt: skip
    elif found.get("frozen") or ahead > 60:
        state = "stands still" if found.get("frozen") else f"is {duration_text(ahead)} ahead"
        yield CheckResult(
            "lifetimes", "warning", f"the test clock {state} at {instant_text(found['now'])}",
            "That is what --test-clock is for; items die by that time. It never goes back.",
        )  # fmt: skip


def _sdk(diagnosis: Diagnosis) -> Iterator[CheckResult]:
    """The Python client, if it is installed here."""
    if (
        importlib.util.find_spec("azure") is None
        or importlib.util.find_spec("azure.cosmos") is None
    ):
        yield CheckResult("SDK", "warning", "azure-cosmos is not installed here; not tried")
        return
    from azure.cosmos import CosmosClient
    from azure.cosmos import __version__ as sdk_version

    # An own certificate was told of above; here the question is what comes after it.
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
            seen = plural(len(list(cosmos.list_databases())), "database")
    except Exception as exc:  # whatever it says is the answer to why it cannot connect
        raise CheckFailed(
            "SDK", f"azure-cosmos {sdk_version} fails: {str(exc).splitlines()[0]}",
            "Everything before this step works, so the reason is in the client's own settings.",
        ) from None  # fmt: skip
    yield CheckResult("SDK", "ok", f"azure-cosmos {sdk_version} connects and sees {seen}")


CHECKS: Final[tuple[Callable[[Diagnosis], Iterator[CheckResult]], ...]] = (
    _name, _tls, _server, _key, _advertised_endpoint, _proxy, _expiry_clock, _sdk,
)  # fmt: skip


def diagnose(client: AdminClient) -> list[CheckResult]:
    """All steps up to the first that fails."""
    diagnosis = Diagnosis(client, split(client.endpoint))
    steps: list[CheckResult] = []
    try:
        for run_check in CHECKS:
            steps.extend(run_check(diagnosis))
    except CheckFailed as failure:
        steps.append(failure.step)
    return steps


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the steps as JSON.")
@server_options
def doctor(client: AdminClient, *, as_json: bool) -> None:
    """Find out why a client cannot connect.

    Looks at name, port, TLS, server, clock, key, the address clients are told, proxies, and tries
    the Python SDK if it is here. The exit code is 0 if a client can connect, 1 if not.

    \b
    Example:
      perseid doctor --endpoint https://localhost:8081/ --key "$COSMOS_KEY"
    """
    steps = diagnose(client)
    is_ok = all(step.verdict != "failed" for step in steps)
    if as_json:
        print_json({"ok": is_ok, "steps": [asdict(step) for step in steps]})
    else:
        for step in steps:
            click.echo(printable(f"{_MARKS[step.verdict]:<8}{step.name:<11}{step.found}"))
            if step.hint:
                click.echo(printable(f"{'':<19}{step.hint}"))
    if not is_ok:
        raise SystemExit(1)
