"""The TTL properties of a container definition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.service.definitions.bodies import (
    DEFAULT_POLICY,
    ETAG,
    ROOT,
    create,
    refusal,
    refusal_of_replace,
    replace,
)

MODE_NONE = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"

# Lifetimes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "stored"), [(-1, -1), (1, 1), (2147483647, 2147483647), (60.0, 60)]
)
def test_default_ttl_is_echoed(sent: Any, stored: int) -> None:
    assert create(defaultTtl=sent)["defaultTtl"] == stored


def test_default_ttl_is_absent_when_off() -> None:
    assert "defaultTtl" not in create(defaultTtl=None)


@pytest.mark.parametrize(
    ("sent", "shown"),
    [(0, "0"), (-10, "-10"), (2147483648, "2147483648"), (1.5, "1.5"), ("60", '"60"'), ([], "[]")],
)
def test_bad_default_ttls(sent: Any, shown: str) -> None:
    assert f"The input defaultTtl '{shown}' is invalid." in refusal(defaultTtl=sent)


def test_ttl_property_path_is_not_ignored() -> None:
    assert "ttlPropertyPath" in refusal(ttlPropertyPath="/t")
    assert create(ttlPropertyPath=None) == create()


@pytest.mark.parametrize("value", [-1, 0, 1, 2147483647])
def test_analytical_ttls(value: int) -> None:
    assert create(analyticalStorageTtl=value)["analyticalStorageTtl"] == value


@pytest.mark.parametrize("value", [-10, -2, 2147483648, 1.5, "10", True, [], {}])
def test_bad_analytical_ttls(value: Any) -> None:
    assert "analyticalStorageTtl" in refusal(analyticalStorageTtl=value)


@pytest.mark.parametrize("ttl", [-1, 1, 60])
@pytest.mark.parametrize("mode", ["consistent", "lazy", "Lazy"])
def test_ttl_goes_with_an_index(ttl: int, mode: str) -> None:
    sent = {"defaultTtl": ttl, "indexingPolicy": {"indexingMode": mode}}
    assert create(**sent)["defaultTtl"] == ttl
    assert replace(create(), **sent)["defaultTtl"] == ttl


@pytest.mark.parametrize("ttl", [-1, 1, 60])
@pytest.mark.parametrize("mode", ["none", "None"])
def test_ttl_does_not_go_without_an_index(ttl: int, mode: str) -> None:
    unindexed = {"indexingPolicy": {"indexingMode": mode}}
    sent = {"defaultTtl": ttl} | unindexed
    assert refusal(**sent) == MODE_NONE
    assert refusal_of_replace(create(**unindexed), **sent) == MODE_NONE
    assert refusal_of_replace(create(defaultTtl=ttl), **sent) == MODE_NONE


def test_only_the_resulting_definition_counts() -> None:
    no_index = {"indexingMode": "none", "automatic": False}
    expiring, unindexed = create(defaultTtl=60), create(indexingPolicy=no_index)
    assert "defaultTtl" not in replace(expiring, indexingPolicy=no_index)
    assert replace(unindexed, defaultTtl=60)["indexingPolicy"] == DEFAULT_POLICY


def test_ttl_without_property_indexes_is_supported() -> None:
    sent = {"indexingMode": "consistent", "includedPaths": [], "excludedPaths": [ROOT]}
    stored = create(defaultTtl=10, indexingPolicy=sent)["indexingPolicy"]
    assert (stored["includedPaths"], stored["excludedPaths"]) == ([], [ROOT, ETAG])
