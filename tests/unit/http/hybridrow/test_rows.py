"""Rows and streams: captured bodies, round trips, and bodies that are not valid."""

from __future__ import annotations

import contextlib
import struct
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid import charges
from perseid.errors import AlreadyExists, BadRequest, RequestEntityTooLarge, TooManyRequests
from perseid.http.hybridrow.batch_rows import OPERATION, RESULT, read_operations, write_results
from perseid.http.hybridrow.record_io import is_stream, records, write_stream
from perseid.http.hybridrow.rows import RowSchema, read_row, write_row
from perseid.limits import MAX_BODY_BYTES
from perseid.service.items.batch_results import FAILED_DEPENDENCY, OperationResult, failed
from tests.support import hybridrow
from tests.support.hybridrow import REQUESTS, mutated, operation_row, record, request_body, stream

IGNORED = {"effectivePartitionKey", "binaryId", "timeToLiveInSeconds"}
READ = operation_row({"operationType": "Read", "id": "a"})


def values_of(body: bytes, schema: RowSchema = OPERATION) -> list[dict[str, Any]]:
    return [read_row(row, schema) for row in records(body)]


# Captured bodies ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REQUESTS)
def test_a_captured_request_is_read(name: str) -> None:
    expected = [
        {key: value for key, value in operation.items() if key not in IGNORED}
        for operation in REQUESTS[name][1]
    ]
    assert read_operations(request_body(name)) == expected


@pytest.mark.parametrize("name", REQUESTS)
def test_a_captured_request_is_written_again_byte_by_byte(name: str) -> None:
    body = request_body(name)
    assert write_stream(write_row(row, OPERATION) for row in values_of(body)) == body


ITEM = (
    "81f0d8ff7f010a000000 81f1d8ff7f2800000095f3583e 817154e17f 0f c9000000 00000000"
    "04 22653122 0a 7b226964223a2261227d 10 06 736891ed7cbf1540"
)
DELETED = (
    "81f0d8ff7f010a000000 81f1d8ff7f180000003fcc4cbb 817154e17f 03 cc000000 00000000"
    "10 06 0000000000001840"
)
CONFLICT = (
    "81f0d8ff7f010a000000 81f1d8ff7f0e0000001bda7390 817154e17f 03 a8010000 00000000"
    "81f1d8ff7f18000000b8087dfe 817154e17f 03 99010000 00000000 10 06 d7a3703d0ad7f33f"
    "81f1d8ff7f0e0000001bda7390 817154e17f 03 a8010000 00000000"
)
THROTTLED = (
    "81f0d8ff7f010a000000 81f1d8ff7f1e000000aa57d854 817154e17f 03 ad010000 800c0000"
    "0b 05 14000000 10 06 0000000000000000"
)
FAILED: dict[str, Any] = {"statusCode": 424, "subStatusCode": 0}


@pytest.mark.parametrize(
    ("text", "results"),
    [
        (
            ITEM,
            [
                {
                    "statusCode": 201,
                    "subStatusCode": 0,
                    "eTag": '"e1"',
                    "resourceBody": b'{"id":"a"}',
                    "requestCharge": 5.437,
                }
            ],
        ),
        (DELETED, [{"statusCode": 204, "subStatusCode": 0, "requestCharge": 6.0}]),
        (
            CONFLICT,
            [FAILED, {"statusCode": 409, "subStatusCode": 0, "requestCharge": 1.24}, FAILED],
        ),
        (
            THROTTLED,
            [
                {
                    "statusCode": 429,
                    "subStatusCode": 3200,
                    "retryAfterMilliseconds": 20,
                    "requestCharge": 0.0,
                }
            ],
        ),
    ],
)
def test_responses_have_the_bytes_that_the_client_accepts(
    text: str, results: list[dict[str, Any]]
) -> None:
    body = bytes.fromhex(text)
    assert write_stream(write_row(result, RESULT) for result in results) == body
    assert values_of(body, RESULT) == results


def test_a_failed_operation_says_why() -> None:
    conflict = failed(AlreadyExists())
    body = write_results([FAILED_DEPENDENCY, conflict, OperationResult(204, 6.0)], "an-id")
    first, second, third = hybridrow.decode(body)
    assert first == hybridrow.Result(424, 0, charge=0.0)
    assert (second.status, second.charge) == (409, charges.REJECTED)
    assert second.json["code"] == "Conflict"
    assert "an-id" in second.json["message"]
    assert third == hybridrow.Result(204, 0, charge=6.0)


def test_a_throttled_operation_says_when_to_retry() -> None:
    error = TooManyRequests("Please retry.", headers=[("x-ms-retry-after-ms", "1500")])
    (result,) = hybridrow.decode(write_results([failed(error)], "an-id"))
    assert (result.status, result.retry_after_ms) == (429, 1500)


# Round trips --------------------------------------------------------------------------------------

TEXTS = st.text(max_size=200)
OPERATIONS = st.fixed_dictionaries(
    {"operationType": st.sampled_from(sorted(hybridrow.TYPES))},
    optional={
        "partitionKey": TEXTS,
        "effectivePartitionKey": st.binary(max_size=40),
        "id": TEXTS,
        "binaryId": st.binary(max_size=40),
        # 80 would be binary JSON
        "resourceBody": st.binary(max_size=20_000).filter(lambda body: body[:1] != b"\x80"),
        "indexingDirective": TEXTS,
        "ifMatch": TEXTS,
        "ifNoneMatch": TEXTS,
        "timeToLiveInSeconds": st.integers(-(2**31), 2**31 - 1),
        "minimalReturnPreference": st.just(True),
    },
)


@given(st.lists(OPERATIONS, max_size=8))
def test_what_is_written_is_read(operations: list[dict[str, Any]]) -> None:
    body = hybridrow.encode(*operations)
    assert is_stream(body)
    assert read_operations(body) == [
        {name: value for name, value in operation.items() if name not in IGNORED}
        for operation in operations
    ]
    assert write_stream(write_row(row, OPERATION) for row in values_of(body)) == body


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16_383, 16_384, 2_000_000])
def test_lengths_of_every_number_of_bytes(length: int) -> None:
    item = b" " * length
    operation = {"operationType": "Create", "resourceBody": item}
    assert read_operations(hybridrow.encode(operation)) == [operation]
    row = write_row({"statusCode": 200, "subStatusCode": 0, "resourceBody": item}, RESULT)
    assert hybridrow.decode(write_stream([row])) == [hybridrow.Result(200, 0, body=item)]


# What the format allows, although the client does not send it ------------------------------------


def test_further_segments_and_contents_of_segments_are_skipped() -> None:
    long = bytes.fromhex("81f0d8ff7f01") + struct.pack("<i", 13) + b"abc"
    body = long + record(READ) + hybridrow.SEGMENT + long + record(READ)
    assert read_operations(body) == [{"operationType": "Read", "id": "a"}] * 2


@pytest.mark.parametrize(
    "field",
    [
        "01 00",  # the name that is not used
        "02 12 6f74686572",  # the name `other`; further on the name is `x`
        "05 0e78 01",
        "0d 0e78 ff01",
        "0e 0e78 00",
        "11 0e78" + "00" * 16,
        "12 0e78" + "00" * 8,
        "15 0e78 02 0102",
        "18 0e78" + "00" * 12,
        "46",
    ],
)
def test_unknown_fields_are_skipped(field: str) -> None:
    body = stream(READ + bytes.fromhex(field))
    assert read_operations(body) == [{"operationType": "Read", "id": "a"}]


def test_a_known_field_may_be_spelled_out() -> None:
    row = READ + b"\x14" + bytes((13 + len("ifMatch"),)) + b"ifMatch" + b"\x01*"
    assert read_operations(stream(row)) == [{"operationType": "Read", "id": "a", "ifMatch": "*"}]


def test_fields_in_any_order() -> None:
    row = READ + b"\x02\x0c" + b"\x14\x0a\x01*" + b"\x14\x09\x01x"
    (operation,) = read_operations(stream(row))
    assert isinstance(operation, dict)
    assert operation["minimalReturnPreference"] is False
    assert (operation["ifNoneMatch"], operation["ifMatch"]) == ("*", "x")


# What is not valid --------------------------------------------------------------------------------

FIXED = bytes.fromhex("02000000 02000000")
HUGE = b"\xff" * 9 + b"\x01"
BAD_BODIES = {
    "nothing but the first byte": (b"\x81", "5 bytes are announced, but only 1"),
    "no segment": (record(READ), "a stream begins with the schema 2147473648"),
    "a segment without a length": (b"\x81\xf0\xd8\xff\x7f\x00" + bytes(4), "no valid length"),
    "a segment of negative length": (
        b"\x81\xf0\xd8\xff\x7f\x01" + struct.pack("<i", -1),
        "no valid length",
    ),
    "a segment longer than the body": (
        b"\x81\xf0\xd8\xff\x7f\x01" + struct.pack("<i", 2**31 - 1),
        "2147483637 bytes are announced, but only 0",
    ),
    "a record of negative length": (
        hybridrow.SEGMENT + b"\x81\xf1\xd8\xff\x7f" + struct.pack("<iI", -1, 0),
        "-1 bytes are announced",
    ),
    "a record longer than the body": (stream(READ)[:-1], "bytes are announced, but only"),
    "bytes behind the last record": (stream(READ) + b"\x81\xf1", "5 bytes are announced"),
    "a wrong checksum": (stream(READ)[:-1] + b"b", "wrong checksum"),
    "neither record nor segment": (hybridrow.SEGMENT + READ, "neither a record nor a segment"),
    "a row of another schema": (stream(hybridrow.RESULT + READ[5:]), "not 2145473648"),
    "a row of another version": (stream(b"\x80" + READ[1:]), "version 80"),
    "an empty row": (stream(b""), "5 bytes are announced, but only 0"),
    "a row that ends in its fixed columns": (stream(READ[:12]), "4 bytes are announced"),
    "a column that does not exist": (stream(READ[:5] + b"\x93" + READ[6:]), "does not exist"),
    "no operationType": (stream(READ[:5] + b"\x12" + READ[6:]), "operationType"),
    "an unknown operationType": (stream(READ[:6] + b"\x03" + READ[7:]), "operationType"),
    "another resourceType": (stream(READ[:10] + b"\x03" + READ[11:]), "resourceType"),
    "a length behind the end": (
        stream(hybridrow.OPERATION + b"\x13" + FIXED + b"\x02a"),
        "2 bytes are announced, but only 1",
    ),
    "a length of 64 bits": (
        stream(hybridrow.OPERATION + b"\x13" + FIXED + HUGE + b"a"),
        "18446744073709551615 bytes are announced",
    ),
    "a length without an end": (
        stream(hybridrow.OPERATION + b"\x13" + FIXED + b"\xff" * 11),
        "more than 10 bytes",
    ),
    "an id that is not UTF-8": (
        stream(hybridrow.OPERATION + b"\x13" + FIXED + b"\x01\xff"),
        "'id' contains invalid UTF-8",
    ),
    "an etag that is not UTF-8": (stream(READ + b"\x14\x09\x01\xff"), "'ifMatch' contains invalid"),
    "an etag that is a number": (stream(READ + b"\x05\x09\x01"), "'ifMatch' has the type 05"),
    "an etag that is null": (stream(READ + b"\x01\x09"), "'ifMatch' has the type 01"),
    "an etag twice": (stream(READ + b"\x14\x09\x01*" * 2), "'ifMatch' is given twice"),
    "a nested field": (stream(READ + b"\x22\x09"), "type 22"),
    "a field without a type": (stream(READ + b"\x00\x09"), "type 00"),
    "a field without a name": (stream(READ + b"\x14"), "1 bytes are announced"),
    "a name behind the end": (stream(READ + b"\x14\x7f"), "114 bytes are announced"),
    "a name that is not UTF-8": (stream(READ + b"\x14\x0e\xff\x00"), "invalid UTF-8"),
    "bytes behind the end of a row": (stream(READ + b"\x46\x46"), "bytes follow the end"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_body_is_refused_with_a_reason(name: str) -> None:
    body, reason = BAD_BODIES[name]
    with pytest.raises(
        BadRequest, match=r"is not valid HybridRow: .* at byte [0-9]+[.]$"
    ) as caught:
        read_operations(body)
    assert reason in caught.value.message


def test_a_body_that_is_too_large() -> None:
    with pytest.raises(RequestEntityTooLarge):
        read_operations(hybridrow.SEGMENT + bytes(MAX_BODY_BYTES))


def test_binary_json_that_cannot_be_read_fails_its_operation_only() -> None:
    body = hybridrow.encode(
        {"operationType": "Create", "resourceBody": b"\x80\xff"},
        {"operationType": "Read", "id": "a"},
    )
    first, second = read_operations(body)
    assert isinstance(first, BadRequest)
    assert second == {"operationType": "Read", "id": "a"}


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bodies_are_read_or_refused(seed: int) -> None:
    """Rows are damaged inside a valid stream, too: otherwise the checksum would find all of it."""
    random = Random(seed)
    for name in REQUESTS:
        body = request_body(name)
        rows = [operation_row(operation) for operation in REQUESTS[name][1]]
        for _ in range(40):
            damaged = stream(*(mutated(row, random) for row in rows))
            for each in (damaged, mutated(body, random)):
                with contextlib.suppress(BadRequest):
                    read_operations(each)
