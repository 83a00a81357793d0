"""Reading items from files: lines and arrays, to the byte, and where a file is broken."""

from __future__ import annotations

import gzip
import io
import itertools
import tracemalloc
from contextlib import closing
from pathlib import Path

import click
import pytest

from perseid.commands import item_files
from perseid.commands.import_worker import ImportBatch
from perseid.commands.item_files import ItemFile, page_records
from perseid.limits import MAX_BODY_BYTES


def read(content: bytes, tmp_path: Path) -> list[tuple[int, int, bytes]]:
    """Number, line and text of each item; a file and a pipe must agree."""
    path = tmp_path / "items"
    path.write_bytes(content)
    with closing(ItemFile(path)) as source:
        found = [record[:3] for record in source.records()]
    assert found == [record[:3] for record in ItemFile(None, io.BytesIO(content)).records()]
    return found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"\n \n", []),
        (b'{"id":"a"}', [(1, 1, b'{"id":"a"}')]),
        (b'\xef\xbb\xbf{"a":1.0e2}\r\n\n{"b":2}\n', [(1, 1, b'{"a":1.0e2}'), (2, 3, b'{"b":2}')]),
        (b'{"half\n{"b":1}', [(1, 1, b'{"half'), (2, 2, b'{"b":1}')]),
        (b"[]", []),
        (b" [\n ]\n", []),
        (b'[{"a": [1, {"b": "]"}]},\n{"c":\n1.50}]', [
            (1, 1, b'{"a": [1, {"b": "]"}]}'), (2, 2, b'{"c": 1.50}'),
        ]),
        ('[{"é":"\\u00e9"}]'.encode(), [(1, 1, '{"é":"\\u00e9"}'.encode())]),
        # Pretty-printed objects that follow each other.
        (b'{\n  "a": 1\n}\n', [(1, 1, b'{   "a": 1 }')]),
        (b'\n{"a":\r\n1}\n{"b": 2}{\n"c":[]}', [
            (1, 2, b'{"a":  1}'), (2, 4, b'{"b": 2}'), (3, 4, b'{ "c":[]}'),
        ]),
        # What is one line from the beginning is one to the end.
        (b'{"a":1}\n{\n"b":1}', [(1, 1, b'{"a":1}'), (2, 2, b"{"), (3, 3, b'"b":1}')]),
    ],
)  # fmt: skip
def test_items(content: bytes, expected: list[tuple[int, int, bytes]], tmp_path: Path) -> None:
    assert read(content, tmp_path) == expected
    assert read(gzip.compress(content), tmp_path) == expected


@pytest.mark.parametrize("form", ["lines", "array", "objects"])
@pytest.mark.parametrize("chunk", [1, 2, 7, 64])
def test_items_across_the_ends_of_chunks(
    form: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_files, "_CHUNK", chunk)
    texts = [f'{{"id":"é{n}","n":{n}.5,"list":[{n},"}}"]}}'.encode() for n in range(30)]
    content = {
        "lines": b"\n".join(texts),
        "array": b"[" + b",\n".join(texts) + b"]",
        "objects": b"{\n}" + b"".join(texts),
    }[form]
    texts = [b"{ }", *texts] if form == "objects" else texts
    assert [text for _, _, text in read(content, tmp_path)] == texts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a":1},\n{"b":', "line 2: item 2 is not valid JSON or is cut off"),
        (b'[{"a":1}', "line 1: a comma or ] is missing after item 1"),
        (b'[{"a":1},]', "the array ends after a comma"),
        (b'[{"a":1}] x', "there is text after the end of the array"),
        (b"[1]", "line 1: item 1 is not an object"),
        (b'[{"a":1} {"b":1}]', "a comma or ] is missing after item 1"),
        (b'{"a":"\xff"}', "line 1: contains invalid UTF-8"),
        (b'{"a":1}\n\n{"a":"\xff"}\n', "line 3: contains invalid UTF-8"),
        (b'[{"a":1},\n{"a":"\xc3', "line 2: contains invalid UTF-8"),
        (b'{\n"a":1}\n{\n"b":\n', "line 3: item 2 is not valid JSON or is cut off"),
        (b'{\n"a":1},\n{\n"b":1}', "line 2: item 2 is not an object"),
        (b"\nid,name\r\na,b\n", "line 2: this starts with 'id,name', which is not an item"),
        (b"\x1b[2J" + b"x" * 99, "line 1: this starts with '\ufffd[2Jxxxxxxxxxxxxxxxx…', which"),
        (gzip.compress(b'{"a":1}\n' * 1000)[:-20], "is damaged or cut off"),
        (b"\x1f\x8bno", "is damaged or cut off"),
    ],
    ids=itertools.count(),
)
def test_broken_files(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(click.ClickException) as broken:
        read(content, tmp_path)
    assert message in broken.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"Cannot read .*nothing: No such file"):
        ItemFile(tmp_path / "nothing")


def test_a_line_that_is_no_item_is_not_held_whole(tmp_path: Path) -> None:
    """As when all items of an export stand in one object, on one line."""
    path = tmp_path / "all.json"
    size = 40 * MAX_BODY_BYTES
    path.write_bytes(b'{"id":"a"}\n{"all":["' + b"x" * size + b'"]}\n{"id":"b"}')
    with closing(ItemFile(path)) as source:
        first, long, last = source.records()
    assert MAX_BODY_BYTES < len(long.text) < size // 2
    assert (long.line, long.value) == (2, None)
    assert [(each.line, each.text) for each in (first, last)] == [
        (1, b'{"id":"a"}'),
        (3, b'{"id":"b"}'),
    ]


def test_items_that_wait_take_as_much_memory_as_their_text(tmp_path: Path) -> None:
    """A small compressed file may contain many items of many short values."""
    numbers = ",".join(["10"] * 10_000)
    path = tmp_path / "items.gz"
    line = f'{{"id":"a","v":[{numbers}]}}\n'.encode()
    path.write_bytes(gzip.compress(line * 10))
    assert path.stat().st_size < len(line)
    batch = ImportBatch(1)
    tracemalloc.start()
    try:
        with closing(ItemFile(path)) as source:
            for record in source.records():
                batch.add(record)
        del record
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(batch.records) == 10
    assert held < 2 * 10 * len(line)


def test_lines_that_are_too_long_for_an_item_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_files, "_LARGEST_DECODED", 100)
    path = tmp_path / "items"
    path.write_bytes(b'{"id":"a"}\n{"id":"b","v":[%b]}\n{"id":"c"}\n' % b",".join([b"1"] * 100))
    with closing(ItemFile(path)) as source:
        assert [record.value for record in source.records()] == [{"id": "a"}, None, {"id": "c"}]


@pytest.mark.parametrize(
    "content", [b'[{"id":"a"},{"v":"%b"}]', b'{\n"id":"a"}\n{\n"v":"%b"}'], ids=["array", "objects"]
)
def test_a_huge_element_is_called_too_large(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "items.gz"
    path.write_bytes(gzip.compress(content % (b"x" * 20_000_000), 1))
    with closing(ItemFile(path)) as source, pytest.raises(click.ClickException) as caught:
        list(source.records())
    assert "item 2 is too large" in caught.value.message


def test_blanks_are_skipped_quickly(tmp_path: Path) -> None:
    """A gigabyte of them compresses to a megabyte; line numbers are still right."""
    content = b'{"id":"a"}\n' + (b" \t" * 1000 + b"\r\n") * 1000 + b'{"id":"b"}\n'
    assert [record[1] for record in read(content, tmp_path)] == [1, 1002]


def test_numbers_of_any_length(tmp_path: Path) -> None:
    text = b'{"n":' + b"9" * 10_000 + b"}"
    assert read(b"[" + text + b"]", tmp_path) == [(1, 1, text)]


def test_the_items_of_a_page() -> None:
    body = b'{"_rid":"x","Documents":[{"id":"a","n":1.0},{"id":"b"}],"_count":2}'
    assert [record.text for record in page_records(body)] == [b'{"id":"a","n":1.0}', b'{"id":"b"}']
