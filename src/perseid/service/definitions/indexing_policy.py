"""The indexing policy of a container: checked, completed, and spelled as the service returns it.

Covers the paths, the composite and the spatial indexes; `vector_policy.py` and
`full_text_policy.py` cover theirs. `charges.py` applies a policy to items.
"""

from __future__ import annotations

from typing import Any, Final

from perseid.service.definitions import full_text_policy, path_grammar, vector_policy
from perseid.service.definitions.json_types import (
    as_list,
    as_object,
    as_objects,
    as_text,
    invalid,
    malformed,
    one_of,
    or_default,
)

MAX_PATHS: Final = 1500
MAX_COMPOSITES: Final = 100
MIN_COMPOSITE_PATHS: Final = 2
MAX_COMPOSITE_PATHS: Final = 8

MODES: Final = ("consistent", "lazy", "none")
ORDERS: Final = ("ascending", "descending")
SPATIAL_TYPES: Final = ("Point", "LineString", "Polygon", "MultiPolygon")
_BOX_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")

# Every write changes it, so the service indexes it only if a path names it.
ETAG_PATH: Final = '/"_etag"/?'
_ETAG: Final = path_grammar.index_path(ETAG_PATH)
_ROOT: Final = path_grammar.index_path(path_grammar.ROOT)


def normalised_policy(value: Any, *, planar: bool) -> dict[str, Any]:
    """The complete policy of what a client sent; nothing and `{}` give the default policy.

    Mode none implies `automatic: false`, mode consistent `automatic: true`. A client may omit the
    flag, but `automatic: true` with mode none is a 400.
    """
    given = as_object(or_default(value, {}), "indexingPolicy")
    mode = _mode(given.get("indexingMode"))
    automatic = given.get("automatic")
    if automatic is not None and not isinstance(automatic, bool):
        raise malformed("indexingPolicy.automatic", "a boolean")
    if mode == "none" and automatic:
        raise invalid("Automatic indexing cannot be on when the indexing mode is none.")
    included, excluded = _included_and_excluded(given, mode)
    extras = {
        "compositeIndexes": _composites(given.get("compositeIndexes")),
        "spatialIndexes": _spatials(given.get("spatialIndexes"), planar),
        "vectorIndexes": vector_policy.normalised_indexes(given.get("vectorIndexes")),
        "fullTextIndexes": full_text_policy.normalised_indexes(given.get("fullTextIndexes")),
    }
    return {
        "indexingMode": mode,
        # The service has given up consistent indexing without it, and ignores that it is off.
        "automatic": mode == "consistent" or (mode == "lazy" and automatic is not False),
        "includedPaths": [{"path": path} for path in included],
        "excludedPaths": [{"path": path} for path in excluded],
    } | {name: entries for name, entries in extras.items() if entries}


def _mode(value: Any) -> str:
    mode = one_of(or_default(value, MODES[0]), MODES)
    if mode is None:
        raise malformed("indexingPolicy.indexingMode", f"one of {', '.join(MODES)}")
    return mode


def _included_and_excluded(given: dict[str, Any], mode: str) -> tuple[list[str], list[str]]:
    """Both path lists as they are returned.

    Two empty lists mean the default, except in mode none, where they stay empty: if a client reads
    the policy, changes the mode and sends it back, they mean the default again.
    """
    included = _path_list(given.get("includedPaths"), "includedPaths")
    excluded = _path_list(given.get("excludedPaths"), "excludedPaths")
    if not included and not excluded:
        return ([], []) if mode == "none" else ([path_grammar.ROOT], [ETAG_PATH])
    both = [text for path, text in included.items() if path in excluded]
    if both:
        raise invalid(
            f"The path '{both[0]}' is in both includedPaths and excludedPaths."
            " Remove it from one of them."
        )
    if _ROOT not in included and _ROOT not in excluded:
        raise invalid(
            "The special mandatory indexing path '/' is not provided in any of the path type sets."
            " Please provide this path in one of the sets."
        )
    if _ETAG not in included:
        excluded.setdefault(_ETAG, ETAG_PATH)
    return list(included.values()), list(excluded.values())


def _path_list(value: Any, name: str) -> dict[path_grammar.PolicyPath, str]:
    """Paths in the order sent, each once; `indexes`, which older clients send, is ignored."""
    entries = as_objects(value, f"indexingPolicy.{name}")
    if len(entries) > MAX_PATHS:
        raise invalid(
            f"The indexing policy has {len(entries)} {name};"
            f" the maximum number of paths is {MAX_PATHS}."
        )
    paths_by_steps: dict[path_grammar.PolicyPath, str] = {}
    for entry in entries:
        text = as_text(entry.get("path"), f"indexingPolicy.{name}.path")
        text = path_grammar.ROOT if text == "/" else text
        paths_by_steps.setdefault(path_grammar.index_path(text), text)
    return paths_by_steps


def _composites(value: Any) -> list[list[dict[str, str]]]:
    lists = as_list(or_default(value, []), "indexingPolicy.compositeIndexes")
    if len(lists) > MAX_COMPOSITES:
        raise invalid(
            f"The indexing policy has {len(lists)} composite indexes;"
            f" the maximum is {MAX_COMPOSITES}."
        )
    return [_composite(entries, i) for i, entries in enumerate(lists)]


def _composite(value: Any, number: int) -> list[dict[str, str]]:
    name = f"indexingPolicy.compositeIndexes[{number}]"
    entries = as_objects(as_list(value, name), name)
    if not MIN_COMPOSITE_PATHS <= len(entries) <= MAX_COMPOSITE_PATHS:
        raise invalid(
            f"The composite index at '{name}' must have at least {MIN_COMPOSITE_PATHS} paths"
            f" and at most {MAX_COMPOSITE_PATHS}; it has {len(entries)}."
        )
    composite: dict[path_grammar.PolicyPath, dict[str, str]] = {}
    for entry in entries:
        text = as_text(entry.get("path"), f"{name}.path")
        path = path_grammar.composite_path(text)
        if path in composite:
            raise _duplicate_path(text, name)
        composite[path] = {"path": text, "order": _order(entry.get("order"))}
    return list(composite.values())


def _order(value: Any) -> str:
    order = one_of(or_default(value, ORDERS[0]), ORDERS)
    if order is None:
        raise invalid(
            f"The composite order '{value}' is invalid."
            " Choose between 'ascending' and 'descending'."
        )
    return order


def _spatials(value: Any, planar: bool) -> list[dict[str, Any]]:
    name = "indexingPolicy.spatialIndexes"
    spatials: dict[path_grammar.PolicyPath, dict[str, Any]] = {}
    for entry in as_objects(value, name):
        text = as_text(entry.get("path"), f"{name}.path")
        path = path_grammar.index_path(text)
        if path in spatials:
            raise _duplicate_path(text, name)
        for kind in as_list(or_default(entry.get("types"), []), f"{name}.types"):
            if one_of(kind, SPATIAL_TYPES) is None:
                raise malformed(f"{name}.types", f"made of {', '.join(SPATIAL_TYPES)}")
        # the service always indexes all four types, and returns them
        spatials[path] = {"path": text, "types": list(SPATIAL_TYPES)}
        box = _bounding_box(entry.get("boundingBox"), text, planar)
        if box is not None:
            spatials[path]["boundingBox"] = box
    return list(spatials.values())


def _bounding_box(value: Any, path: str, planar: bool) -> dict[str, float] | None:
    """The box of a planar index, which needs one; a geographic index must not have one."""
    if planar != (value is not None):
        need = "needs a boundingBox" if planar else "must not have a boundingBox"
        kind = "Geometry" if planar else "Geography"
        raise invalid(f"The spatial index on '{path}' {need} because the container is of {kind}.")
    if value is None:
        return None
    box = {side: as_object(value, "boundingBox").get(side) for side in _BOX_SIDES}
    sides = [n for n in box.values() if isinstance(n, int | float) and not isinstance(n, bool)]
    if len(sides) != len(_BOX_SIDES) or not (sides[0] < sides[2] and sides[1] < sides[3]):
        raise invalid(
            f"The boundingBox of the spatial index on '{path}' is invalid."
            " It needs numbers with xmin below xmax and ymin below ymax."
        )
    return dict(zip(_BOX_SIDES, sides, strict=True))


def _duplicate_path(path: str, name: str) -> Exception:
    return invalid(
        f"The following path '{path}' was specified more than once in '{name}'."
        " Remove the duplicated field."
    )
