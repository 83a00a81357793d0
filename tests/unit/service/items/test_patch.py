"""Patches as pure functions over texts: what each operation does, refuses and leaves alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from perseid.errors import BadRequest, PreconditionFailed, QueryError
from perseid.partition import KeyDefinition, parse_definition
from perseid.service.items import patches
from tests.support.builders import PARTITION_KEY

KEY = parse_definition(PARTITION_KEY)
SYSTEM = b'"_rid":"r","_self":"s","_etag":"e","_attachments":"attachments/","_ts":5'


def patched(text: str, *operations: dict[str, Any]) -> str:
    """The text of an item after a patch."""
    body = text.encode()[:-1] + (b"," if text != "{}" else b"") + SYSTEM + b"}"
    return patches.parse(json.dumps(operations).encode(), KEY).apply(body).decode()


def refusal(text: str, *operations: Any, key: KeyDefinition = KEY) -> str:
    with pytest.raises(BadRequest) as caught:
        patches.parse(json.dumps(operations).encode(), key).apply(text.encode())
    return caught.value.message


def op(name: str, path: str, value: Any = ..., **rest: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **({} if value is ... else {"value": value}), **rest}


# What operations do ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ("{}", op("add", "/a", 1), '{"a":1}'),
        ('{"a":1,"b":2}', op("add", "/a", 3), '{"a":3,"b":2}'),
        ('{"a":{"b":1}}', op("add", "/a/c", [1]), '{"a":{"b":1,"c":[1]}}'),
        ('{"a":[1,2]}', op("add", "/a/0", 9), '{"a":[9,1,2]}'),
        ('{"a":[1,2]}', op("add", "/a/1", 9), '{"a":[1,9,2]}'),
        ('{"a":[1,2]}', op("add", "/a/2", 9), '{"a":[1,2,9]}'),
        ('{"a":[1,2]}', op("add", "/a/-", 9), '{"a":[1,2,9]}'),
        ('{"a":[{"b":1}]}', op("add", "/a/0/c", None), '{"a":[{"b":1,"c":null}]}'),
        ("{}", op("set", "/a", {"b": 1}), '{"a":{"b":1}}'),
        ('{"a":1}', op("set", "/a", "x"), '{"a":"x"}'),
        ('{"a":[1,2]}', op("set", "/a/0", 9), '{"a":[9,2]}'),
        ('{"a":[1,2]}', op("set", "/a/2", 9), '{"a":[1,2,9]}'),
        ('{"a":[1,2]}', op("set", "/a/-", 9), '{"a":[1,2,9]}'),
        ('{"a":1}', op("replace", "/a", False), '{"a":false}'),
        ('{"a":null}', op("replace", "/a", 1), '{"a":1}'),
        ('{"a":[1,2]}', op("replace", "/a/1", 9), '{"a":[1,9]}'),
        ('{"a":1,"b":2}', op("remove", "/a"), '{"b":2}'),
        ('{"a":[1,2,3]}', op("remove", "/a/1"), '{"a":[1,3]}'),
        ('{"a":1}', op("remove", "/a", "ignored"), "{}"),
        ('{"a":1}', op("incr", "/a", 2), '{"a":3}'),
        ('{"a":1}', op("incr", "/a", -2.5), '{"a":-1.5}'),
        ('{"a":1.5}', op("incr", "/a", 1), '{"a":2.5}'),
        ("{}", op("incr", "/a", 5), '{"a":5}'),
        ('{"a":[1]}', op("incr", "/a/0", 5), '{"a":[6]}'),
        ('{"a":9007199254740993}', op("incr", "/a", 2), '{"a":9007199254740995}'),
        ('{"a":-9223372036854775808}', op("incr", "/a", 1), '{"a":-9223372036854775807}'),
        ('{"a":9223372036854775807}', op("incr", "/a", 1), '{"a":9.223372036854776e18}'),
        ('{"a":1,"b":2}', op("move", "/c", **{"from": "/a"}), '{"b":2,"c":1}'),
        ('{"a":1,"b":2}', op("move", "/b", **{"from": "/a"}), '{"b":1}'),
        ('{"a":{"b":[1]},"c":2}', op("move", "/c", **{"from": "/a/b"}), '{"a":{},"c":[1]}'),
        ('{"a":[1,2,3]}', op("move", "/a/2", **{"from": "/a/0"}), '{"a":[2,3,1]}'),
        ('{"a":[1,2,3]}', op("move", "/a/-", **{"from": "/a/0"}), '{"a":[2,3,1]}'),
        ('{"a":[1],"b":2}', op("move", "/a/0", **{"from": "/b"}), '{"a":[2,1]}'),
        ('{"a":1,"b":2}', op("move", "/a", **{"from": "/a"}), '{"a":1,"b":2}'),
        ('{"a":{"b":1}}', op("move", "/a", **{"from": "/a/b"}), '{"a":1}'),
    ],
)
def test_operations(before: str, operation: dict[str, Any], after: str) -> None:
    found = patched(before, operation)
    assert json.loads(found) == json.loads(after)
    assert list(json.loads(found)) == list(json.loads(after))  # the order of names too


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a~1b", "a/b"), ("/a~0b", "a~b"), ("/~01", "~1"), ("/~0~1", "~/"), ("/é", "é"),
        ("/", ""), ("/a b", "a b"), ("/0", "0"), ("/-", "-"), ("/_lsn", "_lsn"), ("/ID", "ID"),
    ],
)  # fmt: skip
def test_a_path_is_a_json_pointer(path: str, name: str) -> None:
    assert json.loads(patched('{"x":1}', op("set", path, 2))) == {"x": 1, name: 2}


def test_operations_see_what_those_before_them_did() -> None:
    text = patched(
        "{}",
        op("add", "/a", {"b": []}),
        op("add", "/a/b/-", 1),
        op("add", "/a/b/0", 0),
        op("incr", "/a/b/1", 5),
        op("move", "/c", **{"from": "/a/b"}),
        op("remove", "/a"),
    )
    assert text == '{"c":[0,6]}'


def test_a_patch_can_be_applied_again() -> None:
    patch = patches.parse(
        json.dumps([op("add", "/a", {"b": [1]}), op("add", "/a/b/-", 2)]).encode(), KEY
    )
    assert [patch.apply(b"{}") for _ in range(3)] == [b'{"a":{"b":[1,2]}}'] * 3


@pytest.mark.parametrize(
    "number",
    [
        "1.0", "1.10", "1e2", "1E+2", "-0", "-0.0", "9007199254740993", "18446744073709551615",
        "123456789012345678901234567890", "0.1000000000000000055511151231257827",
    ],
)  # fmt: skip
def test_numbers_keep_their_texts(number: str) -> None:
    text = f'{{"z":{number},"a":{{"deep":[{number}]}}}}'
    moved = f'[{{"op":"set","path":"/b","value":[{number}]}},'
    moved += '{"op":"move","from":"/z","path":"/y"}]'
    found = patches.parse(moved.encode(), KEY).apply(text.encode())
    assert found.decode() == f'{{"a":{{"deep":[{number}]}},"b":[{number}],"y":{number}}}'


def test_system_properties_are_left_out() -> None:
    assert patched('{"a":{"_ts":1}}', op("set", "/b", 1)) == '{"a":{"_ts":1},"b":1}'


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "operation", "why"),
    [
        ("{}", op("add", "/a/b", 1), "nothing at '/a'"),
        ('{"a":1}', op("add", "/a/b", 1), "neither an object nor an array"),
        ('{"a":null}', op("set", "/a/b", 1), "neither an object nor an array"),
        ('{"a":[]}', op("add", "/a/1", 1), "outside of the array"),
        ('{"a":[]}', op("set", "/a/1", 1), "outside of the array"),
        ('{"a":[1]}', op("add", "/a/x", 1), "not an array index"),
        ('{"a":[1]}', op("add", "/a/01", 1), "not an array index"),
        ('{"a":[1]}', op("add", "/a/+1", 1), "not an array index"),
        ('{"a":[1]}', op("add", "/a/-1", 1), "not an array index"),
        ('{"a":[1]}', op("add", "/a/", 1), "not an array index"),
        ('{"a":[1]}', op("add", "/a/99999999999999999999", 1), "not an array index"),
        ('{"a":[[1]]}', op("add", "/a/-/0", 1), "nothing at '/a/-'"),
        ("{}", op("replace", "/a", 1), "'replace' needs an existing value"),
        ('{"a":[1]}', op("replace", "/a/1", 1), "'replace' needs an existing value"),
        ('{"a":[1]}', op("replace", "/a/-", 1), "'replace' needs an existing value"),
        ("{}", op("remove", "/a"), "'remove' needs an existing value"),
        ('{"a":[1]}', op("remove", "/a/1"), "'remove' needs an existing value"),
        ('{"a":[1]}', op("remove", "/a/-"), "'remove' needs an existing value"),
        ('{"a":"1"}', op("incr", "/a", 1), "needs a number"),
        ('{"a":null}', op("incr", "/a", 1), "needs a number"),
        ('{"a":true}', op("incr", "/a", 1), "needs a number"),
        ('{"a":1.7e308}', op("incr", "/a", 1.7e308), "too large"),
        ("{}", op("move", "/b", **{"from": "/a"}), "'move' needs an existing value"),
        ("{}", op("move", "/a", **{"from": "/a"}), "'move' needs an existing value"),
        ('{"a":1}', op("move", "/b/c", **{"from": "/a"}), "nothing at '/b'"),
    ],
)
def test_refusals_that_depend_on_the_item(before: str, operation: dict[str, Any], why: str) -> None:
    message = refusal(before, operation)
    assert message.startswith("For Operation(1): ")
    assert why in message


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("add", "is an object"),
        (None, "is an object"),
        ({}, "'op' must be one of add, set, replace, remove, incr, move"),
        ({"op": "copy", "path": "/a", "from": "/b"}, "'op' must be one of"),
        ({"op": "test", "path": "/a", "value": 1}, "'op' must be one of"),
        ({"op": "ADD", "path": "/a", "value": 1}, "'op' must be one of"),
        ({"op": ["add"], "path": "/a", "value": 1}, "'op' must be one of"),
        ({"op": "add", "value": 1}, "'path' must be a JSON pointer"),
        (op("add", "", 1), "'path' must be a JSON pointer"),
        (op("add", "a", 1), "'path' must be a JSON pointer"),
        ({"op": "add", "path": 1, "value": 1}, "'path' must be a JSON pointer"),
        (op("add", "/a~", 1), "'~0'"),
        (op("add", "/a~2", 1), "'~0'"),
        (op("add", "/a"), "'add' needs a 'value'"),
        (op("set", "/a"), "'set' needs a 'value'"),
        (op("replace", "/a"), "'replace' needs a 'value'"),
        (op("incr", "/a"), "'incr' needs a 'value'"),
        (op("incr", "/a", "1"), "must be a number"),
        (op("incr", "/a", True), "must be a number"),
        (op("incr", "/a", None), "must be a number"),
        (op("move", "/a"), "'from' must be a JSON pointer"),
        (op("move", "/a/b", **{"from": "/a"}), "'path' lies below 'from'"),
        (op("move", "/a", **{"from": "/id"}), "'/id' cannot be patched"),
        (op("move", "/a", **{"from": "/pk"}), "'/pk' cannot be patched"),
    ],
)
def test_refusals_that_do_not(operation: Any, why: str) -> None:
    message = refusal('{"a":1,"b":2}', op("set", "/c", 1), operation)
    assert message.startswith("For Operation(2): ")
    assert why in message


@pytest.mark.parametrize("name", ["add", "set", "replace", "remove", "incr"])
@pytest.mark.parametrize(
    "path", ["/id", "/_rid", "/_self", "/_etag", "/_ts", "/_attachments", "/id/a", "/pk", "/pk/a"]
)
def test_identity_cannot_be_patched(name: str, path: str) -> None:
    assert f"'{path}' cannot be patched" in refusal("{}", op(name, path, 1))


@pytest.mark.parametrize("path", ["/a", "/a/b", "/a/b/c", "/c", "/x~1y"])
def test_no_part_of_a_nested_or_hierarchical_key_can_be_patched(path: str) -> None:
    key = parse_definition({"paths": ["/a/b", "/c", '/"x/y"'], "kind": "MultiHash", "version": 2})
    assert "partition key" in refusal('{"a":{"b":1}}', op("set", path, 1), key=key)
    fine = json.dumps([op("set", "/a/d", 1)]).encode()
    assert patches.parse(fine, key).apply(b'{"a":{"b":1}}') == b'{"a":{"b":1,"d":1}}'


@pytest.mark.parametrize("count", [0, 11, 50])
def test_there_are_one_to_ten_operations(count: int) -> None:
    assert "operations" in refusal("{}", *[op("set", "/a", 1)] * count)
    assert patched("{}", *[op("set", "/a", 1)] * 10) == '{"a":1}'


@pytest.mark.parametrize(
    "body", ["1", "null", '"x"', "{}", '{"operations":{}}', '{"operations":null}', '{"ops":[]}']
)
def test_a_body_of_another_shape(body: str) -> None:
    with pytest.raises(BadRequest, match="operations"):
        patches.parse(body.encode(), KEY)


# Conditions --------------------------------------------------------------------------------------


def with_condition(condition: Any) -> patches.Patch:
    body = {"operations": [op("set", "/a", 1)], "condition": condition}
    return patches.parse(json.dumps(body).encode(), KEY)


@pytest.mark.parametrize(
    ("condition", "is_met"),
    [
        ("from c where c.n = 1", True),
        ("FROM c WHERE c.n = 1", True),
        ("from root r where r.n > 0 and r._ts = 5", True),
        ("from c where c.n = 2", False),
        ("from c where c.missing", False),
        ("from c where c.n", False),
        ("from c where NOT IS_DEFINED(c.missing)", True),
        ("from c where ARRAY_CONTAINS(c.tags, 'x')", True),
        ("from c where EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'y')", True),
        ("from t in c.tags where t = 'z'", False),
        ("from t in c.tags where t = 'y'", True),
        (None, True),
    ],
)
def test_conditions(condition: str | None, is_met: bool) -> None:
    patch = with_condition(condition)
    body = b'{"n":1,"tags":["x","y"],' + SYSTEM + b"}"
    if is_met:
        patch.check_condition(body, 0.0)
    else:
        with pytest.raises(PreconditionFailed):
            patch.check_condition(body, 0.0)


@pytest.mark.parametrize(
    "condition",
    [
        "", "c.n = 1", "where c.n = 1", "from c", "select * from c where true", "from c where",
        "from c where c.n = ", "from c where true order by c.n", "from c where true group by c.n",
        "from c join t in c.tags where true", "from c where COUNT(1) > 0", "from c where NO(c)",
        "from c where true offset 0 limit 1", "from c where other.n = 1", "from c where c.n = 'x",
        "x from c where true",
    ],
)  # fmt: skip
def test_conditions_that_are_none(condition: str) -> None:
    with pytest.raises(QueryError):
        with_condition(condition)


@pytest.mark.parametrize("condition", [1, True, [], {}, "from c where c.n = @n"])
def test_conditions_of_another_kind(condition: Any) -> None:
    with pytest.raises(BadRequest, match="condition"):
        with_condition(condition)


def test_a_problem_is_shown_at_its_place_in_the_condition() -> None:
    with pytest.raises(QueryError) as caught:
        with_condition("from c where c.n == 1")
    assert caught.value.problems[0].start >= len("from c where c.n =")


# Against an oracle -------------------------------------------------------------------------------


class Refused(Exception):
    pass


def expected(item: Any, operations: list[dict[str, Any]]) -> Any:
    """The same rules once more, by recursion over copies and with plain numbers."""
    item = copy.deepcopy(item)
    for operation in operations:
        steps = operation["path"][1:].split("/")
        match operation["op"]:
            case "move":
                origin = operation["from"][1:].split("/")
                if steps[: len(origin)] == origin and len(steps) > len(origin):
                    raise Refused
                value = lookup(item, origin)
                if origin != steps:
                    item = changed(item, origin, "remove", None)
                    item = changed(item, steps, "add", value)
            case name:
                item = changed(item, steps, name, copy.deepcopy(operation.get("value")))
    return item


def lookup(value: Any, steps: list[str]) -> Any:
    for step in steps:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step in map(str, range(len(value))):  # 01 is no index
            value = value[int(step)]
        else:
            raise Refused
    return value


def changed(value: Any, steps: list[str], name: str, new: Any) -> Any:
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if rest:
            return value | {first: changed(lookup(value, [first]), rest, name, new)}
        if name in ("replace", "remove"):
            lookup(value, [first])
        if name == "remove":
            return {key: member for key, member in value.items() if key != first}
        return value | {
            first: total(value[first], new) if name == "incr" and first in value else new
        }
    if isinstance(value, list):
        place = len(value) if first == "-" else int(first) if first.isdigit() else -1
        if not 0 <= place <= len(value) or (first != "-" and first != str(place)):
            raise Refused
        head, tail = value[:place], value[place + 1 :]
        if rest:
            return [*head, changed(lookup(value, [first]), rest, name, new), *tail]
        if name == "add":
            return [*head, new, *value[place:]]
        if name in ("replace", "remove"):
            lookup(value, [first])
        if name == "remove":
            return head + tail
        is_sum = name == "incr" and place < len(value)
        return [*head, total(value[place], new) if is_sum else new, *tail]
    raise Refused


def total(old: Any, more: Any) -> Any:
    if isinstance(old, bool) or not isinstance(old, int | float):
        raise Refused
    return old + more


NAMES = st.sampled_from(["a", "b", "c", "0", "1"])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["x", 0.5]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
STEPS = st.sampled_from(["a", "b", "c", "0", "1", "2", "-", "x", "01"])
PATHS = st.lists(STEPS, min_size=1, max_size=3).map(lambda steps: "/" + "/".join(steps))
OPERATIONS = st.one_of(
    st.builds(op, st.sampled_from(["add", "set", "replace"]), PATHS, VALUES),
    st.builds(op, st.just("remove"), PATHS),
    st.builds(op, st.just("incr"), PATHS, st.integers(-3, 3)),
    st.builds(lambda path, origin: op("move", path, **{"from": origin}), PATHS, PATHS),
)


@examples(max_examples=400, deadline=None)
@given(
    item=st.dictionaries(NAMES, VALUES, max_size=4),
    operations=st.lists(OPERATIONS, min_size=1, max_size=4),
)
def test_patches_do_what_plain_python_does(
    item: dict[str, Any], operations: list[dict[str, Any]]
) -> None:
    body = json.dumps(item).encode()
    sent = json.dumps({"operations": operations}).encode()
    try:
        after = expected(item, operations)
    except Refused:
        with pytest.raises(BadRequest):
            patches.parse(sent, KEY).apply(body)
    else:
        found = patches.parse(sent, KEY).apply(body)
        assert json.dumps(json.loads(found)) == json.dumps(after)
