"""Batches as the .NET client sends and reads them: captured bodies, a writer and a reader.

Independent of the server's code: written along the bytes that the client sends, column by column.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from random import Random
from typing import Any, Final, NamedTuple

from tests.support.raw import RawClient, Reply

SEGMENT: Final = bytes.fromhex("81f0d8ff7f010a000000")
OPERATION: Final = bytes.fromhex("817054e17f")
RESULT: Final = bytes.fromhex("817154e17f")
TYPES: Final = {"Create": 0, "Patch": 1, "Read": 2, "Delete": 4, "Replace": 5, "Upsert": 20}

# Bodies that the client has sent, and the operations in them.
REQUESTS: Final[dict[str, tuple[str, list[dict[str, Any]]]]] = {
    "upsert": (
        "81f0d8ff7f010a000000 81f1d8ff7f2c000000d4494759 817054e17f 43 14000000 02000000"
        "1d 7b226964223a2261222c22706b223a227631222c2274746c223a36307d",
        [{"operationType": "Upsert", "resourceBody": b'{"id":"a","pk":"v1","ttl":60}'}],
    ),
    "read": (
        "81f0d8ff7f010a000000 81f1d8ff7f100000002022835e 817054e17f 13 02000000 02000000 01 61",
        [{"operationType": "Read", "id": "a"}],
    ),
    "replace": (
        "81f0d8ff7f010a000000 81f1d8ff7f2c000000e6a279bd 817054e17f 53 05000000 02000000 01 61"
        "14 7b226964223a2261222c22706b223a227631227d 14 09 04 22653122",
        [
            {
                "operationType": "Replace",
                "id": "a",
                "resourceBody": b'{"id":"a","pk":"v1"}',
                "ifMatch": '"e1"',
            }
        ],
    ),
    "three operations with options": (
        "81f0d8ff7f010a000000"
        "81f1d8ff7f3300000026a2b7e9 817054e17f 43 14000000 02000000"
        "14 7b226964223a2262222c22706b223a227631227d 14 08 07 4578636c756465 14 0a 01 2a 03 0c"
        "81f1d8ff7f170000003f90c9df 817054e17f 13 02000000 02000000 01 62 14 0a 04 227a7a22"
        "81f1d8ff7f1a0000002a46989d 817054e17f 13 04000000 02000000 01 62 14 08 07 44656661756c74",
        [
            {
                "operationType": "Upsert",
                "resourceBody": b'{"id":"b","pk":"v1"}',
                "indexingDirective": "Exclude",
                "ifNoneMatch": "*",
                "minimalReturnPreference": True,
            },
            {"operationType": "Read", "id": "b", "ifNoneMatch": '"zz"'},
            {"operationType": "Delete", "id": "b", "indexingDirective": "Default"},
        ],
    ),
    "upsert with columns of other APIs": (
        "81f0d8ff7f010a000000 81f1d8ff7f40000000d6594e7b 817054e17f 6b 14000000 02000000"
        "02 aabb 03 010203 14 7b226964223a2270222c22706b223a227631227d"
        "14 08 07 496e636c756465 14 09 03 226522 07 0b 4d000000",
        [
            {
                "operationType": "Upsert",
                "effectivePartitionKey": b"\xaa\xbb",
                "binaryId": b"\x01\x02\x03",
                "resourceBody": b'{"id":"p","pk":"v1"}',
                "indexingDirective": "Include",
                "ifMatch": '"e"',
                "timeToLiveInSeconds": 77,
            }
        ],
    ),
    "upsert of an empty stream": (
        "81f0d8ff7f010a000000 81f1d8ff7f0e0000004903c2c0 817054e17f 03 14000000 02000000",
        [{"operationType": "Upsert"}],
    ),
    "read of an id outside ASCII": (
        "81f0d8ff7f010a000000 81f1d8ff7f180000004d8e6fe1 817054e17f 13 02000000 02000000"
        "09 c3a9e282acf09f9880",
        [{"operationType": "Read", "id": "é€😀"}],
    ),
    "bulk upsert": (
        "81f0d8ff7f010a000000 81f1d8ff7f2700000026af4588 817054e17f 47 14000000 02000000"
        "05 5b352e305d 12 7b226964223a226b33222c22706b223a357d",
        [
            {
                "operationType": "Upsert",
                "partitionKey": "[5.0]",
                "resourceBody": b'{"id":"k3","pk":5}',
            }
        ],
    ),
    "bulk patch": (
        "81f0d8ff7f010a000000 81f1d8ff7f7300000040dec7ac 817054e17f 57 01000000 02000000"
        "06 5b226231225d 02 6b31"
        "5a 7b22636f6e646974696f6e223a2266726f6d206320776865726520632e6964203d20276b3127222c"
        "226f7065726174696f6e73223a5b7b226f70223a22616464222c2270617468223a222f78222c2276616c7565"
        "223a317d5d7d",
        [
            {
                "operationType": "Patch",
                "partitionKey": '["b1"]',
                "id": "k1",
                "resourceBody": b'{"condition":"from c where c.id = \'k1\'",'
                b'"operations":[{"op":"add","path":"/x","value":1}]}',
            }
        ],
    ),
    "bulk delete": (
        "81f0d8ff7f010a000000 81f1d8ff7f18000000c843cf5b 817054e17f 17 04000000 02000000"
        "06 5b226231225d 02 6b31",
        [{"operationType": "Delete", "partitionKey": '["b1"]', "id": "k1"}],
    ),
}


def request_body(name: str) -> bytes:
    """A captured body by its name in REQUESTS."""
    return bytes.fromhex(REQUESTS[name][0])


# Writing ------------------------------------------------------------------------------------------


def varuint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def prefixed(value: str | bytes) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return varuint(len(content)) + content


def operation_row(operation: Mapping[str, Any]) -> bytes:
    """The row of one operation; a `resourceBody` that is not bytes is written as JSON."""
    presence, variable = 0x03, b""
    for bit, name in enumerate(
        ("partitionKey", "effectivePartitionKey", "id", "binaryId", "resourceBody"), 2
    ):
        if name in operation:
            presence |= 1 << bit
            value = operation[name]
            is_item = name == "resourceBody" and not isinstance(value, bytes)
            variable += prefixed(json.dumps(value) if is_item else value)
    sparse = b""
    for token, name in ((8, "indexingDirective"), (9, "ifMatch"), (10, "ifNoneMatch")):
        if name in operation:
            sparse += bytes((0x14, token)) + prefixed(operation[name])
    if "timeToLiveInSeconds" in operation:
        sparse += b"\x07\x0b" + struct.pack("<i", operation["timeToLiveInSeconds"])
    if operation.get("minimalReturnPreference"):
        sparse += b"\x03\x0c"
    fixed = struct.pack("<ii", TYPES[operation["operationType"]], 2)
    return OPERATION + bytes((presence,)) + fixed + variable + sparse


def record(row: bytes) -> bytes:
    return b"\x81\xf1\xd8\xff\x7f" + struct.pack("<iI", len(row), zlib.crc32(row)) + row


def stream(*rows: bytes) -> bytes:
    return SEGMENT + b"".join(map(record, rows))


def encode(*operations: Mapping[str, Any]) -> bytes:
    """The body of a batch with these operations."""
    return stream(*map(operation_row, operations))


def send(
    raw: RawClient, container: str, body: bytes, *, atomic: bool = True, **headers: str
) -> Reply:
    """Sends a batch with the headers of the .NET client; a bulk request names a range."""
    sent = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": str(atomic)}
    if atomic:
        sent["x-ms-cosmos-batch-ordered"] = "True"
    else:
        sent["x-ms-cosmos-batch-continue-on-error"] = "True"
        sent["x-ms-documentdb-partitionkeyrangeid"] = "0"
    named = {name.replace("_", "-"): value for name, value in headers.items() if name != "pk"}
    if "pk" in headers:
        named["x-ms-documentdb-partitionkey"] = headers["pk"]
    return raw.request("POST", f"{container}/docs", body, sent | named)


def mutated(body: bytes, random: Random) -> bytes:
    """The body with a few bytes changed, removed, repeated or inserted."""
    changed = bytearray(body)
    for _ in range(random.randint(1, 4)):
        place = random.randrange(len(changed) + 1)
        match random.randrange(4):
            case 0 if place < len(changed):
                changed[place] = random.randrange(256)
            case 1:
                del changed[place : place + random.randint(1, 9)]
            case 2:
                changed[place:place] = changed[place : place + random.randint(1, 30)]
            case _:
                changed[place:place] = random.randbytes(random.randint(1, 9))
    return bytes(changed)


# Reading ------------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What the client reads from the row of one result."""

    status: int
    sub_status: int
    etag: str | None = None
    body: bytes | None = None
    retry_after_ms: int | None = None
    charge: float | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


def decode(body: bytes) -> list[Result]:
    """The results in a response; AssertionError where the client would refuse to read it."""
    assert body[:10] == SEGMENT
    position, results = 10, []
    while position < len(body):
        assert body[position : position + 5] == b"\x81\xf1\xd8\xff\x7f"
        length, checksum = struct.unpack_from("<iI", body, position + 5)
        position += 13
        row = body[position : position + length]
        assert (len(row), zlib.crc32(row)) == (length, checksum)
        results.append(_result(row))
        position += length
    return results


def _result(row: bytes) -> Result:
    assert row[:5] == RESULT
    presence = row[5]
    status, sub_status = struct.unpack_from("<ii", row, 6)
    assert presence & 0x03 == 0x03
    assert status
    position, values = 14, []
    for bit in (0x04, 0x08):
        if presence & bit:
            length, position = _varuint(row, position)
            values.append(row[position : position + length])
            position += length
        else:
            values.append(b"")
    retry_after = charge = None
    while position < len(row):
        if row[position : position + 2] == b"\x0b\x05":
            (retry_after,) = struct.unpack_from("<I", row, position + 2)
            position += 6
        else:
            assert row[position : position + 2] == b"\x10\x06"
            (charge,) = struct.unpack_from("<d", row, position + 2)
            position += 10
    etag = values[0].decode() if presence & 0x04 else None
    item = values[1] if presence & 0x08 else None
    return Result(status, sub_status, etag, item, retry_after, charge)


def _varuint(row: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while row[position] & 0x80:
        value |= (row[position] & 0x7F) << shift
        shift, position = shift + 7, position + 1
    return value | row[position] << shift, position + 1
