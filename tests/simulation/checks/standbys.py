"""Rules for standbys: their places, and that a unit keeps the one it has until the next is complete.

Source: MECHANISMS C4, C7, C9 and H9, docs/decisions/0087 to 0089.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from holdfast.schemas import assignments, checkpoints, heartbeats
from holdfast.schemas.assignments import Change, generation_of, unit_key
from holdfast.schemas.heartbeats import CopyState, Exit, Heartbeat
from holdfast.schemas.plans import Plan
from holdfast.schemas.topics import JobTopics
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.checkpoint_log import CheckpointLog
from holdfast.services.kernel.plans.priorities import priorities
from holdfast.services.recovery.core.placement.domains import Domains
from holdfast.services.recovery.core.placement.room import standbys
from holdfast.services.recovery.core.unit.facts.schemes import SCHEMES, Rung
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS

RESTORED = ("synced", "opening", "running", "ended")
SERVED_US = 2_500_000
"""A unit that is alone for so long has no place."""
HEARD_WITHIN_US, KNOWN_US = 250_000, 1_500_000
"""A worker that was heard so lately, and has lived for so long, is one that every replica knows to live."""
READ_WITHIN_US = 20_000
"""A replica that decides now may not have read yet what another one has decided so lately."""


@dataclass(slots=True)
class _Known:
    """A worker by its heartbeats. since_us: its incarnation was heard first."""

    beat: Heartbeat
    since_us: int
    at_us: int
    exited: bool = False


@dataclass(slots=True)
class _Trace:
    """All that was written so far. durable: the newest valid marker of each unit of the job. needed: that as of the
    record with which a standby began to move, by unit. left_us: when a standby of the one worker's last left the other.
    """

    plan: Plan
    topics: JobTopics
    assigned: Assigned = field(default_factory=Assigned)
    workers: dict[str, _Known] = field(default_factory=dict)
    reports: dict[tuple[str, str], CopyState] = field(default_factory=dict)
    durable: dict[str, int] = field(default_factory=dict)
    needed: dict[str, int] = field(default_factory=dict)
    folds: dict[int, CheckpointLog] = field(default_factory=dict)
    changed_us: dict[str, int] = field(default_factory=dict)
    left_us: dict[tuple[str, str], int] = field(default_factory=dict)
    healed_us: int | None = None

    def read(self, one: Written) -> Iterator[str]:
        if one.partition.topic == TOPICS.submit and self.healed_us is not None and one.time_us >= self.healed_us:
            yield from self._shared(one.time_us)
        if one.partition.topic == TOPICS.heartbeats:
            self._beat(one)
        elif one.partition.topic == self.topics.checkpoints:
            self._checkpoint(one)
        elif one.partition.topic == TOPICS.assignments:
            placed = self.assigned.units()
            for change in self.assigned.read(assignments.decode(one.value)):
                before, placed[change.unit] = placed.get(change.unit), change
                self.changed_us[change.unit] = one.time_us
                self.left_us |= dict.fromkeys(_backed(before) - _backed(change), one.time_us)
                if before is not None and generation_of(change.unit) == self.plan.generation:
                    yield from self._changed(before, change, placed, one.time_us)

    def _beat(self, one: Written) -> None:
        beat = heartbeats.decode(one.value)
        if isinstance(beat, heartbeats.Echo):
            return
        known = self.workers.get(beat.worker)
        if isinstance(beat, Exit):
            if known is not None and known.beat.incarnation == beat.incarnation:
                known.exited = True
            return
        if known is None or known.beat.incarnation < beat.incarnation:
            self.workers[beat.worker] = _Known(beat, one.time_us, one.time_us)
        elif known.beat.incarnation == beat.incarnation:
            known.beat, known.at_us = beat, one.time_us
        self.reports |= {(beat.incarnation, copy.unit): copy for copy in beat.copies}

    def _checkpoint(self, one: Written) -> None:
        try:
            record = checkpoints.decode(one.value)
        except msgspec.DecodeError:
            return
        fold = self.folds.setdefault(one.partition.index, CheckpointLog())
        run = fold.read(one.offset, record)
        if run is not None:
            unit = next(unit.name for unit in self.plan.units if unit.partition == one.partition.index)
            self.durable[unit] = run.marker.b

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _changed(self, before: Change, after: Change, placed: Mapping[str, Change], now_us: int) -> Iterator[str]:
        """placed: all units, as the record gives them up to this change of it."""
        unit = after.unit.rpartition("/")[2]
        if after.reason.startswith(Sign.STANDBY_ELSEWHERE.value):
            self.needed[unit] = self.durable.get(unit, 0)
            yield from self._begun(before, after)
        if after.reason.startswith(Sign.STANDBY_COMPLETE.value):
            yield from self._complete(before, after, self.needed.get(unit, 0))
        if after.reason.startswith(Sign.UNPROTECTED.value):
            yield from self._spread(after, placed, now_us)

    def _begun(self, before: Change, after: Change) -> Iterator[str]:
        """The standby that there is stays, and none comes nearer to the primary."""
        gone = {copy.worker for copy in before.copies} - {copy.worker for copy in after.copies}
        if gone:
            yield f"reformation: {after.unit}#{after.epoch} lets {sorted(gone)} go before the new standby is there"
        primary, former, new = after.copies[0].worker, before.copies[1].worker, after.copies[-1].worker
        if not self._near(primary, former) and self._near(primary, new):
            yield f"zone: {after.unit}#{after.epoch} gets its standby in the zone of its primary, on {new}"

    def _complete(self, before: Change, after: Change, needed: int) -> Iterator[str]:
        """Whoever takes the place of a standby holds a checkpoint as new as the newest when it was asked to."""
        new = before.replacing
        said = None if new is None else self.reports.get((new.incarnation, after.unit))
        whole = said is not None and said.epoch >= before.epoch and said.state in RESTORED and said.batch >= needed
        if not whole:
            where = "" if new is None else f"{new.worker} "
            yield f"reformation: {after.unit}#{after.epoch} lets its standby go, and {where}has no image as of {needed}"

    def _spread(self, after: Change, placed: Mapping[str, Change], now_us: int) -> Iterator[str]:
        """No standby is added where two more of that worker's lie than at another worker that could take it as well."""
        primary, chosen = (copy.worker for copy in after.copies[:2])
        slots = {name: known.beat.slots for name, known in self.workers.items()}
        held, group = dict.fromkeys(slots, 0), dict.fromkeys(slots, 0)
        for unit, change in placed.items():
            for index, copy in enumerate(change.copies) if unit != after.unit else ():
                held[copy.worker] = held.get(copy.worker, 0) + 1
                if index and change.copies[0].worker == primary:
                    group[copy.worker] = group.get(copy.worker, 0) + 1
        settled = {name for name in slots if now_us - self.left_us.get((primary, name), 0) > READ_WITHIN_US}
        for name in slots:
            most = self.workers[name].beat.standbys
            better = group[name] + 2 <= group.get(chosen, 0) and held[name] + 1 < slots[name] and most < 0
            if (
                better
                and name in settled - {primary}
                and self._takes(name, now_us)
                and self._near(primary, chosen) >= self._near(primary, name)
            ):
                yield (
                    f"group: {after.unit}#{after.epoch} stands by on {chosen}, which has {group[chosen]} of "
                    f"{primary}, and {name} has {group[name]}"
                )

    def _shared(self, now_us: int) -> Iterator[str]:
        """Once all is protected that can be, each worker holds what it may, and the important units are served."""
        count = Counter(worker for change in self.assigned.units().values() for worker in standbys(change))
        known = {name: each for name, each in self.workers.items() if self._takes(name, now_us)}
        for name, each in known.items():
            if 0 <= each.beat.standbys < count[name]:
                yield f"capacity: {name} holds {count[name]} standbys, and may hold {each.beat.standbys}"
        free = {name for name, each in known.items() if not 0 <= each.beat.standbys <= count[name]}
        rank = {unit_key(self.plan.job, self.plan.generation, u): n for u, n in priorities(self.plan).items()}
        since = {unit: now_us - self.changed_us.get(unit, 0) for unit in rank}
        placed = {unit: change for unit, change in self.assigned.units().items() if unit in rank}
        for unit, change in placed.items():
            wants = SCHEMES[change.scheme].secondary is not Rung.ABSENT
            if not wants or len(change.copies) != 1:
                continue
            own = change.copies[0].worker
            for name in sorted(free - {own}) if since[unit] > SERVED_US else ():
                yield f"priority: {unit} has no standby, and {name} has a place"
            for other, held in placed.items():
                for worker in standbys(held):
                    if rank[other] < rank[unit] and worker != own and worker in known:
                        yield f"priority: {other} has a standby on {worker}, and {unit}, more important, has none"

    def _takes(self, worker: str, now_us: int) -> bool:
        """Every replica knows it to live, and the job's units fit it."""
        known = self.workers[worker]
        lives = not known.exited and now_us - known.at_us < HEARD_WITHIN_US and now_us - known.since_us > KNOWN_US
        fits = not known.beat.hosts and known.beat.versions == dict(self.plan.versions)
        return lives and fits and not known.beat.leaving and not known.beat.stuck

    def _near(self, one: str, other: str) -> bool:
        zones = {name: known.beat.zone for name, known in self.workers.items()}
        return Domains(zones).of(one) == Domains(zones).of(other)


def _backed(change: Change | None) -> set[tuple[str, str]]:
    """Pairs of a leader and the worker of its standby."""
    copies = () if change is None else change.copies
    return {(copies[0].worker, copy.worker) for copy in copies[1:]}


def check(written: list[Written], plan: Plan, topics: JobTopics, healed_us: int | None) -> Iterator[str]:
    """Checks one generation. healed_us: when all faults had ended; requests of the user then find all protected."""
    trace = _Trace(plan, topics, healed_us=healed_us)
    for one in written:
        yield from trace.read(one)
