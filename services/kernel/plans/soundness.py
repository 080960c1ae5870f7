"""Soundness of a decision of `jobs.plans`: its parts refer to each other, and its layout can be derived.

An unsound plan counts as no plan for every reader: a process that acted on it would fail, again after each restart. The
rule depends only on the record, so that every reader has the same result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from holdfast.schemas.job_operators import OPERATORS
from holdfast.schemas.plans import Decision, Edge, OperatorPlan, Plan, Skip, SourcePlan, UnitPlan
from holdfast.schemas.topics import JobTopics
from holdfast.services.kernel.plans.layout import data_topics, readers, task_name
from holdfast.services.kernel.plurals import plural

KINDS = frozenset({"source", "sink", *OPERATORS})
ROUTINGS = frozenset({"forward", "merge", "spread", "keyed"})
MAX_TASKS = 10_000
"""The most tasks of one operator; more would fill the memory of a process that derives the layout."""
MAX_OFFSET = 2**53
_GENERATION = re.compile(r"[0-9]{1,18}-[0-9a-f]{6}")
_SINK = frozenset({"query", "topic", "partitions"})
_NAME = re.compile(r"[^@/\s]+")


def unsound(decision: Decision | Skip) -> str:
    """The fault of a decision; empty if it is sound."""
    if _GENERATION.fullmatch(decision.generation) is None:
        return f"{decision.generation!r} is no generation"
    if isinstance(decision, Skip) and f".{decision.job}.{decision.generation}." not in decision.topic:
        return f"topic {decision.topic} is none of {decision.job}@{decision.generation}'s own"
    if not isinstance(decision, Plan):
        return ""
    if _NAME.fullmatch(decision.job) is None:
        return f"{decision.job!r} is no name of a job"
    return next(_problems(decision), "") or _underivable(decision)


def _problems(plan: Plan) -> Iterator[str]:
    operators = {one.name: one for one in plan.operators}
    if len(operators) < len(plan.operators):
        yield "two operators have one name"
    for one in plan.operators:
        yield from _of_operator(one)
    for edge in plan.edges:
        yield from _of_edge(plan, edge, operators)
    yield from _of_units(plan, operators)
    for source in plan.sources:
        yield from _of_source(source, operators)
    for spark in plan.spark:
        if spark.unit not in {unit.name for unit in plan.units}:
            yield f"Spark operator {spark.operator}: there is no unit {spark.unit}"
    yield from _of_seed(plan)
    yield from _of_settings(plan)


def _of_operator(one: OperatorPlan) -> Iterator[str]:
    if one.kind not in KINDS:
        yield f"operator {one.name}: unknown kind {one.kind!r}"
    if not 1 <= one.parallelism <= MAX_TASKS:
        yield f"operator {one.name}: parallelism {one.parallelism}"
    if one.kind == "sink" and not one.params.keys() >= _SINK:
        yield f"sink {one.name}: lacks {', '.join(sorted(_SINK - one.params.keys()))}"
    try:
        _ = one.settings, one.source, one.sink
    except msgspec.ValidationError as error:
        yield f"settings of operator {one.name}: {error}"


def _of_edge(plan: Plan, edge: Edge, operators: dict[str, OperatorPlan]) -> Iterator[str]:
    name = f"edge {edge.producer} to {edge.consumer}"
    for end in (edge.producer, edge.consumer):
        if end not in operators:
            yield f"{name}: there is no operator {end}"
    if edge.routing not in ROUTINGS:
        yield f"{name}: unknown routing {edge.routing!r}"
    if edge.slot < 0:
        yield f"{name}: slot {edge.slot}"
    if edge.topic is not None and f".{plan.job}.{plan.generation}." not in edge.topic:
        yield f"{name}: topic {edge.topic} is not of this job"


def _of_units(plan: Plan, operators: dict[str, OperatorPlan]) -> Iterator[str]:
    if len({unit.name for unit in plan.units}) < len(plan.units):
        yield "two units have one name"
    for unit in plan.units:
        yield from _of_unit(unit, len(plan.units), operators)


def _of_unit(unit: UnitPlan, units: int, operators: dict[str, OperatorPlan]) -> Iterator[str]:
    if _NAME.fullmatch(unit.name) is None:
        yield f"{unit.name!r} is no name of a unit"
    if not 0 <= unit.partition < max(units, 1):
        yield f"unit {unit.name}: partition {unit.partition} of {units}"
    for name in () if unit.host else unit.operators:  # an operator run by a Spark driver is not one of the kernel
        one = operators.get(name)
        if one is None:
            yield f"unit {unit.name}: there is no operator {name}"
        elif not 0 <= unit.index < one.parallelism:
            yield f"unit {unit.name}: task {unit.index} of {name}, which has {one.parallelism}"


def _of_source(source: SourcePlan, operators: dict[str, OperatorPlan]) -> Iterator[str]:
    one = operators.get(source.operator)
    if one is None:
        yield f"source {source.operator}: there is no such operator"
    elif len(source.owners) != one.parallelism:
        yield f"source {source.operator}: {plural(one.parallelism, 'task')}, owners for {len(source.owners)}"
    for partition in (p for owned in source.owners for p in owned):
        if not 0 <= source.first.get(partition, -1) <= MAX_OFFSET:
            yield f"source {source.operator}: no first offset of partition {partition}"


def _of_seed(plan: Plan) -> Iterator[str]:
    """Faults of the seed: every source task must begin after the same batch, with the partitions that it owns."""
    if plan.seed is None:
        return
    owned = {task_name(s.operator, index): own for s in plan.sources for index, own in enumerate(s.owners)}
    if plan.seed.sources.keys() != owned.keys():
        yield f"the seed says where {', '.join(sorted(plan.seed.sources))} begin"
        return
    for task, cuts in plan.seed.sources.items():
        if cuts.batch != plan.seed.batch or cuts.last is not None or cuts.final:
            yield f"the seed of batch {plan.seed.batch} has {task} begin behind batch {cuts.batch}"
        if tuple(r.partition for r in cuts.ranges) != owned[task]:
            yield f"the seed has {task} begin in partitions that it does not own"


def _of_settings(plan: Plan) -> Iterator[str]:
    """Faults of the job file's settings that services read."""
    if not 0 < plan.interval_ms <= 86_400_000:
        yield f"interval_ms {plan.interval_ms}"
    try:
        _ = plan.settings
    except msgspec.ValidationError as error:
        yield f"settings of the job: {error}"


def _underivable(plan: Plan) -> str:
    """Derives the layout once as services do, and returns the error; other processes would have the same error."""
    marker = f".{plan.job}.{plan.generation}."
    prefixes = {edge.topic.partition(marker)[0] for edge in plan.edges if edge.topic is not None}
    if len(prefixes) > 1:
        return f"its topics are under several prefixes: {', '.join(sorted(prefixes))}"
    try:
        readers(plan, JobTopics(next(iter(prefixes), ""), plan.job, plan.generation))
        data_topics(plan)
    except Exception as error:
        return f"cannot be laid out: {type(error).__name__}: {error}"
    return ""
