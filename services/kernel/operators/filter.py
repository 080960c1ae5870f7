"""filter: passes on the rows for which an expression is true."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from holdfast.schemas.job_operators import Filter
from holdfast.schemas.operator_settings import FilterSettings
from holdfast.schemas.plans import OperatorPlan
from holdfast.services.kernel.codecs.fields import schema
from holdfast.services.kernel.codecs.json_encoder import encode_json
from holdfast.services.kernel.errors import InvalidRecord
from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression, may_fail, result_type
from holdfast.services.kernel.expressions.type_words import in_words
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Passing, Problems, Stream
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Outcome, Refused
from holdfast.services.kernel.operators.rowwise import Screened, filtered
from holdfast.services.kernel.state.table import Tables


class FilterKind(OperatorKind[FilterSettings]):
    """The kind of operators that pass on fewer rows of the same stream."""

    model = Filter
    row_by_row = True

    def describe(self, settings: FilterSettings, inputs: Sequence[Stream]) -> Stream:
        problems, columns = Problems(), schema(inputs[0].fields)
        try:
            kind = result_type(compile_expression(settings.filter, columns), columns)
            if settings.one_of is not None:
                if kind != pl.String:
                    problems.add("filter", f"is {in_words(kind)}, and one_of are texts", "CAST(... AS VARCHAR)")
            elif kind != pl.Boolean:
                problems.add("filter", f"is {in_words(kind)}, not true or false", "compare it with something")
        except ExpressionError as error:
            problems.mistakes("filter", error)
        problems.check()
        return inputs[0]

    def build(self, plan: OperatorPlan, settings: FilterSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        texts, one_of = settings.filter, settings.one_of
        if one_of is not None:
            given = compile_expression(texts, schema(inputs[0])).alias(_GIVEN)
            fail = settings.stops
            return Screened(Sorted(texts, one_of, inputs[0], fail), [given], inputs[0], fail)
        return filtered(texts, inputs[0], settings.stops)

    def needs(self, settings: FilterSettings) -> tuple[str, ...]:
        return ("on_error",)

    def passing(self, settings: FilterSettings) -> Passing:
        return Passing.SOME

    def delivers(self, settings: FilterSettings) -> bool:
        return (settings.one_of is not None or may_fail(settings.filter)) and not settings.stops


class Sorted:
    """Passes on the rows whose text is in a list, and refuses all others.

    Args:
        text: the expression of the texts, for messages.
        fields: the fields of the rows.
        fail: stops instead of refusing.
    """

    def __init__(self, text: str, one_of: Sequence[str], fields: Fields, fail: bool) -> None:
        self._text = text
        self._one_of = list(one_of)
        self._fields = dict(fields)
        self._fail = fail

    def on_batch(self, inputs: Sequence[pl.DataFrame], context: BatchContext) -> Outcome:
        rows = inputs[0].drop(_GIVEN)
        given = inputs[0][_GIVEN]
        fits = given.is_in(self._one_of).fill_null(False)
        if fits.all():
            return Outcome(rows)
        places = (~fits).arg_true()
        reasons = [self._reason(one) for one in given[places]]
        if self._fail:
            raise InvalidRecord(reasons[0])
        texts = encode_json(rows[places], self._fields)
        refused = [
            Refused(reason, text.decode(), place=place)
            for reason, text, place in zip(reasons, texts, places.to_list(), strict=True)
        ]
        return Outcome(rows.filter(fits), refused=tuple(refused))

    def _reason(self, given: str | None) -> str:
        shown = "null" if given is None else f"'{given[:_SHOWN]}'"
        return f"{self._text}: {shown} is none of {', '.join(self._one_of)[:_MOST]}"


_GIVEN = "_given"
_SHOWN, _MOST = 60, 400
"""The number of letters of a text, and of a list, in a message."""
