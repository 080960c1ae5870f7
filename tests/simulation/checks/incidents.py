"""Rules for incidents: docs/decisions/0095; and the drawing of their jobs.

The order is checked against a second planner, plain and slow; slots, turns and lines along the trace of the broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest import mock

from holdfast.schemas import assignments, heartbeats
from holdfast.schemas.assignments import Change, job_key, job_key_of
from holdfast.schemas.heartbeats import Heartbeat
from holdfast.schemas.incidents import Incident
from holdfast.schemas.plans import Ended, Plan
from holdfast.services.decisions.assigned import Assigned
from holdfast.services.decisions.policies import ALIGNED, in_force
from holdfast.services.recovery.core.job import incidents
from holdfast.services.recovery.core.job.incident import LAST, NO_QUERY, Scene, next_record
from holdfast.services.recovery.core.unit.table.moves import Move
from holdfast.services.recovery.core.unit.table.signs import Sign
from tests.simulation.kafka.broker import Written, decision_of
from tests.simulation.kafka.names import TOPICS

KNOWN_US = 1_500_000
"""By then every replica has read of an incident, and what it had proposed before is there."""
AGAIN = tuple(f"{one.value}: {Move.PLACE.value}" for one in (Sign.PRIMARY_GONE, Sign.BOTH_GONE, Sign.PRIMARY_GIVEN_UP))
WITHIN_S = (0.5, 3.0, 10.0)


def draw_incidents(random: Random, retains: Sequence[str] = ()) -> dict[str, Any]:
    """Incident settings of a job's fault tolerance."""
    return {
        "buffering": random.choice(retains or ("upstream", "adaptive", "adaptive", "source")),
        "correlated_failure": {"workers": random.choice((1, 2, 2, 3)), "within_s": random.choice(WITHIN_S)},
    }


# -- plans ------------------------------------------------------------------------------------------------------------


@contextmanager
def watched() -> Iterator[list[str]]:
    """Violations in the plans that replicas make while it is open."""
    wrong, true = list[str](), next_record

    def watch(scene: Scene) -> tuple[Incident, str] | None:
        due = true(scene)
        if due is not None and due[0].planned and not due[0].over:
            wrong.extend(_plan(scene, due[0]))
        return due

    with mock.patch.object(incidents, "next_record", watch):
        yield wrong


def _plan(scene: Scene, made: Incident) -> Iterator[str]:
    least = len(scene.stranded) if made.beyond else 0
    slots = [max(scene.slots, least), max(scene.drivers, least)]
    if made.blocking and any(wants > free for wants, free in zip(_cost(scene, scene.stranded), slots, strict=True)):
        slots = [0, 0]
    wanted = [*_greedy(scene, slots, made.consumption)]
    if [(step.query, step.units) for step in made.chosen] != wanted:
        yield f"plan: {made.job}#{made.number} of {sorted(scene.stranded)}, {slots} slots: {made.chosen}, not {wanted}"


def _cost(scene: Scene, units: Collection[str]) -> tuple[int, int]:
    """Slots of workers, and of Spark drivers."""
    hosted = sum(unit in scene.hosted for unit in units)
    return len(units) - hosted, hosted


def _greedy(scene: Scene, slots: list[int], used: Mapping[str, float]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """MECHANISMS R6, word for word: every density is computed again in each step. used: of units, if not 1."""
    left, failed = list(slots), {name: set(query.units & scene.stranded) for name, query in scene.queries.items()}
    failed[NO_QUERY] = set(scene.stranded).difference(*failed.values())
    worth = {name: query.priority for name, query in scene.queries.items()} | {NO_QUERY: LAST}
    shares = Counter(unit for units in failed.values() for unit in units)
    while True:
        costs = {name: _cost(scene, units) for name, units in failed.items() if units}
        fitting = [name for name, cost in costs.items() if cost[0] <= left[0] and cost[1] <= left[1]]
        if not fitting:
            return
        costly = {name: sum(used.get(unit, 1.0) / shares[unit] for unit in sorted(failed[name])) for name in fitting}
        densities = {name: worth[name] / costly[name] for name in fitting}
        best = max(densities.values())
        # Sums of the same shares in another order differ in the last digit.
        chosen = next(name for name in fitting if densities[name] >= best * (1 - 1e-9))
        units = tuple(sorted(failed[chosen]))
        yield chosen, units
        left = [free - taken for free, taken in zip(left, costs[chosen], strict=True)]
        for other in failed.values():
            other.difference_update(units)


# -- slots, turns and lines -------------------------------------------------------------------------------------------


class _Trace:
    """Trace of one job."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._key = plan, job_key(plan.job, plan.generation)
        self._tolerance: Mapping[str, Any] = plan.spec.get("fault_tolerance") or {}
        self._assigned = Assigned()
        self._slots: dict[str, int] = {}
        self._since_us = 0
        self._again: dict[str, tuple[str, int]] = {}

    def read(self, one: Written) -> Iterator[str]:
        if one.partition.topic == TOPICS.heartbeats:
            beat = heartbeats.decode(one.value)
            if isinstance(beat, Heartbeat):
                self._slots[beat.incarnation] = max(beat.slots, 1)
        elif one.partition.topic == TOPICS.assignments:
            before, record = self._assigned.units(), assignments.decode(one.value)
            complete, newest = self._assigned.complete(self._key), self._assigned.line(self._key)
            waiting = self._waiting(one.time_us)
            changes = self._assigned.read(record)
            taken = {
                unit: change for unit, change in before.items() if not self._unread(unit, record.author, one.time_us)
            } | {change.unit: change for change in changes if not _only_adds(before.get(change.unit), change)}
            for change in changes:
                if change.unit in waiting and change.reason.startswith(AGAIN):
                    yield f"turn: {change.unit}#{change.epoch} is placed again, and has no slot in the incident"
                if change.reason.startswith(AGAIN):
                    self._again[change.unit] = record.author, one.time_us
                if job_key_of(change.unit) == self._key and change.reason.startswith(f"{Sign.TURN.value}: "):
                    yield from self._restored(before[change.unit], change, taken, complete, newest)
            if any(incident.job_key == self._key for incident in record.incidents):
                self._since_us = one.time_us

    def _unread(self, unit: str, author: str, now_us: int) -> bool:
        """Another replica has placed the unit again, and neither need have read yet what the other one did."""
        by, at_us = self._again.get(unit, (author, 0))
        return by != author and now_us - at_us < KNOWN_US

    def _waiting(self, now_us: int) -> set[str]:
        """Units that have no slot in an incident, and every replica knows it."""
        incident = self._assigned.incident(self._key)
        if incident is None or incident.over or now_us - self._since_us < KNOWN_US:
            return set()
        return {f"{self._key}/{unit}" for unit in set(incident.units).difference(incident.granted)}

    def _restored(
        self, before: Change, after: Change, taken: Mapping[str, Change], complete: int, newest: int
    ) -> Iterator[str]:
        """taken: which units take slots."""
        incident, name = self._assigned.incident(self._key), after.unit.rpartition("/")[2]
        where = f"{after.unit}#{after.epoch}"
        if incident is None:
            yield f"turn: {where} is restored, and there is no incident"
            return
        leader = after.committer
        assert leader is not None
        held = [
            unit
            for unit, change in taken.items()
            if any(copy.incarnation == leader.incarnation for copy in change.copies)
        ]
        if not incident.beyond and len(held) > self._slots.get(leader.incarnation, 0):
            yield f"slots: {where} is the {len(held)}th unit on {leader.worker}, which has {self._slots}"
        if incident.line and self._lined and before.line < incident.line and (after.line, after.back) != (
            max(newest, incident.line), complete,
        ):  # fmt: skip
            yield f"incident line: {where} begins on line {after.line} at {after.back}, not at {complete}"
        place = incident.places.get(name)
        if not incident.over and place is not None and place.incarnation != leader.incarnation:
            yield f"turn: {where} is restored on {leader.worker}, and its slot is on {place.worker}"
        if not incident.over and name not in incident.units:
            yield f"turn: {where} is restored, and does not belong to the incident"

    @property
    def _lined(self) -> bool:
        policy = in_force(self._plan, self._assigned).policy
        return policy == ALIGNED and self._assigned.complete(self._key) >= 0


def _only_adds(before: Change | None, after: Change) -> bool:
    """A new secondary may go beyond slots once no unit waits for one: what is restored in the same record was first."""
    return before is not None and set(before.copies) < set(after.copies)


def check(written: list[Written], plan: Plan) -> Iterator[str]:
    """Checks one generation."""
    trace = _Trace(plan)
    for one in written:
        yield from trace.read(one)
        decision = decision_of(one) if one.partition.topic == TOPICS.plans else None
        if isinstance(decision, Ended) and decision.generation == plan.generation:
            return
