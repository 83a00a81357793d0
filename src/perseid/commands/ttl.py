"""`perseid ttl`: shows, previews and undoes the TTL policy of containers on a running server."""

from __future__ import annotations

from typing import Any, Final

import click

from perseid.commands.admin_client import AdminClient, admin_options, server_options
from perseid.commands.arguments import NegativeArguments, parse_key
from perseid.commands.connection import Refused
from perseid.commands.output import (
    json_text,
    print_if_json,
    print_json,
    printable,
    show,
    show_table,
)
from perseid.commands.resource_client import ResourcePath, read_resource, replace_resource
from perseid.commands.resource_names import NAME
from perseid.commands.time_text import (
    duration_text,
    instant_text,
    parse_default_ttl,
    parse_lifetime,
)
from perseid.commands.ttl_output import (
    container_name,
    count_text,
    entry_text,
    policy_text,
    sample_text,
    show_histogram,
)


@click.group()
def ttl() -> None:
    """Show expiry, change or undo a TTL, or purge expired items.

    \b
    Examples:
      perseid ttl status shop sessions
      perseid ttl set shop sessions 30m
    """


@ttl.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@admin_options
def status(client: AdminClient, *, as_json: bool, database: str, container: str) -> None:
    """Show the policy, and live, expired and purged items.

    Pending purge are the expired items that are still on disk; purged in total are those that were
    removed since the container was created.

    \b
    Example:
      perseid ttl status shop sessions
    """
    answer = client.get("ttl", database, container)
    if print_if_json(answer, as_json):
        return
    value = answer.value
    show_table(
        f"{container_name(value)} at {instant_text(value['asOf'])}",
        [
            ("default ttl", policy_text(value["defaultTtl"])),
            ("live", count_text(value["live"])),
            ("  expiring", count_text(value["expiring"])),
            ("  non-expiring", count_text(value["nonExpiring"])),
            ("pending purge", count_text(value["pendingPurge"])),
            (
                "purged in total",
                count_text({"items": value["purgedTotal"], "bytes": value["purgedBytes"]}),
            ),
            ("purge lag", duration_text(value["purgeLagSeconds"])),
            ("next expiry", instant_text(value["nextExpiry"])),
            ("purge hold", duration_text(value["purgeHoldSeconds"])),
            ("guard", value["guard"] or "none"),
            ("policy changes", value["policyChanges"]),
        ],
    )


@ttl.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.option(
    "--default-ttl",
    metavar="SECONDS|none|off",
    required=True,
    help="Seconds (or 15m, 2h, 3d). none or -1: on, only items with a ttl expire. off: TTL is off.",
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
    # Not in the table, which would wrap it: users copy this line.
    click.echo(f"Header to confirm the change: x-perseid-confirm: {value['confirmationToken']}")


@ttl.command("set", cls=NegativeArguments)
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.argument("default_ttl", metavar="SECONDS|none|off")
@click.option(
    "--confirm",
    metavar="TOKEN",
    help="Make a change that the expiry guard refuses; ttl preview prints the token.",
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
    as_json: bool,
) -> None:
    """Change the default ttl of a container.

    SECONDS may also be 15m, 2h or 3d. With none or -1 items never expire by default, only by their
    own ttl. With off no item expires. Items may expire immediately: ttl preview shows how many, and
    ttl undo restores them until they are purged.

    \b
    Examples:
      perseid ttl set shop sessions 30m
      perseid ttl set shop sessions none
    """
    seconds = parse_default_ttl(default_ttl, "SECONDS")
    path = ResourcePath(database, container)
    headers = {} if confirm is None else {"x-perseid-confirm": confirm}
    with client.connect() as connection:
        old = read_resource(connection, path)
        changed = old | {"defaultTtl": seconds}
        try:
            new = replace_resource(connection, path, changed, headers)
        except Refused as exc:
            raise _with_hint(exc) from exc
    if as_json:
        print_json(new)
        return
    texts = [policy_text(each.get("defaultTtl")) for each in (old, new)]
    show_table(f"{database}/{container}", [("default ttl", " -> ".join(texts))])


def _with_hint(refused: Refused) -> Refused:
    """The same refusal; for one of the expiry guard, how to confirm the change."""
    reason, is_guard, _ = refused.message.partition(" To confirm the change")
    if refused.status != 412 or not is_guard:
        return refused
    return Refused(412, f"{reason} To confirm, give --confirm with the token of ttl preview.")


@ttl.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.option(
    "--bucket",
    default="hour",
    show_default=True,
    help="Time span of a bar: second, minute, hour, day, week or year.",
)
@click.option("--count", type=int, default=24, show_default=True, help="Number of bars.")
@admin_options
def forecast(
    client: AdminClient, *, as_json: bool, database: str, container: str, bucket: str, count: int
) -> None:
    """Show upcoming expirations under the current policy.

    \b
    Example:
      perseid ttl forecast shop sessions --bucket minute --count 60
    """
    answer = client.get("ttl", database, container, "forecast", bucket=bucket, count=count)
    if print_if_json(answer, as_json):
        return
    value = answer.value
    show_histogram(f"{container_name(value)} from {instant_text(value['asOf'])}", value["buckets"])
    drain_seconds = value["drainSeconds"]
    show_table(
        None,
        [
            ("expire later", count_text(value["later"])),
            ("non-expiring", count_text(value["nonExpiring"])),
            ("pending purge", count_text(value["pendingPurge"])),
            (
                "time to purge those",
                "unknown" if drain_seconds is None else f"about {duration_text(drain_seconds)}",
            ),
        ],
    )


@ttl.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.argument("id")
@click.option(
    "--partition-key",
    required=True,
    metavar="JSON",
    help="The item's partition key as JSON: '\"a\"', 5, or '[\"a\", 5]' for several levels.",
)
@click.option(
    "--ttl",
    "proposed",
    type=parse_lifetime,
    metavar="SECONDS",
    help="Also show when an item with this ttl would expire.",
)
@admin_options
def explain(
    client: AdminClient,
    *,
    as_json: bool,
    database: str,
    container: str,
    id: str,
    partition_key: str,
    proposed: float | None,
) -> None:
    """Show why an item is live or expired, and when it expires.

    Works for expired items until they are purged. Bodies are not shown.

    \b
    Example:
      perseid ttl explain shop sessions s1 --partition-key '"ada"'
    """
    body: dict[str, Any] = {"id": id, "partitionKey": parse_key(partition_key)}
    if proposed is not None:
        body["ttl"] = proposed
    try:
        answer = client.post("ttl", database, container, "explain", body=body)
    except Refused as exc:
        if exc.status != 404 or not exc.message.startswith(_NO_ITEM):
            raise
        raise click.ClickException(
            "There is no item with this id and partition key, or it has been purged already."
        ) from exc
    if print_if_json(answer, as_json):
        return
    value = answer.value
    rows: list[tuple[str, object]] = [
        ("partition key", json_text(value["partitionKey"])),
        ("last written", instant_text(value["_ts"])),
        ("item ttl", "none" if value["ttl"] is None else value["ttl"]),
        ("state", value["reason"] if value["live"] else f"expired: {value['reason']}"),
        ("TTL source", _TTL_SOURCES[value["rule"]]),
        ("expires at", instant_text(value["expiresAt"])),
    ]
    if value["remainingSeconds"] is not None:
        rows.append(("remaining", duration_text(value["remainingSeconds"])))
    if value["purgePosition"] is not None:
        rows.append(("purged before it", value["purgePosition"]))
    if "proposed" in value:
        expires_at = instant_text(value["proposed"]["expiresAt"])
        rows.append(
            (f"with ttl {value['proposed']['ttl']}, written now", f"expires at {expires_at}")
        )
    show_table(f"{value['id']} at {instant_text(value['asOf'])}", rows)


@ttl.command()
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@admin_options
def undo(client: AdminClient, *, as_json: bool, database: str, container: str) -> None:
    """Undo the last change of the default ttl.

    Items that expired by that change and are not purged yet become live again.

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


@ttl.command()
@click.argument("database", type=NAME, required=False)
@click.argument("container", type=NAME, required=False)
@admin_options
def drain(
    client: AdminClient, *, as_json: bool, database: str | None, container: str | None
) -> None:
    """Purge expired items now and wait until it is done.

    Purges one container, or all containers if none is given.

    \b
    Examples:
      perseid ttl drain shop sessions
      perseid ttl drain
    """
    answer = client.post("ttl", *_scope(database, container), "drain")
    if print_if_json(answer, as_json):
        return
    value = answer.value
    show_table(
        f"{value['purged']} purged",
        [
            (container_name({"container": path}), count)
            for path, count in value["containers"].items()
        ],
    )


@ttl.command()
@click.argument("database", type=NAME, required=False)
@click.argument("container", type=NAME, required=False)
@click.option("--after", type=int, default=0, help="Show only entries after this line.")
@click.option(
    "--limit", type=int, default=100, show_default=True, help="Maximum number of entries."
)
@admin_options
def audit(
    client: AdminClient,
    *,
    as_json: bool,
    database: str | None,
    container: str | None,
    after: int,
    limit: int,
) -> None:
    """Show the audit log of policy changes.

    Shows one container, or all containers if none is given.

    \b
    Example:
      perseid ttl audit shop sessions --limit 10
    """
    answer = client.get("ttl", *_scope(database, container), "audit", after=after, limit=limit)
    if print_if_json(answer, as_json):
        return
    if not answer.value["entries"]:
        click.echo("no policy changes")
        return
    from rich.table import Table

    table = Table("line", "when", "container", "event", "by", "what")
    for entry in answer.value["entries"]:
        table.add_row(
            str(entry["line"]),
            instant_text(entry["ts"]),
            printable(container_name(entry)) if entry.get("container") else entry["containerRid"],
            entry["event"],
            entry.get("caller", ""),
            entry_text(entry),
        )
    show(table)


_NO_ITEM: Final = "Entity with the specified id does not exist"
_OFF: Final = "container (TTL is off)"
_TTL_SOURCES: Final = {  # by rule: the cells of the table in docs/ttl.md, row by row
    "T-020": _OFF, "T-021": "container (no default)", "T-022": "container",
    "T-023": _OFF, "T-024": "item (never expires)", "T-025": "item (never expires)",
    "T-026": _OFF, "T-027": "item", "T-028": "item",
}  # fmt: skip


def _scope(database: str | None, container: str | None) -> tuple[str, ...]:
    if database is None:
        return ()
    if container is None:
        raise click.UsageError("Give a DATABASE and a CONTAINER, or neither.")
    return (database, container)
