"""Responses that several handlers share: metadata resources, their lists, item pages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from perseid import charges
from perseid.http import wire
from perseid.http.headers import (
    ALT_CONTENT_PATH,
    CHARGE,
    CONTENT_PATH,
    CONTINUATION,
    ETAG,
    ITEM_COUNT,
    LSN,
    MAX_ITEM_COUNT,
    RANGE_ID,
    SESSION_TOKEN,
    page_size,
)
from perseid.http.request import Request, Response
from perseid.model import Container
from perseid.service import tokens
from perseid.service.account import Account
from perseid.service.queries.metadata import run_over_metadata
from perseid.service.queries.requests import parse_request

_READ = (CHARGE, charges.text(charges.METADATA_READ))
_WRITE = (CHARGE, charges.text(charges.METADATA_WRITE))


def metadata_read(body: dict[str, Any], *extra: tuple[str, str]) -> Response:
    return Response(200, [_READ, (ETAG, body["_etag"]), *extra], wire.encode(body))


def metadata_written(status: int, body: dict[str, Any], *extra: tuple[str, str]) -> Response:
    return Response(status, [_WRITE, (ETAG, body["_etag"]), *extra], wire.encode(body))


def metadata_deleted(*extra: tuple[str, str]) -> Response:
    return Response(204, [_WRITE, *extra])


def not_modified(etag: str, *extra: tuple[str, str]) -> Response:
    return Response(304, [_READ, (ETAG, etag), *extra])


def owner_path(*names: str) -> tuple[str, str]:
    """The header with the path of the owner by names, escaped for use in a header."""
    pairs = zip(("dbs", "colls", "users"), names, strict=False)
    return ALT_CONTENT_PATH, "/".join(f"{kind}/{quote(name)}" for kind, name in pairs)


def metadata_feed(
    account: Account,
    request: Request,
    rid: str,
    plural: str,
    entries: Sequence[tuple[int, Any]],
    *extra: tuple[str, str],
    digest: str | None = None,
) -> Response:
    """A list of resources, in pages if the client sets a page size.

    The number of an entry is higher than those before it and never changes, so the next page
    starts after the last entry even if others were created or deleted. `digest` identifies the
    query whose result the list is.
    """
    about = {"f": plural, "r": rid, "q": digest}
    token = request.header(CONTINUATION)
    after = tokens.unseal(account.secret, token, **about)["n"] if token else -1
    remaining = [entry for entry in entries if entry[0] > after]
    has_limit = request.header(MAX_ITEM_COUNT) is not None
    page = remaining[: page_size(request)] if has_limit else remaining
    headers = [_READ, (ITEM_COUNT, str(len(page))), *extra]
    if len(page) < len(remaining):
        position = about | {"n": page[-1][0]}
        headers.append((CONTINUATION, tokens.seal(account.secret, position)))
    return Response(200, headers, wire.feed(rid, plural, [wire.encode(body) for _, body in page]))


async def metadata_query(
    account: Account,
    request: Request,
    rid: str,
    plural: str,
    bodies: Sequence[Any],
    *extra: tuple[str, str],
) -> Response:
    """The rows of a query over a list of resources."""
    query = parse_request(request.body)
    rows = await run_over_metadata(account, bodies, query, request.now)
    entries = list(enumerate(rows))
    return metadata_feed(account, request, rid, plural, entries, *extra, digest=query.digest)


def container_headers(
    container: Container, range_index: int, lsn: int, charge: float
) -> list[tuple[str, str]]:
    """The headers of every response about items; only those that clients read."""
    part = container.ranges[range_index].id
    return [
        (CHARGE, charges.text(charge)),
        (SESSION_TOKEN, f"{part}:-1#{lsn}"),
        (LSN, str(lsn)),
        *_container_path_headers(container.path, container.rid, part),
    ]


def session_token(container: Container, lsns: Sequence[int]) -> str:
    """The session token for all ranges of a container."""
    pairs = zip(container.ranges, lsns, strict=True)
    return ",".join(f"{part.id}:-1#{lsn}" for part, lsn in pairs)


@lru_cache(maxsize=1024)
def _container_path_headers(path: str, rid: str, part: str) -> tuple[tuple[str, str], ...]:
    return (ALT_CONTENT_PATH, path), (CONTENT_PATH, rid), (RANGE_ID, part)
