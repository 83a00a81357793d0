"""Binary JSON becomes the text that means the same, within limits, or a 400."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from perseid.errors import BadRequest, CosmosError, RequestEntityTooLarge
from perseid.http import binary_json
from tests.support.binary_json import REFUSED, SYSTEM_STRINGS, VECTORS, BinaryWriter

MUTATIONS: Final = 3000  # of each vector
SENTENCE: Final = re.compile(r"The request body is not valid binary JSON: .+ at byte \d+\.")

STRINGS: Final = st.one_of(
    st.text(max_size=80),
    st.sampled_from(SYSTEM_STRINGS),
    st.uuids().map(str),
    st.uuids().map(lambda guid: str(guid).upper()),
    st.uuids().map(lambda guid: f'"{guid}"'),
    st.text("0123456789abcdef", max_size=300),
    st.text("0123456789ABCDEF", max_size=300),
    st.text(" 0123456789:-.TZ", max_size=300),
    st.text("abcdefghijklmnop", max_size=300),
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", max_size=300),
    st.text(st.characters(max_codepoint=127), max_size=400),
    st.binary(max_size=60).map(lambda raw: json.dumps(raw.hex())),
    st.from_regex(r"([A-Za-z0-9+/]{4}){1,20}", fullmatch=True),
    st.from_regex(r"([A-Za-z0-9_-]{4}){0,20}[A-Za-z0-9_-]{2,3}", fullmatch=True),
)
SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-300, 300),
    st.floats(allow_nan=False, allow_infinity=False),
    STRINGS,
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=8),
        st.dictionaries(STRINGS, inner, max_size=8),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40),
        st.lists(
            st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
            max_size=9,
        ),
    ),
    max_leaves=40,
)


def exact(text: bytes) -> Any:
    """Decoded so that 1 and 1.0, and 0.0 and -0.0, differ."""
    return json.loads(text, parse_float=lambda number: ("float", repr(float(number))))


@pytest.mark.parametrize(("data", "text"), VECTORS)
def test_bytes_of_clients_mean_their_json(data: str, text: str) -> None:
    assert exact(binary_json.decode(bytes.fromhex(data))) == exact(text.encode())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("80d35badf80fcbd99f46a16570867728950e", '"0ff8ad5b-d9cb-469f-a165-70867728950e"'),
        ("80dd03666f6f", '"Zm9v"'),
        ("80de0200666f", '"Zm8="'),
        ("80df00000000", '""'),
        ("80cd0000c03f", "1.5"),
        ("80ce0000000000000080", "-0.0"),
        ("80f3f1da00000300", "[[],[],[]]"),
        ("80f0d700", "[]"),
        ("80e2042c2cc303", '["id","id","id"]'),
        ("80e20578010ac303", '["a","a"]'),
    ],
)
def test_rare_forms(data: str, text: str) -> None:
    assert binary_json.decode(bytes.fromhex(data)) == text.encode()


@pytest.mark.parametrize(("data", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_refused_bytes(data: str, reason: str) -> None:
    with pytest.raises(BadRequest) as caught:
        binary_json.decode(bytes.fromhex(data))
    assert SENTENCE.fullmatch(caught.value.message), caught.value.message


@hypothesis.given(VALUES, st.integers())
def test_every_form_of_every_value(value: Any, seed: int) -> None:
    data = BinaryWriter(seed).write(value)
    text = binary_json.decode(data)
    assert exact(text) == exact(json.dumps(value).encode())


@hypothesis.given(VALUES, st.integers(), st.data())
def test_a_part_is_no_body(value: Any, seed: int, data: st.DataObject) -> None:
    whole = BinaryWriter(seed).write(value)
    length = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(BadRequest):
        binary_json.decode(whole[:length])


@pytest.mark.parametrize(("data", "_text"), VECTORS)
def test_mutated_bytes_give_json_or_a_sentence(data: str, _text: str) -> None:
    chance = Random(data)
    for _ in range(MUTATIONS):
        mutated = bytearray.fromhex(data)
        for _ in range(chance.randint(1, 3)):
            mutated[chance.randrange(1, len(mutated))] = chance.randrange(256)
        assert outcome(bytes(mutated)) is None, mutated.hex()


def outcome(data: bytes) -> str | None:
    """What is wrong with the text or with the sentence; None if nothing is."""
    try:
        text = binary_json.decode(data)
    except CosmosError as error:
        is_fine = error.status == 400 and SENTENCE.fullmatch(error.message)
        return None if is_fine else error.message
    json.loads(text)
    return None


# Limits -----------------------------------------------------------------------------------------


def array(content: bytes) -> bytes:
    return b"\x80\xe4" + len(content).to_bytes(4, "little") + content


def test_references_do_not_expand_beyond_the_limit() -> None:
    long_text = b"\xc2" + (1_000_000).to_bytes(4, "little") + b"x" * 1_000_000
    with pytest.raises(RequestEntityTooLarge):
        binary_json.decode(array(long_text + b"\xc3\x06" * 300_000))


def test_names_that_take_one_byte_do_not_expand_beyond_the_limit() -> None:
    content = b"\x3e\x3e" * 500_000
    data = b"\x80\xec" + len(content).to_bytes(4, "little") + content
    with pytest.raises(RequestEntityTooLarge):
        binary_json.decode(data)


def test_arrays_of_nothing_do_not_expand_beyond_the_limit() -> None:
    with pytest.raises(RequestEntityTooLarge):
        binary_json.decode(array(b"\xf3\xf1\xda\x00\x00\xff\xff" * 1000))


@pytest.mark.parametrize("marker", [b"\xe1", b"\xe9\x2c"])
def test_depth_is_limited_while_decoding(marker: bytes) -> None:
    with pytest.raises(BadRequest, match="nested deeper than 128 levels"):
        binary_json.decode(b"\x80" + marker * 1_000_000)


def test_the_deepest_text_is_accepted() -> None:
    assert binary_json.decode(b"\x80" + b"\xe1" * 127 + b"\xe0") == b"[" * 128 + b"]" * 128
