"""The rows that Spark writes in real-time mode, with a high-water mark per input partition that decides which are
valid.

Source: PROTOCOL 12. Spark's own sink writes input partition p to partition p + 1 of the commit log's topic, at least
once. A row has the offset of its source record, and a record has at most one row. Every writer begins at or below the
record after the mark, continues in offset order and omits no row. So a row above the mark is the next one, from any
writer; any other row has already counted.
docs/decisions/0015 has the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from holdfast.schemas.dead_letters import DeadLetter, of_record
from holdfast.schemas.plans import SparkPlan
from holdfast.services.kernel.codecs import fields
from holdfast.services.kernel.codecs.decoder import Decoder
from holdfast.services.kernel.codecs.fields import TIME, stream_schema
from holdfast.services.kernel.codecs.plain_values import within_calendar
from holdfast.services.kernel.errors import StateCorrupted

AT = "_at"
"""Columns. AT: a row's offset in the log. ORIGIN: the offset of its source record. REACHED: the event time reached with
the record (microseconds; null: unknown). RAW: the value of a record that is not a row of the source, in base 64. BEAT:
true if the row holds only these columns.
"""
ORIGIN, REACHED, RAW, BEAT, STAMP = "_origin", "_reached", "_raw", "_beat", "_stamp"
_MARKS: Mapping[str, pl.DataType] = {
    ORIGIN: pl.Int64(),
    REACHED: pl.Int64(),
    RAW: pl.String(),
    BEAT: pl.Boolean(),
    STAMP: pl.Int64(),
    TIME: pl.Int64(),
}
UNREADABLE = "Spark reads no row of the declared fields in it"
FURTHEST = 2**53
"""The largest possible offset."""
Refuse = Callable[[int, str], None]
"""A function called with the offset of a record that is not a row of Spark, and the reason."""
_AS_TEXT = (pl.Float64, pl.Binary, pl.Decimal)
_AS_NUMBER = (pl.Datetime, pl.Date)


_IS_ROW = pl.col(RAW).is_null() & ~pl.col(BEAT).fill_null(False)


def lanes(first: Mapping[int, int]) -> tuple[int, ...]:
    """The partitions of the commit log's topic that hold rows."""
    return tuple(partition + 1 for partition in sorted(first))


def travels(text: str) -> bool:
    """True if values of a field type can be written and read back unchanged."""
    kind = fields.dtype(fields.required(text))
    return not kind.is_nested()


def _on_the_way(kind: pl.DataType) -> pl.DataType:
    if isinstance(kind, _AS_TEXT):
        return pl.String()
    return pl.Int64() if isinstance(kind, _AS_NUMBER) else kind


def _column(name: str, index: int, kind: pl.DataType) -> pl.Expr:
    column = pl.col(f"c{index}")
    if isinstance(kind, pl.Binary):
        return column.str.decode("base64").alias(name)
    return column.cast(kind).alias(name)


class RowReader:
    """A reader of the valid records of one lane, in offset order.

    Args:
        output: the type text of each column.
        start: the first offset that no cut has taken. A cut ends directly after a valid record, whose origin is the
            mark.
        refuse: called with a record that is not a row of Spark; the rows around it count.
    """

    def __init__(self, output: Mapping[str, str], start: int, refuse: Refuse = lambda offset, cause: None) -> None:
        self._start = start
        self._mark = -1 if start == 0 else None
        self._refuse = refuse
        kinds = dict(enumerate(map(fields.dtype, output.values())))
        self._values = [_column(name, index, kinds[index]) for index, name in enumerate(output)]
        self._schema = stream_schema(output)
        wire = {f"c{index}": _on_the_way(kind) for index, kind in kinds.items()}
        self._record = pl.Struct({**_MARKS, **wire})

    @property
    def position(self) -> int:
        """The offset at which reading begins."""
        return max(0, self._start - 1)

    def read(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> pl.DataFrame:
        """The valid records, with columns AT, those of _MARKS, and c0, c1, ... as written.

        Raises:
            StateCorrupted: the log does not hold the records named by the cuts.
        """
        table = self.sound(offsets, values)
        if self._mark is None:
            table = self._begin(table)
        if not table.height or self._mark is None:
            return table.clear()
        origin = table.get_column(ORIGIN)
        before = origin.cum_max().shift(1, fill_value=self._mark).clip(lower_bound=self._mark)
        counts = table.filter(origin > before)
        self._mark = self._mark if not counts.height else int(counts.item(-1, ORIGIN))
        return counts

    def sound(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> pl.DataFrame:
        """The records that are rows of Spark, valid or not; other records are found by halving and refused."""
        try:
            return self._table(offsets, values)
        except (pl.exceptions.PolarsError, ValueError) as error:
            if len(values) == 1:
                self._refuse(offsets[0], f"no row of Spark: {error}")
                return self._table([], [])
        half = len(values) // 2
        return pl.concat([self.sound(offsets[:half], values[:half]), self.sound(offsets[half:], values[half:])])

    def _table(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> pl.DataFrame:
        """The records as a table. Raises ValueError or an error of polars if some are not rows of Spark."""
        text = pl.Series(values, dtype=pl.Binary).cast(pl.String)
        table = text.str.json_decode(self._record).struct.unnest()
        origin = table.get_column(ORIGIN)
        if table.height != len(values) or not origin.is_between(0, FURTHEST).fill_null(False).all():
            raise ValueError("it does not say of which record it is made")
        self._look_into(table)
        return table.with_columns(pl.Series(AT, offsets, dtype=pl.Int64))

    def _look_into(self, table: pl.DataFrame) -> None:
        """Checks the values of rows before a bad row can take the place of a true one."""
        raw = table.get_column(RAW)
        if raw.null_count() < table.height:
            raw.str.decode("base64")
        table.filter(_IS_ROW).select(*self._values, TIME).cast(self._schema)

    def _begin(self, table: pl.DataFrame) -> pl.DataFrame:
        """Sets the mark to the origin of the record just before the start."""
        table = table.filter(pl.col(AT) >= self.position)
        if not table.height:
            return table
        if table.item(0, AT) != self.position:
            raise StateCorrupted(f"a cut ends at {self._start}, but no row lies just before it")
        self._mark = int(table.item(0, ORIGIN))
        return table.slice(1)


class RowDecoder:
    """A decoder of valid records into rows and dead letters; raises StateCorrupted if values do not fit the plan."""

    def __init__(self, plan: SparkPlan) -> None:
        self._plan = plan
        self._schema = stream_schema(plan.output)
        kinds = enumerate((name, fields.dtype(text)) for name, text in plan.output.items())
        self._columns = [_column(name, index, kind) for index, (name, kind) in kinds]
        self._decoder = Decoder(plan.fields, "json", plan.event_time or None, plan.unit_of_time or None)
        self.nothing = pl.DataFrame(schema=self._schema)

    def rows(self, tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
        fit = [table.filter(_IS_ROW) for table in tables]
        try:
            found = [table.select(*self._columns, TIME).cast(self._schema) for table in fit if table.height]
        except pl.exceptions.PolarsError as error:
            raise StateCorrupted(f"values that Spark does not write: {error}") from None
        return within_calendar(pl.concat([self.nothing, *found]), self._schema)

    def dead(self, lane: int, table: pl.DataFrame, batch: int) -> list[DeadLetter]:
        """The dead letters of records that are not rows of the source, with the reason that a source task would
        give.
        """
        found = table.filter(pl.col(RAW).is_not_null())
        if not found.height:
            return []
        try:
            raws = found.get_column(RAW).str.decode("base64").to_list()
        except pl.exceptions.PolarsError as error:
            raise StateCorrupted(f"a dead letter that Spark does not write: {error}") from None
        stamps = [-1 if stamp is None else stamp // 1000 for stamp in found.get_column(STAMP).to_list()]
        reasons, origin = dict(self._decoder.decode(raws, stamps).refused), self._plan.source or self._plan.operator
        return [
            of_record(origin, reasons.get(index, UNREADABLE), batch, self._plan.topic, lane - 1, offset, raw)
            for index, (offset, raw) in enumerate(zip(found.get_column(ORIGIN).to_list(), raws, strict=True))
        ]
