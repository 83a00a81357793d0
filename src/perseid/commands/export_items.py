"""`perseid export`: the live items of a container into a file, page by page, resumable.

The file carries its name only when it is whole; until then it is FILE.part. What is there is
always a number of whole pages, plain or as gzip members of their own, so an interrupted export
goes on behind the last of them.
"""

from __future__ import annotations

import gzip
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, Final

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.checkpoint import Checkpoint, resumable
from perseid.commands.connection import Connection, Refused
from perseid.commands.data_client import FeedPage, check_session, container_identity, feed_page
from perseid.commands.import_items import INTERRUPTED, interruptible
from perseid.commands.item_files import page_records
from perseid.commands.output import plural, print_json, show_table
from perseid.commands.path_type import NamedPath
from perseid.commands.progress_bar import progress_bar
from perseid.documents import strip_system

_PAGE: Final = 1000
_FILE: Final = NamedPath(allow_dash=True, dir_okay=False)


class ExportWriter:
    """Appends pages of items to a stream, as lines or as one array."""

    def __init__(self, stream: IO[bytes], *, is_array: bool, is_gzip: bool, items: int) -> None:
        self._stream = stream
        self._is_array = is_array
        self._is_gzip = is_gzip
        self.items = items

    def append(self, texts: list[bytes]) -> None:
        parts = []
        for text in texts:
            if self._is_array:
                parts.append((b"[\n" if self.items == 0 else b",\n") + text)
            else:
                parts.append(text + b"\n")
            self.items += 1
        self._write(b"".join(parts))

    def close(self) -> None:
        """Writes what follows the last item."""
        if self._is_array:
            self._write(b"[]\n" if self.items == 0 else b"\n]\n")

    def _write(self, content: bytes) -> None:
        if content:
            self._stream.write(gzip.compress(content, 6, mtime=0) if self._is_gzip else content)
            self._stream.flush()


@click.command("export")
@click.argument("database")
@click.argument("container")
@click.argument("file", type=_FILE, default="-")
@click.option(
    "--format",
    "shape",
    type=click.Choice(("lines", "array")),
    help="One item a line, or one JSON array. Default: array for FILE.json, else lines.",
)
@click.option(
    "--gzip/--no-gzip", "is_gzip", default=None, help="Default: gzip if FILE ends with .gz."
)
@click.option(
    "--system",
    type=click.Choice(("ts", "all", "none")),
    default="ts",
    show_default=True,
    help="Which system properties to write; with _ts an import can keep lifetimes.",
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

    Without FILE they go to standard output. Items come out as they were sent, ttl included, in the
    order of their creation. After Ctrl-C the same command goes on where it ended; FILE appears
    when it is complete.

    \b
    Example:
      perseid export shop orders orders.jsonl.gz
      perseid export shop orders | jq .total
    """
    path = None if str(file) == "-" else file
    if path is None and as_json:
        raise click.UsageError("Standard output takes the items: give a FILE, or leave out --json.")
    names = file.name.lower().removesuffix(".gz")
    is_array = shape == "array" or (shape is None and names.endswith(".json"))
    if is_gzip is None:
        is_gzip = file.name.lower().endswith(".gz")
    with client.connect() as connection:
        source_identity = container_identity(connection, database, container)
        total = _count(client, database, container)
        if path is None or (path.exists() and not path.is_file()):
            # A reader that has seen enough, as `head`, ends the command: click sees to that.
            with _stream(path) as stream:
                writer = ExportWriter(stream, is_array=is_array, is_gzip=is_gzip, items=0)
                _write_pages(_pages(connection, database, container, None), writer, system, total)
                writer.close()
            return
        if path.is_symlink():  # what it points to is written, and it stays
            path = path.resolve()
        if not path.parent.is_dir():
            raise click.ClickException(f"Cannot write {path}: there is no folder {path.parent}.")
        checkpoint_file = Checkpoint(
            checkpoint or path.with_name(path.name + ".export-state"),
            {
                "container": source_identity,
                "form": f"{'array' if is_array else 'lines'} {is_gzip} {system}",
            },
        )
        before, items = _export_to_file(
            connection, (database, container), path, checkpoint_file,
            restart=restart, system=system, total=total, is_array=is_array, is_gzip=is_gzip,
        )  # fmt: skip
    if as_json:
        print_json({"items": items, "before": before, "file": str(path)})
    else:
        earlier = [("  by an earlier run", f"{before:,}")] if before else []
        show_table(None, [("items", f"{items:,}"), *earlier, ("file", str(path))])


def _stream(path: Path | None) -> AbstractContextManager[IO[bytes]]:
    """Standard output, or a device or pipe: what must not be replaced by a file."""
    return nullcontext(sys.stdout.buffer) if path is None else open(path, "wb")


def _export_to_file(
    connection: Connection,
    place: tuple[str, str],
    path: Path,
    checkpoint_file: Checkpoint,
    *,
    restart: bool,
    system: str,
    total: int | None,
    is_array: bool,
    is_gzip: bool,
) -> tuple[int, int]:
    """Items of earlier runs and items in all."""
    part = path.with_name(path.name + ".part")
    state = None if restart else checkpoint_file.load()
    if state is not None:
        check_session(connection, *place, state.get("session"), str(checkpoint_file.path))
    checkpoint_file.check_writable()
    if state is None or not part.exists():
        state = {"token": None, "items": 0, "size": 0}
    before: int = state["items"]
    try:
        stream = open(part, "r+b" if before else "wb")  # noqa: SIM115
    except OSError as exc:
        raise click.ClickException(f"Cannot write {part}: {exc.strerror}.") from exc
    with stream, interruptible(True) as stop:
        stream.truncate(state["size"])  # a page that was written by half is written again
        stream.seek(0, os.SEEK_END)
        writer = ExportWriter(stream, is_array=is_array, is_gzip=is_gzip, items=before)

        def done(page: FeedPage) -> None:
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

        pages = _pages(connection, *place, state["token"])
        is_whole = _write_pages(pages, writer, system, total, stop=stop, done=done)
        if is_whole:
            writer.close()
            os.fsync(stream.fileno())
    if not is_whole:
        click.echo(
            f"Interrupted after {plural(writer.items, 'item')}.{checkpoint_file.hint}", err=True
        )
        raise SystemExit(INTERRUPTED)
    os.replace(part, path)
    checkpoint_file.remove()
    return before, writer.items


def _write_pages(
    pages: Iterator[FeedPage],
    writer: ExportWriter,
    system: str,
    total: int | None,
    *,
    stop: threading.Event | None = None,
    done: Any = None,
) -> bool:
    """Whether all pages were written."""
    with progress_bar("exporting", total, writer.items) as display:
        for page in pages:
            writer.append([*_item_texts(page, system)])
            if done is not None:
                done(page)
            display.show(writer.items, writer.items)
            if stop is not None and stop.is_set() and page.continuation is not None:
                return False
    return True


def _pages(
    connection: Connection, database: str, container: str, token: str | None
) -> Iterator[FeedPage]:
    while True:
        page = feed_page(connection, database, container, _PAGE, token)
        yield page
        token = page.continuation
        if token is None:
            return


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


def _count(client: AdminClient, database: str, container: str) -> int | None:
    """How many items there are, for the bar."""
    try:
        live: int = client.get("ttl", database, container).value["live"]["items"]
    except Refused:  # a key that may only read may export, without a bar that knows its end
        return None
    return live
