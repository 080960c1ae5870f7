"""Analyses an operator with Spark before its job is admitted: `python -m holdfast.services.spark.analysis`.

Questions (each a SparkPlan without its output) arrive on standard input, answers go to standard output. A separate
process does it, so that no controller needs a JVM. The process has one session, and a fork for each question.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.schemas.analysis import ANSWER_S, LENGTH_BYTES, Answer, decode_question, encode, framed
from holdfast.schemas.plans import Problem, SparkPlan
from holdfast.services.kernel import lazy_modules
from holdfast.services.kernel.codecs.fields import TIME
from holdfast.services.kernel.codecs.marked import travels
from holdfast.services.kernel.operators.side_output import together
from holdfast.services.spark import class_data
from holdfast.services.spark.columns import field_type
from holdfast.services.spark.core.modes import STATIC_JOIN, Shape, choice, output_mode, shape
from holdfast.services.spark.operator import (
    ONLY,
    OperatorFault,
    apply,
    describe,
    first_line,
    made_up,
    time_column,
    united,
)
from holdfast.services.spark.session import open_session, own_session
from holdfast.services.spark.settings import SparkSettings

PATIENT = 10
"""Niceness during the recording at the end: a tenth of a processor beside a process that never waits."""
NO_JAVA = "there is no Java in JAVA_HOME or on the PATH; install a Java 17 runtime, see `holdfast doctor`"


def answer(spark: SparkSession, plan: SparkPlan, allow: list[str] | None) -> Answer:
    """The output of one operator, or its problems; paths are relative to the operator."""
    try:
        given = {one.name: made_up(spark, one) for one in plan.inputs}
        if plan.more:
            given = {name: made.observe(name, F.count(F.lit(1))) for name, made in given.items()}
        outputs = apply(plan, given, allow)
        result = united(plan, outputs)
        if unused := sorted(one.name for one in plan.inputs if plan.more and not _uses(result, one.name)):
            return _refused(f"it does not use its input {', '.join(unused)}")
        _check(spark, result, plan.emit)
        return _described(plan, outputs, result)
    except OperatorFault as error:
        return _refused(str(error))
    except (PySparkException, Py4JJavaError) as error:
        return _refused(f"Spark refuses its plan: {_reason(error)}")


def _described(plan: SparkPlan, outputs: Mapping[str, DataFrame], result: DataFrame) -> Answer:
    """The answer for an operator without faults. `result` holds the rows of all outputs."""
    problems, columns, found = list[Problem](), dict[str, dict[str, str]](), _shape(result)
    for name, one in outputs.items():
        columns[name], wrong = _columns(one, f"output '{name}': " if name else "")
        problems += wrong
    times = {name: time_column(one, plan.event_time, found.watermark) for name, one in outputs.items()}
    untimed = [name for name, one in times.items() if not one.name]
    if untimed and len(untimed) < len(times):
        message = f"output '{untimed[0]}' has no event time, and others have"
        problems.append(Problem("spark", message, "keep the column with the event time in it"))
    output = together(columns) if plan.outputs else columns[ONLY]
    plain = all(travels(text) for text in output.values())
    mode, reason = choice(found, sql=bool(plan.sql), steady=_steady(result), plain=plain)
    return Answer(
        output=output,
        outputs=columns if plan.outputs else {},
        time=("" if untimed else TIME) if plan.outputs else times[ONLY].name,
        timed=any(one.timed for one in times.values()),
        holds=found.holds(plan.emit),
        closes=found.holds(plan.emit) and found.watermark,
        mode=mode,
        reason=reason,
        problems=tuple(problems),
    )


def _columns(result: DataFrame, where: str) -> tuple[dict[str, str], list[Problem]]:
    """The type text of each column of an output, and problems of columns. Each message begins with `where`."""
    problems, columns = [], dict[str, str]()
    for name, kind, nullable in describe(result):
        if name.startswith("_") or name in columns:
            what = "begins with an underscore" if name.startswith("_") else "comes out twice"
            problems.append(Problem("spark", f"{where}column '{name}' {what}", "rename it"))
            continue
        try:
            columns[name] = field_type(kind) + ("?" if nullable else "")
        except ValueError as error:
            problems.append(Problem("spark", f"{where}column '{name}': {error}"))
    return columns, problems


def _check(spark: SparkSession, result: DataFrame, emit: str) -> None:
    """Checks the query as Spark does when a query starts."""
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
    """The shape of the logical plan, from the names of its streaming nodes."""
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
    """True if the plan has no random numbers, no clock and no other tables."""
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
    """Answers questions until the input ends. Returns the exit status."""
    lazy_modules.resolve()
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of the user's code must not mix with answers
    with tempfile.TemporaryDirectory(prefix="holdfast-analysis-") as folder:
        scratch, spark = Path(folder), None
        while record := asked.read(int.from_bytes(size := asked.read(LENGTH_BYTES))):
            spark = spark if isinstance(spark, SparkSession) else _opened(scratch)
            reply = _of_fork(spark, record) if isinstance(spark, SparkSession) else encode(spark)
            answers.write(framed(reply))
            answers.flush()
        if size and isinstance(spark, SparkSession):
            _record(spark, scratch)
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)  # without waiting for the JVM


def _record(spark: SparkSession, scratch: Path) -> None:
    """Makes the archive of class data, with low priority so that running jobs keep the processors."""
    os.setpriority(os.PRIO_PGRP, 0, PATIENT)  # the JVM is in the group of this process
    class_data.record(spark, scratch)


def _opened(scratch: Path) -> SparkSession | Answer:
    """A session, or the answer with the reason why there is none."""
    try:
        settings = SparkSettings(spark_master="local[1]")
        return open_session(settings, "holdfast-analysis", scratch, briefly=True, records=True)
    except PySparkException as error:
        return _refused(f"Spark does not start here: {NO_JAVA if no_java() else first_line(error)}")


def _of_fork(spark: SparkSession, record: bytes) -> bytes:
    """The answer of a fork of this process. Effects of the user's code end with the fork, and modules are loaded in
    their present state."""
    read, write = os.pipe()
    if not (pid := os.fork()):
        signal.alarm(int(ANSWER_S))
        # A thread of its own has a connection of its own to the JVM.
        work = threading.Thread(target=_reply, args=(spark, record, write))
        work.start()
        work.join()
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        found = pipe.read()
    _, status = os.waitpid(pid, 0)
    return found or encode(_refused(f"its code has ended the process: {_ending(os.waitstatus_to_exitcode(status))}"))


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else "SystemExit or os._exit"


def _reply(spark: SparkSession, record: bytes, pipe: int) -> None:
    """Answers in a session of its own, without views and settings of earlier user code."""
    question = decode_question(record)
    sys.path[:0] = [path for path in question.path if path not in sys.path]
    importlib.invalidate_caches()
    try:
        fresh = own_session(spark, question.operator.conf)
        SparkSession._instantiatedSession = SparkSession._activeSession = fresh
        found = answer(fresh, question.operator, None if question.allow is None else list(question.allow))
    except Exception as error:
        found = _refused(f"its analysis failed with {type(error).__name__}: {first_line(error)}")
    with os.fdopen(pipe, "wb") as out:
        out.write(encode(found))


if __name__ == "__main__":
    sys.exit(main())
