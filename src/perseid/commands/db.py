"""`perseid db`: lists, creates, shows and deletes databases."""

from __future__ import annotations

import click

from perseid.commands import definitions
from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.definitions import json_option, throughput_option, yes_option
from perseid.commands.output import plural, print_json, printable, show_table
from perseid.commands.resource_client import (
    ResourcePath,
    container_names,
    read_databases,
    read_resource,
    read_throughput,
)
from perseid.commands.resource_names import NAME


@click.group()
def db() -> None:
    """List, create, show or delete databases.

    \b
    Examples:
      perseid db create shop
      perseid db list
    """


@db.command("list")
@json_option
@server_options
def list_(client: AdminClient, *, as_json: bool) -> None:
    """List the databases, one name per line.

    \b
    Example:
      perseid db list
    """
    with client.connect() as connection:
        databases = list(read_databases(connection))
    if as_json:
        print_json({"databases": databases})
        return
    for each in databases:
        click.echo(printable(each["id"]))
    if not databases:
        click.echo("There are no databases; `perseid db create NAME` creates one.", err=True)


@db.command()
@click.argument("database", type=NAME)
@throughput_option
@json_option
@server_options
def create(client: AdminClient, *, database: str, throughput: int | None, as_json: bool) -> None:
    """Create a database.

    With --throughput its containers share these request units.

    \b
    Example:
      perseid db create shop
    """
    definitions.create(client, ResourcePath(database), {}, throughput, as_json=as_json)


@db.command()
@click.argument("database", type=NAME)
@json_option
@server_options
def show(client: AdminClient, *, database: str, as_json: bool) -> None:
    """Show the containers and the throughput of a database.

    \b
    Example:
      perseid db show shop
    """
    with client.connect() as connection:
        definition = read_resource(connection, ResourcePath(database))
        names = container_names(connection, database)
        throughput = read_throughput(connection, definition["_rid"])
    if as_json:
        print_json(definition | {"containers": names, "throughput": throughput})
        return
    show_table(
        database,
        [
            ("containers", ", ".join(names) or "none"),
            ("shared throughput", definitions.throughput_text(throughput, "none")),
            definitions.changed_row(definition),
        ],
    )


@db.command()
@click.argument("database", type=NAME)
@yes_option
@json_option
@server_options
def delete(client: AdminClient, *, database: str, yes: bool, as_json: bool) -> None:
    """Delete a database with all its containers and items.

    Asks first, unless --yes is given.

    \b
    Example:
      perseid db delete shop
    """
    path = ResourcePath(database)
    if not yes:
        with client.connect() as connection:
            names = container_names(connection, database)
        containers = plural(len(names), "container")
        definitions.ask(f"Delete the {path} with its {containers} and all their items?")
    definitions.delete(client, path, as_json=as_json)
