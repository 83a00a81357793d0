"""A small session store on Cosmos DB: which users are signed in, until when, with which cart.

The default ttl of the container expires unused sessions; each visit restarts the ttl. A reset code
expires after five minutes. Sessions of remembered devices never expire.
"""

from __future__ import annotations

import secrets
from typing import Any

from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosResourceNotFoundError

RESET_SECONDS = 5 * 60
NEVER_EXPIRES = -1


class SessionStore:
    """Sessions of all users, in a container keyed by /user."""

    def __init__(self, container: ContainerProxy) -> None:
        self._container = container

    def sign_in(self, user: str, *, remember: bool = False) -> str:
        session = {"id": secrets.token_urlsafe(12), "user": user, "kind": "session", "cart": []}
        if remember:
            session["ttl"] = NEVER_EXPIRES
        self._container.create_item(session)
        return session["id"]

    def visit(self, user: str, session: str) -> dict[str, Any] | None:
        """The session, with its ttl restarted; None if it has expired."""
        item = self._find(user, session)
        return None if item is None else self._container.replace_item(item, item)

    def put_in_cart(self, user: str, session: str, article: str) -> bool:
        item = self._find(user, session)
        if item is None:
            return False
        item["cart"].append(article)
        self._container.replace_item(item, item)
        return True

    def sign_out(self, user: str, session: str) -> None:
        if self._find(user, session) is not None:
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

    def _find(self, user: str, id_: str) -> dict[str, Any] | None:
        try:
            return self._container.read_item(id_, partition_key=user)
        except CosmosResourceNotFoundError:
            return None
