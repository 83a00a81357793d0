"""Bodies that are too large, in one piece or in chunks."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.raw import RawClient
from tests.support.sockets import PlainSocket
from tests.wire.bad_requests.refusals import Bodies, answer, assert_refused

LARGEST = 2 * 1024 * 1024

# Too much ----------------------------------------------------------------------------------------


def padded(size: int, name: str = "1") -> bytes:
    """An object of exactly `size` bytes."""
    start = f'{{"id":"{name}","pk":"a","content":{{}},"x":"'.encode()
    return start + b"x" * (size - len(start) - 2) + b'"}'


def test_bodies_above_two_megabytes(bodies: Bodies) -> None:
    body = padded(LARGEST + 1)
    for method, path, headers in bodies.objects + bodies.queries:
        reply = bodies.raw.request(method, path, body, headers)
        message = assert_refused(reply, 413, "RequestEntityTooLarge")
        assert message.startswith(
            'Message: {"Errors":["Request size is too large"]}\r\nActivityId: '
        )


def test_the_largest_body(raw: RawClient, name: str) -> None:
    assert raw.request("POST", "/dbs", padded(LARGEST, name)).status == 201
    assert raw.delete(f"/dbs/{name}").status == 204


def test_much_too_large_bodies(raw: RawClient, name: str) -> None:
    """The client has sent it all when it looks for the answer, and must still find it."""
    for size in (LARGEST + 70_000, 3 << 20):
        reply = raw.request("POST", "/dbs", padded(size, name))
        assert_refused(reply, 413, "RequestEntityTooLarge")
        assert raw.get("/").status == 200


def chunks(body: bytes, size: int) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


@pytest.mark.parametrize("size", [LARGEST + 1, LARGEST + 70_000, 3 << 20])
def test_too_large_in_chunks(wire: PlainSocket, size: int) -> None:
    wire.send(wire.request_head("POST", "/dbs", b"transfer-encoding: chunked"))
    with suppress(ConnectionError):  # it has heard enough
        wire.send(chunks(padded(size), 60_000) + b"0\r\n\r\n")
    assert_refused(answer(wire), 413, "RequestEntityTooLarge")


def test_endless_chunks(wire: PlainSocket) -> None:
    """The answer comes before the end, which never comes."""
    wire.send(wire.request_head("POST", "/dbs", b"transfer-encoding: chunked"))
    with suppress(ConnectionError):
        for _ in range(2048):
            wire.send(chunks(b"x" * 65_536, 65_536))
            if wire.has_reply():
                break
    assert_refused(answer(wire), 413, "RequestEntityTooLarge")


def test_too_large_is_refused_before_it_is_sent(wire: PlainSocket) -> None:
    """This client waits for a word before it sends."""
    lines = (b"content-length: 9999999999", b"expect: 100-continue")
    wire.send(wire.request_head("POST", "/dbs", *lines))
    assert_refused(answer(wire), 413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    ("framing", "content"),
    [
        (b"content-length: 100", b'{"id":"%b"}'),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}\r\n"),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}\r\nzz\r\nnonsense\r\n0\r\n\r\n"),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}\r\n5\r\nab"),
        (b"transfer-encoding: chunked", b"{size}\r\n{text}XX0\r\n\r\n"),
    ],
    ids=["short", "no last chunk", "bad chunk", "half a chunk", "no line end"],
)
def test_half_a_body_is_no_body(
    raw: RawClient, wire: PlainSocket, name: str, framing: bytes, content: bytes
) -> None:
    """What was cut off must not be taken for the whole, even if it is JSON so far."""
    text = b'{"id":"%b"}' % name.encode()
    content = content.replace(b"%b", name.encode())
    content = content.replace(b"{size}", b"%x" % len(text)).replace(b"{text}", text)
    wire.send(wire.request_head("POST", "/dbs", framing) + content)
    wire.finish()
    reply = wire.reply()
    assert reply is None or 400 <= reply.status < 500
    assert raw.get(f"/dbs/{name}").status == 404
