"""A small signed client for the routes under /_perseid/, and the options that lead to a server.

Every failure is a click.ClickException with a sentence that says what to do: exit code 1 if the
server refused or is not there, 2 if the command itself was wrong.
"""

from __future__ import annotations

import base64
import functools
import hmac
import http.client
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click

from perseid import clock
from perseid.config import WELL_KNOWN_KEY, Settings

DEFAULT_ENDPOINT: Final = Settings().endpoint
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 3600.0  # a drain answers when everything dead is gone


class Answer(NamedTuple):
    """The body of a successful answer: as it came, and decoded."""

    text: bytes
    value: dict[str, Any]


class Refused(click.ClickException):
    """The server answered, and the answer is no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class AdminClient:
    """Signs with a master key; one connection for each call, since a command makes one call."""

    endpoint: str
    key: str

    def get(self, *names: str, **options: object) -> Answer:
        return self._call("GET", names, options, None)

    def post(self, *names: str, body: dict[str, Any] | None = None) -> Answer:
        return self._call("POST", names, {}, body)

    def _call(
        self,
        method: str,
        names: tuple[str, ...],
        options: dict[str, object],
        body: dict[str, Any] | None,
    ) -> Answer:
        link = "/".join(("_perseid", *names))
        url = "/" + "/".join(quote(name, safe="") for name in link.split("/"))
        if options:
            url += f"?{urlencode(options)}"
        content = None if body is None else json.dumps(body).encode()
        status, text = self._exchange(method, url, content, self._headers(method, link))
        return self._judged(status, text)

    def _headers(self, method: str, link: str) -> dict[str, str]:
        from perseid.http.auth import decode_key

        try:
            secret = decode_key(self.key)
        except ValueError:
            raise click.UsageError("--key must be base64, as Cosmos DB keys are.") from None
        date = formatdate(clock.wall(), usegmt=True)
        payload = f"{method.lower()}\n_perseid\n{link}\n{date.lower()}\n\n"
        signature = base64.b64encode(hmac.digest(secret, payload.encode(), "sha256")).decode()
        return {
            "authorization": quote(f"type=master&ver=1.0&sig={signature}", safe=""),
            "content-type": "application/json",
            "x-ms-date": date,
            "x-ms-version": "2020-07-15",
        }

    def _exchange(
        self, method: str, url: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        connection = _connection(_split(self.endpoint))
        try:
            connection.connect()
            connection.sock.settimeout(_ANSWER_SECONDS)
            connection.request(method, url, content, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except ssl.SSLError as exc:
            raise click.ClickException(
                f"No HTTPS with {self.endpoint}: {exc.reason or exc}."
                " A server without --tls wants http:// in the endpoint."
            ) from exc
        except (http.client.HTTPException, ConnectionResetError) as exc:
            raise click.ClickException(
                f"{self.endpoint} does not answer in HTTP;"
                " if the server runs with --tls, the endpoint starts with https://."
            ) from exc
        except OSError as exc:
            raise click.ClickException(
                f"No server answers at {self.endpoint} ({exc.strerror or exc})."
                " Start one with `perseid serve`, or say where it is with --endpoint or"
                " PERSEID_ENDPOINT."
            ) from exc
        finally:
            connection.close()

    def _judged(self, status: int, text: bytes) -> Answer:
        """The answer if it is one; else the server's own words, without their envelope."""
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict) or (status != 200 and "message" not in value):
            raise Refused(
                status, f"{self.endpoint} is not a Perseid server: it answered HTTP {status}."
            )
        if status == 200:
            return Answer(text, value)
        message = _plain_message(str(value["message"]))
        # A date that is off is a 401 as well, and its text says what is wrong.
        if status == 401 and "current time" not in message:
            message = (
                f"{self.endpoint} does not accept this key;"
                " give one of its master keys with --key or PERSEID_KEY."
            )
        raise Refused(status, message)


def _plain_message(text: str) -> str:
    text = text.partition("\r\nActivityId:")[0]
    if text.startswith("Message: "):
        found = json.loads(text.removeprefix("Message: "))
        text = " ".join(found["Errors"])
    return text


def _split(endpoint: str) -> SplitResult:
    parts = urlsplit(endpoint)
    try:
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is not a number
        is_usable = False
    if not is_usable or parts.path not in ("", "/"):
        raise click.UsageError(
            f"--endpoint must look like {DEFAULT_ENDPOINT}, with http or https; not '{endpoint}'."
        )
    return parts


def _connection(target: SplitResult) -> http.client.HTTPConnection:
    host = target.hostname or ""
    if target.scheme == "http":
        return http.client.HTTPConnection(host, target.port, timeout=_CONNECT_SECONDS)
    return http.client.HTTPSConnection(
        host, target.port, timeout=_CONNECT_SECONDS, context=trust(host)
    )


def trust(host: str) -> ssl.SSLContext:
    """Whose certificates are good: of this machine, any; of others, what the system trusts."""
    context = ssl.create_default_context()
    if Settings(host=host).is_loopback:
        # `--tls` signs its own certificate, and nobody sits between us and this machine.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def talks_to_server(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command --endpoint, --key and --json; it gets a client and `as_json`."""

    @click.option(
        "--endpoint",
        default=DEFAULT_ENDPOINT,
        envvar="PERSEID_ENDPOINT",
        show_default=True,
        show_envvar=True,
        help="Where the server listens.",
    )
    @click.option(
        "--key",
        default=WELL_KNOWN_KEY,
        envvar="PERSEID_KEY",
        show_envvar=True,
        help="A master key of the server. Default: the key every emulator uses.",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print the server's answer as it is.")
    @functools.wraps(command)
    def with_client(*, endpoint: str, key: str, **given: Any) -> None:
        command(AdminClient(endpoint, key), **given)

    return with_client
