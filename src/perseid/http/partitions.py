"""Logical partitions as a whole on the wire."""

from __future__ import annotations

from perseid.http.headers import PARTITION_KEY
from perseid.http.items import container_of
from perseid.http.request import Request, Response
from perseid.http.responses import container_headers
from perseid.service import items, partitions
from perseid.service.account import Account
from perseid.service.operation import begin


async def delete(account: Account, request: Request) -> Response:
    """Delete by partition key. Its effect is there with the answer, where the service's follows."""
    op = begin(account, container_of(account, request), request.now)
    place = items.place_of(op.container, request.header(PARTITION_KEY))
    request.range_index = place.range_index
    lsn, charge = await partitions.delete(op, place)
    return Response(200, container_headers(op.container, place.range_index, lsn, charge))
