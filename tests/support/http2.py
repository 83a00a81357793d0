"""A small HTTP/2 client: one connection without TLS, as many streams as a test wants.

It sends what it is told, also what no library would send. Nothing is read before a test asks.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from tests.support.raw import Reply, signature
from tests.support.waiting import TIME_LIMIT


class Http2Client:
    """A connection to a server; `closed` is True when the server has ended it."""

    def __init__(
        self, endpoint: str, *, window: int | None = None, timeout: float = TIME_LIMIT
    ) -> None:
        """With `window`, the server may send so many bytes of a response before it must wait."""
        target = urlsplit(endpoint)
        self.authority = target.netloc
        self.timeout = timeout
        self.socket = socket.create_connection((target.hostname, target.port), timeout=timeout)
        config = h2.config.H2Configuration(
            client_side=True,
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.protocol = h2.connection.H2Connection(config)
        if window is not None:
            code = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
            self.protocol.local_settings = h2.settings.Settings(
                client=True, initial_values={code: window}
            )
        self._takes_data = window is None
        self.closed = False
        self.opened = 0  # streams
        self.resets: dict[int, int] = {}  # error codes by stream
        self.answered: dict[int, dict[str, str]] = {}  # response headers by stream
        self._bodies: dict[int, bytearray] = {}
        self._ended: set[int] = set()
        self.protocol.initiate_connection()
        self.flush()

    def close(self) -> None:
        self.socket.close()

    @property
    def address(self) -> str:
        """How the server names this client, on IPv4."""
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    # Sending

    def open(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        end: bool = False,
        signed: bool = True,
        authority: str | None = None,
        flush: bool = True,
    ) -> int:
        """Sends the headers of a request on a new stream; without `flush`, with what comes next."""
        stream = int(self.protocol.get_next_available_stream_id())
        sent = {
            ":method": method,
            ":path": path,
            ":scheme": "http",
            ":authority": authority or self.authority,
            **(signature(method, path) if signed else {}),
            **(headers or {}),
        }
        self.protocol.send_headers(stream, list(sent.items()), end_stream=end)
        self.opened += 1
        if flush:
            self.flush()
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Sends a part of a body, as far as the server allows at a time.

        ConnectionError if the server has reset the stream: it then allows nothing more.
        """
        while data:
            if stream in self.resets or self.closed:
                raise ConnectionError(f"stream {stream} was reset, or the connection was closed")
            room = min(
                self.protocol.local_flow_control_window(stream),
                self.protocol.max_outbound_frame_size,
            )
            if room <= 0:
                self.receive()
                continue
            self.protocol.send_data(stream, data[:room], end_stream=end and len(data) <= room)
            self.flush()
            if end and len(data) <= room:
                return
            data = data[room:]
        if end:
            self.protocol.send_data(stream, b"", end_stream=True)
            self.flush()

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        stream = self.open(method, path, named, end=body is None)
        if body is not None:
            self.send(stream, body, end=True)
        return self.reply(stream)

    def flush(self) -> None:
        self.socket.sendall(self.protocol.data_to_send())

    # Receiving

    def reply(self, stream: int) -> Reply:
        """The response on a stream; ConnectionError if the stream or the connection has ended."""
        deadline = time.monotonic() + self.timeout
        while stream not in self._ended:
            if stream in self.resets and stream not in self.answered:
                raise ConnectionError(f"stream {stream} was reset: {self.resets[stream]}")
            if self.closed or time.monotonic() > deadline:
                raise ConnectionError("the connection was closed" if self.closed else "no response")
            self.receive()
        head = dict(self.answered[stream])
        return Reply(int(head.pop(":status")), head, bytes(self._bodies.get(stream, b"")))

    def status(self, stream: int) -> int:
        """The status on a stream; the body may be missing."""
        deadline = time.monotonic() + self.timeout
        while stream not in self.answered:
            if self.closed or stream in self.resets or time.monotonic() > deadline:
                raise ConnectionError(f"no response on stream {stream}")
            self.receive()
        return int(self.answered[stream][":status"])

    def receive(self) -> None:
        """Waits for something from the server, and takes it."""
        try:
            data = self.socket.recv(65536)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return
        try:
            for event in self.protocol.receive_data(data):
                self._take(event)
        except h2.exceptions.ProtocolError:
            self.closed = True
            return
        if not self.closed:
            with suppress(OSError):  # noticed when the next data is awaited
                self.flush()

    def _take(self, event: Any) -> None:
        match event:
            case h2.events.ResponseReceived():
                self.answered[event.stream_id] = {
                    str(name): str(value) for name, value in event.headers
                }
            case h2.events.DataReceived():
                self._bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
                if self._takes_data:
                    size = event.flow_controlled_length
                    self.protocol.acknowledge_received_data(size, event.stream_id)
            case h2.events.StreamEnded():
                self._ended.add(event.stream_id)
            case h2.events.StreamReset():
                self.resets[event.stream_id] = int(event.error_code)
            case h2.events.ConnectionTerminated():
                self.closed = True
            case _:
                pass
