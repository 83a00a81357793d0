"""`perseid ttl preview`, `set` and `undo`: changes of the default ttl of a container."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from perseid.commands.admin_client import AdminClient, admin_options, server_options
from perseid.commands.arguments import NegativeArguments
from perseid.commands.connection import Refused
from perseid.commands.output import plural, print_if_json, print_json, show_table
from perseid.commands.resource_client import ResourcePath, read_resource, replace_resource
from perseid.commands.resource_names import NAME
from perseid.commands.time_text import (
    duration_text,
    instant_text,
    parse_default_ttl,
    parse_duration,
)
from perseid.commands.ttl_output import (
    container_name,
    count_text,
    policy_text,
    sample_text,
    show_histogram,
)


@click.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.option(
    "--default-ttl",
    metavar="SECONDS|none|off",
    required=True,
    help="Seconds (or 15m, 2h, 3d, 1w). none or -1: on, only items with a ttl expire. off: TTL is"
    " off.",
)
@admin_options
def preview(
    client: AdminClient, *, as_json: bool, database: str, container: str, default_ttl: str
) -> None:
    """Show what another default ttl would change.

    The container itself is not changed.

    \b
    Examples:
      perseid ttl preview shop sessions --default-ttl 30m
      perseid ttl preview shop sessions --default-ttl off
    """
    proposed = parse_default_ttl(default_ttl)
    answer = client.post("ttl", database, container, "preview", body={"defaultTtl": proposed})
    if print_if_json(answer, as_json):
        return
    value = answer.value
    expires_now = value["expiresNow"]
    show_table(
        f"{container_name(value)} at {instant_text(value['asOf'])}",
        [
            (
                "default ttl",
                f"{policy_text(value['defaultTtl'])} -> {policy_text(proposed)}",
            ),
            ("would expire immediately", count_text(expires_now)),
            *(
                [
                    ("  oldest", instant_text(expires_now["oldestTs"])),
                    ("  newest", instant_text(expires_now["newestTs"])),
                    ("  examples", sample_text(value["sample"])),
                ]
                if expires_now["items"]
                else []
            ),
            ("would gain an expiry", value["gainsExpiry"]),
            ("would lose their expiry", value["losesExpiry"]),
            ("pending purge", count_text(value["pendingPurge"])),
            ("invalid ttl values", value["invalidTtl"]),
        ],
    )
    if value["histogram"]:
        show_histogram("Expirations of live items under the new policy", value["histogram"])
    if (guard := value.get("guard")) is not None:
        # Not in the table, which would wrap the token: users copy these lines.
        click.echo(f"The expiry guard allows {guard}. To confirm a change that it refuses, give to")
        click.echo(f"`perseid ttl set`:  --confirm {value['confirmationToken']}")
        click.echo(f"or send the header: x-perseid-confirm: {value['confirmationToken']}")


@click.command("set", cls=NegativeArguments)
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.argument("default_ttl", metavar="SECONDS|none|off")
@click.option(
    "--confirm",
    metavar="TOKEN",
    help="Make a change that the expiry guard refuses; ttl preview prints the token.",
)
@click.option(
    "--hold",
    type=parse_duration,
    metavar="SECONDS",
    help="First set the purge hold of the container: keep expired items on disk for that long, so"
    " that ttl undo can restore them. Seconds, or 90s, 15m, 2h, 3d, 1w.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the new definition as JSON.")
@server_options
def set_(
    client: AdminClient,
    *,
    database: str,
    container: str,
    default_ttl: str,
    confirm: str | None,
    hold: float | None,
    as_json: bool,
) -> None:
    """Change the default ttl of a container.

    SECONDS may also be 15m, 2h, 3d or 1w. With none or -1 items never expire by default, only by
    their own ttl. With off no item expires. Items may expire immediately: ttl preview shows how
    many. They are purged within seconds while the server is idle, and ttl undo cannot restore
    purged items: --hold 1h leaves an hour for it.

    \b
    Examples:
      perseid ttl set shop sessions 30m --hold 1h
      perseid ttl set shop sessions none
    """
    seconds = parse_default_ttl(default_ttl, "SECONDS")
    path = ResourcePath(database, container)
    headers = {} if confirm is None else {"x-perseid-confirm": confirm}
    with client.connect() as connection:
        old = read_resource(connection, path)
        # Also checks the new value, before the hold is set.
        expires_now = _effect(client, path, seconds)["expiresNow"]
        with _purge_hold(client, path, hold):
            try:
                new = replace_resource(connection, path, old | {"defaultTtl": seconds}, headers)
            except Refused as exc:
                raise _with_hint(exc) from exc
    if as_json:
        print_json(new)
        return
    texts = [policy_text(each.get("defaultTtl")) for each in (old, new)]
    rows = [
        ("default ttl", " -> ".join(texts)),
        ("expired immediately", count_text(expires_now)),
    ]
    if hold is not None:
        rows.append(("purge hold", duration_text(hold)))
    show_table(f"{database}/{container}", rows)


def _effect(client: AdminClient, path: ResourcePath, seconds: float | None) -> dict[str, Any]:
    """The preview of a change."""
    return client.post("ttl", *filter(None, path), "preview", body={"defaultTtl": seconds}).value


@contextmanager
def _purge_hold(client: AdminClient, path: ResourcePath, hold: float | None) -> Iterator[None]:
    """Sets the purge hold; sets it back if the change in the block is refused."""
    if hold is None:
        yield
        return
    names = ("ttl", *filter(None, path))
    earlier = client.get(*names).value["purgeHoldSeconds"]
    client.put(*names, body={"purgeHoldSeconds": hold})
    try:
        yield
    except Refused:
        client.put(*names, body={"purgeHoldSeconds": earlier})
        raise


def _with_hint(refused: Refused) -> Refused:
    """The same refusal; for one of the expiry guard, how to confirm the change."""
    reason, is_guard, _ = refused.message.partition(" To confirm the change")
    if refused.status != 412 or not is_guard:
        return refused
    return Refused(412, f"{reason} To confirm, give --confirm with the token of ttl preview.")


@click.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@admin_options
def undo(client: AdminClient, *, as_json: bool, database: str, container: str) -> None:
    """Undo the last change of the default ttl.

    Items that expired by that change become live again unless they are purged, which happens
    within seconds while the server is idle: ttl set --hold delays it.

    \b
    Example:
      perseid ttl undo shop sessions
    """
    answer = client.post("ttl", database, container, "undo")
    if print_if_json(answer, as_json):
        return
    value = answer.value
    purged = value["alreadyPurged"]
    show_table(
        container_name(value),
        [
            ("default ttl", policy_text(value["defaultTtl"])),
            ("restored", count_text(value["restored"])),
            ("already purged", "unknown" if purged is None else purged),
        ],
    )
    if purged:
        click.echo(f"The policy is restored. Purged already and gone: {plural(purged, 'item')}.")
