"""Rids, self links, etags, and the ids clients may choose."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from perseid import ids
from perseid.errors import BadRequest
from perseid.ids import ChildKind, ResourceKind

DATABASE: Final = "3FIlAA=="
CONTAINER: Final = "3FIlAOzjvyg="


@pytest.mark.parametrize(
    ("rid", "raw"),
    [
        (DATABASE, "DC522500"),
        (CONTAINER, "DC522500ECE3BF28"),
        ("CuECAN5Z6bMOAAAAAAAAAA==", "0AE10200DE59E9B30E00000000000000"),
        ("3FIlAOzjvygCAAAAAAAAUA==", "DC522500ECE3BF280200000000000050"),
        ("Hu+t", "1EEFAD"),
        ("----", "FFFFFF"),
    ],
)
def test_published_rids(rid: str, raw: str) -> None:
    assert ids.decode(rid) == bytes.fromhex(raw)
    assert ids.encode(bytes.fromhex(raw)) == rid


@pytest.mark.parametrize("text", ["MyDb", "3FIlAA", "3FIlAA=", "3FIlAB==", "3FI/AA==", "größe123",
                                  "3FI AA==", "3FIlAA==\n", "====", "a", "ToDoList!"])  # fmt: skip
def test_other_texts_are_no_database_rids(text: str) -> None:
    assert not ids.looks_like_database_rid(text)


@pytest.mark.parametrize("number", [0, 1, 62, 63, 2446044, 2**32 - 1])
def test_database_rids(number: int) -> None:
    rid = ids.database_rid(number)
    assert len(rid) == 8
    assert ids.looks_like_database_rid(rid)
    assert "/" not in rid


def test_published_rids_are_built() -> None:
    assert ids.database_rid(0x002552DC) == DATABASE
    assert ids.container_rid(DATABASE, 0x6CE3BF28) == CONTAINER
    assert ids.child_rid(CONTAINER, "pkrange", 2) == "3FIlAOzjvygCAAAAAAAAUA=="
    assert ids.child_rid("CuECAN5Z6bM=", "document", 14) == "CuECAN5Z6bMOAAAAAAAAAA=="


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1])
def test_containers_and_users_never_meet(number: int) -> None:
    container, user = ids.container_rid(DATABASE, number), ids.user_rid(DATABASE, number)
    assert len(container) == len(user) == 12
    for rid, bit in ((container, 0x80), (user, 0)):
        raw = ids.decode(rid) or b""
        assert (len(raw), raw[:4]) == (8, ids.decode(DATABASE))
        assert raw[4] & 0x80 == bit
    assert len(ids.decode(ids.permission_rid(user, number)) or b"") == 16


KINDS: Final[list[tuple[ChildKind, int]]] = [
    ("document", 0x0), ("conflict", 0x4), ("pkrange", 0x5),
    ("udf", 0x6), ("trigger", 0x7), ("sproc", 0x8),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "nibble"), KINDS)
@pytest.mark.parametrize("number", [0, 1, 255, 2**48 + 5, 2**60 - 1])
def test_children_round_trip(kind: ChildKind, nibble: int, number: int) -> None:
    rid = ids.child_rid(CONTAINER, kind, number)
    raw = ids.decode(rid) or b""
    assert (len(rid), len(raw), raw[15] >> 4) == (24, 16, nibble)
    assert ids.child_number(rid, CONTAINER, kind) == number
    assert ids.document_number(rid, CONTAINER) == (number if kind == "document" else None)


@pytest.mark.parametrize(
    "rid",
    ["", "1", DATABASE, CONTAINER, "CuECAN5Z6bMOAAAAAAAAAA==", "3FIlAOzjvygCAAAAAAAAUA==",
     "3FIlAOzjvygCAAAAAAAAUA", "not a rid", "größe"],
)  # fmt: skip
def test_no_document_of_this_container(rid: str) -> None:
    assert ids.document_number(rid, CONTAINER) is None


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OverflowError):
        ids.container_rid(DATABASE, 2**31)
    with pytest.raises(OverflowError):
        ids.user_rid(DATABASE, 2**31)
    with pytest.raises(OverflowError):
        ids.child_rid(CONTAINER, "document", 2**60)
    with pytest.raises(ValueError, match="not a rid"):
        ids.child_rid(DATABASE, "document", 1)


@pytest.mark.parametrize("number", [0, 1, 2**24 - 1])
def test_offer_rids(number: int) -> None:
    rid = ids.offer_rid(number)
    assert re.fullmatch(r"[A-Za-z0-9+-]{4}", rid)


LINKS: Final[list[tuple[str, ResourceKind, str, str]]] = [
    ("", "database", "3FIlAA==", "dbs/3FIlAA==/"),
    ("", "offer", "Hu+t", "offers/Hu+t/"),
    ("dbs/D/", "container", "C", "dbs/D/colls/C/"),
    ("dbs/D/", "user", "U", "dbs/D/users/U/"),
    ("dbs/D/users/U/", "permission", "P", "dbs/D/users/U/permissions/P/"),
    ("dbs/D/colls/C/", "document", "X", "dbs/D/colls/C/docs/X/"),
    ("dbs/D/colls/C/", "pkrange", "X", "dbs/D/colls/C/pkranges/X/"),
    ("dbs/D/colls/C/", "sproc", "X", "dbs/D/colls/C/sprocs/X/"),
    ("dbs/D/colls/C/", "trigger", "X", "dbs/D/colls/C/triggers/X/"),
    ("dbs/D/colls/C/", "udf", "X", "dbs/D/colls/C/udfs/X/"),
    ("dbs/D/colls/C/", "conflict", "X", "dbs/D/colls/C/conflicts/X/"),
]


@pytest.mark.parametrize(("parent", "kind", "rid", "link"), LINKS)
def test_self_links(parent: str, kind: ResourceKind, rid: str, link: str) -> None:
    assert ids.self_link(parent, kind, rid) == link


# Etags ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ts", "unique", "etag"),
    [
        (0x621FD98A, 0x0800_0000_00005565, '"00005565-0000-0800-0000-621fd98a0000"'),
        (0, 0, '"00000000-0000-0000-0000-000000000000"'),
        (1, 2**96 - 1, '"ffffffff-ffff-ffff-ffff-00000001ffff"'),
        (2**32 - 1, 0x0001_0002_0003_0004_00000005, '"00000005-0004-0003-0002-ffffffff0001"'),
    ],
)
def test_etags(ts: int, unique: int, etag: str) -> None:
    assert ids.make_etag(ts, unique) == etag


def test_each_counter_value_has_its_own_etag() -> None:
    uniques = [0, *(1 << bit for bit in range(96))]
    assert len({ids.make_etag(7, unique) for unique in uniques}) == len(uniques)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('"a"', '"a"', True),
        ('"a"', "a", True),
        ("a", '"a"', True),
        ('W/"a"', '"a"', True),
        ("a", 'W/"a"', True),
        ('"a"', '"b"', False),
        ('"a"', '"A"', False),
        ('"', "", False),
        ("", '""', True),
        ('"a', "a", False),
    ],
)
def test_same_etag(one: str, other: str, same: bool) -> None:
    assert ids.same_etag(one, other) is same


# Ids chosen by clients --------------------------------------------------------------------------

LEGAL_EVERYWHERE: Final = [
    "a", "MyDb", " leading", "in ner", "!@$%^&*()-~`'_[]{}|;:,.<>", "größe", "日本語", "😀",
    "100%", "%20", "a\rb", "a\tb", "a\nb", "trailing\n", "3FIlAA==", "a" * 255, "é" * 255,
]  # fmt: skip
LEGAL_ITEMS: Final = [
    "trailing ", "a?b", "?", "a#b", ",=.:~+-@()^${}[]!_", "a" * 1023, "é" * 511, "😀" * 255, "..",
]  # fmt: skip


@pytest.mark.parametrize("name", LEGAL_EVERYWHERE)
def test_legal_resource_ids(name: str) -> None:
    assert ids.check_resource_id(name, "database") == name


@pytest.mark.parametrize("name", LEGAL_EVERYWHERE + LEGAL_ITEMS)
def test_legal_item_ids(name: str) -> None:
    assert ids.check_item_id(name) == name


MISSING: Final = (
    "The input content is invalid because the required properties - 'id; ' - are missing"
)
SHORT: Final = "Ensure to provide a unique non-empty string less than '255' characters."
LONG: Final = "Ensure to provide a unique non-empty string less than '1024' characters."


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, MISSING),
        ("", SHORT),
        (1, SHORT),
        (True, SHORT),
        (["a"], SHORT),
        ("a" * 256, SHORT),
        ("a/b", "may not contain"),
        ("a\\b", "may not contain"),
        ("a#b", "may not contain"),
        ("a?b", "may not contain"),
        ("a ", "may not end with a space"),
    ],
)
def test_broken_resource_ids(value: Any, text: str) -> None:
    with pytest.raises(BadRequest) as failure:
        ids.check_resource_id(value, "container")
    assert text in failure.value.message
    assert failure.value.listed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, MISSING),
        ("", LONG),
        (1, LONG),
        (False, LONG),
        ({}, LONG),
        ("a" * 1024, LONG),
        ("é" * 512, LONG),
        ("😀" * 256, LONG),
        ("a/b", "may not contain"),
        ("a\\b", "may not contain"),
    ],
)
def test_broken_item_ids(value: Any, text: str) -> None:
    with pytest.raises(BadRequest) as failure:
        ids.check_item_id(value)
    assert text in failure.value.message
    assert len(failure.value.message) < 300  # a long id is not sent back in full
