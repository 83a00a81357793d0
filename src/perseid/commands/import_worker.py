"""Sends the items of an import: batches, the connections that send them, and their progress."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import Any, Final

from perseid.commands.admin_client import AdminClient
from perseid.commands.data_client import SESSION
from perseid.commands.item_files import Record

BATCH_ITEMS: Final = 256
_BATCH_BYTES: Final = 1024 * 1024
_MAX_REJECTED_SHOWN: Final = 20
_COUNTS: Final = ("created", "replaced", "skipped", "expired")


@dataclass(slots=True)
class ImportBatch:
    """Records that are sent in one request."""

    first: int
    records: list[Record] = field(default_factory=list)
    size: int = 0

    def add(self, record: Record) -> None:
        self.records.append(record._replace(value=None))  # it may be much larger than the text
        self.size += len(record.text) + 1

    def has_room(self, record: Record) -> bool:
        return len(self.records) < BATCH_ITEMS and self.size + len(record.text) < _BATCH_BYTES


class ImportProgress:
    """The results of all workers, and the record up to which everything is complete."""

    def __init__(self, earlier_items: int) -> None:
        self._lock = threading.Lock()
        self._in_flight: set[int] = set()  # first record of each unfinished batch
        self.last = earlier_items  # the last record that was read
        self.counts = dict.fromkeys(_COUNTS, 0)
        self.rejected = 0
        self.rejected_lines: list[dict[str, Any]] = []
        self.failure: BaseException | None = None
        self._session: str | None = None  # the session token of the last response

    def begin_batch(self, batch: ImportBatch) -> None:
        with self._lock:
            self._in_flight.add(batch.first)

    def finish_batch(
        self, batch: ImportBatch, response: dict[str, Any], session: str | None
    ) -> None:
        with self._lock:
            self._session = session
            for name in _COUNTS:
                self.counts[name] += response[name]
            for rejected_line in response["refused"]:
                record = batch.records[rejected_line["line"] - 1]
                # Each item is sent on its own line; users need the line in their file.
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
        """All records up to this one are stored or rejected."""
        with self._lock:
            return min(self._in_flight) - 1 if self._in_flight else self.last


class ImportWorker(threading.Thread):
    """One connection, and a queue of batches to send over it."""

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
        self._waiting: queue.Queue[ImportBatch | None] = queue.Queue(maxsize=2)
        self._batch: ImportBatch | None = None

    def add(self, record: Record) -> None:
        if self._batch is not None and not self._batch.has_room(record):
            self.flush()
        if self._batch is None:
            self._batch = ImportBatch(record.number)
            self._progress.begin_batch(self._batch)
        self._batch.add(record)

    def flush(self) -> None:
        if self._batch is not None:
            self._waiting.put(self._batch)
            self._batch = None

    def finish(self) -> None:
        """Sends the last batch and waits until all batches are done."""
        self.flush()
        self._waiting.put(None)
        self.join()

    def run(self) -> None:
        with self._client.connect() as connection:
            while (batch := self._waiting.get()) is not None:
                if self._progress.failure is not None:
                    continue  # empty the queue, or the thread that fills it would wait forever
                try:
                    reply = connection.request(
                        "POST",
                        self._path,
                        ("_perseid", "/".join(self._path)),
                        options=self._options,
                        body=b"\n".join(record.text for record in batch.records),
                    )
                    response = connection.checked_body(reply)
                    self._progress.finish_batch(batch, response, reply.headers.get(SESSION))
                except BaseException as exc:
                    self._progress.fail(exc)
