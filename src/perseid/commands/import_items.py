"""`perseid import`: stores the items of a file in a container and can continue an interrupted run.

The file is read once. Several connections send at the same time, but items with the same id always
use the same connection, so the last of them in the file is the one that is kept. A checkpoint
records up to which item everything is stored. Items after it may be sent again by the next run,
which stores them with the same content.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.arguments import NamedPath
from perseid.commands.checkpoint import Checkpoint, fingerprint, resumable
from perseid.commands.connection import Connection, Refused
from perseid.commands.csv_files import csv_records
from perseid.commands.data_client import check_session
from perseid.commands.import_creation import Creation, creation_options
from perseid.commands.import_dates import check_property, dated
from perseid.commands.import_worker import BATCH_ITEMS, ImportProgress, ImportWorker
from perseid.commands.interruption import INTERRUPTED, interruptible
from perseid.commands.item_files import ItemFile, ItemReader, Record, json_records
from perseid.commands.output import print_json, printable, show_table
from perseid.commands.progress_bar import progress_bar
from perseid.commands.resource_client import container_identity
from perseid.commands.resource_names import NAME
from perseid.commands.time_text import parse_duration
from perseid.documents import strip_system
from perseid.limits import MAX_BODY_BYTES

_READERS: Final[dict[str, ItemReader]] = {"json": json_records, "csv": csv_records}


class ImportSource(NamedTuple):
    """What is imported: a file, or standard input if `path` is None."""

    path: Path | None
    # A pipe such as `<(zcat items.gz)` can be read only once; so can standard input.
    is_rereadable: bool
    read_items: ItemReader
    date_property: str | None  # of --age-from

    @classmethod
    def of(cls, file: Path, file_format: str | None, date_property: str | None) -> ImportSource:
        """What the arguments name; the format follows from the file name if it is not given."""
        path = None if str(file) == "-" else file
        if file_format is None:
            is_csv = file.name.lower().removesuffix(".gz").endswith(".csv")
            file_format = "csv" if is_csv else "json"
        is_rereadable = path is not None and not path.is_fifo()
        return cls(path, is_rereadable, _READERS[file_format], date_property)

    def records(self, item_file: ItemFile) -> Iterator[Record]:
        records = item_file.records(self.read_items)
        return records if self.date_property is None else dated(records, self.date_property)

    def check_exists(self) -> None:
        """FileNotFoundError for a missing file, before a container is created for it."""
        if self.path is not None:
            self.path.stat()


@click.command("import")
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.argument("file", type=NamedPath(allow_dash=True))
@click.option(
    "--format",
    "file_format",
    type=click.Choice(tuple(_READERS)),
    help="JSON (lines, objects or an array), or CSV with a header. Default: csv for FILE.csv,"
    " otherwise json.",
)
@creation_options
@click.option(
    "--existing",
    type=click.Choice(("replace", "skip", "fail")),
    default="replace",
    show_default=True,
    help="What to do with an item whose id exists already.",
)
@click.option(
    "--lifetimes",
    type=click.Choice(("restart", "keep")),
    default="restart",
    show_default=True,
    help="restart: the ttl of each item starts now; keep: it starts at the _ts in the file, so"
    " exported items expire when their originals do. Items that have expired are not stored.",
)
@click.option(
    "--age",
    type=parse_duration,
    default="0",
    metavar="SECONDS",
    help="Store items as if written that long ago: seconds, or 90s, 15m, 2h, 3d, 1w.",
)
@click.option(
    "--age-from",
    metavar="PROPERTY",
    callback=check_property,
    help="Store each item as if written at the date in this property: a text such as 2025-11-18 or"
    " 2025-11-18T12:00:00Z, or seconds since 1970. Implies --lifetimes keep.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 32),
    default=4,
    show_default=True,
    help="Number of requests sent at the same time.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Stop when more items than this were rejected.",
)
@resumable("import", "input")
@server_options
def import_items(
    client: AdminClient,
    *,
    database: str,
    container: str,
    file: Path,
    file_format: str | None,
    creation: Creation | None,
    existing: str,
    lifetimes: str,
    age: float,
    age_from: str | None,
    connections: int,
    max_errors: int,
    checkpoint: Path | None,
    restart: bool,
    as_json: bool,
) -> None:
    """Store the items of FILE in a container.

    FILE contains JSON objects, each on one line or on several, or one JSON array, or CSV with a
    header; plain or gzipped. Use - for standard input. Each item is stored completely or rejected
    with a reason. After Ctrl-C or a failure, run the same command again to continue.

    \b
    Examples:
      perseid import shop orders orders.jsonl.gz
      perseid import shop users users.csv --create --partition-key /id
    """
    options = {"existing": existing, **_lifetime_options(lifetimes, age, age_from)}
    source = ImportSource.of(file, file_format, age_from)
    with client.connect() as connection:
        if creation is not None:
            source.check_exists()
            creation.create_if_missing(connection, database, container)
        target_identity = _target_identity(connection, database, container)
    target = ("_perseid", "import", database, container)
    with closing(ItemFile(source.path)) as item_file:
        checkpoint_file = _checkpoint(source, checkpoint, target_identity)
        earlier_items = 0 if restart else _earlier_items(client, checkpoint_file, target[2:])
        checkpoint_file.check_writable()
        progress = ImportProgress(earlier_items)
        workers = [ImportWorker(client, target, options, progress) for _ in range(connections)]
        is_complete = _transfer(source, item_file, workers, progress, checkpoint_file, max_errors)
    _finish(
        progress, item_file.name, checkpoint_file, earlier_items, max_errors, is_complete, as_json
    )


def _lifetime_options(lifetimes: str, age: float, age_from: str | None) -> dict[str, object]:
    """What the request says about lifetimes; UsageError if the options contradict each other."""
    if age and (lifetimes == "keep" or age_from is not None):
        other = "--lifetimes keep" if age_from is None else "--age-from"
        raise click.UsageError(f"Use {other} or --age, not both.")
    return {"lifetimes": lifetimes if age_from is None else "keep", "age": int(age)}


def _transfer(
    source: ImportSource,
    item_file: ItemFile,
    workers: list[ImportWorker],
    progress: ImportProgress,
    checkpoint_file: Checkpoint,
    max_errors: int,
) -> bool:
    """Sends the items and records how far it came. True if it came to the end of the file."""
    earlier_items = progress.last
    records = source.records(item_file)
    try:
        with interruptible(source.is_rereadable) as stop:
            return _send(
                item_file, records, workers, progress, checkpoint_file,
                stop=stop, max_errors=max_errors,
            )  # fmt: skip
    finally:
        if progress.completed > earlier_items:
            checkpoint_file.save(progress.state)


def _target_identity(connection: Connection, database: str, container: str) -> str:
    try:
        return container_identity(connection, database, container)
    except Refused as exc:
        if exc.status != 404:
            raise
        raise click.ClickException(f"{exc.message} --create creates it.") from exc


def _checkpoint(source: ImportSource, path: Path | None, target_identity: str) -> Checkpoint:
    source_identity = "-"
    if source.path is not None and source.is_rereadable:
        path = path or source.path.with_name(source.path.name + ".import-state")
        source_identity = fingerprint(source.path)
    return Checkpoint(path, {"file": source_identity, "container": target_identity})


def _earlier_items(
    client: AdminClient, checkpoint_file: Checkpoint, container_path: tuple[str, ...]
) -> int:
    """The number of items that earlier runs have completed."""
    state = checkpoint_file.load()
    if state is None:
        return 0
    database, container = container_path
    with client.connect() as connection:
        session = state.get("session")
        check_session(connection, database, container, session, str(checkpoint_file.path))
    done: int = state["done"]
    return done


def _send(
    item_file: ItemFile,
    records: Iterator[Record],
    workers: list[ImportWorker],
    progress: ImportProgress,
    checkpoint_file: Checkpoint,
    *,
    stop: threading.Event,
    max_errors: int,
) -> bool:
    """Reads the file, gives the items to the workers and waits for them. True at the file's end."""
    earlier_items = progress.last
    is_complete = False
    saved_at = time.monotonic()
    for worker in workers:
        worker.start()
    try:
        with progress_bar("importing", item_file.size, earlier_items) as display:
            for record in records:
                if stop.is_set() or progress.failure is not None or progress.rejected > max_errors:
                    break
                if record.number <= earlier_items:
                    continue
                progress.last = record.number
                if (problem := _problem(record)) is not None:
                    progress.reject(record, problem)
                    continue
                _worker_of(record, workers).add(record)
                if record.number % BATCH_ITEMS == 0:
                    display.show(record.number, item_file.position())
                    if time.monotonic() - saved_at > 1:
                        saved_at = time.monotonic()
                        checkpoint_file.save(progress.state)
            else:
                is_complete = True
            for worker in workers:
                worker.finish()
            display.show(progress.last, item_file.position())
    except click.ClickException:  # the file is broken here; the items before are valid
        for worker in workers:
            worker.finish()
        raise
    return is_complete


def _problem(record: Record) -> str | None:
    """Why an item cannot be sent; None if it can."""
    if record.problem is None and _is_too_large(record):
        return "An item can have at most 2 MB."
    return record.problem


def _is_too_large(record: Record) -> bool:
    """True if the item is too large without the system properties that an export adds."""
    text = record.text
    if len(text) > MAX_BODY_BYTES and isinstance(record.value, dict):
        text = strip_system(text.strip())
    return len(text) > MAX_BODY_BYTES


def _worker_of(record: Record, workers: list[ImportWorker]) -> ImportWorker:
    id_ = record.value.get("id") if isinstance(record.value, dict) else None
    return workers[zlib.crc32(str(id_).encode("utf-8", "replace")) % len(workers)]


def _finish(
    progress: ImportProgress,
    file: str,
    checkpoint_file: Checkpoint,
    earlier_items: int,
    max_errors: int,
    is_complete: bool,
    as_json: bool,
) -> None:
    """Reports the result and sets the exit code."""
    if progress.failure is not None:
        raise _failure_error(progress, checkpoint_file)
    if is_complete:
        checkpoint_file.remove()
    _report(progress, file, earlier_items, is_complete, as_json)
    if not is_complete and progress.rejected <= max_errors:
        click.echo(f"Interrupted after item {progress.completed}.{checkpoint_file.hint}", err=True)
        raise SystemExit(INTERRUPTED)
    if not is_complete:
        click.echo(
            f"Stopped after item {progress.completed}: more than {max_errors} items were rejected"
            " (--max-errors).",
            err=True,
        )
    if progress.rejected:
        raise SystemExit(1)


def _failure_error(progress: ImportProgress, checkpoint_file: Checkpoint) -> click.ClickException:
    failure = progress.failure
    text = failure.format_message() if isinstance(failure, click.ClickException) else repr(failure)
    return click.ClickException(
        f"{text} Items up to {progress.completed} are complete.{checkpoint_file.hint}"
    )


def _report(
    progress: ImportProgress, file: str, earlier_items: int, is_complete: bool, as_json: bool
) -> None:
    rejected_lines = sorted(
        progress.rejected_lines, key=lambda rejected_line: int(rejected_line["line"])
    )
    if as_json:
        print_json(
            {
                "complete": is_complete,
                "items": progress.completed,
                "earlierItems": earlier_items,
                **progress.counts,
                "rejected": progress.rejected,
                "rejectedLines": rejected_lines,
            }
        )
        return
    rows: list[tuple[str, object]] = [("items", f"{progress.completed:,}")]
    if earlier_items:
        rows.append(("  by an earlier run", f"{earlier_items:,}"))
    rows += [(f"  {name}", f"{count:,}") for name, count in progress.counts.items() if count]
    if progress.rejected:
        rows.append(("  rejected", f"{progress.rejected:,}"))
    show_table(None, rows)
    for rejected_line in rejected_lines:
        id_text = "" if rejected_line["id"] is None else f" ({rejected_line['id']})"
        place = f"{file}, line {rejected_line['line']}{id_text}"
        click.echo(printable(f"{place}: {rejected_line['message']}"), err=True)
    if progress.rejected > len(rejected_lines):
        click.echo(f"and {progress.rejected - len(rejected_lines)} more", err=True)
