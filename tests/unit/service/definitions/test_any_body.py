"""Random bodies: each gives a definition or a 400."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.errors import BadRequest
from perseid.service.definitions import container
from perseid.service.definitions.container import new_container, replaced_container
from tests.unit.service.definitions.bodies import FULL, accept_all, body, create

_TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["/", "/*", "/a", "/a/?", '/"_etag"/?', "/a/[]/{x,y}/?", "none", "flat", "Custom", "en-US"]
    ),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            _TEXTS | st.sampled_from(["path", "paths", "type", "types", "kind", "mode", "order"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_PATHS = st.lists(st.fixed_dictionaries({"path": _TEXTS}, optional={"type": JSON}) | JSON) | JSON
_POLICIES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "indexingMode": st.sampled_from(["consistent", "None", "lazy"]) | JSON,
        "automatic": st.booleans() | JSON,
        "includedPaths": _PATHS,
        "excludedPaths": _PATHS,
        "compositeIndexes": st.lists(_PATHS, max_size=3) | JSON,
        "spatialIndexes": _PATHS,
        "vectorIndexes": _PATHS,
        "fullTextIndexes": _PATHS,
    },
)
_PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "id": JSON,
    "partitionKey": JSON,
    "indexingPolicy": _POLICIES,
    "defaultTtl": st.integers(-2, 5) | JSON,
    "uniqueKeyPolicy": st.fixed_dictionaries({"uniqueKeys": st.lists(JSON, max_size=3)}) | JSON,
    "conflictResolutionPolicy": st.fixed_dictionaries({"mode": _TEXTS}) | JSON,
    "geospatialConfig": JSON,
    "analyticalStorageTtl": JSON,
    "computedProperties": st.lists(
        st.fixed_dictionaries({"name": _TEXTS, "query": _TEXTS}) | JSON, max_size=3
    ),
    "vectorEmbeddingPolicy": st.fixed_dictionaries({"vectorEmbeddings": _PATHS}) | JSON,
    "fullTextPolicy": st.fixed_dictionaries({"fullTextPaths": _PATHS}) | JSON,
    "changeFeedPolicy": JSON,
    "clientEncryptionPolicy": JSON,
    "ttlPropertyPath": JSON,
}


def one_property(name: str) -> st.SearchStrategy[Any]:
    """Bodies that are fine but for one property, so that its own checks are reached."""
    return _PROPERTIES[name].map(lambda value: body(**{name: value}))


BODIES = (
    JSON
    | st.fixed_dictionaries({}, optional=_PROPERTIES)
    | st.sampled_from(list(_PROPERTIES)).flatmap(one_property)
    | _POLICIES.map(lambda sent: body(indexingPolicy=sent))
)


@settings(deadline=None)
@given(BODIES)
def test_any_body_gives_a_definition_or_a_400(sent: Any) -> None:
    try:
        definition = new_container(sent, computed_check=accept_all)
    except BadRequest:
        return
    assert new_container(definition, computed_check=accept_all) == definition
    assert replaced_container(definition, definition, computed_check=accept_all) == definition


@settings(deadline=None)
@given(BODIES)
def test_any_body_replaces_or_is_refused(sent: Any) -> None:
    old = create(**FULL)
    try:
        definition = replaced_container(old, sent, computed_check=accept_all)
    except BadRequest:
        return
    assert [definition[name] for name in container._IMMUTABLE] == [
        old[name] for name in container._IMMUTABLE
    ]
