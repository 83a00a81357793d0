"""A plain socket, for requests that no HTTP library would send."""

from __future__ import annotations

import functools
import http.client
import select
import socket
from collections.abc import Mapping
from io import BufferedReader
from urllib.parse import urlsplit

from tests.support.raw import Reply, signature
from tests.support.waiting import TIME_LIMIT


class PlainSocket:
    """A connection to a server. A test reads with `reply`, or with `read_head` and `read_reply`."""

    def __init__(self, endpoint: str) -> None:
        target = urlsplit(endpoint)
        self.host = target.netloc
        self._socket = socket.create_connection((target.hostname, target.port), timeout=TIME_LIMIT)

    def close(self) -> None:
        if "_file" in self.__dict__:
            self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send_request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> None:
        """Sends a signed request; `headers` say how long the body is."""
        lines = [f"{name}: {value}".encode() for name, value in headers.items()]
        self.send(self.request_head(method, path, *lines) + body)

    def request_head(self, method: str, path: str, *lines: bytes) -> bytes:
        """A signed request up to the empty line."""
        text = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\n"
        for name, value in signature(method, path).items():
            text += f"{name}: {value}\r\n"
        return text.encode() + b"".join(line + b"\r\n" for line in lines) + b"\r\n"

    def finish(self) -> None:
        """Tells the server that no more data follows."""
        self._socket.shutdown(socket.SHUT_WR)

    def has_reply(self, within: float = 0) -> bool:
        return bool(select.select([self._socket], [], [], within)[0])

    @property
    def address(self) -> str:
        """How the server names this client, on IPv4."""
        host, port = self._socket.getsockname()
        return f"{host}:{port}"

    def send_segments_immediately(self) -> None:
        """Each `send` becomes a segment of its own, however short it is."""
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def limit_receive_buffer(self) -> None:
        """Lets the operating system take a few kilobytes that the test does not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

    def reply(self, method: str = "GET") -> Reply | None:
        """The next response, or None if the connection was closed instead."""
        response = http.client.HTTPResponse(self._socket, method=method)
        try:
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, response.read())
        except (http.client.BadStatusLine, ConnectionError):
            return None
        finally:
            response.close()

    # Responses one after the other, of which one may be only a head

    @functools.cached_property
    def _file(self) -> BufferedReader:
        return self._socket.makefile("rb")

    def read_head(self) -> tuple[int, dict[str, str]]:
        """The next status and headers; the body is left unread."""
        status = int(self._file.readline().split()[1])
        headers = http.client.parse_headers(self._file)
        return status, {name.lower(): value for name, value in headers.items()}

    def read_reply(self) -> Reply:
        status, headers = self.read_head()
        return Reply(status, headers, self._file.read(int(headers.get("content-length", "0"))))
