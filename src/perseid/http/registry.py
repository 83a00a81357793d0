"""Handlers for users, permissions, encryption keys and scripts: one class for all kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from perseid.documents import parse_object
from perseid.http import wire
from perseid.http.headers import (
    ALT_CONTENT_PATH,
    CONTENT_PATH,
    EXPIRY_SECONDS,
    IF_MATCH,
    IF_NONE_MATCH,
    integer,
)
from perseid.http.items import container_of
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import (
    metadata_deleted,
    metadata_feed,
    metadata_query,
    metadata_read,
    metadata_written,
    not_modified,
)
from perseid.service import grants
from perseid.service.account import Account
from perseid.service.preconditions import is_unchanged
from perseid.service.resources import (
    client_encryption_keys,
    permissions,
    registry,
    scripts,
    users,
)
from perseid.service.resources.registry import RegisteredResource, RegistryKind

Body: TypeAlias = dict[str, Any]


class Owner(NamedTuple):
    """The resource that owns a list: its rid, and its path by names."""

    rid: str
    path: str

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (ALT_CONTENT_PATH, self.path), (CONTENT_PATH, self.rid)


class RegistryHandlers:
    """The handlers of one kind of resource; `show` makes the body of a response."""

    def __init__(
        self,
        kind: RegistryKind,
        plural: str,
        owner: Callable[[Account, Request, Exchange], Owner],
        show: Callable[[Account, Request, RegisteredResource], Body],
    ) -> None:
        self._kind = kind
        self._plural = plural
        self._owner = owner
        self._show = show

    async def create(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner, body = self._begin(account, request, exchange)
        created = await registry.create(account, self._kind, owner.rid, body, request.now)
        return metadata_written(201, self._show(account, request, created), *owner.headers)

    async def upsert(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner, body = self._begin(account, request, exchange)
        if_match = request.header(IF_MATCH)
        written, is_new = await registry.upsert(
            account, self._kind, owner.rid, body, if_match=if_match, now=request.now
        )
        response_body = self._show(account, request, written)
        return metadata_written(201 if is_new else 200, response_body, *owner.headers)

    async def read(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner = self._owner(account, request, exchange)
        resource = registry.read(account, self._kind, owner.rid, exchange.names[-1])
        if is_unchanged(resource.etag, request.header(IF_NONE_MATCH)):
            return not_modified(resource.etag, *owner.headers)
        return metadata_read(self._show(account, request, resource), *owner.headers)

    async def replace(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner, body = self._begin(account, request, exchange)
        changed = await registry.replace(
            account,
            self._kind,
            owner.rid,
            exchange.names[-1],
            body,
            if_match=request.header(IF_MATCH),
            may_rename=exchange.may_rename,
            now=request.now,
        )
        return metadata_written(200, self._show(account, request, changed), *owner.headers)

    async def delete(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner = self._owner(account, request, exchange)
        if_match = request.header(IF_MATCH)
        await registry.delete(account, self._kind, owner.rid, exchange.names[-1], if_match)
        return metadata_deleted(*owner.headers)

    async def read_feed(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner = self._owner(account, request, exchange)
        entries = [
            (resource.state["number"], self._show(account, request, resource))
            for resource in registry.read_all(account, self._kind, owner.rid)
        ]
        return metadata_feed(account, request, owner.rid, self._plural, entries, *owner.headers)

    async def query(self, account: Account, request: Request, exchange: Exchange) -> Response:
        owner = self._owner(account, request, exchange)
        bodies = [
            self._show(account, request, resource)
            for resource in registry.read_all(account, self._kind, owner.rid)
        ]
        return await metadata_query(
            account, request, owner.rid, self._plural, bodies, *owner.headers
        )

    def _begin(self, account: Account, request: Request, exchange: Exchange) -> tuple[Owner, Body]:
        """The owner and the body of a write; headers are checked before anything changes."""
        lifetime(request)
        return self._owner(account, request, exchange), parse_object(request.body)


def lifetime(request: Request) -> int:
    """How many seconds the tokens in the response are valid."""
    return grants.check_lifetime(integer(request, EXPIRY_SECONDS, grants.DEFAULT_LIFETIME))


async def execute(account: Account, request: Request, exchange: Exchange) -> Response:
    owner = _container(account, request, exchange)
    raise scripts.execution_unsupported(
        registry.read(account, scripts.PROCEDURE, owner.rid, exchange.names[-1]).id
    )


def _database(account: Account, _request: Request, exchange: Exchange) -> Owner:
    database = account.catalog.owner(exchange.names[0])
    return Owner(database.rid, f"dbs/{quote(database.id)}")


def _user(account: Account, request: Request, exchange: Exchange) -> Owner:
    database = _database(account, request, exchange)
    user = registry.owner(account, users.USER, database.rid, exchange.names[1])
    return Owner(user.rid, f"{database.path}/users/{quote(user.id)}")


def _container(account: Account, request: Request, exchange: Exchange) -> Owner:
    container = container_of(account, request, exchange)
    return Owner(container.rid, container.path)


def _show(account: Account, _request: Request, resource: RegisteredResource) -> Body:
    return wire.registered(resource, registry.link_of(account, resource))


def _show_user(account: Account, request: Request, resource: RegisteredResource) -> Body:
    return _show(account, request, resource) | {"_permissions": "permissions/"}


def _show_permission(account: Account, request: Request, resource: RegisteredResource) -> Body:
    token = grants.issue(account, resource.rid, lifetime(request), request.now)
    return _show(account, request, resource) | {"_token": token}


def _show_encryption_key(account: Account, request: Request, resource: RegisteredResource) -> Body:
    return _show(account, request, resource) | {"createTime": resource.state["created"]}


USERS: Final = RegistryHandlers(users.USER, "Users", _database, _show_user)
PERMISSIONS: Final = RegistryHandlers(
    permissions.PERMISSION, "Permissions", _user, _show_permission
)
CLIENT_ENCRYPTION_KEYS: Final = RegistryHandlers(
    client_encryption_keys.CLIENT_ENCRYPTION_KEY,
    "ClientEncryptionKeys",
    _database,
    _show_encryption_key,
)
PROCEDURES: Final = RegistryHandlers(scripts.PROCEDURE, "StoredProcedures", _container, _show)
TRIGGERS: Final = RegistryHandlers(scripts.TRIGGER, "Triggers", _container, _show)
FUNCTIONS: Final = RegistryHandlers(scripts.FUNCTION, "UserDefinedFunctions", _container, _show)
