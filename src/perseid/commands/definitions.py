"""What `perseid db`, `perseid container` and `import --create` share: options and output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import click

from perseid.commands.admin_client import AdminClient
from perseid.commands.output import json_text, print_json, printable
from perseid.commands.resource_client import ResourcePath, create_resource, delete_resource
from perseid.commands.time_text import instant_text
from perseid.commands.ttl_output import policy_text

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_TTL_HELP: Final = (
    "Seconds, or 15m, 2h, 3d, 1w. none or -1: items never expire by default, only by their own ttl."
    " off: no item expires."
)
PARTITION_KEY_HELP: Final = (
    "Path of the partition key, such as /user. Repeat it for a hierarchical key."
)
_SHOWN_APART: Final = frozenset((
    "id", "partitionKey", "defaultTtl", "indexingPolicy", "uniqueKeyPolicy",
    "conflictResolutionPolicy", "geospatialConfig",
))  # fmt: skip


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")(
        command
    )


def throughput_option(command: F) -> F:
    return click.option(
        "--throughput",
        type=int,
        metavar="RU",
        help="Request units per second, from 400 in steps of 100.",
    )(command)


def yes_option(command: F) -> F:
    return click.option("-y", "--yes", is_flag=True, help="Delete without asking.")(command)


def key_definition(paths: tuple[str, ...]) -> dict[str, Any]:
    """The `partitionKey` of a container; click.BadParameter for what cannot be a path."""
    for path in paths:
        if not path.startswith("/") or path == "/":
            raise click.BadParameter(
                f"'{path}' is not a path; it starts with a slash, such as '/user'.",
                param_hint="--partition-key",
            )
    kind = "Hash" if len(paths) == 1 else "MultiHash"
    return {"paths": list(paths), "kind": kind, "version": 2}


def create(
    client: AdminClient,
    path: ResourcePath,
    properties: dict[str, Any],
    throughput: int | None,
    *,
    as_json: bool,
) -> None:
    """Creates a database or container and reports it."""
    with client.connect() as connection:
        definition = create_resource(connection, path, properties, throughput)
    if as_json:
        print_json(definition)
    else:
        click.echo(f"Created the {path}.")


def delete(client: AdminClient, path: ResourcePath, *, as_json: bool) -> None:
    with client.connect() as connection:
        delete_resource(connection, path)
    if as_json:
        print_json({"deleted": "/".join(filter(None, path))})
    else:
        click.echo(f"Deleted the {path}.")


def ask(question: str) -> None:
    """click.ClickException unless the answer is yes; Ctrl-C interrupts as everywhere."""
    click.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = sys.stdin.readline()
    if not answer:  # standard input is closed or empty
        click.echo(err=True)
        raise click.ClickException("Nothing was deleted; give --yes to delete without asking.")
    if answer.strip().lower() not in ("y", "yes"):
        raise click.ClickException("Nothing was deleted.")


def key_text(definition: dict[str, Any]) -> str:
    key = definition.get("partitionKey", {})
    is_hidden = key.get("systemKey", False)
    return "none" if is_hidden else ", ".join(map(printable, key.get("paths", ())))


def throughput_text(throughput: dict[str, Any] | None, otherwise: str) -> str:
    match throughput:
        case {"manual": units}:
            return f"{units:,} RU/s"
        case {"autoscaleMax": units}:
            return f"up to {units:,} RU/s (autoscale)"
        case _:
            return otherwise


def definition_rows(definition: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """The definition of a container, a line for each property that a user can set."""
    yield "partition key", key_text(definition)
    yield "default ttl", policy_text(definition.get("defaultTtl"))
    unique_keys = definition.get("uniqueKeyPolicy", {}).get("uniqueKeys", ())
    yield "unique keys", "; ".join(" + ".join(each["paths"]) for each in unique_keys) or "none"
    indexing = definition.get("indexingPolicy", {})
    yield "indexing", indexing.get("indexingMode", "none")
    for name, title in (("includedPaths", "  included"), ("excludedPaths", "  excluded")):
        if indexing.get(name):
            yield title, ", ".join(str(each["path"]) for each in indexing[name])
    for name, value in indexing.items():
        if value and name not in ("indexingMode", "automatic", "includedPaths", "excludedPaths"):
            yield f"  {name}", json_text(value)
    conflicts = definition.get("conflictResolutionPolicy", {})
    yield "conflict resolution", ", ".join(str(each) for each in conflicts.values() if each)
    if (geospatial := definition.get("geospatialConfig", {}).get("type")) is not None:
        yield "geospatial type", geospatial
    for name, value in definition.items():
        if not name.startswith("_") and name not in _SHOWN_APART:
            yield name, value if isinstance(value, str) else json_text(value)


def changed_row(definition: dict[str, Any]) -> tuple[str, object]:
    return "definition changed", instant_text(definition["_ts"])
