"""What depends on the API version that a client states in `x-ms-version`.

A version is the date of its release. A client that states none, or no date, gets today's answers.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from perseid.http.headers import API_VERSION, SESSION_TOKEN
from perseid.http.request import Request, Response

# From this one on session tokens are `{range}:{version}#{lsn}`, before `{range}:{lsn}`.
VERSIONED_TOKENS: Final = "2018-06-18"
# From this one on every container has a partition key.
REQUIRED_KEYS: Final = "2018-12-31"

_DATE: Final = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}", re.ASCII)


def is_before(request: Request, version: str) -> bool:
    """True if the client states a version that is older than `version`."""
    stated = request.header(API_VERSION)
    return stated is not None and stated < version and _is_date(stated)


@lru_cache(maxsize=64)
def _is_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None


def shorten_session_token(response: Response) -> None:
    """Writes the session token as versions before `VERSIONED_TOKENS` read it: one range, its LSN.

    `0:-1#5,1:-1#7` becomes `0:5`: those clients cannot read a list.
    """
    for place, (name, token) in enumerate(response.headers):
        if name == SESSION_TOKEN:
            range_id, _, position = token.partition(",")[0].partition(":")
            lsn = position.split("#")[1]
            response.headers[place] = name, f"{range_id}:{lsn}"
