"""What a refused request must look like."""

from __future__ import annotations

from tests.support.raw import RawClient, Reply
from tests.support.sockets import PlainSocket

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


def answer(wire: PlainSocket) -> Reply:
    reply = wire.reply()
    assert reply is not None
    return reply
