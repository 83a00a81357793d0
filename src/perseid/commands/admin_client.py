"""The routes under /_perseid/ for commands, and the options that select a server."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from perseid.commands.connection import DEFAULT_ENDPOINT, Connection
from perseid.commands.connection_string import (
    OPTION,
    is_same_endpoint,
    parse_connection_string,
)
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

    def put(self, *names: str, body: dict[str, Any]) -> Answer:
        return self._call("PUT", names, {}, body)

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
    """Adds the options that select a server to a command, which receives an `AdminClient`."""

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
    @click.option(
        OPTION,
        envvar="PERSEID_CONNECTION_STRING",
        show_envvar=True,
        help="Address and key in one, as SDKs take them: 'AccountEndpoint=URL;AccountKey=KEY;'.",
    )
    @functools.wraps(command)
    def with_client(
        *, endpoint: str, key: str, connection_string: str | None, **arguments: Any
    ) -> None:
        context = click.get_current_context()
        command(select_server(context, endpoint, key, connection_string), **arguments)

    return with_client


def select_server(
    context: click.Context, endpoint: str, key: str, connection_string: str | None
) -> AdminClient:
    """The server that the options name; UsageError if they contradict each other.

    As for every option, the command line has precedence over the environment.
    """
    if connection_string is None:
        return AdminClient(endpoint, key)
    string = parse_connection_string(connection_string)
    string_source = _source(context, "connection_string")
    is_same_source = _source(context, "endpoint") is string_source
    if is_same_source and not is_same_endpoint(endpoint, string.endpoint):
        raise _contradiction("endpoint", string_source)
    if _source(context, "key") is string_source and key != string.key:
        raise _contradiction("key", string_source)
    given = ParameterSource.COMMANDLINE
    if string_source is given:
        return AdminClient(string.endpoint, string.key)
    return AdminClient(
        endpoint if _source(context, "endpoint") is given else string.endpoint,
        key if _source(context, "key") is given else string.key,
    )


def _source(context: click.Context, option: str) -> ParameterSource | None:
    return context.get_parameter_source(option)


def _contradiction(name: str, source: ParameterSource | None) -> click.UsageError:
    """Without the values: keys are secret."""
    options = (f"--{name}", OPTION)
    if source is ParameterSource.ENVIRONMENT:
        options = (f"PERSEID_{name.upper()}", "PERSEID_CONNECTION_STRING")
    return click.UsageError(
        f"{options[0]} and {options[1]} name different {name}s; give only one of them."
    )


def admin_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds `server_options` and --json to a command, which receives a client and `as_json`."""
    with_json = click.option(
        "--json", "as_json", is_flag=True, help="Print the server's JSON response unchanged."
    )(command)
    return server_options(with_json)
