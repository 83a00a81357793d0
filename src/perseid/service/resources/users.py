"""Users of a database: a user has an id and nothing else."""

from __future__ import annotations

from typing import Final

from perseid.ids import check_resource_id, user_rid
from perseid.service.resources.registry import Properties, RegistryKind


def _user(body: Properties) -> Properties:
    return {"id": check_resource_id(body.get("id"), "user")}


USER: Final = RegistryKind("user", user_rid, _user)
