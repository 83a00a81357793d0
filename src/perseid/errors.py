"""Every error a client may see: its status, code, sub-status and text.

Raised where the cause is known. Only `http/wire.py` knows what an error looks like on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

E = TypeVar("E", bound=BaseException)

# Texts of the service. Clients compare them, so they stay as they are.
RESOURCE_NOT_FOUND: Final = "Resource Not Found. Learn more: https://aka.ms/cosmosdb-tsg-not-found"
OWNER_NOT_FOUND: Final = "Owner resource does not exist"
ITEM_NOT_FOUND: Final = (
    "Entity with the specified id does not exist in the system."
    " More info: https://aka.ms/cosmosdb-tsg-not-found"
)
ALREADY_EXISTS: Final = (
    "Entity with the specified id already exists in the system. Learn more:"
    " https://aka.ms/CosmosDB/sql/errors/conflict"
)


class CosmosError(Exception):
    """An error that the client should see; any other exception is a 500 and a bug.

    `listed` texts are sent inside the envelope `Message: {"Errors":[…]}`, as the service's
    validators send them; the others are plain sentences.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "InternalServerError"
    sub_status: int = 0
    context: str = ""  # put before the text: which request failed

    def __init__(
        self,
        message: str,
        *,
        sub_status: int | None = None,
        listed: bool = False,
        charge: float | None = None,
        headers: Sequence[tuple[str, str]] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.listed = listed
        self.charge = charge
        self.headers = tuple(headers)
        self.details = details or {}  # further members of the body
        if sub_status is not None:
            self.sub_status = sub_status

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the error by its fields: not all subclasses can be called with its arguments."""
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[CosmosError], arguments: tuple[Any, ...], fields: Any) -> CosmosError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(fields)
    return error


class BadRequest(CosmosError):
    status, code = 400, "BadRequest"


class InvalidTtl(BadRequest):
    """A `ttl` or `defaultTtl` is not a lifetime."""


class PartitionKeyMismatch(BadRequest):
    sub_status = 1001


class StaleContainerRid(BadRequest):
    """The client means another container of this name; it refreshes its cache and retries."""

    sub_status = 1024


@dataclass(frozen=True, slots=True)
class QueryProblem:
    """One error of the query compiler; offsets are characters of the text, `end` exclusive."""

    code: str
    message: str
    start: int
    end: int


class QueryError(BadRequest):
    """The query text is invalid; `problems` say where."""

    def __init__(self, problems: Sequence[QueryProblem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)


class UnmergedQuery(BadRequest):
    """The client has to query each range and to merge the rows; it asks for a plan and does so."""

    sub_status = 1004


class IndivisibleQuery(BadRequest):
    """A client cannot combine the results of several ranges into the result of the query."""


class Unauthorized(CosmosError):
    status, code = 401, "Unauthorized"


class Forbidden(CosmosError):
    status, code = 403, "Forbidden"


class IdChangeForbidden(Forbidden):
    """A resource token for one item or script would turn it into another one."""

    def __init__(self) -> None:
        super().__init__(
            "The permission of the resource token is for one resource, so the id in the body must"
            " be the one that the resource has."
        )


class NotFound(CosmosError):
    status, code = 404, "NotFound"


class ResourceNotFound(NotFound):
    """The database, container, offer, user, permission or script does not exist."""

    def __init__(self) -> None:
        super().__init__(RESOURCE_NOT_FOUND)


class OwnerNotFound(NotFound):
    """The database or container that should hold the requested resource does not exist."""

    sub_status = 1003

    def __init__(self) -> None:
        super().__init__(OWNER_NOT_FOUND)


class SessionNotAvailable(NotFound):
    """The session token is ahead of what this server has written."""

    sub_status = 1002


class MethodNotAllowed(CosmosError):
    status, code = 405, "MethodNotAllowed"


class RequestTimeout(CosmosError):
    status, code = 408, "RequestTimeout"


class Conflict(CosmosError):
    status, code = 409, "Conflict"


class AlreadyExists(Conflict):
    """Another resource has the id. A violated unique key is a plain Conflict."""

    def __init__(self) -> None:
        super().__init__(ALREADY_EXISTS)


class RangeGone(CosmosError):
    status, code = 410, "Gone"
    sub_status = 1002


class PreconditionFailed(CosmosError):
    status, code = 412, "PreconditionFailed"


class RequestEntityTooLarge(CosmosError):
    status, code = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(CosmosError):
    status, code = 415, "UnsupportedMediaType"


class FailedDependency(CosmosError):
    """Only in the results of a batch: another operation failed."""

    status, code = 424, "FailedDependency"


class TooManyRequests(CosmosError):
    status, code = 429, "TooManyRequests"
    sub_status = 3200


class RetryWith(CosmosError):
    """Other requests interfered; nothing was done, and clients retry by themselves."""

    status, code = 449, "RetryWith"


class HeadersTooLarge(CosmosError):
    status, code = 431, "RequestHeaderFieldsTooLarge"


class ServiceUnavailable(CosmosError):
    status, code = 503, "ServiceUnavailable"


class DamagedItem(ServiceUnavailable):
    """The content of a stored item is not what was written."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"The item '{item_id}' is damaged in the database: its content is not what was"
            " written. Replace or delete it; a backup may have the content."
        )
        self.item_id = item_id


class InsufficientStorage(CosmosError):
    status, code = 507, "InsufficientStorage"


# A store cannot write, for example on a full disk. Callers that can continue without catch these.
NOT_WRITTEN_ERRORS: Final = (InsufficientStorage, ServiceUnavailable)


class StartError(Exception):
    """The server cannot start; the text says why and what to do.

    Raised for a bad port, flag, certificate or start file. `StoreError`, for data that cannot be
    opened, derives from it, so the command line prints both in one line.
    """


class StaleCatalog(Exception):
    """Another server process has changed the metadata or moved the clock; nothing was done.

    Callers reload the catalog and retry the request.
    """


def without_frames(error: E) -> E:
    """An error that is kept as a value, without the frames that it passed through.

    They keep the request and the item in memory; if one of them also keeps the error, until the
    next full garbage collection. The frames of a bug stay, for the log.
    """
    each: BaseException | None = error
    if isinstance(error, CosmosError | StaleCatalog):
        while each is not None:
            each.__traceback__ = None
            each = each.__cause__ or each.__context__
    return error
