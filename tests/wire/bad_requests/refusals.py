"""What a refused request must look like."""

from __future__ import annotations

import http.client
import select
import socket
from email.utils import formatdate
from urllib.parse import urlsplit

from perseid.config import WELL_KNOWN_KEY
from tests.support.raw import RawClient, Reply, sign, signed_for

PK = {"x-ms-documentdb-partitionkey": '["a"]'}
QUERY = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "true",
    "x-ms-documentdb-query-enablecrosspartition": "true",
}


def assert_refused(reply: Reply, status: int, code: str, sub_status: int = 0) -> str:
    """The shape every refusal has; returns its text."""
    assert (reply.status, reply.sub_status) == (status, sub_status), reply.body[:300]
    assert reply.headers["content-type"] == "application/json"
    assert float(reply.headers["x-ms-request-charge"]) > 0
    body = reply.json
    assert list(body) == ["code", "message"]
    assert body["code"] == code
    message: str = body["message"]
    assert f"\r\nActivityId: {reply.headers['x-ms-activity-id']}" in message
    return message


def bad(reply: Reply) -> str:
    return assert_refused(reply, 400, "BadRequest")


class Bodies:
    """Everywhere a body goes: method, path, headers."""

    def __init__(self, raw: RawClient, container: str, offer: str) -> None:
        database = container.removesuffix("/colls/c")
        docs = f"{container}/docs"
        self.raw = raw
        self.objects: list[tuple[str, str, dict[str, str]]] = [
            ("POST", "/dbs", {}),
            ("POST", f"{database}/colls", {}),
            ("PUT", container, {}),
            ("POST", docs, PK),
            ("POST", docs, {**PK, "x-ms-documentdb-is-upsert": "true"}),
            ("PUT", f"{docs}/1", PK),
            ("PUT", offer, {}),
        ]
        self.queries: list[tuple[str, str, dict[str, str]]] = [
            ("POST", "/dbs", QUERY),
            ("POST", f"{database}/colls", QUERY),
            ("POST", docs, QUERY),
            ("POST", "/offers", QUERY),
        ]

    def refuse_everywhere(self, body: bytes, *fragments: str, queries: bool = True) -> None:
        places = self.objects + (self.queries if queries else [])
        for method, path, headers in places:
            message = bad(self.raw.request(method, path, body, headers))
            for fragment in fragments:
                assert fragment in message, (method, path)


class Wire:
    """A plain socket, for what no HTTP library would send."""

    def __init__(self, endpoint: str) -> None:
        target = urlsplit(endpoint)
        self.host = target.netloc
        self._socket = socket.create_connection((target.hostname, target.port), timeout=5)

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def has_answer(self) -> bool:
        return bool(select.select([self._socket], [], [], 0)[0])

    def finish(self) -> None:
        """No more will come."""
        self._socket.shutdown(socket.SHUT_WR)

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

    def close(self) -> None:
        self._socket.close()

    def head(self, method: str, path: str, *lines: bytes) -> bytes:
        """A signed request up to the empty line."""
        kind, link = signed_for(path)
        date = formatdate(usegmt=True)
        token = sign(WELL_KNOWN_KEY, method, kind, link, date)
        start = f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nx-ms-date: {date}\r\n"
        text = f"{start}authorization: {token}\r\n".encode()
        return text + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def answer(wire: Wire) -> Reply:
    reply = wire.reply()
    assert reply is not None
    return reply
