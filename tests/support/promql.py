"""Part of PromQL that our alerts and dashboards use: read into a tree, and computed over what was scraped.

`promtool` is asked as well where it is installed (tests/unit/test_alerts.py). Differences that do not matter here: no
staleness markers but those of a scrape that lacks a series, and no native histograms.
"""

from __future__ import annotations

import math
import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

LOOKBACK_S = 300.0
SUBQUERY_STEP_S = 15.0

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+(?:\.\d+)?(?![\w.]))|(?P<duration>(?:\d+(?:ms|[smhd]))+)|(?P<word>[A-Za-z_]\w*)
    |(?P<text>"[^"]*")|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^><={}()\[\],:]))""",
    re.VERBOSE,
)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum, "max": max, "min": min, "count": len, "avg": lambda values: sum(values) / len(values),
}  # fmt: skip
_ORDER = ({"or"}, {"and", "unless"}, {"==", "!=", ">", "<", ">=", "<="}, {"+", "-"}, {"*", "/"})
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_COMPUTE: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": lambda a, b: a / b if b else math.nan,
}  # fmt: skip

Labels = frozenset[tuple[str, str]]
"""Without the name of the metric."""
Vector = dict[Labels, float]
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Matcher:
    label: str
    sign: str
    value: str

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.label, "")
        same = found == self.value if self.sign in ("=", "!=") else re.fullmatch(self.value, found) is not None
        return same == (self.sign in ("=", "=~"))


@dataclass(frozen=True, slots=True)
class Selector:
    """range_s: None: of one instant."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    range_s: float | None = None
    offset_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Subquery:
    of: Node
    range_s: float
    step_s: float
    offset_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    given: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """without: `labels` are those that go."""

    name: str
    of: Node
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True, slots=True)
class Binary:
    """on: the labels that must agree; None: all. many: labels taken over from the one side, with group_left."""

    sign: str
    left: Node
    right: Node
    on: tuple[str, ...] | None = None
    many: tuple[str, ...] | None = None


Node = Number | Selector | Subquery | Call | Aggregate | Binary


# -- reading ----------------------------------------------------------------------------------------------------------


def parse(text: str) -> Node:
    """Raises ValueError."""
    reader = _Reader(list(_tokens(text)))
    found = reader.expression()
    reader.expect("")
    return found


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"cannot read {text[at:]!r}")
        assert found.lastgroup is not None
        yield found.lastgroup, found[found.lastgroup]
        at = found.end()


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = [*tokens, ("end", "")]

    def expression(self, level: int = 0) -> Node:
        if level == len(_ORDER):
            return self._ranged(self._one())
        left = self.expression(level + 1)
        while self._next in _ORDER[level]:
            sign = self._take()
            on, many = self._matching()
            left = Binary(sign, left, self.expression(level + 1), on, many)
        return left

    def expect(self, text: str) -> None:
        if self._next != text:
            raise ValueError(f"expected {text!r} and found {self._next!r}")
        self._tokens.pop(0)

    @property
    def _next(self) -> str:
        return self._tokens[0][1]

    def _take(self, kind: str = "") -> str:
        found, text = self._tokens.pop(0)
        if kind and found != kind:
            raise ValueError(f"expected a {kind} and found {text!r}")
        return text

    def _matching(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        on = many = None
        if self._next == "on":
            self._take()
            on = self._names()
        if self._next == "group_left":
            self._take()
            many = self._names()
        return on, many

    def _names(self) -> tuple[str, ...]:
        self.expect("(")
        found = []
        while self._next != ")":
            found.append(self._take("word"))
            if self._next == ",":
                self._take()
        self._take()
        return tuple(found)

    def _one(self) -> Node:
        kind, text = self._tokens.pop(0)
        if kind == "number":
            return Number(float(text))
        if text == "(":
            found = self.expression()
            self.expect(")")
            return found
        if kind != "word":
            raise ValueError(f"unexpected {text!r}")
        if text in _AGGREGATES:
            return self._aggregate(text)
        return self._call(text) if self._next == "(" else Selector(text, self._matchers())

    def _aggregate(self, name: str) -> Aggregate:
        kind, labels = (self._take(), self._names()) if self._next in ("by", "without") else ("", ())
        (of,) = self._call(name).given
        if not kind and self._next in ("by", "without"):
            kind, labels = self._take(), self._names()
        return Aggregate(name, of, labels, kind == "without")

    def _call(self, name: str) -> Call:
        self.expect("(")
        given = [self.expression()]
        while self._next == ",":
            self._take()
            given.append(self.expression())
        self.expect(")")
        return Call(name, tuple(given))

    def _matchers(self) -> tuple[Matcher, ...]:
        found = []
        if self._next == "{":
            self._take()
            while self._next != "}":
                label, sign = self._take("word"), self._take("sign")
                found.append(Matcher(label, sign, self._take("text").strip('"')))
                if self._next == ",":
                    self._take()
            self._take()
        return tuple(found)

    def _ranged(self, node: Node) -> Node:
        range_s = step_s = None
        if self._next == "[":
            self._take()
            range_s = seconds(self._take("duration"))
            if self._next == ":":
                self._take()
                step_s = SUBQUERY_STEP_S if self._next == "]" else seconds(self._take("duration"))
            self.expect("]")
        offset_s = 0.0
        if self._next == "offset":
            self._take()
            offset_s = seconds(self._take("duration"))
        if range_s is not None and step_s is not None:
            return Subquery(node, range_s, step_s, offset_s)
        if range_s is None and not offset_s:
            return node
        if not isinstance(node, Selector):
            raise ValueError("a range or an offset of what is no selector")
        return Selector(node.name, node.matchers, range_s, offset_s)


def seconds(duration: str) -> float:
    return sum(float(count) * _SECONDS[unit] for count, unit in re.findall(r"(\d+)(ms|[smhd])", duration))


def nodes(node: Node) -> Iterator[Node]:
    """The tree from its root."""
    yield node
    match node:
        case Subquery(of) | Aggregate(_, of):
            yield from nodes(of)
        case Call(_, given):
            for one in given:
                yield from nodes(one)
        case Binary(_, left, right):
            yield from nodes(left)
            yield from nodes(right)


# -- computing --------------------------------------------------------------------------------------------------------


@dataclass
class Scrapes:
    """Samples of each target, by time: vectors by the name of their metric."""

    times: dict[str, list[float]] = field(default_factory=dict)
    found: dict[str, list[dict[str, Vector]]] = field(default_factory=dict)

    def add(self, at_s: float, instance: str, series: dict[str, Vector]) -> None:
        """In the order of time."""
        self.times.setdefault(instance, []).append(at_s)
        self.found.setdefault(instance, []).append(series)

    def points(self, selector: Selector, from_s: float, to_s: float) -> dict[Labels, Points]:
        """Points of each series, both ends included."""
        points: dict[Labels, Points] = {}
        for instance, times in self.times.items():
            for index in range(bisect_right(times, to_s)):
                if times[index] >= from_s:
                    for labels, value in self._chosen(selector, self.found[instance][index]):
                        points.setdefault(labels, []).append((times[index], value))
        return points

    def at(self, selector: Selector, now_s: float) -> Vector:
        """The last value of each series, unless the last scrape of its target lacks it."""
        vector: Vector = {}
        for instance, times in self.times.items():
            index = bisect_right(times, now_s) - 1
            if index >= 0 and now_s - times[index] < LOOKBACK_S:
                vector |= dict(self._chosen(selector, self.found[instance][index]))
        return vector

    @staticmethod
    def _chosen(selector: Selector, series: dict[str, Vector]) -> Iterator[tuple[Labels, float]]:
        for labels, value in series.get(selector.name, {}).items():
            if all(matcher.holds(dict(labels)) for matcher in selector.matchers):
                yield labels, value


def evaluate(node: Node, scrapes: Scrapes, now_s: float) -> Vector:
    """An instant vector; a number is one without labels."""
    match node:
        case Number(value):
            return {frozenset(): value}
        case Selector():
            return scrapes.at(node, now_s - node.offset_s)
        case Aggregate():
            return _aggregated(node, evaluate(node.of, scrapes, now_s))
        case Call("absent", (of,)):
            assert isinstance(of, Selector)
            known = frozenset((one.label, one.value) for one in of.matchers if one.sign == "=")
            return {} if evaluate(of, scrapes, now_s) else {known: 1.0}
        case Call(name, (of,)) if name in _RANGED:
            ranges, from_s, to_s = _ranges(of, scrapes, now_s)
            found = {labels: _RANGED[name](points, from_s, to_s) for labels, points in ranges.items()}
            return {labels: value for labels, value in found.items() if value is not None}
        case Binary():
            return _combined(node, evaluate(node.left, scrapes, now_s), evaluate(node.right, scrapes, now_s))
    raise NotImplementedError(f"no alert uses {node}")


def _ranges(of: Node, scrapes: Scrapes, now_s: float) -> tuple[dict[Labels, Points], float, float]:
    assert isinstance(of, Selector | Subquery)
    assert of.range_s is not None
    to_s = now_s - of.offset_s
    from_s = to_s - of.range_s
    if isinstance(of, Selector):
        return scrapes.points(of, from_s, to_s), from_s, to_s
    points: dict[Labels, Points] = {}
    at_s = math.ceil(from_s / of.step_s) * of.step_s
    while at_s <= to_s:
        for labels, value in evaluate(of.of, scrapes, at_s).items():
            points.setdefault(labels, []).append((at_s, value))
        at_s += of.step_s
    return points, from_s, to_s


def _increase(points: Points, from_s: float, to_s: float) -> float | None:
    """Increase as Prometheus extrapolates it to the ends of the range."""
    if len(points) < 2:
        return None
    (first_s, first), (last_s, _) = points[0], points[-1]
    grown = sum(b - a if b >= a else b for (_, a), (_, b) in pairwise(points))
    mean_s = (last_s - first_s) / (len(points) - 1)
    before_s, after_s = first_s - from_s, to_s - last_s
    if grown > 0 and first >= 0:
        before_s = min(before_s, (last_s - first_s) * first / grown)
    reach_s = last_s - first_s
    reach_s += before_s if before_s < 1.1 * mean_s else mean_s / 2
    reach_s += after_s if after_s < 1.1 * mean_s else mean_s / 2
    return grown * reach_s / (last_s - first_s)


_RANGED: Mapping[str, Callable[[Points, float, float], float | None]] = {
    "increase": _increase,
    "min_over_time": lambda points, _from, _to: min(value for _, value in points),
    "max_over_time": lambda points, _from, _to: max(value for _, value in points),
}


def _aggregated(node: Aggregate, vector: Vector) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        kept = frozenset(pair for pair in labels if (pair[0] in node.labels) != node.without)
        groups.setdefault(kept, []).append(value)
    return {labels: float(_AGGREGATES[node.name](values)) for labels, values in groups.items()}


def _combined(node: Binary, left: Vector, right: Vector) -> Vector:
    """Scalars stand on the right alone. Of vectors: one to one."""
    assert node.many is None, "no alert uses group_left"

    def shared(labels: Labels) -> Labels:
        return labels if node.on is None else frozenset(pair for pair in labels if pair[0] in node.on)

    others = {shared(labels): value for labels, value in right.items()}
    if node.sign == "or":
        seen = {shared(labels) for labels in left}
        return left | {labels: value for labels, value in right.items() if shared(labels) not in seen}
    if node.sign in ("and", "unless"):
        return {labels: v for labels, v in left.items() if (shared(labels) in others) == (node.sign == "and")}
    scalar = next(iter(right.values())) if isinstance(node.right, Number) else None
    found: Vector = {}
    for labels, value in left.items():
        other: Any = scalar if scalar is not None else others.get(shared(labels))
        if other is None:
            continue
        if node.sign in _COMPUTE:
            found[labels] = _COMPUTE[node.sign](value, other)
        elif _COMPARE[node.sign](value, other):
            found[labels] = value
    return found
