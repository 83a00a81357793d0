"""`perseid import`: items from a file into a container, fast, and resumable after an interruption.

The file is read once. Several connections send at a time, but items with the same id always take
the same one, so the last of them in the file is the one that stays. A checkpoint tells how far
everything has arrived; what was sent beyond it is sent again, and becomes what it was.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.checkpoint import Checkpoint, fingerprint, resumable
from perseid.commands.clock import parse_duration
from perseid.commands.data_client import SESSION, check_session, container_identity
from perseid.commands.item_files import ItemFile, Record
from perseid.commands.output import print_json, printable, show_table
from perseid.commands.path_type import NamedPath
from perseid.commands.progress_bar import progress_bar
from perseid.documents import strip_system
from perseid.limits import MAX_BODY_BYTES

_BATCH: Final = 256
_BATCH_BYTES: Final = 1024 * 1024
_MAX_REJECTED_SHOWN: Final = 20
_COUNTS: Final = ("created", "replaced", "skipped", "expired")
INTERRUPTED: Final = 130


@dataclass(slots=True)
class Batch:
    """Records that travel in one request."""

    first: int
    records: list[Record] = field(default_factory=list)
    size: int = 0

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.size += len(record.text) + 1

    def has_room(self, record: Record) -> bool:
        return len(self.records) < _BATCH and self.size + len(record.text) < _BATCH_BYTES


class ImportProgress:
    """What has become of the records, told by all lanes; knows up to where nothing is missing."""

    def __init__(self, before: int) -> None:
        self._lock = threading.Lock()
        self._in_flight: set[int] = set()  # first record of each batch that is not done
        self.last = before  # record that was read
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.rejected = 0
        self.rejected_lines: list[dict[str, Any]] = []
        self.failure: BaseException | None = None
        self._session: str | None = None  # how far the container had come with the last answer

    def begin_batch(self, batch: Batch) -> None:
        with self._lock:
            self._in_flight.add(batch.first)

    def finish_batch(self, batch: Batch, answer: dict[str, Any], session: str | None) -> None:
        with self._lock:
            self._session = session
            for name in _COUNTS:
                self.counts[name] += answer[name]
            for rejected_line in answer["refused"]:
                record = batch.records[rejected_line["line"] - 1]
                # Each item travels on a line of its own; the one that counts is the file's.
                message = rejected_line["message"].replace(" at line 1, column ", " at column ")
                self._reject_locked(record, rejected_line["id"], message)
            self._in_flight.discard(batch.first)

    def reject(self, record: Record, message: str) -> None:
        with self._lock:
            value = record.value
            self._reject_locked(
                record, value.get("id") if isinstance(value, dict) else None, message
            )

    def _reject_locked(self, record: Record, id_: object, message: str) -> None:
        self.rejected += 1
        if len(self.rejected_lines) < _MAX_REJECTED_SHOWN:
            self.rejected_lines.append({"line": record.line, "id": id_, "message": message})

    def fail(self, failure: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or failure

    @property
    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"done": self.completed, "session": self._session}

    @property
    def completed(self) -> int:
        """All records up to this one are stored or refused."""
        with self._lock:
            return min(self._in_flight) - 1 if self._in_flight else self.last


class ImportWorker(threading.Thread):
    """One connection, and the batches that wait for it."""

    def __init__(
        self,
        client: AdminClient,
        path: tuple[str, ...],
        options: dict[str, Any],
        progress: ImportProgress,
    ) -> None:
        super().__init__(name="perseid-import", daemon=True)
        self._client = client
        self._path = path
        self._options = options
        self._progress = progress
        self._waiting: queue.Queue[Batch | None] = queue.Queue(maxsize=2)
        self._batch: Batch | None = None

    def add(self, record: Record) -> None:
        if self._batch is not None and not self._batch.has_room(record):
            self.flush()
        if self._batch is None:
            self._batch = Batch(record.number)
            self._progress.begin_batch(self._batch)
        self._batch.add(record)

    def flush(self) -> None:
        if self._batch is not None:
            self._waiting.put(self._batch)
            self._batch = None

    def finish(self) -> None:
        """Sends what is left and waits until everything has arrived."""
        self.flush()
        self._waiting.put(None)
        self.join()

    def run(self) -> None:
        with self._client.connect() as connection:
            while (batch := self._waiting.get()) is not None:
                if self._progress.failure is not None:
                    continue  # take it off the queue: its reader must not wait for ever
                try:
                    reply = connection.request(
                        "POST",
                        self._path,
                        ("_perseid", "/".join(self._path)),
                        options=self._options,
                        body=b"\n".join(record.text for record in batch.records),
                    )
                    answer = connection.checked_body(reply)
                    self._progress.finish_batch(batch, answer, reply.headers.get(SESSION))
                except BaseException as exc:
                    self._progress.fail(exc)


@click.command("import")
@click.argument("database")
@click.argument("container")
@click.argument("file", type=NamedPath(allow_dash=True))
@click.option(
    "--existing",
    type=click.Choice(("replace", "skip", "fail")),
    default="replace",
    show_default=True,
    help="What to do with an item that is there already.",
)
@click.option(
    "--lifetimes",
    type=click.Choice(("restart", "keep")),
    default="restart",
    show_default=True,
    help="restart: items count from now; keep: from the _ts they bring, so an export lives on"
    " as its original does. What has ended already is left out.",
)
@click.option(
    "--age",
    type=parse_duration,
    default="0",
    metavar="SECONDS",
    help="Store items as if written that long ago: seconds, or 90s, 15m, 2h, 3d.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 32),
    default=4,
    show_default=True,
    help="How many requests are under way at a time.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Stop when more items than this were refused.",
)
@resumable("import", "input")
@server_options
def import_items(
    client: AdminClient,
    *,
    database: str,
    container: str,
    file: Path,
    existing: str,
    lifetimes: str,
    age: float,
    connections: int,
    max_errors: int,
    checkpoint: Path | None,
    restart: bool,
    as_json: bool,
) -> None:
    """Store the items of FILE in a container.

    FILE holds JSON objects, one a line or spread over several, or one JSON array, gzipped or not;
    - reads standard input. Each item is stored whole or refused with a reason. After Ctrl-C, or a
    failure of any kind, the same command goes on where it ended.

    \b
    Example:
      perseid import shop orders orders.jsonl.gz --age 30d
    """
    if age and lifetimes == "keep":
        raise click.UsageError("Use --lifetimes keep or --age, not both.")
    path = None if str(file) == "-" else file
    # A pipe, as `<(zcat items.gz)` is one, can be read once; so can standard input.
    is_rereadable = path is not None and not path.is_fifo()
    with client.connect() as connection:
        target_identity = container_identity(connection, database, container)
    options = {"existing": existing, "lifetimes": lifetimes, "age": int(age)}
    target = ("_perseid", "import", database, container)
    with closing(ItemFile(path)) as source:
        if checkpoint is None and path is not None and is_rereadable:
            checkpoint = path.with_name(path.name + ".import-state")
        purpose = {
            "file": fingerprint(path) if path is not None and is_rereadable else "-",
            "container": target_identity,
        }
        checkpoint_file = Checkpoint(checkpoint, purpose)
        state = None if restart else checkpoint_file.load()
        if state is not None:
            with client.connect() as connection:
                session = state.get("session")
                check_session(connection, database, container, session, str(checkpoint_file.path))
        checkpoint_file.check_writable()
        before = 0 if state is None else state["done"]
        progress = ImportProgress(before)
        workers = [ImportWorker(client, target, options, progress) for _ in range(connections)]
        try:
            with interruptible(is_rereadable) as stop:
                is_complete = _send(
                    source, workers, progress, checkpoint_file, stop=stop, max_errors=max_errors
                )
        finally:
            if progress.completed > before:
                checkpoint_file.save(progress.state)
    if progress.failure is not None:
        raise _failure_error(progress, checkpoint_file)
    if is_complete:
        checkpoint_file.remove()
    _report(progress, before, is_complete, as_json)
    if not is_complete and progress.rejected <= max_errors:
        click.echo(f"Interrupted after item {progress.completed}.{checkpoint_file.hint}", err=True)
        raise SystemExit(INTERRUPTED)
    if not is_complete:
        click.echo(
            f"Stopped after item {progress.completed}: more than {max_errors} items were refused"
            " (--max-errors).",
            err=True,
        )
    if progress.rejected:
        raise SystemExit(1)


def _send(
    source: ItemFile,
    workers: list[ImportWorker],
    progress: ImportProgress,
    checkpoint_file: Checkpoint,
    *,
    stop: threading.Event,
    max_errors: int,
) -> bool:
    """Reads and hands out, then waits until all has arrived; whether that was the whole file."""
    before = progress.last
    is_whole = False
    saved_at = time.monotonic()
    for worker in workers:
        worker.start()
    try:
        with progress_bar("importing", source.size, before) as display:
            for record in source.records():
                if stop.is_set() or progress.failure is not None or progress.rejected > max_errors:
                    break
                if record.number <= before:
                    continue
                progress.last = record.number
                if _is_too_large(record):
                    progress.reject(record, "An item holds at most 2 MB.")
                    continue
                _worker_of(record, workers).add(record)
                if record.number % _BATCH == 0:
                    display.show(record.number, source.position())
                    if time.monotonic() - saved_at > 1:
                        saved_at = time.monotonic()
                        checkpoint_file.save(progress.state)
            else:
                is_whole = True
            for worker in workers:
                worker.finish()
            display.show(progress.last, source.position())
    except click.ClickException:  # the file is broken here: what came before is good
        for worker in workers:
            worker.finish()
        raise
    return is_whole


def _is_too_large(record: Record) -> bool:
    """Whether its item is; what an export has added does not count."""
    text = record.text
    if len(text) > MAX_BODY_BYTES and isinstance(record.value, dict):
        text = strip_system(text.strip())
    return len(text) > MAX_BODY_BYTES


def _worker_of(record: Record, workers: list[ImportWorker]) -> ImportWorker:
    id_ = record.value.get("id") if isinstance(record.value, dict) else None
    return workers[zlib.crc32(str(id_).encode("utf-8", "replace")) % len(workers)]


@contextmanager
def interruptible(is_file: bool) -> Iterator[threading.Event]:
    """The first Ctrl-C asks for an orderly end, the second one is as usual."""
    stop = threading.Event()
    # Standard input may have nothing to read when Ctrl-C comes; then nobody would look at the flag.
    if not is_file or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous_handler = signal.getsignal(signal.SIGINT)

    def request_stop(_signal: int, _frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, previous_handler)

    signal.signal(signal.SIGINT, request_stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous_handler)


def _failure_error(progress: ImportProgress, checkpoint_file: Checkpoint) -> click.ClickException:
    failure = progress.failure
    text = failure.format_message() if isinstance(failure, click.ClickException) else repr(failure)
    return click.ClickException(
        f"{text} Items up to {progress.completed} have arrived.{checkpoint_file.hint}"
    )


def _report(progress: ImportProgress, before: int, is_complete: bool, as_json: bool) -> None:
    rejected_lines = sorted(
        progress.rejected_lines, key=lambda rejected_line: int(rejected_line["line"])
    )
    if as_json:
        print_json(
            {
                "complete": is_complete,
                "items": progress.completed,
                "before": before,
                **progress.counts,
                "refused": progress.rejected,
                "refusals": rejected_lines,
            }
        )
        return
    rows: list[tuple[str, object]] = [("items", f"{progress.completed:,}")]
    if before:
        rows.append(("  by an earlier run", f"{before:,}"))
    rows += [(f"  {name}", f"{count:,}") for name, count in progress.counts.items() if count]
    if progress.rejected:
        rows.append(("  refused", f"{progress.rejected:,}"))
    show_table(None, rows)
    for rejected_line in rejected_lines:
        id_text = "" if rejected_line["id"] is None else f" ({rejected_line['id']})"
        click.echo(
            printable(f"line {rejected_line['line']}{id_text}: {rejected_line['message']}"),
            err=True,
        )
    if progress.rejected > len(rejected_lines):
        click.echo(f"and {progress.rejected - len(rejected_lines)} more", err=True)
