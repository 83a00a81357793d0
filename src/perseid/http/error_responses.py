"""Responses to requests that failed: to an error for the client, and to a bug."""

from __future__ import annotations

import logging
from typing import Final

from perseid import charges
from perseid.errors import CosmosError, RequestTimeout
from perseid.http import wire
from perseid.http.headers import CHARGE, CONNECTION, SUB_STATUS
from perseid.http.request import Response

log = logging.getLogger(__name__)

LONGEST_METHOD: Final = 32  # characters of a method in the log
_UNEXPECTED: Final = "An unexpected error occurred; the server's log has the details."


def error_response(error: CosmosError, activity_id: str) -> Response:
    charge = charges.REJECTED if error.charge is None else error.charge
    headers = [(CHARGE, charges.text(charge)), *error.headers]
    if error.sub_status:
        headers.append((SUB_STATUS, str(error.sub_status)))
    return Response(error.status, headers, wire.error_body(error, activity_id))


def unreadable_request(error: CosmosError, activity_id: str) -> Response:
    """The response to a request whose body or headers cannot be read."""
    response = error_response(error, activity_id)
    if isinstance(error, RequestTimeout):  # the rest of the body may still come
        response.headers.append((CONNECTION, "close"))
    return response


def unexpected_error(method: str, activity_id: str) -> Response:
    """The response to an exception that is a bug; called where it is caught."""
    log.exception("%s %s failed", activity_id, method[:LONGEST_METHOD])
    return error_response(CosmosError(_UNEXPECTED), activity_id)
