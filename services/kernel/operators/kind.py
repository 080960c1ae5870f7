"""Kinds of operators: the traits that other parts of holdfast use, declared in each operator's file.

Planning, checking, closing and the unit name no operator; they use the traits of its kind. Source: JOBS "operators".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from holdfast.schemas.job_operators import OperatorSpec
from holdfast.schemas.operator_settings import OperatorSettings
from holdfast.schemas.plans import OperatorPlan, Problem
from holdfast.services.kernel.codecs.fields import dtype
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.expressions.parsing import ExpressionError
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.plurals import with_article
from holdfast.services.kernel.state.table import Tables
from holdfast.services.kernel.suggestions import suggest

Fields = dict[str, str]
"""Type text by column."""
S = TypeVar("S", bound=OperatorSettings)
"""The settings of a kind: the operator's section of the job file, defaults filled in, and what `needs` names."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The output of an operator.

    fields: the type text of each column.
    row_key: the columns that identify a row.
    windowed: True if rows are final results of windows, with all rows of a window in one batch.
    hosted: Spark's description of the plan of an operator that it runs, by field of SparkPlan.
    once: True if no row comes again with other values, although row_key names it.
    changes: True if rows replace each other, and the column `op` marks deleted rows.
    outputs: the columns of each output of an operator with several; `fields` has those of all outputs.
    """

    fields: Fields
    row_key: tuple[str, ...] = ()
    windowed: bool = False
    hosted: Mapping[str, Any] | None = None
    once: bool = False
    changes: bool = False
    outputs: Mapping[str, Fields] = field(default_factory=dict)


EVERY_TASK = -1
"""Marks a table whose entries all tasks need."""


class HeldInput(NamedTuple):
    """The input rows that an operator holds. Times are microseconds.

    until: the watermark at which it holds no row; None: it never holds one.
    newest: the largest event time of its output.
    lag: the delay of its own watermark behind that of its inputs.
    """

    until: int | None
    newest: int
    lag: int = 0

    @classmethod
    def open_until(cls, end: int) -> HeldInput:
        """The held rows of open windows, the last of which ends at `end`; its newest possible row is at the last moment
        before.
        """
        return cls(end, end - 1)


class Passing(Enum):
    """The relation of output rows to input rows: each goes out once, some of them do, or the operator makes new
    rows.
    """

    ALL = "all"
    SOME = "some"
    NONE = "none"


class Kind(Generic[S]):
    """The traits common to sources, sinks and operators. A subclass overrides traits that differ from the default."""

    name: ClassVar[str]
    computed: ClassVar[bool] = True
    """True if a unit of the kernel runs its tasks; False if code outside the kernel does."""

    row_by_row: ClassVar[bool] = False
    """True if each output row is computed from one input row alone and keeps its event time. Processing a batch again
    gives the same rows.
    """

    made: ClassVar[str] = "rows of its own"
    """The name of output rows that are not input rows, in the words of a dead letter."""

    def key(self, settings: S) -> tuple[str, ...]:
        """The columns whose equal values must reach one task; empty: any row may go to any task."""
        return ()

    def key_of(self, settings: S, slot: int) -> tuple[str, ...]:
        """The key columns by their names in an input."""
        return self.key(settings)

    def tasks(self, settings: S, wanted: int | None, widest: int) -> int:
        """The number of its tasks.

        wanted: the number in the job file; None: not given.
        widest: the most tasks of an input.
        """
        return wanted or widest

    def delivers(self, settings: S) -> bool:
        """True if it writes sink rows, or may write dead letters."""
        return settings.keeps_late

    def skips(self, settings: S) -> bool:
        """True if rows at which its code raises are skipped. The cut log names the rows, because other copies' code may
        differ.
        """
        return False

    def asks(self, settings: S) -> bool:
        """True if its code awaits answers, which the cut log decides; it is then the first operator of its unit."""
        return False

    def passing(self, settings: S) -> Passing:
        """The relation of its output rows to its input rows; rows of a table never count as passed on."""
        return Passing.NONE

    def closes(self, settings: S) -> bool:
        """True if it closes windows or rows by time, and takes no row that comes later."""
        return False

    def closed_us(self, settings: S, watermark: int, slot: int = 0) -> int:
        """The event time before which rows of an input are late, if the operator closes windows or rows by time.

        watermark: the watermark after the batch before.
        """
        raise NotImplementedError

    def horizon_us(self, settings: S) -> int | None:
        """Longest time behind the watermark by event time at which a record can still count; None: it holds no
        record.
        """
        return None

    def held(self, settings: S, newest_us: int) -> HeldInput:
        """The rows that it holds.

        newest_us: the largest event time of its input.
        """
        horizon = self.horizon_us(settings)
        return HeldInput(None if horizon is None else newest_us + horizon + 1, newest_us)


class SourceKind(Kind[OperatorSettings]):
    """The kind of sources."""

    name = "source"
    computed = False

    def delivers(self, settings: S) -> bool:
        return True  # records that it cannot decode


class SinkKind(Kind[OperatorSettings]):
    """The kind of sinks."""

    name = "sink"
    computed = False

    def delivers(self, settings: S) -> bool:
        return True


class OperatorKind(Kind[S], ABC):
    """The kind of an operator of a job file."""

    model: ClassVar[type[OperatorSpec]]
    """The model of its section of the job file."""
    table_slots: ClassVar[frozenset[int]] = frozenset()
    """Inputs that may be tables."""
    warms_up: ClassVar[bool] = True
    """True if an invented batch may be run through it."""

    def __init_subclass__(cls) -> None:
        cls.name = cls.model.kind

    @abstractmethod
    def describe(self, settings: S, inputs: Sequence[Stream]) -> Stream:
        """The output of the operator.

        Raises:
            JobRejected: the operator has problems; it has all of them, with paths relative to the operator.
        """

    @abstractmethod
    def build(self, plan: OperatorPlan, settings: S, inputs: Sequence[Fields], tables: Tables) -> Operator:
        """Builds one task.

        inputs: the fields of each slot.
        """

    def problems(self, settings: S, tables: Mapping[int, Sequence[str]]) -> Iterable[Problem]:
        """The problems of its section that do not depend on the columns of its inputs, with paths relative to the
        operator.

        Args:
            tables: the key columns by slot, for inputs that are tables; without a slot whose key is invalid itself.
        """
        return ()

    def needs(self, settings: S) -> tuple[str, ...]:
        """The needs of other sections that its settings must include: keys of NEEDS in planning/check.py."""
        return ()

    def code(self, settings: S) -> str:
        """The `module:name` of the user's code; empty: none."""
        return ""

    def isolated(self, settings: S) -> bool:
        """True if a worker runs its code in a process of its own."""
        return False

    def one_task(self, settings: S, windowed: bool) -> str:
        """The reason why all rows must reach one task; empty: there is none.

        windowed: True if the rows of its inputs are final results of windows.
        """
        return ""

    def correlated(self, settings: S) -> bool:
        """True if a missing part of one input makes the rows of its other inputs useless (MECHANISMS P3)."""
        return False

    def stateful(self, settings: S) -> bool:
        """True if it keeps state between batches. An operator without state gets no tables."""
        return False

    def split_by(self, settings: S) -> Mapping[str, int] | None:
        """By table, the number of bytes in its keys before the canonical encoding of the operator's key, or EVERY_TASK;
        None if its state cannot be split over another number of tasks.
        """
        return None


@dataclass(slots=True)
class Problems:
    """The problems of an operator, collected before they are reported."""

    found: list[Problem] = field(default_factory=list)

    def add(self, path: str, message: str, hint: str = "") -> None:
        self.found.append(Problem(path, message, hint))

    def mistakes(self, path: str, error: ValueError) -> None:
        """Adds every mistake of an expression, or the text of another error."""
        for text in error.mistakes if isinstance(error, ExpressionError) else (str(error),):
            self.add(path, text)

    def column(self, path: str, name: str, fields: Mapping[str, str]) -> bool:
        """Returns True if the column is known; adds a problem otherwise."""
        if name not in fields:
            self.add(path, f"there is no column '{name}'", suggest(name, fields))
        return name in fields

    def key(self, path: str, name: str, fields: Mapping[str, str]) -> bool:
        """Returns True if the column can be a key; adds a problem otherwise."""
        if not self.column(path, name, fields):
            return False
        if nested := dtype(fields[name]).is_nested():
            self.add(
                path,
                f"'{name}' is {with_article(fields[name])}, which is no key",
                "take out what distinguishes rows by a select",
            )
        return not nested

    def output(self, path: str, name: str, kind: str, fields: Fields) -> None:
        """Adds an output column to `fields`, or a problem if it cannot be one."""
        if name.startswith("_"):
            self.add(path, f"the name '{name}' begins with an underscore", "such names belong to holdfast")
        elif name in fields:
            self.add(path, f"there are two columns '{name}'", "give one another name with AS")
        else:
            fields[name] = kind

    def check(self) -> None:
        """Raises JobRejected if there are problems."""
        if self.found:
            raise JobRejected(self.found)
