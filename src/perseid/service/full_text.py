"""Full-text policies and indexes: which paths hold text, in which language, and which are indexed.

Checks definitions only; words and scores belong to the query functions.
"""

from __future__ import annotations

from typing import Any, Final

from perseid.service.paths import is_property_path
from perseid.service.shapes import as_object, as_objects, malformed, one_of, refuse

LANGUAGES: Final = ("en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT")


def normalised_policy(value: Any) -> dict[str, Any] | None:
    """The `fullTextPolicy` with known members only; what was not sent is not made up."""
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
            raise refuse(f"Missing path in full-text index specification at index ({i}).")
        if not is_property_path(path):
            raise refuse(f"Full-text index specification at index ({i}) contains invalid path.")
        if {"path": path} in indexes:
            raise refuse(f"Full-text index specification at index ({i}) repeats path '{path}'.")
        indexes.append({"path": path})
    return indexes


def check_agreement(policy: dict[str, Any] | None, indexes: list[dict[str, str]]) -> None:
    """Refuses an index on a path that the policy does not know to be text."""
    known = {entry["path"] for entry in (policy or {}).get("fullTextPaths", ())}
    for index in indexes:
        if index["path"] not in known:
            raise refuse(
                f"The path of the Full Text Index {index['path']} does not match"
                " the path specified in the Full Text Policy."
            )


def _paths(value: Any) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for entry in as_objects(value, "fullTextPolicy.fullTextPaths"):
        path = entry.get("path")
        if not is_property_path(path):
            raise refuse(f"The Full Text Policy contains an invalid Path: {path}")
        if path in found:
            raise refuse(f"Duplicate Path :{path} found in Full Text Policy.")
        found[path] = {"path": path}
        if entry.get("language") is not None:
            found[path]["language"] = _language(entry["language"])
    return list(found.values())


def _language(value: Any) -> str:
    if not isinstance(value, str):
        raise malformed("fullTextPolicy.language", "a string")
    language = one_of(value, LANGUAGES)
    if language is None:
        raise refuse(
            f"The Full Text Policy contains an unsupported language {value}."
            f" Supported languages are: {', '.join(LANGUAGES)}."
        )
    return language
