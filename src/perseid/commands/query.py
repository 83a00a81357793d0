"""`perseid query`: runs one query and prints its results, or opens a shell."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.arguments import check_utf8, parameter_option, parse_key, parse_parameter
from perseid.commands.connection import Connection, Refused
from perseid.commands.data_client import QueryPage, query_page
from perseid.commands.output import json_text, plural, print_json, printable, show
from perseid.commands.resource_names import NAME
from perseid.documents import SYSTEM_PROPERTIES

FORMATS: Final = ("table", "json", "lines")
_WIDEST_TABLE: Final = 12  # columns; more are unreadable
_LONGEST_CELL: Final = 200
_WRITES: Final = re.compile(r"\s*(delete|insert|update)\b", re.IGNORECASE)
_HINTS: Final = {  # for statements of SQL that write
    "delete": "Queries only read; delete items with `perseid delete`.",
    "insert": "Queries only read; store items with `perseid import`.",
    "update": "Queries only read; change items with an SDK, or in the portal.",
}
_SYSTEM_COLUMNS: Final = SYSTEM_PROPERTIES - {"_ts"}  # _ts is useful to readers


def parameters_of(text: str) -> list[str]:
    """The parameters of a query; none if its syntax is wrong, which the server will report."""
    if "@" not in text:
        return []
    from perseid.errors import CosmosError
    from perseid.query.lexer import PARAMETER, tokenize  # imported here because it is slow

    try:
        tokens = tokenize(text)
    except CosmosError:
        return []
    return [*dict.fromkeys(token.text for token in tokens if token.kind == PARAMETER)]


@dataclass(slots=True)
class QuerySession:
    """The container to query, the options of the query, and how results are printed."""

    client: AdminClient
    connection: Connection
    database: str | None = None
    container: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    partition_key: list[Any] | None = None
    page_size: int = 100
    output_format: str = "table"

    @property
    def container_path(self) -> tuple[str, str]:
        if self.database is None or self.container is None:
            raise click.UsageError("No container given; pass DATABASE and CONTAINER.")
        return self.database, self.container

    def pages(self, text: str) -> Iterator[QueryPage]:
        self._warn_missing_parameters(text)
        token: str | None = None
        while True:
            page = self._page(text, token)
            yield page
            token = page.continuation
            if token is None:
                return

    def _page(self, text: str, token: str | None) -> QueryPage:
        try:
            return query_page(
                self.connection,
                *self.container_path,
                text,
                self.listed_parameters(),
                partition_key=self.partition_key,
                page_size=self.page_size,
                continuation=token,
            )
        except Refused as exc:
            if exc.status == 400 and (verb := _WRITES.match(text)) is not None:
                raise Refused(400, f"{exc.message} {_HINTS[verb[1].lower()]}") from exc
            raise

    def listed_parameters(self) -> list[dict[str, Any]]:
        return [{"name": name, "value": value} for name, value in self.parameters.items()]

    def _warn_missing_parameters(self, text: str) -> None:
        """A parameter without a value is undefined: the query returns nothing, without an error."""
        missing = [name for name in parameters_of(text) if name not in self.parameters]
        if missing:
            click.echo(f"Missing parameter values: {printable(', '.join(missing))}.", err=True)

    def explain(self, text: str) -> dict[str, Any]:
        self._warn_missing_parameters(text)
        database, container = self.container_path
        body: dict[str, Any] = {
            "database": database,
            "container": container,
            "query": text,
            "parameters": self.listed_parameters(),
            "analyze": True,
        }
        if self.partition_key is not None:
            body["partitionKey"] = self.partition_key
        try:
            return self.client.post("explain", body=body).value
        except Refused as exc:
            if exc.status == 404 and "administration route" in exc.message:
                raise click.ClickException(
                    "This version of the server cannot explain queries."
                ) from exc
            raise


@click.command()
@click.argument("database", type=NAME, required=False)
@click.argument("container", type=NAME, required=False)
@click.argument("text", metavar="[QUERY]", required=False)
@parameter_option
@click.option(
    "--partition-key",
    metavar="JSON",
    help="Query one partition only: '\"ada\"', or '[\"a\", 1]' for a hierarchical key.",
)
@click.option(
    "--page-size",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Maximum number of results per page.",
)
@click.option("--limit", type=click.IntRange(1), help="Maximum number of results in total.")
@click.option("--lines", "as_lines", is_flag=True, help="Print one JSON value per line.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print results, request charge and number of pages as JSON.",
)
@click.option("--explain", "wants_plan", is_flag=True, help="Show how the query is executed.")
@server_options
def query(
    client: AdminClient,
    *,
    database: str | None,
    container: str | None,
    text: str | None,
    parameters: tuple[str, ...],
    partition_key: str | None,
    page_size: int,
    limit: int | None,
    as_lines: bool,
    as_json: bool,
    wants_plan: bool,
) -> None:
    """Query a container; without QUERY, open a shell.

    QUERY is read from standard input if that is not a terminal. The shell keeps a history; .help
    lists its commands.

    \b
    Examples:
      perseid query shop orders 'SELECT TOP 5 * FROM c ORDER BY c.total DESC'
      perseid query shop orders 'SELECT * FROM c WHERE c.user = @u' -p @u=ada --json
      perseid query shop orders
    """
    check_utf8(text, partition_key, *parameters)
    with client.connect() as connection:
        session = QuerySession(
            client,
            connection,
            database,
            container,
            dict(map(parse_parameter, parameters)),
            None if partition_key is None else parse_key(partition_key),
            page_size,
            "json" if as_json else "lines" if as_lines else "table",
        )
        if text is None and sys.stdin.isatty():
            from perseid.commands.query_shell import run_shell

            run_shell(session)
            return
        if text is None:
            text = _read_stdin()
        if not text.strip():
            raise click.UsageError("No query given; pass it as an argument or on standard input.")
        if wants_plan:
            show_plan(session.explain(text), session.output_format)
        else:
            run_query(session, text, limit)


def _read_stdin() -> str:
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"The query on standard input is not {exc.encoding}.") from None
    check_utf8(text)
    return text


def run_query(session: QuerySession, text: str, limit: int | None) -> None:
    """Runs the query up to its last page or `limit`, and prints the results."""
    rows: list[Any] = []
    charge, count, pages = 0.0, 0, 0
    for page in session.pages(text):
        page_rows = page.rows if limit is None else page.rows[: limit - count]
        charge, count, pages = charge + page.charge, count + len(page_rows), pages + 1
        if session.output_format == "lines":
            for row in page_rows:
                print_json(row)
        else:
            rows += page_rows
        if limit is not None and count >= limit:
            break
    PRINTERS[session.output_format](rows, count, charge, pages)


def show_json(rows: list[Any], count: int, charge: float, pages: int) -> None:
    print_json({"items": rows, "count": count, "charge": round(charge, 2), "pages": pages})


def show_lines(_rows: list[Any], _count: int, _charge: float, _pages: int) -> None:
    """Prints nothing: `run_query` prints the lines page by page."""


def show_results(rows: list[Any], count: int, charge: float, pages: int) -> None:
    if rows:
        show(table_of(rows))
    click.echo(f"{plural(count, 'result')}, {charge:.2f} RU, {plural(pages, 'page')}", err=True)


PRINTERS: Final[dict[str, Callable[[list[Any], int, float, int], None]]] = {
    "table": show_results,
    "json": show_json,
    "lines": show_lines,
}


def table_of(rows: list[Any]) -> Any:
    """A column for each property of the results; one column `value` if they are not objects."""
    from rich.table import Table

    names = dict.fromkeys(
        name
        for row in rows
        for name in (_visible_properties(row) if isinstance(row, dict) else ("value",))
    )
    columns = list(names)[:_WIDEST_TABLE]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        table.add_column(printable(name), overflow="fold")
    for row in rows:
        values = row if isinstance(row, dict) else {"value": row}
        table.add_row(*(_cell(values[name]) if name in values else "" for name in columns))
    if len(names) > len(columns):
        table.caption = f"and {len(names) - len(columns)} more properties; --json shows all"
    return table


def _visible_properties(row: dict[str, Any]) -> list[str]:
    """All properties except those that the server adds to complete items."""
    is_item = row.keys() >= _SYSTEM_COLUMNS
    return [name for name in row if not (is_item and name in _SYSTEM_COLUMNS)]


def _cell(value: Any) -> str:
    text = printable(value if isinstance(value, str) else json_text(value))
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def show_plan(plan: dict[str, Any], output_format: str) -> None:
    """The plan as a tree with the number of items examined; as JSON, all fields."""
    if output_format == "table":
        click.echo(plan["tree"])
        if refusal := plan.get("refusal"):
            message = printable(refusal["message"])
            click.echo(f"The cloud service refuses this query: {message}", err=True)
    else:
        print_json(plan)
