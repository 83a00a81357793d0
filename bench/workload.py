"""The documents, and one row of the table for each operation."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from bench.signing import Request, Target

DATABASE: Final = "/dbs/bench"
PRELOADED: Final = f"{DATABASE}/colls/items"
# Creates have their own container, so that every other row works on the same documents, however
# many creates a server has done before.
CREATED: Final = f"{DATABASE}/colls/created"

DOCUMENT_BYTES: Final = 750
PAGE: Final = 100  # documents in a page of the feed
_PARTITIONS: Final = 1000
_CREATE_VARIANTS: Final = 1000

# Fresh ids have one width, so that one Content-Length fits all; Lua formats them in the same way.
FRESH_ID: Final = "new-%04d-%02d-%010d"  # run, thread, counter
_FRESH_WIDTH: Final = len(FRESH_ID % (0, 0, 0))


class Row(NamedTuple):
    """An operation, the status that means success, and its requests for a number of documents."""

    name: str
    status: int
    requests: Callable[[Target, int], list[Request]]
    documents_in_reply: int = 1
    max_connections: int = 1000

    @property
    def min_reply_bytes(self) -> int:
        """A smaller reply cannot contain its documents."""
        return self.documents_in_reply * DOCUMENT_BYTES * 9 // 10


def partition_of(number: int) -> str:
    return f"p{number % _PARTITIONS:04d}"


def id_of(number: int) -> str:
    return f"doc-{number:08d}"


@functools.cache  # requests are signed again for each run; their bodies need not be built again
def document(number: int, name: str, revision: int = 0) -> bytes:
    """A document of about DOCUMENT_BYTES bytes; the same for the same arguments."""
    rng = random.Random(number)
    value: dict[str, Any] = {
        "id": name,
        "pk": partition_of(number),
        "revision": revision,
        "name": f"customer {number}",
        "email": f"customer{number}@example.com",
        "active": number % 3 != 0,
        "score": round(rng.uniform(0, 100), 3),
        "created": f"2024-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}T08:00:00Z",
        "address": {
            "street": f"{rng.randint(1, 400)} Long Street",
            "city": rng.choice(("Lisbon", "Oslo", "Turin", "Ghent", "Porto")),
            "location": [round(rng.uniform(-90, 90), 5), round(rng.uniform(-180, 180), 5)],
        },
        "tags": rng.sample(("red", "green", "blue", "large", "small", "new", "old"), 3),
        "orders": [
            {"sku": f"sku-{rng.randint(0, 99999):05d}", "count": rng.randint(1, 9)}
            for _ in range(4)
        ],
        "note": "",
    }
    missing = DOCUMENT_BYTES - len(_encode(value))
    value["note"] = "".join(rng.choices("abcdefghij klmnop", k=max(missing, 0)))
    return _encode(value)


def setup(target: Target, paths: Sequence[str] = (PRELOADED, CREATED)) -> list[bytes]:
    """Requests that create the database and these containers; each returns 201."""
    key = {"paths": ["/pk"], "kind": "Hash", "version": 2}
    return [
        target.request("POST", "/dbs", _encode({"id": "bench"})),
        *(
            target.request(
                "POST",
                f"{DATABASE}/colls",
                _encode({"id": path.rpartition("/")[2], "partitionKey": key}),
            )
            for path in paths
        ),
    ]


def preload(target: Target, numbers: Iterable[int], path: str = PRELOADED) -> list[bytes]:
    """Requests that create the documents of all rows except create; each returns 201."""
    return [
        target.request("POST", f"{path}/docs", document(number, id_of(number)), _key_header(number))
        for number in numbers
    ]


def point_reads(target: Target, documents: int) -> list[Request]:
    return [
        Request(
            target.request("GET", f"{PRELOADED}/docs/{id_of(number)}", None, _key_header(number))
        )
        for number in _shuffled(documents)
    ]


def fresh_creates(target: Target, documents: int, path: str = CREATED) -> list[Request]:
    """Variants of a create without their id; the driver inserts a fresh one."""
    requests = []
    for number in range(min(documents, _CREATE_VARIANTS)):
        placeholder = "#" * _FRESH_WIDTH
        before, _, after = document(number, placeholder).partition(placeholder.encode())
        extra = _FRESH_WIDTH + len(after)
        head = target.request("POST", f"{path}/docs", before, _key_header(number), extra=extra)
        requests.append(Request(head, after))
    return requests


def upserts(target: Target, documents: int, path: str = PRELOADED) -> list[Request]:
    return [
        Request(
            target.request(
                "POST",
                f"{path}/docs",
                document(number, id_of(number), revision=1),
                {**_key_header(number), "x-ms-documentdb-is-upsert": "true"},
            )
        )
        for number in _shuffled(documents)
    ]


def _replace(target: Target, documents: int) -> list[Request]:
    return [
        Request(
            target.request(
                "PUT",
                f"{PRELOADED}/docs/{id_of(number)}",
                document(number, id_of(number), revision=2),
                _key_header(number),
            )
        )
        for number in _shuffled(documents)
    ]


def _read_feed(target: Target, _documents: int) -> list[Request]:
    """The first page; servers differ in how the next one is requested."""
    headers = {"x-ms-max-item-count": str(PAGE)}
    return [Request(target.request("GET", f"{PRELOADED}/docs", None, headers))]


def _key_header(number: int) -> dict[str, str]:
    return {"x-ms-documentdb-partitionkey": f'["{partition_of(number)}"]'}


def _shuffled(documents: int) -> list[int]:
    """All numbers in an order that is not the order of insertion, and the same every time."""
    return random.Random(documents).sample(range(documents), documents)


def _encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


ROWS: Final = (
    Row("point read", 200, point_reads),
    Row("create", 201, fresh_creates),
    Row("upsert", 200, upserts),  # of existing documents; otherwise it would be a create
    Row("replace", 200, _replace),
    # The peer needs seconds for a page of a large container; more connections would only queue.
    Row("read feed", 200, _read_feed, documents_in_reply=PAGE, max_connections=2),
)
