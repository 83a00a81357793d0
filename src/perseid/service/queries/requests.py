"""A query as a client sent it: text and parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson

from perseid.documents import has_many_values, parse_named, without_strings
from perseid.errors import BadRequest, RequestEntityTooLarge
from perseid.model import Container
from perseid.query import CompiledQuery, compile_query
from perseid.query.distribution import without_resume_filter
from perseid.service.queries import resume_filters
from perseid.service.queries.resume_filters import ResumeFilter

LONG_TEXT: Final = 1024  # of a query; compiling it takes longer than other requests can wait
# Names, values and escapes of a request, which are decoded in some tens of milliseconds at most.
_MOST_VALUES: Final = 200_000
_TOO_MANY_VALUES: Final = (
    f"A query may have at most about {_MOST_VALUES:,} values in its parameters. Send a part of them"
    " at a time."
)
_LEVELS: Final = 3  # around the value of a parameter: {"parameters": [{"value": …}]}


class QueryRequest(NamedTuple):
    """A query and its parameters."""

    text: str
    parameters: Mapping[str, Any]
    length: int  # of the request body, in bytes
    resume: ResumeFilter | None = None

    @property
    def digest(self) -> str:
        """Identifies the query in continuation tokens: a token continues no other query.

        The resume filter is left out: a client may send it with the first page only.
        """
        named = orjson.dumps([without_resume_filter(self.text), list(self.parameters.items())])
        return hashlib.blake2b(named, digest_size=8).hexdigest()


def parse_request(body: bytes) -> QueryRequest:
    """`{"query": …, "parameters": […], "resumeFilter": {…}}`, or the text as a JSON string."""
    # Long texts are decoded in a moment, whatever they consist of.
    if len(body) > _MOST_VALUES and has_many_values(without_strings(body), most=_MOST_VALUES):
        raise RequestEntityTooLarge(_TOO_MANY_VALUES)
    value = parse_named(body, around=_LEVELS)
    if isinstance(value, str):
        value = {"query": value}
    if not isinstance(value, dict) or not isinstance(value.get("query"), str):
        raise BadRequest('A query request is {"query": "SELECT …", "parameters": […]}.')
    return QueryRequest(
        value["query"],
        _parameters(value.get("parameters")),
        len(body),
        resume_filters.parse(value.get("resumeFilter")),
    )


def _parameters(given: Any) -> Mapping[str, Any]:
    if given is None:
        given = []
    if not isinstance(given, list):
        raise BadRequest("The parameters of a query are an array.")
    parameters = {}
    for parameter in given:
        if not isinstance(parameter, dict) or not isinstance(parameter.get("name"), str):
            raise BadRequest('A query parameter is {"name": "@name", "value": …}.')
        name = parameter["name"]
        if not name.startswith("@"):
            raise BadRequest(f"The name of a query parameter starts with '@': '{name}' does not.")
        if "value" in parameter:  # without one it is undefined, as JavaScript clients send it
            parameters[name] = parameter["value"]
    return MappingProxyType(parameters)


def compile_for(container: Container, text: str) -> CompiledQuery:
    """The compiled query, which can read the computed properties of the container."""
    computed = container.properties.get("computedProperties")
    if not computed:
        return compile_query(text)
    return compile_query(text, tuple((entry["name"], entry["query"]) for entry in computed))
