"""Parses query text into a syntax tree, or raises QueryError with the problem and its place.

Clauses are parsed by recursive descent, expressions by operator precedence with a list of pending
operators. That list replaces recursion, because generated queries have a pair of parentheses for
every term. The depth of the tree is limited, so that later stages may recurse. Names, argument
counts and types are not checked here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from perseid.query import lexer
from perseid.query.lexer import END, IDENTIFIER, KEYWORDS, NUMBER, PARAMETER, STRING, Token
from perseid.query.nodes import (
    ArrayLiteral,
    Between,
    Binary,
    Call,
    Chain,
    Conditional,
    CountExpr,
    Expr,
    FromSource,
    Identifier,
    In,
    Index,
    Like,
    Literal,
    Node,
    ObjectLiteral,
    OrderItem,
    Parameter,
    Property,
    Query,
    Select,
    SelectItem,
    Subquery,
    SubqueryKind,
    Unary,
    children,
)
from perseid.query.values import UNDEFINED, canonical, is_number

# Levels of the tree. A subquery counts for several, because it runs as a chain of iterators.
MAX_DEPTH: Final = 200
_QUERY_DEPTH: Final = 10
# Nested brackets, calls and subqueries while parsing; a subquery counts twice.
MAX_NESTING: Final = 80

_CLOSED_BY_TOKEN, _CONDITIONAL, _NOT, _AND, _RELATIONAL, _BIT_OR, _UNARY = 0, 1, 5, 4, 7, 8, 14
_LEVELS: Final = {
    "??": 2, "OR": 3, "AND": _AND,
    "=": 6, "!=": 6, "<>": 6,
    "<": _RELATIONAL, "<=": _RELATIONAL, ">": _RELATIONAL, ">=": _RELATIONAL,
    "|": _BIT_OR, "^": 9, "&": 10, "<<": 11, ">>": 11, ">>>": 11,
    "+": 12, "-": 12, "||": 12, "*": 13, "/": 13, "%": 13,
}  # fmt: skip
_PREFIXES: Final = {"+": _UNARY, "-": _UNARY, "~": _UNARY, "NOT": _NOT}
_ASSOCIATIVE: Final = frozenset({"AND", "OR", "??", "||"})
_SPELLINGS: Final = {"<>": "!="}
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None, "UNDEFINED": UNDEFINED}
_NAMED_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf}
_QUANTIFIERS: Final[dict[str, SubqueryKind]] = {
    "EXISTS": "EXISTS", "ARRAY": "ARRAY", "ALL": "ALL", "FIRST": "FIRST", "LAST": "LAST",
}  # fmt: skip


_T = TypeVar("_T")


def parse(text: str, *, max_depth: int = MAX_DEPTH) -> Query:
    """The tree of `text`; raises QueryError if it is not a query."""
    parser = _Parser(text)
    query = parser.query()
    parser.accept(";")
    parser.expect(END)
    _limit_depth(query, max_depth)
    return query


def parse_condition(text: str) -> Query:
    """The tree of `FROM c WHERE …` as a query that selects the whole document."""
    parser = _Parser(text)
    query = parser.condition()
    parser.expect(END)
    _limit_depth(query, MAX_DEPTH)
    return query


def literal(value: Any, *, start: int = 0, end: int = 0) -> Literal:
    """The node of a constant."""
    return Literal(value, canonical(value), start=start, end=end)


@dataclass(slots=True)
class _Pending:
    """An operator whose last operand has not been parsed, or an open parenthesis."""

    kind: str
    level: int
    operands: list[Expr]
    start: int
    negated: bool = False


@dataclass(slots=True)
class _Parser:
    text: str
    tokens: list[Token] = field(init=False)
    at: int = 0
    nesting: int = 0

    def __post_init__(self) -> None:
        self.tokens = lexer.tokenize(self.text)

    # --- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    @property
    def next_kind(self) -> str:
        """The kind of the token after this one."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)].kind

    def advance(self) -> Token:
        token = self.tokens[self.at]
        # The last token stays current, so that an unexpected end of the text is reported there.
        if token.kind != END:
            self.at += 1
        return token

    def accept(self, kind: str) -> bool:
        if self.tokens[self.at].kind != kind:
            return False
        self.advance()
        return True

    def expect(self, kind: str) -> Token:
        if self.tokens[self.at].kind != kind:
            self.fail()
        return self.advance()

    def fail(self, token: Token | None = None) -> NoReturn:
        """Rejects `token`, or the current one, as unexpected."""
        token = token or self.token
        if token.kind == END:
            lexer.reject("SC1002", "Syntax error, unexpected end-of-file.", token.start, token.end)
        lexer.reject(
            "SC1001",
            f"Syntax error, incorrect syntax near '{token.text}'.",
            token.start,
            token.end,
        )

    def enter(self, levels: int) -> None:
        self.nesting += levels
        if self.nesting > MAX_NESTING:
            _reject_depth(self.token.start, self.token.end)

    def listed(self, parse_one: Callable[[], _T]) -> tuple[_T, ...]:
        """One or more elements separated by commas."""
        elements = [parse_one()]
        while self.accept(","):
            elements.append(parse_one())
        return tuple(elements)

    # --- clauses

    def query(self) -> Query:
        start = self.token.start
        self.expect("SELECT")
        select = self.select(start)
        sources: list[FromSource] = []
        if self.accept("FROM"):
            sources.append(self.source())
            while self.accept("JOIN"):
                sources.append(self.source())
        where = self.expression() if self.accept("WHERE") else None
        group_by: tuple[Expr, ...] = ()
        if self.accept("GROUP"):
            self.expect("BY")
            group_by = self.listed(self.expression)
        order_by: tuple[OrderItem, ...] = ()
        rank = False
        if self.accept("ORDER"):
            self.expect("BY")
            rank = self.accept("RANK")
            order_by = self.listed(self.order_item)
        offset = limit = None
        if self.accept("OFFSET"):
            offset = self.count()
            self.expect("LIMIT")
            limit = self.count()
        return Query(
            select, tuple(sources), where, group_by, order_by, rank, offset, limit,
            start=start, end=self.tokens[self.at - 1].end,
        )  # fmt: skip

    def condition(self) -> Query:
        start = self.expect("FROM").start
        source = self.source()
        self.expect("WHERE")
        where = self.expression()
        select = Select("STAR", (), False, None, start=start, end=start)
        return Query(
            select, (source,), where, (), (), False, None, None, start=start, end=where.end
        )

    def select(self, start: int) -> Select:
        distinct = self.accept("DISTINCT")
        top = self.count() if self.accept("TOP") else None
        star = self.token
        if self.accept("*"):
            return Select("STAR", (), distinct, top, start=star.start, end=star.end)
        if self.accept("VALUE"):
            item = self.select_item()
            return Select("VALUE", (item,), distinct, top, start=start, end=item.end)
        items = self.listed(self.select_item)
        return Select("LIST", items, distinct, top, start=start, end=items[-1].end)

    def select_item(self) -> SelectItem:
        expr = self.expression()
        return SelectItem(expr, self.alias(), start=expr.start, end=self.tokens[self.at - 1].end)

    def alias(self) -> str | None:
        if self.accept("AS") or self.token.kind == IDENTIFIER:
            return self.expect(IDENTIFIER).text
        return None

    def order_item(self) -> OrderItem:
        expr = self.expression()
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        return OrderItem(expr, descending, start=expr.start, end=self.tokens[self.at - 1].end)

    def count(self) -> CountExpr:
        token = self.token
        if token.kind == PARAMETER:
            self.advance()
            return Parameter(token.text, start=token.start, end=token.end)
        self.expect(NUMBER)
        return literal(token.value, start=token.start, end=token.end)

    def source(self) -> FromSource:
        start = self.token.start
        if self.token.kind == IDENTIFIER and self.next_kind == "IN":
            alias: str | None = self.advance().text
            self.advance()
            collection, iterate = self.collection(), True
        else:
            collection, iterate = self.collection(), False
            alias = self.alias()
        return FromSource(collection, alias, iterate, start=start, end=self.tokens[self.at - 1].end)

    def collection(self) -> Expr | Query:
        if self.accept("("):
            self.enter(2)
            query = self.query()
            self.nesting -= 2
            self.expect(")")
            return query
        token = self.expect(IDENTIFIER)
        if self.token.kind == "(":
            return self.postfix(self.call(token.text, token))
        path: Expr = Identifier(token.text, start=token.start, end=token.end)
        while True:
            if self.accept("."):
                path = self.member(path)
            elif self.accept("["):
                if self.token.kind not in (NUMBER, STRING):
                    self.fail()
                path = self.indexed(path, self.primary())
            else:
                return path

    # --- expressions

    def expression(self) -> Expr:
        pending: list[_Pending] = []
        while True:
            operand: Expr | None = self.operand(pending)
            while operand is not None:
                kind = self.token.kind
                act = _OPERATORS.get(kind)
                if act is None or kind in _CLOSERS:
                    operand = self.reduce(pending, operand, above=_CLOSED_BY_TOKEN)
                    if not pending:
                        return operand
                    if act is None:
                        self.fail()
                operand = act(self, pending, operand)

    def operand(self, pending: list[_Pending]) -> Expr:
        """The next operand; signs and parentheses in front of it become pending."""
        while True:
            token = self.token
            level = _PREFIXES.get(token.kind)
            if level is None:
                if token.kind != "(" or self.next_kind == "SELECT":
                    return self.postfix(self.primary())
                level = _CLOSED_BY_TOKEN
            pending.append(_Pending(token.kind, level, [], token.start))
            self.advance()

    def reduce(self, pending: list[_Pending], operand: Expr, *, above: int) -> Expr:
        """Completes every pending operator that binds tighter than `above` with `operand`."""
        while pending and pending[-1].level > above:
            operand = _completed(pending.pop(), operand)
        return operand

    def reduce_for(self, pending: list[_Pending], operand: Expr, level: int) -> Expr:
        """`reduce` before an operator of `level`, which is rejected between BETWEEN and AND."""
        operand = self.reduce(pending, operand, above=level - 1)
        if level < _BIT_OR and pending and pending[-1].kind == "BETWEEN":
            self.fail()
        return operand

    def binary(self, pending: list[_Pending], operand: Expr) -> None:
        kind = self.token.kind
        level = _LEVELS[kind]
        operand = self.reduce(pending, operand, above=level)
        top = pending[-1] if pending else None
        if top is not None and top.kind == kind and top.level == level and kind in _ASSOCIATIVE:
            top.operands.append(operand)
        elif top is not None and top.kind == "BETWEEN" and kind == "AND":
            top.level = _RELATIONAL
            top.operands.append(operand)
        else:
            operand = self.reduce_for(pending, operand, level)
            pending.append(_Pending(kind, level, [operand], operand.start))
        self.advance()

    def negated(self, pending: list[_Pending], operand: Expr) -> Expr | None:
        if self.next_kind not in ("IN", "BETWEEN", "LIKE"):
            self.fail()
        self.advance()
        act = _OPERATORS[self.token.kind]
        node = act(self, pending, operand)
        if node is None:
            pending[-1].negated = True
            return None
        return _negation(node)

    def membership(self, pending: list[_Pending], operand: Expr) -> Expr:
        operand = self.reduce_for(pending, operand, _RELATIONAL)
        self.advance()
        self.expect("(")
        self.enter(1)
        items = self.listed(self.expression)
        self.nesting -= 1
        end = self.expect(")").end
        return In(operand, items, start=operand.start, end=end)

    def like(self, pending: list[_Pending], operand: Expr) -> None:
        operand = self.reduce_for(pending, operand, _RELATIONAL)
        pending.append(_Pending("LIKE", _RELATIONAL, [operand], operand.start))
        self.advance()

    def escape(self, pending: list[_Pending], operand: Expr) -> Expr:
        operand = self.reduce(pending, operand, above=_RELATIONAL)
        if not pending or pending[-1].kind != "LIKE":
            self.fail()
        self.advance()
        token = self.expect(STRING)
        if len(token.value) != 1:
            self.fail(token)
        like = pending.pop()
        node = Like(like.operands[0], operand, token.value, start=like.start, end=token.end)
        return _negation(node) if like.negated else node

    def between(self, pending: list[_Pending], operand: Expr) -> None:
        operand = self.reduce_for(pending, operand, _RELATIONAL)
        pending.append(_Pending("BETWEEN", _CLOSED_BY_TOKEN, [operand], operand.start))
        self.advance()

    def test(self, pending: list[_Pending], operand: Expr) -> None:
        # Right associative: this conditional becomes the last operand of an earlier one.
        operand = self.reduce_for(pending, operand, _CONDITIONAL + 1)
        pending.append(_Pending("?", _CLOSED_BY_TOKEN, [operand], operand.start))
        self.advance()

    def otherwise(self, pending: list[_Pending], operand: Expr) -> None:
        top = pending[-1]
        if top.kind != "?" or top.level != _CLOSED_BY_TOKEN:
            self.fail()
        top.level = _CONDITIONAL
        top.operands.append(operand)
        self.advance()

    def close(self, pending: list[_Pending], operand: Expr) -> Expr:
        if pending[-1].kind != "(":
            self.fail()
        pending.pop()
        self.advance()
        return self.postfix(operand)

    def postfix(self, operand: Expr) -> Expr:
        while True:
            if self.accept("."):
                operand = self.member(operand)
            elif self.accept("["):
                self.enter(1)
                index = self.expression()
                self.nesting -= 1
                operand = self.indexed(operand, index)
            else:
                return operand

    def member(self, target: Expr) -> Property:
        token = self.token
        # The service requires brackets around a keyword; here it is accepted, being unambiguous.
        if token.kind != IDENTIFIER and not (token.kind in KEYWORDS and token.value == token.text):
            self.fail()
        self.advance()
        return Property(target, token.text, start=target.start, end=token.end)

    def indexed(self, target: Expr, index: Expr) -> Expr:
        end = self.expect("]").end
        if isinstance(index, Literal) and type(index.value) is str:
            return Property(target, index.value, start=target.start, end=end)
        return Index(target, index, start=target.start, end=end)

    def primary(self) -> Expr:
        token = self.token
        read = _PRIMARIES.get(token.kind)
        if read is None:
            self.fail()
        self.advance()
        return read(self, token)

    def value(self, token: Token) -> Expr:
        return literal(token.value, start=token.start, end=token.end)

    def constant(self, token: Token) -> Expr:
        return literal(_CONSTANTS[token.kind], start=token.start, end=token.end)

    def parameter(self, token: Token) -> Expr:
        return Parameter(token.text, start=token.start, end=token.end)

    def name(self, token: Token) -> Expr:
        if self.token.kind == "(":
            quantifier = token.text.upper()
            if quantifier in _QUANTIFIERS and self.next_kind == "SELECT":
                return self.quantified(token)
            return self.call(token.text, token)
        if token.text in _NAMED_NUMBERS:
            return literal(_NAMED_NUMBERS[token.text], start=token.start, end=token.end)
        return Identifier(token.text, start=token.start, end=token.end)

    def keyword_call(self, token: Token) -> Expr:
        if self.token.kind != "(":
            self.fail(token)
        return self.call(token.text, token)

    def user_function(self, token: Token) -> Expr:
        self.expect(".")
        name = self.expect(IDENTIFIER)
        return self.call(f"udf.{name.text}", token, name_end=name.end)

    def call(self, name: str, token: Token, *, name_end: int | None = None) -> Expr:
        self.expect("(")
        arguments: tuple[Expr, ...] = ()
        if self.token.kind != ")":
            self.enter(1)
            arguments = self.listed(self.expression)
            self.nesting -= 1
        end = self.expect(")").end
        return Call(name, arguments, start=token.start, end=end, name_end=name_end or token.end)

    def quantified(self, token: Token) -> Expr:
        self.expect("(")
        return self.subquery(_QUANTIFIERS[token.text.upper()], token.start)

    def scalar(self, token: Token) -> Expr:
        return self.subquery("SCALAR", token.start)

    def subquery(self, kind: SubqueryKind, start: int) -> Expr:
        self.enter(2)
        query = self.query()
        self.nesting -= 2
        return Subquery(kind, query, start=start, end=self.expect(")").end)

    def array(self, token: Token) -> Expr:
        items: tuple[Expr, ...] = ()
        if self.token.kind != "]":
            self.enter(1)
            items = self.listed(self.expression)
            self.nesting -= 1
        return ArrayLiteral(items, start=token.start, end=self.expect("]").end)

    def object(self, token: Token) -> Expr:
        members: tuple[tuple[str, Expr], ...] = ()
        if self.token.kind != "}":
            self.enter(1)
            members = self.listed(self.object_member)
            self.nesting -= 1
        end = self.expect("}").end
        names, values = tuple(n for n, _ in members), tuple(v for _, v in members)
        return ObjectLiteral(names, values, start=token.start, end=end)

    def object_member(self) -> tuple[str, Expr]:
        if self.token.kind not in (IDENTIFIER, STRING):
            self.fail()
        name = str(self.advance().value)
        self.expect(":")
        return name, self.expression()


_Operator: TypeAlias = Callable[[_Parser, list[_Pending], Expr], Expr | None]
# What may follow an operand. Each returns an operand, or None if an operand must follow.
_OPERATORS: Final[dict[str, _Operator]] = {
    **dict.fromkeys(_LEVELS, _Parser.binary),
    "NOT": _Parser.negated,
    "IN": _Parser.membership,
    "BETWEEN": _Parser.between,
    "LIKE": _Parser.like,
    "ESCAPE": _Parser.escape,
    "?": _Parser.test,
    ":": _Parser.otherwise,
    ")": _Parser.close,
}
# Tokens that end the whole expression if no pending operator needs them.
_CLOSERS: Final = frozenset({":", ")"})

_PRIMARIES: Final[dict[str, Callable[[_Parser, Token], Expr]]] = {
    NUMBER: _Parser.value,
    STRING: _Parser.value,
    **dict.fromkeys(_CONSTANTS, _Parser.constant),
    PARAMETER: _Parser.parameter,
    IDENTIFIER: _Parser.name,
    "LEFT": _Parser.keyword_call,
    "RIGHT": _Parser.keyword_call,
    "UDF": _Parser.user_function,
    "EXISTS": _Parser.quantified,
    "ARRAY": _Parser.quantified,
    "(": _Parser.scalar,
    "[": _Parser.array,
    "{": _Parser.object,
}


def _completed(pending: _Pending, last: Expr) -> Expr:
    """The node of a pending operator with its last operand."""
    operands, span = pending.operands, {"start": pending.start, "end": last.end}
    node: Expr
    match pending.kind:
        case "LIKE":
            node = Like(operands[0], last, None, **span)
        case "BETWEEN":
            node = Between(operands[0], operands[1], last, **span)
        case "?":
            node = Conditional(operands[0], operands[1], last, **span)
        case kind if not operands:
            node = _signed(kind, last, pending.start)
        case kind if kind in _ASSOCIATIVE:
            node = Chain(kind, tuple(_flat(kind, [*operands, last])), **span)
        case kind:
            node = Binary(_SPELLINGS.get(kind, kind), operands[0], last, **span)
    return _negation(node) if pending.negated else node


def _flat(kind: str, operands: list[Expr]) -> list[Expr]:
    flat: list[Expr] = []
    for operand in operands:
        if isinstance(operand, Chain) and operand.op == kind:
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return flat


def _signed(op: str, operand: Expr, start: int) -> Expr:
    if op in "+-" and isinstance(operand, Literal) and is_number(operand.value):
        value = -operand.value if op == "-" else operand.value
        return literal(value, start=start, end=operand.end)
    return Unary(op, operand, start=start, end=operand.end)


def _negation(node: Expr) -> Expr:
    return Unary("NOT", node, start=node.start, end=node.end)


def _limit_depth(query: Query, max_depth: int) -> None:
    pending: list[tuple[Node, int]] = [(query, 0)]
    while pending:
        node, depth = pending.pop()
        depth += _QUERY_DEPTH if isinstance(node, Query) else 1
        if depth > max_depth:
            _reject_depth(node.start, node.end)
        pending.extend((child, depth) for child in children(node))


def _reject_depth(start: int, end: int) -> NoReturn:
    lexer.reject("SC1001", "Syntax error, the query is nested too deeply.", start, end)
