"""Time to live and the indexing policy (T-165 … T-176)."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any, Final

import pytest

from tests.support.builders import PARTITION_KEY
from tests.support.raw import RawClient, Reply
from tests.support.ttl_containers import ABSENT, TtlContainer, TtlContainers, assert_gone

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


def replace(container: TtlContainer, default_ttl: object, policy: dict[str, Any] | None) -> Reply:
    """A full replacement of the container's definition."""
    body: dict[str, Any] = {"id": "c", "partitionKey": PARTITION_KEY}
    if default_ttl is not ABSENT:
        body["defaultTtl"] = default_ttl
    if policy is not None:
        body["indexingPolicy"] = policy
    return container.raw.put(container.path, body)


def quota(container: TtlContainer) -> Reply:
    return container.raw.get(container.path, x_ms_documentdb_populatequotainfo="true")


@pytest.mark.parametrize("default_ttl", DEFAULTS)
@pytest.mark.parametrize("mode", ["consistent", "lazy"])
def test_ttl_needs_an_index(containers: TtlContainers, mode: str, default_ttl: int) -> None:
    container = containers.make(default_ttl, indexingPolicy={"indexingMode": mode})  # T-165
    found = container.definition()
    assert found["defaultTtl"] == default_ttl
    assert found["indexingPolicy"]["indexingMode"] == mode
    container.create("a", 1)
    container.clock.advance(1)
    assert container.seen("a") == set()


@pytest.mark.parametrize("default_ttl", DEFAULTS)
@pytest.mark.parametrize(
    "policy",
    [NONE, {"indexingMode": "none"}, {"indexingMode": "None"}, {"indexingMode": "NONE"}],
    ids=["none", "mode alone", "None", "NONE"],
)
def test_no_ttl_without_an_index(
    containers: TtlContainers, policy: dict[str, Any], default_ttl: int
) -> None:
    # T-166, T-169
    assert_no_index(containers.post(default_ttl, indexingPolicy=policy))
    assert containers.raw.get(f"{containers.database}/colls/c").status == 404
    container = containers.make(indexingPolicy=policy)
    before = container.raw.get(container.path).json
    assert_no_index(replace(container, default_ttl, policy))
    assert container.raw.get(container.path).json == before


def test_a_null_default_goes_without_an_index(containers: TtlContainers) -> None:
    container = containers.make(None, indexingPolicy=NONE)  # T-166: null is off
    assert replace(container, None, NONE).status == 200


@pytest.mark.parametrize("default_ttl", DEFAULTS)
@pytest.mark.parametrize("mode", ["none", "None"])
def test_the_index_cannot_be_dropped_under_ttl(
    containers: TtlContainers, mode: str, default_ttl: int
) -> None:
    container = containers.make(default_ttl)  # T-167
    before = container.raw.get(container.path).json
    assert_no_index(replace(container, default_ttl, {"indexingMode": mode}))
    assert container.raw.get(container.path).json == before


def test_only_the_resulting_definition_counts(containers: TtlContainers) -> None:
    container = containers.make(60)  # T-168
    reply = replace(container, ABSENT, NONE)
    assert (reply.status, "defaultTtl" in reply.json) == (200, False)
    assert reply.json["indexingPolicy"]["indexingMode"] == "none"
    reply = replace(container, 30, {"indexingMode": "consistent"})
    assert (reply.status, reply.json["defaultTtl"]) == (200, 30)
    assert reply.json["indexingPolicy"]["indexingMode"] == "consistent"


@pytest.mark.parametrize("mode", ["Consistent", "LAZY", "None", "nOnE"])
def test_modes_are_returned_in_lower_case(containers: TtlContainers, mode: str) -> None:
    container = containers.make(indexingPolicy={"indexingMode": mode})  # T-169
    assert container.definition()["indexingPolicy"]["indexingMode"] == mode.lower()
    reply = replace(container, ABSENT, {"indexingMode": mode.swapcase()})
    assert reply.json["indexingPolicy"]["indexingMode"] == mode.lower()


def test_ttl_without_property_indexes(containers: TtlContainers) -> None:
    container = containers.make(10, indexingPolicy=NO_PATHS)  # T-170
    container.create("a")
    container.create("b", 20)
    container.clock.advance(10)
    assert container.seen("a", "b") == {"b"}
    assert container.raw.post(f"{container.admin}/drain", {}).json["purged"] == 1
    container.clock.advance(10)
    assert container.seen("a", "b") == set()
    assert container.raw.post(f"{container.admin}/drain", {}).json["purged"] == 1
    assert container.raw.get(container.admin).json["pendingPurge"]["items"] == 0


@pytest.mark.parametrize("ttl", [ABSENT, 5], ids=["inherited", "own"])
@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize("directive", [None, "Include", "Exclude"])
def test_items_outside_the_index_expire_as_well(
    containers: TtlContainers, automatic: bool, directive: str | None, ttl: object
) -> None:
    policy = {"indexingMode": "consistent", "automatic": automatic}  # T-171
    container = containers.make(5, indexingPolicy=policy)
    headers = {} if directive is None else {"x_ms_indexing_directive": directive}
    assert container.post(container.body("a", ttl), **headers).status == 201
    container.clock.advance(4)
    assert container.read("a").status == 200
    container.clock.advance(1)
    assert container.seen("a") == set()
    assert container.raw.post(f"{container.admin}/drain", {}).json["purged"] == 1


@pytest.mark.parametrize("default_ttl", [-1, 1000])
def test_switching_on_is_an_index_transformation(
    containers: TtlContainers, default_ttl: int
) -> None:
    container = containers.make()  # T-172
    ids = {container.create(str(number))["id"] for number in range(50)}
    assert TRANSFORMATION not in container.raw.get(container.path).headers
    assert container.set_default(default_ttl).status == 200
    assert quota(container).headers[TRANSFORMATION] == "100"
    assert container.seen(*ids) == ids


def test_the_switch_does_not_change_results(containers: TtlContainers) -> None:
    """One client asks all the time, another switches; no answer misses an item (T-173)."""
    container = containers.make()
    ids = {container.create(str(number), number % 2 * 500 or ABSENT)["id"] for number in range(40)}
    answers: list[set[str]] = []
    switched = threading.Event()

    def ask() -> None:
        with closing(RawClient(container.raw.endpoint, container.raw.key)) as own:
            other = TtlContainer(own, container.clock, container.path)
            while not switched.is_set() or len(answers) < 5:
                answers.append(other.queried())

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for default_ttl in (-1, ABSENT, 1000, -1, 1000, ABSENT) * 5:
            assert container.set_default(default_ttl).status == 200
    finally:
        switched.set()
        asking.join()
    assert len(answers) >= 5
    assert all(answer == ids for answer in answers)


def test_a_change_in_lazy_mode(containers: TtlContainers) -> None:
    """Point reads stay exact, expired items stay hidden, and the progress is shown (T-174)."""
    container = containers.make(10, indexingPolicy=LAZY)
    start = containers.now
    container.create("expired")
    container.create("alive", at=start + 9)
    container.clock.set(start + 10)
    for default_ttl in (20, -1, ABSENT, 100, 11):
        assert container.set_default(default_ttl).status == 200
        assert_gone(container.read("expired"))
        assert container.read("alive").status == 200
        assert "expired" not in container.queried()
        headers = quota(container).headers
        assert 0 <= int(headers[LAZY_PROGRESS]) <= 100
        if headers[LAZY_PROGRESS] == "100":
            assert container.seen("expired", "alive") == {"alive"}


def test_a_change_in_lazy_mode_is_warned_about(
    containers: TtlContainers, caplog: pytest.LogCaptureFixture
) -> None:
    container = containers.make(10, indexingPolicy=LAZY)  # T-174
    assert container.set_default(20).status == 200
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("lazy" in text and container.path.split("/")[2] in text for text in warnings)


@pytest.mark.parametrize("default_ttl", [ABSENT, -1, 60], ids=["off", "-1", "60"])
def test_lazy_containers_can_be_created(containers: TtlContainers, default_ttl: object) -> None:
    reply = containers.post(default_ttl, indexingPolicy=LAZY)  # T-176
    assert (reply.status, reply.json["indexingPolicy"]["indexingMode"]) == (201, "lazy")
