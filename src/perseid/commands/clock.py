"""`perseid clock`: shows the clock of a server and moves it forward."""

from __future__ import annotations

from typing import Any

import click

from perseid.commands.admin_client import AdminClient, Answer, admin_options
from perseid.commands.arguments import NegativeArguments
from perseid.commands.connection import Refused
from perseid.commands.output import print_if_json
from perseid.commands.time_text import instant_text, parse_duration, parse_instant


@click.group()
def clock() -> None:
    """Show and move a server's clock.

    The clock determines `_ts` and expiry. It can be moved only forward, and only on a server that
    was started with --test-clock. After a jump of the system clock, confirm or reject the new time.

    \b
    Examples:
      perseid clock freeze
      perseid clock advance 59m
    """


@clock.command()
@admin_options
def show(client: AdminClient, as_json: bool) -> None:
    """Show the time of the server.

    \b
    Example:
      perseid clock show
    """
    _print(client.get("clock"), as_json)


@clock.command()
@admin_options
def freeze(client: AdminClient, as_json: bool) -> None:
    """Stop the clock.

    \b
    Example:
      perseid clock freeze
    """
    _move(client, as_json, "freeze")


@clock.command()
@admin_options
def resume(client: AdminClient, as_json: bool) -> None:
    """Let a stopped clock run again from its current time.

    \b
    Example:
      perseid clock resume
    """
    _move(client, as_json, "resume")


@clock.command(cls=NegativeArguments)
@click.argument("seconds", type=parse_duration)
@admin_options
def advance(client: AdminClient, as_json: bool, seconds: float) -> None:
    """Move the clock forward by SECONDS, or by 90s, 15m, 2h, 3d, 1w.

    \b
    Example:
      perseid clock advance 15m
    """
    _move(client, as_json, "advance", {"seconds": seconds})


@clock.command("set", cls=NegativeArguments)
@click.argument("instant", type=parse_instant)
@admin_options
def set_(client: AdminClient, as_json: bool, instant: float) -> None:
    """Move the clock forward to INSTANT.

    INSTANT is a number of seconds since 1970 or an ISO date. A date without a zone is UTC.

    \b
    Example:
      perseid clock set 2030-01-31T12:00:00Z
    """
    _move(client, as_json, "set", {"to": instant})


@clock.command()
@admin_options
def confirm(client: AdminClient, as_json: bool) -> None:
    """Accept a jump of the system clock.

    Purging continues: items that have expired by the new time are removed.

    \b
    Example:
      perseid clock confirm
    """
    _decide(client, as_json, "confirm-clock")


@clock.command()
@admin_options
def reject(client: AdminClient, as_json: bool) -> None:
    """Undo a jump of the system clock, which has been corrected.

    Time continues from the corrected clock. Items that only the jump had expired are live again.

    \b
    Example:
      perseid clock reject
    """
    _decide(client, as_json, "reject-clock")


def _decide(client: AdminClient, as_json: bool, decision: str) -> None:
    client.post("sweeper", decision)
    _print(client.get("clock"), as_json)


def _move(
    client: AdminClient, as_json: bool, move: str, body: dict[str, Any] | None = None
) -> None:
    try:
        answer = client.post("clock", move, body=body)
    except Refused as exc:
        if exc.status != 404:
            raise
        raise click.ClickException(
            "The clock of this server cannot be moved; start it with --test-clock."
        ) from exc
    _print(answer, as_json)


def _print(answer: Answer, as_json: bool) -> None:
    if print_if_json(answer, as_json):
        return
    value = answer.value
    suffix = "" if value["movable"] else ", cannot be moved"
    click.echo(f"{instant_text(value['now'])}, {_state_text(value)}{suffix}")
    if value.get("alarm"):
        click.echo(f"{value['alarm']}: `perseid clock confirm` or `perseid clock reject`")


def _state_text(value: dict[str, Any]) -> str:
    if value.get("heldUntil") is not None:  # it equals `now`
        return "stopped until the system's clock reaches this time"
    return "frozen" if value.get("frozen") else "running"
