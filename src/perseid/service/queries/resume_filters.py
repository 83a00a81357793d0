"""The resume filter of a sorted query: the row at which a client lets the result begin.

A client that merges the sorted rows of several ranges keeps positions of its own. When it continues
from one of them, it names the values of ORDER BY and perhaps the item, and gets the rows from there
on.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from perseid import ids
from perseid.errors import BadRequest
from perseid.model import Container
from perseid.query.planner.plan import Plan
from perseid.query.values import UNDEFINED

_FORM: Final = 'A resumeFilter is {"value": […], "rid": "…", "exclude": false}'
_HASHED: Final = ("array", "object")


class ResumeFilter(NamedTuple):
    """Values, one for each key of ORDER BY, and the first item among those that have them.

    `exclude`: begins after all rows that have these values.
    """

    values: tuple[Any, ...]
    rid: str | None
    exclude: bool


def parse(given: Any) -> ResumeFilter | None:
    """The resume filter in the body of a query, or None if there is none."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise BadRequest(f"{_FORM}.")
    values, rid, exclude = given.get("value"), given.get("rid"), given.get("exclude")
    if not isinstance(values, list):
        raise BadRequest(f"{_FORM}; its 'value' must be an array with one value for each key.")
    if rid is not None and not isinstance(rid, str):
        raise BadRequest(f"{_FORM}; its 'rid' must be a string.")
    if exclude is not None and not isinstance(exclude, bool):
        raise BadRequest(f"{_FORM}; its 'exclude' must be true or false.")
    return ResumeFilter(tuple(map(_value, values)), rid or None, bool(exclude))


def _value(given: Any) -> Any:
    if isinstance(given, dict) and given.get("type") in _HASHED:
        raise BadRequest(
            f"A sorted query cannot be resumed at an {given['type']}: resumeFilter gives its hash,"
            " which says nothing about its place. Please read the query from its beginning."
        )
    if isinstance(given, dict) or (isinstance(given, list) and given):
        raise BadRequest(
            "A value of a resumeFilter is null, a boolean, a number, a string, or [] for undefined."
        )
    return UNDEFINED if isinstance(given, list) else given


def check(resume: ResumeFilter, plan: Plan, container: Container) -> None:
    """400 unless the plan returns sorted rows of items, with as many keys as there are values."""
    keys = len(plan.compiled.bound.order_by)
    if plan.paging != "sort":
        raise BadRequest(
            "A resumeFilter needs a query with ORDER BY, without DISTINCT, GROUP BY and aggregates."
        )
    if len(resume.values) != keys:
        raise BadRequest(
            f"The resumeFilter needs {keys} {'value' if keys == 1 else 'values'}, one for each key"
            f" of ORDER BY, and has {len(resume.values)}."
        )
    if resume.rid is not None and item_number(resume, container) is None:
        raise BadRequest(
            f"The rid '{resume.rid[:64]}' of the resumeFilter is not the _rid of an item of this"
            " container."
        )


def item_number(resume: ResumeFilter, container: Container) -> int | None:
    """The number of the item that the filter names; None if it names none."""
    return None if resume.rid is None else ids.document_number(resume.rid, container.rid)
