"""Keys of client-side encryption: clients create them, wrapped, and the server only stores them."""

from __future__ import annotations

from binascii import Error as BadBase64
from binascii import a2b_base64
from typing import Any, Final

from perseid.errors import BadRequest
from perseid.ids import check_resource_id, client_encryption_key_rid
from perseid.service.catalog import Catalog
from perseid.service.definitions.json_types import as_object, as_text, invalid, malformed
from perseid.service.resources.registry import Properties, RegistryKind

_REQUIRED: Final = ("id", "encryptionAlgorithm", "keyWrapMetadata", "wrappedDataEncryptionKey")
_METADATA: Final = ("type", "name", "value", "algorithm")


def check_keys_exist(catalog: Catalog, database: str, policy: dict[str, Any] | None) -> None:
    """400 if an encryption policy names a key that the database with this rid does not have."""
    if policy is None:
        return
    names = {key.id for key in catalog.children("clientencryptionkey", database)}
    for path in policy["includedPaths"]:
        if (name := path["clientEncryptionKeyId"]) not in names:
            raise invalid(f"ClientEncryptionKey with id '[{name}]' does not exist.")


def _key(body: Properties) -> Properties:
    """The properties of a body that are stored, each as it was sent."""
    missing = [name for name in _REQUIRED if body.get(name) is None]
    if missing:
        raise BadRequest(
            "The input content is invalid because the required properties -"
            f" '{'; '.join(missing)}; ' - are missing",
            listed=True,
        )
    check_resource_id(body["id"], "client encryption key")
    if not as_text(body["encryptionAlgorithm"], "encryptionAlgorithm"):
        raise malformed("encryptionAlgorithm", "a string that is not empty")
    metadata = as_object(body["keyWrapMetadata"], "keyWrapMetadata")
    for name in _METADATA:
        if metadata.get(name) is not None:
            as_text(metadata[name], f"keyWrapMetadata.{name}")
    if not _is_base64(body["wrappedDataEncryptionKey"]):
        raise malformed("wrappedDataEncryptionKey", "base64, and not empty")
    return {name: body[name] for name in _REQUIRED}


def _is_base64(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(a2b_base64(value, strict_mode=True))
    except (BadBase64, ValueError):
        return False


# Policies of containers refer to keys by id, so it stays.
CLIENT_ENCRYPTION_KEY: Final = RegistryKind(
    "clientencryptionkey", client_encryption_key_rid, _key, fixed_id_of="client encryption key"
)
