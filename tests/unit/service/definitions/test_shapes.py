"""The body of a container as a whole: id, partition key, unknown properties."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.errors import BadRequest
from perseid.service.definitions.container import new_container, replaced_container
from tests.support.builders import PARTITION_KEY
from tests.unit.service.definitions.bodies import DEFAULT_POLICY, accept_all, create, refusal


def test_smallest_body_is_completed_in_order() -> None:
    definition = create()
    assert definition == {
        "id": "c",
        "indexingPolicy": DEFAULT_POLICY,
        "partitionKey": PARTITION_KEY,
        "uniqueKeyPolicy": {"uniqueKeys": []},
        "conflictResolutionPolicy": {
            "mode": "LastWriterWins",
            "conflictResolutionPath": "/_ts",
            "conflictResolutionProcedure": "",
        },
        "geospatialConfig": {"type": "Geography"},
    }
    assert list(create(defaultTtl=10, computedProperties=[{"name": "n", "query": "q"}])) == [
        "id",
        "indexingPolicy",
        "partitionKey",
        "defaultTtl",
        "uniqueKeyPolicy",
        "conflictResolutionPolicy",
        "geospatialConfig",
        "computedProperties",
    ]


def test_system_and_unknown_properties_are_dropped() -> None:
    names = ["_rid", "_self", "_etag", "_ts", "_docs", "_sprocs", "_triggers", "_udfs"]
    system = dict.fromkeys([*names, "_conflicts", "statistics", "colour"], "x")
    assert create(**system) == create()


@pytest.mark.parametrize("value", [None, [], "c", 1, True])
def test_body_must_be_an_object(value: Any) -> None:
    with pytest.raises(BadRequest):
        new_container(value, computed_check=accept_all)
    with pytest.raises(BadRequest):
        replaced_container(create(), value, computed_check=accept_all)


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        (None, "'id; ' - are missing"),
        ("", "Ensure to provide a unique non-empty string less than '255' characters."),
        ("x" * 256, "Ensure to provide a unique non-empty string less than '255' characters."),
        (7, "Ensure to provide a unique non-empty string less than '255' characters."),
        ("a/b", "a/b"),
    ],
)
def test_bad_ids(value: Any, fragment: str) -> None:
    assert fragment in refusal(id=value)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ({"paths": ["/a/b"]}, {"paths": ["/a/b"], "kind": "Hash"}),
        ({"paths": ["/a"], "version": None}, {"paths": ["/a"], "kind": "Hash"}),
        ({"paths": ["/a"], "version": "V1"}, {"paths": ["/a"], "kind": "Hash", "version": 1}),
        ({"paths": ["/a"], "version": "v2"}, {"paths": ["/a"], "kind": "Hash", "version": 2}),
        ({"paths": ["/a"], "version": "1"}, {"paths": ["/a"], "kind": "Hash", "version": 1}),
        ({"paths": ["/a"], "version": "2"}, {"paths": ["/a"], "kind": "Hash", "version": 2}),
        (
            {"paths": ["/a", "/b"], "kind": "MultiHash"},
            {"paths": ["/a", "/b"], "kind": "MultiHash"},
        ),
        (PARTITION_KEY, PARTITION_KEY),
        (
            {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
            {"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
        ),
    ],
)
def test_partition_keys(sent: Any, stored: dict[str, Any]) -> None:
    assert create(partitionKey=sent)["partitionKey"] == stored


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        ({"paths": ["/a", "/b"], "kind": "Hash"}, "Too many partition key paths"),
        ({"paths": ["/a/"]}, "not contain a trailing slash or wildcard character"),
        (None, "partitionKey"),
        ({"paths": []}, "path"),
        ("/pk", "object"),
        ({"paths": ["/a"], "version": "V3"}, "version of kind Hash must be one of 1, 2"),
        ({"paths": ["/a"], "version": "V 1"}, "version of kind Hash must be one of 1, 2"),
        ({"paths": ["/a"], "version": 2.0}, "version of kind Hash must be one of 1, 2"),
        ({"paths": ["/a"], "version": True}, "version of kind Hash must be one of 1, 2"),
        ({"paths": ["/a"], "kind": "MultiHash", "version": "V1"}, "must be one of 2"),
        ({"paths": ["/_ts"]}, "'_ts' is set by the server"),
        ({"paths": ["/a", '/"_etag"/b'], "kind": "MultiHash"}, "'_etag' is set by the server"),
    ],
)
def test_bad_partition_keys(sent: Any, fragment: str) -> None:
    assert fragment in refusal(partitionKey=sent)
