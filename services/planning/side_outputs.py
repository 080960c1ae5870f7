"""Splits an operator with several outputs: each output that is read becomes an operator of its own that selects its
rows.

So routing, units and plans still have one output for each operator. `scored.late` is read from an operator
`scored-late` of the kind `output`, which is in the unit of `scored` if that is a Python operator. Source: JOBS "Python
operators".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.schemas.job_operators import Hosted, Output, Spark, SparkSql, Sql
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.plans import Problem
from holdfast.services.kernel.suggestions import suggest
from holdfast.services.planning.graph import Graph, Slot
from holdfast.services.planning.several_topics import Whole

_MOST_LETTERS = 30
"""Most characters of each of the two names in the name of the operator that is made."""
_STEPS = re.compile(r"[^.\[\]]+")


def whole(spec: JobSpec) -> Whole:
    """The job with an operator for each output that is read as `operator.output`."""
    several = {name: one.outputs for name, one in spec.operators.items() if isinstance(one, Hosted) and one.outputs}
    slots = [
        (name, slot)
        for name, some in Graph.of(spec).slots.items()
        for slot in some
        if not isinstance(spec.operators.get(name), Sql)  # split when the query is planned
    ]
    read = [slot for _, slot in slots if "." in slot.producer]
    problems = [*_problems(spec, several, slots)]
    if not read:
        return Whole(spec, {}, tuple(problems))
    raw, written = spec.as_written(), dict[str, str]()
    operators = raw["operators"]
    for slot in read:
        producer, _, output = slot.producer.partition(".")
        if output not in several.get(producer, ()):
            continue
        made = f"{producer[:_MOST_LETTERS]}-{output[:_MOST_LETTERS]}"
        if made not in operators:
            operators[made] = {"output": output, "input": producer}
            written[f"operators.{made}"] = slot.path
        elif f"operators.{made}" not in written or operators[made] != {"output": output, "input": producer}:
            problems.append(
                Problem(slot.path, f"its rows are an operator of its own, and {made} is taken", "rename it")
            )
            continue
        _set(raw, slot.path, made)
        for unit in raw.get("placement", {}).get("units", ()):
            if producer in unit and made not in unit:
                unit.append(made)
    return Whole(JobSpec.model_validate(raw), written, tuple(problems))


def _problems(spec: JobSpec, several: dict[str, list[str]], slots: list[tuple[str, Slot]]) -> Iterator[Problem]:
    for name in several:
        one = spec.operators[name]
        if isinstance(one, Spark) and isinstance(one.spark, SparkSql):
            path = f"operators.{name}.outputs"
            yield Problem(path, "a query has one output", "write an operator for each query, or a function")
    for name, slot in slots:
        producer, _, output = slot.producer.partition(".")
        outputs = several.get(producer)
        if output and outputs is None and (producer in spec.operators or producer in spec.sources):
            yield Problem(slot.path, f"'{producer}' has not several outputs", f"read {producer}")
        elif output and outputs is not None and output not in outputs:
            yield Problem(slot.path, f"'{producer}' has no output '{output}'", suggest(output, outputs))
        elif not output and outputs is not None and not isinstance(spec.operators.get(name), Output):
            names = " or ".join(f"{producer}.{one}" for one in outputs)
            yield Problem(slot.path, f"'{producer}' has several outputs", f"read {names}")


def _set(raw: Any, path: str, value: str) -> None:
    """Sets the text at a path such as `operators.both.union[0]`."""
    *before, last = _STEPS.findall(path)
    for step in before:
        raw = raw[int(step)] if isinstance(raw, list) else raw[step]
    raw[int(last) if isinstance(raw, list) else last] = value
