"""Unique keys, conflict resolution, computed properties and the change feed policy."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.errors import BadRequest
from perseid.service.definitions.container import new_container
from tests.unit.service.definitions.bodies import (
    INVALID,
    body,
    computed,
    create,
    keys,
    refusal,
    replace,
)


@pytest.mark.parametrize(
    "sent",
    [
        keys(["/email"], ["/first", "/last"]),
        keys(*([f"/{i}"] for i in range(10))),
        keys([f"/{i}" for i in range(16)]),
        keys(["/a/b", '/"x y"']),
    ],
)
def test_unique_keys_are_echoed(sent: dict[str, Any]) -> None:
    assert create(uniqueKeyPolicy=sent)["uniqueKeyPolicy"] == sent


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (keys(*([f"/{i}"] for i in range(11))), "11 unique keys; the maximum is 10"),
        (keys([f"/{i}" for i in range(17)]), "17 unique key paths; the maximum is 16"),
        (keys(["/a/*"]), "'/a/*' could not be accepted"),
        (keys(["/a/[]/b"]), "could not be accepted"),
        (keys(["a"]), "could not be accepted"),
        (keys(["/a/"]), "could not be accepted"),
        (keys([]), "at least one path"),
        (keys(["/a", "/_rid"]), "'_rid' is set by the server"),
        ({"uniqueKeys": [{}]}, INVALID),
        ({"uniqueKeys": {}}, INVALID),
        ([], INVALID),
    ],
)
def test_bad_unique_keys(sent: Any, fragment: str) -> None:
    assert fragment in refusal(uniqueKeyPolicy=sent)


@pytest.mark.parametrize(
    ("sent", "mode", "path", "procedure"),
    [
        ({}, "LastWriterWins", "/_ts", ""),
        ({"mode": "lastWriterWins", "conflictResolutionPath": ""}, "LastWriterWins", "/_ts", ""),
        ({"conflictResolutionPath": "/rank"}, "LastWriterWins", "/rank", ""),
        ({"mode": "Custom"}, "Custom", "", ""),
        (
            {"mode": "custom", "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/s"},
            "Custom",
            "",
            "dbs/d/colls/c/sprocs/s",
        ),
    ],
)
def test_conflict_policies(sent: dict[str, Any], mode: str, path: str, procedure: str) -> None:
    assert create(conflictResolutionPolicy=sent)["conflictResolutionPolicy"] == {
        "mode": mode,
        "conflictResolutionPath": path,
        "conflictResolutionProcedure": procedure,
    }


@pytest.mark.parametrize(
    "sent",
    [
        {"mode": "FirstWriterWins"},
        {"mode": 1},
        {"conflictResolutionPath": "rank"},
        {"conflictResolutionPath": 1},
        {"mode": "LastWriterWins", "conflictResolutionProcedure": "dbs/d/colls/c/sprocs/s"},
        {"mode": "Custom", "conflictResolutionPath": "/rank"},
        [],
    ],
)
def test_bad_conflict_policies(sent: Any) -> None:
    assert INVALID in refusal(conflictResolutionPolicy=sent)


@pytest.mark.parametrize("sent", [{"type": "Flat"}, {"type": 1}, [], "Geometry"])
def test_bad_geospatial_configs(sent: Any) -> None:
    assert INVALID in refusal(geospatialConfig=sent)


def test_computed_properties_are_checked_and_echoed() -> None:
    seen: list[tuple[str, str]] = []
    sent = computed(*(f"cp{i}" for i in range(20)))
    stored = new_container(
        body(computedProperties=[entry | {"more": 1} for entry in sent]),
        computed_check=lambda name, query: seen.append((name, query)),
    )
    assert stored["computedProperties"] == sent
    assert seen == [(entry["name"], entry["query"]) for entry in sent]


def test_a_computed_property_the_query_engine_refuses() -> None:
    def refuse_all(name: str, query: str) -> None:
        raise BadRequest(f"{name}: {query}")

    with pytest.raises(BadRequest, match=r"cp: SELECT VALUE c\.cp FROM c"):
        new_container(body(computedProperties=computed("cp")), computed_check=refuse_all)


@pytest.mark.parametrize("sent", [None, []])
def test_no_computed_properties(sent: Any) -> None:
    assert "computedProperties" not in create(computedProperties=sent)


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (computed("a")[0], INVALID),
        (["a"], INVALID),
        ([{"name": "a"}], INVALID),
        ([{"query": "q"}], INVALID),
        ([{"name": "a", "query": 1}], INVALID),
        (computed(""), INVALID),
        (computed("a", "a"), INVALID),
        *((computed(name), INVALID) for name in ("id", "_rid", "_self", "_etag", "_ts")),
        (computed(*(f"cp{i}" for i in range(21))), "the maximum is 20"),
    ],
)
def test_bad_computed_properties(sent: Any, fragment: str) -> None:
    assert fragment in refusal(computedProperties=sent)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [({"retentionDuration": 5}, {"retentionDuration": 5}), ({}, {"retentionDuration": 0})],
)
def test_change_feed_policies(sent: Any, stored: Any) -> None:
    assert create(changeFeedPolicy=sent)["changeFeedPolicy"] == stored


@pytest.mark.parametrize(
    "sent", [[], {"retentionDuration": -1}, {"retentionDuration": "5"}, {"retentionDuration": 1.5}]
)
def test_bad_change_feed_policies(sent: Any) -> None:
    assert INVALID in refusal(changeFeedPolicy=sent)


@pytest.mark.parametrize("name", ["materializedViewDefinition", "globalSecondaryIndexDefinition"])
def test_properties_for_clients_are_echoed_and_kept(name: str) -> None:
    container = create(**{name: {"any": ["thing"]}})
    assert container[name] == {"any": ["thing"]}
    assert replace(container)[name] == {"any": ["thing"]}
    assert name not in create(**{name: None})
    assert INVALID in refusal(**{name: "text"})
