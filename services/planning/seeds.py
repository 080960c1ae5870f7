"""Computes the start of a job with a savepoint: the position of each source task, and the watermark of each task.

Source: PROTOCOL 3, JOBS "holdfast savepoint". Batch numbers continue from the savepoint, because state may hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from holdfast.schemas.cuts import LOADED_WATERMARK, NO_WATERMARK, Range, TaskCuts
from holdfast.schemas.plans import OperatorPlan, Plan, Seed, SourcePlan
from holdfast.schemas.savepoints import Savepoint, Start
from holdfast.services.kernel.plans.layout import task_name
from holdfast.services.planning.carried_state import Fate, carried, former_names, rescaled

_T = TypeVar("_T")


def seed(savepoint: Savepoint, new: Plan, start: Start) -> Seed:
    """The seed of a job that begins with the savepoint. A kept source begins at its position in the savepoint unless
    the user asks to read it again; every other source begins at the position in the plan."""
    kept = {one.name for one in carried(savepoint.plan, new, start) if one.fate is Fate.KEPT}
    names = former_names(savepoint.plan, new, start)
    before = {one.name: one for one in savepoint.plan.operators}
    sources: dict[str, TaskCuts] = {}
    for source in new.sources:
        was = before.get(names.get(source.operator, "")) if source.operator in kept else None
        known = _of_tasks(was, savepoint.sources)
        for index in range(len(source.owners)):
            begin = _again if not known or source.operator in start.reread else _on
            sources[task_name(source.operator, index)] = begin(savepoint.batch, source, index, known)
    marks, watermarks = {name: task.watermark for name, task in savepoint.tasks.items()}, dict[str, int]()
    for operator in new.operators:
        was = before.get(names.get(operator.name, operator.name if operator.kind == "sink" else ""))
        if was is None or (operator.name not in kept and was.inputs != operator.inputs):
            continue  # other inputs may bring older rows
        known_marks = _of_tasks(was, marks)
        lowest = min(known_marks.values(), default=NO_WATERMARK)
        numbers = range(operator.parallelism)
        watermarks |= {task_name(operator.name, index): known_marks.get(index, lowest) for index in numbers}
    watermarks |= {name: cuts.watermark for name, cuts in sources.items()}
    renamed = {now: was for now, was in names.items() if now in kept and now != was}
    split = rescaled(savepoint.plan, new, start)
    return Seed(
        start.topic,
        savepoint.id,
        savepoint.batch,
        sources,
        watermarks=watermarks,
        kept=tuple(sorted(kept)),
        renamed=renamed,
        rescaled=split,
        replaces=start.replaces,
        rests=start.rests,
        waits=start.waits,
        proven_after=start.proven_after,
    )


def _of_tasks(former: OperatorPlan | None, of: Mapping[str, _T]) -> dict[int, _T]:
    """The values of the tasks of a former operator, by index of the task; empty without a former operator."""
    names = {} if former is None else {index: task_name(former.name, index) for index in range(former.parallelism)}
    return {index: of[name] for index, name in names.items() if name in of}


def _on(batch: int, source: SourcePlan, index: int, known: Mapping[int, TaskCuts]) -> TaskCuts:
    """The cuts of a source task that continues behind the records that were read. A partition without read records
    begins at its first record."""
    read = {r.partition: r for cuts in known.values() for r in cuts.ranges}
    own = known.get(index) if len(known) == len(source.owners) else None
    ranges = tuple(
        Range(p, read[p].stop, read[p].stop, read[p].newest_us) if p in read else Range(p, 0, 0)
        for p in source.owners[index]
    )
    watermark = min(cuts.watermark for cuts in known.values()) if own is None else own.watermark
    return TaskCuts(None, batch, ranges, watermark, idle=own is not None and own.idle, final=False)


def _again(batch: int, source: SourcePlan, index: int, known: Mapping[int, TaskCuts]) -> TaskCuts:
    """The cuts of a source task that begins at the position in the plan. The watermark does not go back, except that of
    a table, which is loaded again."""
    watermark = min((cuts.watermark for cuts in known.values()), default=NO_WATERMARK)
    ranges = tuple(Range(p, source.first[p], source.first[p]) for p in source.owners[index])
    begun = NO_WATERMARK if watermark >= LOADED_WATERMARK else watermark
    return TaskCuts(None, batch, ranges, begun, idle=False, final=False)
