"""`perseid container`: lists, creates, shows and deletes the containers of a database."""

from __future__ import annotations

from typing import Any

import click

from perseid.commands import definitions
from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.definitions import (
    DEFAULT_TTL_HELP,
    PARTITION_KEY_HELP,
    json_option,
    throughput_option,
    yes_option,
)
from perseid.commands.output import plural, print_json, printable, show, show_table
from perseid.commands.resource_client import (
    ResourcePath,
    read_containers,
    read_resource,
    read_throughput,
)
from perseid.commands.resource_names import NAME
from perseid.commands.time_text import parse_default_ttl
from perseid.commands.ttl_output import policy_text


@click.group()
def container() -> None:
    """List, create, show or delete containers.

    \b
    Examples:
      perseid container create shop sessions --partition-key /user --default-ttl 15m
      perseid container list shop
    """


@container.command("list")
@click.argument("database", type=NAME)
@json_option
@server_options
def list_(client: AdminClient, *, database: str, as_json: bool) -> None:
    """List the containers of a database.

    \b
    Example:
      perseid container list shop
    """
    with client.connect() as connection:
        containers = list(read_containers(connection, database))
    if as_json:
        print_json({"containers": containers})
        return
    if not containers:
        click.echo(f"There are no containers in the {ResourcePath(database)}.", err=True)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("name", "partition key", "default ttl"):
        table.add_column(title, overflow="fold")
    for each in containers:
        table.add_row(
            printable(each["id"]), definitions.key_text(each), policy_text(each.get("defaultTtl"))
        )
    show(table)


@container.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.option(
    "--partition-key", "key_paths", multiple=True, required=True, metavar="PATH",
    help=PARTITION_KEY_HELP,
)  # fmt: skip
@click.option(
    "--default-ttl",
    metavar="SECONDS|none|off",
    default="off",
    show_default=True,
    help=DEFAULT_TTL_HELP,
)
@throughput_option
@json_option
@server_options
def create(
    client: AdminClient,
    *,
    database: str,
    container: str,
    key_paths: tuple[str, ...],
    default_ttl: str,
    throughput: int | None,
    as_json: bool,
) -> None:
    """Create a container.

    The partition key cannot be changed later; the default ttl can.

    \b
    Examples:
      perseid container create shop sessions --partition-key /user --default-ttl 15m
      perseid container create shop orders --partition-key /tenant --partition-key /user
    """
    properties: dict[str, Any] = {"partitionKey": definitions.key_definition(key_paths)}
    if (seconds := parse_default_ttl(default_ttl)) is not None:
        properties["defaultTtl"] = seconds
    path = ResourcePath(database, container)
    definitions.create(client, path, properties, throughput, as_json=as_json)


@container.command("show")
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@json_option
@server_options
def show_(client: AdminClient, *, database: str, container: str, as_json: bool) -> None:
    """Show the definition and the throughput of a container.

    \b
    Example:
      perseid container show shop sessions
    """
    with client.connect() as connection:
        definition = read_resource(connection, ResourcePath(database, container))
        throughput = read_throughput(connection, definition["_rid"])
        owner = read_resource(connection, ResourcePath(database))
        shared = read_throughput(connection, owner["_rid"])
    if as_json:
        print_json(definition | {"throughput": throughput})
        return
    units = definitions.throughput_text(throughput, "none")
    if throughput is None and shared is not None:
        units = f"shared with the database: {definitions.throughput_text(shared, '')}"
    rows = [*definitions.definition_rows(definition), ("throughput", units)]
    show_table(f"{database}/{container}", [*rows, definitions.changed_row(definition)])


@container.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@yes_option
@json_option
@server_options
def delete(client: AdminClient, *, database: str, container: str, yes: bool, as_json: bool) -> None:
    """Delete a container with all its items.

    Asks first, unless --yes is given.

    \b
    Example:
      perseid container delete shop sessions
    """
    path = ResourcePath(database, container)
    if not yes:
        with client.connect() as connection:
            read_resource(connection, path)
        live = client.get("ttl", database, container).value["live"]["items"]
        definitions.ask(f"Delete the {path} with {plural(live, 'live item')}?")
    definitions.delete(client, path, as_json=as_json)
