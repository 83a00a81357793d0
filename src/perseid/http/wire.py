"""Encodes errors and models as JSON bodies; no other module does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import orjson

from perseid import __version__, documents, ids, ttl
from perseid.config import Settings
from perseid.errors import CosmosError, QueryError
from perseid.model import Container, Database, Offer, Row
from perseid.partition import ABSENT, KeyDefinition, Range, from_canonical
from perseid.service.change_feed import ItemChange
from perseid.service.items.batch_results import OperationResult
from perseid.service.lifetimes.expiring_items import ExpiringItem
from perseid.service.queries.client_plans import ClientQueryPlan
from perseid.service.resources.registry import RegisteredResource


def error_body(error: CosmosError, activity_id: str) -> bytes:
    """`{"code": …, "message": …}`, the message in the form that clients search for known texts."""
    text = f"{error.context}{_message(error)}\r\nActivityId: {activity_id}, Perseid/{__version__}"
    return orjson.dumps({"code": error.code, "message": text, **error.details})


def _message(error: CosmosError) -> str:
    if isinstance(error, QueryError):
        findings = [
            {
                "severity": "Error",
                "location": {"start": problem.start, "end": problem.end},
                "code": problem.code,
                "message": problem.message,
            }
            for problem in error.problems
        ]
        return "Message: " + orjson.dumps({"errors": findings}).decode()
    if error.listed:
        return "Message: " + orjson.dumps({"Errors": [error.message]}).decode()
    return error.message


def batch_entry(result: OperationResult) -> dict[str, Any]:
    """The result of one operation of a batch; the item is embedded as stored text."""
    entry: dict[str, Any] = {"statusCode": result.status, "requestCharge": result.charge}
    error, etag, body = result.error, result.etag, result.body
    if error is not None:
        entry["subStatusCode"] = error.sub_status
        entry["message"] = _message(error)
    if etag is not None:
        entry["eTag"] = etag
    if body is not None:
        entry["resourceBody"] = orjson.Fragment(body)
    return entry


def expiring_item(item: ExpiringItem, policy: ttl.Policy) -> dict[str, Any]:
    """An item with its expiry; the item is embedded as stored text."""
    return {
        "expiresAt": item.expires_at,
        "ttlSource": ttl.ttl_source(item.ttl, policy),
        "item": orjson.Fragment(item.body),
    }


def query_plan(plan: ClientQueryPlan) -> bytes:
    """The plan for the client, which the service calls partitioned query execution info."""
    info = plan.distribution
    count = info.count_alias
    return orjson.dumps(
        {
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {
                "distinctType": info.distinct,
                "top": info.top,
                "offset": info.offset,
                "limit": info.limit,
                "orderBy": info.order_by,
                "orderByExpressions": info.order_by_expressions,
                "groupByExpressions": info.group_by_expressions,
                "groupByAliases": list(info.alias_aggregates),
                "aggregates": info.aggregates,
                "groupByAliasToAggregateType": info.alias_aggregates,
                "rewrittenQuery": info.rewritten,
                "hasSelectValue": info.has_select_value,
                "dCountInfo": None if count is None else {"dCountAlias": count},
                "hasNonStreamingOrderBy": False,  # true for vector searches only
            },
            "hybridSearchQueryInfo": None,
            "queryRanges": [
                {
                    "min": interval.min,
                    "max": interval.max,
                    "isMinInclusive": True,
                    "isMaxInclusive": interval.includes_max,
                }
                for interval in plan.intervals
            ],
        }
    )


def encode(value: Any) -> bytes:
    return orjson.dumps(value)


def feed(rid: str, plural: str, bodies: Sequence[bytes]) -> bytes:
    """A list of members that are JSON already, in the envelope of all lists."""
    start, end = _feed_start(rid, plural), b'],"_count":%d}' % len(bodies)
    if not bodies:
        return start + end
    # Joins once, so that only the first and the last member are copied twice.
    members = [*bodies]
    members[0] = start + members[0]
    members[-1] += end
    return b",".join(members)


@lru_cache(maxsize=1024)
def _feed_start(rid: str, plural: str) -> bytes:
    return f'{{"_rid":"{rid}","{plural}":['.encode()


def account(settings: Settings, endpoint: str) -> dict[str, Any]:
    """The account as emulators return it; clients send all later requests to its endpoint."""
    location = {"name": "South Central US", "databaseAccountEndpoint": endpoint}
    return {
        "_self": "",
        # Not "localhost": that name makes the JavaScript client read the account before each call.
        "id": "perseid",
        "_rid": "127.0.0.1",
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": [location],
        "readableLocations": [location],
        "enableMultipleWriteLocations": False,
        "userReplicationPolicy": {
            "asyncReplication": False,
            "minReplicaSetSize": 1,
            "maxReplicasetSize": 4,
        },
        "userConsistencyPolicy": {"defaultConsistencyLevel": settings.consistency},
        "systemReplicationPolicy": {"minReplicaSetSize": 1, "maxReplicasetSize": 4},
        "readPolicy": {"primaryReadCoefficient": 1, "secondaryReadCoefficient": 1},
        "queryEngineConfiguration": _QUERY_ENGINE,
        # The service's name for the setting that makes all containers keep all versions.
        **({"continuousBackupEnabled": True} if settings.change_feed_retention else {}),
    }


# JSON in a string: one client passes it to its native planner as it is.
_QUERY_ENGINE = orjson.dumps(
    {
        "maxSqlQueryInputLength": 262144,
        "maxJoinsPerSqlQuery": 5,
        "maxLogicalAndPerSqlQuery": 500,
        "maxLogicalOrPerSqlQuery": 500,
        "maxUdfRefPerSqlQuery": 10,
        "maxInExpressionItemsCount": 16000,
        "queryMaxInMemorySortDocumentCount": 500,
        "maxQueryRequestTimeoutFraction": 0.9,
        "sqlAllowNonFiniteNumbers": False,
        "sqlAllowAggregateFunctions": True,
        "sqlAllowSubQuery": True,
        "sqlAllowScalarSubQuery": True,
        "allowNewKeywords": True,
        "sqlAllowLike": True,
        "sqlAllowGroupByClause": True,
        "maxSpatialQueryCells": 12,
        "spatialMaxGeometryPointCount": 256,
        "sqlDisableOptimizationFlags": 0,
        "sqlAllowTop": True,
        "enableSpatialIndexing": True,
    }
).decode()


def database(item: Database) -> dict[str, Any]:
    return {
        "id": item.id,
        "_rid": item.rid,
        "_self": f"dbs/{item.rid}/",
        "_etag": item.etag,
        "_colls": "colls/",
        "_users": "users/",
        "_ts": item.ts,
    }


def container(item: Container, statistics: Iterable[Any] | None = None) -> dict[str, Any]:
    body = {
        **item.properties,
        "_rid": item.rid,
        "_ts": item.ts,
        "_self": f"dbs/{item.database.rid}/colls/{item.rid}/",
        "_etag": item.etag,
        "_docs": "docs/",
        "_sprocs": "sprocs/",
        "_triggers": "triggers/",
        "_udfs": "udfs/",
        "_conflicts": "conflicts/",
    }
    if statistics is not None:
        body["statistics"] = list(statistics)
    return body


def registered(item: RegisteredResource, link: str) -> dict[str, Any]:
    """A user, permission or script with the properties it was given; `link` is its `_self`."""
    return {
        **item.state["properties"],
        "_rid": item.rid,
        "_self": link,
        "_etag": item.etag,
        "_ts": item.ts,
    }


def offer(item: Offer) -> dict[str, Any]:
    return {
        "offerVersion": "V2",
        "offerType": "Invalid",
        "content": item.content,
        "resource": item.resource,
        "offerResourceId": item.resource_rid,
        "id": item.rid,
        "_rid": item.rid,
        "_self": f"offers/{item.rid}/",
        "_etag": item.etag,
        "_ts": item.ts,
    }


def changed_item(row: Row) -> bytes:
    """An item in the change feed."""
    return documents.with_lsn(row.body, row.lsn)


def changed_item_with_metadata(row: Row) -> bytes:
    """An item in the change feed of latest versions, in the format of all versions."""
    metadata = {"lsn": row.lsn, "crts": row.ts}
    return b'{"current":%b,"metadata":%b}' % (changed_item(row), orjson.dumps(metadata))


def change(item: ItemChange, key: KeyDefinition) -> bytes:
    """A change in the feed of all versions: the item after the change, and metadata.

    The metadata of a delete names the item. The previous version is included if a client deleted
    the item, not if it expired.
    """
    metadata: dict[str, Any] = {
        "operationType": "delete" if item.kind == "expire" else item.kind,
        "lsn": item.lsn,
        "crts": item.ts,
    }
    if item.previous_lsn is not None:
        metadata["previousImageLSN"] = item.previous_lsn
    if item.kind in ("create", "replace"):
        return b'{"current":%b,"metadata":%b}' % (
            documents.with_lsn(item.body or b"", item.lsn),
            orjson.dumps(metadata),
        )
    values = zip(key.tokens, from_canonical(item.pk), strict=False)
    metadata["timeToLiveExpired"] = item.kind == "expire"
    metadata["id"] = item.id
    metadata["partitionKey"] = {
        "/".join(names): value for names, value in values if value is not ABSENT
    }
    previous = b"" if item.body is None else b',"previous":%b' % item.body
    return b'{"current":{},"metadata":%b%b}' % (orjson.dumps(metadata), previous)


def partition_key_range(item: Range, owner: Container, lsn: int) -> dict[str, Any]:
    # Numbering starts at 2: the service uses 1 for the original range, before any split.
    rid = ids.child_rid(owner.rid, "pkrange", item.index + 2)
    return {
        "_rid": rid,
        "id": item.id,
        "_etag": owner.etag,
        "minInclusive": item.min,
        "maxExclusive": item.max,
        "ridPrefix": item.index,
        "_self": f"dbs/{owner.database.rid}/colls/{owner.rid}/pkranges/{rid}/",
        "throughputFraction": 1 / len(owner.ranges),
        "status": "online",
        "parents": [*item.parents],
        "ownedArchivalPKRangeIds": [],
        "_ts": owner.ts,
        "_lsn": lsn,
    }
