"""The beginning of a job with a savepoint: the record that asks for it, and the resulting plan.

Source: PROTOCOL 1 and 3, JOBS "holdfast savepoint".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from holdfast.schemas.decided import Id
from holdfast.schemas.plans import Plan, Problem, Seed, SourcePlan
from holdfast.schemas.savepoints import FIELD, FORMAT, Savepoint, Start
from holdfast.schemas.topics import Partition
from holdfast.services.kernel.errors import JobRejected
from holdfast.services.log.late.savepoints import manifest_of
from holdfast.services.log.protocol import Log
from holdfast.services.planning.carried_state import problems
from holdfast.services.planning.seeds import seed

TOO_OLD = Problem(
    FIELD,
    "the cluster still writes a format that knows no savepoints",
    "it writes the newer one half a minute after its last process of the former release has ended: submit again then",
)


def started(raw: Any) -> tuple[Any, Start | None]:
    """Splits a record of `jobs.submit` into the job and the field that names a savepoint. Raises JobRejected."""
    if not isinstance(raw, dict) or FIELD not in raw:
        return raw, None
    rest = {name: value for name, value in raw.items() if name != FIELD}
    try:
        return rest, msgspec.convert(raw[FIELD], Start)
    except msgspec.ValidationError as error:
        raise JobRejected([Problem(FIELD, str(error), "`holdfast submit --from` writes it")]) from error


def seeded(log: Log, plan: Plan, start: Start) -> Plan:
    """Returns the plan of a job that begins with the savepoint. Raises JobRejected, Retriable."""
    savepoint = manifest_of(log, start)
    if savepoint is None:
        raise JobRejected([Problem(FIELD, f"topic {start.topic} holds no savepoint {start.id}", "submit it again")])
    if savepoint.format > FORMAT:
        message = f"the savepoint is of format {savepoint.format}, and this release reads up to {FORMAT}"
        raise JobRejected([Problem(FIELD, message, "start a newer release")])
    if found := [*problems(savepoint.plan, plan, start)]:
        raise JobRejected(found)
    made = seed(savepoint, plan, start)
    if found := [*_out_of_reach(log, plan, savepoint, made, start)]:
        raise JobRejected(found)
    sources = tuple(_from(source, made) for source in plan.sources)
    return structs.replace(plan, seed=made, sources=sources)


def taken_over(log: Log, plan: Plan, begin: Start, asked: int, id: Id) -> Plan:
    """Returns the plan of a job that stood by and now begins with the savepoint. Raises JobRejected, Retriable.

    asked: offset in `jobs.submit` of the command.
    """
    assert plan.seed is not None
    savepoint = manifest_of(log, begin)
    if savepoint is None or begin.topic != plan.seed.topic:
        raise JobRejected([Problem(FIELD, f"topic {begin.topic} does not end with savepoint {begin.id}", "try again")])
    made = structs.replace(seed(savepoint, plan, structs.replace(begin, waits=False)), switched=asked)
    sources = tuple(_from(source, made) for source in plan.sources)
    return structs.replace(plan, id=id, prev=plan.id, seed=made, sources=sources)


def _from(source: SourcePlan, made: Seed) -> SourcePlan:
    tasks = (cuts for task, cuts in made.sources.items() if task.rpartition("-")[0] == source.operator)
    return structs.replace(source, first={r.partition: r.start for cuts in tasks for r in cuts.ranges})


def _out_of_reach(log: Log, plan: Plan, savepoint: Savepoint, made: Seed, start: Start) -> Iterator[Problem]:
    """Positions of the savepoint that do not exist in the present topic."""
    known = {one.operator: one for one in savepoint.plan.sources}
    for source in plan.sources:
        name, was = source.operator, known.get(source.operator)
        if was is None or name not in made.kept or name in start.reread:
            continue
        hint = f"`--reread {name}` begins where the job file says: `start` may be a time"
        if was.topic_id and source.topic_id and was.topic_id != source.topic_id:
            message = f"{source.topic} is another topic than the one that was read, though it has the same name"
            yield Problem(f"sources.{name}.topic", message, hint)
            continue
        ends = log.offsets([Partition(source.topic, index) for index in source.first], "end")
        for task, cuts in made.sources.items():
            for r in cuts.ranges if task.rpartition("-")[0] == name else ():
                if r.start > (end := ends[Partition(source.topic, r.partition)]):
                    message = f"partition {r.partition} of {source.topic} ends at {end}, and was read up to {r.start}"
                    yield Problem(f"sources.{name}.topic", message, hint)
