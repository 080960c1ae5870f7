"""Rules for outages: docs/decisions/0168; and the drawing of queries' results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from holdfast.newest import Newest
from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.assignments import Change, job_key
from holdfast.schemas.frames import FLAG_TENTATIVE as TENTATIVE
from holdfast.schemas.frames import unpack
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.outages import Outage
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import Partition
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.kernel.dataflow.sink_records import CLOSING, FINAL, RowsOf
from holdfast.services.kernel.plans.layout import RemoteInput, below, senders, unit_layouts
from holdfast.services.kernel.plans.priorities import needed, tentative
from holdfast.services.log.protocol import Log
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.reasons import FAILURES
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.processes.jobs import NAME, SOURCE_FIELDS, DrawnJob, fussy, planned

PLACED = tuple(f"{sign.value}: {move.value}" for sign in FAILURES for move in (Move.PLACE, Move.RESTORE))

PASSING = ("union", "aggregate", "filter", "select", "sink")
"""Kinds of operators whose outputs have the watermark of their inputs."""

KNOWN_US = 3_000_000
"""By then every worker has read that an outage is over, unless it is frozen or slow to read."""


def draw_results(random: Random, job: DrawnJob) -> None:
    """Most queries have tentative results, one at least; and windows are short and final, so that some have rows."""
    for operator in job.spec["operators"].values():
        if operator.get("window"):
            operator |= {"emit": "final", "window": {"size_s": random.choice((0.2, 0.5, 1))}}
    queries = list(job.spec["queries"].values())
    for query in [random.choice(queries), *(one for one in queries if random.random() < 0.5)]:
        query["results"] = "tentative"


def draw_fork(random: Random, aside: Random) -> DrawnJob:
    """Tasks of one source or two, and windows or sessions that none of them feeds alone; a query has tentative results,
    another one of the same rows may have final ones. aside: decides whether code stands between, and shifts no draw.
    """
    sources, topics = dict[str, Any](), dict[str, int]()
    for name in ("s0", "s1")[: random.choice((1, 2))]:
        tasks = random.choice((2, 3, 3)) if not sources else 1
        topics[f"in-{name}"] = tasks
        sources[name] = {
            "topic": f"in-{name}",
            "fields": SOURCE_FIELDS,
            "event_time": "at",
            "unit": "ms",
            "allowed_lateness_s": random.choice((0, 0.2)),
            "parallelism": tasks,
        }
    operators: dict[str, Any] = {"all": {"union": list(sources)}} if len(sources) > 1 else {}
    operators["rows"] = {
        "aggregate": {"n": "count()", "x": "sum(x)"},
        "key": ["k"],
        "window": random.choice(({"size_s": 0.2}, {"size_s": 0.5}, {"gap_s": 0.1}, {"gap_s": 0.3})),
        "emit": "final",
        "input": "all" if len(sources) > 1 else "s0",
        "parallelism": random.choice((1, 2)),
    }
    if aside.random() < 0.3:
        operators["fussy"] = fussy(aside, operators["rows"]["input"], worse=0)
        operators["rows"]["input"] = "fussy"
    read = "rows"
    if random.random() < 0.7:
        operators["some"] = {
            "filter": random.choice(("n <= 2", "x < 60", "x > 40")),
            "input": "rows",
            "parallelism": random.choice((1, 2)),
        }
        read = "some"
    if "fussy" not in operators and aside.random() < 0.3:
        operators, read = _totals(operators), "rows"
    queries = {"q0": {"input": read, "sink": {"topic": "out-0"}, "results": "tentative"}}
    if random.random() < 0.5:
        queries["q1"] = {"input": "rows", "sink": {"topic": "out-1"}}
    topics |= {f"out-{name[1:]}": random.choice((1, 2)) for name in queries}
    tolerance = {
        "default": {"scheme": random.choice(("none", "passive"))},
        "checkpoint": {"interval_ms": random.choice((50, 100, 300, 500))},
        "fail_stop_timeout_s": random.choice((2, 4)),
        "correlated_failure": {"workers": 1},
    }
    spec = {
        "name": NAME,
        "keep_cuts": True,
        "sources": sources,
        "operators": operators,
        "queries": queries,
        "batch_interval_ms": random.choice((20, 50, 100)),
        "fault_tolerance": tolerance,
        "dead_letter_share": 1.0,
    }
    return planned(spec, topics)


def _totals(operators: dict[str, Any]) -> dict[str, Any]:
    """Running totals in place of windows, put out as they are."""
    rows = {name: value for name, value in operators["rows"].items() if name != "window"}
    return {name: one for name, one in operators.items() if name == "all"} | {"rows": rows | {"emit": "updates"}}


class _Outages:
    """Outages of one generation, as far as the trace was read. reached: by unit, reports of its leaders since it is
    out.
    """

    def __init__(self, plan: Plan) -> None:
        asking = [units for query, units in needed(plan).items() if tentative(plan, query)]
        self._key, self._units = job_key(plan.job, plan.generation), frozenset[str]().union(*asking)
        self._assigned = Assigned()
        self._reached: dict[str, int] = {}
        self._ended = set[str]()

    def read(self, one: Written) -> Iterator[str]:
        if one.partition.topic == TOPICS.assignments:
            yield from self._decided(one)
        elif one.partition.topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            self._hear(beat)

    def _decided(self, one: Written) -> Iterator[str]:
        record, before = assignments.decode(one.value), self._assigned.units()
        stopped = any(goal.kind == "stop" and goal.job_key == self._key for goal in record.goals)
        if stopped:
            self._ended |= self._units
        valid = self._assigned.read(record)
        for outage in record.outages:
            if outage.job_key == self._key and self._assigned.outage(outage.unit_key) is outage:
                yield from self._outage(outage, before.get(outage.unit_key))
        for change in valid:
            yield from self._placed(change, one.author)

    def _outage(self, outage: Outage, was: Change | None) -> Iterator[str]:
        where = f"{outage.unit}, outage {outage.number}"
        if outage.unit not in self._units:
            yield f"outage unasked: {where}: no query that needs it has tentative results"
        if outage.banned and not outage.over:
            return
        if not outage.over:
            self._reached[outage.unit] = 0
            if was is None or was.epoch != outage.epoch:
                yield f"outage of another copy: {where} is of epoch {outage.epoch}"
            return
        reached, deadly = self._reached.pop(outage.unit, 0), was is not None and was.deadly is not None
        if reached < outage.upto and outage.unit not in self._ended and not deadly:
            yield f"over too early: {where} at batch {reached} of {outage.upto}"

    def _placed(self, change: Change, author: str) -> Iterator[str]:
        job, _, unit = change.unit.partition("/")
        ours = job == self._key and unit in self._units and author.startswith("recovery")
        if ours and change.copies and change.reason.startswith(PLACED) and unit not in self._assigned.out(job):
            yield f"outage unsaid: {change.unit}#{change.epoch} is placed ({change.reason})"

    def _hear(self, beat: Heartbeat) -> None:
        for copy in beat.copies:
            job, _, unit = copy.unit.partition("/")
            change = self._assigned.of(copy.unit) if job == self._key else None
            leader = None if change is None else change.committer
            if copy.state == "ended":
                self._ended.add(unit)
            if unit in self._reached and leader is not None and leader.incarnation == beat.incarnation:
                self._reached[unit] = max(self._reached[unit], copy.batch)


def check_rows(log: Log, plan: Plan, *, drained: bool) -> Iterator[str]:
    """Only queries that have tentative rows publish any; of a job that was drained each row that was published is
    closed, and readers end with the final rows alone, with headers and without.
    """
    for sink in (one for one in plan.operators if one.kind == "sink" and "query" in one.params):
        query, asked = sink.params["query"], tentative(plan, sink.params["query"])
        ours, newest, withdrawn = RowsOf(plan.job, plan.generation, query), Newest(), set[bytes]()
        told, last, final = dict[bytes, bytes | None](), dict[bytes, bytes | None](), dict[bytes, bytes | None]()
        for index in range(log.topics({sink.params["topic"]}).get(sink.params["topic"], 0)):
            for message in log.scan(Partition(sink.params["topic"], index)):
                key, value, headers = message.key() or b"", message.value(), message.headers()
                if (status := ours.status(headers)) is None:
                    continue
                if status != FINAL and not asked:
                    yield f"unasked: {sink.name} has published a {status} record"
                if (row := newest.read(key, value, headers)) is not None:
                    told[key] = row.value
                withdrawn |= {key} if status == CLOSING else set()
                if status == FINAL and key in withdrawn:
                    yield f"withdrawn early: a final row of {sink.name} follows on the record that takes its key back"
                last[key] = value
                final |= {key: value} if status == FINAL else {}
        if drained and newest.open:
            yield f"row open: {newest.open} keys of {sink.name} are tentative at the end"
        for found, who in ((told, "a reader"), (last, "a compacted topic")):
            if drained and asked and {k: v for k, v in found.items() if v is not None} != final:
                yield f"row untrue: {who} of {sink.name} ends with other rows than the final ones"


def check(written: Sequence[Written], plan: Plan) -> Iterator[str]:
    """Checks one generation."""
    found = _Outages(plan)
    for one in written:
        yield from found.read(one)
    yield from _unbidden(written, plan)
    yield from _held_back(written, plan)


def _unbidden(written: Sequence[Written], plan: Plan) -> Iterator[str]:
    """A tentative frame is sent only while a unit above its sender is out, or was a moment ago; never by a
    copy that has not led.
    """
    topics = TOPICS.job(plan.job, plan.generation)
    layouts = unit_layouts(plan, topics)
    senders_of, under, key = senders(layouts), below(layouts), job_key(plan.job, plan.generation)
    assigned, last_us, led = Assigned(), dict[str, int](), set[tuple[str, str]]()
    for one in written:
        if one.partition.topic == TOPICS.assignments:
            last_us |= dict.fromkeys(assigned.out(key), one.time_us)
            for change in assigned.read(assignments.decode(one.value)):
                if (leader := change.committer) is not None:
                    led.add((change.unit.rpartition("/")[2], leader.incarnation))
        elif one.partition.topic.startswith(f"{topics.root}.data.") and (header := unpack(one.value)).flags & TENTATIVE:
            sender = senders_of.get(one.partition, {}).get(header.writer, "")
            out = {*assigned.out(key), *(unit for unit, at_us in last_us.items() if one.time_us - at_us < KNOWN_US)}
            if not any(sender in under[unit] for unit in out):
                yield f"unbidden: {sender} sent batch {header.batch} tentatively, and nothing above it was out"
            if not any(unit == sender and incarnation in one.author for unit, incarnation in led):
                yield f"unbidden: {one.author} sent batch {header.batch} of {sender}, which it has never led"


def _held_back(written: Sequence[Written], plan: Plan) -> Iterator[str]:
    """The watermark of a tentative frame is at least the lowest one of all frames of that batch that its sender may
    have read by then: a unit that is out holds none back. Units with tasks of sources have watermarks of their own.
    """
    topics = TOPICS.job(plan.job, plan.generation)
    layouts = unit_layouts(plan, topics)
    senders_of = senders(layouts)
    inputs = {
        name: {source.partition for task in layout.tasks for source in task.inputs if isinstance(source, RemoteInput)}
        for name, layout in layouts.items()
        if all(task.operator.kind in PASSING for task in layout.tasks)
    }
    known = defaultdict[tuple[Partition, int], dict[int, int]](dict)
    for one in written:
        if not one.partition.topic.startswith(f"{topics.root}.data."):
            continue
        header = unpack(one.value)
        sender = senders_of.get(one.partition, {}).get(header.writer, "")
        if header.flags & TENTATIVE and sender in inputs:
            read = [mark for partition in inputs[sender] for mark in known[partition, header.batch].values()]
            if read and header.watermark < min(read):
                yield f"held back: {sender} sent batch {header.batch} tentatively at {header.watermark} < {min(read)}"
        of_batch = known[one.partition, header.batch]
        of_batch[header.writer] = min(header.watermark, of_batch.get(header.writer, header.watermark))
