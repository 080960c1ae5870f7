"""Inputs of the Spark operators of a job.

Source: PROTOCOL 12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.schemas.job_operators import Spark
from holdfast.schemas.jobs import JobSpec, Source
from holdfast.schemas.plans import SPARK_INPUT, Problem
from holdfast.services.kernel.codecs.fields import required
from holdfast.services.kernel.dataflow.event_time import computed
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.planning.graph import Graph


def operators(spec: JobSpec) -> dict[str, Spark]:
    return {name: one for name, one in spec.operators.items() if isinstance(one, Spark)}


def directly_behind(spec: JobSpec, producer: str) -> bool:
    """True if Spark can read the user's topic itself."""
    source = spec.sources.get(producer)
    if source is None or source.format != "json" or source.origins or source.metadata or source.envelope is not None:
        return False
    if source.on_ahead != "dead-letter":
        return False
    return source.max_ahead_s == Source.model_fields["max_ahead_s"].default and source.null_records == "dead-letter"


def rows_name(operator: str, given: str) -> str:
    """The name of an input whose rows a sink task writes. `given` is the input's name in the job file."""
    return operator if given == SPARK_INPUT else f"{operator}-{given}"


def problems(spec: JobSpec) -> Iterator[Problem]:
    """Problems of Spark operators: names, inputs, and event times of the inputs."""
    yield from _name_problems(spec)
    for name, one in operators(spec).items():
        yield from _input_problems(spec, name, one)
        yield from _time_problems(spec, name, one)


def _name_problems(spec: JobSpec) -> Iterator[Problem]:
    """Problems of names that the plan needs for a Spark operator and that the job uses already."""
    holders: dict[str, str] = {}
    for name, one in operators(spec).items():
        rows = [rows_name(name, given) for given in one.named_inputs]
        for taken in (*(f"input-{given}" for given in rows), f"spark-{name}"):
            for section, names in (("sources", spec.sources), ("operators", spec.operators)):
                if taken in names:
                    yield Problem(f"{section}.{taken}", f"is a name that Spark operator {name} needs", "rename it")
        for given in rows:
            if (other := holders.setdefault(given, name)) != name:
                message = f"needs the name input-{given}, as Spark operator {other} does"
                yield Problem(f"operators.{name}", message, "rename it, or its input")


def _input_problems(spec: JobSpec, name: str, one: Spark) -> Iterator[Problem]:
    """Problems of inputs that read the same records, and of parameters with the name of an input."""
    read: dict[str, str] = {}
    for given, producer in one.named_inputs.items():
        source = spec.sources.get(producer)
        topic = producer if source is None or source.topic is None else source.topic
        if (other := read.setdefault(topic, given)) != given:
            message = f"is {producer}, whose records input '{other}' brings already"
            yield Problem(f"operators.{name}.input.{given}", message, f"use '{other}' twice in the query")
        if given in one.params and len(one.named_inputs) > 1:
            yield Problem(f"operators.{name}.params.{given}", "is the name of an input, too", "rename one of them")


def _time_problems(spec: JobSpec, name: str, one: Spark) -> Iterator[Problem]:
    """Problems of computed event times: Spark takes the event time from a column only."""
    for producer in one.inputs:
        source = spec.sources.get(producer)
        if source is not None and computed(source.event_time, source.types):
            message = f"is computed, and Spark operator {name} takes the time from a field"
            yield Problem(f"sources.{producer}.event_time", message, "name a field of type timestamp")


def event_time(spec: JobSpec, graph: Graph, streams: Mapping[str, Stream], given: str) -> dict[str, Any]:
    """The event time of an operator's input: the values of event_time, unit_of_time, lateness_s and idle_after_s of a
    SparkInput. `given` is the producer of the input. The name of the column is empty if the job does not determine it.
    """
    if (source := spec.sources.get(given)) is not None:
        unit = source.unit or "" if source.format == "json" else ""
        return {
            "event_time": source.event_time or "",
            "unit_of_time": unit,
            "lateness_s": source.allowed_lateness_s,
            "idle_after_s": source.idle_after_s,
        }
    fields = streams[given].fields
    upstream = [source for one, source in spec.sources.items() if one in graph.upstream(given)]
    names = {one.event_time for one in upstream}
    column = "window_end" if "window_end" in fields else next(iter(names)) if len(names) == 1 else None
    known = column is not None and required(fields.get(column, "")) == "timestamp"
    lateness_s = max((one.allowed_lateness_s for one in upstream), default=0.0)
    idle_after_s = [one.idle_after_s for one in upstream]
    return {
        "event_time": column if known else "",
        "unit_of_time": "",
        "lateness_s": lateness_s,
        "idle_after_s": None if None in idle_after_s else max(filter(None, idle_after_s), default=None),
    }
