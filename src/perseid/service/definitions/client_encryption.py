"""Client encryption policies: which properties clients encrypt, how, and with which keys.

Only clients encrypt. The server checks that a policy is one they can follow, and returns it as it
was sent.
"""

from __future__ import annotations

from typing import Any, Final

from perseid.paths import parse_path
from perseid.service.definitions.json_types import as_list, as_object, invalid, malformed

_TYPES: Final = ("Deterministic", "Randomized")
_VERSIONS: Final = (1, 2)
_PATHS: Final = "clientEncryptionPolicy.includedPaths"
CHANGED: Final = (
    "'clientEncryptionPolicy' cannot be changed as part of collection replace operation."
)


def check_policy(policy: dict[str, Any], key_paths: list[str]) -> None:
    """400 unless clients can follow the policy in a container with these partition key paths."""
    version = policy.get("policyFormatVersion", 1)
    if type(version) is not int or version not in _VERSIONS:
        raise malformed("clientEncryptionPolicy.policyFormatVersion", "1 or 2")
    entries = as_list(policy.get("includedPaths"), _PATHS)
    # An encrypted property is encrypted as a whole, and with it a partition key inside.
    addresses = {"/id", *(f"/{parse_path(path)[0]}" for path in key_paths)}
    seen: set[str] = set()
    for index, value in enumerate(entries):
        entry = as_object(value, f"{_PATHS}[{index}]")
        path = _check_entry(entry, f"{_PATHS}[{index}]")
        if path in seen:
            raise invalid(f"Duplicate path found: {path} in client encryption policy.")
        seen.add(path)
        if path in addresses:
            _check_address(path, entry["encryptionType"], version)


def _check_entry(entry: dict[str, Any], name: str) -> str:
    """The path of an entry, which is complete and about one property."""
    path = entry.get("path")
    if not isinstance(path, str) or path in ("", "/"):
        raise malformed(f"{name}.path", "a top-level path such as '/name'")
    if path[0] != "/":
        raise invalid(f"The path '{path[:200]}' of '{name}' must start with '/'.")
    if "/" in path[1:]:
        raise invalid(
            "Only top-level paths are currently supported for encryption; not"
            f" '{path[:200]}' of '{name}'."
        )
    for member in ("clientEncryptionKeyId", "encryptionAlgorithm"):
        if not isinstance(entry.get(member), str) or not entry[member]:
            raise malformed(f"{name}.{member}", "a string that is not empty")
    if entry.get("encryptionType") not in _TYPES:
        raise malformed(f"{name}.encryptionType", " or ".join(_TYPES))
    return path


def _check_address(path: str, encryption_type: str, version: int) -> None:
    """400 unless an id or partition key can be found again in its encrypted form."""
    if encryption_type != "Deterministic":
        raise invalid(
            f"Path: {path} which is the id or part of the partition key has to be encrypted with"
            " Deterministic type Encryption."
        )
    if version == 1:
        raise invalid(
            "Encryption of partition key or id is only supported with policy format version 2."
        )
