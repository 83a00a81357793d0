"""Responses that several handlers share: metadata resources, their lists, item pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from perseid import charges
from perseid.errors import BadRequest
from perseid.http import wire
from perseid.http.headers import CHARGE, CONTINUATION, RANGE_ID, SESSION_TOKEN, page_size
from perseid.http.request import Request, Response
from perseid.model import Container
from perseid.service import tokens
from perseid.service.account import Account

_READ = (CHARGE, charges.text(charges.METADATA_READ))
_WRITE = (CHARGE, charges.text(charges.METADATA_WRITE))


def metadata_read(body: dict[str, Any], *extra: tuple[str, str]) -> Response:
    return Response(200, [_READ, ("etag", body["_etag"]), *extra], wire.encode(body))


def metadata_written(status: int, body: dict[str, Any], *extra: tuple[str, str]) -> Response:
    return Response(status, [_WRITE, ("etag", body["_etag"]), *extra], wire.encode(body))


def metadata_deleted(*extra: tuple[str, str]) -> Response:
    return Response(204, [_WRITE, *extra])


def not_modified(etag: str, *extra: tuple[str, str]) -> Response:
    return Response(304, [_READ, ("etag", etag), *extra])


def owner_path(*names: str) -> tuple[str, str]:
    """x-ms-alt-content-path: the owner by its names, which must be safe in a header."""
    pairs = zip(("dbs", "colls", "users"), names, strict=False)
    return "x-ms-alt-content-path", "/".join(f"{kind}/{quote(name)}" for kind, name in pairs)


def metadata_feed(
    account: Account,
    request: Request,
    rid: str,
    plural: str,
    bodies: Sequence[dict[str, Any]],
    *extra: tuple[str, str],
) -> Response:
    """A list of resources in order of creation, in pages if the client wants pages."""
    start = _start(account, request, rid, plural, bodies)
    has_limit = request.header("x-ms-max-item-count") is not None
    page = bodies[start : start + page_size(request)] if has_limit else bodies[start:]
    headers = [_READ, ("x-ms-item-count", str(len(page))), *extra]
    if start + len(page) < len(bodies):
        position = {"f": plural, "r": rid, "at": start + len(page), "last": page[-1].get("_rid")}
        headers.append((CONTINUATION, tokens.seal(account.secret, position)))
    return Response(200, headers, wire.feed(rid, plural, [wire.encode(body) for body in page]))


def _start(
    account: Account, request: Request, rid: str, plural: str, bodies: Sequence[dict[str, Any]]
) -> int:
    token = request.header(CONTINUATION)
    if not token:
        return 0
    position = tokens.unseal(account.secret, token, f=plural, r=rid)
    for index, body in enumerate(bodies):
        if body.get("_rid") == position["last"] is not None:
            return index + 1
    # The last one shown has been deleted since: go on at its place in the list.
    at = position["at"]
    if not isinstance(at, int):
        raise BadRequest("The continuation token is malformed; send back the one you were given.")
    return max(at - 1, 0)


def container_headers(
    container: Container, range_index: int, lsn: int, charge: float
) -> list[tuple[str, str]]:
    """What every answer about a container's items carries."""
    position, part = str(lsn), container.ranges[range_index].id
    return [
        (CHARGE, charges.text(charge)),
        (SESSION_TOKEN, f"{part}:-1#{position}"),
        ("x-ms-alt-content-path", container.path),
        ("x-ms-content-path", container.rid),
        (RANGE_ID, part),
        ("x-ms-cosmos-physical-partition-id", part),
        ("lsn", position),
        ("x-ms-cosmos-llsn", position),
        ("x-ms-global-committed-lsn", position),
        ("x-ms-quorum-acked-lsn", position),
        ("x-ms-cosmos-quorum-acked-llsn", position),
    ]
