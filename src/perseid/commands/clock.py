"""`perseid clock`: shows a server's time and moves it, and how times are read and written here."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import click

from perseid.commands.admin_client import AdminClient, Answer, admin_options
from perseid.commands.connection import Refused
from perseid.commands.output import print_if_json
from perseid.durations import NUMBER, UNITS, seconds_of, whole

_NUMBER: Final = re.compile(NUMBER, re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds from 90, 90s, 15m, 2h, 3d or 1w."""
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(f"'{text}' is not a duration like 90, 90s, 15m, 2h or 3d.")
    return seconds


def parse_instant(text: str) -> float:
    """Epoch seconds from epoch seconds or an ISO date, which is UTC unless it says otherwise."""
    if _NUMBER.fullmatch(text):
        return whole(float(text))
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"'{text}' is neither seconds since 1970 nor a date like 2030-01-31T12:00:00Z."
        ) from None
    return whole((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())


def instant_text(seconds: float | None) -> str:
    """An instant for people: the date in UTC and the epoch seconds."""
    if seconds is None:
        return "never"
    try:
        date = datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):  # beyond the calendar's last year
        return str(seconds)
    return f"{date:%Y-%m-%d %H:%M:%S}Z ({int(seconds)})"


def duration_text(seconds: float) -> str:
    """A length of time in its two largest units: 1d 2h, 3m 20s, 5s."""
    left, parts = int(seconds), []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


@click.group()
def clock() -> None:
    """Show and move a server's clock.

    The clock decides `_ts` and expiry. It only moves forward, and only if the server was started
    with --test-clock.

    \b
    Examples:
      perseid clock freeze
      perseid clock advance 59m
    """


@clock.command()
@admin_options
def show(client: AdminClient, as_json: bool) -> None:
    """Show the server's time.

    \b
    Example:
      perseid clock show
    """
    _print(client.get("clock"), as_json)


@clock.command()
@admin_options
def freeze(client: AdminClient, as_json: bool) -> None:
    """Make time stand still.

    \b
    Example:
      perseid clock freeze
    """
    _move(client, as_json, "freeze")


@clock.command()
@admin_options
def resume(client: AdminClient, as_json: bool) -> None:
    """Let time run on from where it stands.

    \b
    Example:
      perseid clock resume
    """
    _move(client, as_json, "resume")


@clock.command()
@click.argument("seconds", type=parse_duration)
@admin_options
def advance(client: AdminClient, as_json: bool, seconds: float) -> None:
    """Move time forward by SECONDS, or by 90s, 15m, 2h, 3d, 1w.

    \b
    Example:
      perseid clock advance 15m
    """
    _move(client, as_json, "advance", {"seconds": seconds})


@clock.command("set")
@click.argument("instant", type=parse_instant)
@admin_options
def set_(client: AdminClient, as_json: bool, instant: float) -> None:
    """Move time forward to INSTANT.

    That is seconds since 1970, or an ISO date, which is UTC unless it says otherwise.

    \b
    Example:
      perseid clock set 2030-01-31T12:00:00Z
    """
    _move(client, as_json, "set", {"to": instant})


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
    fixed = "" if value["movable"] else ", cannot be moved"
    click.echo(f"{instant_text(value['now'])}, {_state_text(value)}{fixed}")


def _state_text(value: dict[str, Any]) -> str:
    if value.get("heldUntil") is not None:  # that is now
        return "held until the system's clock gets there"
    return "frozen" if value.get("frozen") else "running"
