"""Operations of batches as clients send them, and a look at what they left behind."""

from __future__ import annotations

from typing import Any

from tests.support.raw import RawClient, Reply


def item(id_: str, **rest: Any) -> dict[str, Any]:
    return {"id": id_, "pk": "a", **rest}


def create(id_: str, **rest: Any) -> dict[str, Any]:
    return {"operationType": "Create", "resourceBody": item(id_, **rest)}


def upsert(id_: str, **rest: Any) -> dict[str, Any]:
    return {"operationType": "Upsert", "resourceBody": item(id_, **rest)}


def replace(id_: str, new_id: str | None = None, **rest: Any) -> dict[str, Any]:
    body = item(new_id or id_, **rest)
    return {"operationType": "Replace", "id": id_, "resourceBody": body}


def patch(id_: str, *operations: Any, condition: str | None = None) -> dict[str, Any]:
    body = {"operations": list(operations), "condition": condition}
    return {"operationType": "Patch", "id": id_, "resourceBody": body}


def increase(id_: str) -> dict[str, Any]:
    return patch(id_, {"op": "incr", "path": "/n", "value": 1})


def read(id_: str) -> dict[str, Any]:
    return {"operationType": "Read", "id": id_}


def delete(id_: str) -> dict[str, Any]:
    return {"operationType": "Delete", "id": id_}


def codes(reply: Reply) -> list[int]:
    return [entry["statusCode"] for entry in reply.json]


def stored_items(raw: RawClient, container: str) -> dict[str, Any]:
    """All items of the container by id, as they are listed."""
    reply = raw.get(f"{container}/docs", count="-1")
    return {document["id"]: document for document in reply.json["Documents"]}


def lsn(raw: RawClient, container: str) -> int:
    return int(raw.get(f"{container}/docs").headers["lsn"])


# Operations that fail, their status and sub-status, in a container with items `there` and `other`.
BROKEN: list[tuple[Any, int, int]] = [
    # what is there already, or is not
    (create("there"), 409, 0),
    (replace("missing"), 404, 0),
    (replace("there", "other"), 409, 0),
    (delete("missing"), 404, 0),
    (read("missing"), 404, 0),
    (increase("missing"), 404, 0),
    (patch("there", {"op": "remove", "path": "/no"}), 400, 0),
    # bodies
    ({"operationType": "Create", "resourceBody": {"pk": "a"}}, 400, 0),
    ({"operationType": "Create", "resourceBody": {"id": 7, "pk": "a"}}, 400, 0),
    ({"operationType": "Create", "resourceBody": {"id": "", "pk": "a"}}, 400, 0),
    ({"operationType": "Create", "resourceBody": {"id": "a/b", "pk": "a"}}, 400, 0),
    ({"operationType": "Create", "resourceBody": {"id": "x" * 2000, "pk": "a"}}, 400, 0),
    ({"operationType": "Create", "resourceBody": {"id": "x", "pk": "b"}}, 400, 1001),
    ({"operationType": "Create", "resourceBody": {"id": "x"}}, 400, 1001),
    ({"operationType": "Create", "resourceBody": {"id": "x", "pk": ["a"]}}, 400, 1001),
    ({"operationType": "Create", "resourceBody": []}, 400, 0),
    ({"operationType": "Create", "resourceBody": None}, 400, 0),
    ({"operationType": "Create", "resourceBody": "x"}, 400, 0),
    ({"operationType": "Create"}, 400, 0),
    ({"operationType": "Upsert"}, 400, 0),
    ({"operationType": "Replace", "id": "there"}, 400, 0),
    ({"operationType": "Patch", "id": "there"}, 400, 0),
    ({"operationType": "Patch", "id": "there", "resourceBody": []}, 400, 0),
    ({"operationType": "Patch", "id": "there", "resourceBody": {"op": "set"}}, 400, 0),
    (patch("there", {"op": "set", "path": "/pk", "value": "b"}), 400, 0),
    (patch("there", *[{"op": "set", "path": "/n", "value": 1}] * 11), 400, 0),
    (patch("there", {"op": "set", "path": "/n", "value": 1}, condition="c.n"), 400, 0),
    # the parts around them
    ({"operationType": "Read"}, 400, 0),
    ({"operationType": "Delete", "id": 1}, 400, 0),
    ({"operationType": "Replace", "resourceBody": item("there")}, 400, 0),
    ({"operationType": "Merge", "id": "there"}, 400, 0),
    ({"operationType": "create", "resourceBody": item("x")}, 400, 0),
    ({"operationType": ["Create"], "resourceBody": item("x")}, 400, 0),
    ({"operationType": None}, 400, 0),
    ({}, 400, 0),
    ("Create", 400, 0),
    (None, 400, 0),
    ([], 400, 0),
    (read("there") | {"ifNoneMatch": 1}, 400, 0),
    (replace("there") | {"ifMatch": ["*"]}, 400, 0),
    (read("there") | {"partitionKey": '["b"]'}, 400, 1001),
    (read("there") | {"partitionKey": "b"}, 400, 0),
    (read("there") | {"partitionKey": ["a"]}, 400, 0),
    (read("there") | {"partitionKey": "[]"}, 400, 1001),
]
