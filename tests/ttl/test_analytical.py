"""The setting `analyticalStorageTtl`: kept, shown, and expiring nothing (T-193 … T-197)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import Reply
from tests.support.ttl_containers import ABSENT, Shelf, Shelves

MAX_TTL: Final = 2147483647
NAME: Final = "analyticalStorageTtl"
VALID: Final = [-1, 0, 1, 10, MAX_TTL]
INVALID: Final = [-2, -10, MAX_TTL + 1, 1.5, -0.5, "10", "", True, False, [], {}]


def setting(body: dict[str, Any]) -> object:
    return body.get(NAME, ABSENT)


def replace(shelf: Shelf, value: object, **rest: Any) -> Reply:
    """A full replacement of the container's definition."""
    body: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY, **rest}
    if value is not ABSENT:
        body[NAME] = value
    return shelf.raw.put(shelf.path, body)


@pytest.mark.parametrize("value", VALID)
def test_a_valid_setting_is_shown_as_sent(shelves: Shelves, value: int) -> None:
    shelf = shelves.make(analyticalStorageTtl=value)  # T-193
    assert setting(shelf.definition()) == value


@pytest.mark.parametrize("rest", [{}, {NAME: None}], ids=["absent", "null"])
def test_without_the_setting_there_is_no_store(shelves: Shelves, rest: dict[str, Any]) -> None:
    assert setting(shelves.make(**rest).definition()) is ABSENT  # T-193


@pytest.mark.parametrize("omission", [ABSENT, None], ids=["absent", "null"])
def test_a_replace_without_it_keeps_it(shelves: Shelves, omission: object) -> None:
    shelf = shelves.make(60, analyticalStorageTtl=-1)  # T-194
    reply = replace(shelf, omission)
    assert (reply.status, setting(reply.json)) == (200, -1)
    # The other lifetime is not kept: that is what a replace does.
    assert "defaultTtl" not in reply.json
    assert setting(shelf.definition()) == -1


def test_it_may_change(shelves: Shelves) -> None:
    shelf = shelves.make(analyticalStorageTtl=-1)  # T-195
    for value in (1000, 5, -1, MAX_TTL, 10, 0):
        reply = replace(shelf, value)
        assert (reply.status, setting(reply.json)) == (200, value)
        assert setting(shelf.definition()) == value


@pytest.mark.parametrize("value", INVALID, ids=json.dumps)
def test_other_values_are_refused(shelves: Shelves, value: object) -> None:
    refused = shelves.post(analyticalStorageTtl=value)  # T-196
    assert (refused.status, refused.json["code"]) == (400, "BadRequest")
    assert f"The input {NAME} '{json.dumps(value)}' is invalid." in errors(refused)
    assert shelves.raw.get(f"{shelves.database}/colls/c").status == 404
    shelf = shelves.make(analyticalStorageTtl=10)
    before = shelf.raw.get(shelf.path).json
    assert replace(shelf, value).status == 400
    assert shelf.raw.get(shelf.path).json == before


def errors(reply: Reply) -> str:
    """The text inside the validators' envelope."""
    message, _, _ = reply.json["message"].partition("\r\nActivityId: ")
    (text,) = json.loads(message.removeprefix("Message: "))["Errors"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("ttl", [ABSENT, -1, 5], ids=["absent", "-1", "5"])
def test_it_expires_nothing_in_the_main_store(shelves: Shelves, ttl: object) -> None:
    shelf = shelves.make(analyticalStorageTtl=5)  # T-197
    shelf.create("a", ttl)
    shelf.clock.advance(6)
    assert shelf.seen("a") == {"a"}


def test_it_saves_nothing_in_the_main_store(shelves: Shelves) -> None:
    shelf = shelves.make(5, analyticalStorageTtl=3600)  # T-197
    shelf.create("a")
    shelf.create("b", 8)
    shelf.clock.advance(5)
    assert shelf.seen("a", "b") == {"b"}
    shelf.clock.advance(3)
    assert shelf.seen("a", "b") == set()


def test_the_index_may_be_off_with_it(shelves: Shelves) -> None:
    policy = {"indexingMode": "none"}  # T-197: only defaultTtl needs the index
    shelf = shelves.make(indexingPolicy=policy, analyticalStorageTtl=5)
    assert setting(shelf.definition()) == 5
