"""Analysis of an operator by Spark before its job is admitted: `python -m holdfast.services.spark.analysis`.

A question (a SparkPlan without its output) comes on standard input, the answer goes to standard output: one process for
one job, so that no controller needs a JVM, and effects of the user's code end with it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.schemas.analysis import Answer, Question, decode_question, encode
from holdfast.schemas.plans import Problem, SparkPlan
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.codecs.marked import travels
from holdfast.services.spark.columns import field_type
from holdfast.services.spark.core.modes import STATIC_JOIN, Shape, choice, output_mode, shape
from holdfast.services.spark.operator import OperatorFault, apply, describe, first_line, made_up, time_column
from holdfast.services.spark.session import open_session
from holdfast.services.spark.settings import SparkSettings

NO_JAVA = "there is no Java in JAVA_HOME or on the PATH; install a Java 17 runtime, see `holdfast doctor`"


def answer(spark: SparkSession, plan: SparkPlan, allow: list[str] | None) -> Answer:
    """The output of one operator, or what is wrong with it; paths are relative to the operator."""
    try:
        given = {one.name: made_up(spark, one) for one in plan.inputs}
        if plan.more:
            given = {name: made.observe(name, F.count(F.lit(1))) for name, made in given.items()}
        result = apply(plan, given, allow)
        if unused := sorted(one.name for one in plan.inputs if plan.more and not _uses(result, one.name)):
            return _refused(f"it does not use its input {', '.join(unused)}")
        found = _shape(result)
        _check(spark, result, plan.emit)
        return _described(plan, result, found)
    except OperatorFault as error:
        return _refused(str(error))
    except (PySparkException, Py4JJavaError) as error:
        return _refused(f"Spark refuses its plan: {_reason(error)}")


def _described(plan: SparkPlan, result: DataFrame, found: Shape) -> Answer:
    problems, output = [], {}
    for name, kind, nullable in describe(result):
        if name.startswith("_") or name in output:
            what = "begins with an underscore" if name.startswith("_") else "comes out twice"
            problems.append(Problem("spark", f"column '{name}' {what}", "rename it"))
            continue
        try:
            output[name] = field_type(kind) + ("?" if nullable else "")
        except ValueError as error:
            problems.append(Problem("spark", f"column '{name}': {error}"))
    plain = all(travels(text) for text in output.values())
    mode, reason = choice(found, sql=bool(plan.sql), steady=_steady(result), plain=plain)
    time = time_column(result, plan.event_time, found.watermark)
    return Answer(
        output=output,
        time=time.name,
        timed=time.timed,
        holds=found.holds(plan.emit),
        closes=found.holds(plan.emit) and found.watermark,
        mode=mode,
        reason=reason,
        problems=tuple(problems),
    )


def _check(spark: SparkSession, result: DataFrame, emit: str) -> None:
    """Checks the query as Spark would when it starts."""
    jvm: Any = spark._jvm
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode(emit).capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(_plan(result), mode)


def _plan(result: DataFrame) -> Any:
    execution: Any = result._jdf.queryExecution()
    return execution.analyzed()


def _uses(result: DataFrame, given: str) -> bool:
    """True if the plan reads an input that is observed under this name."""
    waiting = [_plan(result)]
    while waiting:
        node = waiting.pop()
        if node.nodeName() == "CollectMetrics" and node.name() == given:
            return True
        children = node.children()
        waiting += [children.apply(index) for index in range(children.size())]
    return False


def _shape(result: DataFrame) -> Shape:
    """Names of all nodes of the logical plan that are streaming."""
    names, waiting = [], [_plan(result)]
    while waiting:
        node = waiting.pop()
        if not node.isStreaming():
            continue
        children = node.children()
        found = [children.apply(index) for index in range(children.size())]
        if found:
            joined = node.nodeName() != "Join" or all(child.isStreaming() for child in found)
            names.append(node.nodeName() if joined else STATIC_JOIN)
        waiting += found
    return shape(names)


def _steady(result: DataFrame) -> bool:
    """No random numbers, no clock, no other tables."""
    plan: Any = _plan(result)
    jvm: Any = result.sparkSession._jvm
    now = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return bool(plan.deterministic() and not plan.containsPattern(now) and plan.subqueriesAll().isEmpty())


def _reason(error: BaseException) -> str:
    if isinstance(error, Py4JJavaError):
        java: Any = error.java_exception
        return str(java.getMessage()).splitlines()[0][:500]
    return first_line(error)


def _refused(message: str) -> Answer:
    return Answer(problems=(Problem("spark", message),))


def no_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return not (home and os.access(f"{home}/bin/java", os.X_OK)) and shutil.which("java") is None


def main() -> int:
    lazy_modules.resolve()
    question: Question = decode_question(sys.stdin.buffer.read())
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the user's code prints is no answer
    sys.path[:0] = [path for path in question.path if path not in sys.path]
    with tempfile.TemporaryDirectory(prefix="holdfast-analysis-") as scratch:
        settings = SparkSettings(spark_master="local[1]")
        try:
            spark = open_session(settings, "holdfast-analysis", Path(scratch), briefly=True)
        except PySparkException as error:
            out.write(encode(_refused(f"Spark does not start here: {NO_JAVA if no_java() else first_line(error)}")))
            return 0
        allow = None if question.allow is None else list(question.allow)
        out.write(encode(answer(spark, question.operator, allow)))
        out.flush()
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)  # nobody waits for the JVM


if __name__ == "__main__":
    sys.exit(main())
