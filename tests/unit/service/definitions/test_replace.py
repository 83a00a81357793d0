"""What a replace may change in a container definition."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.service.definitions.container import new_container, replaced_container
from tests.unit.service.definitions.bodies import (
    EMBEDDING,
    FULL,
    accept_all,
    create,
    keys,
    refusal_of_replace,
    replace,
    with_vectors,
)

FIXED_INDEX = (
    "Paths in existing vector indexing policy cannot be modified in Collection Replace."
    " They can only be added or removed."
)
FIXED_EMBEDDING = (
    "Paths in existing embedding policy cannot be modified in Collection Replace."
    " They can only be added or removed."
)


def test_replace_with_what_was_read_changes_nothing() -> None:
    container = create(**FULL)
    read = container | {"_rid": "x", "_self": "y", "_ts": 1}
    assert replaced_container(container, read, computed_check=accept_all) == container


def test_replace_resets_what_it_omits() -> None:
    container = create(**FULL)
    fixed = ("uniqueKeyPolicy", "conflictResolutionPolicy", "analyticalStorageTtl")
    assert replace(container) == create() | {name: container[name] for name in fixed}


@pytest.mark.parametrize(
    ("sent", "stored"), [({}, -1), ({"analyticalStorageTtl": None}, -1), (1000, 1000), (0, 0)]
)
def test_analytical_ttl_outlives_omission(sent: Any, stored: int) -> None:
    container = create(analyticalStorageTtl=-1)
    change = sent if isinstance(sent, dict) else {"analyticalStorageTtl": sent}
    assert replace(container, **change)["analyticalStorageTtl"] == stored


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        ({"id": "other"}, "cannot be changed"),
        ({"id": None}, "cannot be changed"),
        (
            {"partitionKey": {"paths": ["/other"], "kind": "Hash", "version": 2}},
            "Document collection partition key cannot be changed",
        ),
        (
            {"partitionKey": {"paths": ["/pk"]}},
            "Document collection partition key cannot be changed",
        ),
        ({"partitionKey": None}, "Document collection partition key cannot be changed"),
        ({"uniqueKeyPolicy": keys(["/b"])}, "The unique index cannot be modified."),
        ({"uniqueKeyPolicy": keys()}, "The unique index cannot be modified."),
        ({"conflictResolutionPolicy": {"mode": "Custom"}}, "conflict resolution policy cannot"),
        ({"defaultTtl": 0}, "The input defaultTtl '0' is invalid."),
        ({"ttlPropertyPath": "/t"}, "ttlPropertyPath"),
    ],
)
def test_refused_changes(change: dict[str, Any], fragment: str) -> None:
    assert fragment in refusal_of_replace(create(uniqueKeyPolicy=keys(["/a"])), **change)


@pytest.mark.parametrize("sent", [{"paths": ["/pk"]}, {"paths": ["/pk"], "kind": "Hash"}])
def test_keys_are_compared_in_full_form(sent: dict[str, Any]) -> None:
    container = create(partitionKey={"paths": ["/pk"], "kind": "Hash", "version": 1})
    assert replace(container, partitionKey=sent) == container


def test_a_container_without_a_key_is_replaced_without_one() -> None:
    container = new_container({"id": "c"}, computed_check=accept_all, needs_key=False)
    assert replaced_container(container, {"id": "c"}, computed_check=accept_all) == container


FLAT = {"path": "/v", "type": "flat"}
OTHER = EMBEDDING | {"path": "/w"}


@pytest.mark.parametrize(
    ("indexes", "embeddings", "fragment"),
    [
        ([FLAT], [], "The Vector Indexing Policy's path::/v not matching in Embedding's path."),
        ([FLAT | {"type": "quantizedFlat"}], [EMBEDDING], FIXED_INDEX),
        ([FLAT | {"type": "quantizedFlat"}], [], FIXED_INDEX),
        ([FLAT], [EMBEDDING | {"dimensions": 384}], FIXED_EMBEDDING),
        ([], [EMBEDDING | {"dimensions": 384}], FIXED_EMBEDDING),
        ([FLAT], [EMBEDDING], None),
        ([FLAT, FLAT | {"path": "/w"}], [EMBEDDING, OTHER], None),
        ([], [EMBEDDING], None),
        ([], [], None),
    ],
)
def test_vector_paths_come_and_go_but_do_not_change(
    indexes: list[Any], embeddings: list[Any], fragment: str | None
) -> None:
    container = create(**with_vectors(FLAT))
    change = {
        "indexingPolicy": {"vectorIndexes": indexes},
        "vectorEmbeddingPolicy": {"vectorEmbeddings": embeddings} if embeddings else None,
    }
    if fragment is None:
        replace(container, **change)
    else:
        assert fragment in refusal_of_replace(container, **change)
