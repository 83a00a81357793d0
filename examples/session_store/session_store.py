"""A small session store on Cosmos DB: who is signed in, for how long, and what is in their cart.

The container's default ttl ends a session that nobody uses; each visit starts it anew. A reset
code lives five minutes whatever happens, and a device that asked to be remembered stays.
"""

from __future__ import annotations

import secrets
from typing import Any

from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosResourceNotFoundError

RESET_SECONDS = 5 * 60
FOR_EVER = -1


class SessionStore:
    """Sessions of all users, in a container keyed by /user."""

    def __init__(self, container: ContainerProxy) -> None:
        self._container = container

    def sign_in(self, user: str, *, remember: bool = False) -> str:
        session = {"id": secrets.token_urlsafe(12), "user": user, "kind": "session", "cart": []}
        if remember:
            session["ttl"] = FOR_EVER
        self._container.create_item(session)
        return session["id"]

    def visit(self, user: str, session: str) -> dict[str, Any] | None:
        """The session, good for another while; None if it has ended."""
        found = self._find(user, session)
        return None if found is None else self._container.replace_item(found, found)

    def put_in_cart(self, user: str, session: str, article: str) -> bool:
        found = self._find(user, session)
        if found is None:
            return False
        found["cart"].append(article)
        self._container.replace_item(found, found)
        return True

    def sign_out(self, user: str, session: str) -> None:
        if self._find(user, session) is not None:
            self._container.delete_item(session, partition_key=user)

    def signed_in(self, user: str) -> int:
        """On how many devices."""
        return next(
            iter(
                self._container.query_items(
                    "SELECT VALUE COUNT(1) FROM c WHERE c.kind = 'session'", partition_key=user
                )
            )
        )

    def ask_reset(self, user: str) -> str:
        code = f"{secrets.randbelow(10**6):06}"
        reset = {"id": "reset", "user": user, "kind": "reset", "code": code, "ttl": RESET_SECONDS}
        self._container.upsert_item(reset)
        return code

    def accepts_reset(self, user: str, code: str) -> bool:
        found = self._find(user, "reset")
        return found is not None and found["code"] == code

    def _find(self, user: str, id_: str) -> dict[str, Any] | None:
        try:
            return self._container.read_item(id_, partition_key=user)
        except CosmosResourceNotFoundError:
            return None
