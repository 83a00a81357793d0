"""The files of the portal under /_explorer/, the path that emulators use.

They are static and need no signature, because they contain no data: the portal loads all data with
signed requests.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from perseid.errors import MethodNotAllowed, NotFound
from perseid.http.headers import (
    ETAG,
    IF_NONE_MATCH,
    LOCATION,
)
from perseid.http.request import Request, Response
from perseid.service.preconditions import is_unchanged

PREFIX: Final = "/_explorer"
_FILES: Final = Path(__file__).parents[1] / "portal"
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# No resources of other hosts, no inline scripts, no frames; requests to this server only.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = [
    # Browsers revalidate each time and get a 304, so after an upgrade they load the new portal.
    ("cache-control", "no-cache"),
    ("content-security-policy", _POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
]


class File(NamedTuple):
    body: bytes
    content_type: str
    etag: str


@cache
def files() -> dict[str, File]:
    """Every file by its path below the prefix. Only files in this table can be requested."""
    return {
        path.relative_to(_FILES).as_posix(): _file(path)
        for path in sorted(_FILES.rglob("*"))
        if path.suffix in _TYPES
    }


def _file(path: Path) -> File:
    body = path.read_bytes()
    digest = hashlib.blake2b(body, digest_size=12).hexdigest()
    return File(body, _TYPES[path.suffix], f'"{digest}"')


def is_portal(path: str) -> bool:
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def serve(request: Request) -> Response:
    """The file of a path. The prefix without a slash is redirected, so that relative links work."""
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed(f"The portal's files take GET and HEAD, not {request.method[:32]}.")
    if request.path == PREFIX:
        return Response(308, [(LOCATION, f"{PREFIX}/"), *_HEADERS])
    name = request.path.removeprefix(f"{PREFIX}/") or _INDEX
    file = files().get(name)
    if file is None:
        raise NotFound(f"The portal has no file '{name[:200]}'; it starts at {PREFIX}/.")
    headers = [(ETAG, file.etag), *_HEADERS]
    if is_unchanged(file.etag, request.header(IF_NONE_MATCH)):
        return Response(304, headers, content_type=file.content_type)
    return Response(200, headers, file.body, file.content_type)
