"""What an aggregate remembers of the rows it has seen, and how two memories become one.

Each aggregate keeps a few accumulators, plain values; a batch is reduced to partial accumulators by Arrow, single
threaded, and merged with the state column by column. Sums of floats are exact, so that order and batches are nothing to
them.
Source: JOBS "Aggregates", PROTOCOL 4, MECHANISMS C10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import polars as pl

from services.kernel.codecs.keys import canonical_floats
from services.kernel.expressions import advice
from services.kernel.expressions.parsing import ExpressionError, compile_expression, result_type
from services.kernel.expressions.parsing import may_fail as expression_may_fail
from services.kernel.operators import distinct, exact_sums, quantiles
from services.kernel.suggestions import did_you_mean

Column = list[Any] | np.ndarray
"""Arrays: of exact sums, see exact_sums.py."""
Columns = list[Column]


def as_list(column: Column) -> list[Any]:
    """As Python's own values."""
    return column.tolist() if isinstance(column, np.ndarray) else column


_CALL = re.compile(r"\s*(\w+)\s*\(\s*(.*?)\s*\)\s*", re.DOTALL)
_INT_LIMIT = 2**63
_DECIMAL_MOST = 10**38 - 1
_EXACT = Context(prec=80)
"""Python's own context rounds to 28 digits."""


def _added(old: Column, new: Column) -> Column:
    return [b if a is None else a if b is None else a + b for a, b in zip(old, new, strict=True)]


def _least(old: Column, new: Column) -> Column:
    return [b if a is None else a if b is None else min(a, b) for a, b in zip(old, new, strict=True)]


def _most(old: Column, new: Column) -> Column:
    return [b if a is None else a if b is None else max(a, b) for a, b in zip(old, new, strict=True)]


def _joined(merge: Callable[[Any, Any], Any]) -> Callable[[Column, Column], Column]:
    return lambda old, new: [b if a is None else merge(a, b) for a, b in zip(old, new, strict=True)]


def _each(merge: Callable[[Column, Column], Column]) -> Callable[[Columns, Columns], Columns]:
    return lambda old, new: [merge(a, b) for a, b in zip(old, new, strict=True)]


def _earlier(old: Columns, new: Columns) -> Columns:
    """Of (time, value) the earlier; at the same time the one that came first."""
    return _chosen(old, new, lambda a, b: b is None or (a is not None and a <= b))


def _later(old: Columns, new: Columns) -> Columns:
    return _chosen(old, new, lambda a, b: b is None or (a is not None and a > b))


def _chosen(old: Columns, new: Columns, keeps: Callable[[Any, Any], bool]) -> Columns:
    kept = [keeps(a, b) for a, b in zip(old[0], new[0], strict=True)]
    return [[a if keep else b for keep, a, b in zip(kept, x, y, strict=True)] for x, y in zip(old, new, strict=True)]


@dataclass(frozen=True, slots=True)
class Function:
    """How an aggregate is computed. reduce: Arrow functions over the value (V) or its time (T), one an accumulator."""

    reduce: tuple[tuple[str, str], ...]
    merge: Callable[[Columns, Columns], Columns]


FUNCTIONS = {
    "count": Function((("V", "count"),), _each(_added)),
    "sum": Function((("V", "sum"),), _each(_added)),
    "mean": Function((("V", "sum"), ("V", "count")), _each(_added)),
    "min": Function((("V", "min"),), _each(_least)),
    "max": Function((("V", "max"),), _each(_most)),
    "first": Function((("T", "first"), ("V", "first")), _earlier),
    "last": Function((("T", "last"), ("V", "last")), _later),
    "count_distinct": Function((("V", "distinct"),), _each(_joined(distinct.merged))),
    "quantile": Function((("V", "list"),), _each(_joined(quantiles.merged))),
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate of an operator.

    argument: the expression that is aggregated, None for count(). kind: its type; result: that of the output column.
    share: of a quantile, 0.0 to 1.0.
    """

    name: str
    function: str
    argument: pl.Expr | None
    kind: pl.DataType
    result: pl.DataType
    share: float = 0.0

    @property
    def inputs(self) -> int:
        """Number of prepared columns."""
        return 2 if self.function in ("first", "last") else 1

    @property
    def width(self) -> int:
        """Number of accumulators. An exact sum has two: its value, and its rest."""
        return len(FUNCTIONS[self.function].reduce) + self.sums_floats

    def reductions(self) -> list[tuple[str, str]]:
        """(prepared column, Arrow function) of each accumulator, and of an exact sum."""
        return [(f"_{part}_{self.name}", function) for part, function in FUNCTIONS[self.function].reduce]

    @property
    def column(self) -> str | None:
        """The column that the argument is, None where it has to be computed."""
        return (
            self.argument.meta.output_name() if self.argument is not None and self.argument.meta.is_column() else None
        )

    def prepare(self, value: pl.Series, time: pl.Series) -> list[pl.Series]:
        """The columns to be reduced: the value in a form that Arrow adds exactly, and where asked for its time."""
        value = self._exact(value).alias(f"_V_{self.name}")
        if self.function not in ("first", "last"):
            return [value]
        known = time.set(value.is_null(), None) if value.null_count() else time
        return [value, known.alias(f"_T_{self.name}")]

    def accumulators(self, reduced: pl.Series) -> Column:
        """What Arrow returned, as plain values: decimals as scaled integers."""
        if self.function == "count_distinct":
            return distinct.memories(reduced)
        if self.function == "quantile":
            return quantiles.memories(reduced)
        values = reduced.to_list()
        if isinstance(reduced.dtype, pl.Decimal) or (reduced.dtype == pl.String and self.kind != pl.String):
            return [None if value is None else int(Decimal(value).scaleb(self._scale, _EXACT)) for value in values]
        return values

    @property
    def sums_floats(self) -> bool:
        """Its first two accumulators are an exact sum, see exact_sums.py."""
        return self.function in ("sum", "mean") and self.kind.is_float()

    def merge(self, old: Columns, new: Columns) -> Columns:
        if self.sums_floats:
            return [*exact_sums.added((old[0], old[1]), (new[0], new[1])), *map(_added, old[2:], new[2:])]
        return FUNCTIONS[self.function].merge(old, new)

    def value(self, accumulators: Columns) -> pl.Series:
        """The output column. Sums beyond 64 bits, or beyond the digits of a decimal, are null."""
        if self.sums_floats:
            sums = exact_sums.values((accumulators[0], accumulators[1])).alias(self.name)
            return sums if self.function == "sum" else _quotients(sums, accumulators[2])
        values = self._plain(accumulators)
        if isinstance(self.result, pl.Datetime) or self.result == pl.Date:
            physical = pl.Int64 if isinstance(self.result, pl.Datetime) else pl.Int32
            return pl.Series(self.name, values, dtype=physical).cast(self.result)
        if isinstance(self.result, pl.Decimal):
            fit = _within(values, -_DECIMAL_MOST, _DECIMAL_MOST)
            scaled = [None if v is None else Decimal(v).scaleb(-self._scale, _EXACT) for v in fit]
            return pl.Series(self.name, scaled, dtype=self.result)
        if self.function == "sum" and self.result == pl.Int64:
            values = _within(values, -_INT_LIMIT, _INT_LIMIT - 1)
        return pl.Series(self.name, values, dtype=self.result)

    def _plain(self, accumulators: Columns) -> Column:
        if self.function == "mean":
            return self._means(*accumulators)
        if self.function == "count_distinct":
            return [distinct.count(memory) for memory in accumulators[0]]
        if self.function == "quantile":
            return [quantiles.quantile(memory, self.share) for memory in accumulators[0]]
        return accumulators[-1]

    @property
    def _scale(self) -> int:
        return self.kind.scale if isinstance(self.kind, pl.Decimal) else 0

    def _means(self, totals: Column, counts: Column) -> Column:
        """A quotient of integers is rounded once."""
        means = [total / count if count else None for total, count in zip(totals, counts, strict=True)]
        unit = 10**self._scale
        return [None if mean is None else mean / unit for mean in means] if self._scale else means

    def _exact(self, column: pl.Series) -> pl.Series:
        if self.sums_floats:
            return _numbers(column)
        if column.dtype.is_float():  # NaN is no number, in no function
            column = canonical_floats(column).fill_nan(None)
        if self.function == "count_distinct":
            return distinct.prepared(column)
        if self.function == "quantile":
            return quantiles.prepared(column)
        if isinstance(self.kind, pl.Datetime) or self.kind == pl.Date:
            return column.cast(pl.Int64 if isinstance(self.kind, pl.Datetime) else pl.Int32)
        if self.function in ("first", "last") and isinstance(self.kind, pl.Decimal):
            return column.cast(pl.String)
        if column.dtype.is_integer() and column.dtype != pl.Int64:
            column = column.cast(pl.Int64)
        if self.function in ("sum", "mean") and column.dtype == pl.Int64 and _may_overflow(column):
            return column.cast(pl.Decimal(38, 0))
        return column


def _numbers(column: pl.Series) -> pl.Series:
    """Without NaN. By numpy: an expression of polars takes 0.1 ms more, however few the rows are."""
    return column.fill_nan(None) if np.isnan(column.to_numpy()).any() else column


def _quotients(sums: pl.Series, counts: Column) -> pl.Series:
    """Null where nothing was counted."""
    return sums / pl.Series(np.asarray(counts, dtype=np.float64))


def _within(values: Column, least: int, most: int) -> Column:
    return [value if value is None or least <= value <= most else None for value in values]


def _may_overflow(column: pl.Series) -> bool:
    low, high = column.min(), column.max()
    largest = max(abs(int(low or 0)), abs(int(high or 0)))  # type: ignore[arg-type]
    return largest * len(column) >= _INT_LIMIT


def parse(name: str, text: str, schema: Mapping[str, pl.DataType]) -> Aggregate:
    """An aggregate from its text, such as `mean(delay_h)`.

    Raises:
        ExpressionError: with what is wrong and what was probably meant.
    """
    match = _CALL.fullmatch(text)
    if said := _no_single_call(text, match, list(schema)):
        raise ExpressionError(said)
    assert match is not None
    function, inner = match[1].lower(), match[2]
    if function not in FUNCTIONS:
        hint = did_you_mean(function, FUNCTIONS) or f"known: {', '.join(FUNCTIONS)}"
        raise ExpressionError(f"there is no aggregate '{function}' ({hint})")
    if not inner or inner == "*":
        if function != "count":
            raise ExpressionError(f"{function}() needs a column: {function}(column)")
        return Aggregate(name, function, None, pl.Int64(), pl.Int64())
    inner, share = _share(inner) if function == "quantile" else (inner, 0.0)
    argument = compile_expression(inner, schema)
    kind = result_type(argument, schema)
    return Aggregate(name, function, argument, kind, _result(function, kind, inner), share)


def may_fail(text: str) -> bool:
    """Whether the values of a row may make the argument of a valid aggregate raise."""
    match = _CALL.fullmatch(text)
    if match is None or not match[2] or match[2] == "*":
        return False
    inner, _ = _share(match[2]) if match[1].lower() == "quantile" else (match[2], 0.0)
    return expression_may_fail(inner)


def _no_single_call(text: str, match: re.Match[str] | None, columns: Sequence[str]) -> str:
    """Why the text is not one call of an aggregate; empty: it is one."""
    bare = advice.without_texts(text)
    calls = [(word, given) for word, given in advice.calls_of(text) if word.lower() in {*FUNCTIONS, *advice.AGGREGATES}]
    for word, given in calls:
        if advised := advice.AGGREGATES.get(word.lower()):
            return f"{word.upper()} is not there: {advised(given)}"
    if re.search(r"\b(?:FILTER\s*\(|OVER\b|WITHIN\b|DISTINCT\b)", bare, re.IGNORECASE):
        return advice.of_syntax(text, columns)
    if bare.count("(") != bare.count(")"):
        return f"'{text}' has brackets that do not match"
    if match is not None and _closes_last(bare) and (match[1].lower() in FUNCTIONS or not calls):
        return ""
    if calls:
        own = " and ".join(dict.fromkeys(f"`{word}({', '.join(given)})`" for word, given in calls))
        return (
            f"'{text}' computes with aggregates: make each a column of its own, {own}, and compute with these columns "
            "in a select operator behind the aggregate"
        )
    return f"'{text}' is no aggregate: write one of {', '.join(f'{f}(...)' for f in FUNCTIONS)}"


def _closes_last(bare: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for place, letter in enumerate(bare.rstrip()):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == ")":
            return place == len(bare.rstrip()) - 1
    return False


def _share(inner: str) -> tuple[str, float]:
    """The expression, and the number behind the last comma."""
    expression, _, text = inner.rpartition(",")
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not expression.strip() or not 0.0 <= share <= 1.0:
        raise ExpressionError("quantile needs a column and a share from 0 to 1: quantile(column, 0.95)")
    return expression.strip(), share


def _result(function: str, kind: pl.DataType, text: str) -> pl.DataType:
    """text: the argument, for messages."""
    if function == "count":
        return pl.Int64()
    if function in ("sum", "mean", "quantile") and not kind.is_numeric():
        number, share = advice.as_number(text, kind), ", 0.5" if function == "quantile" else ""
        hint = f": write `{function}({number}{share})`" if number else ""
        raise ExpressionError(f"{function} needs a number, and {text} is {advice.in_words(kind)}{hint}")
    if function in ("min", "max") and not (kind.is_numeric() or kind.is_temporal() or kind in (pl.String, pl.Boolean)):
        raise ExpressionError(
            f"{function} needs values that have an order, and {text} is {advice.in_words(kind)}{_taken_out(text, kind)}"
        )
    if kind.is_nested():
        raise ExpressionError(f"{function} cannot hold {advice.in_words(kind)}{_taken_out(text, kind)}")
    if function == "count_distinct":
        return pl.Int64()
    if function in ("mean", "quantile"):
        return pl.Float64()
    if kind.is_integer():
        return pl.Int64()
    if kind.is_float():
        return pl.Float64()
    if isinstance(kind, pl.Decimal):
        return pl.Decimal(38, kind.scale) if function == "sum" else kind
    return kind


def _taken_out(text: str, kind: pl.DataType) -> str:
    """The hint that takes a plain value out of a nested one."""
    if isinstance(kind, pl.List):
        return f": take one element, `{text}[1]`"
    return f": take one field, `{text}.{kind.fields[0].name}`" if isinstance(kind, pl.Struct) and kind.fields else ""
