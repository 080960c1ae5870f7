"""Types of columns behind a mistake in a job file, so that a check also finds mistakes further down the stream.

A column without a known type is open. An open column is tried with one type after another. A mistake is reported if it
appears with every type, and not reported if one type avoids it. So an open type causes no false report and hides only
mistakes that depend on it. Source: JOBS "Every error of a job file is reported at once".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.schemas.jobs import Source
from holdfast.schemas.operator_settings import AggregateSettings, SelectSettings, operator_settings
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.codecs import fields as field_types
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.expressions import stars
from holdfast.services.kernel.expressions.parsing import ExpressionError, name_of
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.kind import Stream

CANDIDATES = ("int?", "string?", "timestamp?", "bool?", "float?", "date?", "bytes?", "decimal(38,9)?", "list<string?>?")
"""Types with which an open column is tried."""
_SAME_ROWS = ("filter", "dedup")
FOREIGN = ("python", "spark")
"""Kinds of operators whose output only foreign code can describe. That code is not called with types that are tried."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """A stream in which some columns have no known type yet.

    Attributes:
        stream: the columns and their types; an open column has the first candidate as its type.
        open: names of the open columns.
    """

    stream: Stream
    open: frozenset[str]


def of_source(source: Source) -> Assumed:
    """The columns that a source declares; a column with a faulty type is open."""
    found, open_ = {}, set()
    for name, kind in source.types.items():
        try:
            field_types.dtype(kind)
            found[name] = kind
        except ValueError:
            found[name] = CANDIDATES[0]
            open_.add(name)
    key = tuple(source.table or ())
    if source.table is not None:
        found[field_types.DELETED] = "bool?"
    return Assumed(Stream(found, key), frozenset(open_))


def describe(
    kind: str, params: Mapping[str, Any], inputs: Sequence[Stream | Assumed]
) -> tuple[list[Problem], Assumed | None]:
    """Returns the problems that hold for every type of the open columns, and the assumed output of the operator; None
    as output if nothing about the output can be assumed."""
    if kind in FOREIGN:
        return [], None
    made: list[Stream] = []
    found: list[list[Problem]] = []
    for streams in _tried(inputs):
        try:
            made.append(catalogue.describe(kind, params, streams))
            found.append([])
        except JobRejected as error:
            found.append(list(error.problems))
    first, *others = found
    of_open = frozenset(name for one in inputs if isinstance(one, Assumed) for name in one.open)
    always = [one for one in first if all(_among(one, other) for other in others) and not _inner(one, params, of_open)]
    if made:
        return always, _agreed(made)
    streams = [one if isinstance(one, Stream) else one.stream for one in inputs]
    left = behind(kind, params, streams)
    return always, None if left is None else Assumed(left.stream, left.open | (of_open & left.stream.fields.keys()))


def behind(kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Assumed | None:
    """The assumed output of an operator that has problems; None if nothing about the output can be assumed."""
    if kind in _SAME_ROWS:
        return Assumed(inputs[0], frozenset())
    settings = operator_settings(kind, params)
    if isinstance(settings, SelectSettings):
        items = _selected(settings.select, list(inputs[0].fields))
        return _of_columns(items, kind, params, inputs)
    if isinstance(settings, AggregateSettings):
        key = [name for name in settings.key if name in inputs[0].fields]
        bounds = () if settings.window is None else ("window_start", "window_end")
        typed = {name: inputs[0].fields[name] for name in key} | dict.fromkeys(bounds, "timestamp")
        return Assumed(Stream(typed | dict.fromkeys(settings.aggregate, CANDIDATES[0])), frozenset(settings.aggregate))
    return None


def _selected(items: Sequence[str], columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    for item in items:
        try:
            yield from ((name_of(one, columns), one) for one in stars.expanded([item], columns))
        except ExpressionError:
            continue


def _of_columns(
    items: Iterator[tuple[str, str]], kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]
) -> Assumed:
    """The columns of a select: an item without a mistake has its type, every other item is open."""
    found: dict[str, str] = {}
    open_: set[str] = set()
    for name, item in items:
        try:
            found |= catalogue.describe(kind, {**params, "select": [item]}, inputs).fields
        except JobRejected:
            found[name] = CANDIDATES[0]
            open_.add(name)
    return Assumed(Stream(found), frozenset(open_))


def _tried(inputs: Sequence[Stream | Assumed]) -> Iterator[list[Stream]]:
    """Yields the inputs once for each candidate, with that candidate as the type of every open column. All inputs have
    the same candidate, so a join of two streams has equal types."""
    for candidate in CANDIDATES:
        yield [one if isinstance(one, Stream) else _with(one, candidate) for one in inputs]


def _with(assumed: Assumed, candidate: str) -> Stream:
    stream = assumed.stream
    fields = {name: candidate if name in assumed.open else kind for name, kind in stream.fields.items()}
    return Stream(fields, stream.row_key, stream.windowed)


def _among(one: Problem, others: Sequence[Problem]) -> bool:
    return any((one.path, one.message) == (other.path, other.message) for other in others)


def _inner(one: Problem, params: Mapping[str, Any], open_: frozenset[str]) -> bool:
    """True if the problem is in a setting that reads a part of an open column, which may be a struct."""
    text = str(params.get(one.path.partition(".")[0].partition("[")[0], ""))
    return any(re.search(rf"\b{re.escape(name)}\s*(?:\.|->|\[)", text) for name in open_)


def _agreed(made: Sequence[Stream]) -> Assumed:
    """The columns that all outputs have: a column with equal types in all outputs has that type, every other column is
    open."""
    first = made[0]
    names = [name for name in first.fields if all(name in one.fields for one in made)]
    open_ = frozenset(name for name in names if len({one.fields[name] for one in made}) > 1)
    return Assumed(Stream({name: first.fields[name] for name in names}, first.row_key, first.windowed), open_)
