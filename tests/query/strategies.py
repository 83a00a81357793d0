"""Random documents, and queries that say something about them.

Properties are shared and types are mixed, so that most comparisons meet values of several types,
missing ones included. A query is text, parameters, and what its rows can be held to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

# Few texts and numbers, so that random values meet.
TEXTS: Final = (
    "", "a", "A", "ab", "aB", "b", "ba", "é", "e\u0301", "𝒳", "a𝒳", "😀", "\uffff", "\x00",
    "a\x00b",
    "%", "_", "[a]", "10", "9", "true", "null", "2024-02-29", "2024-02-29T12:00:00.0000000Z", "ß",
    "ǅ",
)  # fmt: skip
NUMBERS: Final = (
    0, 1, 2, 3, -1, 10, 0.5, -0.0, 1.5, 1e-7, 1e300, -1e300, 5e-324, 2**31, 2**53, 2**53 + 1,
    -(2**53) - 1,
    2.0**53, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 1e19, 0.1, 100,
)  # fmt: skip

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("d", "k", "x", "")), inner, max_size=3)
    ),
    max_leaves=4,
)
rows = st.fixed_dictionaries(
    {}, optional={"k": scalars, "n": numbers | texts, "l": st.lists(numbers)}
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "a": scalars,
        "b": numbers | texts,
        "c": st.fixed_dictionaries({}, optional={"d": scalars, "x": values}) | scalars,
        "e": st.lists(scalars, max_size=3) | scalars,
        "t": st.lists(rows, max_size=3) | scalars,
        "g": st.sampled_from((None, 1, 1.0, "1", True, "a", [1], {"k": 1})),
        "n": numbers,
        "f": st.booleans() | st.none(),
        "v": values,
    },
)
document_lists = st.lists(documents, max_size=9)

_PATHS: Final = (
    "c.a", "c.b", "c.c", "c.c.d", 'c["c"]["x"]', "c.e", "c.e[0]", "c.e[1]", "c.g", "c.n", "c.f",
    "c.v", "c.v.k",
    "c.missing", "c.t[0].n", "c.id",
)  # fmt: skip
paths = st.sampled_from(_PATHS)
PARAMETERS: Final = ("@p", "@q")
parameter_values = st.fixed_dictionaries({}, optional=dict.fromkeys(PARAMETERS, values))


def spelt(value: Any) -> str:
    """A value as a literal."""
    return json.dumps(value, ensure_ascii=len(str(value)) % 2 == 0)


literals = values.map(spelt)
scalar_literals = scalars.map(spelt)
text_literals = texts.map(spelt)
_leaves = st.one_of(
    paths, paths, scalar_literals, literals, st.sampled_from((*PARAMETERS, "undefined"))
)

_FUNCTIONS: Final = (
    "ABS({0})", "LENGTH({0})", "LOWER({0})", "UPPER({0})", "ARRAY_LENGTH({0})", "ToString({0})",
    "FLOOR({0})",
    "ROUND({0})", "REVERSE({0})", "TRIM({0})", "SIGN({0})", "StringToNumber({0})",
    "ObjectToArray({0})",
    "CONCAT({0}, {1})", "LEFT({0}, {1})", "SUBSTRING({0}, {1}, 1)", "INDEX_OF({0}, {1})",
    "POWER({0}, 2)",
    "REPLACE({0}, {1}, 'z')", "ARRAY_CONCAT({0}, {1})", "SetUnion({0}, {1})", "ARRAY_SLICE({0}, 1)",
    "IIF({0}, {1}, 1)", "CHOOSE({0}, {1}, 2)", "IntAdd({0}, {1})", "DateTimePart('yyyy', {0})",
    "ARRAY_MAX({0})",
    "NumberBin({0}, 2)", "STRINGSPLIT({0}, 'a')",
)  # fmt: skip
_OPERATORS: Final = ("+", "-", "*", "/", "%", "||", "&", "|", "^", "<<", ">>", ">>>", "??")


def _compound_of(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(_OPERATORS), inner),
        st.builds(str.format, st.sampled_from(_FUNCTIONS), inner, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("-({})".format, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'x': {}, 'y': {}}}".format, inner, inner),
    )


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        _compound_of(inner),
        st.builds("ARRAY(SELECT VALUE x FROM x IN c.e WHERE x != {})".format, inner),
        st.builds("(SELECT VALUE COUNT({}) FROM x IN c.t)".format, inner),
    )


expressions = st.recursive(_leaves, _compound, max_leaves=4)
# What no item has a say in, and what asks the time without telling it.
constants = st.recursive(
    st.one_of(
        scalar_literals,
        literals,
        st.sampled_from(
            (*PARAMETERS, "@p.k", "@q[0]", "undefined", "LENGTH(GetCurrentDateTime())")
        ),
    ),
    _compound_of,
    max_leaves=4,
)

_COMPARISONS: Final = ("=", "!=", "<>", "<", "<=", ">", ">=")
_CHECKS: Final = (
    "IS_DEFINED", "IS_NULL", "IS_BOOL", "IS_BOOLEAN", "IS_NUMBER", "IS_STRING", "IS_ARRAY",
    "IS_OBJECT", "IS_PRIMITIVE",
    "IS_INTEGER", "IS_FINITE_NUMBER", "IS_DATETIME",
)  # fmt: skip
_TESTS: Final = ("STARTSWITH", "ENDSWITH", "CONTAINS", "STRINGEQUALS")
_PATTERNS: Final = ("'a%'", "'%b'", "'%a%'", "'_'", "'[a-b]%'", "'%'", "''", "'a_'", "@p", "'%𝒳'")
_REGEXES: Final = ("'^a'", "'b$'", "'.'", "'[ab]+'")
_simple = paths | scalar_literals | literals | st.sampled_from(PARAMETERS)
_atoms = st.one_of(
    st.builds("{} {} {}".format, paths, st.sampled_from(_COMPARISONS), _simple),
    st.builds("{} {} {}".format, paths, st.sampled_from(_COMPARISONS), scalar_literals),
    st.builds("{} {} {}".format, _simple, st.sampled_from(_COMPARISONS), paths),
    st.builds("{} {} {}".format, expressions, st.sampled_from(_COMPARISONS), expressions),
    st.builds("{} {} {}".format, paths, st.sampled_from(_COMPARISONS), constants),
    st.builds("{} {} {}".format, constants, st.sampled_from(_COMPARISONS), constants),
    constants,
    st.builds(
        lambda path, negated, items: f"{path} {negated}IN ({', '.join(items)})",
        paths, st.sampled_from(("", "NOT ")),
        st.lists(_simple | constants, min_size=1, max_size=4),
    ),
    st.builds(
        "{} {}BETWEEN {} AND {}".format,
        paths, st.sampled_from(("", "NOT ")), scalar_literals, scalar_literals,
    ),
    st.builds(
        "{} {}LIKE {}".format,
        paths, st.sampled_from(("", "NOT ")),
        st.sampled_from(_PATTERNS),
    ),
    st.builds("{}({})".format, st.sampled_from(_CHECKS), paths),
    st.builds(
        "{}({}) {} {}".format,
        st.sampled_from(_CHECKS), paths, st.sampled_from(_COMPARISONS),
        st.sampled_from(("true", "false", "1", "@p")),
    ),
    st.builds("{}({}, {})".format, st.sampled_from(_TESTS), paths, text_literals),
    st.builds(
        "{}({}, {}, {})".format,
        st.sampled_from(_TESTS), paths, text_literals, st.sampled_from(("true", "false")),
    ),
    st.builds("RegexMatch({}, {})".format, paths, st.sampled_from(_REGEXES)),
    st.builds("ARRAY_CONTAINS({}, {})".format, paths, _simple),
    st.builds("ARRAY_CONTAINS({}, {}, true)".format, paths, literals),
    st.builds("ARRAY_CONTAINS({}, {})".format, literals | constants, paths),
    st.builds("EXISTS(SELECT VALUE x FROM x IN c.e WHERE x = {})".format, _simple),
    st.builds("EXISTS(SELECT 1 FROM r IN c.t WHERE r.k = {} OR r.n > 1)".format, _simple),
    paths,
)  # fmt: skip
predicates = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds(
            "(({}) {} {})".format,
            inner,
            st.sampled_from(("=", "!=")),
            st.sampled_from(("true", "false")),
        ),
    ),
    max_leaves=5,
)

_AGGREGATES: Final = (
    "COUNT(1)", "COUNT({0})", "SUM({0})", "AVG({0})", "MIN({0})", "MAX({0})", "COUNTIF({0} = 1)",
    "SUM({0}) + COUNT(1)",
)  # fmt: skip
aggregates = st.builds(
    str.format, st.sampled_from(_AGGREGATES), paths | st.just("c.n") | st.just("c.b")
)


# Queries over the rows of another one.
_OUTER: Final = (
    "SELECT VALUE outer FROM ({}) AS outer",
    "SELECT outer.k0, outer.a0 FROM ({}) AS outer WHERE IS_DEFINED(outer.a0)",
)


@dataclass(frozen=True)
class RandomQuery:
    """A query, and what may be expected of its rows.

    `unwindowed` is the query without TOP, OFFSET and LIMIT, when there is such a clause and no
    order that says which rows it keeps.
    """

    text: str
    parameters: dict[str, Any]
    is_ordered: bool
    unwindowed: str | None


@st.composite
def queries(draw: st.DrawFn) -> RandomQuery:
    shape = draw(st.sampled_from(("list", "list", "list", "join", "group", "whole", "distinct")))
    where = draw(st.just("") | st.builds(" WHERE {}".format, predicates))
    top, end, distinct = "", "", ""
    order: list[str] = []
    source = "FROM c"
    group = ""
    match shape:
        case "join":
            source = draw(st.sampled_from((
                "FROM c JOIN x IN c.e", "FROM c JOIN x IN c.t", "FROM c JOIN c.c AS x",
                "FROM c JOIN r IN c.t JOIN x IN r.l",
                "FROM c JOIN (SELECT VALUE y FROM y IN c.e WHERE y != 1) AS x",
            )))  # fmt: skip
            select = draw(st.sampled_from(("VALUE x", "c.id, x", "VALUE [c.a, x]", "VALUE x.k")))
            where = draw(
                st.just(where)
                | st.builds(" WHERE x {} {}".format, st.sampled_from(_COMPARISONS), _simple)
            )
            order = draw(_order(paths | st.just("x"), 2))
        case "group":
            keys = draw(st.lists(paths | expressions, min_size=1, max_size=2, unique=True))
            shown = [f"{key} AS k{at}" for at, key in enumerate(keys)]
            shown += [
                f"{each} AS a{at}" for at, each in enumerate(draw(st.lists(aggregates, max_size=3)))
            ]
            select = ", ".join(shown)
            group = f" GROUP BY {', '.join(keys)}"
            order = draw(st.just([]) | _directions(keys))
        case "whole":
            select = draw(st.builds("VALUE {}".format, aggregates) | st.builds(
                lambda found: ", ".join(f"{each} AS a{at}" for at, each in enumerate(found)),
                st.lists(aggregates, min_size=1, max_size=3),
            ))  # fmt: skip
        case "distinct":
            distinct = "DISTINCT "
            shown = draw(st.lists(paths | expressions, min_size=1, max_size=2))
            if len(shown) == 1 and draw(st.booleans()):
                select = f"VALUE {shown[0]}"
                order = draw(st.just([]) | _directions(shown))
            else:
                select = ", ".join(f"{each} AS v{at}" for at, each in enumerate(shown))
        case _:
            select = draw(
                st.sampled_from(("*", "VALUE c", "VALUE c.id", "c.id, c.a, c.c.d", "VALUE c.a"))
                | st.builds("VALUE {}".format, expressions)
                | st.builds("{} AS v, {} AS w".format, expressions, expressions)
            )
            order = draw(st.just([]) | _order(paths | expressions, 3))
    window = draw(st.sampled_from(("", "", "", "top", "limit")))
    count, skip = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    if window == "top":
        top = f"TOP {count} "
    elif window == "limit":
        end = f" OFFSET {skip} LIMIT {count}"
    sorting = f" ORDER BY {', '.join(order)}" if order else ""
    rest = f"{source}{where}{group}{sorting}"
    is_loose = bool(window) and not order
    form = draw(st.sampled_from(("{}",) * 5 + _OUTER))
    return RandomQuery(
        form.format(f"SELECT {distinct}{top}{select} {rest}{end}"),
        draw(parameter_values),
        bool(order) and form == "{}",
        form.format(f"SELECT {distinct}{select} {rest}") if is_loose else None,
    )


@st.composite
def _directions(draw: st.DrawFn, keys: list[str]) -> list[str]:
    return [f"{key}{draw(st.sampled_from(('', ' ASC', ' DESC')))}" for key in keys]


@st.composite
def _order(draw: st.DrawFn, keys: st.SearchStrategy[str], most: int) -> list[str]:
    return draw(_directions(draw(st.lists(keys, min_size=1, max_size=most))))
