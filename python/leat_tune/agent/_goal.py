# SPDX-License-Identifier: BSD-3-Clause
"""Goals: an expression to maximise or minimise, and guards that must hold meanwhile.

    goal     = ("max" | "min") sum ["where" guard {"and" guard}]
    guard    = sum ("<" | "<=" | ">" | ">=") number
    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = number | measure | "(" sum ")" | "-" factor
    number   = digits, with an optional fraction and exponent: 50, 0.5, 1e6
    measure  = name | name "." name | name "." object "." name

A measure has the name that `leat-tune agent --list-goals` prints. Component and object may be left
out if the name is unique without them. An object may be a glob: reactor.*.turns_per_second.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LENGTH_MAX = 1000
_DEPTH_MAX = 32
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])"
    r"|(?P<name>[A-Za-z_]\w*(?:\.(?:[\w#:@?*\[\]-]+\.){0,8}[A-Za-z_]\w*)?)"
    r"|(?P<op><=|>=|[-+*/()<>])"
    r"|(?P<end>$))"
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_WORDS = ("max", "min", "where", "and")

Values = Mapping[str, float]
Tree = tuple  # ("number", 1.0), ("measure", "p99_us"), ("+", a, b), ("-", a)


class GoalError(ValueError):
    """A goal with a syntax error; the message says where."""


class Missing(Exception):
    """An expression has no value: nothing was counted, or a division by zero."""


def _value(tree: Tree, values: Values) -> float:
    kind = tree[0]
    if kind == "number":
        return tree[1]
    if kind == "measure":
        value = values.get(tree[1])
        if value is None or not math.isfinite(value):
            raise Missing(f"{tree[1]} has no value")
        return value
    if len(tree) == 2:
        return -_value(tree[1], values)
    a, b = _value(tree[1], values), _value(tree[2], values)
    if kind == "/" and b == 0:
        raise Missing("division by zero")
    result = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[kind](
        a, b
    )
    if not math.isfinite(result):
        raise Missing("a number that is too large")
    return result


def _names(tree: Tree) -> list[str]:
    if tree[0] == "measure":
        return [tree[1]]
    return [name for part in tree[1:] if isinstance(part, tuple) for name in _names(part)]


@dataclass(frozen=True)
class Guard:
    """A guard: a comparison that must hold."""

    text: str
    tree: Tree
    compare: str
    limit: float

    def value(self, values: Values) -> float:
        """Return the value of the guard's expression; raise Missing if there is none."""
        return _value(self.tree, values)

    def holds(self, value: float) -> bool:
        """Whether the guard holds with this value."""
        return _COMPARE[self.compare](value, self.limit)

    def excess(self, value: float) -> float:
        """Return how far a value is beyond the limit, relative to it; 0 if the guard holds."""
        if self.holds(value):
            return 0.0
        return max(abs(value - self.limit) / (abs(self.limit) or 1.0), 1e-9)


@dataclass(frozen=True)
class Goal:
    """A goal. value() is the expression's value, whether it is to be maximised or minimised."""

    text: str
    maximum: bool
    tree: Tree
    guards: tuple[Guard, ...]

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Parse a goal; raise GoalError."""
        return _Parser(text).goal()

    def value(self, values: Values) -> float:
        """Return the value of the goal's expression; raise Missing if there is none."""
        return _value(self.tree, values)

    @property
    def measures(self) -> list[str]:
        """Names of all measures of the goal and its guards, each once."""
        names = _names(self.tree)
        for guard in self.guards:
            names += _names(guard.tree)
        return list(dict.fromkeys(names))


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise GoalError(f"a goal has at most {LENGTH_MAX} characters")
        self._text = text
        self._at = 0
        self._depth = 0
        self._next()

    def _next(self) -> None:
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            rest = self._text[self._at :].lstrip()
            self._begin = len(self._text) - len(rest)
            raise self._wrong(f"'{rest[:16]}' is neither a number, a name nor an operator")
        self._kind = match.lastgroup
        self._token = match.group(self._kind or 0)
        self._begin = match.start(self._kind or 0)
        self._at = match.end()

    def _wrong(self, words: str) -> GoalError:
        return GoalError(f"goal, column {self._begin + 1}: {words}")

    def _what(self) -> str:
        return "the end" if self._kind == "end" else f"'{self._token}'"

    def goal(self) -> Goal:
        if self._token not in ("max", "min"):
            raise self._wrong(f"'max' or 'min' comes first, not {self._what()}")
        maximum = self._token == "max"
        self._next()
        tree = self._sum()
        if not _names(tree):
            raise self._wrong("nothing is measured")
        guards = []
        if self._token == "where":
            while True:
                self._next()
                guards.append(self._guard())
                if self._token != "and":
                    break
        if self._kind != "end":
            wanted = "'and'" if guards else "'where'"
            raise self._wrong(f"{wanted}, an operator or the end is wanted, not {self._what()}")
        return Goal(self._text.strip(), maximum, tree, tuple(guards))

    def _guard(self) -> Guard:
        begin = self._begin
        tree = self._sum()
        if not _names(tree):
            raise self._wrong("nothing is measured")
        if self._token not in _COMPARE:
            raise self._wrong(f"one of < <= > >= is wanted, not {self._what()}")
        compare = self._token
        self._next()
        sign = 1.0
        if self._token == "-":
            sign = -1.0
            self._next()
        if self._kind != "number":
            raise self._wrong(f"a number is wanted, not {self._what()}")
        limit = sign * self._number()
        end = self._begin
        return Guard(self._text[begin:end].strip(), tree, compare, limit)

    def _number(self) -> float:
        value = float(self._token)
        if not math.isfinite(value):
            raise self._wrong("a number that is too large")
        self._next()
        return value

    def _sum(self) -> Tree:
        tree = self._product()
        while self._token in ("+", "-"):
            op = self._token
            self._next()
            tree = (op, tree, self._product())
        return tree

    def _product(self) -> Tree:
        tree = self._factor()
        while self._token in ("*", "/"):
            op = self._token
            self._next()
            tree = (op, tree, self._factor())
        return tree

    def _factor(self) -> Tree:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._wrong("too many parentheses")
        try:
            if self._kind == "number":
                return ("number", self._number())
            if self._kind == "name" and self._token not in _WORDS:
                tree: Tree = ("measure", self._token)
                self._next()
                return tree
            if self._token == "-":
                self._next()
                return ("-", self._factor())
            if self._token == "(":
                self._next()
                tree = self._sum()
                if self._token != ")":
                    raise self._wrong(f"')' is wanted, not {self._what()}")
                self._next()
                return tree
            raise self._wrong(f"a measure or a number is wanted, not {self._what()}")
        finally:
            self._depth -= 1
