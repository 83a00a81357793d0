"""`perseid export`: writes the live items of a container to a file and can continue later.

The export writes FILE.part and renames it to FILE when it is complete. FILE.part always holds a
number of complete pages, plain or each as its own gzip member, so that an interrupted export can
continue after the last of them. CSV needs the names of all properties first: FILE.part then holds
JSON lines, which are converted when they are complete.
"""

from __future__ import annotations

import gzip
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Final, NamedTuple, cast

import click

from perseid import private_files
from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.arguments import NamedPath
from perseid.commands.checkpoint import Checkpoint, resumable
from perseid.commands.connection import Connection, Refused
from perseid.commands.csv_files import write_csv
from perseid.commands.data_client import FeedPage, check_session, feed_page
from perseid.commands.interruption import INTERRUPTED, interruptible
from perseid.commands.item_files import page_records
from perseid.commands.output import plural, print_json, show_table
from perseid.commands.progress_bar import progress_bar
from perseid.commands.resource_client import container_identity
from perseid.commands.resource_names import NAME
from perseid.documents import strip_system

_PAGE: Final = 1000
_FILE: Final = NamedPath(allow_dash=True, dir_okay=False)
_SHAPES: Final = {".json": "array", ".csv": "csv"}


class ExportFormat(NamedTuple):
    """How the items are written."""

    shape: str  # lines, array or csv
    is_gzip: bool
    system: str  # which system properties: ts, all or none

    @classmethod
    def of(
        cls, file_name: str, shape: str | None, is_gzip: bool | None, system: str
    ) -> ExportFormat:
        """The format that the options ask for; what they leave open follows from the file name."""
        name = file_name.lower()
        if shape is None:
            shape = _SHAPES.get(Path(name.removesuffix(".gz")).suffix, "lines")
        return cls(shape, name.endswith(".gz") if is_gzip is None else is_gzip, system)

    def __str__(self) -> str:
        return f"{self.shape} {self.is_gzip} {self.system}"

    @property
    def of_part(self) -> ExportFormat:
        """The format of the unfinished file."""
        return ExportFormat("lines", False, self.system) if self.shape == "csv" else self


class ExportSource(NamedTuple):
    """The container to export, and how many items it has if that is known."""

    connection: Connection
    database: str
    container: str
    total: int | None

    def pages(self, token: str | None) -> Iterator[FeedPage]:
        """All pages from the continuation token on; from the start if it is None."""
        while True:
            page = feed_page(self.connection, self.database, self.container, _PAGE, token)
            yield page
            token = page.continuation
            if token is None:
                return


class ExportWriter:
    """Appends pages of items to a stream, as lines or as one array."""

    def __init__(self, stream: IO[bytes], export_format: ExportFormat, items: int) -> None:
        self._stream = stream
        self._format = export_format
        self.items = items

    def append(self, page: FeedPage) -> None:
        parts = []
        for text in _item_texts(page, self._format.system):
            if self._format.shape == "array":
                parts.append((b"[\n" if self.items == 0 else b",\n") + text)
            else:
                parts.append(text + b"\n")
            self.items += 1
        self._write(b"".join(parts))

    def close(self) -> None:
        """Writes the end of the array, if it is one."""
        if self._format.shape == "array":
            self._write(b"[]\n" if self.items == 0 else b"\n]\n")

    def _write(self, content: bytes) -> None:
        if content:
            is_gzip = self._format.is_gzip
            self._stream.write(gzip.compress(content, 6, mtime=0) if is_gzip else content)
            self._stream.flush()


@click.command("export")
@click.argument("database", type=NAME)
@click.argument("container", type=NAME)
@click.argument("file", type=_FILE, default="-")
@click.option(
    "--format",
    "shape",
    type=click.Choice(("lines", "array", "csv")),
    help="One JSON item per line, one JSON array, or CSV. Default: array for FILE.json, csv for"
    " FILE.csv, otherwise lines.",
)
@click.option(
    "--gzip/--no-gzip", "is_gzip", default=None, help="Compress. Default: if FILE ends with .gz."
)
@click.option(
    "--system",
    type=click.Choice(("ts", "all", "none")),
    default="ts",
    show_default=True,
    help="Which system properties to write. With _ts an import can keep the lifetimes.",
)
@resumable("export", "output")
@server_options
def export_items(
    client: AdminClient,
    *,
    database: str,
    container: str,
    file: Path,
    shape: str | None,
    is_gzip: bool | None,
    system: str,
    checkpoint: Path | None,
    restart: bool,
    as_json: bool,
) -> None:
    """Write the live items of a container to a file.

    Without FILE the items are written to standard output. They are written as they were sent,
    including ttl, in the order of their creation. After Ctrl-C, run the same command again to
    continue. FILE appears when the export is complete. In CSV, nested values are JSON text.

    \b
    Examples:
      perseid export shop orders orders.jsonl.gz
      perseid export shop orders orders.csv --system none
      perseid export shop orders | jq .total
    """
    path = None if str(file) == "-" else file
    if path is None and as_json:
        raise click.UsageError("Standard output takes the items: give a FILE, or omit --json.")
    export_format = ExportFormat.of(file.name, shape, is_gzip, system)
    with client.connect() as connection:
        source_identity = container_identity(connection, database, container)
        total = _count_items(client, database, container)
        source = ExportSource(connection, database, container, total)
        if path is None or (path.exists() and not path.is_file()):
            _export_to_stream(source, path, export_format)
            return
        path = _target(path)
        if not path.parent.is_dir():
            raise click.ClickException(f"Cannot write {path}: there is no folder {path.parent}.")
        checkpoint_file = Checkpoint(
            checkpoint or path.with_name(path.name + ".export-state"),
            {"container": source_identity, "format": str(export_format)},
        )
        earlier_items, items = _export_to_file(
            source, path, export_format, checkpoint_file, restart=restart
        )
    _report(items, earlier_items, path, as_json)


def _report(items: int, earlier_items: int, path: Path, as_json: bool) -> None:
    if as_json:
        print_json({"items": items, "earlierItems": earlier_items, "file": str(path)})
    else:
        earlier = [("  by an earlier run", f"{earlier_items:,}")] if earlier_items else []
        show_table(None, [("items", f"{items:,}"), *earlier, ("file", str(path))])


def _export_to_stream(source: ExportSource, path: Path | None, export_format: ExportFormat) -> None:
    """Writes to standard output, or to a device or pipe, which must not be replaced by a file."""
    with nullcontext(sys.stdout.buffer) if path is None else open(path, "wb") as stream:
        if export_format.shape == "csv":
            with tempfile.TemporaryFile() as part:
                _write_pages(source, None, ExportWriter(part, export_format.of_part, items=0))
                _convert(part, stream, export_format)
            return
        writer = ExportWriter(stream, export_format, items=0)
        _write_pages(source, None, writer)
        writer.close()


def _convert(part: IO[bytes], stream: IO[bytes], export_format: ExportFormat) -> None:
    """Writes the items of an unfinished file, which are JSON lines, as CSV."""
    if not export_format.is_gzip:
        write_csv(part, stream)
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as packed:
        write_csv(part, cast(IO[bytes], packed))


def _export_to_file(
    source: ExportSource,
    path: Path,
    export_format: ExportFormat,
    checkpoint_file: Checkpoint,
    *,
    restart: bool,
) -> tuple[int, int]:
    """The number of items that earlier runs wrote, and the number of items in the file."""
    part = path.with_name(path.name + ".part")
    state = None if restart else checkpoint_file.load()
    if state is not None:
        names = (source.database, source.container)
        session = state.get("session")
        check_session(source.connection, *names, session, str(checkpoint_file.path))
    checkpoint_file.check_writable()
    if state is None or not part.exists():
        state = {"token": None, "items": 0, "size": 0}
    earlier_items: int = state["items"]
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    with (
        _open_part(part, earlier_items, state["size"], mode) as stream,
        interruptible(True) as stop,
    ):
        writer = ExportWriter(stream, export_format.of_part, earlier_items)

        def save_progress(page: FeedPage) -> None:
            if page.continuation is not None:
                os.fsync(stream.fileno())
                checkpoint_file.save(
                    {
                        "token": page.continuation,
                        "items": writer.items,
                        "size": stream.tell(),
                        "session": page.session,
                    }
                )

        is_complete = _write_pages(source, state["token"], writer, stop, save_progress)
        if is_complete:
            writer.close()
            os.fsync(stream.fileno())
    if not is_complete:
        count = plural(writer.items, "item")
        click.echo(f"Interrupted after {count}.{checkpoint_file.hint}", err=True)
        raise SystemExit(INTERRUPTED)
    os.replace(_finished(part, export_format, mode), path)
    part.unlink(missing_ok=True)  # the JSON lines of CSV
    checkpoint_file.remove()
    return earlier_items, writer.items


def _finished(part: Path, export_format: ExportFormat, mode: int | None) -> Path:
    """The complete file in its final format; another one than `part` for CSV."""
    if export_format.shape != "csv":
        return part
    converted = part.with_name(part.name + ".csv")
    try:
        with open(part, "rb") as items, _open_part(converted, 0, 0, mode) as stream:
            _convert(items, stream, export_format)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:  # also Ctrl-C; the next run converts `part` again
        converted.unlink(missing_ok=True)
        raise
    return converted


def _target(path: Path) -> Path:
    """The file to write: a link is kept, and its target is replaced."""
    if not path.is_symlink():
        return path
    try:
        private_files.check_link(path)
    except OSError as exc:
        raise click.ClickException(f"Cannot write {path}: {exc.strerror}.") from exc
    return path.resolve()


def _open_part(part: Path, earlier_items: int, size: int, mode: int | None) -> IO[bytes]:
    """The unfinished file, at its end; a page that was written partly is cut off.

    It gets the mode of the file that it will replace, otherwise what the umask leaves.
    """
    try:
        if earlier_items:
            stream = private_files.reopen_file(part)
        else:
            stream = private_files.create_file(part, 0o666 if mode is None else mode & 0o600)
            if mode is not None:
                os.chmod(part, mode)
    except OSError as exc:
        raise click.ClickException(f"Cannot write {part}: {exc.strerror}.") from exc
    stream.truncate(size)
    stream.seek(0, os.SEEK_END)
    return stream


def _write_pages(
    source: ExportSource,
    token: str | None,
    writer: ExportWriter,
    stop: threading.Event | None = None,
    on_page: Callable[[FeedPage], None] | None = None,
) -> bool:
    """Writes pages until the last one, or until `stop` is set; True if all were written."""
    with progress_bar("exporting", source.total, writer.items) as display:
        for page in source.pages(token):
            writer.append(page)
            if on_page is not None:
                on_page(page)
            display.show(writer.items, writer.items)
            if stop is not None and stop.is_set() and page.continuation is not None:
                return False
    return True


def _item_texts(page: FeedPage, system: str) -> Iterator[bytes]:
    for record in page_records(page.body):
        if system == "all":
            yield record.text
            continue
        text = strip_system(record.text)
        if system == "ts":
            ts = record.value["_ts"]
            text = text[:-1].rstrip() + f',"_ts":{ts}}}'.encode()
        yield text


def _count_items(client: AdminClient, database: str, container: str) -> int | None:
    """The number of live items for the progress bar; None for a read-only key."""
    try:
        live: int = client.get("ttl", database, container).value["live"]["items"]
    except Refused:  # the route needs a master key, the export does not
        return None
    return live
