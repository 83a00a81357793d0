"""The definition of a container: what a create or replace may say, and what it then is.

A definition is the complete set of properties a client sees, in the service's order, without system
properties. Pure: bodies in, definitions out; whether a name is taken or a policy change has to
rebuild something is decided by whoever keeps containers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from perseid import ids, partition
from perseid.documents import SYSTEM_PROPERTIES
from perseid.service.definitions import full_text_policy, indexing_policy, vector_policy
from perseid.service.definitions.json_types import (
    as_list,
    as_object,
    as_objects,
    as_text,
    as_whole,
    invalid,
    malformed,
    one_of,
    or_default,
    whole_number,
)
from perseid.service.definitions.path_grammar import is_property_path
from perseid.ttl import MAX_TTL, check_default_ttl

ComputedCheck: TypeAlias = Callable[[str, str], None]
"""Takes the name and the query of a computed property; raises BadRequest if it will not do."""

MOST_UNIQUE_KEYS: Final = 10
MOST_UNIQUE_PATHS: Final = 16
MOST_COMPUTED: Final = 20

SYSTEM_NAMES: Final = SYSTEM_PROPERTIES | {"id", "_lsn"}
GEOSPATIAL_TYPES: Final = ("Geography", "Geometry")
CONFLICT_MODES: Final = ("LastWriterWins", "Custom")

# For containers in the style from before partitioning. Whoever names no version means the first.
LEGACY_KEY: Final = {"paths": ["/_partitionKey"], "kind": "Hash", "version": 1}

# Fixed at creation, or said to outlive an omission; everything else a replace omits is reset.
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


def new_container(body: Any, *, computed_check: ComputedCheck) -> dict[str, Any]:
    """The definition of the container that this body of a create asks for.

    System properties in the body are ignored, as clients send back what they have read; so are
    properties the service does not know. A null counts as absent throughout.
    """
    given = as_object(body, "body")
    ids.check_resource_id(given.get("id"), "container")
    definition = _normalised(given, computed_check)
    _check_keys(definition)
    check_combination(definition)
    return definition


def replaced_container(
    old: dict[str, Any], body: Any, *, computed_check: ComputedCheck
) -> dict[str, Any]:
    """The definition after a replace with this body: a full replacement, not a merge.

    What the body omits goes back to its default, except for what is fixed at creation and for
    `analyticalStorageTtl`.
    """
    given = as_object(body, "body")
    if given.get("id") != old["id"]:
        raise invalid(f"The id of the container is '{old['id']}' and cannot be changed.")
    kept = {
        name: old[name] for name in _KEPT_WHEN_OMITTED if name in old and given.get(name) is None
    }
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
    """Every property checked and completed by itself; the order is the order of the reply."""
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
        "uniqueKeyPolicy": _unique_keys(given.get("uniqueKeyPolicy")),
        "conflictResolutionPolicy": _conflict_resolution(given.get("conflictResolutionPolicy")),
        "geospatialConfig": geospatial,
        "analyticalStorageTtl": _analytical_ttl(given.get("analyticalStorageTtl")),
        "computedProperties": _computed(given.get("computedProperties"), computed_check),
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
    """What no property can know by itself: do they fit together?"""
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


def _partition_key(value: Any) -> dict[str, Any]:
    key = partition.parse_definition(or_default(value, LEGACY_KEY))
    return {"paths": list(key.paths), "kind": key.kind, "version": key.version}


def _check_keys(definition: dict[str, Any]) -> None:
    """A key is what the client says of an item; system properties are what the server says."""
    unique = definition["uniqueKeyPolicy"]["uniqueKeys"]
    for what, paths in (
        ("a partition key", definition["partitionKey"]["paths"]),
        ("a unique key", [path for key in unique for path in key["paths"]]),
    ):
        for path in paths:
            if (name := partition.parse_path(path)[0]) in SYSTEM_PROPERTIES:
                raise invalid(f"'{path}' cannot be part of {what}: '{name}' is set by the server.")


def _unique_keys(value: Any) -> dict[str, Any]:
    given = as_object(or_default(value, {}), "uniqueKeyPolicy")
    keys = [_unique_key(entry) for entry in as_objects(given.get("uniqueKeys"), "uniqueKeys")]
    total = sum(map(len, keys))
    for count, most, what in (
        (len(keys), MOST_UNIQUE_KEYS, "unique keys"),
        (total, MOST_UNIQUE_PATHS, "unique key paths"),
    ):
        if count > most:
            raise invalid(f"The unique key policy has {count} {what}; the maximum is {most}.")
    return {"uniqueKeys": [{"paths": paths} for paths in keys]}


def _unique_key(entry: dict[str, Any]) -> list[str]:
    paths = as_list(entry.get("paths"), "uniqueKeys.paths")
    if not paths:
        raise invalid("A unique key must have at least one path.")
    for path in paths:
        if not is_property_path(path):
            raise invalid(
                f"The unique key path '{path}' could not be accepted. Unique key paths must contain"
                " only valid characters and not contain a trailing slash or wildcard character."
            )
    return list(paths)


def _conflict_resolution(value: Any) -> dict[str, str]:
    given = as_object(or_default(value, {}), "conflictResolutionPolicy")
    mode = one_of(or_default(given.get("mode"), CONFLICT_MODES[0]), CONFLICT_MODES)
    if mode is None:
        raise malformed("conflictResolutionPolicy.mode", f"one of {', '.join(CONFLICT_MODES)}")
    path, procedure = (
        as_text(or_default(given.get(name), ""), f"conflictResolutionPolicy.{name}")
        for name in ("conflictResolutionPath", "conflictResolutionProcedure")
    )
    if mode == "LastWriterWins":
        path = path or "/_ts"
        if procedure or not is_property_path(path):
            raise malformed(
                "conflictResolutionPolicy", "a path to a property and no procedure in this mode"
            )
    elif path:
        raise malformed("conflictResolutionPolicy", "without a path in mode Custom")
    return {
        "mode": mode,
        "conflictResolutionPath": path,
        "conflictResolutionProcedure": procedure,
    }


def _geospatial(value: Any) -> dict[str, str]:
    given = as_object(or_default(value, {}), "geospatialConfig")
    kind = one_of(or_default(given.get("type"), GEOSPATIAL_TYPES[0]), GEOSPATIAL_TYPES)
    if kind is None:
        raise malformed("geospatialConfig.type", f"one of {', '.join(GEOSPATIAL_TYPES)}")
    return {"type": kind}


def _analytical_ttl(value: Any) -> int | None:
    """Seconds, -1 for ever, 0 to drop the analytical copy; None when there never was one."""
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


def _computed(value: Any, check: ComputedCheck) -> list[dict[str, str]] | None:
    entries = as_objects(value, "computedProperties")
    if len(entries) > MOST_COMPUTED:
        raise invalid(
            f"The container has {len(entries)} computed properties; the maximum is {MOST_COMPUTED}."
        )
    computed: dict[str, str] = {}
    for entry in entries:
        name = as_text(entry.get("name"), "computedProperties.name")
        query = as_text(entry.get("query"), "computedProperties.query")
        if not name or name in SYSTEM_NAMES or name in computed:
            raise malformed("computedProperties.name", "unique, not empty and no system property")
        check(name, query)
        computed[name] = query
    return [{"name": name, "query": query} for name, query in computed.items()] or None


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
    """A property that only clients interpret."""
    return None if given.get(name) is None else as_object(given[name], name)
