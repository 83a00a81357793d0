"""A plain HTTP client that signs as the protocol says, independent of the server's own code."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import select
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from tests.support.waiting import TIME_LIMIT

EMULATOR_KEY = (
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def sub_status(self) -> int:
        return int(self.headers.get("x-ms-substatus", "0"))


def sign(key: str, verb: str, kind: str, link: str, date: str) -> str:
    """The value of the authorization header."""
    text = f"{verb.lower()}\n{kind.lower()}\n{link}\n{date.lower()}\n\n"
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    return quote(f"type=master&ver=1.0&sig={base64.b64encode(digest).decode()}", safe="")


def signed_for(path: str) -> tuple[str, str]:
    """Resource type and link of a path made of names."""
    parts = path.strip("/").split("/")
    if parts == [""]:
        return "", ""
    if parts[0] == "_perseid":
        return "_perseid", "/".join(parts)
    if parts[4:] == ["operations", "partitionkeydelete"]:
        return "colls", "/".join(parts[:4])
    if len(parts) % 2 == 0:
        link = parts[1].lower() if parts[0] == "offers" else "/".join(parts)
        return parts[-2], link
    return parts[-1], "/".join(parts[:-1])


def signature(method: str, path: str) -> dict[str, str]:
    """The headers that sign a request without a client."""
    kind, link = signed_for(path)
    date = formatdate(usegmt=True)
    return {"x-ms-date": date, "authorization": sign(EMULATOR_KEY, method, kind, link, date)}


class RawClient:
    """One keep-alive connection to a server."""

    def __init__(
        self, endpoint: str, key: str = EMULATOR_KEY, timeout: float = 2 * TIME_LIMIT
    ) -> None:
        self.endpoint = endpoint
        self.key = key
        target = urlsplit(endpoint)
        assert target.hostname
        self._connection = http.client.HTTPConnection(target.hostname, target.port, timeout=timeout)

    def close(self) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        sign_with: str | None = "",
        raw_path: str | None = None,
        token: str | None = None,
    ) -> Reply:
        """Sends one request; `path` is made of plain names.

        `body` is sent as JSON unless it is bytes. `sign_with` is the key, None for no signature.
        `raw_path` replaces the percent-encoded form of `path` on the wire. `token` is a resource
        token to send in the place of a signature.
        """
        sent = {"x-ms-version": "2020-07-15", "x-ms-date": formatdate(usegmt=True)}
        if token is not None:
            sent["authorization"] = quote(token, safe="")
        elif sign_with is not None:
            kind, link = signed_for(path)
            key = sign_with or self.key
            sent["authorization"] = sign(key, method, kind, link, sent["x-ms-date"])
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["content-type"] = "application/json"
        sent |= headers or {}
        self._renew()
        url = raw_path if raw_path is not None else quote(path, safe="/")
        try:
            self._connection.request(method, url, content, sent)
            response = self._connection.getresponse()
        except (http.client.HTTPException, OSError):
            self._connection.close()
            raise
        return Reply(
            response.status,
            {name.lower(): value for name, value in response.getheaders()},
            response.read(),
        )

    def _renew(self) -> None:
        """Connects again if the server has closed a connection that was not used for long."""
        sock = self._connection.sock
        if sock is not None:
            looking = select.poll()
            looking.register(sock, select.POLLIN)
            if looking.poll(0):  # with nothing asked, that is the end and not an answer
                self._connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.request("GET", path, headers=_named(headers))

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        return self.request("POST", path, body, _named(headers))

    def put(self, path: str, body: Any, **headers: str) -> Reply:
        return self.request("PUT", path, body, _named(headers))

    def patch(self, path: str, body: Any, **headers: str) -> Reply:
        return self.request("PATCH", path, body, _named(headers))

    def batch(self, path: str, operations: Any, *, atomic: bool = True, **headers: str) -> Reply:
        """A transactional batch on the items of a container, or a bulk request."""
        sent = {
            "x-ms-cosmos-is-batch-request": "True",
            "x-ms-cosmos-batch-atomic": str(atomic),
            "x-ms-cosmos-batch-continue-on-error": str(not atomic),
        }
        return self.request("POST", f"{path}/docs", operations, sent | _named(headers))

    def clear_partition(self, path: str, pk: str, **headers: str) -> Reply:
        """Deletes all items of a container that have this partition key."""
        return self.post(f"{path}/operations/partitionkeydelete", None, pk=pk, **headers)

    def delete(self, path: str, **headers: str) -> Reply:
        return self.request("DELETE", path, headers=_named(headers))

    def query(self, path: str, text: str, parameters: Any = (), **headers: str) -> Reply:
        body = {"query": text, "parameters": list(parameters)}
        sent = {
            "content-type": "application/query+json",
            "x-ms-documentdb-isquery": "true",
            "x-ms-documentdb-query-enablecrosspartition": "true",
        }
        return self.request("POST", path, body, sent | _named(headers))


_SHORT = {
    "pk": "x-ms-documentdb-partitionkey",
    "upsert": "x-ms-documentdb-is-upsert",
    "session": "x-ms-session-token",
    "continuation": "x-ms-continuation",
    "count": "x-ms-max-item-count",
    "range": "x-ms-documentdb-partitionkeyrangeid",
    "throughput": "x-ms-offer-throughput",
    "expiry": "x-ms-documentdb-expiry-seconds",
}


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    """Keyword arguments as header names: short names above, else `_` for `-`."""
    return {_SHORT.get(name, name.replace("_", "-")): value for name, value in headers.items()}
