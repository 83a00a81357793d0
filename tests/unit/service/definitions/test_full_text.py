"""Full-text policies and full-text indexes of a container definition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.service.definitions.bodies import INVALID, TEXT_POLICY, create, refusal


@pytest.mark.parametrize(
    "sent",
    [
        {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/t", "language": "de-DE"}]},
        {"defaultLanguage": "pt-BR", "fullTextPaths": [{"path": "/t"}]},
        {"defaultLanguage": "en-US"},
        {"defaultLanguage": "1031", "fullTextPaths": [{"path": "/t", "language": "1033"}]},
    ],
)
def test_full_text_policies_are_echoed(sent: dict[str, Any]) -> None:
    assert create(fullTextPolicy=sent)["fullTextPolicy"] == sent


@pytest.mark.parametrize(
    ("sent", "fragment"),
    [
        (
            {"fullTextPaths": [{"path": "abstract"}]},
            "The Full Text Policy contains an invalid Path: abstract",
        ),
        ({"fullTextPaths": [{"path": "/a/*"}]}, "The Full Text Policy contains an invalid Path"),
        ({"fullTextPaths": [{"path": "/a"}, {"path": "/a"}]}, "Duplicate Path :/a"),
        (
            {"defaultLanguage": "spa-SPA"},
            "The Full Text Policy contains an unsupported language spa-SPA."
            " Supported languages are:",
        ),
        (
            {"fullTextPaths": [{"path": "/a", "language": "spa-SPA"}]},
            "The Full Text Policy contains an unsupported language spa-SPA."
            " Supported languages are:",
        ),
        ({"defaultLanguage": "1034"}, "unsupported language 1034."),
        ({"defaultLanguage": 1033}, INVALID),
        ({"defaultLanguage": 1}, INVALID),
        ([], INVALID),
    ],
)
def test_bad_full_text_policies(sent: Any, fragment: str) -> None:
    assert fragment in refusal(fullTextPolicy=sent)


def test_full_text_indexes_are_echoed() -> None:
    indexes = [{"path": "/abstract"}]
    stored = create(fullTextPolicy=TEXT_POLICY, indexingPolicy={"fullTextIndexes": indexes})
    assert stored["indexingPolicy"]["fullTextIndexes"] == indexes


@pytest.mark.parametrize(
    ("indexes", "fragment"),
    [
        (
            [{"path": "/path"}],
            "The path of the Full Text Index /path does not match the path specified in the"
            " Full Text Policy",
        ),
        (
            [{"path": "abstract"}],
            "Full-text index specification at index (0) contains invalid path",
        ),
        (
            [{"path": "/abstract"}, {"not_path": "abstract"}],
            "Missing path in full-text index specification at index (1)",
        ),
        ([{"path": "/abstract"}] * 2, "repeats path"),
        ("/abstract", INVALID),
    ],
)
def test_bad_full_text_indexes(indexes: Any, fragment: str) -> None:
    text = refusal(fullTextPolicy=TEXT_POLICY, indexingPolicy={"fullTextIndexes": indexes})
    assert fragment in text
