"""The routes under /_perseid/ for commands, and the options that select a server."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import click

from perseid.commands.connection import DEFAULT_ENDPOINT, Connection
from perseid.config import WELL_KNOWN_KEY


class Answer(NamedTuple):
    """The body of a successful response, as received and decoded."""

    text: bytes
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdminClient:
    """Signs with a master key. Each call opens a connection, since most commands make one call."""

    endpoint: str
    key: str

    def connect(self) -> Connection:
        """A connection for several requests."""
        return Connection(self.endpoint, self.key)

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
        path = ("_perseid", *names)
        content = None if body is None else json.dumps(body).encode()
        with self.connect() as connection:
            reply = connection.request(
                method, path, ("_perseid", "/".join(path)), options=options, body=content
            )
            return Answer(reply.body, connection.checked_body(reply))


def server_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --endpoint and --key to a command, which receives an `AdminClient`."""

    @click.option(
        "--endpoint",
        default=DEFAULT_ENDPOINT,
        envvar="PERSEID_ENDPOINT",
        show_default=True,
        show_envvar=True,
        help="Address of the server.",
    )
    @click.option(
        "--key",
        default=WELL_KNOWN_KEY,
        envvar="PERSEID_KEY",
        show_envvar=True,
        help="Master key of the server. Default: the well-known key of the emulators.",
    )
    @functools.wraps(command)
    def with_client(*, endpoint: str, key: str, **arguments: Any) -> None:
        command(AdminClient(endpoint, key), **arguments)

    return with_client


def admin_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --endpoint, --key and --json to a command, which receives a client and `as_json`."""
    with_json = click.option(
        "--json", "as_json", is_flag=True, help="Print the server's JSON response unchanged."
    )(command)
    return server_options(with_json)
