"""Rewrites a stateless query so that every row carries its origin and no record that is not a row is lost.

Source: PROTOCOL 12. It handles only plans of `core.modes.PASSING`: a chain of projections and filters over the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.schemas.plans import SparkPlan
from holdfast.services.kernel.codecs.marked import BEAT, RAW, REACHED, STAMP
from holdfast.services.spark.operator import queried
from holdfast.services.spark.records import marked, record_columns

BEAT_EVERY = 16
"""Number of records of which one reports the partition's event time, even if the query drops the record."""
MARKED = "_holdfast"
"""The additional column with the marks of the row's record."""
PASSED = "_holdfast_passed"
"""The column that is true for rows that pass every filter."""


def rewritten(plan: SparkPlan, records: DataFrame) -> DataFrame:
    """The query's rows with MARKED, and rows of nulls for beats and for records that are not rows.

    Args:
        records: records of Kafka.
    """
    (read,) = plan.inputs
    parsed = marked(read, records, timed=bool(plan.time))
    beat = F.col(BEAT)
    every = F.when(F.col("offset") % BEAT_EVERY == 0, F.array(F.lit(False), F.lit(True)))
    both = parsed.withColumn(BEAT, F.explode(every.otherwise(F.array(F.lit(False)))))
    fit = ~beat & F.isnull(RAW)
    columns = [F.when(fit, column).alias(name) for name, column in record_columns(read).items()]
    passing = F.struct("partition", "offset", REACHED, STAMP, F.when(~beat, F.col(RAW)).alias(RAW), BEAT)
    given = both.select(*columns, passing.alias(MARKED), (~fit).alias(PASSED))
    return _through(given, queried(plan.sql, {read.name: given.select(*read.fields)}))


def _through(given: DataFrame, result: DataFrame) -> DataFrame:
    """The plan of `result` with the two columns of `given` passed from its leaf to its top."""
    jvm: Any = given.sparkSession._jvm
    session: Any = given.sparkSession._jsparkSession
    out = {one.name(): one for one in _items(_analyzed(given).output())}
    rewriting = _Rewriting(jvm, out[MARKED], out[PASSED])
    plan = rewriting.of(_analyzed(result))
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), given.sparkSession)


class _Rewriting:
    """Builds nodes of Catalyst through py4j."""

    def __init__(self, jvm: Any, mark: Any, passed: Any) -> None:
        self._jvm = jvm
        self._mark = mark
        self._passed = passed
        self._logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions

    def of(self, node: Any) -> Any:
        """The node with the two columns, if its input has them."""
        children = _items(node.children())
        if len(children) != 1 or self._carries(node):
            return node
        child = self.of(children[0])
        if not self._carries(child):
            return node
        match node.nodeName():
            case "Project":
                columns = self._seq([*_items(node.projectList()), self._mark, self._passed])
                return self._logical.Project(columns, child)
            case "Filter":
                return self._logical.Filter(self._expressions.Or(self._passed, node.condition()), child)
            case _:
                return node.withNewChildren(self._seq([child]))

    def _carries(self, node: Any) -> bool:
        return any(one.exprId().equals(self._mark.exprId()) for one in _items(node.output()))

    def _seq(self, items: Iterable[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for one in items:
            found.add(one)
        return self._jvm.PythonUtils.toSeq(found)


def _analyzed(frame: DataFrame) -> Any:
    execution: Any = frame._jdf.queryExecution()
    return execution.analyzed()


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
