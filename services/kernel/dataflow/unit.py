"""A unit: tasks that are fused, checkpointed and failed over as one. It takes batches and returns frames and rows.

Source: PROTOCOL 4, MECHANISMS "HA unit". All results are functions of the cut log: no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

import polars as pl

from holdfast.schemas.answers import Answer
from holdfast.schemas.cuts import END_WATERMARK, NO_WATERMARK, TaskRaised
from holdfast.schemas.dead_letters import DeadLetter, of_row
from holdfast.services.kernel.codecs.fields import stream_schema
from holdfast.services.kernel.dataflow.fed import Fed
from holdfast.services.kernel.dataflow.origins import Origins
from holdfast.services.kernel.operators import catalogue
from holdfast.services.kernel.operators.operator import BatchContext, Operator, Refused
from holdfast.services.kernel.operators.raises import NOTHING
from holdfast.services.kernel.plans.layout import LocalInput, Output, TaskLayout, UnitLayout
from holdfast.services.kernel.state.table import Tables


@dataclass(frozen=True, slots=True)
class Sent:
    """The rows of one task for one data topic, before services/kernel/dataflow/routing.py splits them.

    task: the task that sends.
    output: the edge to the data topic.
    rows: the rows of the batch.
    watermark: the watermark after the batch, microseconds since 1970.
    end: True if the task sends nothing after this batch.
    clock_us: the time at which the batch was cut, as in Fed.
    """

    task: TaskLayout
    output: Output
    rows: pl.DataFrame
    watermark: int
    end: bool
    clock_us: int = 0


class SinkRows(NamedTuple):
    """The rows that a sink task must deliver.

    task: the sink task.
    rows: the rows of the batch.
    watermark: no row of a later batch is older, microseconds since 1970.
    """

    task: TaskLayout
    rows: pl.DataFrame
    watermark: int


@dataclass(slots=True)
class Produced:
    """The outcome of one batch.

    sent: the rows for other units.
    sinks: the rows for users' topics.
    dead: the dead letters of the operators.
    late: the number of rows that came too late.
    dropped: the number of late rows that were dropped, by counter (kernel/plans/late_counts.py).
    raised: by task whose code raised, the rows at which it did.
    passed: by query with tentative results, the watermark at its sink.
    """

    sent: list[Sent] = field(default_factory=list)
    sinks: list[SinkRows] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    late: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    raised: dict[str, TaskRaised] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)


class Stored(Protocol):
    """The state of a unit, or a fork of it."""

    def of_task(self, task: str) -> Tables: ...


class Unit:
    """The tasks of one unit, run in topological order.

    Args:
        layout: the unit as planned.
        store: its state, empty or restored.
        watermarks: by task, the watermark of its inputs after the last batch done, from the marker.
        build: makes the operators of the tasks.
    """

    def __init__(
        self,
        layout: UnitLayout,
        store: Stored,
        watermarks: Mapping[str, int] | None = None,
        build: catalogue.Build = catalogue.build,
    ) -> None:
        self.layout = layout
        self.watermarks = {task.name: NO_WATERMARK for task in layout.tasks} | dict(watermarks or {})
        self._operators: dict[str, Operator] = {
            task.name: build(task.operator, task.input_fields, store.of_task(task.name))
            for task in layout.tasks
            if catalogue.KINDS[task.operator.kind].computed
        }
        self._empty = {task.name: stream_schema(task.operator.fields).to_frame() for task in layout.tasks}

    @property
    def ended(self) -> bool:
        """True if every task has received the end of its inputs."""
        return all(watermark == END_WATERMARK for watermark in self.watermarks.values())

    def process(
        self,
        batch: int,
        sources: Mapping[str, Fed],
        frames: Mapping[tuple[str, int], Fed],
        raised: Mapping[str, TaskRaised] | None = None,
        answers: Mapping[str, Answer] = MappingProxyType({}),
    ) -> Produced:
        """Processes one batch.

        Args:
            batch: the batch number.
            sources: the rows of each source task; a source task that has ended is left out.
            frames: by (task, slot), the rows of every slot that is fed by a data topic.
            raised: by task, the rows at which users' code raises; a task that is left out raises nowhere. None: not
                known yet.
            answers: by task that got rows, the results that users' code awaited.

        Raises:
            Divergence: users' code raises at other rows.
        """
        produced = Produced()
        outputs: dict[str, Fed] = {}
        for task in self.layout.tasks:
            before = self.watermarks[task.name]
            if before == END_WATERMARK:
                outputs[task.name] = Fed(self._empty[task.name], END_WATERMARK)
                continue
            if task.source is not None:
                outputs[task.name] = sources[task.name]
                self.watermarks[task.name] = sources[task.name].watermark
            else:
                fed = [self._feed(task, slot, frames, outputs) for slot in range(len(task.inputs))]
                self.watermarks[task.name] = max(before, min(one.watermark for one in fed))
                known = None if raised is None else raised.get(task.name, NOTHING)
                clock_us = max(one.clock_us for one in fed)
                context = BatchContext(
                    batch, before, self.watermarks[task.name], known, clock_us=clock_us, answer=answers.get(task.name)
                )
                outputs[task.name], refused = self._run(task, fed, context, produced)
                if refused:
                    origins = Origins(self.layout.tasks, self._operators, outputs, context)
                    produced.dead += [
                        of_row(task.operator.name, one.reason, batch, one.row, *origins.of(task, one))
                        for one in refused
                    ]
            self._send(task, outputs[task.name], produced)
        return produced

    def _feed(
        self, task: TaskLayout, slot: int, frames: Mapping[tuple[str, int], Fed], outputs: Mapping[str, Fed]
    ) -> Fed:
        source = task.inputs[slot]
        return outputs[source.task] if isinstance(source, LocalInput) else frames[task.name, slot]

    def _run(
        self, task: TaskLayout, fed: Sequence[Fed], context: BatchContext, produced: Produced
    ) -> tuple[Fed, tuple[Refused, ...]]:
        """The output of a task, and the rows that it refused."""
        if task.operator.kind == "sink":
            if task.operator.sink.tentative:
                produced.passed[task.operator.sink.query] = context.watermark
            if fed[0].rows.height:
                produced.sinks.append(SinkRows(task, fed[0].rows, context.watermark))
            return Fed(self._empty[task.name], context.watermark, clock_us=context.clock_us), ()
        outcome = self._operators[task.name].on_batch([one.rows for one in fed], context)
        produced.late += outcome.late
        if outcome.raised is not None:
            produced.raised[task.name] = outcome.raised
        for counted, times in zip(task.counted, outcome.dropped, strict=False):
            if times.len():
                produced.dropped[counted.name] += counted.number(times, context.watermark_before)
        watermark = context.watermark if outcome.watermark is None else outcome.watermark
        return Fed(outcome.rows, watermark, clock_us=context.clock_us), outcome.refused

    def _send(self, task: TaskLayout, output: Fed, produced: Produced) -> None:
        end = output.watermark == END_WATERMARK
        clock_us = output.clock_us if self.layout.clocked else 0
        produced.sent += [
            Sent(task, edge, output.rows, output.watermark, end=end, clock_us=clock_us) for edge in task.outputs
        ]


def warm_up(layout: UnitLayout) -> None:
    """Runs an invented batch through a temporary instance of every operator: a cold first batch costs 0.4 to 1.9 s."""
    for task in layout.tasks:
        if catalogue.KINDS[task.operator.kind].computed:
            catalogue.warm_up(task.operator, task.input_fields)
