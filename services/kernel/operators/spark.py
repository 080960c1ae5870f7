"""spark: a query of Spark's Structured Streaming. A Spark driver runs it (services/spark); this file only describes it.

Source: PROTOCOL 12.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.schemas.job_operators import Spark
from holdfast.schemas.operator_settings import SparkSettings
from holdfast.schemas.plans import OperatorPlan, Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators.kind import Fields, OperatorKind, Stream
from holdfast.services.kernel.operators.operator import Operator
from holdfast.services.kernel.state.table import Tables


class SparkKind(OperatorKind[SparkSettings]):
    """The kind of Spark operators: one task reads the rows that the driver committed."""

    model = Spark
    computed = False
    warms_up = False

    def describe(self, settings: SparkSettings, inputs: Sequence[Stream]) -> Stream:
        """Refuses by JobRejected, because only Spark knows the output; the controller asks Spark instead, where it is
        available.
        """
        message, hint = "only Spark can say what it makes of its input", "`holdfast check` asks it"
        raise JobRejected([Problem("spark", message, hint)])

    def build(self, plan: OperatorPlan, settings: SparkSettings, inputs: Sequence[Fields], tables: Tables) -> Operator:
        raise NotImplementedError(f"{plan.name} runs on Spark")

    def needs(self, settings: SparkSettings) -> tuple[str, ...]:
        return ("spark_inputs",)

    def code(self, settings: SparkSettings) -> str:
        return settings.spark if isinstance(settings.spark, str) else ""

    def tasks(self, settings: SparkSettings, wanted: int | None, widest: int) -> int:
        return 1

    def delivers(self, settings: SparkSettings) -> bool:
        return True
