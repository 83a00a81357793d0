"""Tokens into a syntax tree, or the problem and its place.

Clauses are recursive descent. Expressions are operator precedence with a list of waiting
operators instead of the call stack, because generated queries nest a pair of parentheses for
every term. What still nests is limited, so that no text can exhaust the stack of a later stage.
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

# Levels of the tree, and what a subquery counts for: running one takes a chain of iterators.
MAX_DEPTH: Final = 200
_QUERY_DEPTH: Final = 10
# Brackets, calls and subqueries inside each other while parsing; a subquery counts twice.
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
    """The tree of `text`; raises QueryError for text that is no query."""
    parser = _Parser(text)
    query = parser.query()
    parser.accept(";")
    parser.expect(END)
    _limit_depth(query, max_depth)
    return query


def parse_condition(text: str) -> Query:
    """The tree of `FROM c WHERE …`, which selects its document or does not."""
    parser = _Parser(text)
    query = parser.condition()
    parser.expect(END)
    _limit_depth(query, MAX_DEPTH)
    return query


def literal(value: Any, *, start: int = 0, end: int = 0) -> Literal:
    """A constant as a node."""
    return Literal(value, canonical(value), start=start, end=end)


@dataclass(slots=True)
class _Waiting:
    """An operator without its last operand, or a bracket that is not closed yet."""

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
        # The closing token stays: whoever runs into it reports the end of the text.
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
        """Reports `token`, or the one in front, as unexpected."""
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
        """One or more things with commas between them."""
        found = [parse_one()]
        while self.accept(","):
            found.append(parse_one())
        return tuple(found)

    # --- clauses

    def query(self) -> Query:
        start = self.token.start
        self.expect("SELECT")
        select = self.select(start)
        sources: tuple[FromSource, ...] = ()
        if self.accept("FROM"):
            found = [self.source()]
            while self.accept("JOIN"):
                found.append(self.source())
            sources = tuple(found)
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
            select, sources, where, group_by, order_by, rank, offset, limit,
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
        waiting: list[_Waiting] = []
        while True:
            operand: Expr | None = self.operand(waiting)
            while operand is not None:
                kind = self.token.kind
                act = _OPERATORS.get(kind)
                if act is None or kind in _CLOSERS:
                    operand = self.reduce(waiting, operand, above=_CLOSED_BY_TOKEN)
                    if not waiting:
                        return operand
                    if act is None:
                        self.fail()
                operand = act(self, waiting, operand)

    def operand(self, waiting: list[_Waiting]) -> Expr:
        """The next operand; signs and brackets in front of it begin to wait."""
        while True:
            token = self.token
            level = _PREFIXES.get(token.kind)
            if level is None:
                if token.kind != "(" or self.next_kind == "SELECT":
                    return self.postfix(self.primary())
                level = _CLOSED_BY_TOKEN
            waiting.append(_Waiting(token.kind, level, [], token.start))
            self.advance()

    def reduce(self, waiting: list[_Waiting], operand: Expr, *, above: int) -> Expr:
        """`operand` after every waiting operator that binds tighter than `above` has taken it."""
        while waiting and waiting[-1].level > above:
            operand = _completed(waiting.pop(), operand)
        return operand

    def reduce_for(self, waiting: list[_Waiting], operand: Expr, level: int) -> Expr:
        """Makes room for an operator of `level`, which may not stand between BETWEEN and AND."""
        operand = self.reduce(waiting, operand, above=level - 1)
        if level < _BIT_OR and waiting and waiting[-1].kind == "BETWEEN":
            self.fail()
        return operand

    def binary(self, waiting: list[_Waiting], operand: Expr) -> None:
        kind = self.token.kind
        level = _LEVELS[kind]
        operand = self.reduce(waiting, operand, above=level)
        top = waiting[-1] if waiting else None
        if top is not None and top.kind == kind and top.level == level and kind in _ASSOCIATIVE:
            top.operands.append(operand)
        elif top is not None and top.kind == "BETWEEN" and kind == "AND":
            top.level = _RELATIONAL
            top.operands.append(operand)
        else:
            operand = self.reduce_for(waiting, operand, level)
            waiting.append(_Waiting(kind, level, [operand], operand.start))
        self.advance()

    def negated(self, waiting: list[_Waiting], operand: Expr) -> Expr | None:
        if self.next_kind not in ("IN", "BETWEEN", "LIKE"):
            self.fail()
        self.advance()
        act = _OPERATORS[self.token.kind]
        found = act(self, waiting, operand)
        if found is None:
            waiting[-1].negated = True
            return None
        return _negation(found)

    def membership(self, waiting: list[_Waiting], operand: Expr) -> Expr:
        operand = self.reduce_for(waiting, operand, _RELATIONAL)
        self.advance()
        self.expect("(")
        self.enter(1)
        items = self.listed(self.expression)
        self.nesting -= 1
        end = self.expect(")").end
        return In(operand, items, start=operand.start, end=end)

    def like(self, waiting: list[_Waiting], operand: Expr) -> None:
        operand = self.reduce_for(waiting, operand, _RELATIONAL)
        waiting.append(_Waiting("LIKE", _RELATIONAL, [operand], operand.start))
        self.advance()

    def escape(self, waiting: list[_Waiting], operand: Expr) -> Expr:
        operand = self.reduce(waiting, operand, above=_RELATIONAL)
        if not waiting or waiting[-1].kind != "LIKE":
            self.fail()
        self.advance()
        token = self.expect(STRING)
        if len(token.value) != 1:
            self.fail(token)
        like = waiting.pop()
        node = Like(like.operands[0], operand, token.value, start=like.start, end=token.end)
        return _negation(node) if like.negated else node

    def between(self, waiting: list[_Waiting], operand: Expr) -> None:
        operand = self.reduce_for(waiting, operand, _RELATIONAL)
        waiting.append(_Waiting("BETWEEN", _CLOSED_BY_TOKEN, [operand], operand.start))
        self.advance()

    def test(self, waiting: list[_Waiting], operand: Expr) -> None:
        # Right associative: an earlier conditional goes on waiting for all of this one.
        operand = self.reduce_for(waiting, operand, _CONDITIONAL + 1)
        waiting.append(_Waiting("?", _CLOSED_BY_TOKEN, [operand], operand.start))
        self.advance()

    def otherwise(self, waiting: list[_Waiting], operand: Expr) -> None:
        top = waiting[-1]
        if top.kind != "?" or top.level != _CLOSED_BY_TOKEN:
            self.fail()
        top.level = _CONDITIONAL
        top.operands.append(operand)
        self.advance()

    def close(self, waiting: list[_Waiting], operand: Expr) -> Expr:
        if waiting[-1].kind != "(":
            self.fail()
        waiting.pop()
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
        # The service wants brackets around a keyword; nothing else could be meant here.
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


_Operator: TypeAlias = Callable[[_Parser, list[_Waiting], Expr], Expr | None]
# What may follow an operand; each leaves either an operand or, with None, the need for one.
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
# Operators that end the whole expression when nothing in it waits for them.
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


def _completed(waiting: _Waiting, last: Expr) -> Expr:
    """The node of an operator that has its last operand."""
    operands, span = waiting.operands, {"start": waiting.start, "end": last.end}
    node: Expr
    match waiting.kind:
        case "LIKE":
            node = Like(operands[0], last, None, **span)
        case "BETWEEN":
            node = Between(operands[0], operands[1], last, **span)
        case "?":
            node = Conditional(operands[0], operands[1], last, **span)
        case kind if not operands:
            node = _signed(kind, last, waiting.start)
        case kind if kind in _ASSOCIATIVE:
            node = Chain(kind, tuple(_flat(kind, [*operands, last])), **span)
        case kind:
            node = Binary(_SPELLINGS.get(kind, kind), operands[0], last, **span)
    return _negation(node) if waiting.negated else node


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
