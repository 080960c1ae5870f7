"""The checkers: what must hold of a history, found in everything that was ever written (PROTOCOL 14).

They look at the broker's whole trace after the run, so they see also what was trimmed meanwhile, and they fold it
themselves: what a worker believed does not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from unittest import mock

import msgspec

from holdfast.schemas import assignments, checkpoints, commands, cuts, delivered, heartbeats
from holdfast.schemas.assignments import Change, job_key_of, split_unit_key, unit_key
from holdfast.schemas.checkpoints import Anchor, Marker
from holdfast.schemas.cuts import NO_WATERMARK, Control, Cut, CutsSnapshot, Replaced, Snapshot
from holdfast.schemas.frames import FLAG_END, FLAG_TENTATIVE, Header, unpack
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat
from holdfast.schemas.plans import Ended, Plan
from holdfast.schemas.savepoints import FIELD
from holdfast.schemas.topics import JobTopics, Partition
from holdfast.services.audit import begun as beginnings
from holdfast.services.audit.replaying import replay
from holdfast.services.decisions.admitted import Admitted
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.checkpoint_log import CheckpointLog, Run, restore
from holdfast.services.decisions.cuts import CutLog, of_plan
from holdfast.services.decisions.raises import may_raise
from holdfast.services.decisions.standings import Standings
from holdfast.services.kernel.errors import CommandFailed, HoldfastError, StateCorrupted
from holdfast.services.kernel.plans.layout import commit_logs, readers, task_name, unit_layouts
from holdfast.services.kernel.state.image import MemoryImage
from holdfast.services.recovery.core.unit.facts.changing import NEAR
from holdfast.services.recovery.core.unit.facts.crashes import Crashes
from holdfast.services.recovery.core.unit.rules.blame import SUSPECT_US
from holdfast.services.recovery.core.unit.table import switching
from holdfast.services.recovery.core.unit.table.signs import Sign
from holdfast.services.worker.unit import outputs
from tests.simulation.checks import (
    adapting,
    bounded,
    commits,
    gaps,
    health,
    incidents,
    outages,
    raises,
    roots,
    standbys,
    switches,
    updates,
    upgrades,
)
from tests.simulation.checks.global_checkpoints import GlobalCheckpoints, trimmed_too_far
from tests.simulation.faults import renewals
from tests.simulation.faults.retention import Retention
from tests.simulation.kafka.broker import Trimmed, Written, decision_of
from tests.simulation.kafka.names import TOPICS, profile_of
from tests.simulation.observers import formats
from tests.simulation.observers.images import State, named
from tests.simulation.observers.reference import Reference, frame, said
from tests.simulation.processes import budgets
from tests.simulation.processes.cluster import Cluster
from tests.simulation.processes.jobs import NAME, event_time_us
from tests.simulation.profiles import PROFILES

GRACE_US = 1_000_000
"""By so much less than SUSPECT_US a suspect waits here: processes read what is written a little later."""
GONE = (Sign.PRIMARY_GONE.value, Sign.BOTH_GONE.value, Sign.TURN.value)


@dataclass(slots=True)
class Generation:
    """An admitted job, and its checkpoint logs as folded so far."""

    plan: Plan
    topics: JobTopics
    ended: str | None = None
    reading: Mapping[Partition, tuple[str, ...]] = field(default_factory=dict)
    folds: dict[Partition, CheckpointLog] = field(default_factory=dict)

    def unit_of(self, partition: Partition) -> str:
        return next(unit.name for unit in self.plan.units if unit.partition == partition.index)

    def fold(self, unit: str) -> CheckpointLog:
        partition = next(one.partition for one in self.plan.units if one.name == unit)
        return self.folds[Partition(self.topics.checkpoints, partition)]


@contextmanager
def decoded_once() -> Iterator[None]:
    """The checkers read the same records, one after the other."""
    with ExitStack() as stack:
        for module in (assignments, checkpoints, cuts, heartbeats):
            stack.enter_context(mock.patch.object(module, "decode", lru_cache(maxsize=None)(module.decode)))
        yield


@decoded_once()
def check(cluster: Cluster) -> list[str]:
    """Everything that does not hold, in words."""
    generations = _generations(cluster.broker.written)
    cluster.broker.untrim()
    found: list[str] = [*cluster.images.wrong, *cluster.captures.wrong, *cluster.broker.greedy]
    found += cluster.captures.unconfirmed(cluster.broker.written)
    found += cluster.planned[:10]
    for checker in (
        _assignments,
        _stopped,
        _quarantines,
        _suspects,
        upgrades.check,
        formats.check,
        _moves,
        _balance,
        _copies,
        _frames,
        _deliveries,
        _asked_to_end,
    ):
        found += checker(cluster.broker.written)
    found += _snapshots(cluster)
    found += roots.check(cluster)
    found += _takeovers(cluster, generations)
    every = {one.plan.generation: _CheckpointCheck(cluster, one) for one in generations}
    carried = {one.plan.generation: [*every[one.plan.generation].run()] for one in generations}
    found += updates.check(
        cluster.broker.written,
        {name: (one.plan, one.topics, every[name].states) for one in generations for name in [one.plan.generation]},
    )
    for generation in generations:
        if not updates.led(generation.plan):
            found += carried[generation.plan.generation]
            continue
        checkpointed = every[generation.plan.generation]
        found += carried[generation.plan.generation]
        found += _images(cluster, generation, checkpointed.states)
        found += commits.check(cluster.broker, generation.plan, generation.topics, generation.ended)
        found += _every_record_is_cut(cluster, generation)
        found += _nobody_gives_way_unled(cluster, generation)
        found += _asked_to_read_again(cluster, generation)
        found += raises.check(cluster, generation.plan, generation.topics)
        found += standbys.check(cluster.broker.written, generation.plan, generation.topics, cluster.healed_us)
        found += bounded.check(cluster.broker.written, generation.plan, generation.topics, generation.reading)
        found += gaps.check(cluster.broker.written, generation.plan, generation.topics, generation.ended == "drained")
        found += incidents.check(cluster.broker.written, generation.plan)
        found += outages.check(cluster.broker.written, generation.plan)
        found += outages.check_rows(cluster.broker, generation.plan, drained=generation.ended == "drained")
        found += switches.check(cluster.broker.written, generation.plan)
        if PROFILES[profile_of(cluster.seed)].adaptive:
            found += adapting.check(cluster.broker.written, generation.plan)
            found += adapting.obeyed(cluster.broker.written, generation.plan, cluster.healed_us)
        found += budgets.check(cluster.broker.written, generation.plan)
        if profile_of(cluster.seed) == "unplaced":
            found += health.check(cluster.broker.written, generation.plan, generation.topics)
        found += _same_as_replayed(cluster, generation, checkpointed.states)
    return found


def _generations(written: list[Written]) -> list[Generation]:
    admitted, found = Admitted(), {}
    for one in written:
        if one.partition.topic != TOPICS.plans:
            continue
        decision = decision_of(one)
        if decision is not None and admitted.read(decision):
            if isinstance(decision, Plan):
                topics = TOPICS.job(decision.job, decision.generation)
                found[decision.generation] = Generation(decision, topics, reading=readers(decision, topics))
            elif isinstance(decision, Ended):
                found[decision.generation].ended = decision.reason
    return list(found.values())


# -- the cluster's topics ---------------------------------------------------------------------------------------------


def _assignments(written: list[Written]) -> Iterator[str]:
    """Every valid change is one that the table of transitions makes."""
    assigned = Assigned()
    for one in written:
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                try:
                    switching.check_invariants(change)
                except AssertionError as error:
                    yield f"assignment: {error}"


def _stopped(written: list[Written]) -> Iterator[str]:
    """No unit of a job whose end was decided gets a copy again: its topics are gone."""
    ended: set[str] = set()
    assigned = Assigned()
    for one in written:
        if one.partition.topic == TOPICS.plans:
            decision = decision_of(one)
            if isinstance(decision, Ended):
                ended.add(f"{decision.job}@{decision.generation}")
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                if change.copies and job_key_of(change.unit) in ended:
                    yield f"stopped: {change.unit}#{change.epoch} has copies after the end of its job ({change.reason})"


def _quarantines(written: list[Written]) -> Iterator[str]:
    """A unit is put in quarantine once three workers in a row have ended at one batch of it, and stays there."""
    crashes, enough = dict[str, tuple[int, int]](), set[tuple[str, int]]()
    counted, ended, assigned = set[tuple[str, str]](), set[str](), Assigned()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats:
            beat = heartbeats.decode(one.value)
            if isinstance(beat, Exit) and beat.at and (beat.worker, beat.incarnation) not in counted:
                counted.add((beat.worker, beat.incarnation))
                for at in beat.at:
                    batch, count = crashes.get(at.unit, (at.batch, 0))
                    crashes[at.unit] = at.batch, count + 1 if batch == at.batch else 1
                    enough |= {(at.unit, at.batch)} if crashes[at.unit][1] >= 3 else set()
            elif isinstance(beat, Heartbeat):
                for copy in beat.copies:
                    if copy.batch >= crashes.get(copy.unit, (copy.batch + 1, 0))[0]:
                        del crashes[copy.unit]
        elif one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                if change.deadly is not None and (change.unit, change.deadly.batch) not in enough:
                    yield f"quarantine: {change.unit} at batch {change.deadly.batch}, which has not ended three workers"
                if change.unit in ended and change.copies:
                    yield f"quarantine: {change.unit}#{change.epoch} has copies again"
                ended |= {change.unit} if change.deadly is not None else set()


def _suspects(written: list[Written]) -> Iterator[str]:
    """A unit whose work ended a worker is given to no other one while another unit has lost a copy by that."""
    crashes, ended, assigned = Crashes(), dict[str, tuple[str, str]](), Assigned()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats:
            beat = heartbeats.decode(one.value)
            if isinstance(beat, heartbeats.Echo):
                continue
            crashes.read(beat, one.time_us)
            if isinstance(beat, Exit):
                ended |= {at.unit: (beat.worker, beat.incarnation) for at in beat.at}
        elif one.partition.topic == TOPICS.assignments:
            before = dict(assigned.units())
            for change in assigned.read(assignments.decode(one.value)):
                crash = crashes.of(change.unit)
                lately = crash is not None and crash.by_itself and one.time_us - crash.since_us < SUSPECT_US - GRACE_US
                if not lately or not change.copies or not change.reason.startswith(GONE):
                    continue
                lost = [
                    unit
                    for unit, known in before.items()
                    if unit != change.unit
                    and crashes.of(unit) is None
                    and any((copy.worker, copy.incarnation) == ended[change.unit] for copy in known.copies)
                ]
                if lost:
                    yield f"suspect: {change.unit}#{change.epoch} ended a worker by itself, and did not wait for {lost}"


def _snapshots(cluster: Cluster) -> Iterator[str]:
    """Every snapshot, and every process where it begins to read, has all units as the records below give them."""
    standings, states = Standings(), [Standings().snapshot()]
    for one in cluster.broker.written:
        if one.partition.topic == TOPICS.assignments:
            record = assignments.decode(one.value)
            said = record.snapshot
            if said is not None and (said.upto > one.offset or states[said.upto] != said):
                yield f"snapshot: that of {one.author} at {one.offset} is not what the log gives below {said.upto}"
            standings.read(one.offset, record)
            states.append(standings.snapshot())
    for begun in cluster.broker.beginnings:
        if not 0 <= begun.next < len(states):
            yield f"beginning: {begun.author} began to read at {begun.next}, which is no place in the log"
        elif {each.change.unit: each.change for each in states[begun.next].units} != begun.units:
            yield f"beginning: {begun.author} began to read at {begun.next} with other assignments than the log gives"


def _asked_to_end(written: list[Written]) -> Iterator[str]:
    """A job ends only after its user has asked for that."""
    asked: set[str] = set()
    for one in written:
        if one.partition.topic == TOPICS.submit:
            record = commands.decode(one.value)
            if isinstance(record, commands.Command) and record.command in ("cancel", "drain", "switch"):
                asked.add(record.job)
            elif isinstance(record, dict) and record.get(FIELD, {}).get("replaces"):
                asked.add(NAME)
        if one.partition.topic == TOPICS.plans:
            end = decision_of(one)
            if isinstance(end, Ended) and end.job not in asked:
                yield f"unasked: {end.job}@{end.generation} has ended ({end.reason}), and nobody asked for it"


def _changes(written: list[Written]) -> dict[str, list[tuple[int, Change]]]:
    """The valid changes of each unit, with their places in the trace."""
    assigned, found = Assigned(), defaultdict[str, list[tuple[int, Change]]](list)
    for place, one in enumerate(written):
        if one.partition.topic == TOPICS.assignments:
            for change in assigned.read(assignments.decode(one.value)):
                found[change.unit].append((place, change))
    return found


def _moves(written: list[Written]) -> Iterator[str]:
    """While a unit moves it keeps the copies it has; the new one leads only once it has caught up."""
    assigned, reports = Assigned(), dict[tuple[str, str], CopyState]()
    caught_up: set[tuple[str, int]] = set()
    for one in written:
        if one.partition.topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            reports |= {(beat.incarnation, copy.unit): copy for copy in beat.copies}
            caught_up |= {(unit, change.epoch) for unit, change in assigned.units().items() if _near(change, reports)}
        if one.partition.topic == TOPICS.assignments:
            before = assigned.units()
            for change in assigned.read(assignments.decode(one.value)):
                yield from _moved(before.get(change.unit), change, caught_up)


def _near(change: Change, reports: Mapping[tuple[str, str], CopyState]) -> bool:
    """True if reports of both copies say that the new one is as far as the leader; a driver's, that it has
    rehearsed.
    """
    if change.arriving is None:
        return False
    new, old = (reports.get((copy.incarnation, change.unit)) for copy in (change.arriving, change.copies[0]))
    if new is None or new.epoch < change.epoch:
        return False
    if "/spark-" in change.unit:
        return new.state == "synced"
    return old is not None and (new.state, new.batch >= old.batch - NEAR) == ("running", True)


def _moved(before: Change | None, after: Change, caught_up: set[tuple[str, int]]) -> Iterator[str]:
    if before is None or not after.copies:
        return
    if before.arriving is None and after.arriving is not None:
        gone = {copy.worker for copy in before.copies} - {copy.worker for copy in after.copies}
        if gone:
            yield f"move: {after.unit}#{after.epoch} lets {sorted(gone)} go before the new copy has caught up"
    if _handed_over(before, after) and (after.unit, before.epoch) not in caught_up:
        yield f"move: {after.unit}#{after.epoch} is handed to a copy that has not caught up"


def _handed_over(before: Change | None, after: Change) -> bool:
    """And not because the leader had failed."""
    arriving = None if before is None else before.arriving
    asked = after.reason.startswith(Sign.ARRIVED.value)
    return asked and arriving is not None and after.committer is not None and after.committer.worker == arriving.worker


def _balance(written: list[Written]) -> Iterator[str]:
    """Units that move for balance alone never come back to where they all were."""
    assigned, active, seen = Assigned(), dict[str, str](), set[tuple[tuple[str, str], ...]]()
    for one in written:
        if one.partition.topic != TOPICS.assignments:
            continue
        before = assigned.units()
        for change in assigned.read(assignments.decode(one.value)):
            was, runs_on = before.get(change.unit), "" if change.committer is None else change.committer.worker
            if active.get(change.unit, "") == runs_on:
                continue
            active[change.unit] = runs_on
            placed = tuple(sorted(active.items()))
            if was is None or not _handed_over(was, change) or not was.reason.startswith(Sign.OVERFULL.value):
                seen = set()  # other workers are overfull now
            elif placed in seen:
                yield f"balance: all units are where they were before {change.unit}#{change.epoch} moved"
            seen.add(placed)


def _copies(written: list[Written]) -> Iterator[str]:
    """A copy runs at an epoch at which a valid change names its worker's incarnation."""
    named_at = {
        (unit, change.epoch, copy.incarnation)
        for unit, known in _changes(written).items()
        for _, change in known
        for copy in change.copies
    }
    for one in written:
        if one.partition.topic == TOPICS.heartbeats and isinstance(beat := heartbeats.decode(one.value), Heartbeat):
            for copy in beat.copies:
                if copy.epoch and (copy.unit, copy.epoch, beat.incarnation) not in named_at:
                    yield f"copy: {beat.worker} has {copy.unit} at epoch {copy.epoch}, where it holds none"
                    return


def _takeovers(cluster: Cluster, generations: list[Generation]) -> Iterator[str]:
    """Checks that a fenced holder takes the id again only if, as of then or since, it is named to commit: PROTOCOL
    9.
    """
    changes = _changes(cluster.broker.written)
    units = {
        generation.topics.transactional_id(unit.name): unit_key(NAME, generation.plan.generation, unit.name)
        for generation in generations
        for unit in generation.plan.units
    }
    refused: dict[tuple[str, str], int] = {}
    for one in cluster.broker.holdings:
        key = (one.author, one.transactional_id)
        if one.refused:
            refused[key] = one.seen
        elif (since := refused.pop(key, None)) is not None:
            known = changes[units[one.transactional_id]]
            before = [change for place, change in known if place < since][-1:]
            later = [change for place, change in known if since <= place < one.seen]
            if not any(c.incarnation == one.author and c.flags.commit for x in (*before, *later) for c in x.copies):
                yield f"fenced: {one.author} took {one.transactional_id} again though another copy led"


# -- data -------------------------------------------------------------------------------------------------------------


def _frames(written: list[Written]) -> Iterator[str]:
    """Invariant 3: two frames of the same writer, batch and part on a partition are the same."""
    known: dict[tuple[Partition, int, int, int], tuple[int, int, int]] = {}
    for one in written:
        if ".data." in one.partition.topic:
            header = unpack(one.value)
            if header.flags & FLAG_TENTATIVE:
                continue
            key = (one.partition, header.writer, header.batch, header.part)
            said = (header.payload_hash, header.parts, header.watermark)
            if known.setdefault(key, said) != said:
                yield f"divergence: {one.author} sent batch {header.batch} of writer {header.writer} to {one.partition}"


def _deliveries(written: list[Written]) -> Iterator[str]:
    """Invariants 4 and 5: a unit's delivered position only goes up."""
    last: dict[Partition, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one in written:
        if one.partition.topic.endswith(".delivered"):
            at = delivered.decode(one.value).order
            if at <= last[one.partition]:
                yield f"delivered: {one.author} committed {at} of {one.partition} behind {last[one.partition]}"
            last[one.partition] = at


def _drained_behind(cluster: Cluster, generation: Generation, drain: Control) -> Iterator[str]:
    """No drain ends a source before what was in its topic when the drain was asked for."""
    topics = {task_name(s.operator, i): s.topic for s in generation.plan.sources for i in range(len(s.owners))}
    there: dict[Partition, int] = {}
    begun = {past.topic: past.seen for past in cluster.broker.past}
    for place, one in enumerate(cluster.broker.written):
        if one.partition.topic == TOPICS.submit and one.offset == drain.offset:
            break
        if place >= begun.get(one.partition.topic, 0):
            there[one.partition] = one.offset + 1
    for task, ends in drain.ends.items():
        for index, end in ends.items():
            if end < (held := there.get(Partition(topics[task], index), 0)):
                yield f"drain: {task} ends at {end} of partition {index}, which held {held} when it was asked for"


def _gone_when_cut_as_lost(cluster: Cluster, generation: Generation, place: int, cut: Cut) -> Iterator[str]:
    """Nothing is cut as lost but all of what the log no longer held then, in a job that asks for that."""
    source = cut.task.rpartition("-")[0]
    topics = {one.operator: one.topic for one in generation.plan.sources}
    asked = generation.plan.spec["sources"].get(source, {}).get("on_data_loss") == "continue"
    for r in cut.ranges:
        partition = Partition(topics[source], r.partition)
        began = max((t.upto for t in cluster.broker.trims if t.partition == partition and t.seen <= place), default=0)
        if r.lost and (not asked or r.lost != r.stop - r.start or r.stop > began):
            yield f"lost: {cut.task} batch {cut.batch} is lost up to {r.stop} of {partition}, which began at {began}"


def _every_record_is_cut(cluster: Cluster, generation: Generation) -> Iterator[str]:
    """Invariant 1 for what went in: valid cuts follow each other and reach the ends of the drain.

    And what joins a table comes once the table is there (JOBS "A job file").
    """
    log = of_plan(generation.plan)
    brought: dict[str, int] = {}
    for place, one in enumerate(cluster.broker.written):
        if one.partition.topic == generation.topics.cuts:
            try:
                record = cuts.decode(one.value)
            except msgspec.DecodeError as error:
                yield f"cut log: {one.author} wrote what nobody can read at {one.offset}: {error}"
                continue
            if log.read(one.offset, record) and isinstance(record, Cut):
                yield from _gone_when_cut_as_lost(cluster, generation, place, record)
                if any(r.stop > r.start for r in record.ranges):
                    brought.setdefault(record.task, record.batch)
            if isinstance(record, Control) and record.kind == "drain" and log.ends == record.ends:
                yield from _drained_behind(cluster, generation, record)
    yield from _every_partition_is_read(cluster, generation, log)
    sources = generation.plan.spec["sources"]
    tables = {task for task in log.tasks if sources.get(task.rpartition("-")[0], {}).get("table")}
    loaded = log.loaded(tables)
    for task, batch in brought.items():
        if task not in tables and (loaded is None or batch < loaded):
            yield f"table: {task} brought records in batch {batch}, the tables are there from batch {loaded} on"
    if generation.ended == "drained":
        for task, ends in (log.ends or {}).items():
            reached = {r.partition: r.stop for r in log.task(task).ranges}
            short = {partition: end for partition, end in ends.items() if reached.get(partition, -1) < end}
            if short:
                yield f"not cut: {task} ended at {reached}, short of {short}"


def _asked_to_read_again(cluster: Cluster, generation: Generation) -> Iterator[str]:
    """Checks that no record of a topic that was created again is cut until a person has said where the job
    continues.
    """
    log, gone = of_plan(generation.plan), {past.id: past.seen for past in cluster.broker.past}
    for place, one in enumerate(cluster.broker.written if gone else ()):
        if one.partition.topic != generation.topics.cuts:
            continue
        record = cuts.decode(one.value)
        if log.read(one.offset, record) and isinstance(record, Cut) and any(r.stop > r.start for r in record.ranges):
            known = log.known(record.task.rpartition("-")[0])
            if place >= gone.get(known[-1], place + 1):
                yield f"replaced: {record.task} cut batch {record.batch} of a topic that nobody has asked it to read"


def _nobody_gives_way_unled(cluster: Cluster, generation: Generation) -> Iterator[str]:
    """While nobody leads a partition, a watermark goes past it only as far as any record had come before.

    What its writers keep meanwhile is in order, and late behind such a watermark; that nothing more lies there is what
    Kafka alone can say, through the leader.
    """
    spec, log = generation.plan.spec["sources"], of_plan(generation.plan)
    streams = {
        one.operator: one.topic
        for one in generation.plan.sources
        if one.operator in spec and not spec[one.operator].get("table")
    }
    times_us, newest_us = _how_far(cluster, set(streams.values()))
    for one in cluster.broker.written:
        if one.partition.topic != generation.topics.cuts:
            continue
        record = cuts.decode(one.value)
        before = log.task(record.task).watermark if isinstance(record, Cut) else NO_WATERMARK
        if not log.read(one.offset, record) or not isinstance(record, Cut) or record.final:
            continue
        topic = streams.get(record.task.rpartition("-")[0], "")
        for r in record.ranges if record.watermark > before else ():
            since_us = cluster.broker.unled_since_us(Partition(topic, r.partition), one.time_us)
            if since_us is None or (r.newest_us is not None and r.newest_us >= record.watermark):
                continue
            if record.watermark > (reached := newest_us[bisect_left(times_us, since_us)]):
                yield (
                    f"gives way: {record.task} batch {record.batch} goes past partition {r.partition} to "
                    f"{record.watermark}, nobody leads it since others had come to {reached}"
                )


def _how_far(cluster: Cluster, topics: set[str]) -> tuple[list[int], list[int]]:
    """Times at which records were appended to these topics, and the largest event time before each and behind the
    last.
    """
    times_us, newest_us = list[int](), [NO_WATERMARK]
    for one in cluster.broker.written:
        if one.partition.topic in topics:
            times_us.append(one.time_us)
            newest_us.append(max(newest_us[-1], event_time_us(one.value)))
    return times_us, newest_us


def _same_as_replayed(
    cluster: Cluster, generation: Generation, states: Mapping[tuple[str, int], State]
) -> Iterator[str]:
    """Invariants 1, 2 and 6: sinks and dead letters, frames and checkpoints hold what a replay of the cuts computes.

    A job that was cancelled before its topics were created has cut nothing.
    """
    if generation.topics.cuts not in cluster.broker.created:
        return
    plan = generation.plan
    begin = None if plan.seed is None else beginnings.begun(plan, beginnings.stored(cluster.broker, plan))
    reference = Reference(plan, generation.topics, states, vars(outputs)["MAX_FRAME_BYTES"], begin)
    named_job = generation.plan.generation
    try:
        with renewals.whole(cluster.broker, reference), roots.whole(cluster.broker):
            report = replay(cluster.broker, TOPICS, NAME, generation=named_job, run_by=lambda *_: reference)
    except (HoldfastError, CommandFailed) as error:
        yield f"replay: {error}"
        return
    if report.miscounted:
        yield f"gap: {report.miscounted[0]}"
    elif not report.exact:
        first = "; ".join(str(difference) for difference in report.differences[:3])
        yield f"replay differs: rows {report.rows}, dead letters {report.dead_letters}: {first}"
    for unit, batch in reference.differ[:1]:
        yield f"state: the checkpoint of {unit} at batch {batch} is not what the cuts up to there give"
    for one in cluster.broker.written:
        if one.partition.topic.startswith(f"{generation.topics.root}.data."):
            header = unpack(one.value)
            if header.flags & FLAG_TENTATIVE:
                continue
            if header.batch <= reference.batch and reference.frames.get(frame(one.partition, header)) != said(header):
                yield f"frame: {one.author} sent another batch {header.batch} to {one.partition} than the cuts give"
                return


# -- checkpoints and trims --------------------------------------------------------------------------------------------


class _CheckpointCheck:
    """Folds the checkpoint logs of a generation along the trace and looks at each trim."""

    def __init__(self, cluster: Cluster, generation: Generation) -> None:
        self._cluster, self._generation = cluster, generation
        units = range(len(generation.plan.units))
        partitions = [Partition(generation.topics.checkpoints, index) for index in units]
        generation.folds = {partition: CheckpointLog() for partition in partitions}
        self._records: dict[Partition, list[tuple[int, checkpoints.CheckpointRecord]]] = {p: [] for p in partitions}
        self._images = {partition: MemoryImage() for partition in partitions}
        self._acked: dict[tuple[str, Partition], int] = {}
        self._begins = generation.plan.first_batch
        self._arrivals = defaultdict[tuple[Partition, int], _Arrivals](lambda: _Arrivals(self._begins))
        self._outputs = {
            name: [
                (Partition(output.topic, target), task.index)
                for task in layout.tasks
                for output in task.outputs
                for target in output.targets
            ]
            for name, layout in unit_layouts(generation.plan, generation.topics).items()
        }
        self._sources = {
            name: {task.name for task in layout.tasks if task.source is not None}
            for name, layout in unit_layouts(generation.plan, generation.topics).items()
        }
        self.states: dict[tuple[str, int], State] = {}
        self.globals = GlobalCheckpoints(generation.plan)
        self._cuts = of_plan(generation.plan)
        self._snapshots: dict[int, CutsSnapshot] = {}
        self.retention = Retention(generation.plan, generation.topics, self.globals.assigned)

    def run(self) -> Iterator[str]:
        written, trims = self._cluster.broker.written, self._cluster.broker.trims
        done = 0
        for trim in trims:
            while done < trim.seen:
                yield from self._record(written[done])
                done += 1
            yield from self._trim(trim)
        for one in written[done:]:
            yield from self._record(one)
        if self._generation.ended == "drained":
            folds = ((self._generation.unit_of(at), fold) for at, fold in self._generation.folds.items())
            yield from self.globals.left_behind({unit: fold.line for unit, fold in folds})

    def _record(self, one: Written) -> Iterator[str]:
        if one.partition.topic.startswith(f"{self._generation.topics.root}.data."):
            header = unpack(one.value)
            if header.flags & FLAG_TENTATIVE:
                return
            self._arrivals[one.partition, header.writer].add(header)
            self.retention.sent(one)
        if one.partition.topic == self._generation.topics.cuts:
            self._cut(one)
        if one.partition.topic == TOPICS.assignments:
            yield from self._decided(one)
        if one.partition.topic == TOPICS.heartbeats and self.retention.on:
            logs = {self._generation.unit_of(at): fold for at, fold in self._generation.folds.items()}
            yield from self.retention.beat(one, logs)
        if one.partition not in self._records:
            return
        try:
            record = checkpoints.decode(one.value)
        except msgspec.DecodeError:
            return
        self._records[one.partition].append((one.offset, record))
        fold = self._generation.folds[one.partition]
        line = fold.line
        run = fold.read(one.offset, record)
        if run is not None:
            yield from self._valid(one.partition, run)
        elif fold.line != line:
            self._rolled_back(one.partition, fold)

    def _decided(self, one: Written) -> Iterator[str]:
        named = [unit.name for unit in self._generation.plan.units]
        before = {unit: self.retention.change(unit) for unit in named}
        complete, line = self.globals.newest
        yield from self.globals.decide(one.value)
        yield from self.retention.decided(before, complete, line)

    def _rolled_back(self, partition: Partition, fold: CheckpointLog) -> None:
        unit = self._generation.unit_of(partition)
        self._images[partition] = self.globals.roll_back(unit, fold.last_b, fold.line)
        self._acked = {key: offset for key, offset in self._acked.items() if key[0] != unit}

    def _cut(self, one: Written) -> None:
        """Notes the valid snapshots of the cut log by where they stand."""
        record = cuts.decode(one.value)
        before = self._cuts.snapshots
        self._cuts.read(one.offset, record)
        if self._cuts.snapshots != before:
            assert isinstance(record, Snapshot)
            self._snapshots[record.state.upto] = record.state

    def _valid(self, partition: Partition, run: Run) -> Iterator[str]:
        for part in run.parts:
            self._images[partition].apply(checkpoints.unpack(part.entries))
        unit = self._generation.unit_of(partition)
        state = named(self._images[partition], run.marker.tables)
        if self.states.setdefault((unit, run.marker.b), state) != state:
            yield f"again: {unit} has gone back, and has another state at batch {run.marker.b} than before"
        self.globals.mark(unit, run.marker, self._images[partition])
        for target, writer in self._outputs[unit]:
            if self._arrivals[target, writer].upto < run.marker.b:
                yield f"marker: {unit} marks batch {run.marker.b}, of which not all frames are on {target}"
        for task, cut in (run.marker.cuts.tasks if run.marker.cuts is not None else {}).items():
            # One behind is read again by a restart: another task's later cut may come before it in the log.
            planted = run.marker.b <= self._begins
            if task in self._sources[unit] and cut.batch > run.marker.b and not cut.final and not planted:
                yield f"marker: {unit} marks batch {run.marker.b} with the cuts as of batch {cut.batch} of {task}"
        for position in run.marker.positions:
            key = (unit, Partition(position.topic, position.partition))
            if position.offset < self._acked.get(key, 0):
                yield f"ack: {unit} went back on {key[1]} from {self._acked[key]} to {position.offset}"
            self._acked[key] = position.offset

    def _trim(self, trim: Trimmed) -> Iterator[str]:
        if trim.partition in self._records:
            yield from self._checkpoint_trim(trim)
        elif trim.partition.topic == self._generation.topics.cuts:
            yield from self._cut_trim(trim)
        elif trim.partition.topic in (logs := commit_logs(self._generation.plan)):
            yield from self._commit_trim(trim, logs[trim.partition.topic])
        elif trim.partition.topic.startswith(f"{self._generation.topics.root}.data."):
            for unit in self._generation.reading.get(trim.partition, ()):
                if self.retention.on:
                    yield from self.retention.trimmed(trim, unit, self._generation.fold(unit))
                    continue
                needed = _needed(self._generation.fold(unit).last, trim.partition)
                if trim.upto > needed:
                    yield f"trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} needs {needed}"
                back = _needed(self.globals.needed(unit), trim.partition)
                yield from trimmed_too_far(self.globals, unit, trim, back)
            self.retention.forget(trim)

    def _cut_trim(self, trim: Trimmed) -> Iterator[str]:
        """The log begins with a state that a valid snapshot says, and no unit restarts before it."""
        if trim.upto not in self._snapshots:
            yield f"cut trim: {trim.author} trimmed {trim.partition} to {trim.upto}, which no valid snapshot names"
        raising = may_raise(self._generation.plan)
        for unit, tasks in self._sources.items():
            last = self._generation.fold(unit).last
            needed = 0 if last is None or last.cuts is None else last.cuts.upto
            if (tasks or unit in raising) and trim.upto > needed:
                yield f"cut trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} restarts at {needed}"
            if tasks or unit in raising:
                back = self.globals.needed(unit)
                at = 0 if back is None or back.cuts is None else back.cuts.upto
                yield from trimmed_too_far(self.globals, unit, trim, at)

    def _commit_trim(self, trim: Trimmed, operator: str) -> Iterator[str]:
        """The commit log begins with a commit that a snapshot of the cut log names, and that no cut still needs."""
        task = task_name(operator, 0)
        named = {state.tasks[task].ranges[0].stop - 1 for state in self._snapshots.values()}
        if trim.upto not in named:
            yield f"commit trim: {trim.author} trimmed {trim.partition} to {trim.upto}, which no valid snapshot names"
        for unit, tasks in self._sources.items():
            last = self._generation.fold(unit).last if task in tasks else None
            needed = 0 if last is None or last.cuts is None else last.cuts.tasks[task].ranges[0].stop - 1
            if task in tasks and trim.upto > needed:
                yield f"commit trim: {trim.author} trimmed {trim.partition} to {trim.upto}, {unit} needs {needed}"

    def _checkpoint_trim(self, trim: Trimmed) -> Iterator[str]:
        """Invariant 6: what is left restores the same image as all there ever was."""
        left = [(offset, record) for offset, record in self._records[trim.partition] if offset >= trim.upto]
        if not any(isinstance(record, Anchor) and record.upto == trim.upto for _, record in left):
            yield f"trim: {trim.author} trimmed {trim.partition} to {trim.upto}, which no anchor names"
        try:
            folded, runs = restore(iter(left))
        except StateCorrupted as error:
            yield f"restore: {trim.partition} trimmed to {trim.upto} restores nothing: {error}"
            return
        image = MemoryImage()
        for run in runs:
            for part in run.parts:
                image.apply(checkpoints.unpack(part.entries))
        if _entries(image) != _entries(self._images[trim.partition]):
            yield f"restore: {trim.partition} trimmed to {trim.upto} restores another image"
        if folded.last_id != self._generation.folds[trim.partition].last_id:
            yield f"restore: {trim.partition} trimmed to {trim.upto} ends at another marker"
        yield from self.globals.restored(self._generation.unit_of(trim.partition), trim.partition, left)


def _every_partition_is_read(cluster: Cluster, generation: Generation, log: CutLog) -> Iterator[str]:
    """Once the job has run out, also those that appeared while it ran, each by one task and from its first record."""
    if log.ends is None or not all(task.final for task in log.tasks.values()):
        return
    hosted = {one.operator for one in generation.plan.spark}
    for source in generation.plan.sources:
        if source.operator in hosted:
            continue  # it reads a commit log
        own = [log.task(task_name(source.operator, index)) for index in range(len(source.owners))]
        count = cluster.broker.topics()[source.topic]
        # A drain ends partitions at 0 that the topic had before it was created again.
        read = sorted(r.partition for task in own for r in task.ranges if r.partition < count or r.stop)
        if read != list(range(count)):
            yield f"partitions: {source.operator} reads {read} of {source.topic}, which has {count}"
    first: dict[tuple[str, int], int] = {}
    for one in cluster.broker.written:
        record = cuts.decode(one.value) if one.partition.topic == generation.topics.cuts else None
        if isinstance(record, Replaced):
            break  # from there on a person says where partitions begin
        for r in record.ranges if isinstance(record, Cut) else ():
            first.setdefault((record.task, r.partition), r.start)  # type: ignore[union-attr]
    begins = {(task, r.partition): r.start for task, of in of_plan(generation.plan).tasks.items() for r in of.ranges}
    for (task, p), at in first.items():
        if at != begins.get((task, p), 0):
            yield f"partitions: {task} begins partition {p} at {at}"


@dataclass(slots=True)
class _Arrivals:
    """The frames of one writer on one partition: up to which batch all are there."""

    received: int = 0
    parts: int = 0
    ended: bool = False

    def add(self, header: Header) -> None:
        if header.batch == self.received + 1 and header.part == self.parts and not self.ended:
            self.parts += 1
            if self.parts == header.parts:
                self.received, self.parts = header.batch, 0
                self.ended = bool(header.flags & FLAG_END)

    @property
    def upto(self) -> float:
        return float("inf") if self.ended else self.received


def _images(cluster: Cluster, generation: Generation, states: Mapping[tuple[str, int], State]) -> Iterator[str]:
    """Checks that every copy's image is the state as of a valid marker."""
    for (key, batch), state in cluster.images.seen.items():
        _, named_generation, unit = split_unit_key(key)
        if named_generation == generation.plan.generation and state != states.get((unit, batch), {}):
            yield f"image: that of {unit} as of batch {batch} is not what the checkpoint log gives"


def _needed(marker: Marker | None, partition: Partition) -> int:
    positions = () if marker is None else marker.positions
    return next((p.offset for p in positions if (p.topic, p.partition) == (partition.topic, partition.index)), 0)


def _entries(image: MemoryImage) -> object:
    return image.slice(b"", 2**62)
