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
from perseid.commands.output import plain, print_json, show_table
from perseid.commands.paths import NamedPath
from perseid.commands.progress import watched
from perseid.commands.records import Record, Source
from perseid.commands.wire_client import SESSION, check_session, identity
from perseid.documents import LARGEST_BODY, strip_system

_BATCH: Final = 256
_BATCH_BYTES: Final = 1024 * 1024
_SHOWN_REFUSALS: Final = 20
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


class Ledger:
    """What has become of the records, told by all lanes; knows up to where nothing is missing."""

    def __init__(self, before: int) -> None:
        self._lock = threading.Lock()
        self._under_way: set[int] = set()  # first record of each batch that is not done
        self.last = before  # record that was read
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.refused = 0
        self.refusals: list[dict[str, Any]] = []
        self.failure: BaseException | None = None
        self._session: str | None = None  # how far the container had come with the last answer

    def begin(self, batch: Batch) -> None:
        with self._lock:
            self._under_way.add(batch.first)

    def settle(self, batch: Batch, answer: dict[str, Any], session: str | None) -> None:
        with self._lock:
            self._session = session
            for name in _COUNTS:
                self.counts[name] += answer[name]
            for refusal in answer["refused"]:
                record = batch.records[refusal["line"] - 1]
                # Each item travels on a line of its own; the one that counts is the file's.
                message = refusal["message"].replace(" at line 1, column ", " at column ")
                self._refuse(record, refusal["id"], message)
            self._under_way.discard(batch.first)

    def refuse(self, record: Record, message: str) -> None:
        with self._lock:
            value = record.value
            self._refuse(record, value.get("id") if isinstance(value, dict) else None, message)

    def _refuse(self, record: Record, id_: object, message: str) -> None:
        self.refused += 1
        if len(self.refusals) < _SHOWN_REFUSALS:
            self.refusals.append({"line": record.line, "id": id_, "message": message})

    def fail(self, failure: BaseException) -> None:
        with self._lock:
            self.failure = self.failure or failure

    @property
    def state(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"done": self.arrived, "session": self._session}

    @property
    def arrived(self) -> int:
        """All records up to this one are stored or refused."""
        with self._lock:
            return min(self._under_way) - 1 if self._under_way else self.last


class Lane(threading.Thread):
    """One connection, and the batches that wait for it."""

    def __init__(
        self, client: AdminClient, path: tuple[str, ...], options: dict[str, Any], ledger: Ledger
    ) -> None:
        super().__init__(name="perseid-import", daemon=True)
        self._client = client
        self._path = path
        self._options = options
        self._ledger = ledger
        self._waiting: queue.Queue[Batch | None] = queue.Queue(maxsize=2)
        self._batch: Batch | None = None

    def add(self, record: Record) -> None:
        if self._batch is not None and not self._batch.has_room(record):
            self.flush()
        if self._batch is None:
            self._batch = Batch(record.number)
            self._ledger.begin(self._batch)
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
                if self._ledger.failure is not None:
                    continue  # take it off the queue: its reader must not wait for ever
                try:
                    reply = connection.request(
                        "POST",
                        self._path,
                        ("_perseid", "/".join(self._path)),
                        options=self._options,
                        body=b"\n".join(record.text for record in batch.records),
                    )
                    answer = connection.judged(reply)
                    self._ledger.settle(batch, answer, reply.headers.get(SESSION))
                except BaseException as exc:
                    self._ledger.fail(exc)


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
    has_beginning = path is not None and not path.is_fifo()
    with client.connect() as connection:
        target_identity = identity(connection, database, container)
    options = {"existing": existing, "lifetimes": lifetimes, "age": int(age)}
    target = ("_perseid", "import", database, container)
    with closing(Source(path)) as source:
        if checkpoint is None and path is not None and has_beginning:
            checkpoint = path.with_name(path.name + ".import-state")
        belongs = {
            "file": fingerprint(path) if path is not None and has_beginning else "-",
            "container": target_identity,
        }
        mark = Checkpoint(checkpoint, belongs)
        state = None if restart else mark.load()
        if state is not None:
            with client.connect() as connection:
                session = state.get("session")
                check_session(connection, database, container, session, str(mark.path))
        mark.try_out()
        before = 0 if state is None else state["done"]
        ledger = Ledger(before)
        lanes = [Lane(client, target, options, ledger) for _ in range(connections)]
        try:
            with interruptible(has_beginning) as stop:
                is_complete = _send(source, lanes, ledger, mark, stop=stop, max_errors=max_errors)
        finally:
            if ledger.arrived > before:
                mark.save(ledger.state)
    if ledger.failure is not None:
        raise _explained(ledger, mark)
    if is_complete:
        mark.remove()
    _report(ledger, before, is_complete, as_json)
    if not is_complete and ledger.refused <= max_errors:
        click.echo(f"Interrupted after item {ledger.arrived}.{mark.hint}", err=True)
        raise SystemExit(INTERRUPTED)
    if not is_complete:
        click.echo(
            f"Stopped after item {ledger.arrived}: more than {max_errors} items were refused"
            " (--max-errors).",
            err=True,
        )
    if ledger.refused:
        raise SystemExit(1)


def _send(
    source: Source,
    lanes: list[Lane],
    ledger: Ledger,
    mark: Checkpoint,
    *,
    stop: threading.Event,
    max_errors: int,
) -> bool:
    """Reads and hands out, then waits until all has arrived; whether that was the whole file."""
    before = ledger.last
    is_whole = False
    saved = time.monotonic()
    for lane in lanes:
        lane.start()
    try:
        with watched("importing", source.size, before) as gauge:
            for record in source.records():
                if stop.is_set() or ledger.failure is not None or ledger.refused > max_errors:
                    break
                if record.number <= before:
                    continue
                ledger.last = record.number
                if _is_too_large(record):
                    ledger.refuse(record, "An item holds at most 2 MB.")
                    continue
                _lane_of(record, lanes).add(record)
                if record.number % _BATCH == 0:
                    gauge.show(record.number, source.position())
                    if time.monotonic() - saved > 1:
                        saved = time.monotonic()
                        mark.save(ledger.state)
            else:
                is_whole = True
            for lane in lanes:
                lane.finish()
            gauge.show(ledger.last, source.position())
    except click.ClickException:  # the file is broken here: what came before is good
        for lane in lanes:
            lane.finish()
        raise
    return is_whole


def _is_too_large(record: Record) -> bool:
    """Whether its item is; what an export has added does not count."""
    text = record.text
    if len(text) > LARGEST_BODY and isinstance(record.value, dict):
        text = strip_system(text.strip())
    return len(text) > LARGEST_BODY


def _lane_of(record: Record, lanes: list[Lane]) -> Lane:
    id_ = record.value.get("id") if isinstance(record.value, dict) else None
    return lanes[zlib.crc32(str(id_).encode("utf-8", "replace")) % len(lanes)]


@contextmanager
def interruptible(is_file: bool) -> Iterator[threading.Event]:
    """The first Ctrl-C asks for an orderly end, the second one is as usual."""
    stop = threading.Event()
    # Standard input may have nothing to read when Ctrl-C comes; then nobody would look at the flag.
    if not is_file or threading.current_thread() is not threading.main_thread():
        yield stop
        return
    usual = signal.getsignal(signal.SIGINT)

    def ask(_signal: int, _frame: object) -> None:
        stop.set()
        signal.signal(signal.SIGINT, usual)

    signal.signal(signal.SIGINT, ask)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, usual)


def _explained(ledger: Ledger, mark: Checkpoint) -> click.ClickException:
    failure = ledger.failure
    text = failure.format_message() if isinstance(failure, click.ClickException) else repr(failure)
    return click.ClickException(f"{text} Items up to {ledger.arrived} have arrived.{mark.hint}")


def _report(ledger: Ledger, before: int, is_complete: bool, as_json: bool) -> None:
    refusals = sorted(ledger.refusals, key=lambda refusal: int(refusal["line"]))
    if as_json:
        print_json(
            {
                "complete": is_complete,
                "items": ledger.arrived,
                "before": before,
                **ledger.counts,
                "refused": ledger.refused,
                "refusals": refusals,
            }
        )
        return
    rows: list[tuple[str, object]] = [("items", f"{ledger.arrived:,}")]
    if before:
        rows.append(("  by an earlier run", f"{before:,}"))
    rows += [(f"  {name}", f"{count:,}") for name, count in ledger.counts.items() if count]
    if ledger.refused:
        rows.append(("  refused", f"{ledger.refused:,}"))
    show_table(None, rows)
    for refusal in refusals:
        shown = "" if refusal["id"] is None else f" ({refusal['id']})"
        click.echo(plain(f"line {refusal['line']}{shown}: {refusal['message']}"), err=True)
    if ledger.refused > len(refusals):
        click.echo(f"and {ledger.refused - len(refusals)} more", err=True)
