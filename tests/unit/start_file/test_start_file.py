"""`perseid serve --init`: what a start file makes, that it makes it once, and what it refuses."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perseid.clock import MovableClock
from perseid.config import Settings
from perseid.errors import StartError
from perseid.start_file import StartFileError, declare, read
from tests.support.raw import RawClient
from tests.support.running import running

START = 2_000_000_000
GOOD = """
    databases:
      - id: shop
        throughput: 600
        containers:
          - id: sessions
            partitionKey: /user
            defaultTtl: 1h
            uniqueKeys: [[/token], /mail]
            items:
              - {id: s1, user: ada, token: a, mail: off}
            seeds:
              - age: 50m
                items:
                  - {id: s2, user: ada, token: b, mail: "1"}
                  - {id: s3, user: bob, token: 012, mail: 2020-01-01, ttl: -1}
              - file: more.jsonl
          - id: orders
            partitionKey: [/tenant, /user]
            defaultTtl: none
            throughput: {autoscale: 4000}
            indexingPolicy: {indexingMode: consistent, includedPaths: [{path: /*}]}
      - id: empty
"""


@pytest.fixture
def clock() -> MovableClock:
    clock = MovableClock()
    clock.freeze()
    clock.set(START)
    return clock


@contextmanager
def serving_start_file(
    path: Path, clock: MovableClock, data: Path | None = None
) -> Iterator[RawClient]:
    kept = Settings(memory=True) if data is None else Settings(data=data)
    settings = replace(kept, init=path)
    with running(settings, clock) as found, closing(RawClient(found.endpoint)) as raw:
        yield raw


def write_start_file(tmp_path: Path, text: str, name: str = "start.yaml") -> Path:
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    (tmp_path / "more.jsonl").write_text('{"id":"m1","user":"cy","token":"m"}\n\n')
    return path


def stored_items(raw: RawClient, path: str) -> dict[str, dict[str, Any]]:
    found = raw.get(f"{path}/docs", count="-1").json["Documents"]
    return {each["id"]: each for each in found}


def offers(raw: RawClient) -> set[tuple[int, int | None]]:
    found = [each["content"] for each in raw.get("/offers").json["Offers"]]
    return {
        (each["offerThroughput"], each.get("offerAutopilotSettings", {}).get("maxThroughput"))
        for each in found
    }


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_what_is_declared_is_there(tmp_path: Path, clock: MovableClock, form: str) -> None:
    path = write_start_file(tmp_path, GOOD)
    if form == "json":
        text = json.dumps(read(path).plain(), indent=1)
        path = write_start_file(tmp_path, text, "start.json")
    with serving_start_file(path, clock) as raw:
        assert {each["id"] for each in raw.get("/dbs").json["Databases"]} == {"shop", "empty"}
        sessions = raw.get("/dbs/shop/colls/sessions").json
        assert sessions["defaultTtl"] == 3600
        assert sessions["partitionKey"]["paths"] == ["/user"]
        unique = [each["paths"] for each in sessions["uniqueKeyPolicy"]["uniqueKeys"]]
        assert unique == [["/token"], ["/mail"]]
        orders = raw.get("/dbs/shop/colls/orders").json
        assert orders["partitionKey"] == {
            "paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2,
        }  # fmt: skip
        assert orders["defaultTtl"] == -1
        assert offers(raw) == {(600, None), (400, 4000)}
        found = stored_items(raw, "/dbs/shop/colls/sessions")
        assert {id_: START - each["_ts"] for id_, each in found.items()} == {
            "s1": 0, "s2": 3000, "s3": 3000, "m1": 0,
        }  # fmt: skip
        # Plain words are texts, as they look.
        assert (found["s1"]["mail"], found["s3"]["mail"]) == ("off", "2020-01-01")
        clock.advance(600)
        assert set(stored_items(raw, "/dbs/shop/colls/sessions")) == {"s1", "s3", "m1"}


def test_doing_it_again_changes_nothing(tmp_path: Path, clock: MovableClock) -> None:
    """Deleted and expired items are not stored again; changes in the file are applied."""
    path, data = write_start_file(tmp_path, GOOD), tmp_path / "data"
    container = "/dbs/shop/colls/sessions"
    with serving_start_file(path, clock, data) as raw:
        assert raw.delete(f"{container}/docs/s3", pk='["bob"]').status == 204
        before = raw.get(container).json, stored_items(raw, container)
    with serving_start_file(path, clock, data) as raw:
        assert (raw.get(container).json, stored_items(raw, container)) == before
    clock.advance(3000)
    more = GOOD.replace("1h", "2h").replace("throughput: 600", "throughput: {autoscale: 2000}")
    more = more.replace("{autoscale: 4000}", "5000")
    more = more.replace("- file: more.jsonl", "- {items: [{id: s9, user: x}]}")
    with serving_start_file(write_start_file(tmp_path, more), clock, data) as raw:
        assert raw.get(container).json["defaultTtl"] == 7200
        assert offers(raw) == {(200, 2000), (5000, None)}
        assert set(stored_items(raw, container)) == {"s1", "s9", "m1"}


def test_the_rest_of_the_data_stays(tmp_path: Path, clock: MovableClock) -> None:
    data = tmp_path / "data"
    with running(Settings(data=data), clock) as found, closing(RawClient(found.endpoint)) as raw:
        assert raw.post("/dbs", {"id": "mine"}).status == 201
    with serving_start_file(write_start_file(tmp_path, GOOD), clock, data) as raw:
        assert raw.get("/dbs/mine").status == 200


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("partitionKey: /user", "partitionKey: /other"), "partition key cannot be changed"),
        (("[[/token], /mail]", "[[/token]]"), "The unique index cannot be modified"),
        (
            ("- id: empty", "- {id: empty, throughput: 400}"),
            "throughput can only be set at creation",
        ),
    ],
)
def test_what_cannot_be_changed_changes_nothing(
    tmp_path: Path, clock: MovableClock, change: tuple[str, str], problem: str
) -> None:
    data = tmp_path / "data"
    with serving_start_file(write_start_file(tmp_path, GOOD), clock, data):
        pass
    path = write_start_file(tmp_path, GOOD.replace(*change).replace("id: orders", "id: fresh"))
    with pytest.raises(StartFileError) as refused, serving_start_file(path, clock, data):
        pass
    assert problem in str(refused.value)
    with running(Settings(data=data), clock) as found, closing(RawClient(found.endpoint)) as raw:
        assert raw.get("/dbs/shop/colls/fresh").status == 404


def test_an_encryption_policy_stays(tmp_path: Path, clock: MovableClock) -> None:
    """Clients create such containers, and the file cannot declare the policy."""
    path, data = write_start_file(tmp_path, GOOD), tmp_path / "data"
    policy = {"includedPaths": [], "policyFormatVersion": 1}
    container = "/dbs/shop/colls/sessions"
    with serving_start_file(path, clock, data) as raw:
        body = raw.get(container).json | {"clientEncryptionPolicy": policy, "defaultTtl": 60}
        assert raw.delete(container).status == 204
        assert raw.post("/dbs/shop/colls", body).status == 201
    with serving_start_file(path, clock, data) as raw:
        found = raw.get(container).json
    assert (found["clientEncryptionPolicy"], found["defaultTtl"]) == (policy, 3600)


def test_the_guard_holds(tmp_path: Path, clock: MovableClock) -> None:
    """A shorter ttl that would expire too many items is refused before anything is changed."""
    data = tmp_path / "data"
    with serving_start_file(write_start_file(tmp_path, GOOD), clock, data):
        pass
    path = write_start_file(
        tmp_path, GOOD.replace("defaultTtl: 1h", "defaultTtl: 1m").replace("50m", "10s")
    )
    settings = Settings(init=path, data=data, expiry_guard="0")
    with pytest.raises(StartFileError, match="sessions"), running(settings, clock):
        pass


def test_a_serverless_account_has_no_throughput_to_give(
    tmp_path: Path, clock: MovableClock
) -> None:
    """All that ask for some are named, and nothing else of the file is made either."""
    data = tmp_path / "data"
    text = """
        databases:
          - id: first
          - {id: second, throughput: 400}
          - id: third
            containers: [{id: c, partitionKey: /pk, throughput: {autoscale: 1000}}]
        """
    path = write_start_file(tmp_path, text)
    for known in (0, 3):
        settings = Settings(init=path, data=data, serverless=True)
        with pytest.raises(StartFileError) as refused, running(settings, clock):
            pass
        assert str(refused.value).count("not supported for serverless accounts") == 2
        with (
            running(Settings(data=data), clock) as found,
            closing(RawClient(found.endpoint)) as raw,
        ):
            assert raw.get("/dbs").json["_count"] == known
        with serving_start_file(path, clock, data):
            pass


def test_containers_that_share_throughput_raise_its_minimum(
    tmp_path: Path, clock: MovableClock
) -> None:
    data = tmp_path / "data"
    many = ", ".join(f"{{id: c{number}, partitionKey: /pk}}" for number in range(30))
    text = f"databases: [{{id: d, throughput: 900, containers: [{many}]}}]"
    with serving_start_file(write_start_file(tmp_path, text), clock, data):
        pass
    fewer = text.replace("900", "400").replace("id: c0", "id: fresh")
    path = write_start_file(tmp_path, fewer)
    with (
        pytest.raises(StartFileError, match="minimum throughput 900"),
        serving_start_file(path, clock, data),
    ):
        pass
    with running(Settings(data=data), clock) as found, closing(RawClient(found.endpoint)) as raw:
        assert raw.get("/dbs/d/colls/fresh").status == 404


PROBLEMS = {
    "databases: 3": "line 1 (databases): must be a list",
    "[]": "line 1: must be an object with databases",
    "{}": "line 1: 'databases' is missing",
    "database: []": "line 1 (database): 'database' is unknown; did you mean databases?",
    "databases: [{}]": "line 1 (databases[0]): 'id' is missing",
    "databases: [{id: a/b}]": "line 1 (databases[0].id): The database id 'a/b' may not contain",
    "databases: [{id: a}, {id: a}]": (
        "databases[1]): the database 'a' is already declared in line 1"
    ),
    "databases: [{id: a, throughput: 10}]": "Requested throughput 10 is less than",
    "databases: [{id: a, throughput: lots}]": 'throughput): "lots" is neither RU/s',
}
CONTAINERS = {
    "{id: c}": "'partitionKey' is missing",
    "{id: c, partitionKey: pk}": (
        ".partitionKey): The partition key component definition path 'pk' could not be accepted"
    ),
    "{id: c, partitionKey: /a-b}": ".partitionKey): The partition key component definition path",
    "{id: c, partitionKey: pk, defaultTtl: 0}": ".defaultTtl): The input defaultTtl '0' is",
    "{id: c, partitionKey: /pk, defaultTtl: 0}": ".defaultTtl): The input defaultTtl '0' is",
    "{id: c, partitionKey: /pk, defaultTtl: soon}": '"soon" is not a duration like 90',
    "{id: c, partitionKey: /pk, defaultTtl: 1.5}": "The input defaultTtl '1.5' is invalid",
    "{id: c, partitionKey: /pk, indexingPolicy: 1}": ".indexingPolicy): One of the specified",
    "{id: c, partitionKey: /pk, uniqueKeys: /a}": ".uniqueKeys): must be a list of keys",
    "{id: c, partitionKey: /pk, uniqueKeys: [[a]]}": ".uniqueKeys): The unique key path 'a'",
    "{id: c, partitionKey: /pk, defaultTtl: 5, indexingPolicy: {indexingMode: none}}": (
        "Indexing mode value cannot be 'none'"
    ),
    "{id: c, partitionKey: /pk, defaultttl: 5}": "did you mean defaultTtl?",
    "{id: c, partitionKey: /pk, items: {}}": ".items): must be a list",
    "{id: c, partitionKey: /pk, items: [1]}": ".items[0]): an item must be an object",
    "{id: c, partitionKey: /pk, items: [{pk: 1}]}": "the required properties - 'id; '",
    "{id: c, partitionKey: /pk, items: [{id: a}, {id: a}]}": "has the id 'a' of the item in line",
    "{id: c, partitionKey: /pk, uniqueKeys: [/m], items: [{id: a}, {id: b}]}": (
        "has values of a unique key of the item"
    ),
    "{id: c, partitionKey: /pk, defaultTtl: 5, items: [{id: a, ttl: 0}]}": "The input ttl '0'",
    "{id: c, partitionKey: /pk, items: [{id: a, ttl: 0}]}": ".items[0]): The input ttl '0'",
    "{id: c, partitionKey: /pk, defaultTtl: 5, seeds: [{age: 5, items: [{id: a}]}]}": (
        "the item has expired already: its ttl is 5 s, its age 5 s"
    ),
    "{id: c, partitionKey: /pk, seeds: [{age: -5, items: [{id: a}]}]}": "-5 is not a duration",
    "{id: c, partitionKey: /pk, seeds: [{file: nothing}]}": "nothing: No such file or directory",
    "{id: c, partitionKey: /pk, seeds: [{files: a}]}": "did you mean file?",
}
PROBLEMS |= {
    f"databases:\n- id: d\n  containers:\n  - {text}": problem
    for text, problem in CONTAINERS.items()
}
BROKEN_YAML = {
    "a: [": "line 1: not YAML",
    "a: 1\na: 2": "line 2: 'a' is defined twice",
    "a: &x [*x]": "nested deeper than",
    "x: &x {a: 1}\ny: {<<: *x}": "merge keys (<<) are not supported",
    "[a]: 1": "a name must be a string",
}
LONG = "9" * 5000
BROKEN_YAML |= {
    "a:\n  [" + "[" * 3000 + "]" * 3001: "nested deeper than",
    f"a: {LONG}": "line 1: the number 99999999999999999999… is too large",
    "a: 1\nb: -1e999": "line 2: the number -1e999 is too large",
    # Each repeats the one before ten times: a billion values, or a gigabyte of text.
    "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)): (
        "aliases repeat values more than 100,000 times"
    ),
    f"a: &a {'x' * 1_000_000}\nb: [{', '.join(['*a'] * 1000)}]": (
        "aliases repeat values more than 100,000 times"
    ),
    'a: "\\ud800"': "line 1: a string contains half of a surrogate pair",
    '"\\udfff": a': "line 1: a string contains half of a surrogate pair",
}
BROKEN_JSON = {
    "": "line 1: the file ends too early",
    "{": "line 1: a name in double quotes is expected here",
    '{\n"a" 1}': "line 2: a colon is expected after 'a'",
    '{"a": 1,\n"a": 2}': "line 2: 'a' is defined twice",
    "[1\n2]": "line 2: a comma or ] is expected here",
    '["\\x"]': "Invalid \\escape",
    '["a': "a string is not closed",
    "nil": "a JSON value is expected here",
    "[] []": "there is text after the end",
    "[" * 200: "nested deeper than",
    '{\n"a": "\\ud800"}': "line 2: a string contains half of a surrogate pair",
    f'{{"a":\n{LONG}}}': "line 2: the number 99999999999999999999… is too large",
}


@pytest.mark.parametrize(("text", "problem"), (PROBLEMS | BROKEN_YAML).items())
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    path = write_start_file(tmp_path, text)
    with pytest.raises(StartFileError) as refused:
        declare(path, read(path))
    assert problem in str(refused.value), refused.value
    assert str(path) in str(refused.value)
    assert "nothing was changed" in str(refused.value)


@pytest.mark.parametrize(("text", "problem"), BROKEN_JSON.items())
def test_broken_json(tmp_path: Path, text: str, problem: str) -> None:
    path = write_start_file(tmp_path, text, "start.json")
    with pytest.raises(StartFileError) as refused:
        read(path)
    assert problem in str(refused.value), refused.value


def test_numbers_are_those_of_requests(tmp_path: Path) -> None:
    """What 64 bits cannot hold is a double."""
    large = "9" * 25
    for name in ("start.yaml", "start.json"):
        path = write_start_file(tmp_path, f'{{"a": {large}, "b": -{large}, "c": 1.50}}', name)
        assert read(path).plain() == {"a": 1e25, "b": -1e25, "c": 1.5}
        items = f'[{{"id": "1", "pk": "a", "n": {large}}}]'
        container = f'{{"id": "c", "partitionKey": "/pk", "items": {items}}}'
        path = write_start_file(
            tmp_path, f'{{"databases": [{{"id": "d", "containers": [{container}]}}]}}', name
        )
        declare(path, read(path))


def test_ordinary_aliases_are_supported(tmp_path: Path) -> None:
    items = "\n".join(f"- {{<<x: {n}, policy: *p}}" for n in range(1000))
    path = write_start_file(tmp_path, f"p: &p {{a: [1, 2, 3], b: {{c: d}}}}\nitems:\n{items}\n")
    assert read(path).plain()["items"][999]["policy"] == {"a": [1, 2, 3], "b": {"c": "d"}}


def test_a_relaxed_server_starts_with_what_the_service_refuses(
    tmp_path: Path, clock: MovableClock
) -> None:
    """Otherwise the message names the line, and the line of a file with items."""
    text = """
        databases:
          - id: d
            containers:
              - id: c
                partitionKey: /a-b
                seeds: [{file: seeds.jsonl}]
    """
    path = write_start_file(tmp_path, text)
    (tmp_path / "seeds.jsonl").write_text('{"id":"1"}\n{"id":"2","ttl":-10}\n')
    settings = Settings(memory=True, init=path)
    with (
        running(replace(settings, relaxed=True), clock) as found,
        closing(RawClient(found.endpoint)) as raw,
    ):
        assert set(stored_items(raw, "/dbs/d/colls/c")) == {"1", "2"}
    with pytest.raises(StartFileError) as refused, running(replace(settings, relaxed=False), clock):
        pass
    assert "start.yaml" in str(refused.value)
    assert refused.value.problems[0].startswith("line 6 (databases[0].containers[0].partitionKey):")
    path.write_text(path.read_text().replace("/a-b", "/ab"))
    with pytest.raises(StartFileError) as refused, running(replace(settings, relaxed=False), clock):
        pass
    (problem,) = refused.value.problems
    assert "seeds.jsonl:2): The input ttl '-10' is invalid." in problem


def test_all_problems_at_once(tmp_path: Path) -> None:
    text = "databases:\n- id: a/b\n- {id: c, throughput: 1}\n- {idd: x}\n"
    path = write_start_file(tmp_path, text)
    with pytest.raises(StartFileError) as refused:
        declare(path, read(path))
    assert len(refused.value.problems) == 4
    assert str(refused.value).startswith(f"4 problems in {path}, nothing was changed:\n  line 2")


@pytest.mark.parametrize("content", ['[\n{"id":"a"}\n]', ' {\n"id":"a"\n}', "id,pk\na,b\n"])
def test_a_file_of_items_that_is_not_lines_is_one_problem(tmp_path: Path, content: str) -> None:
    text = "databases: [{id: d, containers: [{id: c, partitionKey: /pk, seeds: [{file: in}]}]}]"
    path = write_start_file(tmp_path, text)
    (tmp_path / "in").write_text(content)
    with pytest.raises(StartFileError) as refused:
        declare(path, read(path))
    (problem,) = refused.value.problems
    assert "in does not have one JSON item per line" in str(problem)


def test_a_bad_file_leaves_no_data_behind(tmp_path: Path) -> None:
    settings = Settings(init=write_start_file(tmp_path, "databases: 1"), data=tmp_path / "data")
    with pytest.raises(StartFileError), running(settings):
        pass
    assert not (tmp_path / "data").exists()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot read the start file"):
        read(tmp_path / "nothing.yaml")
    path = tmp_path / "latin.json"
    path.write_bytes(b'{"\xe9": 1}')
    with pytest.raises(StartFileError, match="not UTF-8"):
        read(path)


def test_yaml_and_json_mean_the_same(tmp_path: Path) -> None:
    value: dict[str, Any] = {
        "a": [1, -2.5, 1e3, True, False, None, "x", "", {}],
        "b": {"c": "é\n"},
        "d": [],
    }
    path = tmp_path / "v.json"
    path.write_text(json.dumps(value, indent=2))
    assert read(path).plain() == value
    same = tmp_path / "v.yaml"
    same.write_text(path.read_text())
    assert read(same).plain() == value
    assert read(same).value["b"].value["c"].path == read(path).value["b"].value["c"].path == "b.c"
    assert read(same).value["b"].value["c"].line == read(path).value["b"].value["c"].line
