"""The text of an aggregate: calls of aggregates, and an expression of their values.

`sum(v) FILTER (WHERE ok) / count(DISTINCT w)` is two aggregates, and an expression of their values. Other names,
DISTINCT and FILTER are replaced by their meaning: `avg(v)` is `mean(v)`, a filtered argument is a CASE.
Source: JOBS "Aggregates".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from holdfast.services.kernel.expressions import advice, brackets, function_advice
from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression, result_type
from holdfast.services.kernel.expressions.parsing import may_fail as expression_may_fail
from holdfast.services.kernel.functions.catalogue import AGGREGATE_BY_NAME, BY_NAME
from holdfast.services.kernel.operators.accumulators import FUNCTIONS, Aggregate
from holdfast.services.kernel.operators.collected import COLLECTING
from holdfast.services.kernel.operators.picks import PICKS
from holdfast.services.kernel.operators.result_types import result
from holdfast.services.kernel.suggestions import misspelt

_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_FILTER = re.compile(r"\s*FILTER\s*\(\s*WHERE\b", re.IGNORECASE)
_DISTINCT = re.compile(r"\s*DISTINCT\s+(.*)", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")
_ORDERED = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_PICKING = ("first", "last")
_OF_DISTINCT = {"count": "count_distinct", "collect_list": "collect_set", "min": "min", "max": "max"}
"""Names of aggregates over distinct values."""


class Call(NamedTuple):
    """A call of an aggregate.

    function: the first name of the aggregate.
    arguments: the texts of its arguments.
    start: the position of its begin in the text.
    stop: the position after its end in the text.
    """

    function: str
    arguments: list[str]
    start: int
    stop: int
    written: str
    """The name in the text, in small letters."""


class Parsed(NamedTuple):
    """The aggregates of a text.

    aggregates: the aggregates that it calls.
    expression: the computation over their columns; None: the text is one aggregate.
    kind: the type of the result.
    """

    aggregates: list[Aggregate]
    expression: pl.Expr | None
    kind: pl.DataType

    @property
    def may_be_null(self) -> bool:
        return self.expression is not None or self.aggregates[0].function not in ("count", "count_distinct")


def parse(name: str, text: str, schema: Mapping[str, pl.DataType]) -> Parsed:
    """The aggregates and expression of a text, such as `mean(delay_h)`.

    Raises:
        ExpressionError: the text has mistakes; the message has the mistakes and suggestions.
    """
    found = calls(text)
    bare = _QUOTED.sub("''", text)
    if not found or bare.count("(") != bare.count(")"):
        raise ExpressionError(_no_call(text, list(schema)))
    if _is_whole(text, found):
        only = _aggregate(name, found[0], schema)
        return Parsed([only], None, only.result)
    if re.search(r"\b(?:OVER|WITHIN)\b", bare, re.IGNORECASE):
        raise ExpressionError(advice.of_syntax(text, list(schema)))
    aggregates = [_aggregate(f"_{index}_{name}", call, schema) for index, call in enumerate(found)]
    columns = {one.name: one.result for one in aggregates}
    outer = _outer(name, text, found)
    try:
        expression = compile_expression(outer, columns)
    except ExpressionError as error:
        if alone := [column for column in schema if re.search(rf"\b{re.escape(column)}\b", _QUOTED.sub("''", outer))]:
            said = f"'{alone[0]}' stands outside of an aggregate in '{text}': write `max({alone[0]})`"
            raise ExpressionError(said) from None
        raise ExpressionError(*(_as_written(one, name, text, found) for one in error.mistakes)) from error
    if expression_may_fail(outer, of_numbers=True):
        raise ExpressionError(
            f"'{text}' computes with aggregates in a way that can fail at a row: make each a column of its own, and "
            "compute in a select operator behind the aggregate"
        )
    return Parsed(aggregates, expression, result_type(expression, columns))


def may_fail(text: str) -> bool:
    """True if the values of a row may make an argument of valid aggregates raise."""
    return any(_may_fail(call) for call in calls(text))


def _may_fail(call: Call) -> bool:
    given = call.arguments[: 2 if call.function in PICKS else 1]
    return any(expression_may_fail(one) for one in given if one != "*")


def _is_whole(text: str, calls: Sequence[Call]) -> bool:
    return len(calls) == 1 and not (text[: calls[0].start] + text[calls[0].stop :]).strip()


def _outer(name: str, text: str, calls: Sequence[Call]) -> str:
    """The text with columns in place of the aggregates."""
    parts, begin, quote = list[str](), 0, "" if re.fullmatch(r"\w+", name) else '"'
    for index, call in enumerate(calls):
        parts += [text[begin : call.start], f"{quote}_{index}_{name}{quote}"]
        begin = call.stop
    return "".join((*parts, text[begin:]))


def _as_written(mistake: str, name: str, text: str, calls: Sequence[Call]) -> str:
    """The text of a mistake, with the aggregates as written in place of their column names."""
    for index, call in enumerate(calls):
        mistake = mistake.replace(f"_{index}_{name}", text[call.start : call.stop])
    return mistake


# -- calls -----------------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """A call of an aggregate as it is written.

    name: its name, in small letters.
    arguments: the texts of its arguments.
    condition: the condition of its FILTER; empty: there is none.
    start: the position of its begin in the text.
    stop: the position after its end in the text.
    """

    name: str
    arguments: list[str]
    condition: str
    start: int
    stop: int


def calls(text: str) -> list[Call]:
    """The outermost calls of aggregates. Raises ExpressionError for a form that is not there."""
    return [
        Call(*_meant(one.name, one.arguments, one.condition), one.start, one.stop, one.name) for one in written(text)
    ]


def written(text: str) -> Iterator[Written]:
    """The outermost calls of aggregates, whether their form is there or not."""
    blank, begin = brackets.blanked(text), 0
    for match in _CALL.finditer(blank):
        if match.start() < begin or match[1].lower() not in AGGREGATE_BY_NAME:
            continue
        stop = brackets.closing(blank, match.end())
        given, condition = brackets.split(text, blank, match.end(), stop - 1), ""
        if filtered := _FILTER.match(blank, stop):
            end = brackets.closing(blank, filtered.end())
            condition, stop = text[filtered.end() : end - 1].strip(), end
        yield Written(match[1].lower(), given, condition, match.start(), stop=stop)
        begin = stop


def _meant(name: str, given: list[str], condition: str) -> tuple[str, list[str]]:
    """The first name of an aggregate, and its arguments without DISTINCT and FILTER."""
    function = AGGREGATE_BY_NAME[name].name
    if any(_ORDERED.search(brackets.blanked(one)) for one in given):
        order = "its values are in the order of event time" if function in COLLECTING else "it needs none"
        by = ", and min_by and max_by take the value at the least or largest other one" if function in _PICKING else ""
        raise ExpressionError(f"{name}(... ORDER BY ...) is not there: {order}{by}")
    if given and (distinct := _DISTINCT.fullmatch(given[0])):
        if function not in _OF_DISTINCT:
            raise ExpressionError(
                f"{name}(DISTINCT ...) is not there: drop rows that repeat by a dedup operator before the aggregate"
            )
        function, given = _OF_DISTINCT[function], [distinct[1], *given[1:]]
    if function == "median":
        function, given = "quantile", [*given, "0.5"]
    if function == "count_if":
        if len(given) != 1:
            raise ExpressionError("count_if needs a condition: count_if(v > 0)")
        condition = f"({given[0]}) AND ({condition})" if condition else given[0]
        function, given = "count", []
    if condition:
        value = given[0] if given and given != ["*"] else "1"
        given = [f"CASE WHEN {condition} THEN {value} END", *given[1:]]
    return function, given


def _aggregate(name: str, call: Call, schema: Mapping[str, pl.DataType]) -> Aggregate:
    try:
        return _of_call(name, call, schema)
    except ExpressionError as error:
        raise ExpressionError(*(_under_its_name(one, call) for one in error.mistakes)) from error


def _under_its_name(mistake: str, call: Call) -> str:
    """The advice about an aggregate, under the name in the text."""
    if call.written == "median":
        mistake = re.sub(r"(`quantile\(.*), 0\.5\)`", r"\1)`", mistake)
    elif AGGREGATE_BY_NAME[call.written].name != call.function:  # count(DISTINCT v)
        return mistake
    return re.sub(rf"\b{call.function}(?=\(| needs| cannot| takes)", call.written, mistake)


def _of_call(name: str, call: Call, schema: Mapping[str, pl.DataType]) -> Aggregate:
    function, given = call.function, call.arguments
    if inside := [one for argument in given for one in calls(argument)]:
        raise ExpressionError(
            f"{inside[0].written} stands inside of {function}(...): make it a column of an aggregate operator, and "
            "put a second aggregate operator behind that"
        )
    if not given or given == ["*"]:
        if function != "count":
            raise ExpressionError(f"{function}() needs a column: {AGGREGATE_BY_NAME[function].signature}")
        return Aggregate(name, function, None, pl.Int64(), result=pl.Int64())
    share, between = 0.0, ""
    if function == "quantile":
        given, share = _share(given)
    elif function == "string_agg":
        given, between = _between(given)
    if function in PICKS:
        return _pick(name, function, given, schema)
    if len(given) > 1:
        one = f": of several columns make one, `{function}(CONCAT_WS(',', {', '.join(given)}))`"
        hint = one if function in ("count_distinct", "collect_set") else f": {AGGREGATE_BY_NAME[function].signature}"
        raise ExpressionError(f"{function} takes one column, and is given {len(given)}{hint}")
    inner = ", ".join(given)
    argument = compile_expression(inner, schema)
    kind = result_type(argument, schema)
    return Aggregate(name, function, argument, kind, result=result(function, kind, inner), share=share, between=between)


def _pick(name: str, function: str, given: Sequence[str], schema: Mapping[str, pl.DataType]) -> Aggregate:
    if len(given) != 2:
        raise ExpressionError(f"{function} needs two columns: {AGGREGATE_BY_NAME[function].signature}")
    value, by = (compile_expression(one, schema) for one in given)
    kind, by_kind = result_type(value, schema), result_type(by, schema)
    result("max", by_kind, given[1])
    argument = pl.struct(by.alias("by"), value.alias("value"))
    return Aggregate(name, function, argument, kind, result=result(function, kind, given[0]), by_kind=by_kind)


def _share(given: list[str]) -> tuple[list[str], float]:
    """The expression, and the number after it."""
    try:
        share = float(given[-1])
    except ValueError:
        share = -1.0
    if len(given) != 2 or not 0.0 <= share <= 1.0:
        raise ExpressionError("quantile needs a column and a share from 0 to 1: quantile(column, 0.95)")
    return given[:1], share


def _between(given: list[str]) -> tuple[list[str], str]:
    if len(given) == 1:
        return given, ","
    if len(given) != 2 or not re.fullmatch(r"'(?:[^']|'')*'", given[1]):
        raise ExpressionError("string_agg needs a column and a text in single quotes: string_agg(column, ', ')")
    return given[:1], given[1][1:-1].replace("''", "'")


# -- what is wrong ----------------------------------------------------------------------------------------------------


def _no_call(text: str, columns: Sequence[str]) -> str:
    """The reason why the text has no aggregate."""
    bare = advice.without_texts(text)
    for word, given in advice.calls_of(text):
        if advised := function_advice.AGGREGATES.get(word.lower()):
            return f"{word.upper()} is not there: {advised(given)}"
    if said := re.search(r"\b(?:OVER|WITHIN|DISTINCT)\b", bare, re.IGNORECASE) and advice.of_syntax(text, columns):
        return said
    if bare.count("(") != bare.count(")"):
        return f"'{text}' has brackets that do not match"
    if of_one_row := next((word for word, _ in advice.calls_of(text) if word.upper() in BY_NAME), ""):
        return (
            f"{of_one_row.upper()} computes a value of one row, and there is no aggregate in '{text}': put an "
            "aggregate around it, such as max(...), or compute it in a select operator before the aggregate"
        )
    if said := advice.of_function(text) or advice.of_syntax(text, columns):
        return said
    if match := re.fullmatch(r"\s*(\w+)\s*\(.*\)\s*", text, re.DOTALL):
        hint = misspelt(match[1].lower(), AGGREGATE_BY_NAME) or f"known: {', '.join(FUNCTIONS)}"
        return f"there is no aggregate '{match[1].lower()}' ({hint})"
    known = ", ".join(f"{name}(...)" for name in FUNCTIONS if name not in COLLECTING)
    return f"'{text}' is no aggregate: put one around it, or around each column in it: {known}"
