"""`perseid delete`: deletes the items of a container that match a condition.

A query finds the items, and each is deleted by itself if it still has the etag that the query
returned. An item that was changed in between is checked again: it may not match any more.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.arguments import check_utf8, parameter_option, parse_key, parse_parameter
from perseid.commands.condition_paths import ConditionPath, condition_paths, has_calls
from perseid.commands.connection import Connection, Refused
from perseid.commands.data_client import delete_item
from perseid.commands.definitions import ask, json_option, yes_option
from perseid.commands.interruption import INTERRUPTED, interruptible
from perseid.commands.output import json_text, plural, print_json, printable
from perseid.commands.progress_bar import ProgressDisplay, progress_bar
from perseid.commands.query import QuerySession, parameters_of
from perseid.commands.resource_client import ResourcePath, read_resource
from perseid.commands.resource_names import NAME
from perseid.partition import parse_definition

_PAGE: Final = 1000
_SAMPLES: Final = 5
_ROUNDS: Final = 3  # how often items that change at the same time are tried
_LOOKED_UP: Final = 5  # properties of the condition: for their values, or if no item has them
_LONGEST_VALUE: Final = 80
_QUERY_WORD: Final = re.compile(r"\s*(select|from|where)\b", re.IGNORECASE)
_UNDEFINED: Final = (
    "A comparison with undefined never matches: a property that is missing, or a function with a "
    "wrong argument, such as AGO with an unknown part."
)
_STATUSES: Final = {204: "deleted", 404: "gone", 412: "changed"}


class MatchedItem(NamedTuple):
    id: str
    partition_key: list[Any]
    etag: str


@dataclass(slots=True)
class DeleteCondition:
    """The items of one container that match, as queries."""

    session: QuerySession
    text: str
    key_paths: tuple[tuple[str, ...], ...]

    def count(self) -> int:
        """Refused with a message about --where if the condition is not valid."""
        try:
            return sum(self._rows("SELECT VALUE COUNT(1)"))
        except Refused as exc:
            if exc.status != 400:
                raise
            reason = f"The condition of --where is not valid: {exc.message}"
            raise Refused(400, f"{reason} Items are called c, as in c.id.") from exc

    def sample(self) -> Iterator[tuple[MatchedItem, dict[str, Any]]]:
        """A few items, with the values of the properties that the condition names."""
        shown = [
            path
            for path in condition_paths(self.text)
            if path.names not in (("id",), *self.key_paths)
        ][:_LOOKED_UP]
        values = "".join(f', "v{number}": {path.text}' for number, path in enumerate(shown))
        for row in islice(self._rows(self._projection(values)), _SAMPLES):
            yield self._item(row), _values(row, shown)

    def missing(self) -> Iterator[ConditionPath]:
        """Properties of the condition that no item has."""
        for path in condition_paths(self.text)[:_LOOKED_UP]:
            query = f"SELECT VALUE COUNT(1) FROM c WHERE IS_DEFINED({path.text})"
            if not sum(sum(page.rows) for page in self.session.pages(query)):
                yield path

    def pages(self) -> Iterator[list[MatchedItem]]:
        for page in self.session.pages(self._query(self._projection())):
            yield [*map(self._item, page.rows)]

    def _rows(self, select: str) -> Iterator[Any]:
        for page in self.session.pages(self._query(select)):
            yield from page.rows

    def _query(self, select: str) -> str:
        # The line break ends a comment in the condition, which would hide the parenthesis.
        return f"{select} FROM c WHERE ({self.text}\n)"

    def _projection(self, values: str = "") -> str:
        paths = ("".join(f"[{json.dumps(name)}]" for name in path) for path in self.key_paths)
        keys = "".join(f', "k{level}": c{path}' for level, path in enumerate(paths))
        return f'SELECT VALUE {{"id": c.id, "etag": c._etag{keys}{values}}}'

    def _item(self, row: dict[str, Any]) -> MatchedItem:
        """Without a value, and with an array or object, the key is `{}` on that level."""
        values = (row.get(f"k{level}", {}) for level in range(len(self.key_paths)))
        key = [{} if isinstance(value, dict | list) else value for value in values]
        return MatchedItem(row["id"], key, row["etag"])


def _values(row: dict[str, Any], shown: list[ConditionPath]) -> dict[str, Any]:
    names = ((path.text, f"v{number}") for number, path in enumerate(shown))
    return {text: row[name] for text, name in names if name in row}


@dataclass(slots=True)
class Deletion:
    """Deletes items over several connections, and counts how that went."""

    container: tuple[str, str]
    connections: list[Connection]
    stop: threading.Event
    display: ProgressDisplay
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_STATUSES.values(), 0))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, condition: DeleteCondition) -> None:
        """Deletes all items that match; those that change meanwhile are looked for again."""
        for _ in range(_ROUNDS):
            self.counts["changed"] = 0
            for page in condition.pages():
                self._delete_page(page)
                if self.stop.is_set():
                    return
            if not self.counts["changed"]:
                return

    def _delete_page(self, page: list[MatchedItem]) -> None:
        share = len(self.connections)
        shares = [page[number::share] for number in range(share)]
        with ThreadPoolExecutor(share) as pool:
            for _ in pool.map(self._delete_share, self.connections, shares):
                pass  # raises what failed in a thread
        self.display.show(self.counts["deleted"], self.counts["deleted"])

    def _delete_share(self, connection: Connection, items: list[MatchedItem]) -> None:
        try:
            for item in items:
                if self.stop.is_set():
                    return
                status = delete_item(connection, self.container, *item)
                with self._lock:
                    self.counts[_STATUSES[status]] += 1
        except BaseException:
            self.stop.set()  # the other threads need not go on
            raise


@click.command("delete")
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.option(
    "--where",
    "condition_text",
    required=True,
    metavar="CONDITION",
    help="Which items to delete, as after WHERE in a query: \"c.created < '2025-11-18'\".",
)
@parameter_option
@click.option(
    "--partition-key",
    metavar="JSON",
    help="Delete in one partition only: '\"ada\"', or '[\"a\", 1]' for a hierarchical key.",
)
@click.option("--dry-run", is_flag=True, help="Show how many items match; delete nothing.")
@click.option(
    "--connections",
    type=click.IntRange(1, 32),
    default=4,
    show_default=True,
    help="Number of requests sent at the same time.",
)
@yes_option
@json_option
@server_options
def delete_items(
    client: AdminClient,
    *,
    database: str,
    container: str,
    condition_text: str,
    parameters: tuple[str, ...],
    partition_key: str | None,
    dry_run: bool,
    connections: int,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete the items that match a condition.

    CONDITION is what follows WHERE in a query; items are called c. Asks first, unless --yes is
    given. An item that is changed while the command runs is deleted only if it still matches.

    \b
    Examples:
      perseid delete shop orders --where "c.created < '2025-11-18'" --dry-run
      perseid delete shop orders --where "c.created < '2025-11-18'"
    """
    check_utf8(condition_text, partition_key, *parameters)
    values = dict(map(parse_parameter, parameters))
    _check_condition(condition_text, values)
    path = ResourcePath(database, container)
    key = None if partition_key is None else parse_key(partition_key)
    with client.connect() as connection:
        definition = parse_definition(read_resource(connection, path)["partitionKey"])
        session = QuerySession(client, connection, database, container, values, key, _PAGE)
        condition = DeleteCondition(session, condition_text, definition.tokens)
        matched = condition.count()
        if dry_run:
            _show_matches(condition, matched, as_json=as_json)
        else:
            if matched and not yes:
                ask(f"Delete {plural(matched, 'item')} of the {path}?")
            _delete(client, condition, matched, connections, as_json=as_json)
        if not matched:
            _explain_no_match(condition)


def _check_condition(text: str, values: dict[str, Any]) -> None:
    if not text.strip():
        raise click.UsageError("--where is empty; to delete all items, give --where true.")
    if (word := _QUERY_WORD.match(text)) is not None:
        raise click.UsageError(
            f"--where begins with {word[1].upper()}; give only what follows WHERE, "
            "as in \"c.created < '2025-11-18'\"."
        )
    missing = [name for name in parameters_of(text) if name not in values]
    if missing:
        raise click.UsageError(
            f"--where has parameters without a value: {printable(', '.join(missing))}."
        )


def _show_matches(condition: DeleteCondition, matched: int, *, as_json: bool) -> None:
    sample = [*condition.sample()]
    if as_json:
        listed = [
            {"id": item.id, "partitionKey": item.partition_key, "values": values}
            for item, values in sample
        ]
        print_json({"matched": matched, "sample": listed})
        return
    verb = "matches" if matched == 1 else "match"
    click.echo(f"{plural(matched, 'item')} {verb}; nothing was deleted.")
    for item, values in sample:
        shown = "".join(f" {name}={_short(value)}" for name, value in values.items())
        click.echo(printable(f"  {item.id} {json_text(item.partition_key)}{shown}"))
    if matched > len(sample):
        click.echo(f"  and {matched - len(sample):,} more")


def _short(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _explain_no_match(condition: DeleteCondition) -> None:
    """Names on standard error what may be wrong with a condition that is valid."""
    items = "No item" if condition.session.partition_key is None else "No item of the partition"
    missing = [*condition.missing()]
    for path in missing:
        click.echo(printable(f"{items} has {path.text}."), err=True)
    if missing or has_calls(condition.text):
        click.echo(_UNDEFINED, err=True)


def _delete(
    client: AdminClient,
    condition: DeleteCondition,
    matched: int,
    connections: int,
    *,
    as_json: bool,
) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(client.connect()) for _ in range(connections)]
        stop = stack.enter_context(interruptible(True))
        display = stack.enter_context(progress_bar("deleting", matched))
        deletion = Deletion(condition.session.container_path, opened, stop, display)
        try:
            if matched:
                deletion.run(condition)
        except click.ClickException as exc:
            deleted = plural(deletion.counts["deleted"], "item")
            raise click.ClickException(
                f"{exc.format_message()} {deleted} deleted before that."
            ) from exc
    _report(deletion.counts, is_complete=not stop.is_set(), matched=matched, as_json=as_json)


def _report(counts: dict[str, int], *, is_complete: bool, matched: int, as_json: bool) -> None:
    """Prints the result and sets the exit code."""
    gone, changed = counts["gone"], counts["changed"]
    if as_json:
        print_json({"complete": is_complete, **counts})
    elif not matched:
        click.echo("No item matches.")
    else:
        click.echo(f"{plural(counts['deleted'], 'item')} deleted.")
        if gone:
            verb = "was" if gone == 1 else "were"
            click.echo(f"{plural(gone, 'item')} {verb} gone already.", err=True)
    if not is_complete:
        click.echo("Interrupted. Run the same command again to continue.", err=True)
        raise SystemExit(INTERRUPTED)
    if changed:
        which = (
            "it was to be deleted, and was" if changed == 1 else "they were to be deleted, and were"
        )
        click.echo(f"{plural(changed, 'item')} changed while {which} kept.", err=True)
        raise SystemExit(1)
