"""`perseid ttl`: shows, previews and undoes the TTL policy of containers on a running server."""

from __future__ import annotations

from typing import Any, Final

import click

from perseid.commands.admin_client import AdminClient, admin_options
from perseid.commands.arguments import parse_key
from perseid.commands.connection import Refused
from perseid.commands.output import (
    json_text,
    print_if_json,
    printable,
    show,
    show_table,
)
from perseid.commands.resource_names import NAME
from perseid.commands.time_text import (
    duration_text,
    instant_text,
    parse_lifetime,
)
from perseid.commands.ttl_changes import preview, set_, undo
from perseid.commands.ttl_output import (
    container_name,
    count_text,
    entry_text,
    policy_text,
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


for _command in (preview, set_, undo):
    ttl.add_command(_command)


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
