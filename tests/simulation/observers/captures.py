"""Promises of checkpoint policies, seen from beside: every worker is looked at after each of its turns (MECHANISMS S1,
S4, C3; docs/decisions/0080).

A look sees where a turn has ended. A fact held throughout a turn if two looks agree. A policy's answer follows from the
moment at which it is asked: `Asked` looks at the units then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from holdfast.schemas import heartbeats
from holdfast.schemas.assignments import CheckpointPolicy, Copy
from holdfast.services.worker.checkpoint.policies.idle_minmax import IdleMinMax
from holdfast.services.worker.checkpoint.policies.policy import Kind
from holdfast.services.worker.checkpoint.scheduler import Scheduler
from holdfast.services.worker.process.loop import Worker
from holdfast.services.worker.unit.turns.policy_view import PolicyView
from holdfast.services.worker.unit.turns.running_copy import RunningCopy
from tests.simulation.kafka.broker import Written
from tests.simulation.kafka.names import TOPICS
from tests.simulation.observers.timed import TIMED, early, late, swept_early

IDLE = ("idle-minmax", "idle-roundrobin")
OVERDUE_US = 100_000
PROMISING = (*IDLE, *TIMED, "aligned")
"""Policies whose promise is looked at after each turn. What `sweep` promises is looked at where it is asked."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A copy after a turn.

    encoding: pieces of its run are yet to be written.
    applied: runs of other copies.
    overdue: a capture could begin, and the last one is longer ago than its policy allows; a unit at rest is not.
    """

    of: PolicyView
    terms: CheckpointPolicy
    leads: bool
    ended: bool
    batch: int
    captured_ms: float
    captured_batch: int
    marked: int
    encoding: bool
    applied: int
    overdue: bool

    @classmethod
    def at(cls, running: RunningCopy, now_ms: float) -> Seen:
        own, runs, terms = running.policy_view, running.checkpoints.checkpointer, running._unit.job.checkpoint
        now = running.condition
        ready = now.commits and own.batches > 0 and own.resting
        return cls(
            own,
            terms,
            now.commits,
            now.ended,
            now.batch,
            own.captured_ms,
            own.captured_batch,
            0 if now.marker is None else now.marker.b,
            runs.writer.phase.value == "encoding",
            running._unit.spent.applies + runs.applier.waiting,
            ready and late(terms, own.captured_ms, now_ms) and not (own.still and terms.policy in TIMED),
        )

    def begun(self, before: Seen) -> bool:
        """A capture has begun since."""
        return self.captured_batch != before.captured_batch


@dataclass(frozen=True, slots=True)
class Claim:
    """A unit was captured again, so its backup must have said before that it is as far as this marker."""

    unit: str
    backup: Copy
    batch: int
    at_us: int


class Asked(Scheduler):
    """The scheduler of a simulated worker: each answer of an idle policy is held against the units as they are then."""

    def __init__(self, captures: Captures) -> None:
        super().__init__()
        self._captures = captures

    def capture(self, unit: str, now_ms: float) -> Kind | None:
        kind, units = super().capture(unit, now_ms), self._here()
        of = units[unit]
        if kind is not Kind.SWEEP or of.ended:
            return kind
        if of.policy in IDLE and now_ms - of.captured_ms < of._job.checkpoint.max_interval_ms:
            self._captures.chosen(unit, units)
        elif of.policy == "sweep":
            self._captures.swept(unit, of, now_ms)
        return kind

    def applies(self, unit: str, now_ms: float) -> bool:
        applies, units = super().applies(unit, now_ms), self._here()
        if applies and units[unit].policy in IDLE and not units[unit].leads:
            self._captures.pasted(unit, units)
        return applies

    def _here(self) -> dict[str, PolicyView]:
        return cast(dict[str, PolicyView], self._units)


class Captures:
    """wrong: where a policy was not kept. claims: what heartbeats must have said."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.wrong: list[str] = []
        self.claims: list[Claim] = []
        self._now_us = now_us
        self._entries: dict[str, tuple[str, ...]] = {}
        self._overdue: dict[str, dict[str, int]] = {}
        self._last: dict[str, dict[str, Seen]] = {}

    def look(self, own: str, worker: Worker, now_ms: float) -> None:
        """own: the worker's incarnation. now_ms: what its clock shows."""
        if not [True for job in worker._jobs.values() if job.checkpoint.policy in PROMISING]:
            self._last.pop(own, None)  # after each turn of each worker: a generator would take twice as long
            return
        copies = worker._copies.here.items()
        now = {unit: Seen.at(copy.running, now_ms) for unit, copy in copies if copy.running is not None}
        known, self._last[own] = self._last.get(own, {}), now
        before = {unit: one for unit, one in known.items() if unit in now and now[unit].of is one.of}
        self._look_at_entry(own, now)
        self._look_at_overdue(own, before, now)
        for unit, was in before.items():
            if was.leads and now[unit].leads:
                self._look(unit, was, now[unit], before, now)

    def chosen(self, unit: str, units: dict[str, PolicyView]) -> None:
        """An idle policy has the unit captured, neither because it has ended nor as the maximum interval is over."""
        waiting = [name for name, one in units.items() if one._of.data_wait]
        if waiting:
            self._note(f"not idle: {unit} was captured while data waited for {', '.join(waiting)}")
        of = units[unit]
        backup = of._job.backup(of._name)
        if of._checkpoints.marker is not None and backup is not None and of._job.followed(of._name):
            self.claims.append(Claim(unit, backup, of._checkpoints.marker.b, self._now_us()))

    def swept(self, unit: str, of: PolicyView, now_ms: float) -> None:
        """A sweep of the unit begins."""
        if wrong := swept_early(of, now_ms):
            self._note(f"{wrong}: {unit}")

    def pasted(self, unit: str, units: dict[str, PolicyView]) -> None:
        """An idle policy has a message of the unit pasted."""
        of = units[unit]
        since_ms = of.waiting_since_ms
        for name, one in units.items() if since_ms < math.inf else ():
            same = not one.leads and one.policy == of.policy and one.primary == of.primary
            if same and one.waiting_since_ms < since_ms:
                self._note(f"paste order: a message of {unit} is pasted, and one of {name} came before it")

    def unconfirmed(self, written: Iterable[Written]) -> Iterator[str]:
        """Captures before which the backup had not said that it was as far as the last one."""
        said: dict[tuple[str, str], int] = {}
        claims = sorted(self.claims, key=lambda one: one.at_us, reverse=True)
        for one in written if claims else ():
            while claims and claims[-1].at_us < one.time_us:
                yield from self._unheard(claims.pop(), said)
            if one.partition.topic == TOPICS.heartbeats:
                beat = heartbeats.decode(one.value)
                if isinstance(beat, heartbeats.Heartbeat):
                    for copy in beat.copies:
                        key = beat.incarnation, copy.unit
                        said[key] = max(said.get(key, -1), copy.batch)
        while claims:
            yield from self._unheard(claims.pop(), said)

    def _unheard(self, claim: Claim, said: dict[tuple[str, str], int]) -> Iterator[str]:
        heard = said.get((claim.backup.incarnation, claim.unit), -1)
        if heard < claim.batch:
            backup = claim.backup.worker
            yield f"unconfirmed: {claim.unit} was captured again, and {backup} was at {heard} of {claim.batch}"

    def _look_at_entry(self, own: str, now: dict[str, Seen]) -> None:
        """Checks that units captured as one entry have one backup."""
        scheduler = next((one.of._checkpoints._scheduler for one in now.values()), None)
        made = () if scheduler is None else scheduler._made.get(IdleMinMax.name, ())
        policy = next((one for one in made if isinstance(one, IdleMinMax)), None)
        assert policy is not None or not made, "a policy that is not found would not be checked"
        if policy is None or policy.entry is self._entries.get(own):
            return
        self._entries[own] = policy.entry
        backups = {now[unit].of.backup for unit in policy.entry if unit in now}
        if len(backups) > 1:
            self._note(f"merged: {', '.join(policy.entry)} are captured as one, with backups {sorted(backups)}")

    def _look_at_overdue(self, own: str, before: dict[str, Seen], now: dict[str, Seen]) -> None:
        """A unit may not notice at once that it need not wait any more for a capture of another one, and the clock of a
        worker is ahead by what its turn took.
        """
        known = self._overdue.get(own, {})
        free = not any(one.encoding or before.get(name, one).captured_ms < one.captured_ms for name, one in now.items())
        both = [
            name
            for name, one in now.items()
            if one.overdue and name in before and before[name].overdue and (free or one.terms.policy in TIMED)
        ]
        self._overdue[own] = {
            name: known.get(name, self._now_us()) for name in both if now[name].terms == before[name].terms
        }
        for name, since_us in self._overdue[own].items():
            if now[name].terms.policy in (*IDLE, *TIMED) and self._now_us() - since_us > OVERDUE_US:
                self._note(f"overdue: {name} is not captured, and its interval is over")

    def _look(self, unit: str, was: Seen, one: Seen, before: dict[str, Seen], now: dict[str, Seen]) -> None:
        others = {name for name in before if name != unit and now[name].encoding and before[name].encoding}
        throughout = {name for name in others if not now[name].begun(before[name])}
        if was.terms != one.terms:
            return  # another policy is followed since, from some moment of the turn on
        if one.terms.policy in IDLE and one.begun(was):
            if throughout or (one.encoding and any(now[name].encoding for name in now if name != unit)):
                self._note(f"captures: {unit} was captured while another capture of its worker was written")
            elif not one.ended and one.captured_ms - was.captured_ms < one.terms.min_interval_ms:
                self._note(f"interval: {unit} was captured {one.captured_ms - was.captured_ms:.0f} ms after its last")
        if one.begun(was) and not one.ended and (wrong := early(one.terms, was.captured_ms, one.captured_ms)):
            self._note(f"{wrong}: {unit}")
        whole = {name for name in throughout if now[name].leads and now[name].terms.policy == "whole-worker"}
        if whole and one.terms.policy == "whole-worker" and one.batch > was.batch:
            self._note(f"whole: {unit} processed a batch during the checkpoint of its worker")
        if one.terms.policy == "aligned":
            self._aligned(unit, was, one)

    def _aligned(self, unit: str, was: Seen, one: Seen) -> None:
        every = one.terms.every_batches
        if one.begun(was) and one.captured_batch % every and not one.ended:
            self._note(f"aligned: {unit} was captured after batch {one.captured_batch}, one in {every} is to be")
        due = one.batch // every * every
        passed = was.batch <= due < one.batch and max(one.captured_batch, one.marked) < due
        if passed and was.marked < due and one.applied == was.applied:
            self._note(f"aligned: {unit} processed batch {one.batch} and was not captured after batch {due}")

    def _note(self, wrong: str) -> None:
        if len(self.wrong) < 10:
            self.wrong.append(wrong)
