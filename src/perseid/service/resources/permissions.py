"""Permissions of users: which bodies are valid, and one per resource and key of a user."""

from __future__ import annotations

from typing import Any, Final

from perseid.errors import BadRequest, Conflict
from perseid.ids import check_resource_id, permission_rid
from perseid.partition import MAX_LEVELS
from perseid.service import grants
from perseid.service.account import Account
from perseid.service.resources.registry import Properties, RegistryKind

_MODES: Final = ("read", "all")
_CHILDREN: Final = ((), ("docs",), ("sprocs",), ("triggers",), ("udfs",), ("conflicts",))
_SAME_RESOURCE: Final = (
    "The user has a permission on this resource already, '{}'; replace that one, or delete it."
)


def _permission(body: Properties) -> Properties:
    """The properties of a body that are stored, each as it was sent."""
    properties: Properties = {
        "id": check_resource_id(body.get("id"), "permission"),
        "permissionMode": _check_mode(body.get("permissionMode")),
        "resource": _check_resource(body.get("resource")),
    }
    key = body.get("resourcePartitionKey")
    if key is not None:
        properties["resourcePartitionKey"] = _check_key(key)
    return properties


def _check_mode(mode: Any) -> str:
    if not isinstance(mode, str) or mode.lower() not in _MODES:
        raise BadRequest(f"permissionMode is Read or All; not '{mode}'.", listed=True)
    return mode


def _check_resource(resource: Any) -> str:
    """The link of a container or of something in it, by names or rids; it need not exist yet."""
    parts = grants.split(resource) if isinstance(resource, str) else []
    kinds = tuple(parts[0::2])
    is_known = kinds[:2] == ("dbs", "colls") and kinds[2:] in _CHILDREN
    if not is_known or len(parts) % 2 or not all(parts):
        raise BadRequest(
            "The resource of a permission is the link of a container, 'dbs/{db}/colls/{coll}', or"
            " of an item, stored procedure, trigger, user-defined function or conflict in it, such"
            f" as 'dbs/{{db}}/colls/{{coll}}/docs/{{id}}'; not '{str(resource)[:200]}'.",
            listed=True,
        )
    return str(resource)


def _check_key(key: Any) -> list[Any]:
    """A partition key as the partition key header has it, or a prefix of a hierarchical one."""
    if (
        not isinstance(key, list)
        or not 1 <= len(key) <= MAX_LEVELS
        or any(isinstance(value, list) or (isinstance(value, dict) and value) for value in key)
    ):
        raise BadRequest(
            "The resourcePartitionKey of a permission is an array of one to three strings, numbers,"
            ' booleans, null or {}, such as ["A"]; leave it out for the whole resource.',
            listed=True,
        )
    return key


def _check_duplicate_permission(
    account: Account, parent: str, properties: Properties, own: str | None
) -> None:
    """409 if the user has another permission for the same resource and key."""
    target = grants.target(account.catalog, properties)
    for other in account.catalog.children("permission", parent):
        if other.rid != own and grants.target(account.catalog, other.state["properties"]) == target:
            raise Conflict(_SAME_RESOURCE.format(other.id))


PERMISSION: Final = RegistryKind(
    "permission", permission_rid, _permission, _check_duplicate_permission
)
