"""The settings of an operator in a plan: `params` of its OperatorPlan, decoded once.

A struct has the name of the model in schemas/job_operators.py that describes the settings, followed by `Settings`. A
plan of a former version lacks newer settings; the defaults are the values under which that version worked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that an operator has from other parts of the job file."""

    late: str = ""
    """`topic`: late rows become dead letters; otherwise they are dropped."""
    on_error: str = ""
    """The treatment of rows at which an expression or the user's code fails; empty: the plan does not say it."""

    @property
    def keeps_late(self) -> bool:
        """True if the operator refuses late rows, and does not drop them."""
        return self.late == "topic"

    @property
    def stops(self) -> bool:
        """True if a row at which an expression fails stops the job. `retry` stops, too: the row would fail again."""
        return self.on_error in ("fail", "retry")


class FilterSettings(OperatorSettings, frozen=True, kw_only=True):
    filter: str
    one_of: tuple[str, ...] | None = None


class SelectSettings(OperatorSettings, frozen=True, kw_only=True):
    select: tuple[str, ...]


class WithinSettings(msgspec.Struct, frozen=True):
    within_s: float


class DedupSettings(OperatorSettings, frozen=True, kw_only=True):
    dedup: WithinSettings
    key: tuple[str, ...]
    emit: str = "final"


class EverySettings(msgspec.Struct, frozen=True):
    every_s: float


class PaceSettings(OperatorSettings, frozen=True, kw_only=True):
    pace: EverySettings
    input_row_key: tuple[str, ...] = ()
    """The columns by which input rows replace each other."""


class UnionSettings(OperatorSettings, frozen=True, kw_only=True):
    fill_missing: bool = False


class ListItemsSettings(msgspec.Struct, frozen=True):
    column: str
    into: str | None = None
    position: str | None = None
    keep_empty: bool = False


class UnnestSettings(OperatorSettings, frozen=True, kw_only=True):
    unnest: ListItemsSettings


class OutputSettings(OperatorSettings, frozen=True, kw_only=True):
    output: str


class RankingSettings(msgspec.Struct, frozen=True):
    k: int
    by: str
    order: str = "descending"


class TopSettings(OperatorSettings, frozen=True, kw_only=True):
    top: RankingSettings
    key: tuple[str, ...] = ()
    forget_after_s: float | None = None
    input_row_key: tuple[str, ...] = ()
    """The columns by which input rows replace each other."""
    input_windowed: bool | None = None
    """True if the input rows are final results of windows; None: the plan does not say it."""


class JoinSidesSettings(msgspec.Struct, frozen=True):
    on: tuple[str, ...]
    left: str = ""
    right: str = ""
    within_s: float | None = None
    between: tuple[float, float] | None = None
    kind: str = "inner"
    emit: str | None = None


class JoinSettings(OperatorSettings, frozen=True, kw_only=True):
    join: JoinSidesSettings
    rows_move: bool = False
    """True if the row of a left key may name another right row than before, in a join with updates."""
    left_changes: bool = False
    """True if the left rows of a join with updates have the column `op`."""


class AsOfSidesSettings(msgspec.Struct, frozen=True):
    on: tuple[str, ...]
    left: str = ""
    right: str = ""
    within_s: float | None = None
    kind: str = "left"


class AsOfJoinSettings(OperatorSettings, frozen=True, kw_only=True):
    asof_join: AsOfSidesSettings


class WindowSettings(msgspec.Struct, frozen=True):
    size_s: float | None = None
    step_s: float | None = None
    slide_s: float | None = None
    calendar: str | None = None
    zone: str | None = None
    offset_s: float = 0.0
    gap_s: float | None = None


class AggregateSettings(OperatorSettings, frozen=True, kw_only=True):
    aggregate: dict[str, str]
    key: tuple[str, ...] = ()
    window: WindowSettings | None = None
    emit: str = ""
    """Empty: final with a window, updates without."""
    forget_after_s: float | None = None


class AskingSettings(msgspec.Struct, frozen=True):
    timeout_s: float
    retries: int
    pause_s: float
    concurrency: int
    rows: int


class PythonSettings(OperatorSettings, frozen=True, kw_only=True):
    python: str = ""
    key: tuple[str, ...] = ()
    params: dict[str, Any] = {}
    outputs: tuple[str, ...] = ()
    isolation: str = "none"
    clock: bool = False
    ask: AskingSettings | None = None

    @property
    def module(self) -> str:
        """The module of the code."""
        return self.python.partition(":")[0]


NO_PYTHON = PythonSettings()
"""The settings for an operator that has no Python code."""


class SparkSqlSettings(msgspec.Struct, frozen=True):
    sql: str


class SparkSettings(OperatorSettings, frozen=True, kw_only=True):
    spark: str | SparkSqlSettings = ""
    key: tuple[str, ...] = ()
    params: dict[str, Any] = {}
    outputs: tuple[str, ...] = ()
    emit: str = "final"
    conf: dict[str, Any] = {}
    event_time: str = ""
    """The event time of the only input, as a SparkInput has it, like the next three settings."""
    unit_of_time: str = ""
    lateness_s: float = 0.0
    idle_after_s: float | None = None
    inputs: tuple[dict[str, Any], ...] = ()
    """The name and the event time of each of several inputs, as a SparkInput has them."""


SETTINGS: dict[str, type[OperatorSettings]] = {
    "filter": FilterSettings,
    "select": SelectSettings,
    "dedup": DedupSettings,
    "pace": PaceSettings,
    "union": UnionSettings,
    "unnest": UnnestSettings,
    "output": OutputSettings,
    "top": TopSettings,
    "join": JoinSettings,
    "asof_join": AsOfJoinSettings,
    "aggregate": AggregateSettings,
    "python": PythonSettings,
    "spark": SparkSettings,
}
"""By kind, the settings of an operator; a source and a sink have settings elsewhere."""


def operator_settings(kind: str, params: Mapping[str, Any]) -> OperatorSettings:
    """Returns the settings; null counts as absent. Raises msgspec.ValidationError."""
    given = {name: value for name, value in params.items() if value is not None}
    return msgspec.convert(given, SETTINGS.get(kind, OperatorSettings))
