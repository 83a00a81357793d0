"""The definition of a container: checks the body of a create or replace, and completes it.

A definition is the complete set of properties a client sees, in the service's order, without system
properties. Pure: bodies in, definitions out. `resources/containers.py` checks whether the name
exists and applies policy changes.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from perseid import ids, partition
from perseid.documents import SYSTEM_PROPERTIES
from perseid.partition import SYSTEM_KEY
from perseid.paths import parse_path
from perseid.service.definitions import (
    computed_properties,
    conflict_resolution,
    full_text_policy,
    indexing_policy,
    unique_key_policy,
    vector_policy,
)
from perseid.service.definitions.computed_properties import ComputedCheck
from perseid.service.definitions.json_types import (
    as_object,
    as_whole,
    invalid,
    malformed,
    one_of,
    or_default,
    whole_number,
)
from perseid.ttl import MAX_TTL, check_default_ttl

GEOSPATIAL_TYPES: Final = ("Geography", "Geometry")

_NO_KEY: Final = (
    "The partitionKey of a container is missing: a container is created with a partition key, for"
    ' example {"paths": ["/id"], "kind": "Hash", "version": 2}. Only clients with an API version'
    " before 2018-12-31 create containers without one."
)

# Fixed at creation, or documented to stay when omitted; a replace resets all other omissions.
_KEPT_WHEN_OMITTED: Final = (
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "analyticalStorageTtl",
    "clientEncryptionPolicy",
    "materializedViewDefinition",
    "globalSecondaryIndexDefinition",
)
_IMMUTABLE: Final = {
    "partitionKey": "Document collection partition key cannot be changed.",
    "uniqueKeyPolicy": (
        "The unique index cannot be modified."
        " To change the unique index, remove the collection and re-create a new one."
    ),
    "conflictResolutionPolicy": (
        "The conflict resolution policy cannot be modified."
        " To change it, remove the collection and re-create a new one."
    ),
}


def new_container(
    body: Any, *, computed_check: ComputedCheck, needs_key: bool = True
) -> dict[str, Any]:
    """The definition of a new container with this body.

    System properties in the body are ignored, as clients send back what they have read; so are
    properties the service does not know. A null counts as absent throughout. Without `needs_key`
    the container may be one without a partition key.
    """
    given = as_object(body, "body")
    ids.check_resource_id(given.get("id"), "container")
    if _names_no_key(given.get("partitionKey")):
        if needs_key:
            raise invalid(_NO_KEY)
        given = given | {"partitionKey": SYSTEM_KEY}
    definition = _normalised(given, computed_check)
    _check_keys(definition)
    check_combination(definition)
    return definition


def replaced_container(
    old: dict[str, Any], body: Any, *, computed_check: ComputedCheck
) -> dict[str, Any]:
    """The definition after a replace with this body: a full replacement, not a merge.

    Omitted properties are reset to their default, except for those fixed at creation and
    `analyticalStorageTtl`.
    """
    given = as_object(body, "body")
    if given.get("id") != old["id"]:
        raise invalid(f"The id of the container is '{old['id']}' and cannot be changed.")
    kept: dict[str, Any] = {
        name: old[name] for name in _KEPT_WHEN_OMITTED if name in old and given.get(name) is None
    }
    if _names_no_key(given.get("partitionKey")):
        if old["partitionKey"] != SYSTEM_KEY:
            raise invalid(_IMMUTABLE["partitionKey"])
        kept["partitionKey"] = SYSTEM_KEY
    definition = _normalised(given | kept, computed_check)
    for name, text in _IMMUTABLE.items():
        if definition[name] != old[name]:
            raise invalid(text)
    vector_policy.check_replacement(
        old.get("vectorEmbeddingPolicy"),
        definition.get("vectorEmbeddingPolicy"),
        old["indexingPolicy"].get("vectorIndexes", []),
        definition["indexingPolicy"].get("vectorIndexes", []),
    )
    check_combination(definition)
    return definition


def _normalised(given: dict[str, Any], computed_check: ComputedCheck) -> dict[str, Any]:
    """Checks and completes each property on its own, in the order of the response."""
    if given.get("ttlPropertyPath") is not None:
        raise invalid(
            "The property 'ttlPropertyPath' is not supported: lifetimes count from '_ts'."
        )
    geospatial = _geospatial(given.get("geospatialConfig"))
    planar = geospatial["type"] == "Geometry"
    properties = {
        "id": given["id"],
        "indexingPolicy": indexing_policy.normalised_policy(
            given.get("indexingPolicy"), planar=planar
        ),
        "partitionKey": _partition_key(given.get("partitionKey")),
        "defaultTtl": check_default_ttl(given.get("defaultTtl")),
        "uniqueKeyPolicy": unique_key_policy.normalised_policy(given.get("uniqueKeyPolicy")),
        "conflictResolutionPolicy": conflict_resolution.normalised_policy(
            given.get("conflictResolutionPolicy")
        ),
        "geospatialConfig": geospatial,
        "analyticalStorageTtl": _analytical_ttl(given.get("analyticalStorageTtl")),
        "computedProperties": computed_properties.normalised(
            given.get("computedProperties"), computed_check
        ),
        "vectorEmbeddingPolicy": vector_policy.normalised_policy(
            given.get("vectorEmbeddingPolicy")
        ),
        "fullTextPolicy": full_text_policy.normalised_policy(given.get("fullTextPolicy")),
        "changeFeedPolicy": _change_feed(given.get("changeFeedPolicy")),
        "clientEncryptionPolicy": _echoed(given, "clientEncryptionPolicy"),
        "materializedViewDefinition": _echoed(given, "materializedViewDefinition"),
        "globalSecondaryIndexDefinition": _echoed(given, "globalSecondaryIndexDefinition"),
    }
    return {name: value for name, value in properties.items() if value is not None}


def check_combination(definition: dict[str, Any]) -> None:
    """Checks the rules that involve several properties."""
    policy = definition["indexingPolicy"]
    vector_policy.check_combination(
        definition.get("vectorEmbeddingPolicy"), policy.get("vectorIndexes", [])
    )
    full_text_policy.check_combination(
        definition.get("fullTextPolicy"), policy.get("fullTextIndexes", [])
    )
    if policy["indexingMode"] == "none" and "defaultTtl" in definition:
        raise invalid(
            "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"
        )


def _names_no_key(value: Any) -> bool:
    """True for the `partitionKey` of a container without one, as old and new clients send it."""
    if not isinstance(value, dict):
        return value is None
    paths = value.get("paths")
    return paths == [] or (paths == SYSTEM_KEY["paths"] and value.get("systemKey") is True)


def _partition_key(value: Any) -> dict[str, Any]:
    if value == SYSTEM_KEY:
        return dict(SYSTEM_KEY)
    key = partition.parse_definition(value)
    return {"paths": list(key.paths), "kind": key.kind, "version": key.version}


def _check_keys(definition: dict[str, Any]) -> None:
    """400 if a key has a system property: the server sets those, and keys are the client's."""
    unique = definition["uniqueKeyPolicy"]["uniqueKeys"]
    for what, paths in (
        ("a partition key", definition["partitionKey"]["paths"]),
        ("a unique key", [path for key in unique for path in key["paths"]]),
    ):
        for path in paths:
            if (name := parse_path(path)[0]) in SYSTEM_PROPERTIES:
                raise invalid(f"'{path}' cannot be part of {what}: '{name}' is set by the server.")


def _geospatial(value: Any) -> dict[str, str]:
    given = as_object(or_default(value, {}), "geospatialConfig")
    kind = one_of(or_default(given.get("type"), GEOSPATIAL_TYPES[0]), GEOSPATIAL_TYPES)
    if kind is None:
        raise malformed("geospatialConfig.type", f"one of {', '.join(GEOSPATIAL_TYPES)}")
    return {"type": kind}


def _analytical_ttl(value: Any) -> int | None:
    """Seconds, -1 for no expiry, 0 to drop the analytical copy, or None."""
    if value is None:
        return None
    seconds = whole_number(value)
    if seconds is None or not -1 <= seconds <= MAX_TTL:
        printed = orjson.dumps(value).decode()
        raise invalid(
            f"The input analyticalStorageTtl '{printed}' is invalid. Ensure to provide an integer"
            f" from '0' to '{MAX_TTL}', or '-1' which means never expire."
        )
    return seconds


def _change_feed(value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    given = as_object(value, "changeFeedPolicy")
    name = "retentionDuration"
    minutes = as_whole(or_default(given.get(name), 0), f"changeFeedPolicy.{name}")
    if not 0 <= minutes <= MAX_TTL:
        raise malformed(f"changeFeedPolicy.{name}", f"from 0 to {MAX_TTL} minutes")
    return {name: minutes}


def _echoed(given: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A property that is stored and returned; only clients interpret it."""
    return None if given.get(name) is None else as_object(given[name], name)
