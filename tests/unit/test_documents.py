"""perseid.documents: what is accepted, what is stripped, what is stamped."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import apsw
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid import documents
from perseid.documents import MAX_NESTING, SYSTEM_PROPERTIES
from perseid.errors import BadRequest, RequestEntityTooLarge
from perseid.limits import MAX_BODY_BYTES
from tests.support.effort import ratio

RID, LINK, ETAG, TS = "AQAAAIAAAAIAAQAAAAAAAA==", "dbs/d/colls/c/docs/", '"00-11"', 1_700_000_000
SEAL = (
    b'"_rid":"AQAAAIAAAAIAAQAAAAAAAA==","_self":"dbs/d/colls/c/docs/AQAAAIAAAAIAAQAAAAAAAA==/",'
    b'"_etag":"\\"00-11\\"","_attachments":"attachments/","_ts":1700000000}'
)


def nested(levels: int, kind: bytes = b"[") -> bytes:
    """An object that is `levels` deep, itself included."""
    opening, closing = (b"[", b"]") if kind == b"[" else (b'{"a":', b"}")
    return b'{"a":' + opening * (levels - 1) + b"1" + closing * (levels - 1) + b"}"


# Parsing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "text", "value"),
    [
        (b"{}", b"{}", {}),
        (b"{ }", b"{}", {}),
        (b'{"a" :\t[1 ,\r\n{ } ]}', b'{"a":[1,{}]}', {"a": [1, {}]}),
        (
            b'{"a \\" :": " \\\\" , "b":" c "}',
            b'{"a \\" :":" \\\\","b":" c "}',
            {'a " :': " \\", "b": " c "},
        ),
        (b'{"a": "\\u0041 "}', b'{"a":"\\u0041 "}', {"a": "A "}),
        (b' \t\r\n{"id":"1"}\n ', b'{"id":"1"}', {"id": "1"}),
        (b'{"b":1,"a":[true,false,null]}', None, {"b": 1, "a": [True, False, None]}),
        (b'{"n":18446744073709551615}', None, {"n": 2**64 - 1}),
        (b'{"n":1.50e+2}', None, {"n": 150.0}),
        (b'{"\\u00e9":"\xc3\xa9"}', None, {"é": "é"}),
        (b'{"a":{"_rid":1,"_ts":2}}', None, {"a": {"_rid": 1, "_ts": 2}}),
        (b'{"_custom":1,"_Rid":2,"_ts_":3}', None, {"_custom": 1, "_Rid": 2, "_ts_": 3}),
    ],
)
def test_parse_keeps_the_text(raw: bytes, text: bytes | None, value: dict[str, Any]) -> None:
    document = documents.parse(raw)
    assert (document.text, document.value) == (raw if text is None else text, value)
    assert document.size == len(orjson.dumps(value))


@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"{", b"}", b"[]", b"[{}]", b"null", b"1", b'"x"', b"{}{}", b"{,}",
        b'{"a":1,}', b'{"a"}', b'{"a":}', b'{"a":01}', b'{"a":1.}', b'{"a":.5}', b'{"a":+1}',
        b'{"a":NaN}', b'{"a":Infinity}', b'{"a":undefined}', b"{'a':1}", b"{a:1}",
        b'{"a":1}//', b'{"a":/**/1}', b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":"\t"}',
        b'{"a":"\\x41"}', b"\xef\xbb\xbf{}", b'\x0c{"a":1}', '{"a":1}'.encode("utf-16"),
    ],
)  # fmt: skip
def test_parse_refuses_what_is_no_object(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        documents.parse(raw)
    with pytest.raises(BadRequest):
        documents.parse_object(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b"[1]", [1]), (b'"x"', "x"), (b" null ", None), (b'{"a":1}', {"a": 1})],
)
def test_parse_json_takes_any_value(raw: bytes, value: Any) -> None:
    assert documents.parse_json(raw) == value


def test_size_is_of_the_compact_text() -> None:
    spaced = b'{ "id" : "1" , "text" : "\\u00e9\\u00e9" }'
    compact = '{"id":"1","text":"éé"}'.encode()
    assert documents.parse(spaced).size == documents.parse(compact).size == len(compact)


def test_size_leaves_out_system_properties() -> None:
    assert documents.parse(b'{"_ts":1,"id":"1","_rid":"x"}').size == len(b'{"id":"1"}')


@pytest.mark.parametrize(("over", "is_refused"), [(-1, False), (0, False), (1, True)])
def test_largest_body(over: int, is_refused: bool) -> None:
    frame = b'{"a":"%b"}'
    raw = frame % (b"x" * (MAX_BODY_BYTES + over - len(frame % b"")))
    assert len(raw) == MAX_BODY_BYTES + over
    if is_refused:
        with pytest.raises(RequestEntityTooLarge, match=r"^Request size is too large"):
            documents.parse(raw)
    else:
        assert documents.parse(raw).size == len(raw)


# Depth ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [b"[", b"{"])
def test_depth_limit(kind: bytes) -> None:
    assert documents.parse(nested(MAX_NESTING, kind)).text == nested(MAX_NESTING, kind)
    with pytest.raises(BadRequest, match="128"):
        documents.parse(nested(MAX_NESTING + 1, kind))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":[' + b"[]," * 500 + b"0]}",  # wide, not deep
        b'{"a":"' + b"[" * 500 + b'"}',  # brackets in a string
        b'{"a":"' + b'\\"[' * 500 + b'"}',  # ... behind escaped quotes
        b'{"a":"\\\\","b":[' + b"{}," * 500 + b"0]}",  # an escaped backslash ends the string
        b'{"' + b"{" * 500 + b'":1}',  # brackets in a name
    ],
)
def test_depth_counts_levels_only(raw: bytes) -> None:
    assert documents.parse(raw).text == raw


def test_depth_check_is_linear_in_quotes() -> None:
    """An unclosed string full of escaped quotes is refused at once, not after minutes."""
    raw = b"[" + b"[]," * MAX_NESTING + b'"' + b'\\"' * 200_000
    with pytest.raises(BadRequest):
        documents.parse_json(raw)


# Duplicate names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"a":3}',
        b'{"a" :1,"a"\t:1}',
        b'{"a":{"b":1,"b":2}}',
        b'{"a":[{"b":1,"b":2}]}',
        b'{"a":{"x":1,"y":2},"a":{}}',
        b'{"a":1,"\\u0061":2}',
        b'{"\\u0061":1,"\\u0061":2}',
        b'{"\xc3\xa9":1,"\\u00e9":2}',
        b'{"\xc3\xa9":1,"\\u00E9":2}',
        b'{"\xf0\x9f\x98\x80":1,"\\ud83d\\ude00":2}',
        b'{"/":1,"\\/":2}',
        b'{"\\n":1,"\\u000a":2}',
        b'{"_rid":1,"_rid":2}',
        b'{"_rid":1,"\\u005frid":2}',
        # a value that looks like one more name when it is written out, hiding the loss of one
        b'{"a":1,"a":"\\u0022:"}',
        b'{"a":1,"a":"\\"\\u003a"}',
        b'{"a":1,"a":"\\"\\u003A"}',
        b'{"a":1,"a":"\\"\\u0020:"}',
        b'{"a":"\\u0022\\u003a","b":1,"b":2}',
        b'{"":1,"":2}',
    ],
)
def test_a_name_may_stand_once(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="twice"):
        documents.parse(raw)
    with pytest.raises(BadRequest, match="twice"):
        documents.parse_object(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"A":1}',
        b'{"a":{"a":{"a":1}}}',
        b'{"a":[{"a":1},{"a":1}]}',
        b'{"a":"\\":","b":"\\" :"}',
        b'{"a":"\\u0022:","b":"\\u0022\\u003a"}',
        b'{"a":"\\"\\t:","b":"\\"\\u0009:"}',
        b'{"a\\":":1,"a\\"":2}',
        b'{"a":"a\\":\\"a"}',
        b'{"e\\u0301":1,"\\u00e9":2}',  # equal to the eye only
        b'{"a":"","":""}',
    ],
)
def test_names_that_only_look_alike(raw: bytes) -> None:
    document = documents.parse(raw)
    assert document.text == raw
    assert document.value == json.loads(raw)
    assert documents.parse_object(raw) == json.loads(raw)


# System properties ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (b'{"id":"1","pk":2}', b'{"id":"1","pk":2}'),
        (b'{"_rid":"x","id":"1"}', b'{"id":"1"}'),
        (b'{"id":"1","_rid":"x","pk":2}', b'{"id":"1","pk":2}'),
        (b'{"id":"1","_rid":"x"}', b'{"id":"1"}'),
        (b'{"_ts":1,"_rid":"x","_self":2,"_etag":null,"_attachments":[]}', b"{}"),
        (b'{"_ts":{"_ts":[1,{"a":","}]},"id":"1"}', b'{"id":"1"}'),
        (b'{"_etag":"a\\",\\"id\\":\\"2","id":"1"}', b'{"id":"1"}'),
        (b'{"a":{"_rid":"x","_ts":1}}', b'{"a":{"_rid":"x","_ts":1}}'),
        (b'{"_rid":1,"a":{"_rid":"x"},"b":[{"_ts":1}]}', b'{"a":{"_rid":"x"},"b":[{"_ts":1}]}'),
        (b'{"a":"_rid","_ts":1,"b":"\\"_ts\\":1"}', b'{"a":"_rid","b":"\\"_ts\\":1"}'),
        (b'{"a":"\\\\","_ts":1}', b'{"a":"\\\\"}'),
        (b'{"\\u005frid":1,"id":"1"}', b'{"id":"1"}'),
        (b'{"\\u005Fts":1,"id":"1"}', b'{"id":"1"}'),
        (b'{"_\\u0072id":1,"id":"1"}', b'{"id":"1"}'),
        (b'{"id":"1","_et\\u0061g":1}', b'{"id":"1"}'),
        (b'{"id":"1","_t\\u0073":1,"b":2}', b'{"id":"1","b":2}'),
        (b'{"\\u005f\\u0073\\u0065\\u006c\\u0066":1,"id":"1"}', b'{"id":"1"}'),
        (b'{"_Rid":1,"_rid ":2,"_lsn":3}', b'{"_Rid":1,"_rid ":2,"_lsn":3}'),
        (b'{"a":1.50,"_ts":1,"b":"\\u00e9"}', b'{"a":1.50,"b":"\\u00e9"}'),
        # what a client sends back after a read, and close to it
        (b'{"id":"1",' + SEAL, b'{"id":"1"}'),
        (b'{"id":"1","_ts":0,' + SEAL[: SEAL.rindex(b',"_ts"')] + b"}", b'{"id":"1"}'),
        (b'{"a":{"b":1,' + SEAL + b"}", b'{"a":{"b":1,' + SEAL + b"}"),
        (b'{"a":[{"b":1,' + SEAL + b"]," + SEAL, b'{"a":[{"b":1,' + SEAL + b"]}"),
    ],
)
def test_strip_system(text: bytes, left: bytes) -> None:
    assert documents.strip_system(text) == left


@pytest.mark.parametrize("name", sorted(SYSTEM_PROPERTIES))
@pytest.mark.parametrize("value", [b"1", b"null", b'"x"', b"[1,2]", b'{"a":{}}'])
def test_parse_leaves_system_properties_out(name: str, value: bytes) -> None:
    raw = b'{"id":"1","%b":%b,"pk":2}' % (name.encode(), value)
    document = documents.parse(raw)
    assert (document.text, document.value) == (b'{"id":"1","pk":2}', {"id": "1", "pk": 2})


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b"{}", b"{"),
        (b'{"id":"1"}', b'{"id":"1",'),
        (b'{"a":{}}', b'{"a":{},'),
    ],
)
def test_seal(text: bytes, body: bytes) -> None:
    assert documents.seal(text, RID, LINK, ETAG, TS) == body + SEAL


@pytest.mark.parametrize(
    ("text", "is_same"),
    [
        (b'{"id":"1","a":{"b":1}}', True),
        (b'{"id":"1","a":{"b":1},"_r":"x"}', False),
        (b'{"id":"1","a":{"b":2}}', False),
        (b'{"id":"1","a":{}}', False),
        (b'{"id":"1"}', False),
        (b"{}", False),
    ],
)
def test_is_resealed(text: bytes, is_same: bool) -> None:
    sealed = documents.seal(b'{"id":"1","a":{"b":1}}', RID, LINK, ETAG, TS)
    assert documents.is_resealed(sealed, text) == is_same
    assert not documents.is_resealed(sealed, sealed)


def test_from_value_drops_system_properties() -> None:
    document = documents.from_value({"_ts": 1, "id": "é", "a": {"_ts": 2}, "_rid": "x"})
    assert document.text == '{"id":"é","a":{"_ts":2}}'.encode()
    assert document.value == {"id": "é", "a": {"_ts": 2}}
    assert document.size == len(document.text)


def test_from_value_has_the_same_limit() -> None:
    with pytest.raises(RequestEntityTooLarge):
        documents.from_value({"a": "x" * MAX_BODY_BYTES})


# Properties -------------------------------------------------------------------------------------

WHITE = ("", "", "", " ", "\n", "\t", "\r\n", "  ")
SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f",
         "\n": "\\n", "\r": "\\r", "\t": "\\t"}  # fmt: skip
TEXTS = st.text(st.sampled_from('_ridts":{}[],\\/ aé€😀\n\x00\x7f'), max_size=6)
NAMES = st.one_of(TEXTS, st.sampled_from([*sorted(SYSTEM_PROPERTIES), "id", "_rid ", "_lsn"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), TEXTS)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def spell(text: str, random: Random) -> str:
    """One of the many JSON spellings of a string."""
    out = []
    for character in text:
        forms = [SHORT[character]] if character in SHORT else []
        if character not in '"\\' and character >= " ":
            forms += [character, character]
        units = character.encode("utf-16-be").hex()
        escape = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
        forms.append(escape)
        if escape[2:].isalnum():
            forms.append(escape[:2] + escape[2:].upper())
        out.append(random.choice(forms))
    return '"' + "".join(out) + '"'


def write(value: Any, random: Random) -> str:
    """One of the many JSON texts of a value."""
    white = [random.choice(WHITE) for _ in range(2)]
    if isinstance(value, dict):
        inner = ",".join(member(name, each, random) for name, each in value.items())
        return white[0] + "{" + inner + white[1] + "}"
    if isinstance(value, list):
        return white[0] + "[" + ",".join(write(each, random) for each in value) + white[1] + "]"
    text = spell(value, random) if isinstance(value, str) else json.dumps(value)
    return white[0] + text + white[1]


def member(name: str, value: Any, random: Random) -> str:
    white = [random.choice(WHITE) for _ in range(2)]
    return white[0] + spell(name, random) + white[1] + ":" + write(value, random)


DATABASE = apsw.Connection(":memory:")
USER_OBJECTS = st.dictionaries(NAMES.filter(lambda name: name not in SYSTEM_PROPERTIES), VALUES)
SYSTEM_OBJECTS = st.dictionaries(st.sampled_from(sorted(SYSTEM_PROPERTIES)), VALUES)


def as_stored(text: bytes) -> bytes:
    """The text after SQLite has stored it: checksums depend on its being the same."""
    stored: str = DATABASE.execute("SELECT json(jsonb(?))", (text.decode(),)).get
    return stored.encode()


@given(USER_OBJECTS, SYSTEM_OBJECTS, st.randoms(use_true_random=False))
def test_strip_system_removes_system_members_only(
    user: dict[str, Any], system: dict[str, Any], random: Random
) -> None:
    """Wherever they stand and however they are spelt; the others keep their text and order."""
    kept = [member(name, value, random) for name, value in user.items()]
    mixed = list(kept)
    for name, value in system.items():
        mixed.insert(random.randint(0, len(mixed)), member(name, value, random))
    text = ("{" + ",".join(mixed) + random.choice(WHITE) + "}").encode()

    left = documents.strip_system(text)

    assert json.loads(left, object_pairs_hook=list) == json.loads(
        "{" + ",".join(kept) + "}", object_pairs_hook=list
    )
    position = 0
    for each in kept:
        position = left.index(each.strip().encode(), position) + len(each.strip().encode())

    document = documents.parse(text)
    assert document.text == as_stored(left)
    assert document.value == orjson.loads("{" + ",".join(kept) + "}")
    sealed = json.loads(documents.seal(document.text, RID, LINK, ETAG, TS), object_pairs_hook=list)
    assert [name for name, _ in sealed] == [
        *user,
        *("_rid", "_self", "_etag", "_attachments", "_ts"),
    ]


@given(USER_OBJECTS, NAMES, VALUES, VALUES, st.randoms(use_true_random=False))
def test_a_repeated_name_is_always_found(
    user: dict[str, Any], name: str, first: Any, second: Any, random: Random
) -> None:
    """At any depth, in any spelling."""
    user.pop(name, None)
    once = [member(key, value, random) for key, value in user.items()]
    once.insert(random.randint(0, len(once)), member(name, first, random))
    twice = list(once)
    twice.insert(random.randint(0, len(twice)), member(name, second, random))
    for parts, is_refused in ((once, False), (twice, True)):
        text = "{" + ",".join(parts) + "}"
        for frame in ("%s", '{"a":%s}', '{"a":[{"b":1},%s]}'):
            raw = (frame % text).encode()
            if is_refused:
                with pytest.raises(BadRequest, match="twice"):
                    documents.parse(raw)
            else:
                documents.parse(raw)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"id":"a","_ts":1}', b'{"id":"a","_ts":1,"_lsn":7}'),
        (b'{"_lsn":3,"id":"a","_ts":1}', b'{"id":"a","_ts":1,"_lsn":7}'),
        (b'{"id":"a","\\u005flsn":[1,{"b":2}],"_ts":1}', b'{"id":"a","_ts":1,"_lsn":7}'),
        (b'{"id":"_lsn","n":{"_lsn":1},"_ts":1}', b'{"id":"_lsn","n":{"_lsn":1},"_ts":1,"_lsn":7}'),
    ],
)
def test_with_lsn(text: bytes, expected: bytes) -> None:
    assert documents.with_lsn(text, 7) == expected


# Large bodies -----------------------------------------------------------------------------------

ESCAPED = r"\u003a" * 10
OBJECT = f'{{"k":"{ESCAPED}"}}'


@pytest.mark.parametrize(
    ("element", "count"),
    [
        pytest.param(OBJECT, 4_000, id="strings"),
        pytest.param("{}", 90_000, id="objects"),
        pytest.param("1", 140_000, id="numbers"),
    ],
)
def test_members_are_stripped_in_a_few_times_the_time_of_decoding(element: str, count: int) -> None:
    value = f"[{','.join([element] * count)}]"
    raw = f'{{"_rid":"x","id":"1","v":{value},"n":"\\u00e9"}}'.encode()
    text = documents.parse(raw).text
    assert text == raw.replace(b'"_rid":"x",', b"")
    assert ratio(lambda: documents.strip_system(raw), lambda: json.loads(raw)) < 4
    fed = documents.with_lsn(text, 7)
    assert fed == text[:-1] + b',"_lsn":7}'
    with_name = text.replace(b'"id"', b'"_ls\\u006e":1,"id"')
    assert documents.with_lsn(with_name, 7) == fed
    assert ratio(lambda: documents.with_lsn(with_name, 7), lambda: json.loads(raw)) < 4


@pytest.mark.parametrize(
    "text", [b'"a\\"b":1', b'"a\\\\":[1]', b'"\\\\\\"x":{"y":""}', b'"":"\\u0022:"', b"", b'":":2']
)
def test_strings_are_left_out_of_the_structure(text: bytes) -> None:
    structure = documents.without_strings(b"{%b}" % text)
    value = orjson.loads(b"{%b}" % text)
    expected = json.dumps(value).replace(" ", "")
    assert structure.count(b":") == len(value) + sum(isinstance(v, dict) for v in value.values())
    assert len(structure) <= len(expected)


def test_escaped_colons_hide_no_name_that_is_given_twice() -> None:
    body = rb'{"id":"1","\u003a":"%b","a":1,"\u0061":2}' % ESCAPED.encode()
    with pytest.raises(BadRequest, match="'a' twice"):
        documents.parse(body)
    assert documents.parse(body.replace(rb"\u0061", b"b")).value["b"] == 2
