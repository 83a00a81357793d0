"""The handler for deleting all items of a logical partition."""

from __future__ import annotations

from perseid.http.headers import PARTITION_KEY
from perseid.http.items import container_of
from perseid.http.request import Exchange, Request, Response
from perseid.http.responses import container_headers
from perseid.service.account import Account
from perseid.service.items import partition_key_delete, point_operations
from perseid.service.operation import begin


async def delete(account: Account, request: Request, exchange: Exchange) -> Response:
    """Deletes by partition key: complete when the response is sent, unlike in the service."""
    op = begin(account, container_of(account, request, exchange), request.now)
    logical_partition = point_operations.logical_partition_of(
        op.container, request.header(PARTITION_KEY)
    )
    exchange.range_index = logical_partition.range_index
    lsn, charge = await partition_key_delete.delete(op, logical_partition)
    return Response(
        200, container_headers(op.container, logical_partition.range_index, lsn, charge)
    )
