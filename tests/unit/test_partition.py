"""Partition keys: definitions, headers, the stored form, published hashes, ranges."""

from __future__ import annotations

import struct
from typing import Any, Final

import mmh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid import partition, paths
from perseid.errors import BadRequest, PartitionKeyMismatch
from perseid.partition import ABSENT, Component, KeyDefinition, PartitionKey
from perseid.paths import Segment
from tests.support.builders import PARTITION_KEY

V1: Final = partition.parse_definition({"paths": ["/pk"]})
V2: Final = partition.parse_definition(PARTITION_KEY)
MULTI: Final = partition.parse_definition(
    {"paths": ["/a", "/b/c", "/d"], "kind": "MultiHash", "version": 2}
)

quick: Final = settings(max_examples=60, deadline=None, database=None, derandomize=True)
components: Final = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.just(ABSENT),
)
keys: Final = st.lists(components, max_size=3).map(tuple)


# Paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/pk", ("pk",)),
        ("/a/b/c", ("a", "b", "c")),
        ("/_partitionKey", ("_partitionKey",)),
        ("/user-id", ("user-id",)),
        ('/"level\' 1*()"/"le/vel2"', ("level' 1*()", "le/vel2")),
        ("/'single \"x\"'/b", ('single "x"', "b")),
        (r'/"a\"b\\"', ('a"b\\',)),
        ('/"*"/"[]"', ("*", "[]")),
        ("/größe", ("größe",)),
    ],
)
def test_paths(path: str, names: tuple[str, ...]) -> None:
    assert paths.parse_path(path) == names


BROKEN_PATHS: Final = [
    "", "/", "pk", "/pk/", "//pk", "/a//b", "/*", "/pk/*", "/pk/?", "/pk/[]", "/a*", "/[]/a",
    '/"a', '/"a"b', '/""', "/'a", '/a"b', '/"a"/', "/{a,b}", '/"a\\"',
]  # fmt: skip


@pytest.mark.parametrize("path", BROKEN_PATHS)
def test_broken_paths(path: str) -> None:
    with pytest.raises(BadRequest):
        paths.parse_path(path)


def test_split_path_tells_wildcards_from_names() -> None:
    assert paths.split_path('/"*"/[]/*') == (
        Segment("*", quoted=True),
        Segment("[]", quoted=False),
        Segment("*", quoted=False),
    )


# Definitions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "definition"),
    [
        ({"paths": ["/pk"]}, KeyDefinition(("/pk",), "Hash", 1, (("pk",),))),
        ({"paths": ["/pk"], "kind": "Hash"}, KeyDefinition(("/pk",), "Hash", 1, (("pk",),))),
        ({"paths": ["/pk"], "version": 2}, KeyDefinition(("/pk",), "Hash", 2, (("pk",),))),
        (
            {"paths": ["/a/b"], "kind": "Hash", "version": 1, "systemKey": True},
            KeyDefinition(("/a/b",), "Hash", 1, (("a", "b"),)),
        ),
        (
            {"paths": ["/a"], "kind": "MultiHash"},
            KeyDefinition(("/a",), "MultiHash", 2, (("a",),)),
        ),
        (
            {"paths": ["/a", "/b", '/"c d"'], "kind": "MultiHash", "version": 2},
            KeyDefinition(("/a", "/b", '/"c d"'), "MultiHash", 2, (("a",), ("b",), ("c d",))),
        ),
    ],
)
def test_definitions(value: Any, definition: KeyDefinition) -> None:
    assert partition.parse_definition(value) == definition


WILDCARD: Final = (
    "Partition key paths must contain only valid characters and not contain a trailing slash or "
    "wildcard character"
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "must be an object"),
        (["/pk"], "must be an object"),
        ({}, "at least one path"),
        ({"paths": []}, "at least one path"),
        ({"paths": "/pk"}, "at least one path"),
        ({"paths": ["/a", "/b"]}, "Too many partition key paths (2) specified"),
        ({"paths": ["/a", "/b"], "kind": "Hash", "version": 2}, "A maximum of 1 is allowed."),
        (
            {"paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash", "version": 2},
            "Too many partition key paths (4) specified. A maximum of 3 is allowed.",
        ),
        ({"paths": ["/a"], "kind": "Range"}, "kind"),
        ({"paths": ["/a"], "kind": 1}, "kind"),
        ({"paths": ["/a"], "kind": None}, "kind"),
        ({"paths": ["/a"], "version": 3}, "version"),
        ({"paths": ["/a"], "version": "3"}, "version"),
        ({"paths": ["/a"], "version": True}, "version"),
        ({"paths": ["/a"], "kind": "MultiHash", "version": 1}, "version"),
        ({"paths": ["/a", "/b/"], "kind": "MultiHash", "version": 2}, WILDCARD),
        ({"paths": ["/a/*"]}, WILDCARD),
        ({"paths": ["/a/"]}, WILDCARD),
        ({"paths": [7]}, WILDCARD),
        ({"paths": [None]}, WILDCARD),
    ],
)
def test_broken_definitions(value: Any, text: str) -> None:
    with pytest.raises(BadRequest) as failure:
        partition.parse_definition(value)
    assert text in failure.value.message


# Reading keys -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("definition", "document", "key"),
    [
        (V2, {"pk": "a"}, ("a",)),
        (V2, {"pk": ""}, ("",)),
        (V2, {"pk": 1}, (1,)),
        (V2, {"pk": 1.5}, (1.5,)),
        (V2, {"pk": False}, (False,)),
        (V2, {"pk": None}, (None,)),
        (V2, {}, (ABSENT,)),
        (MULTI, {"a": "x", "b": {"c": 2}, "d": True}, ("x", 2, True)),
        (MULTI, {"a": None, "b": {}}, (None, ABSENT, ABSENT)),
        (MULTI, {"b": "text", "d": 1}, (ABSENT, ABSENT, 1)),
        (MULTI, {"b": [{"c": 1}]}, (ABSENT, ABSENT, ABSENT)),
        (MULTI, {"b": None}, (ABSENT, ABSENT, ABSENT)),
    ],
)
def test_extract(definition: KeyDefinition, document: dict[str, Any], key: PartitionKey) -> None:
    assert _exactly(partition.extract(definition, document)) == _exactly(key)


@pytest.mark.parametrize("value", [[], ["a"], {}, {"a": 1}])
def test_arrays_and_objects_count_as_absent(value: Any) -> None:
    assert partition.extract(V2, {"pk": value}) == (ABSENT,)
    assert partition.extract(MULTI, {"b": {"c": value}}) == (ABSENT, ABSENT, ABSENT)


@pytest.mark.parametrize(
    ("text", "definition", "key"),
    [
        ('["WA"]', V2, ("WA",)),
        (b'["WA"]', V2, ("WA",)),
        ('["gr\\u00f6\\u00dfe \\ud83d\\ude00"]', V2, ("größe 😀",)),
        ('["a\\"b"]', V2, ('a"b',)),
        ("[1]", V2, (1,)),
        ("[1.5]", V2, (1.5,)),
        ("[-0.0]", V2, (-0.0,)),
        ("[true]", V2, (True,)),
        ("[false]", V2, (False,)),
        ("[null]", V2, (None,)),
        ("[{}]", V2, (ABSENT,)),
        ("[ ]", V2, ()),
        ('["WA","Redmond"]', MULTI, ("WA", "Redmond")),
        (' [ "WA" , {}, 3 ] ', MULTI, ("WA", ABSENT, 3)),
        ('["WA"]', MULTI, ("WA",)),
    ],
)
def test_headers(text: str | bytes, definition: KeyDefinition, key: PartitionKey) -> None:
    assert _exactly(partition.parse_header(text, definition.levels)) == _exactly(key)


@pytest.mark.parametrize(
    "text",
    ["", "WA", '"WA"', "{}", "null", '["WA"', "['WA']", "[[]]", '[["a"]]', '[{"a":1}]', "[NaN]",
     "[1e999]", '["\\ud800"]', '["a"]x'],
)  # fmt: skip
def test_broken_headers(text: str) -> None:
    with pytest.raises(BadRequest):
        partition.parse_header(text, V2.levels)


@pytest.mark.parametrize(
    ("text", "definition"), [('["a","b"]', V2), ("[1,2]", V1), ("[1,2,3,4]", MULTI)]
)
def test_headers_with_too_many_levels(text: str, definition: KeyDefinition) -> None:
    with pytest.raises(PartitionKeyMismatch) as failure:
        partition.parse_header(text, definition.levels)
    assert failure.value.sub_status == 1001
    assert failure.value.message.startswith("Partition key provided either doesn't correspond")


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        (("a" * 102,), True),
        ((1e300,), True),
        (("a" * 2048,), True),
        (("a" * 2049,), False),
        (("é" * 1024,), True),
        (("é" * 1025,), False),
        ((), True),
        (("a" * 2048, "b" * 2048, ABSENT), True),
        ((None, "b" * 2049), False),
    ],
)
def test_size_limits(key: PartitionKey, fits: bool) -> None:
    if fits:
        partition.check_size(key)
        return
    with pytest.raises(BadRequest):
        partition.check_size(key)


# Stored form ------------------------------------------------------------------------------------


def _exactly(key: PartitionKey) -> list[tuple[type, Component]]:
    """A key that does not hold True and 1 equal."""
    return [(type(component), component) for component in key]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), (1.0,)),
        ((0,), (-0.0,)),
        ((0.0,), (-0.0,)),
        ((2**53,), (2**53 + 1,)),  # one double
        ((10**15, "a"), (1e15, "a")),
    ],
)
def test_equal_keys_are_stored_alike(one: PartitionKey, other: PartitionKey) -> None:
    assert partition.canonical(one) == partition.canonical(other)
    assert partition.effective(one, V2) == partition.effective(other, V2)


DISTINCT: Final[list[PartitionKey]] = [
    (), ("",), ("", ""), ("a",), ("ab",), ("a", "b"), ("a", ""), ("1",), (1,), (True,), (False,),
    (0,), (None,), (ABSENT,), (ABSENT, ABSENT), (None, ABSENT), ("\x00",), ("\x08",), ("ÿ",),
    ("a\x00",), ("a\x08b",), (1.5,), (-1,), ("null",), ("a", 1), ("a", "1"), ("é",), ("e\u0301",),
]  # fmt: skip


def test_distinct_keys_are_stored_apart() -> None:
    stored = [partition.canonical(key) for key in DISTINCT]
    assert len(set(stored)) == len(DISTINCT)


@pytest.mark.parametrize("key", DISTINCT)
def test_stored_keys_are_read_back(key: PartitionKey) -> None:
    assert _exactly(partition.from_canonical(partition.canonical(key))) == _exactly(key)


@quick
@given(keys)
def test_stored_form_round_trips(key: PartitionKey) -> None:
    stored = partition.canonical(key)
    again = partition.from_canonical(stored)
    assert partition.canonical(again) == stored
    assert [isinstance(c, bool) for c in again] == [isinstance(c, bool) for c in key]
    assert again == key


@quick
@given(keys, keys)
def test_bytes_begin_bytes_exactly_for_prefixes(one: PartitionKey, other: PartitionKey) -> None:
    starts = partition.canonical(other).startswith(partition.canonical(one))
    same = [partition.canonical((c,)) for c in other[: len(one)]]
    assert starts == (same == [partition.canonical((c,)) for c in one])


@quick
@given(keys, keys)
def test_a_prefix_is_a_byte_range(prefix: PartitionKey, rest: PartitionKey) -> None:
    low = partition.canonical(prefix)
    assert low <= partition.canonical((*prefix, *rest)) < low + b"\xff"


def test_absent_shows_itself() -> None:
    assert repr(ABSENT) == "absent"


# Published hashes -------------------------------------------------------------------------------

VECTORS: Final[list[tuple[Component, str | None, str]]] = [
    ("redmond", "05C1EFE313830C087366656E706F6500", "22E342F38A486A088463DFF7838A5963"),
    ("partitionKey", "05C1E1B3D9CD2608716273756A756A706F4C667A00",
     "013AEFCF77FA271571CF665A58C933F1"),
    ("", "05C1CF33970FF80800", "32E9366E637A71B4E710384B2F4970A0"),
    ("aa", "05C1C7B7270FE008626200", "05033626483AE80D00E44FBD35362B19"),
    (None, "05C1ED45D7475601", "378867E4430E67857ACE5C908374FE16"),
    (True, "05C1D7C5A903D803", "0E711127C5B5A8E4726AC6DD306A3E59"),
    (False, "05C1DB857D857C02", "2FE1BE91E90A3439635E0E9E37361EF2"),
    (ABSENT, "05C1D529E345DC00", "11622DAA78F835834610ABE56EFF5CB5"),
    (5, "05C1D9C1C5517C05C014", "19C08621B135968252FB34B4CF66F811"),
    (5.5, "05C1D7A771716C05C016", "0E2EE47829D1AF775EEFB6540FD1D0ED"),
    (12313.1221, "05C1ED154D592E05C0C90723F50FC925D8", "27E7ECA8F2EE3E53424DE8D5220631C6"),
    (123456789, "05C1D9E1A5311C05C19DB7CD8B40", "1F56D2538088EBA82CCF988F36E16760"),
    (1, "05C1ED172B6B2605BFF0", "20CD98B339BA78A5D0CF6953B87070B0"),
    (0, "05C1BF6DA11560058000", "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"),
    (-1, "05C1D1A5BDDF9C054010", "19938E7A936C1C5B9E3AE842BBC16839"),
    ("1", None, "3C80B1B7310BB39F29CC4EA05BDD461E"),
    ("a", None, "3A5381E1114EB8D3FCC90795045B49B7"),
    ("a" * 110, "05C1EB5921F70608" + "62" * 100 + "00", "0BA3E9CA8EE4C14538828D1612A4B652"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "v1", "v2"), VECTORS)
def test_effective_keys(value: Component, v1: str | None, v2: str) -> None:
    assert partition.effective((value,), V2) == v2
    assert partition.effective((value,), MULTI) == v2  # one level hashes like a version 2 key
    if v1 is not None:
        assert partition.effective((value,), V1) == v1


def test_effective_keys_of_several_components() -> None:
    assert partition.effective(("a", "b"), MULTI) == (
        "3A5381E1114EB8D3FCC90795045B49B7" + "195644569A78B1E22D200348AF9416CE"
    )
    mixed: PartitionKey = ("redmond", 50, 5.5, True, False, None, "", 12313.1221)
    assert partition.effective(mixed, V2) == "1A5E512F591E980E07A6D8AD5BD5AB2F"


@pytest.mark.parametrize("definition", [V1, V2, MULTI])
def test_the_empty_key_has_the_lowest_effective_key(definition: KeyDefinition) -> None:
    assert partition.effective((), definition) == ""


def test_version_1_keeps_101_bytes_of_a_text() -> None:
    epk = partition.effective(("é" * 60,), V1)
    assert epk.endswith("08" + "C4AA" * 50 + "C4")  # 101 bytes, each one higher, no terminator


@pytest.mark.parametrize(
    ("data", "low", "high"),
    [
        (b"", 0, 0),
        (b"afdgdd", 2792699143512860960, 15069672278200047189),
        (struct.pack("<d", 374.0), 16628891264555680919, 12953474369317462),
        # beyond one block: the test string of the algorithm's other ports
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C, 0x7A433CA9C49A9347),
    ],
)
def test_murmur3_128(data: bytes, low: int, high: int) -> None:
    assert mmh3.mmh3_x64_128_utupledigest(data) == (low, high)


@pytest.mark.parametrize(
    ("data", "hashed"),
    [(b"", 0), (b"test", 0xBA6BD213), (b"Hello, world!", 0xC0363E43),
     (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723)],
)  # fmt: skip
def test_murmur3_32(data: bytes, hashed: int) -> None:
    assert mmh3.mmh3_32_uintdigest(data) == hashed


@quick
@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_version_1_numbers_sort_as_numbers(one: float, other: float) -> None:
    first, second = partition.sortable(one + 0.0), partition.sortable(other + 0.0)
    assert (first < second) == (one < other)
    assert first == second or not second.startswith(first)


def test_prefix_interval_holds_exactly_what_is_below() -> None:
    low, high = partition.prefix_interval(("a",), MULTI)
    assert (low, high) == (
        "3A5381E1114EB8D3FCC90795045B49B7",
        "3A5381E1114EB8D3FCC90795045B49B7FF",
    )
    below: list[PartitionKey] = [("a", "b", 1), ("a", ABSENT, None), ("a", "z"), ("a",)]
    assert all(low <= partition.effective(key, MULTI) < high for key in below)
    others: list[PartitionKey] = [("b", "a", 1), ("", "", ""), ("ab", "b", 1)]
    assert not any(low <= partition.effective(key, MULTI) < high for key in others)
    assert partition.prefix_interval((), MULTI) == ("", "FF")


@pytest.mark.parametrize(
    ("epk", "end"),
    [
        ("", "00"),
        ("3FFF", "4000"),
        ("05C1CF33970FF80800", "05C1CF33970FF80801"),
        ("00FF", "0100"),
        ("013AEFCF77FA271571CF665A58C933F1", "013AEFCF77FA271571CF665A58C933F2"),
    ],
)
def test_point_interval(epk: str, end: str) -> None:
    assert partition.point_interval(epk) == (epk, end)
