"""A small session store on Cosmos DB: which users are signed in, until when, with which cart.

The default ttl of the container expires unused sessions; each visit restarts the ttl. A reset code
expires after five minutes. Sessions of remembered devices never expire.

Visits and carts are changed by patches: one request that the server applies as a whole. A read and
a replace would be two. If the session expired in between, the replace would fail, and of two
requests at the same time one would lose the change of the other.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any

from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from azure.cosmos.exceptions import CosmosResourceNotFoundError

SESSION_SECONDS = 60 * 60
RESET_SECONDS = 5 * 60
NEVER_EXPIRES = -1


def create_container(database: DatabaseProxy) -> ContainerProxy:
    """The container of the application, with its ttl."""
    return database.create_container_if_not_exists(
        "sessions", PartitionKey("/user"), default_ttl=SESSION_SECONDS
    )


class SessionStore:
    """Sessions of all users, in a container keyed by /user."""

    def __init__(self, container: ContainerProxy) -> None:
        self._container = container

    def sign_in(self, user: str, *, remember: bool = False) -> str:
        id_ = secrets.token_urlsafe(12)
        session = {"id": id_, "user": user, "kind": "session", "cart": [], "visits": 0}
        if remember:
            session["ttl"] = NEVER_EXPIRES
        self._container.create_item(session)
        return session["id"]

    def visit(self, user: str, session: str) -> dict[str, Any] | None:
        """The session, with its ttl restarted; None if it has expired."""
        return self._patch(user, session, {"op": "incr", "path": "/visits", "value": 1})

    def put_in_cart(self, user: str, session: str, article: str) -> bool:
        """False if the session has expired; otherwise its ttl is restarted."""
        added = {"op": "add", "path": "/cart/-", "value": article}
        return self._patch(user, session, added) is not None

    def sign_out(self, user: str, session: str) -> None:
        with suppress(CosmosResourceNotFoundError):  # it may have expired
            self._container.delete_item(session, partition_key=user)

    def signed_in(self, user: str) -> int:
        """The number of sessions of the user."""
        return next(
            iter(
                self._container.query_items(
                    "SELECT VALUE COUNT(1) FROM c WHERE c.kind = 'session'", partition_key=user
                )
            )
        )

    def request_reset(self, user: str) -> str:
        code = f"{secrets.randbelow(10**6):06}"
        reset = {"id": "reset", "user": user, "kind": "reset", "code": code, "ttl": RESET_SECONDS}
        self._container.upsert_item(reset)
        return code

    def is_reset_code(self, user: str, code: str) -> bool:
        reset = self._find(user, "reset")
        return reset is not None and reset["code"] == code

    def _patch(self, user: str, id_: str, operation: dict[str, Any]) -> dict[str, Any] | None:
        """The changed item, with its ttl restarted as by every write; None if it has expired."""
        try:
            return self._container.patch_item(id_, user, [operation])
        except CosmosResourceNotFoundError:
            return None

    def _find(self, user: str, id_: str) -> dict[str, Any] | None:
        try:
            return self._container.read_item(id_, partition_key=user)
        except CosmosResourceNotFoundError:
            return None
