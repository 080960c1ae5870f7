"""Rules for updates: the next generation begins where the one that it replaces has ended, with all of its state.

Source: docs/decisions/0215 and 0211. Each generation is checked by itself as well; here is what holds between two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.schemas import cuts, delivered
from holdfast.schemas.cuts import Cut
from holdfast.schemas.plans import Plan, Seed
from holdfast.schemas.topics import JobTopics
from holdfast.services.decisions.cuts import CutLog, of_plan
from holdfast.services.kernel.operators.kind import EVERY_TASK
from holdfast.services.kernel.plans.handed_over import split_by
from tests.simulation.kafka.broker import Written
from tests.simulation.observers.images import State

States = Mapping[tuple[str, int], State]
"""State of each unit as of its markers, by unit and batch."""


def led(plan: Plan) -> bool:
    """The generation began; it did not only stand by."""
    return not plan.stands_by and (plan.seed is None or not plan.seed.given_up)


def check(written: Sequence[Written], plans: Mapping[str, tuple[Plan, JobTopics, States]]) -> Iterator[str]:
    """plans: every generation that was admitted."""
    for plan, topics, states in plans.values():
        if not led(plan):
            yield from _idle(written, plan, topics)
        elif plan.seed is not None and plan.seed.replaces:
            former, of_former, states_before = plans[plan.seed.replaces]
            log, behind = _folded(written, former, of_former, plan.seed.batch)
            yield from behind
            yield from _one_delivers(written, of_former, former, plan)
            yield from _positions(log, plan, plan.seed)
            yield from _state(former, states_before, plan, states, plan.seed)


def _idle(written: Sequence[Written], plan: Plan, topics: JobTopics) -> Iterator[str]:
    for one in written:
        if one.partition.topic in (topics.cuts, topics.delivered):
            yield f"stands by: {one.author} wrote to {one.partition} for a generation that never led"
            return


def _folded(written: Sequence[Written], former: Plan, topics: JobTopics, batch: int) -> tuple[CutLog, list[str]]:
    """Cuts of the former generation up to the batch, and what it has taken in behind that."""
    log, whole, behind = of_plan(former), of_plan(former), list[str]()
    for one in written:
        if one.partition.topic != topics.cuts:
            continue
        record = cuts.decode(one.value)
        later = isinstance(record, Cut) and record.batch > batch
        if whole.read(one.offset, record) and later and any(r.stop > r.start for r in record.ranges):  # type: ignore[union-attr]
            behind.append(f"two generations: {one.author} cut records behind batch {batch}, where the next one begins")
        if not later:
            log.read(one.offset, record)
    return log, behind[:1]


def _one_delivers(written: Sequence[Written], topics: JobTopics, former: Plan, plan: Plan) -> Iterator[str]:
    assert plan.seed is not None
    for one in written:
        if one.partition.topic == topics.delivered and delivered.decode(one.value).batch > plan.seed.batch:
            yield (
                f"two generations: {one.author} delivered batch {delivered.decode(one.value).batch} of "
                f"{former.generation}, and {plan.generation} begins behind {plan.seed.batch}"
            )
            return


def _positions(log: CutLog, plan: Plan, seed: Seed) -> Iterator[str]:
    for source in plan.sources:
        if source.operator not in seed.kept:
            continue
        was = seed.renamed.get(source.operator, source.operator)
        stops = {r.partition: r.stop for task, of in log.tasks.items() if _of(task, was) for r in of.ranges}
        for task, begin in seed.sources.items():
            for r in begin.ranges if _of(task, source.operator) else ():
                if r.start != stops.get(r.partition, 0):
                    yield f"position: {task} begins at {r.start} of partition {r.partition}, read up to {stops}"


def _state(former: Plan, before: States, plan: Plan, after: States, seed: Seed) -> Iterator[str]:
    """Every entry of an operator that is kept is there, whatever task has it now, and no other one."""
    for unit in former.units:
        if (unit.name, seed.batch) not in before:
            yield f"carried: {unit.name} had no checkpoint of batch {seed.batch}, behind which {plan.generation} begins"
            return
    for operator in plan.operators:
        if operator.name not in seed.kept or operator.kind in ("source", "sink"):
            continue
        small = {table for table, at in (split_by(operator) or {}).items() if at == EVERY_TASK}
        was = seed.renamed.get(operator.name, operator.name)
        had, has = (_entries(of, seed.batch, name, small) for of, name in ((before, was), (after, operator.name)))
        if had != has:
            yield f"carried: {operator.name} begins with {len(has)} entries, {was} had {len(had)}; not all are the same"


def _entries(states: States, batch: int, operator: str, small: set[str]) -> dict[tuple[str, bytes], bytes]:
    return {
        (table, key): value
        for (_, at), state in states.items()
        if at == batch
        for (name, key), value in state.items()
        for task, _, table in [name.partition("/")]
        if _of(task, operator) and table not in small
    }


def _of(task: str, operator: str) -> bool:
    return task.rpartition("-")[0] == operator
