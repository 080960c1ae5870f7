"""Row by row: a row in, at most a row out, in the order in which they came. What filter and select compute with.

Source: JOBS "operators".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

from holdfast.services.kernel.codecs.fields import schema, with_time
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.expressions.parsing import compile_expression, computing, name_of, source_of
from holdfast.services.kernel.expressions.refused import what_is_wrong
from holdfast.services.kernel.operators.inline import where
from holdfast.services.kernel.operators.operator import TIME, BatchContext, Operator, Outcome, Refused
from holdfast.services.kernel.operators.remembered import Remembered, Remembering, Wanted

Compute = Callable[[pl.DataFrame], pl.DataFrame]


class Rowwise:
    """A row-by-row computation of batches. Rows at which an expression fails are found by halving, and refused.

    Args:
        compute: computes output rows from input rows; may raise PolarsError.
        nothing: the output of no rows.
        fields: the fields of the input.
        fail: stops instead of refusing.
    """

    def __init__(self, compute: Compute, nothing: pl.DataFrame, fields: Mapping[str, str], fail: bool = False) -> None:
        self._compute = compute
        self._nothing = nothing
        self._fields = dict(fields)
        self._fail = fail

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        if not rows.height:
            return Outcome(self._nothing)
        refused: list[Refused] = []
        return Outcome(self._computed(rows, 0, refused), refused=tuple(refused))

    def _computed(self, rows: pl.DataFrame, start: int, refused: list[Refused]) -> pl.DataFrame:
        """Computes rows; refuses rows at which the expression fails.

        start: the position of the first row in the batch.
        """
        try:
            return self._compute(rows)
        except (PolarsError, PanicException) as error:
            text = _reason(str(error))
            if self._fail:
                raise InvalidRecord(text) from error
            if rows.height == 1:
                refused.append(Refused(text, encode_json(rows, self._fields)[0].decode(), place=start))
                return self._nothing
        middle = rows.height // 2
        return self._computed(rows[:middle], start, refused).vstack(
            self._computed(rows[middle:], start + middle, refused)
        )


def _reason(error: str) -> str:
    """The first line of the error, and for an invalid regular expression its mistake."""
    first, said = error.splitlines()[0], what_is_wrong(error)
    return first if said == first else f"{first} {said}"


class Screened:
    """An operator that gets only the rows at which some columns can be computed, with these columns; others are
    refused.

    Args:
        columns: the columns that the operator needs, under names of their own.
        fields: the fields of the input.
    """

    def __init__(
        self, inner: Operator, columns: Sequence[pl.Expr], fields: Mapping[str, str], fail: bool = False
    ) -> None:
        add = computing(columns)
        self._inner = inner
        self._screen = Rowwise(add, add(with_time(schema(fields)).to_frame()), fields, fail)

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        (rows,) = inputs
        screened = self._screen.on_batch([rows], context)
        outcome = self._inner.on_batch([screened.rows], context)
        if not screened.refused:
            return outcome
        places = np.delete(np.arange(rows.height), [one.place for one in screened.refused])
        others = (replace(one, place=int(places[one.place])) for one in outcome.refused)
        return replace(outcome, refused=(*screened.refused, *others))

    def remembered(self, watermark: int, wanted: Wanted) -> Iterator[Remembered]:
        assert isinstance(self._inner, Remembering)
        return self._inner.remembered(watermark, wanted)


def filtered(expression: str, fields: Mapping[str, str], fail: bool = False) -> Rowwise:
    """A task that passes on the rows for which the expression is true; null counts as false."""
    keep = compile_expression(expression, schema(fields))
    keeps = computing([keep.alias(TIME)])
    compute: Compute = lambda rows: where(rows, keeps(rows)[TIME])  # noqa: E731
    return Rowwise(compute, with_time(schema(fields)).to_frame(), fields, fail)


def selected(items: Sequence[str], fields: Mapping[str, str], output: Mapping[str, str], fail: bool = False) -> Rowwise:
    """A task that computes new rows with the event time of the old ones."""
    kinds, given = schema(output), schema(fields)
    named = [(name_of(item, given), compile_expression(source_of(item), given)) for item in items]
    columns = [expression.cast(kinds[name]).alias(name) for name, expression in named]
    # with `select`, an expression without columns would give one row for all
    add = computing(columns)
    compute: Compute = lambda rows: add(rows).select(*output, TIME)  # noqa: E731
    return Rowwise(compute, with_time(kinds).to_frame(), fields, fail)
