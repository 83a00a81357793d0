"""`perseid ttl`: what a lifetime policy does, would do and has done, asked of a running server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import click

from perseid.commands.admin_client import AdminClient, admin_options
from perseid.commands.arguments import parse_key
from perseid.commands.connection import Refused
from perseid.commands.output import (
    bytes_text,
    console,
    json_text,
    plural,
    print_if_json,
    printable,
    show,
    show_table,
)
from perseid.commands.time_text import duration_text, instant_text, parse_duration

_BAR_WIDTH: Final = 24


def parse_lifetime(text: str) -> float:
    """Seconds from a duration, or -1 for a life without end."""
    return -1 if text == "-1" else parse_duration(text)


def parse_default_ttl(text: str) -> float | None:
    """A container's setting: a lifetime, `none` for on without a default, `off` for None."""
    word = text.lower()
    try:
        return None if word == "off" else parse_lifetime("-1" if word == "none" else text)
    except click.BadParameter:
        raise click.BadParameter(
            f"'{text}' is not a duration like 90, 90s, 15m, 2h or 3d, nor -1, none or off.",
            param_hint="--default-ttl",
        ) from None


@click.group()
def ttl() -> None:
    """Look at lifetimes, and undo or hasten their ends.

    \b
    Examples:
      perseid ttl status shop sessions
      perseid ttl audit
    """


@ttl.command()
@click.argument("database")
@click.argument("container")
@admin_options
def status(client: AdminClient, *, as_json: bool, database: str, container: str) -> None:
    """Show the policy, the living, and the dead not removed yet.

    \b
    Example:
      perseid ttl status shop sessions
    """
    answer = client.get("ttl", database, container)
    if print_if_json(answer, as_json):
        return
    value = answer.value
    show_table(
        f"{_name(value)} at {instant_text(value['asOf'])}",
        [
            ("default ttl", _policy_text(value["defaultTtl"])),
            ("live", _count_text(value["live"])),
            ("  will expire", _count_text(value["expiring"])),
            ("  never expire", _count_text(value["nonExpiring"])),
            ("dead, not removed yet", _count_text(value["pendingPurge"])),
            ("longest dead for", duration_text(value["purgeLagSeconds"])),
            ("next expiry", instant_text(value["nextExpiry"])),
            ("purge hold", duration_text(value["purgeHoldSeconds"])),
            ("guard", value["guard"] or "none"),
            ("policy changes", value["policyChanges"]),
        ],
    )


@ttl.command()
@click.argument("database")
@click.argument("container")
@click.option(
    "--default-ttl",
    metavar="SECONDS|none|off",
    required=True,
    help="Seconds (or 15m, 2h, 3d); none or -1: on, but only items set lifetimes; off.",
)
@admin_options
def preview(
    client: AdminClient, *, as_json: bool, database: str, container: str, default_ttl: str
) -> None:
    """Show what another default ttl would do now.

    Nothing is changed.

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
        f"{_name(value)} at {instant_text(value['asOf'])}",
        [
            (
                "default ttl",
                f"{_policy_text(value['defaultTtl'])} -> {_policy_text(proposed)}",
            ),
            ("would die at once", _count_text(expires_now)),
            *(
                [
                    ("  oldest of them", instant_text(expires_now["oldestTs"])),
                    ("  newest of them", instant_text(expires_now["newestTs"])),
                    ("  first of them", _sample_text(value["sample"])),
                ]
                if expires_now["items"]
                else []
            ),
            ("would become mortal", value["gainsExpiry"]),
            ("would become immortal", value["losesExpiry"]),
            ("dead already", _count_text(value["pendingPurge"])),
            ("ttl stored but invalid", value["invalidTtl"]),
        ],
    )
    if value["histogram"]:
        _histogram("Ends of the living under the new policy", value["histogram"])
    # Not in the table, which would fold it: it is there to be copied.
    click.echo(f"To confirm against a guard: x-perseid-confirm: {value['confirmationToken']}")


@ttl.command()
@click.argument("database")
@click.argument("container")
@click.option(
    "--bucket",
    default="hour",
    show_default=True,
    help="Width of a bar: second, minute, hour, day, week or year.",
)
@click.option("--count", type=int, default=24, show_default=True, help="Number of bars.")
@admin_options
def forecast(
    client: AdminClient, *, as_json: bool, database: str, container: str, bucket: str, count: int
) -> None:
    """Show who dies when, under the policy as it is.

    \b
    Example:
      perseid ttl forecast shop sessions --bucket minute --count 60
    """
    answer = client.get("ttl", database, container, "forecast", bucket=bucket, count=count)
    if print_if_json(answer, as_json):
        return
    value = answer.value
    _histogram(f"{_name(value)} from {instant_text(value['asOf'])}", value["buckets"])
    drain_seconds = value["drainSeconds"]
    show_table(
        None,
        [
            ("die later", _count_text(value["later"])),
            ("never die", _count_text(value["nonExpiring"])),
            ("dead, not removed yet", _count_text(value["pendingPurge"])),
            (
                "removing those takes",
                "unknown yet" if drain_seconds is None else f"about {duration_text(drain_seconds)}",
            ),
        ],
    )


@ttl.command()
@click.argument("database")
@click.argument("container")
@click.argument("id")
@click.option(
    "--partition-key",
    required=True,
    help="The item's partition key as JSON: '\"a\"', 5, or '[\"a\", 5]' for several levels.",
)
@click.option(
    "--ttl",
    "proposed",
    type=parse_lifetime,
    metavar="SECONDS",
    help="Also: when an item with this ttl ends.",
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
    """Say why an item is alive or dead, and until when.

    Those that are dead and not removed yet too; never their bodies.

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
            "There is no such item under this id and partition key, or it has been removed already."
        ) from exc
    if print_if_json(answer, as_json):
        return
    value = answer.value
    rows: list[tuple[str, object]] = [
        ("partition key", json_text(value["partitionKey"])),
        ("last written", instant_text(value["_ts"])),
        ("its own ttl", "none" if value["ttl"] is None else value["ttl"]),
        ("state", value["reason"] if value["live"] else f"dead: {value['reason']}"),
        ("decided by", _DECIDED_BY[value["rule"]]),
        ("ends", instant_text(value["expiresAt"])),
    ]
    if value["remainingSeconds"] is not None:
        rows.append(("remaining", duration_text(value["remainingSeconds"])))
    if value["purgePosition"] is not None:
        rows.append(("removed before it", value["purgePosition"]))
    if "proposed" in value:
        ends = instant_text(value["proposed"]["expiresAt"])
        rows.append((f"with ttl {value['proposed']['ttl']}, written now", f"ends {ends}"))
    show_table(f"{value['id']} at {instant_text(value['asOf'])}", rows)


@ttl.command()
@click.argument("database")
@click.argument("container")
@admin_options
def undo(client: AdminClient, *, as_json: bool, database: str, container: str) -> None:
    """Revert the last change of the default ttl.

    What that has ended and is not removed yet lives again.

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
        _name(value),
        [
            ("default ttl", _policy_text(value["defaultTtl"])),
            ("live again", _count_text(value["restored"])),
            ("removed already", "not known" if purged is None else purged),
        ],
    )


@ttl.command()
@click.argument("database", required=False)
@click.argument("container", required=False)
@admin_options
def drain(
    client: AdminClient, *, as_json: bool, database: str | None, container: str | None
) -> None:
    """Remove everything dead now, and wait for it.

    In one container, or in all of them.

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
        f"{value['purged']} removed",
        [(_name({"container": path}), count) for path, count in value["containers"].items()],
    )


@ttl.command()
@click.argument("database", required=False)
@click.argument("container", required=False)
@click.option("--after", type=int, default=0, help="Only lines behind this one.")
@click.option("--limit", type=int, default=100, show_default=True, help="At most so many lines.")
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
    """Show the log of policy changes.

    Of one container, or of all of them.

    \b
    Example:
      perseid ttl audit shop sessions --limit 10
    """
    answer = client.get("ttl", *_scope(database, container), "audit", after=after, limit=limit)
    if print_if_json(answer, as_json):
        return
    if not answer.value["entries"]:
        click.echo("no changes")
        return
    from rich.table import Table

    table = Table("line", "when", "container", "event", "by", "what")
    for entry in answer.value["entries"]:
        table.add_row(
            str(entry["line"]),
            instant_text(entry["ts"]),
            printable(_name(entry)) if entry.get("container") else entry["containerRid"],
            entry["event"],
            entry.get("caller", ""),
            _entry_text(entry),
        )
    show(table)


_NO_ITEM: Final = "Entity with the specified id does not exist"
_OFF: Final = "the container: time to live is off"
_DECIDED_BY: Final = {  # by the cell of the matrix in docs/ttl.md, row by row
    "T-020": _OFF, "T-021": "the container: it sets no lifetime", "T-022": "the container",
    "T-023": _OFF, "T-024": "the item: it never ends", "T-025": "the item: it never ends",
    "T-026": _OFF, "T-027": "the item", "T-028": "the item",
}  # fmt: skip


def _scope(database: str | None, container: str | None) -> tuple[str, ...]:
    if database is None:
        return ()
    if container is None:
        raise click.UsageError("Give a DATABASE and a CONTAINER, or neither.")
    return (database, container)


# How things are shown


def _histogram(title: str, bars: Sequence[Mapping[str, Any]]) -> None:
    """A line for each bar, from first to last, as long as its items are many."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table(
        title=printable(title),
        title_justify="left",
        title_style="bold",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("from")
    table.add_column("items", justify="right", no_wrap=True)
    table.add_column("bytes", justify="right", no_wrap=True)
    rows = [
        (instant_text(bar["from"]), str(bar["items"]), bytes_text(bar["bytes"])) for bar in bars
    ]
    if not _has_room_for_bars(rows):  # the figures are what counts
        for row in rows:
            table.add_row(*row)
        show(table)
        return
    table.add_column(no_wrap=True)
    most = max((bar["items"] for bar in bars), default=0) or 1
    least = most / (2 * _BAR_WIDTH)  # half a cell: what is there can be seen
    for bar, row in zip(bars, rows, strict=True):
        items = bar["items"]
        length = max(items, least) if items else 0
        bar_cell = ProgressBar(
            total=most, completed=length, width=_BAR_WIDTH, finished_style="bar.complete"
        )
        table.add_row(*row, bar_cell)
    show(table)


def _has_room_for_bars(rows: Sequence[tuple[str, ...]]) -> bool:
    widths = (max(map(len, column)) for column in zip(*rows, strict=True))
    return sum(max(width, 5) + 2 for width in widths) + _BAR_WIDTH <= console().width


def _name(value: Mapping[str, Any]) -> str:
    """`database/container` from the path that answers carry."""
    _, database, _, container = value["container"].split("/")
    return f"{unquote(database)}/{unquote(container)}"


def _policy_text(default_ttl: float | None) -> str:
    if default_ttl is None:
        return "off"
    if default_ttl == -1:
        return "on, no default"
    return f"{default_ttl} s ({duration_text(default_ttl)})"


def _count_text(count: Mapping[str, int]) -> str:
    return f"{plural(count['items'], 'item')}, {bytes_text(count['bytes'])}"


def _sample_text(sample: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['id']} {json_text(each['partitionKey'])}" for each in sample)


def _entry_text(entry: Mapping[str, Any]) -> str:
    """What an audit line says beyond who and when."""
    parts = []
    if "defaultTtl" in entry:
        old, new = (_policy_text(entry["defaultTtl"][side]) for side in ("old", "new"))
        parts.append(f"{old} -> {new}")
    for name, text in (("expiredImmediately", "died at once"), ("restored", "live again")):
        if name in entry:
            parts.append(f"{text}: {_count_text(entry[name])}")
    for name, text in _SETTINGS.items():
        if name in entry:
            parts.append(f"{text}: {entry[name]}")
    return printable("; ".join(parts))


_SETTINGS: Final = {
    "alreadyPurged": "removed already",
    "purgeHoldSeconds": "purge hold",
    "guard": "guard",
}
