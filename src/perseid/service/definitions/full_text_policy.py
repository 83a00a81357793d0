"""Full-text policies and indexes: which paths hold text, in which language, and which are indexed.

Only checks definitions; the query functions compute words and scores.
"""

from __future__ import annotations

from typing import Any, Final

from perseid.service.definitions.json_types import as_object, as_objects, invalid, malformed, one_of
from perseid.service.definitions.path_grammar import is_property_path

LANGUAGES: Final = ("en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT")
# The same languages as Windows numbers them. Clients may write the number as text.
LOCALE_NUMBERS: Final = {
    "1033": "en-US",
    "1031": "de-DE",
    "3082": "es-ES",
    "1036": "fr-FR",
    "1040": "it-IT",
    "1046": "pt-BR",
    "2070": "pt-PT",
}


def normalised_policy(value: Any) -> dict[str, Any] | None:
    """The `fullTextPolicy` with known members only; nothing is added."""
    if value is None:
        return None
    given = as_object(value, "fullTextPolicy")
    policy: dict[str, Any] = {}
    if given.get("defaultLanguage") is not None:
        policy["defaultLanguage"] = _language(given["defaultLanguage"])
    if given.get("fullTextPaths") is not None:
        policy["fullTextPaths"] = _paths(given["fullTextPaths"])
    return policy


def normalised_indexes(value: Any) -> list[dict[str, str]]:
    """The `fullTextIndexes` of an indexing policy."""
    indexes: list[dict[str, str]] = []
    for i, entry in enumerate(as_objects(value, "indexingPolicy.fullTextIndexes")):
        path = entry.get("path")
        if path is None:
            raise invalid(f"Missing path in full-text index specification at index ({i}).")
        if not is_property_path(path):
            raise invalid(f"Full-text index specification at index ({i}) contains invalid path.")
        if {"path": path} in indexes:
            raise invalid(f"Full-text index specification at index ({i}) repeats path '{path}'.")
        indexes.append({"path": path})
    return indexes


def check_combination(policy: dict[str, Any] | None, indexes: list[dict[str, str]]) -> None:
    """400 for an index on a path that the policy does not list."""
    known = {entry["path"] for entry in (policy or {}).get("fullTextPaths", ())}
    for index in indexes:
        if index["path"] not in known:
            raise invalid(
                f"The path of the Full Text Index {index['path']} does not match"
                " the path specified in the Full Text Policy."
            )


def _paths(value: Any) -> list[dict[str, str]]:
    paths_by_name: dict[str, dict[str, str]] = {}
    for entry in as_objects(value, "fullTextPolicy.fullTextPaths"):
        path = entry.get("path")
        if not is_property_path(path):
            raise invalid(f"The Full Text Policy contains an invalid Path: {path}")
        if path in paths_by_name:
            raise invalid(f"Duplicate Path :{path} found in Full Text Policy.")
        paths_by_name[path] = {"path": path}
        if entry.get("language") is not None:
            paths_by_name[path]["language"] = _language(entry["language"])
    return list(paths_by_name.values())


def _language(value: Any) -> str:
    if not isinstance(value, str):
        raise malformed("fullTextPolicy.language", "a string")
    language = one_of(value, (*LANGUAGES, *LOCALE_NUMBERS))
    if language is None:
        raise invalid(
            f"The Full Text Policy contains an unsupported language {value}."
            f" Supported languages are: {', '.join(LANGUAGES)}."
        )
    return language
