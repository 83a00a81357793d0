"""Broken queries earn a 400 that says where, never a 500, and soon."""

from __future__ import annotations

import pytest

from perseid.errors import QueryError
from perseid.query import compile_query
from tests.query.conftest import Fill, only
from tests.query.engines import PUSHED, Engine
from tests.query.filled_containers import FilledContainer, Problem, problems
from tests.query.malformed import BREAKERS, HEAVY, Breaker, corpus, mutations
from tests.support.effort import ratio

pytestmark = [
    only(PUSHED),
    pytest.mark.only_on("sqlite", reason="the language refuses them before a store is asked"),
]
DOCUMENTS = [
    {"id": "1", "a": 1, "tags": ["x"], "rows": [{"n": 1}], "v": None, "s": "text"},
    {"id": "2", "a": "b", "tags": [], "l": [1, 2], "v": [1]},
]
MUTATIONS = 800
# Refused as well, and short: the slowest of the heavy texts takes ten times as long.
PLAIN = "SELECT VALUE [" + "1, " * 5_000 + "zz]"


@pytest.fixture
def container(filled: Fill) -> FilledContainer:
    return filled("malformed", DOCUMENTS)


def refusal(container: FilledContainer, text: str) -> Problem:
    """The one problem of a text, checked for its form and its place."""
    reply = container.query(text)
    assert (reply.status, reply.json["code"]) == (400, "BadRequest"), (text, reply)
    assert "\r\nActivityId: " in reply.json["message"]
    (problem,) = problems(reply)
    start, end = problem.start, problem.end
    assert 0 <= start <= end <= len(text), (text, problem)
    assert problem.message.endswith("."), (text, problem)
    if problem.code == "SC1002":
        assert (start, end) == (len(text), len(text)), (text, problem)
        assert problem.message == "Syntax error, unexpected end-of-file."
    elif problem.code in ("SC1001", "SC1010", "SC1011", "SC1012", "SC2001", "SC2102", "SC2103"):
        assert start < end, (text, problem)
        if "nested" not in problem.message:
            assert f"'{text[start:end]}'" in problem.message, (text, problem)
    return problem


def test_there_are_two_thousand(engine: Engine) -> None:
    texts = [corpus(breaker, most) for breaker, most in BREAKERS.items()]
    assert all(texts)
    assert len({text for each in texts for text in each}) >= 2000


@pytest.mark.parametrize("breaker", BREAKERS, ids=lambda breaker: breaker.__name__)
def test_broken(container: FilledContainer, breaker: Breaker) -> None:
    for text in corpus(breaker, BREAKERS[breaker]):
        refusal(container, text)


@pytest.mark.parametrize("part", range(4))
def test_mutations(container: FilledContainer, part: int) -> None:
    """Refused if the compiler refuses them; otherwise they run, or fail with a 400 of their own."""
    refused = 0
    for text in mutations(MUTATIONS)[part::4]:
        try:
            compile_query(text)
        except QueryError as error:
            (known,) = error.problems
            found = refusal(container, text)
            assert found == Problem(known.code, known.message, known.start, known.end), text
            refused += 1
        else:
            reply = container.query(text)
            assert reply.status in (200, 400), (text, reply)
            assert reply.status == 200 or "cardinality" in reply.json["message"] or problems(reply)
    assert refused > MUTATIONS // 8


@pytest.mark.parametrize("name", HEAVY)
def test_heavy(container: FilledContainer, name: str) -> None:
    text = HEAVY[name]()

    def refuse(refused: str) -> None:
        with pytest.raises(QueryError):
            compile_query(refused)

    assert ratio(lambda: refuse(text), lambda: refuse(PLAIN), times=1) < 100
    refusal(container, text)


def test_the_server_goes_on(container: FilledContainer) -> None:
    """After all that, in whatever order."""
    refusal(container, "SELECT")
    assert container.drain("SELECT VALUE c.id FROM c ORDER BY c.id") == ["1", "2"]
