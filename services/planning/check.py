"""Checks a job as a whole: reports all problems at once, and computes the columns of each stream without problems.

Source: JOBS "Every error of a job file is reported at once, each with its path and a hint".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.schemas.job_operators import OperatorSpec
from holdfast.schemas.jobs import JobSpec
from holdfast.schemas.operator_settings import JoinSettings, OperatorSettings, operator_settings
from holdfast.schemas.plans import SPARK_INPUT, Problem
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.kernel.operators import catalogue, updates
from holdfast.services.kernel.operators.kind import Stream
from holdfast.services.kernel.suggestions import did_you_mean, suggest
from holdfast.services.planning import (
    assumptions,
    available,
    checkpoints,
    sinks,
    source_streams,
    spark_inputs,
    spark_settings,
    tables,
)
from holdfast.services.planning.graph import (
    Graph,
    cycle_problems,
    input_problems,
    name_problems,
    sink_name,
    unused_warnings,
)

Describe = Callable[[str, Mapping[str, Any], Sequence[Stream]], Stream]


@dataclass(slots=True)
class Checked:
    """A job and the results of its checks.

    Attributes:
        streams: the columns of each source, operator and sink without problems, by name.
        params: the settings of each operator, by name, as its plan holds them.
        problems: all problems of the job.
        warnings: texts for the user.
    """

    spec: JobSpec
    graph: Graph
    streams: dict[str, Stream] = field(default_factory=dict)
    params: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def settings(self, name: str) -> OperatorSettings:
        """The settings of a source, an operator or a sink, decoded from its params."""
        return operator_settings(self.kind(name), self.params.get(name, {}))

    def kind(self, name: str) -> str:
        if name in self.spec.operators:
            return self.spec.operators[name].kind
        return "source" if name in self.spec.sources else "sink"


def check(spec: JobSpec, allow: Sequence[str], describe: Describe = catalogue.describe) -> Checked:
    """Checks all of a job that can be checked without a cluster.

    Args:
        allow: modules that Python operators may come from, each with its submodules.
        describe: computes the output columns of an operator from its inputs; raises JobRejected with paths relative to
            the operator.
    """
    graph = Graph.of(spec)
    checked = Checked(spec, graph)
    checked.problems += [*name_problems(spec), *input_problems(spec, graph), *cycle_problems(graph)]
    checked.problems += [
        *spark_inputs.problems(spec),
        *spark_settings.problems(spec),
        *_module_problems(spec, allow),
    ]
    checked.problems += [*_scheme_problems(spec, graph), *_placement_problems(spec, graph)]
    checked.warnings += [*unused_warnings(spec, graph), *available.ignored_warnings(spec)]
    checked.problems += checkpoints.problems(spec)
    checked.warnings += checkpoints.warnings(spec)
    checked.problems += [*source_streams.source_problems(spec), *tables.problems(spec, graph)]
    checked.problems += _section_problems(spec)
    checked.params |= {name: one.model_dump(mode="json", exclude={"parallelism"}) for name, one in spec.sources.items()}
    checked.params |= {name: operator.declared() for name, operator in spec.operators.items()}
    _describe_all(checked, describe)
    if not checked.problems:  # lengths of windows, which a mistake may leave open
        checked.warnings += source_streams.closing_warnings(spec)
    return checked


def _describe_all(checked: Checked, describe: Describe) -> None:
    """Computes the columns of every stream, in topological order.

    Behind a problem, some or all columns are open (assumptions.py). So each mistake is reported once, and a mistake
    behind another mistake is reported as well.
    """
    spec, graph, streams = checked.spec, checked.graph, checked.streams
    known = {problem.path for problem in checked.problems}
    guessed: dict[str, assumptions.Assumed] = {}
    for name in graph.order:
        slots = [slot.producer for slot in graph.slots[name]]
        inputs = [streams[one] if one in streams else guessed.get(one) for one in slots]
        if any(one is None for one in inputs):
            continue
        if name in spec.sources:
            if not any(path.startswith(f"sources.{name}.fields") for path in known):
                streams[name] = source_streams.stream(spec.sources[name])
            else:
                guessed[name] = assumptions.of_source(spec.sources[name])
        elif name not in spec.operators:
            if isinstance(inputs[0], Stream):
                streams[name] = inputs[0]
                checked.problems += sinks.problems(spec, name, inputs[0])
        elif not known & _paths(checked, name):
            found = _describe_one(checked, name, [one for one in inputs if one is not None], describe)
            if found is not None:
                guessed[name] = found


def _paths(checked: Checked, name: str) -> set[str]:
    """Paths at which a problem leaves the columns of the operator's output open."""
    own = f"operators.{name}"
    return {own, f"{own}.{checked.spec.operators[name].kind}", *(slot.path for slot in checked.graph.slots[name])}


def _describe_one(
    checked: Checked, name: str, inputs: Sequence[Stream | assumptions.Assumed], describe: Describe
) -> assumptions.Assumed | None:
    """Adds the output of an operator to the streams, or its mistakes to the problems. Returns the assumed output of an
    operator with problems; None if nothing can be assumed, or if the operator has no problems."""
    known = {problem.path for problem in checked.problems}
    kind, params = checked.spec.operators[name].kind, checked.params[name]
    typed = [one if isinstance(one, Stream) else one.stream for one in inputs]
    for need in catalogue.OPERATORS[kind].needs(checked.settings(name)):
        params |= NEEDS[need](checked, name, typed)
    assumed = [one for one in inputs if isinstance(one, assumptions.Assumed)]
    if assumed:
        found, left = assumptions.describe(kind, params, inputs)
        _note(checked, name, found, known)
        return left
    try:
        checked.streams[name] = describe(kind, params, typed)
    except JobRejected as error:
        _note(checked, name, error.problems, known)
        return assumptions.behind(kind, params, typed)
    return None


def _note(checked: Checked, name: str, problems: Sequence[Problem], known: set[str]) -> None:
    found = [(f"operators.{name}.{one.path}".rstrip("."), one) for one in problems]
    checked.problems += [Problem(path, one.message, one.hint) for path, one in found if path not in known]


def _late(checked: Checked, name: str, inputs: Sequence[Stream]) -> dict[str, Any]:
    """The treatment of late rows by an operator. Operators find late rows; the settings of the sources decide what
    happens to these rows."""
    upstream = checked.graph.upstream(name)
    keeps = any(source.late == "topic" for one, source in checked.spec.sources.items() if one in upstream)
    return {"late": "topic" if keeps else "drop"}


def _on_error(checked: Checked, name: str, inputs: Sequence[Stream]) -> dict[str, Any]:
    return {"on_error": checked.spec.on_error}


def _input_row_key(checked: Checked, name: str, inputs: Sequence[Stream]) -> dict[str, Any]:
    """The key by which rows of the input replace each other. The operator needs it here because its plan does not hold
    the keys of its inputs."""
    return {"input_row_key": [] if inputs[0].once and not inputs[0].windowed else list(inputs[0].row_key)}


def _input_windowed(checked: Checked, name: str, inputs: Sequence[Stream]) -> dict[str, Any]:
    return {"input_windowed": inputs[0].windowed}


def _left_rows(checked: Checked, name: str, inputs: Sequence[Stream]) -> dict[str, Any]:
    """Facts about the left rows of a join that sends updates; empty for every other join, as in plans of earlier
    releases."""
    settings = checked.settings(name)
    assert isinstance(settings, JoinSettings)
    if not updates.updating(settings.join, inputs[0].fields, inputs[1].fields):
        return {}
    moving = updates.rows_move(settings.join, inputs[0].row_key)
    return ({"rows_move": True} if moving else {}) | ({"left_changes": True} if inputs[0].changes else {})


def _spark_inputs(checked: Checked, name: str, inputs: Sequence[Stream]) -> dict[str, Any]:
    """The event time of the only input, or the names and event times of several inputs."""
    named = spark_inputs.operators(checked.spec)[name].named_inputs
    times = {
        given: spark_inputs.event_time(checked.spec, checked.graph, checked.streams, producer)
        for given, producer in named.items()
    }
    return (
        times[SPARK_INPUT] if len(times) == 1 else {"inputs": [{"name": given, **one} for given, one in times.items()]}
    )


NEEDS: dict[str, Callable[[Checked, str, Sequence[Stream]], dict[str, Any]]] = {
    "late": _late,
    "on_error": _on_error,
    "input_row_key": _input_row_key,
    "input_windowed": _input_windowed,
    "left_rows": _left_rows,
    "spark_inputs": _spark_inputs,
}
"""Functions that compute a fact about the rest of the job, by the name under which an operator kind asks for the fact.
"""


def entry_of(operator: OperatorSpec) -> str:
    """The user's code of an operator, as `module:name`; empty if it has none."""
    kind = catalogue.OPERATORS.get(operator.kind)  # a query in SQL is not an operator yet
    return "" if kind is None else kind.code(operator.settings())


def _section_problems(spec: JobSpec) -> Iterator[Problem]:
    for name, operator in spec.operators.items():
        found = catalogue.OPERATORS[operator.kind].problems(operator.settings(), tables.keys(operator, spec))
        yield from (Problem(f"operators.{name}.{one.path}", one.message, one.hint) for one in found)


def _module_problems(spec: JobSpec, allow: Sequence[str]) -> Iterator[Problem]:
    for name, operator in spec.operators.items():
        entry = entry_of(operator)
        if not entry:
            continue
        module = entry.split(":")[0]
        if not any(module == one or module.startswith(f"{one}.") for one in allow):
            hint = did_you_mean(module, allow) or f"start the workers with HOLDFAST_PLUGINS={module}"
            message = f"module {module} is not on the workers' allow-list"
            yield Problem(f"operators.{name}.{operator.kind}", message, hint)


def _scheme_problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    """Problems of names in `fault_tolerance.units` that cannot be an operator or a unit. The index of a unit is checked
    later, when the units exist."""
    known = set(graph.slots)
    for name in spec.fault_tolerance.units:
        if name not in known and name.rpartition("-")[0] not in known:
            yield Problem(f"fault_tolerance.units.{name}", "is no operator or unit", suggest(name, graph.slots))


def resolve(name: str, spec: JobSpec) -> str:
    """Returns the name of the sink for the name of a query, and every other name unchanged. A source or operator with
    the same name as a query goes first."""
    return sink_name(name) if name in spec.queries and name not in (*spec.sources, *spec.operators) else name


def _placement_problems(spec: JobSpec, graph: Graph) -> Iterator[Problem]:
    placed: dict[str, str] = {}
    for index, unit in enumerate(spec.placement.units):
        for position, written in enumerate(unit):
            path, name = f"placement.units[{index}][{position}]", resolve(written, spec)
            if name not in graph.slots:
                known = [*spec.sources, *spec.operators, *spec.queries]
                yield Problem(path, f"there is no source, operator or query '{written}'", suggest(written, known))
            elif name in placed:
                yield Problem(path, f"'{written}' has its place in {placed[name]}", "name it once")
            placed.setdefault(name, f"placement.units[{index}]")
