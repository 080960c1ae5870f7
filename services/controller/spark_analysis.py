"""Asks Spark, in a process of its own, what it makes of an operator; the rest of the catalogue needs no asking.

Source: PROTOCOL 12. The process ends with its answer: a JVM is there only while a job is
admitted, and the user's code cannot do anything to the controller.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.schemas.analysis import Answer, Question, decode_answer, encode
from holdfast.schemas.plans import Problem, SparkInput, SparkPlan
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.planning import spark_installation

ANSWER_S = 180.0
_LINES = 3

_TIMES = ("event_time", "unit_of_time", "lateness_s", "idle_after_s")
HOW = "see `holdfast doctor`"


def ask(question: Question) -> Answer:
    """Raises JobRejected when Spark cannot answer, with what to do."""
    if absent := spark_installation.missing():
        raise JobRejected([Problem("spark", absent, spark_installation.WHERE)])
    command = [sys.executable, "-m", "holdfast.services.spark.analysis"]
    try:
        done = subprocess.run(command, input=encode(question), capture_output=True, timeout=ANSWER_S)
        return decode_answer(done.stdout)
    except subprocess.TimeoutExpired:
        raise _refused(f"Spark did not answer within {ANSWER_S:g} s") from None
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-_LINES:]
        raise _refused(f"Spark could not be asked: {' / '.join(said) or 'no reason given'}") from None


@dataclass(frozen=True, slots=True)
class Describer:
    """Descriptions of operators' outputs, Spark's included.

    Args:
        allow: modules that Spark operators may come from; None: any.
        ask: asks Spark; raises JobRejected when it cannot answer.
    """

    allow: Sequence[str] | None
    ask: Callable[[Question], Answer] = ask

    def __call__(self, kind: str, params: Mapping[str, Any], inputs: Sequence[Stream]) -> Stream:
        """Raises JobRejected with all problems, paths relative to the operator."""
        if kind != "spark":
            return catalogue.describe(kind, params, inputs)
        found = self.ask(_question(params, inputs, self.allow))
        if found.problems:
            raise JobRejected(found.problems)
        return _stream(params, found)


def _question(params: Mapping[str, Any], inputs: Sequence[Stream], allow: Sequence[str] | None) -> Question:
    code = params["spark"]
    times = params.get("inputs") or [{name: params[name] for name in _TIMES}]
    own, *more = (
        SparkInput(topic="", fields=dict(given.fields), first={}, **time)
        for given, time in zip(inputs, times, strict=True)
    )
    plan = SparkPlan(
        operator="",
        unit="",
        output={},
        entry=code if isinstance(code, str) else "",
        sql="" if isinstance(code, str) else code["sql"],
        params=params.get("params") or {},
        emit=params.get("emit") or "final",
        more=tuple(more),
        **msgspec.structs.asdict(own),
    )
    return Question(plan, None if allow is None else tuple(allow), tuple(sys.path))


def _stream(params: Mapping[str, Any], found: Answer) -> Stream:
    """A row of a closed window comes once, and its key and window distinguish it from others."""
    bounds = ("window_start", "window_end")
    windowed = params.get("emit") != "updates" and found.holds and all(name in found.output for name in bounds)
    key = tuple(params.get("key") or ())
    whole = windowed and all(name in found.output for name in key)
    return Stream(dict(found.output), (*key, *bounds) if key and whole else (), windowed, found.hosted)


def _refused(message: str) -> JobRejected:
    return JobRejected([Problem("spark", message, HOW)])
