"""The operators of a job file: which one it is, is said by the key that is present.

Source: JOBS "A job file". Whether columns and expressions fit is checked by services/planning.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, SerializerFunctionWrapHandler, Tag, model_serializer, model_validator
from pydantic_core import PydanticCustomError

from holdfast.schemas.job_part import Input, JobPart, Name, Shift, Span, Tasks, Text, Whole
from holdfast.schemas.operator_settings import OperatorSettings, operator_settings
from holdfast.schemas.plans import SPARK_INPUT

Columns = Annotated[list[Text], Field(min_length=1)]


class OperatorSpec(JobPart):
    """One operator.

    Class attributes: kind, the key that distinguishes it from the others; input_paths, where the file names each input
    slot's producer (a dotted path; a list counts one slot an item).
    """

    kind: ClassVar[str]
    input_paths: ClassVar[tuple[str, ...]] = ("input",)

    parallelism: Tasks | None = None
    """Number of tasks; null: as many as its inputs have (1 for top without a key)."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The producer of each slot."""
        return (str(getattr(self, "input")),)  # noqa: B009 - subclasses without `input` override this

    @property
    def slot_paths(self) -> tuple[str, ...]:
        """Where the file names the producer of each slot."""
        if len(self.input_paths) == len(self.inputs):
            return self.input_paths
        return tuple(f"{self.input_paths[0]}[{index}]" for index in range(len(self.inputs)))

    def declared(self) -> dict[str, Any]:
        """The operator's part of the file, defaults filled in, without what the plan says elsewhere."""
        return self.model_dump(mode="json", exclude={"input", "parallelism"})

    def settings(self) -> OperatorSettings:
        """The settings that are declared, as a plan has them."""
        return operator_settings(self.kind, self.declared())


class Filter(OperatorSpec):
    """Keeps the rows for which an expression is true."""

    kind: ClassVar[str] = "filter"

    filter: Text
    """Polars SQL expression of type bool; null counts as false. Under one_of it is one of type string."""
    one_of: Annotated[list[Text], Field(min_length=1)] | None = None
    """Texts that the expression may give: rows for which it gives another one, or null, are dead letters, and all
    others pass. null: it is a condition."""
    input: Input
    """Source or operator that it reads."""

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A filter without this setting is written as releases that do not have it write it."""
        written: dict[str, Any] = plain(self)
        return {name: one for name, one in written.items() if name != "one_of" or one is not None}


class Select(OperatorSpec):
    """Computes new rows from each row."""

    kind: ClassVar[str] = "select"

    select: Columns
    """Columns, polars SQL expressions as `expression AS name`, or all columns: `*`, `* EXCEPT (a, b)`,
    `* REPLACE (a / 60 AS a)`."""
    input: Input
    """Source or operator that it reads."""


class Window(JobPart):
    """Windows of event time: of one size, of a calendar, or sessions."""

    size_s: Span | None = None
    """Length of a window."""
    step_s: Span | None = None
    """Instead of slide_s: windows begin together every size_s, each so much longer than the one before."""
    slide_s: Span | None = Field(default_factory=lambda read: None if read.get("step_s") else read.get("size_s"))
    """Time between the starts of two windows; default: size_s (no overlap)."""
    calendar: Literal["day", "week", "month", "quarter", "year"] | None = None
    """Instead of size_s: a window begins with each day, week (on Monday), month, quarter or year of the zone."""
    zone: Text | None = None
    """Time zone of the calendar, such as Europe/Vienna; null: UTC."""
    offset_s: Shift = 0
    """How much later windows begin: of a size after 1970-01-01 UTC, of a calendar on the clocks of its zone."""
    gap_s: Span | None = None
    """Instead of size_s: a session is made of rows of a key that are less than this apart, and ends so long after its
    last row."""

    @model_validator(mode="after")
    def _one_shape(self) -> Window:
        shapes = [name for name in ("size_s", "calendar", "gap_s") if getattr(self, name) is not None]
        if not shapes:
            raise PydanticCustomError(
                "window_shape", "says no length: give size_s, or calendar for days and months, or gap_s for sessions"
            )
        allowed = {shapes[0], *_BESIDE[shapes[0]]}
        given = [name for name in self.model_fields_set if getattr(self, name)]
        if others := sorted(set(given) - allowed, key=list(Window.model_fields).index):
            raise PydanticCustomError(f"window_{others[0]}", _NOT_BESIDE, {"other": others[0], "shape": shapes[0]})
        return self._of_a_size() if self.size_s is not None else self

    def _of_a_size(self) -> Window:
        size_s = self.size_s or 0
        if self.step_s is not None:
            if self.slide_s is not None:
                raise PydanticCustomError("window_step_s", _NOT_BESIDE, {"other": "step_s", "shape": "slide_s"})
            if round(size_s * 1_000_000) % round(self.step_s * 1_000_000):
                raise PydanticCustomError("window_step_s", "size_s is no multiple of step_s")
        if self.slide_s is not None and self.slide_s > size_s:
            raise PydanticCustomError("window_slide_s", "slide_s is larger than size_s: windows would have gaps")
        return self


_BESIDE = {"size_s": ("slide_s", "step_s", "offset_s"), "calendar": ("zone", "offset_s"), "gap_s": ()}
"""Settings that may stand beside the one that makes the shape of a window."""
_NOT_BESIDE = "{other} does not go with {shape}"


def _default_emit(read: dict[str, Any]) -> Literal["final", "updates"]:
    """Running totals are never final."""
    return "final" if read.get("window") is not None else "updates"


class Aggregate(OperatorSpec):
    """Aggregates by key, and by window when there is one."""

    kind: ClassVar[str] = "aggregate"

    aggregate: Annotated[dict[Text, Text], Field(min_length=1)]
    """Aggregate expression by name of the output column: count(), or count, sum, mean, min, max, first, last or
    count_distinct of an expression, or quantile(expression, share) with a share from 0 to 1. The last two
    are exact up to 10,000 distinct values of a key, beyond that approximate: the count with a standard error of 1 %,
    a quantile within 1 % of the value."""
    key: list[Text] = Field(default=[])
    """Columns to group by; none: one group."""
    input: Input
    """Source or operator that it reads."""
    window: Window | None = None
    """Windows of event time; null: running totals."""
    emit: Literal["final", "updates", "each"] = Field(default_factory=_default_emit)
    """final: a row when its window closes; updates: newest value a touched key and batch; each: one a record, the
    values after it, in input order (running totals only, not for count_distinct and quantile).
    Default: final with a window, updates without."""
    forget_after_s: Span | None = None
    """Running totals alone: the total of a key ends so long after its newest row, by event time, and a later row begins
    a new one; null: never."""


class JoinSides(JobPart):
    """A join of two streams on equal columns and near event times, or of a stream or a table with a table on the key of
    the latter."""

    left: Input
    """Source or operator on the left."""
    right: Input
    """Source or operator on the right; or a source that is a table: each left row meets the row of its key as of its
    batch, and later changes of the table send nothing again, but with emit: updates."""
    on: Columns
    """Columns that must be equal: of both sides, or `user = id`, the left one first; with a table, its key."""
    within_s: Span | None = None
    """Largest difference of event times of two streams; not with a table."""
    between: Annotated[list[Shift], Field(min_length=2, max_length=2)] | None = None
    """Instead of within_s: how many seconds later than the left row the right one is, at least and at most; negative is
    earlier."""
    kind: Literal["inner", "left", "right", "full", "semi", "anti"] = "inner"
    """inner: matching pairs; left, right, full: also rows of that side, or of both, without a match, once none can come
    (with a table at once, and left only); semi: left rows with a match, each once; anti: left rows without one."""
    emit: Literal["each", "updates"] | None = None
    """With a table on the right. each: every left row once, as of its batch; updates: left rows replace each other by
    their key, and a change of either side sends the rows that it changes, with `op` u, or d for a row that is gone.
    null: updates where the left side is a table, too, else each."""

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A join without these settings is written as releases that do not have them write it."""
        written: dict[str, Any] = plain(self)
        return {name: one for name, one in written.items() if name != "emit" or one is not None}

    @model_validator(mode="after")
    def _in_order(self) -> JoinSides:
        if self.between is not None and self.between[0] > self.between[1]:
            raise PydanticCustomError(
                "join_between", "the first number is larger than the second: nothing lies between"
            )
        return self


class Join(OperatorSpec):
    """Joins two streams, or a stream or a table with a table."""

    kind: ClassVar[str] = "join"
    input_paths: ClassVar[tuple[str, ...]] = ("join.left", "join.right")

    join: JoinSides
    """What is joined, and how."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.join.left, self.join.right)


class AsOfSides(JobPart):
    """A stream, and the stream whose newest rows it meets."""

    left: Input
    """Source or operator whose rows come out."""
    right: Input
    """Source or operator whose rows are met, such as prices: of each key the newest one that is not later."""
    on: Columns
    """Columns that must be equal: of both sides, or `user = id`, the left one first."""
    within_s: Span | None = None
    """A right row counts for left rows that are at most so much later; null: until another one of its key comes."""
    kind: Literal["inner", "left"] = "left"
    """left: every left row, with nulls where it meets none; inner: left rows that meet one."""


class AsOfJoin(OperatorSpec):
    """Joins each row of a stream with the newest row of another one, as of its event time."""

    kind: ClassVar[str] = "asof_join"
    input_paths: ClassVar[tuple[str, ...]] = ("asof_join.left", "asof_join.right")

    asof_join: AsOfSides
    """The two streams, and which rows meet."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.asof_join.left, self.asof_join.right)


class Ranking(JobPart):
    """The rows with the largest values, or with the smallest ones."""

    k: Annotated[Whole, Field(ge=1, le=100_000)]
    """How many rows."""
    by: Text
    """Column that is compared."""
    order: Literal["descending", "ascending"] = "descending"
    """descending: the largest value has rank 1; ascending: the smallest. Null and NaN are last in both."""


class Top(OperatorSpec):
    """The k largest rows, a window when its input has windows, each with a column `rank` from 1 to k."""

    kind: ClassVar[str] = "top"

    top: Ranking
    """How many, by what."""
    key: list[Text] = Field(default=[])
    """Columns: rows that are equal in them are ranked among themselves; none: all rows together."""
    input: Input
    """Source or operator that it reads."""
    forget_after_s: Span | None = None
    """Not of windows: the ranking of a key ends so long after its newest row, by event time, and a later row begins a
    new one; null: never."""

    @model_serializer(mode="wrap")
    def _as_before(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A top without this setting is written as releases that do not have it write it."""
        written: dict[str, Any] = plain(self)
        return {name: one for name, one in written.items() if name != "forget_after_s" or one is not None}


class Union(OperatorSpec):
    """All rows of several streams."""

    kind: ClassVar[str] = "union"
    input_paths: ClassVar[tuple[str, ...]] = ("union",)

    union: Annotated[list[Input], Field(min_length=2)]
    """Sources and operators that it reads. Their columns have the same names and types."""
    fill_missing: bool = False
    """true: streams may lack columns that others have; these are null in their rows."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.union)


class ListItems(JobPart):
    """A list whose items become rows."""

    column: Text
    """Column that is a list."""
    into: Text | None = None
    """Name of the column when it holds an item; null: as before."""
    position: Text | None = None
    """Column for the place of the item in its list, from 1; null: none."""
    keep_empty: bool = False
    """true: a row whose list is empty or null stays, with null for the item."""


class Unnest(OperatorSpec):
    """A row for each item of a list, with the other columns of its row."""

    kind: ClassVar[str] = "unnest"

    unnest: ListItems
    """The list, and the names of what is made of it."""
    input: Input
    """Source or operator that it reads."""


class Within(JobPart):
    """How far apart in event time rows of one key are."""

    within_s: Span
    """Event time after a row that is passed on in which further rows of its key are dropped."""


class Dedup(OperatorSpec):
    """Passes on the first row of a key within a time, by event time."""

    kind: ClassVar[str] = "dedup"

    dedup: Within
    """What counts as the same."""
    key: Columns
    """Columns in which rows that are the same are equal."""
    input: Input
    """Source or operator that it reads."""
    emit: Literal["final", "each"] = "final"
    """final: a row is judged by event time, once the watermark has passed it. each: as it comes, by those before."""


class Every(JobPart):
    """A length of event time."""

    every_s: Span
    """The newest row of each key is passed on when the watermark reaches a multiple of so many seconds."""


class Pace(OperatorSpec):
    """Of rows that replace each other, passes on the newest of each key, once a while of event time."""

    kind: ClassVar[str] = "pace"

    pace: Every
    """How often."""
    input: Input
    """Operator that it reads: running totals by key, windows or a join with emit: updates, a top."""


Entry = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]


class Hosted(OperatorSpec):
    """An operator whose code the user brings."""

    key: list[Text] = Field(default=[])
    """Columns by which its state and its input are divided; none: any row may go to any task."""
    params: dict[str, Any] = Field(default={})
    """Handed to the code as it is."""
    outputs: list[Name] = Field(default=[])
    """Names of its outputs, where its code has several; others read one as `operator.output`."""


class Asking(JobPart):
    """How code asks others whose `on_batch` is an async def."""

    timeout_s: float = Field(default=10.0, gt=0, le=600)
    """Longest time of a call."""
    retries: int = Field(default=5, ge=0, le=1000)
    """Calls that have failed are made so often again; then on_error says what becomes of their rows, retry: for
    ever."""
    pause_s: float = Field(default=0.5, gt=0, le=3600)
    """Before the first retry; before each further one twice as long, up to half a minute."""
    concurrency: int = Field(default=8, ge=1, le=256)
    """Calls at the same time."""
    rows: int = Field(default=100, ge=1, le=10_000)
    """Rows of a call."""


class Python(Hosted):
    """A subclass of holdfast.PythonOperator; its module must be on the workers' allow-list."""

    kind: ClassVar[str] = "python"

    python: Entry
    """`package.module:Class`."""
    input: Input
    """Source or operator that it reads."""
    isolation: Literal["none", "process"] = "none"
    """none: the code runs in the worker. process: each task's code has a process of its own, and a crash costs that
    process alone."""
    clock: bool = False
    """true: its code asks for the time of day, `ctx.clock`, and sets timers by it. While no records come, the job then
    has two batches a second."""
    ask: Asking | None = None
    """Its `on_batch` is an async def that awaits answers of others: how it asks. `{}` takes the defaults."""


class Output(OperatorSpec):
    """One of the outputs of an operator with code, under a name of its own."""

    kind: ClassVar[str] = "output"

    output: Name
    """Name of the output."""
    input: Name
    """Operator with `outputs` that has it."""


def _one_or_several(value: Any) -> str:
    return "several" if isinstance(value, dict) else "one"


class SparkSql(JobPart):
    """What Spark computes, in its own SQL."""

    sql: Text
    """A query whose table `input` is the operator's input; of several inputs, each is a table of its own name."""


Table = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]
Tables = Annotated[dict[Table, Input], Field(min_length=2)]


class Spark(Hosted):
    """A function from DataFrame to DataFrame, or a query, run by Structured Streaming."""

    kind: ClassVar[str] = "spark"

    spark: Entry | SparkSql
    """`package.module:function`, called with the input and the params; its module must be on the workers' allow-list.
    Or `{sql: "SELECT ... FROM input ..."}`."""
    input: Annotated[Annotated[Input, Tag("one")] | Annotated[Tables, Tag("several")], Discriminator(_one_or_several)]
    """Source or operator that it reads. Of several, each has a name: `{orders: orders, paid: payments}`, under which a
    function gets its DataFrame and a query has its table."""
    emit: Literal["final", "updates"] = "final"
    """final: Spark's append mode, a row once it cannot change any more; updates: its update mode, the newest value of
    each group that was touched."""
    mode: Literal["auto", "micro-batch"] = "auto"
    """auto: real-time mode for a stateless query behind a JSON source, which brings rows within milliseconds; `check`
    says which and why. micro-batch: never."""
    conf: dict[Text, bool | Whole | Text] = Field(default={})
    """Settings of Spark for this query, such as `spark.sql.shuffle.partitions: 8`; docs/spark.md lists those that a job
    may set."""

    @property
    def named_inputs(self) -> dict[str, str]:
        """The producer of each input, by the input's name."""
        return {SPARK_INPUT: self.input} if isinstance(self.input, str) else dict(self.input)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.named_inputs.values())

    @property
    def slot_paths(self) -> tuple[str, ...]:
        return ("input",) if isinstance(self.input, str) else tuple(f"input.{name}" for name in self.input)


class Sql(OperatorSpec):
    """A whole query in SQL, which stands for the operators that do the same."""

    kind: ClassVar[str] = "sql"
    input_paths: ClassVar[tuple[str, ...]] = ("sql",)

    sql: Text
    """A SELECT over sources and operators, such as "SELECT page, count(*) AS n FROM clicks GROUP BY page". `check`
    prints the operators that it becomes."""

    @property
    def inputs(self) -> tuple[str, ...]:
        from holdfast.schemas.sql_dialect import tables  # a parser, which jobs without SQL do not load

        return tables(self.sql)

    @property
    def slot_paths(self) -> tuple[str, ...]:
        return ("sql",) * len(self.inputs)


_MODELS = (Filter, Select, Aggregate, Join, AsOfJoin, Top, Union, Unnest, Dedup, Pace, Python, Output, Spark, Sql)
OPERATORS: dict[str, type[OperatorSpec]] = {model.kind: model for model in _MODELS}


def kinds(value: Any) -> list[str]:
    """The kinds whose key is present; an operator has exactly one."""
    if isinstance(value, OperatorSpec):
        return [value.kind]
    return [kind for kind in OPERATORS if kind in value] if isinstance(value, dict) else []


def _kind(value: Any) -> str | None:
    found = kinds(value)
    return found[0] if len(found) == 1 else None


if TYPE_CHECKING:
    AnyOperator = OperatorSpec
else:
    AnyOperator = Annotated[
        reduce(or_, (Annotated[model, Tag(kind)] for kind, model in OPERATORS.items())),
        Discriminator(
            _kind,
            custom_error_type="operator_kind",
            custom_error_message="An operator has exactly one of " + ", ".join(OPERATORS),
        ),
    ]
