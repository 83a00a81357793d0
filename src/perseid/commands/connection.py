"""A signed keep-alive connection to a server, for commands.

Every failure is a click.ClickException that says what to do: exit code 1 if the server refused the
request or cannot be reached, 2 if the arguments of the command are wrong.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from time import sleep as _wait
from types import TracebackType
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import click

from perseid import clock
from perseid.config import Settings
from perseid.errors import OWNER_NOT_FOUND, RESOURCE_NOT_FOUND

DEFAULT_ENDPOINT: Final = Settings().endpoint
_CONNECT_SECONDS: Final = 10.0
# What the client sees when the server closes the connection before, during or after a request.
_CONNECTION_LOST: Final = (ConnectionResetError, BrokenPipeError)
_NOT_FOUND_TEXTS: Final = (OWNER_NOT_FOUND, RESOURCE_NOT_FOUND)
_ANSWER_SECONDS: Final = 3600.0  # a drain responds when all expired items are purged
_PERSEID_HEADER: Final = "x-ms-activity-id"  # in every response of Perseid
_THROTTLED: Final = 429
_LONGEST_WAIT: Final = 30.0  # seconds in total for one request, as in the SDKs


class Reply(NamedTuple):
    """A response with any status; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Refused(click.ClickException):
    """The server responded with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Connection:
    """Connects on its first request. Not for use by several threads at once."""

    def __init__(self, endpoint: str, key: str) -> None:
        self.endpoint = endpoint
        self._target = split(endpoint)
        self._secret = decode_secret(key)
        self._http: http.client.HTTPConnection | None = None
        self._has_answered = False

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def request(
        self,
        method: str,
        names: Sequence[str],
        signed_for: tuple[str, str],
        *,
        options: Mapping[str, object] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Sends one request. `names` form its path, `signed_for` is resource type and link.

        After a 429 it waits as long as the server says and tries again, as every SDK does.
        """
        try:
            url = "/" + "/".join(quote(name, safe="") for name in names)
        except UnicodeEncodeError:
            raise click.UsageError("A name in the arguments is not UTF-8.") from None
        if options:
            url += f"?{urlencode(options)}"
        waited = 0.0
        while True:
            sent_headers = self._signed(method, *signed_for) | dict(headers or {})
            reply = self._send_with_retry(method, url, body, sent_headers)
            if _PERSEID_HEADER not in reply.headers:  # another program that uses HTTP
                raise self._not_perseid(reply)
            wait = float(reply.headers.get("x-ms-retry-after-ms", "inf")) / 1000
            waited += wait
            if reply.status != _THROTTLED or waited > _LONGEST_WAIT:
                return reply
            _wait(wait)

    def _send_with_retry(
        self, method: str, url: str, body: bytes | None, sent_headers: Mapping[str, str]
    ) -> Reply:
        was_open = self._http is not None
        try:
            return self._exchange(method, url, body, sent_headers)
        except _CONNECTION_LOST:
            # A server may close an idle connection. Reads are safe to send again.
            if not was_open or not (method == "GET" or "x-ms-documentdb-isquery" in sent_headers):
                raise self._no_answer() from None
        try:
            return self._exchange(method, url, body, sent_headers)
        except _CONNECTION_LOST:
            raise self._no_answer() from None

    def _signed(self, method: str, kind: str, link: str) -> dict[str, str]:
        date = formatdate(clock.wall(), usegmt=True)
        payload = f"{method.lower()}\n{kind}\n{link}\n{date.lower()}\n\n"
        signature = base64.b64encode(hmac.digest(self._secret, payload.encode(), "sha256")).decode()
        return {
            "authorization": quote(f"type=master&ver=1.0&sig={signature}", safe=""),
            "content-type": "application/json",
            "x-ms-date": date,
            "x-ms-version": "2020-07-15",
        }

    def _exchange(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        try:
            if self._http is None:
                self._http = open_connection(self._target)
                self._http.connect()
                self._http.sock.settimeout(_ANSWER_SECONDS)
            self._http.request(method, url, body, dict(headers))
            response = self._http.getresponse()
            details = {name.lower(): value for name, value in response.getheaders()}
            reply = Reply(response.status, details, response.read())
            self._has_answered = True
            return reply
        except _CONNECTION_LOST:
            self.close()
            raise
        except ssl.SSLError as exc:
            self.close()
            raise click.ClickException(
                f"HTTPS with {self.endpoint} failed: {exc.reason or exc}."
                " If this is the server's port for HTTP, use http:// in the endpoint."
            ) from exc
        except http.client.HTTPException as exc:
            self.close()
            raise self._no_answer() from exc
        except OSError as exc:
            self.close()
            raise click.ClickException(
                f"No server answers at {self.endpoint} ({exc.strerror or exc})."
                " Start one with `perseid serve`, or give its address with --endpoint,"
                " PERSEID_ENDPOINT or --connection-string."
            ) from exc
        except KeyboardInterrupt:
            self.close()  # or the next request would read the response to this one
            raise

    def _no_answer(self) -> click.ClickException:
        if self._has_answered:
            return click.ClickException(
                f"{self.endpoint} closed the connection; check that the server is still running."
            )
        return click.ClickException(
            f"{self.endpoint} did not send an HTTP response."
            " If this is the server's port for HTTPS, use https:// in the endpoint."
        )

    def _not_perseid(self, reply: Reply) -> Refused:
        return Refused(
            reply.status,
            f"{self.endpoint} is not a Perseid server: it responded with HTTP {reply.status}.",
        )

    def checked_body(self, reply: Reply) -> dict[str, Any]:
        """The body of a successful response; otherwise raises Refused with the server's message."""
        try:
            value = json.loads(reply.body)
        except ValueError:
            value = None
        is_success = reply.status in (200, 201)
        if not isinstance(value, dict) or (not is_success and "message" not in value):
            raise self._not_perseid(reply)
        if is_success:
            return value
        message = error_message(str(value["message"]))
        if reply.status == 404 and message.startswith(_NOT_FOUND_TEXTS):
            message = (
                f"{message.partition('.')[0]}: check the names of database and container;"
                " `perseid db list` and `perseid container list DATABASE` list them."
            )
        # A wrong date is a 401, too; its message already explains the problem.
        if reply.status == 401 and "current time" not in message:
            message = (
                f"{self.endpoint} does not accept this key;"
                " pass one of its master keys with --key, PERSEID_KEY or --connection-string."
            )
        raise Refused(reply.status, message)


def decode_secret(key: str) -> bytes:
    from perseid.http.signatures import decode_key

    try:
        return decode_key(key)
    except ValueError:
        raise click.UsageError("--key must be base64, like all Cosmos DB keys.") from None


def error_message(text: str) -> str:
    """The message of an error body, without activity id and envelope."""
    text = text.partition("\r\nActivityId:")[0]
    if text.startswith("Message: "):
        details = json.loads(text.removeprefix("Message: "))
        if "errors" in details:  # of a query, with positions in its text
            return " ".join(each["message"] for each in details["errors"])
        text = " ".join(details["Errors"])
    return text


def split(endpoint: str) -> SplitResult:
    """The parts of an endpoint; UsageError if it is not a valid one."""
    try:
        parts = urlsplit(endpoint)
        host = parts.hostname or ""
        host.encode("idna")  # connecting does the same
        is_usable = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:  # the port is not a number, or the host name is not valid
        is_usable = False
    if not is_usable or parts.path not in ("", "/") or " " in host:
        if "accountkey" in endpoint.lower():  # the message would print it
            raise click.UsageError(
                "--endpoint is an address, not a connection string; use --connection-string."
            )
        raise click.UsageError(
            f"--endpoint must look like {DEFAULT_ENDPOINT}, with http or https; not '{endpoint}'."
        )
    return parts


def open_connection(target: SplitResult) -> http.client.HTTPConnection:
    host = target.hostname or ""
    if target.scheme == "http":
        return http.client.HTTPConnection(host, target.port, timeout=_CONNECT_SECONDS)
    return http.client.HTTPSConnection(
        host, target.port, timeout=_CONNECT_SECONDS, context=ssl_context_for(host)
    )


def ssl_context_for(host: str) -> ssl.SSLContext:
    """Accepts any certificate from this machine, from others only what the system trusts."""
    context = ssl.create_default_context()
    if Settings(host=host).is_loopback:
        # The server's certificate is its own, and loopback traffic cannot be intercepted.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
