"""All header names, and the meaning of request headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final

from perseid import partition
from perseid.config import CONSISTENCY_LEVELS, Settings
from perseid.errors import BadRequest, RangeGone, SessionNotAvailable, StaleContainerRid
from perseid.http.request import Request
from perseid.model import Container
from perseid.service.items.point_operations import INDEXING_DIRECTIVES
from perseid.service.items.scope import Scope
from perseid.service.resources import scripts

# Standard headers
A_IM: Final = "a-im"
AUTHORIZATION: Final = "authorization"
CONNECTION: Final = "connection"
CONTENT_LENGTH: Final = "content-length"
CONTENT_LOCATION: Final = "content-location"
CONTENT_TYPE: Final = "content-type"
DATE: Final = "date"
ETAG: Final = "etag"
EXPECT: Final = "expect"
FETCH_SITE: Final = "sec-fetch-site"
FORWARDED_SCHEME: Final = "x-forwarded-proto"
HOST: Final = "host"
IF_MATCH: Final = "if-match"
IF_MODIFIED_SINCE: Final = "if-modified-since"
IF_NONE_MATCH: Final = "if-none-match"
LOCATION: Final = "location"
ORIGIN: Final = "origin"
PREFER: Final = "prefer"
TRAILER: Final = "trailer"
TRANSFER_ENCODING: Final = "transfer-encoding"

# Headers of the service, in requests
API_VERSION: Final = "x-ms-version"
AUTOSCALE: Final = "x-ms-cosmos-offer-autopilot-settings"
BATCH_ATOMIC: Final = "x-ms-cosmos-batch-atomic"
BATCH_CONTINUE_ON_ERROR: Final = "x-ms-cosmos-batch-continue-on-error"
CONSISTENCY: Final = "x-ms-consistency-level"
CROSS_PARTITION: Final = "x-ms-documentdb-query-enablecrosspartition"
END_EPK: Final = "x-ms-end-epk"
EXPIRY_SECONDS: Final = "x-ms-documentdb-expiry-seconds"
FEED_FORMAT: Final = "x-ms-cosmos-changefeed-wire-format-version"
INDEXING: Final = "x-ms-indexing-directive"
INTENDED_CONTAINER: Final = "x-ms-cosmos-intended-collection-rid"
IS_BATCH: Final = "x-ms-cosmos-is-batch-request"
IS_PLAN: Final = "x-ms-cosmos-is-query-plan-request"
IS_QUERY: Final = "x-ms-documentdb-isquery"
IS_UPSERT: Final = "x-ms-documentdb-is-upsert"
KEY_TYPE: Final = "x-ms-read-key-type"  # of the interval from START_EPK to END_EPK
MAX_ITEM_COUNT: Final = "x-ms-max-item-count"
PARTITION_KEY: Final = "x-ms-documentdb-partitionkey"
POPULATE_QUOTA: Final = "x-ms-documentdb-populatequotainfo"
POPULATE_STATISTICS: Final = "x-ms-documentdb-populatepartitionstatistics"
PRIORITY: Final = "x-ms-cosmos-priority-level"
SIGNED_DATE: Final = "x-ms-date"
START_EPK: Final = "x-ms-start-epk"
THROUGHPUT: Final = "x-ms-offer-throughput"
TO_AUTOSCALE: Final = "x-ms-cosmos-migrate-offer-to-autopilot"
TO_MANUAL: Final = "x-ms-cosmos-migrate-offer-to-manual-throughput"
TRIGGERS: Final = ("x-ms-documentdb-pre-trigger-include", "x-ms-documentdb-post-trigger-include")

# Headers of the service, in responses or in both
ACTIVITY_ID: Final = "x-ms-activity-id"
ALT_CONTENT_PATH: Final = "x-ms-alt-content-path"
CHARGE: Final = "x-ms-request-charge"
CONTENT_PATH: Final = "x-ms-content-path"
CONTINUATION: Final = "x-ms-continuation"
DURATION: Final = "x-ms-request-duration-ms"
INDEXING_PROGRESS: Final = "x-ms-documentdb-collection-index-transformation-progress"
ITEM_COUNT: Final = "x-ms-item-count"
ITEM_LSN: Final = "x-ms-item-lsn"
LAZY_INDEXING_PROGRESS: Final = "x-ms-documentdb-collection-lazy-indexing-progress"
LSN: Final = "lsn"
MIN_THROUGHPUT: Final = "x-ms-cosmos-min-throughput"
OFFER_PENDING: Final = "x-ms-offer-replace-pending"
RANGE_ID: Final = "x-ms-documentdb-partitionkeyrangeid"
RESOURCE_QUOTA: Final = "x-ms-resource-quota"
RESOURCE_USAGE: Final = "x-ms-resource-usage"
RETRY_AFTER_MS: Final = "x-ms-retry-after-ms"
SESSION_TOKEN: Final = "x-ms-session-token"  # noqa: S105
SUB_STATUS: Final = "x-ms-substatus"

# Headers that Perseid adds
CONFIRM: Final = "x-perseid-confirm"
DIRECT: Final = "x-perseid-direct"
EXPIRES_AT: Final = "x-perseid-expires-at"
LIFETIME: Final = "x-perseid-lifetime"
TTL_SOURCE: Final = "x-perseid-ttl-source"
REMAINING: Final = "x-perseid-remaining"

# Headers that change the meaning of a request, so an unreadable value must not be ignored.
SIGNIFICANT_HEADERS: Final = frozenset(
    (
        A_IM, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, PREFER,
        AUTOSCALE, BATCH_ATOMIC, BATCH_CONTINUE_ON_ERROR, CONFIRM, CONSISTENCY, CONTINUATION,
        END_EPK, EXPIRY_SECONDS, FEED_FORMAT, INDEXING, INTENDED_CONTAINER, IS_BATCH, IS_PLAN,
        IS_QUERY, IS_UPSERT, KEY_TYPE, MAX_ITEM_COUNT, PARTITION_KEY, PRIORITY, RANGE_ID,
        SESSION_TOKEN, START_EPK, THROUGHPUT, *TRIGGERS,
    )
)  # fmt: skip
_INTEGER: Final = re.compile(r"-?[0-9]{1,10}")
_TOKEN: Final = re.compile(
    r"(?:([0-9]{1,9}):)?-?[0-9]{1,18}#([0-9]{1,18})(?:#[0-9]{1,18}=-?[0-9]{1,18})*"
)
_OLD_TOKEN: Final = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")  # of versions before 2018-06-18
_SHORT_TOKEN: Final = 256
DEFAULT_PAGE: Final = 100
LARGEST_PAGE: Final = 1000
_CROSS_PARTITION_DISABLED: Final = (
    "Cross partition query is required but disabled. Please set"
    f" {CROSS_PARTITION} to true, specify {PARTITION_KEY},"
    " or revise your query to avoid this exception."
)


@lru_cache(maxsize=256)
def parse_date(text: str) -> float | None:
    """Seconds since the epoch of an RFC 1123 date, GMT unless it has a zone; None if invalid.

    Cached, because many requests carry the same second.
    """
    try:
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def flag(request: Request, name: str) -> bool:
    """A boolean header; Python clients write True, JavaScript ones true."""
    value = request.header(name)
    return value is not None and value.lower() == "true"


def is_relaxed(request: Request, settings: Settings) -> bool:
    """True if what the service refuses is answered: --relaxed, or a request that asks for it.

    The portal and the commands ask for it. It never widens what a token may do.
    """
    return settings.relaxed or flag(request, DIRECT)


def check_cross_partition(request: Request) -> None:
    """400 unless a query names its partition, or allows explicitly to read several."""
    if flag(request, CROSS_PARTITION):
        return
    key = request.header(PARTITION_KEY)
    if (
        (key is None or not key.strip("[] "))
        and request.header(RANGE_ID) is None
        and request.header(KEY_TYPE) is None
    ):
        raise BadRequest(_CROSS_PARTITION_DISABLED)


def wants_minimal(request: Request) -> bool:
    """Prefer: return=minimal; the response to a write has no body."""
    value = request.header(PREFER)
    return value is not None and value.replace(" ", "").lower() == "return=minimal"


def integer(request: Request, name: str, default: int) -> int:
    value = request.header(name)
    return default if value is None else _integer(name, value)


def _integer(name: str, value: str) -> int:
    if _INTEGER.fullmatch(value) is None:
        raise BadRequest(f"The header {name} must be a whole number, not '{value[:64]}'.")
    return int(value)


def is_query(request: Request) -> bool:
    """True if a POST to a feed is a query."""
    content = request.header(CONTENT_TYPE)
    if content is not None and content.startswith("application/query+json"):
        return True
    return flag(request, IS_QUERY)


def page_size(request: Request) -> int:
    """The largest number of items in a page; -1 leaves it to the server."""
    value = request.header(MAX_ITEM_COUNT)
    return DEFAULT_PAGE if value is None else _page_size(value)


@lru_cache(maxsize=256)
def _page_size(value: str) -> int:
    count = _integer(MAX_ITEM_COUNT, value)
    if count == -1:
        return LARGEST_PAGE
    if count < 1:
        raise BadRequest(f"The header {MAX_ITEM_COUNT} must be -1 or at least 1, not {count}.")
    return min(count, 1_000_000)


def is_indexed(request: Request) -> bool:
    """The indexing directive, given as a number or as a word."""
    value = request.header(INDEXING)
    if value is None:
        return True
    try:
        return INDEXING_DIRECTIVES[value.lower()]
    except KeyError:
        raise BadRequest(
            f"The header {INDEXING} must be Default, Include or Exclude, not '{value[:200]}'."
        ) from None


def check_consistency(request: Request, default: str) -> str:
    """The consistency level: the account's, or a weaker one that the request names."""
    value = request.header(CONSISTENCY)
    if value is None:
        return default
    try:
        level = next(known for known in CONSISTENCY_LEVELS if known.lower() == value.lower())
    except StopIteration:
        raise BadRequest(
            f"The header {CONSISTENCY} must be one of {', '.join(CONSISTENCY_LEVELS)},"
            f" not '{value[:200]}'."
        ) from None
    if CONSISTENCY_LEVELS.index(level) < CONSISTENCY_LEVELS.index(default):
        raise BadRequest(
            f"ConsistencyLevel {level} specified in the request is invalid when service is"
            f" configured with consistency level {default}. Ensure the request consistency level"
            " is not stronger than the service consistency level."
        )
    return level


def check_container(request: Request, container: Container) -> None:
    """400/1024 if the client means a deleted container that had the same name."""
    rid = request.header(INTENDED_CONTAINER)
    if rid is not None and rid != container.rid:
        raise StaleContainerRid(
            f"The container '{container.id}' has the resource id {container.rid}, not"
            f" {rid[:200]} as in the request: it was deleted and created again."
        )


def check_priority(request: Request) -> None:
    priority = request.header(PRIORITY)
    if priority is not None and priority.lower() not in ("high", "low"):
        raise BadRequest(f"The header {PRIORITY} must be High or Low, not '{priority[:200]}'.")


def check_triggers(request: Request) -> None:
    """400 if a write names triggers: it must not succeed without running them."""
    for name in TRIGGERS:
        if (value := request.header(name)) is not None:
            scripts.check_triggers(name, value)


def is_low_priority(request: Request) -> bool:
    """True if the request is throttled before those of high priority, which is the default."""
    priority = request.header(PRIORITY)
    return priority is not None and priority.lower() == "low"


def check_session(request: Request, lsns: Mapping[int, int]) -> None:
    """404/1002 if the client has seen a later state of these ranges than this server has.

    A client may send the tokens of all ranges it knows; those of other ranges are ignored.
    """
    token = request.header(SESSION_TOKEN)
    if not token:
        return
    # Cached, because all requests between two writes carry the same token.
    parts = (
        _short_session_positions(token) if len(token) <= _SHORT_TOKEN else _session_positions(token)
    )
    for part, seen in parts:
        lsn = lsns.get(part)
        if lsn is not None and seen > lsn:
            raise SessionNotAvailable(
                "The read session is not available for the input session token."
            )


def _session_positions(token: str) -> tuple[tuple[int, int], ...]:
    """The ranges of a session token, and the latest LSN the client has seen of each."""
    positions = []
    for part in token.split(","):
        match = _TOKEN.fullmatch(part.strip()) or _OLD_TOKEN.fullmatch(part.strip())
        if match is None:
            raise BadRequest(
                f"The session token '{part[:64]}' is not of the form 'range:version#lsn', or"
                " 'range:lsn' as older clients write it."
            )
        positions.append((int(match[1] or 0), int(match[2])))
    return tuple(positions)


_short_session_positions = lru_cache(maxsize=1024)(_session_positions)


def range_index(request: Request, container: Container) -> int | None:
    """The physical range that a request is confined to; 410 if it does not exist."""
    value = request.header(RANGE_ID)
    if value is None:
        return None
    value = value.rpartition(",")[2]  # some clients prefix the container's rid
    for known in container.ranges:
        if known.id == value:
            return known.index
    raise RangeGone(f"The partition key range '{value[:200]}' does not exist.")


def epk_interval(request: Request) -> tuple[bytes | None, bytes | None]:
    """The interval of effective partition keys, as bytes; None where it has no bound."""
    kind = request.header(KEY_TYPE)
    if kind is None or kind.lower() != "effectivepartitionkeyrange":
        return None, None
    start = _epk(request, START_EPK)
    end = _epk(request, END_EPK)
    return start or None, None if end == bytes.fromhex(partition.WHOLE[1]) else end


def _epk(request: Request, name: str) -> bytes | None:
    value = request.header(name)
    if value is None:
        return None
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise BadRequest(f"The header {name} must be hexadecimal, not '{value[:200]}'.") from None


def scope_of(request: Request, container: Container, partition_key: str | None) -> Scope:
    """The items that the headers of a request name; the caller chooses the partition key."""
    return Scope(partition_key, range_index(request, container), *epk_interval(request))
