"""Time to live and the indexing policy (T-165 … T-176)."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any, Final

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.ttl_containers import ABSENT, Shelf, Shelves, assert_gone

NO_INDEX: Final = (
    "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"
)
NONE: Final = {"indexingMode": "none", "automatic": False}
NO_PATHS: Final = {
    "indexingMode": "consistent",
    "includedPaths": [],
    "excludedPaths": [{"path": "/*"}],
}
LAZY: Final = {"indexingMode": "lazy"}
TRANSFORMATION: Final = "x-ms-documentdb-collection-index-transformation-progress"
LAZY_PROGRESS: Final = "x-ms-documentdb-collection-lazy-indexing-progress"
DEFAULTS: Final = [-1, 1, 60, 2147483647]


def assert_no_index(reply: Reply) -> None:
    assert (reply.status, reply.sub_status) == (400, 0), reply
    assert reply.json["code"] == "BadRequest"
    assert NO_INDEX in reply.json["message"]


def replace(shelf: Shelf, default_ttl: object, policy: dict[str, Any] | None) -> Reply:
    """A full replacement of the container's definition."""
    body: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY}
    if default_ttl is not ABSENT:
        body["defaultTtl"] = default_ttl
    if policy is not None:
        body["indexingPolicy"] = policy
    return shelf.raw.put(shelf.path, body)


def quota(shelf: Shelf) -> Reply:
    return shelf.raw.get(shelf.path, x_ms_documentdb_populatequotainfo="true")


@pytest.mark.parametrize("default_ttl", DEFAULTS)
@pytest.mark.parametrize("mode", ["consistent", "lazy"])
def test_ttl_needs_an_index(shelves: Shelves, mode: str, default_ttl: int) -> None:
    shelf = shelves.make(default_ttl, indexingPolicy={"indexingMode": mode})  # T-165
    found = shelf.definition()
    assert found["defaultTtl"] == default_ttl
    assert found["indexingPolicy"]["indexingMode"] == mode
    shelf.create("a", 1)
    shelf.clock.advance(1)
    assert shelf.seen("a") == set()


@pytest.mark.parametrize("default_ttl", DEFAULTS)
@pytest.mark.parametrize(
    "policy",
    [NONE, {"indexingMode": "none"}, {"indexingMode": "None"}, {"indexingMode": "NONE"}],
    ids=["none", "mode alone", "None", "NONE"],
)
def test_no_ttl_without_an_index(
    shelves: Shelves, policy: dict[str, Any], default_ttl: int
) -> None:
    # T-166, T-169
    assert_no_index(shelves.post(default_ttl, indexingPolicy=policy))
    assert shelves.raw.get(f"{shelves.database}/colls/c").status == 404
    shelf = shelves.make(indexingPolicy=policy)
    before = shelf.raw.get(shelf.path).json
    assert_no_index(replace(shelf, default_ttl, policy))
    assert shelf.raw.get(shelf.path).json == before


def test_a_null_default_goes_without_an_index(shelves: Shelves) -> None:
    shelf = shelves.make(None, indexingPolicy=NONE)  # T-166: null is off
    assert replace(shelf, None, NONE).status == 200


@pytest.mark.parametrize("default_ttl", DEFAULTS)
@pytest.mark.parametrize("mode", ["none", "None"])
def test_the_index_cannot_be_dropped_under_ttl(
    shelves: Shelves, mode: str, default_ttl: int
) -> None:
    shelf = shelves.make(default_ttl)  # T-167
    before = shelf.raw.get(shelf.path).json
    assert_no_index(replace(shelf, default_ttl, {"indexingMode": mode}))
    assert shelf.raw.get(shelf.path).json == before


def test_only_the_resulting_definition_counts(shelves: Shelves) -> None:
    shelf = shelves.make(60)  # T-168
    reply = replace(shelf, ABSENT, NONE)
    assert (reply.status, "defaultTtl" in reply.json) == (200, False)
    assert reply.json["indexingPolicy"]["indexingMode"] == "none"
    reply = replace(shelf, 30, {"indexingMode": "consistent"})
    assert (reply.status, reply.json["defaultTtl"]) == (200, 30)
    assert reply.json["indexingPolicy"]["indexingMode"] == "consistent"


@pytest.mark.parametrize("mode", ["Consistent", "LAZY", "None", "nOnE"])
def test_modes_are_returned_in_lower_case(shelves: Shelves, mode: str) -> None:
    shelf = shelves.make(indexingPolicy={"indexingMode": mode})  # T-169
    assert shelf.definition()["indexingPolicy"]["indexingMode"] == mode.lower()
    reply = replace(shelf, ABSENT, {"indexingMode": mode.swapcase()})
    assert reply.json["indexingPolicy"]["indexingMode"] == mode.lower()


def test_ttl_without_property_indexes(shelves: Shelves) -> None:
    shelf = shelves.make(10, indexingPolicy=NO_PATHS)  # T-170
    shelf.create("a")
    shelf.create("b", 20)
    shelf.clock.advance(10)
    assert shelf.seen("a", "b") == {"b"}
    assert shelf.raw.post(f"{shelf.admin}/drain", {}).json["purged"] == 1
    shelf.clock.advance(10)
    assert shelf.seen("a", "b") == set()
    assert shelf.raw.post(f"{shelf.admin}/drain", {}).json["purged"] == 1
    assert shelf.raw.get(shelf.admin).json["pendingPurge"]["items"] == 0


@pytest.mark.parametrize("ttl", [ABSENT, 5], ids=["inherited", "own"])
@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize("directive", [None, "Include", "Exclude"])
def test_items_outside_the_index_expire_as_well(
    shelves: Shelves, automatic: bool, directive: str | None, ttl: object
) -> None:
    policy = {"indexingMode": "consistent", "automatic": automatic}  # T-171
    shelf = shelves.make(5, indexingPolicy=policy)
    headers = {} if directive is None else {"x_ms_indexing_directive": directive}
    assert shelf.post(shelf.body("a", ttl), **headers).status == 201
    shelf.clock.advance(4)
    assert shelf.read("a").status == 200
    shelf.clock.advance(1)
    assert shelf.seen("a") == set()
    assert shelf.raw.post(f"{shelf.admin}/drain", {}).json["purged"] == 1


@pytest.mark.parametrize("default_ttl", [-1, 1000])
def test_switching_on_is_an_index_transformation(shelves: Shelves, default_ttl: int) -> None:
    shelf = shelves.make()  # T-172
    ids = {shelf.create(str(number))["id"] for number in range(50)}
    assert TRANSFORMATION not in shelf.raw.get(shelf.path).headers
    assert shelf.set_default(default_ttl).status == 200
    assert quota(shelf).headers[TRANSFORMATION] == "100"
    assert shelf.seen(*ids) == ids


def test_the_switch_does_not_change_results(shelves: Shelves) -> None:
    """One client asks all the time, another switches; no answer misses an item (T-173)."""
    shelf = shelves.make()
    ids = {shelf.create(str(number), number % 2 * 500 or ABSENT)["id"] for number in range(40)}
    answers: list[set[str]] = []
    switched = threading.Event()

    def ask() -> None:
        with closing(RawClient(shelf.raw.endpoint, shelf.raw.key)) as own:
            other = Shelf(own, shelf.clock, shelf.path)
            while not switched.is_set() or len(answers) < 5:
                answers.append(other.queried())

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for default_ttl in (-1, ABSENT, 1000, -1, 1000, ABSENT) * 5:
            assert shelf.set_default(default_ttl).status == 200
    finally:
        switched.set()
        asking.join()
    assert len(answers) >= 5
    assert all(answer == ids for answer in answers)


def test_a_change_in_lazy_mode(shelves: Shelves) -> None:
    """Point reads stay exact and the dead stay hidden; the progress is there to look at (T-174)."""
    shelf = shelves.make(10, indexingPolicy=LAZY)
    start = shelves.now
    shelf.create("dead")
    shelf.create("alive", at=start + 9)
    shelf.clock.set(start + 10)
    for default_ttl in (20, -1, ABSENT, 100, 11):
        assert shelf.set_default(default_ttl).status == 200
        assert_gone(shelf.read("dead"))
        assert shelf.read("alive").status == 200
        assert "dead" not in shelf.queried()
        headers = quota(shelf).headers
        assert 0 <= int(headers[LAZY_PROGRESS]) <= 100
        if headers[LAZY_PROGRESS] == "100":
            assert shelf.seen("dead", "alive") == {"alive"}


def test_a_change_in_lazy_mode_is_warned_about(
    shelves: Shelves, caplog: pytest.LogCaptureFixture
) -> None:
    shelf = shelves.make(10, indexingPolicy=LAZY)  # T-174
    assert shelf.set_default(20).status == 200
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("lazy" in text and shelf.path.split("/")[2] in text for text in warnings)


@pytest.mark.parametrize("default_ttl", [ABSENT, -1, 60], ids=["off", "-1", "60"])
def test_lazy_containers_can_be_created(shelves: Shelves, default_ttl: object) -> None:
    reply = shelves.post(default_ttl, indexingPolicy=LAZY)  # T-176
    assert (reply.status, reply.json["indexingPolicy"]["indexingMode"]) == (201, "lazy")
