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
from perseid.commands.connection import Reply, open_connection, plain_message, split
from perseid.commands.output import plain, plural, print_json

Verdict = Literal["ok", "warning", "failed"]
_SECONDS: Final = 5.0
_LARGEST_SKEW: Final = 15 * 60
_MARKS: Final = {"ok": "ok", "warning": "note", "failed": "FAILED"}


@dataclass(frozen=True, slots=True)
class Step:
    """What was looked at, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    found: str
    hint: str = ""


class Ended(Exception):
    """The way ends here; carries the step that failed."""

    def __init__(self, name: str, found: str, hint: str) -> None:
        super().__init__(found)
        self.step = Step(name, "failed", found, hint)


@dataclass(slots=True)
class Visit:
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


def _name(visit: Visit) -> Iterator[Step]:
    try:
        found = socket.getaddrinfo(visit.host, visit.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise Ended(
            "name", f"'{visit.host}' has no address: {exc.strerror}",
            "Check the spelling; inside Docker the host is the service's name, not localhost.",
        ) from None  # fmt: skip
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    yield Step("name", "ok", f"{visit.host} is {', '.join(addresses)}")
    reached = {address: _reaches(address, visit.port) for address in addresses}
    if not any(is_there for is_there, _ in reached.values()):
        reasons = ", ".join(sorted({reason for _, reason in reached.values()}))
        raise Ended(
            "port", f"nothing listens on port {visit.port} ({reasons})",
            "Start a server with `perseid serve`, or give its port in --endpoint. In a container"
            " it needs --host 0.0.0.0 and a published port.",
        )  # fmt: skip
    missed = [address for address, (is_there, _) in reached.items() if not is_there]
    if missed:
        good = next(address for address, (is_there, _) in reached.items() if is_there)
        yield Step(
            "port", "warning", f"port {visit.port} answers on {good}, not on {', '.join(missed)}",
            f"Clients that try {missed[0]} first are slow or fail: use {good} instead of"
            f" {visit.host}.",
        )  # fmt: skip
    else:
        yield Step("port", "ok", f"port {visit.port} accepts connections")


def _reaches(address: str, port: int) -> tuple[bool, str]:
    try:
        with socket.create_connection((address, port), timeout=_SECONDS):
            return True, ""
    except OSError as exc:
        return False, exc.strerror or str(exc)


def _tls(visit: Visit) -> Iterator[Step]:
    """Whether both sides speak HTTPS, or neither does; and whether the certificate is trusted."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    speaks_tls = _handshake(visit, unverified) is None
    if visit.target.scheme == "http":
        if speaks_tls:
            raise Ended(
                "TLS", "the server speaks HTTPS, the endpoint says http",
                f"Use {visit.other_scheme()} as endpoint, or start the server without --tls.",
            )  # fmt: skip
        yield Step("TLS", "ok", "plain HTTP on both sides")
        return
    if not speaks_tls:
        raise Ended(
            "TLS", "the server speaks plain HTTP, the endpoint says https",
            f"Use {visit.other_scheme()} as endpoint, or start the server with --tls.",
        )  # fmt: skip
    problem = _handshake(visit, ssl.create_default_context())
    if problem is None:
        yield Step("TLS", "ok", "HTTPS with a certificate that this system trusts")
        return
    yield Step(
        "TLS", "warning", f"this system does not trust the certificate: {problem}",
        f"Save {visit.client.endpoint.rstrip('/')}/_perseid/certificate.pem and trust it:"
        " REQUESTS_CA_BUNDLE for the Python SDK (SSL_CERT_FILE for its asynchronous client),"
        " NODE_EXTRA_CA_CERTS for JavaScript, the system's store for .NET and Java.",
    )  # fmt: skip


def _handshake(visit: Visit, context: ssl.SSLContext) -> str | None:
    """None if it succeeds, else why not."""
    try:
        with (
            socket.create_connection((visit.host, visit.port), timeout=_SECONDS) as plain_socket,
            context.wrap_socket(plain_socket, server_hostname=visit.host),
        ):
            return None
    except ssl.SSLCertVerificationError as exc:
        return exc.verify_message
    except (OSError, ValueError) as exc:
        return str(exc)


def _server(visit: Visit) -> Iterator[Step]:
    try:
        with closing(open_connection(visit.target)) as connection:
            connection.request("GET", "/_perseid/health")
            response = connection.getresponse()
            date = response.getheader("date")
            answer = json.loads(response.read())
        version = str(answer["version"])
    except TimeoutError:
        raise Ended(
            "server", "it takes connections and does not answer",
            "It hangs, is stopped, or is another program; look at its log, and start it again.",
        ) from None  # fmt: skip
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        raise Ended(
            "server", "something answers, but it is not Perseid",
            f"Another program uses port {visit.port}; start Perseid with another --port.",
        ) from None  # fmt: skip
    if version == __version__:
        yield Step("server", "ok", f"Perseid {version}")
    else:
        yield Step(
            "server", "warning", f"Perseid {version}, this command is {__version__}",
            "Use the same release on both sides: they may know different options.",
        )  # fmt: skip
    if date is not None:
        yield from _skew(parsedate_to_datetime(date).timestamp() - clock.wall())


def _skew(seconds: float) -> Iterator[Step]:
    if abs(seconds) > _LARGEST_SKEW:
        side = "ahead of" if seconds > 0 else "behind"
        raise Ended(
            "clock", f"the server's clock is {duration_text(abs(seconds))} {side} this machine's",
            "Requests dated more than 15 minutes off are refused: set both clocks by NTP."
            " A virtual machine that slept is the usual reason.",
        )  # fmt: skip
    yield Step("clock", "ok", f"{abs(seconds):.0f} s apart, 900 s are allowed")


def _key(visit: Visit) -> Iterator[Step]:
    reply = visit.signed("")
    if reply.status == 200:
        visit.account = json.loads(reply.body)
        kind = visit.signed("_perseid", "sweeper", kind="_perseid", link="_perseid/sweeper").status
        if kind == 403:
            yield Step(
                "key", "warning", "accepted, but it can only read",
                "Writes are refused with 403; use a primary or secondary key for them.",
            )  # fmt: skip
        else:
            yield Step("key", "ok", "accepted")
        return
    message = plain_message(json.loads(reply.body)["message"])
    if "current time" in message:
        raise Ended("clock", message, "Set both clocks by NTP; 15 minutes are allowed.")
    raise Ended(
        "key", f"refused with {reply.status}",
        "Give a key of the server with --key or PERSEID_KEY: the one after --key of"
        " `perseid serve`, else the well-known emulator key. Copy it whole, with its ==.",
    )  # fmt: skip


def _address(visit: Visit) -> Iterator[Step]:
    """Clients go on with the endpoint that the account tells them."""
    told = visit.account["writableLocations"][0]["databaseAccountEndpoint"]
    if urlsplit(told).netloc == visit.target.netloc:
        yield Step("address", "ok", f"clients are told to go on with {told}")
    else:
        yield Step(
            "address", "warning", f"clients are told to go on with {told}",
            "A proxy in between rewrites the Host header; let it pass, or switch endpoint"
            " discovery off in the SDK.",
        )  # fmt: skip


def _proxy(visit: Visit) -> Iterator[Step]:
    proxy = urllib.request.getproxies().get(visit.target.scheme)
    if proxy is not None and not urllib.request.proxy_bypass(visit.host):
        yield Step(
            "proxy", "warning", f"the environment sends {visit.target.scheme} through {proxy}",
            f"Most SDKs obey that: add {visit.host} to NO_PROXY.",
        )  # fmt: skip


def _expiry_clock(visit: Visit) -> Iterator[Step]:
    reply = visit.signed("_perseid", "clock", kind="_perseid", link="_perseid/clock")
    if reply.status != 200:
        return
    found = json.loads(reply.body)
    ahead = found["now"] - clock.wall()
    if (held_until := found.get("heldUntil")) is not None:
        yield Step(
            "lifetimes", "warning", f"the clock is held until {instant_text(held_until)}",
            "This data has seen that time: a test clock was moved, or the system's clock set back."
            " Nothing dies before then; with --test-clock time runs on from there.",
        )  # fmt: skip
    elif found.get("frozen") or ahead > 60:
        state = "stands still" if found.get("frozen") else f"is {duration_text(ahead)} ahead"
        yield Step(
            "lifetimes", "warning", f"the test clock {state} at {instant_text(found['now'])}",
            "That is what --test-clock is for; items die by that time. It never goes back.",
        )  # fmt: skip


def _sdk(visit: Visit) -> Iterator[Step]:
    """The Python client, if it is installed here."""
    if (
        importlib.util.find_spec("azure") is None
        or importlib.util.find_spec("azure.cosmos") is None
    ):
        yield Step("SDK", "warning", "azure-cosmos is not installed here; not tried")
        return
    from azure.cosmos import CosmosClient
    from azure.cosmos import __version__ as sdk_version

    # An own certificate was told of above; here the question is what comes after it.
    options: dict[str, Any] = {"connection_verify": False} if visit.target.scheme == "https" else {}
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            CosmosClient(
                visit.client.endpoint, visit.client.key, connection_timeout=_SECONDS, **options
            ) as cosmos,
        ):
            seen = plural(len(list(cosmos.list_databases())), "database")
    except Exception as exc:  # whatever it says is the answer to why it cannot connect
        raise Ended(
            "SDK", f"azure-cosmos {sdk_version} fails: {str(exc).splitlines()[0]}",
            "Everything before this step works, so the reason is in the client's own settings.",
        ) from None  # fmt: skip
    yield Step("SDK", "ok", f"azure-cosmos {sdk_version} connects and sees {seen}")


STEPS: Final[tuple[Callable[[Visit], Iterator[Step]], ...]] = (
    _name, _tls, _server, _key, _address, _proxy, _expiry_clock, _sdk,
)  # fmt: skip


def examine(client: AdminClient) -> list[Step]:
    """All steps up to the first that fails."""
    visit = Visit(client, split(client.endpoint))
    steps: list[Step] = []
    try:
        for look in STEPS:
            steps.extend(look(visit))
    except Ended as ended:
        steps.append(ended.step)
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
    steps = examine(client)
    is_well = all(step.verdict != "failed" for step in steps)
    if as_json:
        print_json({"ok": is_well, "steps": [asdict(step) for step in steps]})
    else:
        for step in steps:
            click.echo(plain(f"{_MARKS[step.verdict]:<8}{step.name:<11}{step.found}"))
            if step.hint:
                click.echo(plain(f"{'':<19}{step.hint}"))
    if not is_well:
        raise SystemExit(1)
