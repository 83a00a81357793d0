"""Encodes index metrics for the response header, in the two formats that clients ask for."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

import orjson

from perseid import partition
from perseid.http.headers import PARTITION_KEY, flag
from perseid.http.request import Request
from perseid.model import Container
from perseid.query.index_usage import CompositeIndex, IndexPath, SinglePathFilter
from perseid.service.queries.index_metrics import IndexMetrics, index_metrics
from perseid.service.queries.requests import QueryRequest

_METRICS_HEADER: Final = "x-ms-cosmos-populateindexmetrics"
_METRICS_V2_HEADER: Final = "x-ms-cosmos-populateindexmetrics-v2"
# Clients reject responses whose headers exceed 16 KB.
_LONGEST_METRICS: Final = 6 * 1024
_LONGEST_FILTER: Final = 256
_PLAIN_IN_HEADERS: Final = " !\"#$&()*+,/:;<=>?@[]^`{|}'\\"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_]+")


def encoded(metrics: IndexMetrics) -> str:
    """The first format: JSON in base64."""

    def singles(entries: Iterable[SinglePathFilter]) -> list[dict[str, Any]]:
        return [
            {
                "FilterExpression": entry.filter[:_LONGEST_FILTER],
                "IndexSpec": _single_spec(entry),
                "FilterPreciseSet": entry.service != "SCAN",
                "IndexPreciseSet": entry.service != "SCAN",
                "IndexImpactScore": _impact(entry),
            }
            for entry in entries
        ]

    def composites(entries: Iterable[CompositeIndex]) -> list[dict[str, Any]]:
        return [
            {
                "IndexSpecs": _composite_specs(entry),
                "IndexPreciseSet": False,
                "IndexImpactScore": "High",
            }
            for entry in entries
        ]

    report = {
        "UtilizedSingleIndexes": singles(metrics.utilized),
        "PotentialSingleIndexes": singles(metrics.potential),
        "UtilizedCompositeIndexes": composites(metrics.utilized_composites),
        "PotentialCompositeIndexes": composites(metrics.potential_composites),
    }
    _shorten(list(report.values()))
    return base64.b64encode(orjson.dumps(report)).decode()


def encoded_v2(metrics: IndexMetrics) -> str:
    """The second format: JSON, percent-encoded where a header needs it."""
    utilized: dict[str, list[Any]] = {
        "SingleIndexes": [{"IndexSpec": spec} for spec in _specs(metrics.utilized)],
        "CompositeIndexes": [
            {"IndexSpecs": _composite_specs(entry)} for entry in metrics.utilized_composites
        ],
    }
    potential: dict[str, list[Any]] = {
        "SingleIndexes": [
            {"IndexSpec": spec, "IndexImpactScore": impact}
            for spec, impact in _specs(metrics.potential).items()
        ],
        "CompositeIndexes": [
            {"IndexSpecs": _composite_specs(entry), "IndexImpactScore": "High"}
            for entry in metrics.potential_composites
        ],
    }
    _shorten([*utilized.values(), *potential.values()])
    report = {"UtilizedIndexes": utilized, "PotentialIndexes": potential}
    return quote(orjson.dumps(report), safe=_PLAIN_IN_HEADERS)


def _shorten(lists: list[list[Any]]) -> None:
    """Halves the longest list until all of them fit into a header."""
    while len(quote(orjson.dumps(lists), safe=_PLAIN_IN_HEADERS)) > _LONGEST_METRICS:
        longest = max(lists, key=lambda entry: len(orjson.dumps(entry)))
        del longest[len(longest) // 2 :]


def _specs(entries: Iterable[SinglePathFilter]) -> dict[str, str]:
    """Each path once, and its impact."""
    impacts: dict[str, str] = {}
    for entry in entries:
        impacts.setdefault(_single_spec(entry), _impact(entry))
    return impacts


def _impact(single: SinglePathFilter) -> str:
    return "Low" if single.service == "SCAN" else "High"


def _single_spec(single: SinglePathFilter) -> str:
    return f"{_path_spec(single.path)}/?"


def _composite_specs(index: CompositeIndex) -> list[str]:
    return [f"{_path_spec(path)} {'DESC' if descending else 'ASC'}" for path, descending in index]


def _path_spec(path: IndexPath) -> str:
    return "".join(f"/{_step_spec(name)}" for name in path)


def _step_spec(name: str | None) -> str:
    if name is None:
        return "[]"
    return name if _PLAIN_NAME.fullmatch(name) else orjson.dumps(name).decode()


def headers(request: Request, container: Container, query: QueryRequest) -> list[tuple[str, str]]:
    """The header with the metrics of a query, if its request asks for them."""
    if request.header(_METRICS_HEADER) is None and request.header(_METRICS_V2_HEADER) is None:
        return []
    for name, encode in ((_METRICS_HEADER, encoded), (_METRICS_V2_HEADER, encoded_v2)):
        if flag(request, name):
            metrics = index_metrics(container, query, _key_levels(request, container))
            return [("x-ms-cosmos-index-utilization", encode(metrics))]
    return []


def _key_levels(request: Request, container: Container) -> int:
    """How many levels of the partition key the request names."""
    header = request.header(PARTITION_KEY)
    return 0 if header is None else len(partition.parse_header(header, container.key.levels))
