"""Containers full of documents, and all pages of a query over them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.query.engines import Engine
from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply

SYSTEM: Final = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts"})
# By the number of ranges; the throughput that gives a container so many.
THROUGHPUT: Final = {1: "400", 4: "24000"}
OWN_KEY: Final = "filled-"  # of documents that come without one
INT64: Final = 2**63


class Problem(NamedTuple):
    """A finding of the query compiler as a client reads it."""

    code: str
    message: str
    start: int
    end: int


class FilledContainer(NamedTuple):
    """A container of one engine's server."""

    raw: RawClient
    path: str
    engine: Engine

    def query(
        self, text: str, parameters: Mapping[str, Any] | None = None, /, **more: str
    ) -> Reply:
        listed = [{"name": name, "value": value} for name, value in (parameters or {}).items()]
        headers = {name.replace("-", "_"): value for name, value in self.engine.headers.items()}
        return self.raw.query(f"{self.path}/docs", text, listed, **headers, **more)

    def page(self, text: str, parameters: Mapping[str, Any] | None, size: int, token: str) -> Reply:
        more = {"continuation": token} if token else {}
        reply = self.query(text, parameters, count=str(size), **more)
        assert reply.status == 200, (text, reply)
        found = reply.json
        assert found["_count"] == len(found["Documents"]) <= size, text
        assert len(reply.headers.get("x-ms-continuation", "")) <= 1024, text
        return reply

    def drain(
        self, text: str, parameters: Mapping[str, Any] | None = None, size: int = 1000
    ) -> Any:
        """The rows of all pages."""
        rows: list[Any] = []
        token = ""
        while True:
            reply = self.page(text, parameters, size, token)
            rows += reply.json["Documents"]
            token = reply.headers.get("x-ms-continuation", "")
            if not token:
                return rows


def fill_container(
    raw: RawClient,
    database: str,
    name: str,
    documents: Sequence[Mapping[str, Any]],
    engine: Engine,
    ranges: int = 1,
    properties: Mapping[str, Any] | None = None,
) -> FilledContainer:
    """A new container with the key /pk and these documents, in this order."""
    body = {
        "id": name,
        "partitionKey": PARTITION_KEY,
        **(properties or {}),
    }
    made = raw.post(f"{database}/colls", body, throughput=THROUGHPUT[ranges])
    assert made.status == 201, made
    path = f"{database}/colls/{name}"
    for number, document in enumerate(documents):
        stored = {"pk": f"{OWN_KEY}{number % 7}", **document}
        reply = raw.post(f"{path}/docs", stored, pk=json.dumps([stored["pk"]]))
        assert reply.status == 201, reply
    engine.prepare(raw, path)
    return FilledContainer(raw, path, engine)


def problems(reply: Reply) -> list[Problem]:
    """What the compiler said in a 400; empty if it was another part that refused."""
    text = reply.json["message"].partition("\r\nActivityId: ")[0].removeprefix("Message: ")
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return []
    return [
        Problem(each["code"], each["message"], each["location"]["start"], each["location"]["end"])
        for each in found.get("errors", ())
        if each["severity"] == "Error"
    ]


def normalized(value: Any, digits: int | None = None) -> str:
    """A text that is equal for equal values: whatever the order of names and the form of numbers.

    Items lose what the server added. `digits` rounds what has a fraction.
    """
    return json.dumps(_normal(value, digits), sort_keys=True, ensure_ascii=False)


def _normal(value: Any, digits: int | None) -> Any:
    if isinstance(value, dict):
        stored = {name: _normal(each, digits) for name, each in value.items()}
        if SYSTEM.issubset(stored):
            stored = {name: each for name, each in stored.items() if name not in SYSTEM}
            if str(stored.get("pk", "")).startswith(OWN_KEY):
                del stored["pk"]
        return stored
    if isinstance(value, list):
        return [_normal(each, digits) for each in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and not -INT64 <= value < INT64:
        value = float(value)  # as every number of that size
    if isinstance(value, float):
        if value.is_integer() and -INT64 <= value < INT64:
            return int(value)
        return value if digits is None else float(f"{value:.{digits}g}")
    return value
