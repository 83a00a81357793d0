"""`import --create`: creates the database and the container of an import if they are missing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from perseid.commands.connection import Connection, Refused
from perseid.commands.definitions import (
    DEFAULT_TTL_HELP,
    PARTITION_KEY_HELP,
    key_definition,
    key_text,
)
from perseid.commands.resource_client import ResourcePath, create_resource, read_resource
from perseid.commands.time_text import parse_default_ttl
from perseid.commands.ttl_output import policy_text


def creation_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --create, --partition-key and --default-ttl; the command receives a `Creation`."""

    @click.option(
        "--create",
        "creates",
        is_flag=True,
        help="Create database and container if they are missing.",
    )
    @click.option(
        "--partition-key", "key_paths", multiple=True, metavar="PATH",
        help=f"With --create. {PARTITION_KEY_HELP}",
    )  # fmt: skip
    @click.option(
        "--default-ttl", metavar="SECONDS|none|off", help=f"With --create. {DEFAULT_TTL_HELP}"
    )
    @functools.wraps(command)
    def with_creation(
        *args: Any,
        creates: bool,
        key_paths: tuple[str, ...],
        default_ttl: str | None,
        **arguments: Any,
    ) -> None:
        if not creates and (key_paths or default_ttl is not None):
            raise click.UsageError("Use --partition-key and --default-ttl only with --create.")
        creation = Creation.of(key_paths, default_ttl) if creates else None
        command(*args, creation=creation, **arguments)

    return with_creation


class Creation(NamedTuple):
    """The definition of a container that may have to be created."""

    key: dict[str, Any] | None
    default_ttl: float | None
    has_default_ttl: bool  # False if the option was not given

    @classmethod
    def of(cls, key_paths: tuple[str, ...], default_ttl: str | None) -> Creation:
        key = key_definition(key_paths) if key_paths else None
        seconds = None if default_ttl is None else parse_default_ttl(default_ttl)
        return cls(key, seconds, default_ttl is not None)

    def create_if_missing(self, connection: Connection, database: str, container: str) -> None:
        """click.ClickException if the container exists with another definition."""
        path = ResourcePath(database, container)
        try:
            self._check_same(path, read_resource(connection, path))
        except Refused as exc:
            if exc.status != 404:
                raise
            self._create(connection, path)

    def _create(self, connection: Connection, path: ResourcePath) -> None:
        if self.key is None:
            raise click.UsageError(
                f"The {path} is missing: give its partition key, such as --partition-key /id."
            )
        properties: dict[str, Any] = {"partitionKey": self.key}
        if self.default_ttl is not None:
            properties["defaultTtl"] = self.default_ttl
        _check_definition({"id": path.container} | properties)
        _create_unless_exists(connection, ResourcePath(path.database), {})
        _create_unless_exists(connection, path, properties)

    def _check_same(self, path: ResourcePath, definition: dict[str, Any]) -> None:
        existing_key = key_text(definition)
        if self.key is not None and key_text({"partitionKey": self.key}) != existing_key:
            raise click.ClickException(
                f"The {path} exists with the partition key {existing_key}. Omit --partition-key, or"
                " choose another container."
            )
        existing_ttl = definition.get("defaultTtl")
        if self.has_default_ttl and self.default_ttl != existing_ttl:
            raise click.ClickException(
                f"The {path} exists, and its default ttl is {policy_text(existing_ttl)}. Omit"
                " --default-ttl, or choose another container."
            )


def _check_definition(body: dict[str, Any]) -> None:
    """Refuses what the server would refuse, before the database is created."""
    from perseid.errors import CosmosError
    from perseid.service.definitions.container import new_container

    try:
        new_container(body, computed_check=lambda *_: None, is_lenient=True)
    except CosmosError as exc:
        raise click.ClickException(str(exc)) from exc


def _create_unless_exists(
    connection: Connection, path: ResourcePath, properties: dict[str, Any]
) -> None:
    try:
        create_resource(connection, path, properties)
    except Refused as exc:
        if exc.status != 409:
            raise
    else:
        click.echo(f"Created the {path}.", err=True)
