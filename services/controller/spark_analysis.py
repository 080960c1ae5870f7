"""Asks Spark, in a process of its own, for the output of an operator; other kinds of operators need no Spark.

Source: PROTOCOL 12. A JVM is there only while jobs are admitted, and user code cannot do anything to the controller.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.schemas.analysis import Answer, Question
from holdfast.schemas.operator_settings import SparkSettings, operator_settings
from holdfast.schemas.plans import Problem, SparkInput, SparkPlan
from holdfast.services.controller.analyst import Analyst, NoAnswer
from holdfast.services.kernel.codecs.fields import holding_maps
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.catalogue import Stream
from holdfast.services.kernel.plurals import with_article
from holdfast.services.planning import spark_installation
from holdfast.services.planning.spark_settings import texts

_ANALYST = Analyst()
_TIMES = ("event_time", "unit_of_time", "lateness_s", "idle_after_s")
HOW = "see `holdfast doctor`"


def ask(question: Question) -> Answer:
    """Returns the answer of Spark. Raises JobRejected, with a remedy, when Spark cannot answer."""
    if absent := spark_installation.missing():
        raise JobRejected([Problem("spark", absent, spark_installation.WHERE)])
    try:
        return _ANALYST.ask(question)
    except NoAnswer as error:
        raise JobRejected([Problem("spark", str(error), HOW)]) from None


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
        """Returns the output of an operator. Raises JobRejected with all problems, paths relative to the operator."""
        if kind != "spark":
            return catalogue.describe(kind, params, inputs)
        if problems := [*_maps(inputs)]:
            raise JobRejected(problems)
        settings = operator_settings(kind, params)
        assert isinstance(settings, SparkSettings)
        found = self.ask(_question(settings, inputs, self.allow))
        if found.problems:
            raise JobRejected(found.problems)
        return _stream(settings, found)


def _maps(inputs: Sequence[Stream]) -> Iterator[Problem]:
    for given in inputs:
        for column, text in holding_maps(given.fields):
            message = f"column '{column}' of its input is {with_article(text)}, and rows for Spark hold no maps"
            hint = f"a select before makes a list of structs, MAP_ENTRIES({column}); map_from_entries is its map"
            yield Problem("spark", message, hint)


def _question(settings: SparkSettings, inputs: Sequence[Stream], allow: Sequence[str] | None) -> Question:
    code = settings.spark
    times = settings.inputs or [{name: getattr(settings, name) for name in _TIMES}]
    own, *more = (
        SparkInput(topic="", fields=dict(given.fields), first={}, **time)
        for given, time in zip(inputs, times, strict=True)
    )
    plan = SparkPlan(
        operator="",
        unit="",
        output={},
        entry=code if isinstance(code, str) else "",
        sql="" if isinstance(code, str) else code.sql,
        params=settings.params,
        emit=settings.emit,
        conf=texts(settings.conf),
        outputs={name: {} for name in settings.outputs},
        more=tuple(more),
        **msgspec.structs.asdict(own),
    )
    return Question(plan, None if allow is None else tuple(allow), tuple(sys.path))


def _stream(settings: SparkSettings, found: Answer) -> Stream:
    """Returns the stream of an answer; the rows of closed windows appear once, with key and window as their row key."""
    bounds = ("window_start", "window_end")
    windowed = settings.emit != "updates" and found.holds and all(name in found.output for name in bounds)
    key = settings.key
    whole = windowed and all(name in found.output for name in key)
    row_key = (*key, *bounds) if key and whole else ()
    return Stream(dict(found.output), row_key, windowed, found.hosted, outputs=found.outputs)
