"""Responses that several handlers share: metadata resources, their lists, item pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from perseid import charges
from perseid.http import wire
from perseid.http.headers import CHARGE, CONTINUATION, RANGE_ID, SESSION_TOKEN, page_size
from perseid.http.request import Request, Response
from perseid.model import Container
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.queries.metadata import run_over_metadata
from perseid.service.queries.requests import parse_request

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
    entries: Sequence[tuple[int, Any]],
    *extra: tuple[str, str],
    digest: str | None = None,
) -> Response:
    """A list of resources, in pages if the client wants pages.

    Entries carry a number that rises from one to the next and stays with them, so that a page
    goes on behind the last one whatever was created or deleted meanwhile. `digest` names the
    query whose result this is.
    """
    about = {"f": plural, "r": rid, "q": digest}
    token = request.header(CONTINUATION)
    after = tokens.unseal(account.secret, token, **about)["n"] if token else -1
    left = [entry for entry in entries if entry[0] > after]
    has_limit = request.header("x-ms-max-item-count") is not None
    page = left[: page_size(request)] if has_limit else left
    headers = [_READ, ("x-ms-item-count", str(len(page))), *extra]
    if len(page) < len(left):
        position = about | {"n": page[-1][0]}
        headers.append((CONTINUATION, tokens.seal(account.secret, position)))
    return Response(200, headers, wire.feed(rid, plural, [wire.encode(body) for _, body in page]))


def metadata_query(
    account: Account,
    request: Request,
    rid: str,
    plural: str,
    bodies: Sequence[Any],
    *extra: tuple[str, str],
) -> Response:
    """The rows of a query over a list of resources."""
    query = parse_request(request.body)
    rows = run_over_metadata(bodies, query, request.now)
    entries = list(enumerate(rows))
    return metadata_feed(account, request, rid, plural, entries, *extra, digest=query.digest)


def container_headers(
    container: Container, range_index: int, lsn: int, charge: float
) -> list[tuple[str, str]]:
    """What every answer about a container's items carries: as much as clients read."""
    part = container.ranges[range_index].id
    return [
        (CHARGE, charges.text(charge)),
        (SESSION_TOKEN, f"{part}:-1#{lsn}"),
        ("lsn", str(lsn)),
        *_container_path_headers(container.path, container.rid, part),
    ]


def session_token(container: Container, lsns: Sequence[int]) -> str:
    """How far all ranges of a container have come."""
    pairs = zip(container.ranges, lsns, strict=True)
    return ",".join(f"{part.id}:-1#{lsn}" for part, lsn in pairs)


@lru_cache(maxsize=1024)
def _container_path_headers(path: str, rid: str, part: str) -> tuple[tuple[str, str], ...]:
    return ("x-ms-alt-content-path", path), ("x-ms-content-path", rid), (RANGE_ID, part)
