"""The setting `analyticalStorageTtl`: kept, shown, and expiring nothing (T-193 … T-197)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import Reply
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers

MAX_TTL: Final = 2147483647
NAME: Final = "analyticalStorageTtl"
VALID: Final = [-1, 0, 1, 10, MAX_TTL]
INVALID: Final = [-2, -10, MAX_TTL + 1, 1.5, -0.5, "10", "", True, False, [], {}]


def setting(body: dict[str, Any]) -> object:
    return body.get(NAME, ABSENT)


def replace(container: TtlContainer, value: object, **rest: Any) -> Reply:
    """A full replacement of the container's definition."""
    body: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY, **rest}
    if value is not ABSENT:
        body[NAME] = value
    return container.raw.put(container.path, body)


@pytest.mark.parametrize("value", VALID)
def test_a_valid_setting_is_shown_as_sent(containers: TtlContainers, value: int) -> None:
    container = containers.make(analyticalStorageTtl=value)  # T-193
    assert setting(container.definition()) == value


@pytest.mark.parametrize("rest", [{}, {NAME: None}], ids=["absent", "null"])
def test_without_the_setting_there_is_no_store(
    containers: TtlContainers, rest: dict[str, Any]
) -> None:
    assert setting(containers.make(**rest).definition()) is ABSENT  # T-193


@pytest.mark.parametrize("omission", [ABSENT, None], ids=["absent", "null"])
def test_a_replace_without_it_keeps_it(containers: TtlContainers, omission: object) -> None:
    container = containers.make(60, analyticalStorageTtl=-1)  # T-194
    reply = replace(container, omission)
    assert (reply.status, setting(reply.json)) == (200, -1)
    # The other lifetime is not kept: that is what a replace does.
    assert "defaultTtl" not in reply.json
    assert setting(container.definition()) == -1


def test_it_may_change(containers: TtlContainers) -> None:
    container = containers.make(analyticalStorageTtl=-1)  # T-195
    for value in (1000, 5, -1, MAX_TTL, 10, 0):
        reply = replace(container, value)
        assert (reply.status, setting(reply.json)) == (200, value)
        assert setting(container.definition()) == value


@pytest.mark.parametrize("value", INVALID, ids=json.dumps)
def test_other_values_are_refused(containers: TtlContainers, value: object) -> None:
    refused = containers.post(analyticalStorageTtl=value)  # T-196
    assert (refused.status, refused.json["code"]) == (400, "BadRequest")
    assert f"The input {NAME} '{json.dumps(value)}' is invalid." in errors(refused)
    assert containers.raw.get(f"{containers.database}/colls/c").status == 404
    container = containers.make(analyticalStorageTtl=10)
    before = container.raw.get(container.path).json
    assert replace(container, value).status == 400
    assert container.raw.get(container.path).json == before


def errors(reply: Reply) -> str:
    """The text inside the validators' envelope."""
    message, _, _ = reply.json["message"].partition("\r\nActivityId: ")
    (text,) = json.loads(message.removeprefix("Message: "))["Errors"]
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("ttl", [ABSENT, -1, 5], ids=["absent", "-1", "5"])
def test_it_expires_nothing_in_the_main_store(containers: TtlContainers, ttl: object) -> None:
    container = containers.make(analyticalStorageTtl=5)  # T-197
    container.create("a", ttl)
    container.clock.advance(6)
    assert container.seen("a") == {"a"}


def test_it_saves_nothing_in_the_main_store(containers: TtlContainers) -> None:
    container = containers.make(5, analyticalStorageTtl=3600)  # T-197
    container.create("a")
    container.create("b", 8)
    container.clock.advance(5)
    assert container.seen("a", "b") == {"b"}
    container.clock.advance(3)
    assert container.seen("a", "b") == set()


def test_the_index_may_be_off_with_it(containers: TtlContainers) -> None:
    policy = {"indexingMode": "none"}  # T-197: only defaultTtl needs the index
    container = containers.make(indexingPolicy=policy, analyticalStorageTtl=5)
    assert setting(container.definition()) == 5
